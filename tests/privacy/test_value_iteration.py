"""Value iteration against adversaries whose delta is computed outright, with no code in common."""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom, norm

import pymc_dp.privacy as privacy
from pymc_dp.privacy.accounting import corners, events, loss_grid
from pymc_dp.privacy.accounting import value_iteration as vi
from pymc_dp.privacy.accounting.accountants import NotApplicableError, value_iteration
from pymc_dp.privacy.accounting.decisions import excess

OFFSETS = np.linspace(-4, 2, 41)
FAR = np.append(np.linspace(-9, -4.1, 50), OFFSETS)  # rare outcomes that say much


def on_batches(q, nm):
    return privacy.BatchPenaltyDecisionDpEvent(round(q * 100_000), 100_000, nm)


def pairs(event, offsets=OFFSETS):
    """Probabilities of accepting on neighbouring data sets, both orders, at some offsets."""
    c, share = 1 / event.noise_multiplier, event.sampling_probability
    p = ndtr(offsets - c / 2)
    q = (1 - share) * p + share * ndtr(offsets + c / 2)
    return [*zip(p, q, strict=True), *zip(q, p, strict=True)]


def losses(p, q):
    return np.array([math.log(p / q), math.log1p(-p) - math.log1p(-q)])


def gaussian_delta(mu, epsilon):
    if mu == 0:
        return -np.expm1(np.minimum(epsilon, 0.0))
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def of_one_pair(p, q, k, epsilon):
    """Delta of k decisions with these probabilities."""
    accepted = np.arange(k + 1)
    total = losses(p, q)[0] * accepted + losses(p, q)[1] * (k - accepted)
    return float(binom.pmf(accepted, k, p) @ gaussian_delta(0, epsilon - total))


def of_the_best_pair(event, k, epsilon):
    return max(of_one_pair(p, q, k, epsilon) for p, q in pairs(event, FAR))


CASES = [
    (on_batches(0.1, 5.0), 261, 1.0, 1e-5, 1.025),
    (on_batches(0.1, 1.0), 59, 4.03, 1e-5, 1.06),  # somebody who chooses is within two per cent, below
    (on_batches(0.01, 2.0), 3887, 1.0, 1e-5, 1.03),
    (on_batches(0.3, 10.0), 1000, 4.65, 1e-9, 1.02),
    # Where rare outcomes decide; the Renyi bound is 1.80, that of the Gaussian behind the bit 1.0005.
    (on_batches(0.001, 0.7214), 2000, 0.94, 1e-6, 1.03),
    (on_batches(0.024, 8.0), 7000, 1.25, 2.8e-11, 1.02),
]


@pytest.mark.slow
@pytest.mark.parametrize(("event", "k", "epsilon", "delta", "factor"), CASES)
def test_above_and_next_to_who_takes_the_best_offset(event, k, epsilon, delta, factor):
    guarantee = privacy.compose([(event, k)], "substitute", reference_delta=delta)
    assert guarantee.accountant == "value iteration"
    found = guarantee.epsilon(delta)
    assert 0.99 * epsilon < found <= epsilon
    assert of_the_best_pair(event, k, found) < delta
    assert of_the_best_pair(event, k, found / factor) > delta  # so near, also a control
    assert of_the_best_pair(event, k, found) < guarantee.delta(found) < 1.1 * delta


@pytest.mark.parametrize("event", [case[0] for case in CASES[:3]])
def test_above_who_chooses_at_each_step(event):
    """All histories of three decisions, the best of 12 pairs at each: exact, no grid."""
    everything = [(p, losses(p, q)) for p, q in pairs(event)[2::7]]

    def value(loss, left):
        if left == 0:
            return np.maximum(-np.expm1(epsilon - loss), 0.0)
        return np.max(
            [
                p * value(loss + one[0], left - 1) + (1 - p) * value(loss + one[1], left - 1)
                for p, one in everything
            ],
            axis=0,
        )

    for share in (0.05, 0.5, 0.8):
        epsilon = share * 3 * max(float(np.max(one)) for p, one in everything if 0.05 < p < 0.95)
        exact = float(value(np.zeros(1), 3)[0])
        bound = value_iteration(privacy.EventSet([(event, 3)], "substitute")).delta(epsilon)
        assert exact < bound < 2 * exact
        alone = max(of_one_pair(p, q, 3, epsilon) for p, q in pairs(event)[2::7])
        assert alone <= exact * (1 + 1e-9)


def of_who_chooses(pairs, k, epsilon, h, low, high):
    """Delta of one who takes the best pair at each of k steps: a lower bound, by tangents in r on a grid."""
    index = np.arange(math.floor(low / h), math.ceil(high / h) + 1)
    z = index * h - epsilon
    value, slope = np.maximum(-np.expm1(-z), 0.0), np.where(z > 0, np.exp(-z), 0.0)  # slope in z
    steps = []
    for p, q in pairs:
        moves = []
        for weight, loss in zip((p, 1 - p), losses(p, q), strict=True):
            m = math.floor(loss / h)
            moves.append((weight, [(n, math.exp(n * h - loss)) for n in (m, m + 1)]))
        steps.append(moves)
    pad = max(abs(n) for moves in steps for _, ends in moves for n, _ in ends)
    right = np.exp(-h * np.arange(1, pad + 1))
    for _ in range(k):
        end = value[-1] + slope[-1] * (1 - right)
        around = np.concatenate([np.zeros(pad), value, end])
        rise = np.concatenate([np.zeros(pad), slope, slope[-1] * right])
        best, at_best = np.full(z.size, -1.0), np.zeros(z.size)
        for moves in steps:
            here, slant = 0.0, 0.0
            for weight, ends in moves:
                (one, two), (first, second) = zip(
                    *[
                        (around[i] + rise[i] * (1 - ratio), rise[i] * ratio)
                        for i, ratio in [(slice(pad + n, pad + n + z.size), ratio) for n, ratio in ends]
                    ],
                    strict=True,
                )
                here = here + weight * np.maximum(one, two)
                slant = slant + weight * np.where(one >= two, first, second)
            at_best = np.where(here > best, slant, at_best)
            best = np.maximum(here, best)
        value, slope = best, at_best
    return value[-index[0]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("q", "nm", "k", "delta", "worth", "factor"),
    [
        # Where rare outcomes decide and choosing is worth much.
        (0.0166, 0.55, 260, 1e-7, 1.4, 1.04),
        (0.116, 0.46, 61, 1e-9, 1.3, 1.03),
        # Small batches, as in the table of docs/proofs/value_iteration.
        (0.1, 5.0, 261, 1e-5, 1.0, 1.02),
        (0.1, 1.0, 59, 1e-5, 1.4, 1.03),
    ],
)
def test_above_who_chooses_at_each_of_many_steps(q, nm, k, delta, worth, factor):
    """Delta of one who follows a strategy, exact: a lower bound, next to the upper one."""
    event = on_batches(q, nm)
    run = value_iteration(privacy.EventSet([(event, k)], "substitute"))
    found = run.epsilon(delta)
    some = pairs(event, np.linspace(-8, 2, 81) + 0.5 / nm)
    alone = np.array([of_one_pair(*pair, k, found) for pair in some])
    best = [some[i] for i in np.argsort(-alone)[:24]]
    deviation = run.spread * math.sqrt(k)
    reach = (-3 * deviation, found + 6 * deviation)
    chosen = of_who_chooses(best, k, found, run.spread / 4, *reach)
    assert worth * alone.max() < chosen < delta
    assert of_who_chooses(best, k, found / factor, run.spread / 4, *reach) > delta  # so near, also a control


@pytest.mark.slow
@pytest.mark.parametrize(("event", "k"), [(on_batches(0.0166, 0.55), 260), (on_batches(0.1, 5.0), 120)])
def test_blocks_are_worth_more_at_all_losses(event, k, monkeypatch):
    """Theorem 3 on one and the same grid, with e but without the factor for rounding."""
    run = value_iteration(privacy.EventSet([(event, k)], "substitute"))
    about = run.epsilon(1e-6)

    def table(first):
        monkeypatch.setattr(vi, "_FIRST", first)
        return run._table(1.1 * about, 10.0, 1e-6)

    (z, steps), (same, blocks) = table(k), table(60)
    assert np.array_equal(z, same)
    assert np.all(steps <= blocks * (1 + 1e-9))
    found = vi.replacement

    def less(*of):
        law = found(*of)
        return law and law._replace(masses=0.9999 * law.masses)

    monkeypatch.setattr(vi, "replacement", less)
    assert not np.all(steps <= table(60)[1] * (1 + 1e-9))  # a control


@pytest.mark.slow
def test_losses_that_overflow_are_not_looked_at():
    run = value_iteration(privacy.EventSet([(on_batches(0.3, 0.12), 300)], "substitute"))
    assert run.epsilon(1e-6) > 690 and run.delta(1.0) == 1  # what is said is the Renyi bound


@pytest.mark.slow
def test_blocks_cost_little_more_than_steps(monkeypatch):
    run = value_iteration(privacy.EventSet([(on_batches(0.1, 5.0), 200)], "substitute"))
    monkeypatch.setattr(vi, "_FIRST", 200)
    steps = run.epsilon(1e-5)
    monkeypatch.setattr(vi, "_FIRST", 60)
    assert steps < run.epsilon(1e-5) < 1.015 * steps


def test_a_law_that_replaces_decisions_is_worth_more_than_each():
    """What `replacement` promises, by a sum over its law and over the outcomes of each decision."""
    corner = corners.of_normal(0.1, 0.2, corners.normal_edges(0.2), closed=True)
    grid = loss_grid.LossGrid(corner, 0.004, -2.0, 2.0, 1e-20)
    values = gaussian_delta(0.1, -grid.z)
    law = loss_grid.replacement(grid, values, 10.0, 1e-12)
    shift = np.arange(law.masses.size) - law.reach
    inside = np.flatnonzero(np.abs(grid.z) < 0.25)[::3]
    after = np.array([law.masses @ values[i + shift] + law.infinite for i in inside])
    assert law.masses.sum() + law.infinite == pytest.approx(1.0, abs=1e-12) and np.all(law.masses >= 0)
    assert law.masses @ np.exp(-shift * grid.spacing) == pytest.approx(1.0, abs=1e-9)
    slack = []
    for p, q in pairs(on_batches(0.1, 5.0)):
        now = sum(
            w * gaussian_delta(0.1, -grid.z[inside] - loss)
            for w, loss in zip((p, 1 - p), losses(p, q), strict=True)
        )
        assert np.all(now <= after + 1e-12)
        slack.append((after - values[inside]) / (now - values[inside]))
    most = np.min(slack, axis=0)
    assert np.all(most < 1.25) and most.min() < 1.03  # no more than that is given away: a control


def test_wide_losses_are_replaced_by_what_is_worth_more():
    """Lemma 2, for laws and for the steps of decisions."""
    corner = corners.of_normal(0.01, 1.4, corners.normal_edges(1.4), closed=True)
    wide, narrow = (loss_grid.LossGrid(corner, 0.05, -2.0, 6.0, 1e-20, far) for far in (math.inf, 1.5))
    assert narrow.pad < wide.pad
    law = loss_grid.Law(np.random.default_rng(1).dirichlet(np.full(301, 0.1)), 0.0)
    folded = narrow.folded(law)
    assert folded.reach == narrow.reach < law.reach
    assert folded.masses.sum() + folded.infinite == pytest.approx(1.0, abs=1e-12)
    for mu in (0.0, 0.1, 1.0):
        values = gaussian_delta(mu, -wide.z)
        for one, other in (
            (wide.moved(values, law), wide.moved(values, folded)),
            (wide.rows(values), narrow.rows(values)),
        ):
            assert np.all(one <= other + 1e-12) and np.max(other - one) > 1e-8
        lost = folded._replace(infinite=0.0)
        assert not np.all(wide.moved(values, law) <= wide.moved(values, lost) + 1e-12)  # a control
        # From where values are lines in the ratio, nothing is lost by the steps.
        assert np.max((narrow.rows(values) - wide.rows(values))[:, wide.z > 4 * mu]) < 1e-6


@pytest.mark.parametrize(("q", "shift"), [(1.0, 0.01), (1.0, 2.0), (0.1, 0.2), (0.01, 1.0), (0.3, 8.0)])
def test_corners_hold_the_curve_of_normal_decisions(q, shift):
    edges = np.append(np.arange(9, 0.01, -0.1), 0.0)
    few = corners.of_normal(q, shift, edges)
    y = np.linspace(-9, 9 - shift, 4001)
    with np.errstate(over="ignore", under="ignore"):
        for order in (1.1, 1 + 1 / shift, 1 + 3 / shift):
            exact = 0.0
            logs = np.array([log_ndtr(y), log_ndtr(-y)])
            other = np.array([log_ndtr(y + shift), log_ndtr(-y - shift)])
            mixed = np.logaddexp(np.log1p(-q) + logs, np.log(q) + other) if q < 1 else other
            for one, two in ((logs, mixed), (mixed, logs)):
                exact = max(exact, float(np.max(np.exp(order * one + (1 - order) * two).sum(0))) - 1)
            found = excess(few, order).max()
            assert exact * (1 - 1e-6) < found
            if order * shift < 4:  # else the largest is further out
                assert math.log1p(found) < 1.01 * math.log1p(exact)
                assert excess(corners.Corners(few.lower, few.gap * 0.99), order).max() < exact  # control


@pytest.mark.parametrize("delta", [1e-30, 1e-15, 0.3])
def test_deltas_of_all_sizes(delta):
    for event, k in ((on_batches(1.0, 3.0), 2), (on_batches(0.1, 2.0), 30), (on_batches(0.1, 0.5), 9)):
        run = value_iteration(privacy.EventSet([(event, k)], "substitute"))
        found = run.epsilon(delta)
        if found < math.inf:
            assert of_the_best_pair(event, k, found) <= delta
            there = run.delta(found)  # on a grid of its own
            assert of_the_best_pair(event, k, found) <= there
            assert 0.4 * delta < there or found == 0


def test_what_it_does_not_hold():
    barker, batches = events.BoundedRangeDecisionDpEvent(0.1), on_batches(0.1, 5.0)
    for wrong in (
        [barker],
        [events.PenaltyDecisionDpEvent(10.0)],
        [batches, on_batches(0.1, 6.0)],
        [(batches, 3), GaussianDpEvent(1.0)],
        [(batches, 100_001)],
        [on_batches(0.1, 0.05)],
        [],
    ):
        with pytest.raises(NotApplicableError, match="on batches alone"):
            value_iteration(privacy.EventSet(wrong, "substitute"))


@pytest.mark.parametrize("epsilon", [690.0, 705.0, 720.0, 1000.0, 1e5])
def test_where_losses_overflow_there_is_no_bound_but_one(epsilon):
    """A NaN would not be above any budget."""
    run = value_iteration(privacy.EventSet([(on_batches(1.0, 0.2), 2)], "substitute"))
    assert 0 <= run.delta(epsilon) <= 1
