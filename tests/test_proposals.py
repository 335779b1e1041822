"""Laws of the proposals, and their arguments."""

import copy

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_dp.proposals import (
    PROPOSALS,
    AdaptiveWalk,
    Blocks,
    FixedRadius,
    GaussianWalk,
    GuidedWalk,
    OneAtATime,
    as_proposal,
)

FALSE_ALARM = 1e-6
BLOCKS = [[0, 2], [1], [3, 4]]


def moves(proposal, size, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([proposal.move(rng, d) for _ in range(size)])


@pytest.mark.parametrize(
    "proposal",
    [
        GaussianWalk([1.0, 2, 3, 4, 5]),
        FixedRadius(np.eye(5) + 0.5),
        OneAtATime(),
        OneAtATime([1.0, 2, 3, 4, 5], spread=1.0, scan="systematic"),
        Blocks(BLOCKS, scan="random"),
        AdaptiveWalk(2.0),
    ],
    ids=lambda p: type(p).__name__,
)
def test_moves_are_symmetric(proposal):
    """Each coordinate of moves and of mirrored moves has one law: 6 x 5 comparisons at 1e-6."""
    z = moves(proposal, 20_000)
    for j in range(5):
        assert stats.ks_2samp(z[::2, j], -z[1::2, j]).pvalue > FALSE_ALARM / 30


def test_a_move_that_is_not_symmetric_is_noticed():
    """Control: directions of a guided walk that is never rejected."""
    z = moves(GuidedWalk(), 20_000)
    assert stats.ks_2samp(z[::2, 0], -z[1::2, 0]).pvalue < FALSE_ALARM


@pytest.mark.parametrize("scan", ["random", "systematic"])
def test_one_component_moves_by_a_length_of_its_scale(scan):
    scale = np.array([1.0, 2.0, 4.0])
    proposal = OneAtATime(scale, spread=0.3, scan=scan)
    rng = np.random.default_rng(0)
    z, parts = [], []
    for _ in range(6000):
        z.append(proposal.move(rng, 3))
        parts.append(proposal.part)
    z, parts = np.array(z), np.array(parts)
    assert np.all((z != 0).sum(axis=1) == 1)
    np.testing.assert_array_equal(parts, np.argmax(z != 0, axis=1))
    lengths = np.abs(z).max(axis=1) / scale[parts]
    assert stats.kstest(lengths, stats.uniform(0.7, 0.6).cdf).pvalue > FALSE_ALARM
    if scan == "systematic":
        np.testing.assert_array_equal(parts, np.arange(6000) % 3)
    else:
        assert stats.chisquare(np.bincount(parts, minlength=3)).pvalue > FALSE_ALARM


def test_the_quickstarts_moves_keep_their_law():
    """By .8 to 1.2 step sizes, up or down, of one coefficient picked at random: the README's runs."""
    z = moves(OneAtATime(), 30_000, d=3)
    axis = np.argmax(z != 0, axis=1)
    signed = z[np.arange(z.shape[0]), axis]
    assert stats.chisquare(np.bincount(3 * (signed > 0) + axis)).pvalue > FALSE_ALARM
    assert stats.kstest(np.abs(signed), stats.uniform(0.8, 0.4).cdf).pvalue > FALSE_ALARM


def test_blocks_move_in_turn_and_uniformly_on_a_sphere():
    z = moves(Blocks(BLOCKS), 9000)
    for k, block in enumerate(BLOCKS):
        others = np.delete(z[k::3], block, axis=1)
        assert not others.any()
        length = np.linalg.norm(z[k::3], axis=1)
        if len(block) == 1:
            assert stats.kstest(length, stats.uniform(0.8, 0.4).cdf).pvalue > FALSE_ALARM
        else:
            np.testing.assert_allclose(length, 1.0)
            angle = np.arctan2(z[k::3][:, block[0]], z[k::3][:, block[1]])
            assert stats.kstest(angle, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > FALSE_ALARM
    np.testing.assert_allclose(
        np.linalg.norm(moves(Blocks([[0, 1], [2, 3, 4]], scale=[2, 2, 3, 3, 3]), 4), axis=1), [2, 3, 2, 3]
    )


def test_blocks_of_variables():
    with pm.Model() as model:
        pm.Normal("a", shape=2)
        pm.HalfNormal("s")  # its value variable has another name
        pm.Dirichlet("w", np.ones(3))  # two unconstrained values
        pm.Normal("b")
    names = [v.name for v in model.value_vars]
    assert names == ["a", "s_log__", "w_simplex__", "b"]
    z = moves(Blocks.of_variables(model, ["s", "b"]), 3, d=6)
    assert [np.flatnonzero(row).tolist() for row in z] == [[2, 5], [0, 1], [3, 4]]
    assert Blocks.of_variables(model, "w", scan="random").parts(6) == 4
    for wrong, message in ((["z"], "no free variable 'z'"), (["a", ["a", "b"]], "in two blocks")):
        with pytest.raises(ValueError, match=message):
            Blocks.of_variables(model, *wrong)


def test_guided_walk_keeps_its_direction_until_it_is_rejected():
    proposal, rng = GuidedWalk(), np.random.default_rng(1)
    last = {}
    kept = turned = 0
    for _ in range(2000):
        move = proposal.move(rng, 4)
        j, sign = int(np.argmax(move != 0)), np.sign(move.sum())
        if j in last:
            direction, accepted = last[j]
            assert sign == (direction if accepted else -direction)
            kept, turned = kept + accepted, turned + (not accepted)
        accepted = bool(rng.random() < 0.6)
        proposal.decided(move, accepted, tune=False)
        last[j] = sign, accepted
    assert kept > 1000 and turned > 600


def test_first_directions_are_random():
    """Up and down are equally likely: binomial, two-sided, at 1e-6; and components differ."""
    signs = np.array([moves(GuidedWalk(scan="systematic"), 2, d=2, seed=s).sum(axis=1) for s in range(1000)])
    assert stats.binomtest(int((signs[:, 0] > 0).sum()), 1000).pvalue > FALSE_ALARM
    assert stats.binomtest(int((signs[:, 0] * signs[:, 1] > 0).sum()), 1000).pvalue > FALSE_ALARM


def accepted_draws(proposal, cov, size, tune=True, seed=3):
    """Independence-like chain whose draws have a given covariance: moves are replaced by what leads there."""
    rng = np.random.default_rng(seed)
    factor, place = np.linalg.cholesky(cov), np.zeros(len(cov))
    for _ in range(size):
        new = factor @ rng.standard_normal(len(cov))
        proposal.move(rng, len(cov))
        proposal.decided(new - place, True, tune)
        place = new


def test_adaptive_walk_learns_the_covariance_of_tuning_draws_and_keeps_the_volume():
    cov = np.array([[4.0, 1.8, 0.0], [1.8, 1.0, 0.0], [0.0, 0.0, 0.04]])
    proposal = AdaptiveWalk(0.5)
    accepted_draws(proposal, cov, 2000)
    found = np.cov(moves(copy.deepcopy(proposal), 20_000, d=3).T)
    assert np.linalg.det(found) == pytest.approx(0.5**6, rel=0.1)
    scaled = found / np.sqrt(np.outer(np.diag(found), np.diag(found)))
    assert scaled[0, 1] == pytest.approx(0.9, abs=0.12)  # shrunk a little
    assert found[0, 0] / found[2, 2] == pytest.approx(100, rel=0.35)
    accepted_draws(proposal, np.eye(3), 2000, tune=False)  # fixed after tuning
    np.testing.assert_allclose(np.cov(moves(proposal, 20_000, d=3).T), found, rtol=1e-12)


def test_adaptive_walk_without_a_single_acceptance_stays_as_it_is():
    proposal = AdaptiveWalk(np.diag([1.0, 4.0]))
    rng = np.random.default_rng(0)
    for _ in range(300):
        proposal.decided(proposal.move(rng, 2), False, True)
    assert np.diag(np.cov(moves(proposal, 20_000, d=2).T)) == pytest.approx([1, 4], rel=0.05)
    one = AdaptiveWalk()  # one dimension: nothing to learn but the step size
    accepted_draws(one, np.eye(1), 300)
    assert np.isfinite(one.move(rng, 1))


def test_names():
    for name, proposal in PROPOSALS.items():
        assert type(as_proposal(name)) is proposal
    mine = OneAtATime()
    assert as_proposal(mine) is mine


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_proposal("levy"), "unknown proposal 'levy'; known: fixed_radius, gaussian, guided"),
        (lambda: as_proposal(GuidedWalk), "an object with move"),
        (lambda: OneAtATime(0.0), "positive, finite number"),
        (lambda: OneAtATime([1.0, np.nan]), "positive, finite number"),
        (lambda: OneAtATime(np.eye(2)), "positive, finite number"),
        (lambda: OneAtATime(spread=0), "spread must lie"),
        (lambda: OneAtATime(spread=1.5), "spread must lie"),
        (lambda: GuidedWalk(spread=np.nan), "spread must lie"),
        (lambda: OneAtATime(scan="zigzag"), "scan must be one of"),
        (lambda: moves(OneAtATime([1.0, 2.0]), 1, d=3), "2 entries, the model 3"),
        (lambda: Blocks([]), "none of them empty"),
        (lambda: Blocks([[0], []]), "none of them empty"),
        (lambda: Blocks([[0.5]]), "none of them empty"),
        (lambda: Blocks([[[0, 1]]]), "none of them empty"),
        (lambda: Blocks([[0], [0, 1]]).parts(2), "exactly one block"),
        (lambda: Blocks([[0]]).parts(2), "exactly one block"),
        (lambda: Blocks([[0], [1]], scale=[1.0]).parts(2), "1 entries, the model 2"),
        (lambda: Blocks([[0]], scale=-1.0), "positive, finite number"),
        (lambda: AdaptiveWalk(-1.0), "must be positive"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
