"""The test of the model's spread: what one record adds, uniform places of right models, what is said."""

import math
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.likelihood import releases
from pymc_dp.likelihood.fit import (
    CELLS,
    FIT_TWINS,
    Spread,
    count_places,
    judge_fit,
    share_of_fit,
    where_to_look,
)
from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.mixtures import Message, Normal
from pymc_dp.likelihood.near_zero import NO_SPREADS
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.twins import Chunk
from tests.likelihood.records import hostile
from tests.likelihood.test_measurements import (
    DELTA,
    EPSILON,
    METRIC,
    PHI,
    P,
    Records,
    measurements,
    paid,
    some,
    term_of,
)

PARTS = np.array([0.5, 0.3, 0.15, 0.05])
ALARM = 1e-8


def chunk(*terms):
    return Chunk(slice(None), [term_of(*term) for term in terms])


# what one record adds


def test_one_record_is_in_one_cell_at_most():
    random, secret, found = np.random.default_rng(5), PrivacyRandom(1), []
    for number, weighted in ((0, False), (2, False), (20, False), (3, True)):
        for terms in (1, 3):
            parts = [hostile(random, 200, 2, P, number, weighted) for _ in range(terms)]
            for i in range(200):
                one = [
                    (
                        own[i : i + 1],
                        group[:, i : i + 1],
                        w if w is None else w[:, i : i + 1],
                        rows[:, i : i + 1],
                    )
                    for own, group, w, rows in parts
                ]
                found.append(count_places(chunk(*one), METRIC, secret.generator))
    counts = np.array(found)
    assert set(np.unique(counts)) == {0.0, 1.0}
    assert set(counts.sum(1)) == {0.0, 1.0}  # none of those with nothing to compare, or a number not finite
    apart = np.linalg.norm(counts[:, None] - counts, axis=-1).max()
    assert apart == math.sqrt(2) and counts.any(0).all()


def test_what_is_not_finite_counts_nowhere():
    """Warnings are errors here."""
    own, group, _, rows = some(m=6)
    group[2, 0], rows[:, 1], own[2], group[:, 3] = np.nan, 1e300, np.inf, -np.inf
    whole = count_places(chunk((own, group, None, rows)), METRIC, PrivacyRandom(1).generator)
    assert whole.sum() == 2
    bad, other = np.full((4, 6), 0.25), own.copy()  # of all outcomes, beside its own
    other[4] = np.nan
    assert count_places(chunk((other, group, bad, rows)), METRIC, PrivacyRandom(1).generator).sum() == 1
    bad[1, 4:] = -0.1, np.nan
    assert count_places(chunk((own, group, bad, rows)), METRIC, PrivacyRandom(1).generator).sum() == 0


@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
def test_noise_is_that_of_what_was_kept(relation):
    share, rounds = 0.01, 400
    expected = math.sqrt(2 if relation == "substitute" else 1) / (float(gaussian.mu(EPSILON, DELTA)) * 0.1)
    records, found = Records(some()), []
    for seed in range(rounds):
        spending = paid(relation, seed=seed)
        made = Measurements(RecordsHere(records, spending.random), spending, {"spread": share})
        assert made.left == pytest.approx(1 - share)
        made.compare(PHI, METRIC, SimpleNamespace(score=1.0, slope=1.0), 3, (made.left - 1e-6, 1e-6))
        spread = made.spread(PHI, METRIC)
        assert spread.noise == pytest.approx(expected, rel=1e-6)
        found.append(spread.counts - 50 * PARTS)  # the records' own spread, 3.5, is little beside it
        assert made.left == pytest.approx(0, abs=1e-12)
        with pytest.raises(RuntimeError, match="not paid"):
            made.spread(PHI, METRIC)
    total = (np.array(found) ** 2).sum() / (expected**2 + (50 * PARTS * (1 - PARTS)).mean())
    assert stats.chi2.isf(1 - ALARM, rounds * CELLS) < total < stats.chi2.isf(ALARM, rounds * CELLS)
    assert (
        not total / 0.81 < stats.chi2.isf(ALARM, rounds * CELLS) or relation != "substitute"
    )  # a tenth less


def test_the_share_is_public_and_small():
    assert share_of_fit(5_000, 0.27, "substitute") == pytest.approx((math.sqrt(2) / (0.27 * 50)) ** 2)
    assert share_of_fit(1_000, 0.27, "substitute") == 0.025
    assert share_of_fit(10**6, 0.27, "substitute") == share_of_fit(10**6, math.inf, "substitute") == 0.001
    assert share_of_fit(100, 0.27, "substitute") == 0  # nothing would be seen: nothing is spent
    assert share_of_fit(5_000, 0.27, "add_remove") == pytest.approx(
        share_of_fit(5_000, 0.27, "substitute") / 2
    )


# places


def drawn(outcomes, m=20_000, k=2, seed=0):
    """Records among their twins: all drawn by the same function."""
    random = np.random.default_rng(seed)
    group = np.stack([outcomes(random, (m, k)) for _ in range(FIT_TWINS + 1)])
    return group[0], group, None, random.normal(size=(k, m, P))


def all_outcomes(m=20_000, seed=0):
    """Bernoulli outcomes with their probabilities; scores y - p."""
    random = np.random.default_rng(seed)
    p = random.uniform(0.05, 0.95, m)
    own = (random.random(m) < p) - p
    return (
        own[:, None],
        np.stack([-p, 1 - p])[:, :, None],
        np.stack([1 - p, p]),
        random.normal(size=(1, m, P)),
    )


def distance(term):
    """Chi-square of counts from what a right model has."""
    counts = count_places(chunk(*term), METRIC, PrivacyRandom(3).generator)
    expected = PARTS * counts.sum()
    assert counts.sum() == 20_000
    return ((counts - expected) ** 2 / expected).sum()


def test_places_of_right_models_are_uniform():
    limit = stats.chi2.isf(ALARM, CELLS - 1)
    normal = drawn(lambda random, size: random.normal(size=size))
    ties = drawn(lambda random, size: random.poisson(0.7, size) - 0.7)
    zero = (*normal[:3], 0 * normal[3])
    for term in ([normal], [ties], [zero], [all_outcomes()], [normal, ties], [all_outcomes(), normal]):
        assert distance(term) < limit


@pytest.mark.parametrize("kind", ["spread", "weights"])
def test_places_of_wrong_models_are_not(kind):
    """Control: outcomes a tenth further out; and probabilities that are not those of the outcomes."""
    own, group, weights, rows = drawn(lambda random, size: random.normal(size=size))
    group[0] *= 1.1
    wrong = (group[0], group, weights, rows)
    if kind == "weights":
        own, group, weights, rows = all_outcomes()
        wrong = (own, group, weights**2 / (weights**2).sum(0), rows)
    assert distance([wrong]) > stats.chi2.isf(ALARM, CELLS - 1)


# what is said


def test_counts_of_a_right_model_are_found_right():
    """p-values of a right model are at least uniform, and that of one in a hundred is said to be wrong."""
    random, p_values, wider = np.random.default_rng(2), [], np.ones(3)
    for _ in range(2000):
        counts = random.multinomial(5000, PARTS) + random.normal(0, 50, CELLS)
        p_values.append(judge_fit(Spread(counts, 50.0), wider)["p_value"])
    # Differences that are too small to be told, and twice the records' own, make it careful.
    assert 0.001 < np.mean(np.array(p_values) < 0.05) < 0.09
    assert stats.kstest(p_values, "uniform").statistic < 0.08


def test_what_is_said_of_wrong_models():
    wider = np.full(3, 1.5)
    said = judge_fit(Spread(5000 * np.array([0.46, 0.26, 0.17, 0.11]), 40.0), wider)
    assert said["tail"] == pytest.approx(2.2) and said["p_value"] < 1e-4
    assert "further out" in said["said"] and "2.2 times" in said["said"] and "StudentT" in said["said"]
    said = judge_fit(Spread(5000 * np.array([0.60, 0.30, 0.09, 0.01]), 40.0), wider)
    assert "closer in" in said["said"] and "0.2 times" in said["said"]
    said = judge_fit(Spread(5000 * np.array([0.40, 0.43, 0.12, 0.05]), 40.0), wider)
    assert said["said"].startswith("outcomes are not spread")
    right = judge_fit(Spread(5000 * PARTS, 40.0), wider)
    assert "as the model says" in right["said"] and right["p_value"] == pytest.approx(1)
    # Where parameters may be far off, nothing can be told; nor from a handful of records.
    far_off = judge_fit(Spread(5000 * np.array([0.46, 0.26, 0.17, 0.11]), 40.0), np.full(3, 2000.0))
    assert "as far as can be told" in far_off["said"]
    assert judge_fit(Spread(np.zeros(4), 40.0), np.full(3, 1.0))["said"] == "not tested"
    # Nor where parameters are hardly known: the counts are those of a place near the prior's middle.
    elsewhere = Spread(1000 * np.array([0.38, 0.30, 0.19, 0.13]), 20.0)
    assert "further out" in judge_fit(elsewhere, wider)["said"]
    assert "as far as can be told" in judge_fit(elsewhere, wider, hardly=0.8)["said"]
    assert "further out" in judge_fit(elsewhere, wider, hardly=0.05)["said"]
    assert judge_fit(None) == {"said": "not tested", "tail": None, "error": None, "p_value": None}
    # A difference of two per cent is not told, however many records there are.
    assert judge_fit(Spread(1e9 * (PARTS + np.array([0.001, 0, 0, -0.001])), 40.0), wider)["p_value"] > 0.05


def test_where_places_are_looked_at():
    """At the posterior's mean, in its metric."""
    prior = Normal(np.diag([1.0, 4.0]), np.array([1.0, 0.0]))
    information = np.array([[8.0, 1.0], [1.0, 5.0]])
    message = Message(information, np.array([3.0, 1.0]))
    phi, metric, wider, hardly = where_to_look(message, 2 * information, prior)
    covariance = np.linalg.inv(information + prior.precision)
    np.testing.assert_allclose(phi, covariance @ [4.0, 1.0], rtol=1e-9)
    np.testing.assert_allclose(metric.T @ metric, covariance, rtol=1e-9)
    expected = np.linalg.eigvals(2 * information @ covariance)
    np.testing.assert_allclose(np.sort(wider), np.sort(expected), rtol=1e-9)
    assert hardly == 0
    one_told = Message(np.diag([9.0, 0.4]), np.zeros(2))
    assert where_to_look(one_told, information, prior)[3] == 0.5


def test_numbers_that_no_matrix_is_behind_end_no_call(monkeypatch):
    """After payment nothing fails: it is not tested."""

    def fails(*arguments):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(releases, "where_to_look", fails)
    made = measurements(Records(some()), paid())
    made.kept = {"spread": 0.01}
    for information in (np.eye(2), np.zeros((2, 2))):  # and nothing was found
        found = SimpleNamespace(message=Message(information, np.zeros(2)), information=np.eye(2))
        assert releases.look_at_fit(made, found, None, NO_SPREADS)["said"] == "not tested"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
def test_a_right_model_of_which_little_is_known_is_not_said_to_be_wrong():
    """Cutpoints of six groups, a thousand records: places are looked at far from the parameters."""
    random, n = np.random.default_rng([0, 1000]), 1000
    group, cuts = random.integers(0, 6, n), np.sort(random.normal(0, 1, (6, 2)), axis=1)
    y = (random.logistic(size=n)[:, None] > cuts[group]).sum(1)
    ordered, start = pm.distributions.transforms.ordered, np.tile([-1.0, 1.0], (6, 1))
    with pm.Model() as model:
        c = pm.Normal("c", 0, 2, shape=(6, 2), transform=ordered, initval=start)
        pm.OrderedLogistic("y", eta=0.0, cutpoints=c[group], observed=y, compute_p=False)
    released = dp.release_likelihood(model, epsilon=1, delta=1e-6, debug_seed=0)
    little = [one["verdict"] == "says little" for one in released.facts["verdict"].values()]
    assert any(little) and released.facts["fit"]["p_value"] > 0.01


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
def test_a_poisson_on_overdispersed_counts_is_told(tmp_path):
    random, n = np.random.default_rng(1), 5000
    x = random.normal(size=n)
    mean = np.exp(0.7 + 0.3 * x)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1)
        y = pm.Data("y_seen", random.poisson(mean).astype("int32"))
        pm.Poisson("y", pm.math.exp(a + b * pm.Data("x", x)), observed=y)
    right = dp.release_likelihood(model, epsilon=1, debug_seed=1)
    model["y_seen"].set_value(random.poisson(mean * random.gamma(2.5, 1 / 2.5, n)).astype("int32"))
    wrong = dp.release_likelihood(model, epsilon=1, debug_seed=2)
    assert "as the model says" in right.facts["fit"]["said"] and right.facts["fit"]["p_value"] > 0.01
    assert "further out" in wrong.facts["fit"]["said"] and wrong.facts["fit"]["tail"] > 1.5
    wrong.save(tmp_path / "wrong.json")
    again = dp.Likelihood.load(tmp_path / "wrong.json")
    assert again.facts["fit"] == wrong.facts["fit"]
    assert "further out" in " ".join(again.report().split())
    without = dp.release_likelihood(model, epsilon=1, debug_seed=2, fit_test=False)
    assert without.facts["fit"]["said"] == "not tested"
    assert sum(wrong.facts["rounds"]) < 0.99 < sum(without.facts["rounds"])
