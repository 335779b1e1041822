"""Draws of an information matrix behind a noisy one, against draws that are made another way."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_ndtr, ndtri_exp

from pymc_dp.likelihood import information, mixtures, truncated


def drawn(seen, noise, largest=1e9, *, by=information.draws):
    """Draws where every entry has the same noise."""
    return by(seen, np.full_like(seen, noise), largest, np.ones_like(seen))


def test_entries_that_are_zero_stay_zero():
    """Two blocks of two, and a coordinate that all records see: as rejection has them."""
    random, noise = np.random.default_rng(7), 0.25
    together = np.ones((5, 5))
    together[:4, :4] = np.kron(np.eye(2), np.ones((2, 2)))
    seen = together * (0.1 + 0.7 * np.eye(5))
    tried = random.normal(size=(40_000, 5, 5))
    tried = seen + noise * together * (tried + tried.transpose(0, 2, 1)) / 2
    wanted = tried[np.linalg.eigvalsh(tried)[:, 0] > 0]
    for by in (information.draws, information._chains):
        found = by(seen, noise * together, 1e9, together)
        assert not found[:, together == 0].any() and np.linalg.eigvalsh(found).min() > 0
        one, other = np.linalg.eigvalsh(found), np.linalg.eigvalsh(wanted)
        assert np.all(np.abs(one.mean(0) - other.mean(0)) < 0.4 * other.std(0))
    full = information._chains(seen, np.full((5, 5), noise), 1e9, np.ones((5, 5)))  # a control
    assert full[:, together == 0].all()


def test_one_number_is_a_truncated_normal():
    """Means of 96 draws: within a third of a standard deviation. Seeds are fixed: no false alarms."""
    for seen, noise in ((0.8, 0.5), (0.1, 0.5), (-0.4, 0.5)):
        law = stats.truncnorm(-seen / noise, np.inf, seen, noise)
        one = np.array([[seen]])
        for found in (drawn(one, noise), drawn(one, noise, by=information._chains)):
            assert abs(found.mean() - law.mean()) < 0.33 * law.std()
            assert abs(found.std() / law.std() - 1) < 0.25


def test_three_dimensions_are_those_of_rejection():
    random, p, noise = np.random.default_rng(5), 3, 0.3
    seen = np.array([[0.9, 0.2, 0.0], [0.2, 0.7, -0.1], [0.0, -0.1, 0.5]])
    tried = random.normal(size=(20_000, p, p))
    tried = seen + noise * (tried + tried.transpose(0, 2, 1)) / 2
    wanted = tried[np.linalg.eigvalsh(tried)[:, 0] > 0]
    assert 0.2 < len(wanted) / len(tried) < 0.9
    for found in (drawn(seen, noise), drawn(seen, noise, by=information._chains)):
        for of in (np.linalg.eigvalsh, lambda m: m[:, [0, 1, 0], [0, 1, 2]]):
            one, other = of(found), of(wanted)
            assert np.all(np.abs(one.mean(0) - other.mean(0)) < 0.35 * other.std(0))
            assert np.all(np.abs(one.std(0) / other.std(0) - 1) < 0.35)
    # A control: with three times the noise the same comparison fails.
    bent = np.linalg.eigvalsh(drawn(seen, 3 * noise))
    assert np.any(
        np.abs(bent.mean(0) - np.linalg.eigvalsh(wanted).mean(0)) > np.linalg.eigvalsh(wanted).std(0)
    )


def test_all_are_positive_definite_and_within_the_largest_trace():
    random = np.random.default_rng(6)
    for noise in (0.1, 1.0, 10.0):
        seen = random.normal(size=(6, 6)) * noise
        found = drawn((seen + seen.T) / 2, noise, 4.0)
        assert np.linalg.eigvalsh(found).min() > 0
        assert np.trace(found, axis1=1, axis2=2).max() < 4.0 * 1.2


def test_the_same_release_gives_the_same_draws_and_no_noise_the_matrix():
    seen = np.diag([1.0, 0.3])
    np.testing.assert_array_equal(drawn(seen, 0.2, 9.0), drawn(seen, 0.2, 9.0))
    np.testing.assert_allclose(drawn(seen, 0.0, 9.0), seen[None])


def test_what_is_nearly_singular_is_drawn_as_by_rejection():
    """Chains that do not mix leave the least eigenvalue where they start, fifty times too large."""
    seen, noise = np.array([[4.475, -3.359], [-3.359, 2.475]]), np.full((2, 2), 0.029)
    rng = np.random.default_rng(5)
    tried = rng.normal(size=(200_000, 2, 2))
    tried = seen + noise * (tried + tried.transpose(0, 2, 1)) / 2
    least = np.linalg.eigvalsh(tried)[:, 0]
    exact = least[least > 0].mean()
    found = np.linalg.eigvalsh(information._chains(seen, noise, 1e9, np.ones((2, 2))))[:, 0].mean()
    # The standard error of the mean of 96 draws is about a tenth of it.
    assert 0.5 * exact < found < 1.7 * exact


def test_slopes_on_the_way_are_no_steeper_than_the_last_where_rounding_leaves_nothing():
    """A direction of which the last slope says nothing, or less by rounding: no error, no information."""
    last = np.array([[[1.0, 1.0], [1.0, 1.0 - 1e-9]]])
    change = np.array([[3.0, 0.0], [1.0, 2.0]])
    given = np.stack([np.diag([2.0, 5.0]), 1e-3 * np.eye(2)])
    root = change @ mixtures.roots(last)
    found = mixtures.no_steeper(given, root, np.linalg.inv(root))
    like = change @ last[0] @ change.T
    away = np.array([-5.0, 9.0])
    away -= like[0] * (away @ like[0]) / (like[0] @ like[0])  # where the last says nothing
    assert np.isfinite(found).all()
    assert np.linalg.eigvalsh(found).min() > -1e-9
    assert (np.einsum("i,kij,j->k", away, found, away) < 1e-6 * (away @ away)).all()
    root = mixtures.roots(10 * np.eye(2)[None])
    alike = mixtures.no_steeper(given, root, np.linalg.inv(root))
    np.testing.assert_array_equal(alike, given)  # a control: what is less steep is left as it is


def test_truncated_normal_numbers_are_those_of_scipy():
    """In the middle and far out in both tails, in narrow intervals and without an end."""
    rng = np.random.default_rng(0)
    low = rng.normal(size=2000) * 10 ** rng.uniform(-3, 6, 2000)
    high = low + np.abs(rng.normal(size=2000)) * 10 ** rng.uniform(-6, 6, 2000)
    low[:100], high[100:200], uniform = -np.inf, np.inf, rng.uniform(size=2000)
    flip = low + high > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    with np.errstate(invalid="ignore"):
        first, last = log_ndtr(a), log_ndtr(b)
    expected = ndtri_exp(last + np.log(uniform + (1 - uniform) * np.exp(first - last)))
    expected = np.clip(np.where(flip, -expected, expected), low, high)
    found = [truncated.between(*each) for each in zip(low, high, uniform, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("large", [0, 1000])
def test_determinants_and_inverses_are_those_of_numpy(large, monkeypatch):
    """One by one and all at once; and of a matrix that rounding has left with a negative eigenvalue."""
    monkeypatch.setattr(mixtures, "_LARGE", large)
    rng = np.random.default_rng(0)
    usual = rng.normal(size=(4, 3, 5, 5))
    usual = usual @ usual.swapaxes(-1, -2) * rng.uniform(1e-3, 1e3, size=(4, 3, 1, 1))
    found, volumes = mixtures.inverse_and_volume(usual)
    np.testing.assert_allclose(found @ usual, np.broadcast_to(np.eye(5), usual.shape), atol=1e-6)
    np.testing.assert_allclose(volumes, np.linalg.slogdet(usual)[1], rtol=1e-8)
    rounded = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-9]])
    found, volume = mixtures.inverse_and_volume(rounded)
    np.testing.assert_allclose(found, np.linalg.inv(rounded), rtol=0.1)
    assert volume == pytest.approx(np.linalg.slogdet(rounded)[1], abs=0.1)
