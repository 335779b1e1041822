"""Units of several records: their bounds, in integers; zero on average, whatever outcomes decided; places."""

import math

import numpy as np
import pytest
from scipy import stats

from pymc_dp.likelihood.comparisons import SCORE_GRID, SLOPE_GRID, Bounds, Totals, compare
from pymc_dp.likelihood.fit import CELLS, count_places
from pymc_dp.records.twins import Chunk
from tests.likelihood.records import hostile
from tests.likelihood.test_comparisons import P, largest, planted
from tests.likelihood.test_fit import PARTS
from tests.likelihood.test_measurements import term_of

BOUNDS = Bounds(1.5, 0.7)
# One test in ten million of what is right fails, of some dozens; seeds are fixed.
FAR, ALARM = 6.0, 1e-8


def one_by_one(records, first, bounds, function=compare):
    """What each unit adds by itself: scores, and slopes with variances."""
    own, group, weights, rows = records
    scores, slopes = [], []
    for start, end in zip(first, [*first[1:], len(own)], strict=True):
        some, totals = slice(start, end), Totals(rows.shape[2])
        given = None if weights is None else weights[:, some]
        here = rows[:, some] if rows.shape[1] > 1 else rows
        function(own[some], group[:, some], given, here, bounds, totals, np.zeros(1, dtype=np.int64))
        scores.append(totals.score)
        slopes.append(np.append(totals.slope, totals.variances))
    return np.array(scores), np.array(slopes)


def starts(random, m, most):
    return np.flatnonzero(np.append(True, random.random(m - 1) < 1 / most))


@pytest.mark.parametrize("k, number, weighted, most", [(1, 2, True, 4), (2, 17, False, 3), (2, 5, False, 40)])
def test_what_a_unit_adds_is_bounded_in_integers(k, number, weighted, most):
    random = np.random.default_rng(1)
    records, first = hostile(random, 6000, k, P, number, weighted), starts(random, 6000, most)
    records[0][::7] *= 1e-2  # some that do not reach the bounds at once
    scores, slopes = one_by_one(records, first, BOUNDS)
    norm, apart = largest(scores, SCORE_GRID)
    assert 0.99 < norm <= 1 and apart <= 2
    norm, apart = largest(slopes, SLOPE_GRID)
    assert 0.9 < norm <= 1 and apart**2 <= 2
    assert slopes[:, -P:].min() >= 0
    # In chunks of units they add up to the same.
    own, group, weights, rows = records
    whole = Totals(P)
    compare(own, group, weights, rows, BOUNDS, whole, first)
    assert np.array_equal(whole.score, scores.sum(0))
    assert np.array_equal(np.append(whole.slope, whole.variances), slopes.sum(0))


@pytest.mark.parametrize(
    "what, faults",
    [
        (
            "scores",
            [("of_score = squared", "of_score = 0.0"), ("before[:] = extra", "add_to(score, extra)")],
        ),
        ("slopes", [("of_slope += added", "of_slope = 0.0")]),
    ],
)
def test_bounds_that_forget_the_records_before_are_noticed(what, faults):
    random = np.random.default_rng(2)
    records, bounds = mild(random, 200), Bounds(0.5, 1e3) if what == "scores" else BOUNDS
    found = dict(zip(("scores", "slopes"), one_by_one(records, np.arange(0, 200, 8), bounds), strict=True))
    grid = {"scores": SCORE_GRID, "slopes": SLOPE_GRID}[what]
    assert np.linalg.norm(found[what], axis=1).max() <= grid
    wrong = one_by_one(records, np.arange(0, 200, 8), bounds, planted(*faults))
    found = dict(zip(("scores", "slopes"), wrong, strict=True))
    assert np.linalg.norm(found[what], axis=1).max() > 1.3 * grid


def mild(random, m, k=2, number=6):
    """Records whose sums are beyond the bounds, though each is not."""
    group = 0.4 * random.normal(size=(number, m, k))
    return group[0], group, None, random.normal(size=(k, m, P))


def test_slopes_of_many_records_are_kept_in_a_matrix():
    """The same to the last bit but for the order of sums: of many vectors, and of those not yet folded."""
    records = mild(np.random.default_rng(3), 120)
    bounds, first = Bounds(9.0, 90.0), np.array([0, 50])
    found = one_by_one(records, first, bounds)
    never = one_by_one(records, first, bounds, planted(("- folded > p and", "- folded > 1e9 and")))
    for one, other in zip(found, never, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * SLOPE_GRID)
    wrong = planted(("fold(vectors, begin, folded, i * k + k, matrix)", "matrix[:] = 0.0"))
    assert np.linalg.norm(one_by_one(records, first, Bounds(9.0, 9.0), wrong)[1], axis=1).max() > SLOPE_GRID
    assert np.linalg.norm(one_by_one(records, first, Bounds(9.0, 9.0))[1], axis=1).max() <= SLOPE_GRID


@pytest.mark.parametrize("bounds", [Bounds(0.3, 1.0), Bounds(2.0, 0.3), Bounds(2.0, 9.0)], ids=str)
@pytest.mark.parametrize("weighted", [False, True], ids=["twins", "outcomes"])
def test_the_last_record_adds_zero_on_average_given_those_before(bounds, weighted):
    """Exactly, up to rounding: with each point of its group in turn, of units of one to five records."""
    random, apart = np.random.default_rng(4), []
    for m in (1, 2, 5):
        own, group, _, rows = mild(random, m, 2, 7)
        group[:, -1] = np.exp(2 * random.normal(size=(7, 2)))
        weights = random.dirichlet(np.ones(7), m).T if weighted else None
        first, found = np.zeros(1, dtype=np.int64), []
        for point in group[:, -1]:
            mine = np.vstack([own[:-1], point])
            found.append(one_by_one((mine, group, weights, rows), first, bounds))
        before = np.zeros(P)
        if m > 1:
            part = (own[:-1], group[:, :-1], None if weights is None else weights[:, :-1], rows[:, :-1])
            before = one_by_one(part, first, bounds)[0][0]
        each = np.full(7, 1 / 7) if weights is None else weights[:, -1]
        mean = each @ [scores[0] - before for scores, _ in found]
        assert np.abs(mean).max() < 2
        assert all(np.array_equal(found[0][1], slopes) for _, slopes in found)
        other = one_by_one((np.vstack([own[:-1], -point]), group, weights, rows), first, bounds)
        apart.append(np.abs(other[0] - found[-1][0]).max())
    assert max(apart) > 100  # control: a point that is not of the group


# outcomes that decide what comes after them


def until_the_event(random, units, effect=0.0):
    """0/1 in each period until the first 1, at most six: all outcomes are taken."""
    p = 1 / (1 + np.exp(1.0 - effect * random.normal(size=(units, 1)) - 0.1 * np.arange(6)))
    events = random.random((units, 6)) < p
    there = np.cumsum(events, axis=1) - events == 0
    model = np.broadcast_to(1 / (1 + np.exp(1.0 - 0.1 * np.arange(6))), p.shape)[there]
    x = np.stack([np.ones(len(model)), np.nonzero(there)[1] - 2.0], axis=1)
    own = (events[there] - model)[:, None]
    group = np.stack([-model, 1 - model])[:, :, None]
    return (own, group, np.stack([1 - model, model]), x[None]), np.append(0, np.cumsum(there.sum(1))[:-1])


def given_the_last(random, units, effect=0.0):
    """Five numbers of a person, each around .8 of the one before: twins are drawn."""
    e = random.normal(size=(20, units, 5))
    e[0] += effect * random.normal(size=(units, 1))
    e /= math.hypot(1, effect) if effect else 1.0
    e[1:] = random.normal(size=(19, units, 5))
    y = np.zeros((units, 6))
    for t in range(5):
        y[:, t + 1] = 0.8 * y[:, t] + e[0, :, t]
    scores = np.stack([e, e**2 - 1], axis=-1).reshape(20, -1, 2)
    x = np.zeros((2, units * 5, 3))
    x[0, :, 0], x[0, :, 1], x[1, :, 2] = 1.0, y[:, :-1].ravel(), 1.0
    return (scores[0], scores, None, x), np.arange(0, 5 * units, 5)


KINDS = {"until the event": until_the_event, "given the last": given_the_last}


def z_of(records, first, bounds):
    """Standard errors that the mean of units' scores is away from zero: by batches of units."""
    found = []
    own, group, weights, rows = records
    for units in np.array_split(np.arange(len(first)), 100):
        some = slice(first[units[0]], first[units[-1] + 1] if units[-1] + 1 < len(first) else len(own))
        given = None if weights is None else weights[:, some]
        totals, here = Totals(rows.shape[2]), first[units] - first[units[0]]
        compare(own[some], group[:, some], given, rows[:, some], bounds, totals, here)
        found.append(totals.score)
    found = np.array(found)
    return found.mean(0) / found.std(0, ddof=1) * 10


@pytest.mark.parametrize("clip", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_zero_on_average_whatever_outcomes_decided(kind, clip):
    records, first = KINDS[kind](np.random.default_rng(5), 20_000)
    assert np.abs(z_of(records, first, Bounds(clip, 30.0))).max() < FAR
    assert np.abs(z_of(records, first, Bounds(clip, 0.5))).max() < FAR
    # Control: units whose records are added up, among sums of what is drawn beside them. (Where hardly
    # anything is clipped sums of scores have mean zero in any case.)
    if clip < 3:
        assert np.abs(z_of(added_up(*records, first), np.arange(len(first)), Bounds(clip, 30.0))).max() > FAR


def added_up(own, group, weights, rows, first):
    """Units as one record each, among twins of all their rows at once."""
    if weights is not None:  # of two outcomes
        ones = np.random.default_rng(11).random((19, len(own))) < weights[1]
        group = np.concatenate([own[None], np.where(ones[:, :, None], group[1], group[0])])
    sums = np.array([np.add.reduceat(np.einsum("mk,kmp->mp", one, rows), first) for one in group])
    return sums[0], sums, None, np.eye(sums.shape[2])[:, None]


# places


def places(records, first, seed=6, metric=None):
    metric = np.eye(records[3].shape[2]) if metric is None else metric
    chunk = Chunk(slice(None), [term_of(*records)], first)
    return count_places(chunk, metric, np.random.default_rng(seed))


def distance(counts):
    expected = PARTS * counts.sum()
    return ((counts - expected) ** 2 / expected).sum()


@pytest.mark.parametrize("kind", KINDS)
def test_places_are_uniform_whatever_outcomes_decided(kind):
    limit = stats.chi2.isf(ALARM, CELLS - 1)
    counts = places(*KINDS[kind](np.random.default_rng(7), 40_000))
    assert counts.sum() > 32_000 and distance(counts) < limit
    # An effect of each person that the model does not have is noticed.
    assert distance(places(*KINDS[kind](np.random.default_rng(8), 40_000, 1.0))) > limit


def test_one_unit_is_in_one_cell_at_most():
    random = np.random.default_rng(9)
    for number, weighted in ((0, False), (2, False), (9, True)):
        records, first = hostile(random, 600, 2, P, number, weighted), starts(random, 600, 3)
        ends = np.append(first[1:], 600)
        for seed, (start, end) in enumerate(zip(first, ends, strict=True)):
            own, group, weights, rows = records
            one = (
                own[start:end],
                group[:, start:end],
                None if weights is None else weights[:, start:end],
                rows[:, start:end],
            )
            counts = places(one, np.zeros(1, dtype=np.int64), seed)
            assert set(counts) <= {0.0, 1.0} and counts.sum() <= 1


# what is told


def told(probability, records, function=compare):
    """Slope over the bound of scores, of units that tell 1: each has so many 0/1 records."""
    random, units = np.random.default_rng(10), 400
    own = (random.random((units * records, 1)) < probability) - probability
    group = np.broadcast_to(np.array([-probability, 1 - probability])[:, None, None], (2, *own.shape))
    weights = np.broadcast_to(np.array([1 - probability, probability])[:, None], group.shape[:2])
    row = np.full((1, 1, 1), 1 / math.sqrt(records * probability * (1 - probability)))
    bounds, totals = Bounds(0.75, 40.0), Totals(1)
    function(own, group, weights, row, bounds, totals, np.arange(0, len(own), records))
    return totals.slope[0, 0] * bounds.slope / SLOPE_GRID / units / 0.75


def test_rare_events_are_not_cut_short():
    """Units compared as a whole told .83 and .58, in models of these shapes."""
    assert told(0.3, 6) > 0.65 and told(0.01, 50) > 0.42
    # A control: a stride that is short for events.
    wrong = planted(("stride = find_stride(", "stride = 0.3 * find_stride("))
    assert told(0.01, 50, wrong) < 0.3
