"""RandomWalk: step sizes of parts, and a proposal's memory belongs to one chain."""

import pickle

import numpy as np
import pytest

import pymc_dp as dp
from pymc_dp.clipping import LipschitzByPart, LipschitzClip
from pymc_dp.kernels.tuning import largest_acceptance, optimal_guided_walk, optimal_walk
from pymc_dp.proposals import FixedRadius, GaussianWalk, GuidedWalk, OneAtATime
from pymc_dp.proposals.walk import RandomWalk
from tests.steps.test_penalty import ARGS, run, started


def walk(proposal, d=3, **kwargs):
    settings = {"step_size": None, "target_accept": 0.3, "adapt": True}
    return RandomWalk(proposal, d, **(settings | kwargs))


class Recorder:
    """A proposal of the user, with a memory."""

    def __init__(self):
        self.moves, self.seen = [], []

    def move(self, rng, d):
        self.moves.append(rng.standard_normal(d))
        return self.moves[-1]

    def decided(self, accepted):
        self.seen.append((self.moves[-1], accepted))


@pytest.mark.slow
def test_every_decision_reaches_the_proposal_also_after_tuning(logistic):
    mine = Recorder()
    step = started(logistic, tune=10, draws=15, proposal=mine, step_size=1.0, adapt_step_size=False)
    point = logistic.initial_point(0)
    _, first = run(step, point, 10)
    step.stop_tuning()
    points, second = run(step, step.records.unravel(step._chain.state.theta), 15)
    seen = step.moves.proposal.seen
    assert [accepted for _, accepted in seen] == [s["accepted"] for s in first + second]
    place = step.records.ravel(point) + sum(move for move, accepted in seen if accepted)
    np.testing.assert_allclose(place, points[-1])
    assert mine.seen == []  # the user's object is not touched


@pytest.mark.slow
def test_a_second_chain_starts_without_memory(logistic):
    with logistic:
        step = dp.DPPenaltyMH(**{**ARGS, "chains": 2}, proposal="guided")
    one, two = np.random.default_rng(0).spawn(2)
    step.setup_chain(one, 0, 20)
    run(step, logistic.initial_point(0), 20)
    first = step.moves.proposal
    assert first._directions is not None
    step.moves.relative[:] = 7.0
    step.setup_chain(two, 0, 20)
    assert step.moves.proposal is not first and step.moves.proposal._directions is None
    np.testing.assert_allclose(step.moves.relative, 1.0, atol=0.1)


def test_copies_do_not_share_a_memory(logistic):
    step = started(logistic, draws=40, proposal="guided")
    run(step, logistic.initial_point(0), 10)
    directions = step.moves.proposal._directions.copy()
    other = pickle.loads(pickle.dumps(step.moves))
    step.moves.move(step.rng)
    step.moves.decided(False)
    assert not np.array_equal(step.moves.proposal._directions, directions)
    assert np.array_equal(other.proposal._directions, directions)


def decisions(moves, rate, iterations, seed=0):
    """Tune with acceptance probability exp(-rate[part] * length); parts and lengths of the moves."""
    rng, seen = np.random.default_rng(seed), []
    for t in range(1, iterations + 1):
        move = moves.move(rng)
        part, length = int(np.argmax(np.abs(move))), np.abs(move).max()
        accepted = bool(rng.random() < np.exp(-rate[part] * length))
        moves.decided(accepted)
        moves.learn(accepted, t)
        seen.append((part, length, accepted))
    return seen


@pytest.mark.parametrize("proposal", [OneAtATime(scan="systematic"), GuidedWalk()])
def test_each_part_finds_its_own_step(proposal):
    """Rates 100 apart: each part is accepted as often as aimed at; with one step for all none would be."""
    moves = walk(proposal)
    moves.step_size = 0.3
    rate = np.array([1.0, 100.0, 10.0])
    last = decisions(moves, rate, 6000)[3000:]
    for part in range(3):
        accepted = [a for p, _, a in last if p == part]
        assert np.mean(accepted) == pytest.approx(0.3, abs=0.08)  # five standard errors
    common = walk(proposal)
    common.step_size, common.relative = 0.3, np.ones(1)  # control
    last = decisions(common, rate, 6000)[3000:]
    assert all(abs(np.mean([a for p, _, a in last if p == part]) - 0.3) > 0.08 for part in range(2))


def test_without_adaptation_nothing_moves():
    moves = walk(OneAtATime(), adapt=False)
    moves.step_size = 0.3
    decisions(moves, np.ones(3), 50)
    assert moves.step_size == 0.3 and np.all(moves.relative == 1.0)


def test_first_steps_give_every_part_the_noise_that_is_asked_for():
    constants = np.array([0.5, 5.0, 50.0])
    clip = LipschitzByPart(constants).fitted({"a": (3,)})
    moves = walk(OneAtATime([1.0, 2.0, 3.0]))
    moves.set_steps(clip.bound, 0.01)
    bounds = [[], [], []]
    rng = np.random.default_rng(1)
    for _ in range(3000):
        move = moves.move(rng)
        bounds[int(np.argmax(np.abs(move)))].append(clip.bound(move))
    for of_part in bounds:
        assert np.sqrt(np.mean(np.square(of_part))) == pytest.approx(0.01, rel=0.05)
    moves.set_steps(clip.bound, 1e3)  # no longer than 1 to begin with
    assert max(np.linalg.norm(moves.move(rng)) for _ in range(300)) < 1.3


def test_first_step_of_a_fixed_radius_is_exact():
    moves = walk(FixedRadius(0.7), adapt=False)
    moves.set_steps(LipschitzClip(2.0).bound, 5.0)
    assert LipschitzClip(2.0).bound(moves.move(np.random.default_rng(0))) == pytest.approx(5.0, rel=1e-12)
    assert moves.constant_clip_bound(LipschitzClip(2.0), moves.step_size) == pytest.approx(5.0, rel=1e-12)
    assert walk(GaussianWalk(), adapt=False).constant_clip_bound(LipschitzClip(2.0), 1.0) is None


@pytest.mark.slow
def test_default_acceptance_is_that_of_the_best_walk(logistic):
    for proposal, best in (
        ("guided", optimal_guided_walk()),
        ("one_at_a_time", optimal_walk(2, True)),
        ("gaussian", optimal_walk(2, False)),
    ):
        with logistic:
            step = dp.DPPenaltyMH(**ARGS, proposal=proposal)
        assert (step._best_noise_std, step.moves.target_accept) == best


@pytest.mark.slow
def test_constants_by_variable_reach_the_clip(logistic):
    for lipschitz, expected in (
        ({"beta": 2.0}, 2 * np.sqrt(5)),
        ([1.0, 3.0], 7.0),
        ({"beta": [1.0, 3.0]}, 7.0),
    ):
        with logistic:
            step = dp.DPPenaltyMH(**{**ARGS, "lipschitz": lipschitz})
        assert step.clip.bound(np.array([1.0, -2.0])) == pytest.approx(expected)
    with logistic, pytest.raises(ValueError, match="each needs an entry"):
        dp.DPPenaltyMH(**{**ARGS, "lipschitz": {"beat": 2.0}})


def guided_displacement(s, iterations=400, chains=4000):
    """Mean squared displacement an iteration, of moves of length 1 on a flat posterior."""
    rng = np.random.default_rng(3)
    a = largest_acceptance(s)
    directions, place = rng.choice([-1.0, 1.0], chains), np.zeros(chains)
    for _ in range(iterations):
        accepted = rng.random(chains) < a
        place += directions * accepted
        directions = np.where(accepted, directions, -directions)
    return np.mean(place**2) / iterations


def test_a_guided_walk_diffuses_as_stated():
    """a / (1 - a), within five standard errors of 2.2% and the edge effect 1 / iterations."""
    for s in (1.0, 1.73, 2.5):
        a = largest_acceptance(s)
        assert guided_displacement(s) == pytest.approx(a / (1 - a), rel=0.125)
    best, acceptance = optimal_guided_walk()
    assert acceptance == pytest.approx(largest_acceptance(best))
    assert (round(best, 2), round(acceptance, 2)) == (1.73, 0.39)
    worth = [
        s**2 * largest_acceptance(s) / (1 - largest_acceptance(s)) for s in (best - 0.1, best, best + 0.1)
    ]
    assert worth[1] == max(worth)
    plain, rate = optimal_walk(10, True)
    assert worth[1] / (plain**2 * rate) == pytest.approx(1.43, abs=5e-3)
