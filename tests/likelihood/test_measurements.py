"""The noisy sums of a round: what one record moves them by, their noise, and what was paid for them."""

import math
import warnings
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pymc_dp.errors import NotPrivateWarning
from pymc_dp.likelihood.comparisons import SCORE_GRID, SLOPE_GRID, VARIANCE_WEIGHT, Bounds
from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.score_sizes import LOWEST, OCTAVES, count_octaves
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import ExactSum, PrivacyRandom
from pymc_dp.records.twins import Chunk
from tests.likelihood.records import hostile

EPSILON, DELTA, P = 1.0, 1e-6, 3
RELATIONS = ("substitute", "add_remove")
BOUNDS, METRIC, PHI = Bounds(1.5, 0.7), np.diag([1.0, 2.0, 0.5]), np.zeros(P)
# Ten kinds of noise: false alarms below 1e-6 together.
ALARM = 1e-8


def term_of(own, group, weights, rows):
    return SimpleNamespace(
        own=own, group=group, weights=weights, at_risk=False, rows=lambda metric: rows @ metric
    )


class Records:
    """Given records; counts how often they are read."""

    def __init__(self, *terms, touched=2):
        self.terms, self.touched = [term_of(*term) for term in terms], touched
        self.size, self.rank, self.lookups, self.sums, self.reads = P, 2, [], [], 0
        self.apart, self.doubtful = [self], {}

    def __call__(self, phi, twins, random, each):
        self.reads += 1
        yield lambda: Chunk(slice(None), self.terms)


def measurements(records, spending):
    return Measurements(RecordsHere(records, spending.random), spending)


def some(seed=0, m=50, k=2):
    random = np.random.default_rng(seed)
    group = random.normal(size=(4, m, k))
    return group[0], group, None, random.normal(size=(k, m, P))


def paid(relation="substitute", epsilon=EPSILON, shares=(1.0,), seed=None):
    spending = Spending(epsilon, DELTA, list(shares), relation, debug_seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        spending.pay()
    return spending


# noise

ROUNDS, SHARE = 2200, 5e-5
LOWER = np.tril_indices(P, -1)


def expected(relation):
    """Noise of each kind, from the budget: of one release of this share."""
    two, mu = (2.0 if relation == "substitute" else 1.0), float(gaussian.mu(EPSILON, DELTA))
    slope = math.sqrt(two) * BOUNDS.slope / (mu * math.sqrt(SHARE))
    return {
        "score": two * BOUNDS.score / (mu * math.sqrt(SHARE)),
        "diagonal": slope,
        "lower": slope / math.sqrt(2),
        "variances": slope / VARIANCE_WEIGHT,
        "scales": math.sqrt(two * 2) / (mu * math.sqrt(SHARE)),
    }


def numbers_of(one, scales):
    return {
        "score": one.score,
        "diagonal": np.diag(one.slope),
        "lower": one.slope[LOWER],
        "variances": one.variances,
        "scales": scales.counts.ravel()[:6],
    }


def spread_of(relation):
    """Mean squares of noise over what they should be, and how many numbers there are; and two sums."""
    records = Records(some())
    without = measurements(records, paid(epsilon=math.inf))
    exact = numbers_of(without.compare(PHI, METRIC, BOUNDS, 3, (SHARE, SHARE)), without.scales(PHI, 3, SHARE))
    made, found, stds = measurements(records, paid(relation, seed=1)), [], expected(relation)
    for _ in range(ROUNDS):
        one, scales = made.compare(PHI, METRIC, BOUNDS, 3, (SHARE, SHARE)), made.scales(PHI, 3, SHARE)
        found.append(numbers_of(one, scales))
    assert np.array_equal(one.slope, one.slope.T)
    said = [one.score_noise, one.slope_noise, one.variance_noise, scales.noise]
    np.testing.assert_allclose(
        said, [stds[k] for k in ("score", "diagonal", "variances", "scales")], rtol=1e-8
    )
    assert made.left == pytest.approx(1 - 3 * SHARE * ROUNDS)
    z = {kind: np.array([each[kind] - exact[kind] for each in found]) / std for kind, std in stds.items()}
    return {kind: (float((v**2).sum()), v.size) for kind, v in z.items()}


def right(total, count):
    return stats.chi2.isf(1 - ALARM / 2, count) < total < stats.chi2.isf(ALARM / 2, count)


@pytest.mark.parametrize("relation", RELATIONS)
def test_noise_has_the_stated_scale(relation):
    for kind, (total, count) in spread_of(relation).items():
        assert right(total, count), kind


def test_a_tenth_less_noise_is_noticed(monkeypatch):
    """Control."""
    normals = PrivacyRandom.normals
    monkeypatch.setattr(PrivacyRandom, "normals", lambda self, size: 0.9 * normals(self, size))
    found = spread_of("substitute")
    assert not any(right(*each) for each in found.values())


def test_infinite_epsilon_has_no_noise():
    records = Records(some())
    a, b = (
        measurements(records, paid(epsilon=math.inf)).compare(PHI, METRIC, BOUNDS, 3, (share, share))
        for share in (0.5, 0.01)
    )
    assert a.score_noise == a.slope_noise == a.variance_noise == a.trace_noise == 0.0
    assert np.array_equal(a.score, b.score) and np.array_equal(a.slope, b.slope)
    assert np.array_equal(a.variances, b.variances) and a.trace == a.variances.sum()
    # It is a sum of integers in the stated units.
    for value, unit in ((a.score, BOUNDS.score / SCORE_GRID), (a.slope, BOUNDS.slope / SLOPE_GRID)):
        np.testing.assert_allclose(value / unit, np.rint(value / unit), rtol=0, atol=1e-6)


# what one record moves the sums by


def lone(record, terms, touched=2):
    """A source with one unit, whose every term is that record."""
    return Records(*[record] * terms, touched=touched)


@pytest.mark.parametrize("terms", [1, 3])
def test_one_record_moves_a_release_by_its_sensitivity_at_most(terms):
    """Without noise, in units of what noise is made for; and the bound is reached."""
    own, group, _, rows = hostile(np.random.default_rng(3), 300, 1, P, 2, False)
    scores, slopes = [], []
    for i in range(300):
        record = own[i : i + 1], group[:, i : i + 1], None, rows[:, i : i + 1]
        made = measurements(lone(record, terms), paid(epsilon=math.inf))
        one = made.compare(PHI, METRIC, Bounds(1.5, 1e9), 3, (0.2, 0.2))
        scores.append(one.score / 1.5)
        one = made.compare(PHI, METRIC, Bounds(1e9, 0.7), 3, (0.2, 0.2))
        # As noise sees it: entries off the diagonal have noise over sqrt(2).
        packed = [np.diag(one.slope), math.sqrt(2) * one.slope[LOWER], one.variances * VARIANCE_WEIGHT]
        slopes.append(np.concatenate(packed) / 0.7)
    for vectors, most in ((np.array(scores), 2.0), (np.array(slopes), math.sqrt(2))):
        norms = np.linalg.norm(vectors, axis=1).max()
        apart = np.linalg.norm(vectors[:, None] - vectors, axis=-1).max()
        assert 0.98 < norms <= 1 + 1e-12
        assert 0.96 * most < apart <= most * (1 + 1e-12)


@pytest.mark.parametrize("touched", [1, 2, P])
def test_one_record_moves_scales_by_their_sensitivity_at_most(touched):
    random = np.random.default_rng(4)
    found = []
    for number, weighted in ((0, False), (3, False), (3, True)):
        own, group, weights, rows = hostile(random, 200, 2, P, number, weighted)
        for i in range(200):
            given_weights = None if weights is None else weights[:, i : i + 1]
            term = term_of(own[i : i + 1], group[:, i : i + 1], given_weights, rows[:, i : i + 1])
            found.append(count_octaves(Chunk(slice(None), [term, term]), P, touched).ravel())
    counts = np.array(found)
    assert set(np.unique(counts)) == {0.0, 1.0}
    assert counts.reshape(-1, P, OCTAVES).sum(2).max() == 1
    assert counts.sum(1).max() == touched
    apart = counts.sum(1)[:, None] + counts.sum(1) - 2 * counts @ counts.T
    assert apart.max() == 2 * touched


def test_twins_that_are_alike_have_an_octave_of_their_own():
    """The first; whatever the record's own score is. Others have that of their standard deviation."""
    own, group = np.full((1, 1), 8.0), np.array([8.0, 3.0, 3.0, 3.0])[:, None, None]
    rows = np.array([[[1.0, 0.25]]])
    alike = count_octaves(Chunk(slice(None), [term_of(own, group, None, rows)]), 2, 2)
    assert np.array_equal(np.argwhere(alike), [[0, 0], [1, 0]])
    group[2:, 0, 0] = 1.0, 5.0  # a standard deviation of 1.63, and of .41
    apart = count_octaves(Chunk(slice(None), [term_of(own, group, None, rows)]), 2, 2)
    assert np.array_equal(np.argwhere(apart), [[0, LOWEST], [1, LOWEST - 2]])


def test_counting_says_nothing_of_what_overflows():
    """Warnings are errors here."""
    own, group, weights, rows = some()
    group[1, 3], group[:, 4], rows[:, 5] = np.inf, 1e300, 1e200
    count_octaves(Chunk(slice(None), [term_of(own, group, weights, rows)]), P, 2)
    records = Records((own, group, weights, rows))
    measurements(records, paid()).compare(PHI, METRIC * 1e200, BOUNDS, 3, (0.5, 0.5))


# what was paid


def test_nothing_is_read_that_was_not_paid_for():
    for spending, shares in (
        (Spending(EPSILON, DELTA, [1.0], "substitute"), (0.1, 0.1)),
        (paid(), (0.6, 0.6)),
        (paid(), (1.0 + 1e-9, 0.1)),
        (paid(), (0.5, 0.0)),
        (paid(), (-0.5, 0.1)),
        (paid(), (math.nan, 0.1)),
    ):
        records = Records(some())
        with pytest.raises(RuntimeError, match="not paid"):
            measurements(records, spending).compare(PHI, METRIC, BOUNDS, 3, shares)
        assert records.reads == 0
    made = measurements(records, paid())
    made.scales(PHI, 3, 1.0)
    assert records.reads == 1 and made.left == 0
    with pytest.raises(RuntimeError, match="not paid"):
        made.scales(PHI, 3, 1e-300)
    assert records.reads == 1


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.one_of(st.floats(allow_nan=True), st.floats(1e-12, 1.0)), max_size=60),
    st.lists(st.floats(0.01, 0.3), min_size=1, max_size=3),
    st.booleans(),
)
def test_portions_are_never_more_than_the_whole(asked, shares, between):
    """In exact arithmetic, whatever is asked for, and whatever is released besides."""
    spending = Spending(EPSILON, DELTA, shares, "substitute")
    spending._paid = True
    spent, whole = Fraction(0), Fraction(spending.multipliers[0]) ** -2
    if between:
        spending.release(ExactSum(0.0), 1.0)
        spent, whole = Fraction(0), (Fraction(spending._left[0]) ** -2 if spending._left else Fraction(0))
    for share in asked:
        try:
            multiplier = spending.portion(share)
        except RuntimeError:
            continue
        spent += Fraction(multiplier) ** -2 if math.isfinite(multiplier) else 0
    assert spent <= whole * (1 + Fraction(1, 10**12))
    if spent:
        with pytest.raises(RuntimeError, match="not paid"):
            spending.release(ExactSum(0.0), 1.0)
    # What is said to be left can be had.
    if spending._left and spending.unspent > 0:
        spending.portion(spending.unspent)
        assert spending.unspent < 2**-50
    # What that leaves for rounding is more than it takes.
    total = sum(Fraction(one) ** -2 for one in spending.multipliers)
    assert total * (1 + Fraction(1, 10**12)) <= Fraction(float(gaussian.mu(EPSILON, DELTA))) ** 2


def test_equal_portions_of_all_sizes_add_up_to_the_whole():
    """They can be all of it, and one more is refused."""
    for count in (1, 2, 8, 64):
        spending = paid()
        found = [spending.portion(1 / count) for _ in range(count)]
        assert math.fsum(one**-2 for one in found) == pytest.approx(spending.multipliers[0] ** -2, rel=1e-12)
        with pytest.raises(RuntimeError, match="not paid"):
            spending.portion(1e-9)
