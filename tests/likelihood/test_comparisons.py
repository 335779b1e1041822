"""What a record adds: its bounds, in integers; that it is zero on average at the truth; and its slope."""

import hashlib
import inspect
import math
import re
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, special, stats

from pymc_dp.likelihood import comparisons
from pymc_dp.likelihood.centre import hold_together
from pymc_dp.likelihood.comparisons import (
    SCORE_GRID,
    SLOPE_GRID,
    VARIANCE_WEIGHT,
    Bounds,
    Totals,
    compare,
)
from pymc_dp.likelihood.sources import one_after_the_other
from pymc_dp.records.twins import Chunk, TermScores
from tests.likelihood.records import alone, hostile

P, BOUNDS = 4, Bounds(1.5, 0.7)
KINDS = [
    (k, number, weighted)
    for k, number, weighted in product((1, 2, P), (0, 1, 2, 17), (False, True))
    if number or not weighted
]


def planted(*faults):
    """`compare` of a copy of the file, not compiled, in which these strings are replaced."""
    source = inspect.getsource(comparisons).replace("@compiled\n", "")
    for old, new in faults:
        assert source.count(old) >= 1, old
        source = source.replace(old, new)
    names = {"__name__": "planted"}
    exec(compile(source, "planted", "exec"), names)
    return np.errstate(all="ignore")(names["compare"])


def largest(vectors, bound):
    """Largest norm, and largest distance of two of them, in units of a bound; of integers, so exact."""
    assert np.array_equal(vectors, np.rint(vectors))
    assert np.abs(vectors).max() <= bound  # so that sums of products are exact
    products = vectors @ vectors.T
    squares = np.diag(products)
    apart = squares[:, None] + squares - 2 * products
    return np.sqrt(squares.max()) / bound, np.sqrt(apart.max()) / bound


# bounds


@pytest.fixture(scope="module")
def added():
    """Of 450 records of each kind: a hundred thousand pairs."""
    random, found = np.random.default_rng(1), {}
    for kind in KINDS:
        k, number, weighted = kind
        found[kind] = alone(*hostile(random, 450, k, P, number, weighted), BOUNDS)
    return found


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_a_record_adds_is_bounded_in_integers(kind, added):
    scores, slopes = added[kind]
    norm, apart = largest(scores, SCORE_GRID)
    assert norm <= 1 and apart <= 2
    norm, apart = largest(slopes, SLOPE_GRID)
    assert norm <= 1 and apart**2 <= 2
    matrices = slopes[:, :-P].reshape(-1, P, P)
    assert np.array_equal(matrices, matrices.transpose(0, 2, 1))
    assert np.linalg.eigvalsh(matrices).min() >= -1e-6 * SLOPE_GRID
    assert slopes[:, -P:].min() >= 0


def test_any_two_records_of_any_kinds_and_bounds_are_reached(added):
    scores = np.concatenate([scores[::4] for scores, _ in added.values()])
    slopes = np.concatenate([slopes[::4] for _, slopes in added.values()])
    norm, apart = largest(scores, SCORE_GRID)
    assert 0.999 < norm <= 1 and 1.98 < apart <= 2
    norm, apart = largest(slopes, SLOPE_GRID)
    assert 0.98 < norm <= 1 and 1.36 < apart and apart**2 <= 2


# What is beyond the bound is left where it is.
UNCUT = ("cut = room / weight", "cut = 1.0")


@pytest.mark.parametrize(
    "what, faults",
    [
        ("score", [("if squared <= float(SCORE_GRID) * float(SCORE_GRID):", "if squared <= np.inf:")]),
        ("slope", [("<= float(SLOPE_GRID) * float(SLOPE_GRID)", "<= np.inf"), UNCUT]),
        (
            "slope",
            [
                ("+ inner_product(extra, extra)", "* 0.0"),
                UNCUT,
            ],
        ),
    ],
    ids=["score", "slope", "variances"],
)
def test_faults_are_noticed(what, faults):
    """Controls: integers that are not checked, variances that are not counted."""
    random = np.random.default_rng(2)
    bounds = BOUNDS if what == "slope" else Bounds(1.5, 1e9)
    weights = ("min(weight, room) * below_one", "min(weight, room) * 1.05")
    scores, slopes = alone(*hostile(random, 300, 2, P, 3, False), bounds, planted(weights, *faults))
    if what == "score":
        assert np.linalg.norm(scores, axis=1).max() > 1.01 * SCORE_GRID
    else:
        assert np.linalg.norm(slopes, axis=1).max() > 1.01 * SLOPE_GRID


def test_the_distance_of_two_needs_variances_of_one_sign():
    """Of two records along two diagonals, whose slopes are as long as they may be."""
    size = np.sqrt(0.699 / np.hypot(1, VARIANCE_WEIGHT / np.sqrt(2)))
    own = np.array([[size], [-size]])
    records = own, np.stack([own, -own]), None, np.array([[[1, 1], [1, -1]]]) / np.sqrt(2)
    norm, apart = largest(alone(*records, Bounds(9.0, 0.7))[1], SLOPE_GRID)
    assert 0.99 < norm <= 1 and 1.3 < apart and apart**2 <= 2
    fault = ("add_to(variances, extras)", "add_to(variances, extras * np.sign(own[first[unit], 0]))")
    norm, apart = largest(alone(*records, Bounds(9.0, 0.7), planted(fault))[1], SLOPE_GRID)
    assert norm <= 1 and apart**2 > 2.1


def test_a_copy_without_faults_is_the_same():
    """Control of the controls."""
    records = hostile(np.random.default_rng(3), 60, 2, P, 3, False)
    for one, other in zip(alone(*records, BOUNDS), alone(*records, BOUNDS, planted()), strict=True):
        np.testing.assert_allclose(one, other, atol=2**-18 * SLOPE_GRID)


def test_what_is_not_finite_adds_nothing():
    random = np.random.default_rng(4)
    own, group, _, rows = (
        random.normal(size=(8, 2)),
        random.normal(size=(3, 8, 2)),
        None,
        random.normal(size=(2, 8, P)),
    )
    weights = np.full((3, 8), 1 / 3)
    own[0, 1], group[2, 1, 0], rows[1, 2, 3], weights[1, 3], weights[2, 4] = (
        np.nan,
        np.inf,
        -np.inf,
        np.nan,
        -1e-9,
    )
    scores, slopes = alone(own, group, weights, rows, BOUNDS)
    assert not scores[:5].any() and not slopes[:5].any()
    assert scores[5:].any(1).all() and slopes[5:].any(1).all()


# sums


def test_sums_are_exact_in_any_order_and_chunks():
    random = np.random.default_rng(5)
    own, group, weights, rows = hostile(random, 3000, 2, P, 5, False)
    whole, parts = Totals(P), Totals(P)
    compare(own, group, weights, rows, BOUNDS, whole)
    for chunk in np.array_split(random.permutation(len(own)), 7):
        some = Totals(P)
        compare(own[chunk], group[:, chunk], weights, rows[:, chunk], BOUNDS, some)
        parts.add(some)
    for name in ("score", "slope", "variances"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name))
    # Control: some records less.
    compare(own[:-99], group[:, :-99], weights, rows[:, :-99], BOUNDS, some := Totals(P))
    assert not np.array_equal(whole.score, some.score)


# by hand


def by_hand(own, group, weights, rows, bounds):
    """One record's score, slope and variance, the centre by an optimizer instead of passes."""
    squares = np.sort(np.linalg.norm(group @ rows, axis=1) ** 2)[:-1]
    if weights is None and bounds.score**2 < squares.mean():
        sizes = np.sort(np.abs(group), 0)[:-1].mean(0)
        times = np.abs(np.vstack([group, own])) / sizes
        most = np.maximum(10, np.sort(times, 1)[:, -2:-1])
        *group, own = np.vstack([group, own]) * np.minimum(1, most / times)
        group = np.array(group)
    given, weights = weights, np.full(len(group), 1 / len(group)) if weights is None else weights
    u, mine = group @ rows, own @ rows

    def clipped(v):
        return v * np.minimum(1, bounds.score / np.maximum(np.linalg.norm(v, axis=-1), 1e-300))[..., None]

    def huber(a):
        length = np.linalg.norm((group - a) @ rows, axis=1)
        outer = bounds.score * (length - bounds.score / 2)
        return weights @ np.where(length <= bounds.score, length**2 / 2, outer)

    def slope_of(a):
        return -(weights @ clipped((group - a) @ rows)) @ rows.T

    found = optimize.minimize(
        huber, np.median(group, 0), jac=slope_of, method="BFGS", options={"gtol": 1e-12}
    )
    c = found.x @ rows
    kappa = np.linalg.norm(clipped(u - c), axis=1) / np.linalg.norm(u - c, axis=1)
    slope = np.einsum("j,ja,jb->ab", weights * kappa, u - c, u - c)
    variance = np.einsum("j,ja,jb->ab", weights * kappa**2, u - c, u - c)
    extra = VARIANCE_WEIGHT * np.linalg.norm(np.diag(variance))
    far = np.linalg.norm(u - c, axis=1).argmax()
    others = slope - weights[far] * kappa[far] * np.outer(u[far] - c, u[far] - c)
    typical = np.hypot(np.linalg.norm(slope if given is not None else others), extra)
    w = min(1, bounds.slope * (1 if given is not None else 0.8) / typical)
    cut = min(1, bounds.slope / (w * np.hypot(np.linalg.norm(slope), extra)))
    return w * clipped(mine - c), cut * w * slope, cut * w**2 * variance


@pytest.mark.parametrize(
    "bounds, near",
    [(Bounds(4.0, 100.0), 0.002), (Bounds(1.0, 100.0), 0.1), (Bounds(2.0, 0.5), 0.02)],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True], ids=["twins", "outcomes"])
def test_against_an_optimizer(bounds, near, weighted):
    random = np.random.default_rng(6)
    m, k, number = 60, 2, 9
    group, rows = random.standard_t(5, size=(number, m, k)), random.normal(size=(k, m, P))
    weights = random.dirichlet(np.ones(number), m).T if weighted else None
    scores, slopes = alone(group[0], group, weights, rows, bounds)
    for i in range(m):
        given = None if weights is None else weights[:, i]
        score, slope, variance = by_hand(group[0, i], group[:, i], given, rows[:, i], bounds)
        assert np.linalg.eigvalsh(slope - variance).min() >= -1e-9
        np.testing.assert_allclose(scores[i] * bounds.score / SCORE_GRID, score, atol=near * bounds.score)
        unit = bounds.slope / SLOPE_GRID
        found, own = slopes[i, :-P].reshape(P, P) * unit, slopes[i, -P:] * unit / VARIANCE_WEIGHT
        rounding = 2e-3 * bounds.slope
        np.testing.assert_allclose(found, slope, atol=near * np.linalg.norm(slope) + rounding)
        np.testing.assert_allclose(own, np.diag(variance), rtol=near, atol=rounding)
        # The variance is at most the slope, whatever the passes left.
        assert np.all(own <= np.diag(found) + 2 * rounding)


def test_variances_are_those_of_each_coordinate():
    """One with tails, of which the clip takes more. The control is the slope times the ratio of the traces.

    Six standard errors of a mean of 4,000 squares: false alarms below 1e-8, at a fixed seed.
    """
    random, m = np.random.default_rng(12), 4000
    group = np.stack([random.normal(size=(8, m)), random.standard_t(2, size=(8, m))], axis=2)
    bounds = Bounds(2.0, 1e3)
    scores, slopes = alone(group[0], group, None, np.eye(2)[:, None], bounds)
    squares = (scores * bounds.score / SCORE_GRID) ** 2
    unit = bounds.slope / SLOPE_GRID / m
    slope, variance = slopes.sum(0)[:-2].reshape(2, 2) * unit, slopes.sum(0)[-2:] * unit / VARIANCE_WEIGHT
    error = 6 * squares.std(0) / np.sqrt(m)
    assert np.all(np.abs(squares.mean(0) - variance) < error)
    together = np.diag(slope) * variance.sum() / np.trace(slope)
    assert np.all(np.abs(squares.mean(0) - together) > error)


@pytest.mark.parametrize("weighted", [False, True], ids=["twins", "outcomes"])
@pytest.mark.parametrize(
    "bounds", [*(Bounds(10.0**e, 1.0) for e in (-3, -1, 0, 1)), Bounds(0.5, 0.01)], ids=str
)
def test_scores_of_a_group_add_up_to_zero(bounds, weighted):
    """Exactly, up to rounding, whatever the passes left: here far from converged."""
    random = np.random.default_rng(11)
    m, k, number = 40, 2, 7
    group, rows = np.exp(2 * random.normal(size=(number, m, k))), random.normal(size=(k, m, P))
    weights = random.dirichlet(np.ones(number), m).T if weighted else None
    found = [alone(own, group, weights, rows, bounds) for own in group]
    mean = np.einsum(
        "jm,jmp->mp",
        np.full((number, m), 1 / number) if weights is None else weights,
        [one[0] for one in found],
    )
    assert np.abs(mean).max() < 1
    assert all(np.array_equal(found[0][1], one[1]) for one in found)
    # Control: one of them is not in the group.
    other = alone(-group[0], group, weights, rows, bounds)[0]
    assert np.abs(other - found[0][0]).max() > 100


# zero on average at the truth: z of means of batches


M, BATCHES, TWINS = 60_000, 200, 6
# Some eighty coordinates of means and slopes: false alarms below 1e-6 together.
ALARM = stats.t.isf(1e-9, BATCHES - 1)


# Families: outcomes for parameters moved by a shift, and derivatives at shift 0 by location, scale or shape.


def student(random, shape, shift):
    nu = 4 * np.exp(shift[2])
    return shift[0] + np.exp(shift[1]) * random.normal(size=shape) / np.sqrt(random.chisquare(nu, shape) / nu)


def of_student(y):
    nu, r = 4.0, y**2 / 4
    last = 0.5 * (
        special.digamma((nu + 1) / 2)
        - special.digamma(nu / 2)
        - 1 / nu
        - np.log1p(r)
        + (nu + 1) / nu * r / (1 + r)
    )
    return np.stack([(nu + 1) * y / nu / (1 + r), (nu + 1) * r / (1 + r) - 1, nu * last], -1)


def gamma(random, shape, shift):
    return random.gamma(1.5 * np.exp(shift[0]), 2.0 * np.exp(shift[1]), shape)


def of_gamma(y):
    return np.stack([1.5 * (np.log(y / 2) - special.digamma(1.5)), y / 2 - 1.5], -1)


def poisson(random, shape, shift):
    return random.poisson(1.7 * np.exp(shift[0]), shape).astype(float)


def of_poisson(y):
    return (y - 1.7)[..., None]


def mixture(random, shape, shift):
    first = random.random(shape) < special.expit(shift[2])
    y = random.normal(size=shape)
    return y + np.where(first, shift[0] - 1, shift[1] + 1.5)


def of_mixture(y):
    first, second = stats.norm.pdf(y, -1), stats.norm.pdf(y, 1.5)
    q = first / (first + second)
    return np.stack([q * (y + 1), (1 - q) * (y - 1.5), q - 0.5], -1)


def censored(random, shape, shift):
    return np.minimum(shift[0] + np.exp(shift[1]) * random.normal(size=shape), 0.5)


def of_censored(y):
    hazard = stats.norm.pdf(0.5) / stats.norm.sf(0.5)
    out = y >= 0.5
    return np.stack([np.where(out, hazard, y), np.where(out, 0.5 * hazard, y**2 - 1)], -1)


def gaussian(random, shape, shift):
    return shift[0] + np.exp(shift[1]) * random.normal(size=shape)


def of_gaussian(y):
    return np.stack([y, y**2 - 1], -1)


FAMILIES = {
    "normal": (gaussian, of_gaussian, 2),
    "student": (student, of_student, 3),
    "gamma": (gamma, of_gamma, 2),
    "poisson": (poisson, of_poisson, 1),
    "mixture": (mixture, of_mixture, 3),
    "censored": (censored, of_censored, 2),
}
CLIPS = {"wide": Bounds(3.0, 20.0), "narrow": Bounds(0.6, 3.0)}
SKEW = np.array([[1.0, 0, 0], [0.6, 1.3, 0], [0.2, -0.7, 0.8]])


def batches(own, group, weights, rows, bounds):
    """Scores, shape (BATCHES, p), and slopes, (BATCHES, p, p), means over the records of each batch."""
    m, scores, slopes = len(own) // BATCHES, [], []
    for i in range(BATCHES):
        some, totals = slice(i * m, (i + 1) * m), Totals(rows.shape[2])
        row = rows[:, some] if rows.shape[1] > 1 else rows
        given = None if weights is None else weights[:, some]
        compare(own[some], group[:, some], given, row, bounds, totals)
        scores.append(totals.score * bounds.score / SCORE_GRID / m)
        slopes.append(totals.slope * bounds.slope / SLOPE_GRID / m)
    return np.array(scores), np.array(slopes)


def z(values):
    """Largest |t| of the coordinates' means."""
    return float(np.abs(values.mean(0) / (values.std(0, ddof=1) / np.sqrt(len(values)))).max())


@cache
def drawn(family, seed, shape, shift=(0.0, 0.0, 0.0)):
    """Derivatives of outcomes at a shift."""
    draw, score, _ = FAMILIES[family]
    return score(draw(np.random.default_rng(seed), shape, shift))


def simulated(family, shift=(0.0, 0.0, 0.0)):
    """Derivatives of outcomes at a shift, with those of twins at none, and rows."""
    own, size = drawn(family, 1, (M,), shift), FAMILIES[family][2]
    return own, np.concatenate([own[None], drawn(family, 2, (TWINS, M))]), None, SKEW[:size, None, :size]


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_zero_on_average_at_the_truth(family, clip):
    own, group, _, rows = simulated(family)
    scores, _ = batches(own, group, None, rows, CLIPS[clip])
    assert z(scores) < ALARM


@pytest.mark.parametrize("family", ["normal", "student", "gamma", "poisson", "censored"])
def test_scores_without_a_centre_are_not(family):
    """Control: the clip alone."""
    own, group, _, rows = simulated(family)
    scores, _ = batches(own, group[:0], None, rows, CLIPS["narrow"])
    assert z(scores) > 3 * ALARM


@pytest.mark.parametrize("family", ["normal", "censored"])
def test_scores_that_look_at_the_twins_alone_are_not(family):
    """Control: centre and weight of the twins, without the record."""
    own, group, _, rows = simulated(family)
    scores, _ = batches(own, group[1:], None, rows, CLIPS["narrow"])
    assert z(scores) > ALARM


def logistic(m, seed):
    """Rows of a logistic regression with an intercept, and log-odds at the truth."""
    x = np.concatenate([np.ones((m, 1)), np.random.default_rng(seed).standard_t(3, size=(m, 2))], axis=1)
    return x[None], x @ np.array([-1.5, 1.0, 0.5])


def of_logistic(y, odds):
    return (y - special.expit(odds))[..., None]


@pytest.mark.parametrize("clip", CLIPS)
def test_all_outcomes_are_zero_on_average_whatever_they_are(clip):
    """Exactly, for each record, up to rounding towards zero: no simulation is needed."""
    rows, odds = logistic(400, 8)
    group = np.stack([of_logistic(y, odds) for y in (0.0, 1.0)])
    weights = np.stack([1 - special.expit(odds), special.expit(odds)])
    found = [alone(own, group, weights, rows, CLIPS[clip]) for own in group]
    mean = weights[0, :, None] * found[0][0] + weights[1, :, None] * found[1][0]
    assert np.abs(mean).max() < 1
    # The slope does not ask the outcome.
    assert np.array_equal(found[0][1], found[1][1])
    # Control: compared with nothing, or with outcomes that are as probable as each other.
    for faulty in (group[:0], group):
        found = [alone(own, faulty, None, rows, CLIPS["narrow"])[0] for own in group]
        mean = weights[0, :, None] * found[0] + weights[1, :, None] * found[1]
        assert np.abs(mean).max() > 0.01 * SCORE_GRID


@pytest.mark.parametrize("clip", CLIPS)
def test_terms_are_compared_one_after_the_other(clip):
    """With an outcome that is the other's covariate: zero in this order, and not in another or jointly."""
    random = np.random.default_rng(9)
    y = random.normal(size=(TWINS + 1, M))
    chance = special.expit(0.8 * y[0])
    w = random.random((TWINS + 1, M)) < chance
    of_y, of_w = np.zeros((TWINS + 1, M, 2)), np.zeros((TWINS + 1, M, 2))
    of_y[..., 0], of_w[..., 1] = y**2 - 1, (w - chance) * (1 + (y[0] > 0))
    of_w[..., 0] = 0.5 * of_w[..., 1]
    terms = [TermScores(one[0], one, None, None) for one in (of_y, of_w)]
    found = []
    for order in (terms, terms[::-1]):
        own, group, weights, rows, first, leaves = one_after_the_other(Chunk(slice(None), order), np.eye(2))
        assert weights.min() > 0 and leaves.all() and np.array_equal(first, 2 * np.arange(M))
        m, scores = M // BATCHES, []
        for i in range(BATCHES):
            some, totals = slice(2 * i * m, 2 * (i + 1) * m), Totals(2)
            parts = own[some], group[:, some], weights[:, some], rows[:, some]
            compare(*parts, CLIPS[clip], totals, first[:m], leaves[some])
            scores.append(totals.score)
        found.append(z(np.array(scores)))
    assert found[0] < ALARM
    if clip == "narrow":
        assert found[1] > ALARM
    # Control: twins of both, drawn at the recorded y, with one centre.
    both = np.concatenate([of_y[..., :1], ((w - special.expit(0.8 * y)) * y)[..., None]], -1)
    scores, _ = batches(both[0], both, None, np.eye(2)[:, None], CLIPS[clip])
    assert z(scores) > ALARM


# the slope


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("family", ["normal", "student", "gamma", "mixture"])
def test_the_slope_is_the_derivative_of_the_mean_score(family, clip):
    """By finite differences: outcomes move, what they are compared with stays."""
    size, step = FAMILIES[family][2], 0.05
    metric = SKEW[:size, :size]
    _, slopes = batches(*simulated(family), CLIPS[clip])
    for j in range(size):
        ends = []
        for sign in (1, -1):
            shift = np.zeros(3)
            shift[j] = sign * step
            ends.append(batches(*simulated(family, tuple(shift)), CLIPS[clip])[0])
        # In the metric: E M = dE(psi)/dphi A'.
        moved = (ends[0] - ends[1]) / (2 * step) - (slopes @ np.linalg.inv(metric))[:, :, j]
        error = moved.std(0, ddof=1) / np.sqrt(BATCHES)
        whole = slopes.mean(0) @ np.linalg.inv(metric)
        assert np.all(np.abs(moved.mean(0)) < ALARM * error + 0.01 * np.linalg.norm(whole[:, j]))
        # Control: half of it would be noticed.
        assert np.all(ALARM * error < 0.4 * np.linalg.norm(whole))


# what is compiled


@pytest.mark.parametrize("clip", [0.5, 1.5, 4.0])
def test_a_record_that_is_far_away_pulls_its_level(clip):
    """Of a normal outcome the derivative by the scale is nearly all of it: a level had 9% of the bound."""
    random = np.random.default_rng(8)
    r = np.append(15.0, random.normal(size=64))
    group = np.stack([r, r**2 - 1], axis=1)[:, None]
    rows = np.diag([1.0, math.sqrt(0.5)])[:, None]
    scores, _ = alone(group[0], group, None, rows, Bounds(clip, 100.0))
    assert scores[0, 0] > 0.7 * SCORE_GRID
    held = group[:, 0].T.copy()
    hold_together(held, np.full(65, 1 / 65), group[0, 0].copy(), np.diag([1.0, 0.5]), clip)
    np.testing.assert_array_equal(held[:, 1:], group[1:, 0].T)  # no twin is touched
    assert held[0, 0] == 15 and held[1, 0] < 0.1 * group[0, 0, 1]


def test_derivatives_stay_where_the_bound_leaves_usual_scores():
    """Far from the others by one predictor: held where the bound is below the usual length, and else not."""
    gram, points = np.array([[1.0, 0.4], [0.4, 0.5]]), np.full((2, 9), 0.1)
    points[:, 4] = 6.0, 0.1
    usual = math.sqrt(points[:, 0] @ gram @ points[:, 0])
    for clip, first in [(1.01 * usual, 6.0), (0.99 * usual, 1.0)]:
        hold_together(moved := points.copy(), np.full(9, 1 / 9), own := points[:, 4].copy(), gram, clip)
        np.testing.assert_array_equal(moved[:, 4], own)
        assert own[0] == pytest.approx(first)


@pytest.mark.parametrize("clip", [0.01, 60.0])
@pytest.mark.parametrize("k", [2, 3])
def test_what_is_held_together_does_not_depend_on_which_is_the_record(k, clip):
    """So that scores of a group still add up to zero; and a derivative that is rarely there stays.

    Under the wider bound only a point is shortened that is beyond it, and far by two derivatives.
    """
    random = np.random.default_rng(9)
    points = random.standard_cauchy(size=(k, 12))
    points[:, 3], points[0, 7], points[1, 7], gram = 0.0, 300.0, 40.0, np.eye(k) + 0.3
    weights = np.where(np.arange(12) == 5, 0.0, 1 / 11)
    for j in range(12):
        moved, own = points.copy(), points[:, j].copy()
        hold_together(moved, weights, own, gram, clip)
        np.testing.assert_array_equal(own, moved[:, j])
        order = random.permutation(12)
        again = points[:, order].copy()
        hold_together(again, weights[order], points[:, j].copy(), gram, clip)
        np.testing.assert_allclose(again, moved[:, order], rtol=1e-12)
    assert not np.array_equal(moved, points) and np.all(np.abs(moved) <= np.abs(points))
    rare = np.where(np.arange(12) == 7, 1.0, -0.01) * np.ones((k, 1))
    hold_together(moved := rare.copy(), np.full(12, 1 / 12), rare[:, 7].copy(), gram, 0.001)
    np.testing.assert_array_equal(moved, rare)


@pytest.mark.parametrize(
    ("file", "others"),
    [
        ("unit_bounds", ["centre"]),
        ("fit", ["centre"]),
        ("comparisons", ["centre", "unit_bounds"]),
    ],
)
def test_files_name_what_is_compiled_into_them(file, others):
    """Numba keeps what it compiled as long as the file is the same, also where another one was mended.

    The digest that is asked for goes into the file, which is another one then.
    """
    folder = Path(comparisons.__file__).parent
    content = b"".join((folder / f"{other}.py").read_bytes() for other in others)
    text = (folder / f"{file}.py").read_text()
    assert f"compiled in: {hashlib.sha256(content).hexdigest()[:16]} (" in text


def test_all_files_that_are_compiled_into_others_are_known():
    folder, found = Path(comparisons.__file__).parent, set()
    for path in folder.glob("*.py"):
        text = path.read_text()
        if "@compiled\n" in text and re.search(
            r"likelihood\.(centre|unit_bounds) import (?!compiled$)", text, re.M
        ):
            found.add(path.stem)
    assert found == {"unit_bounds", "fit", "comparisons"}
