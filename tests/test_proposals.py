"""Laws of the proposals, and their arguments."""

import numpy as np
import pytest
from scipy import stats

from pymc_dp.proposals import (
    PROPOSALS,
    FixedRadius,
    GaussianWalk,
    GuidedWalk,
    OneAtATime,
    as_proposal,
)

FALSE_ALARM = 1e-6


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
    ],
    ids=lambda p: type(p).__name__,
)
def test_moves_are_symmetric(proposal):
    """Each coordinate of moves and of mirrored moves has one law: 4 x 5 comparisons at 1e-6."""
    z = moves(proposal, 20_000)
    for j in range(5):
        assert stats.ks_2samp(z[::2, j], -z[1::2, j]).pvalue > FALSE_ALARM / 20


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
        proposal.decided(accepted)
        last[j] = sign, accepted
    assert kept > 1000 and turned > 600


def test_first_directions_are_random():
    """Up and down are equally likely: binomial, two-sided, at 1e-6; and components differ."""
    signs = np.array([moves(GuidedWalk(scan="systematic"), 2, d=2, seed=s).sum(axis=1) for s in range(1000)])
    assert stats.binomtest(int((signs[:, 0] > 0).sum()), 1000).pvalue > FALSE_ALARM
    assert stats.binomtest(int((signs[:, 0] * signs[:, 1] > 0).sum()), 1000).pvalue > FALSE_ALARM


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
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
