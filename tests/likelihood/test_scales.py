"""What noisy counts of octaves show: nothing where there is nothing, and what is public of look-ups."""

from types import SimpleNamespace

import numpy as np
import pytest

from pymc_dp.likelihood.efficiency import shares_of
from pymc_dp.likelihood.measurements import Comparison
from pymc_dp.likelihood.mixtures import Message, Normal
from pymc_dp.likelihood.one_sided import OneSided
from pymc_dp.likelihood.score_sizes import LOWEST, OCTAVES, OF_OCTAVES, Counted, Scales
from pymc_dp.likelihood.search import Search
from pymc_dp.likelihood.slopes import Slopes

GROUPS, SLOPES, N, NOISE = 60, 5, 2000, 20.0
SIZE = GROUPS + SLOPES
LOOKUP = np.arange(GROUPS)[:, None]


def test_noise_alone_does_not_stand_out():
    """Of 65 coordinates with 81 octaves each: with four standard deviations a third of releases had one.

    In 30 releases .03 are expected; this seed has none.
    """
    random = np.random.default_rng(0)
    for _ in range(30):
        counts = random.normal(0, NOISE, (SIZE, OCTAVES))
        found = Scales(counts, NOISE).sizes([LOOKUP])
        assert not found.touched.any() and not found.information.any()
    counts[3, LOWEST] = 10 * NOISE  # control
    found = Scales(counts, NOISE).sizes([LOOKUP])
    assert np.flatnonzero(found.touched).tolist() == [3]


def test_a_size_says_how_far_noise_of_counts_moves_it():
    """Sizes of 400 noisy counts of the same units have the standard deviation that each says."""
    random, counts = np.random.default_rng(1), np.zeros((1, OCTAVES))
    counts[0, LOWEST - 1 : LOWEST + 2] = 300.0, 500.0, 200.0
    seen = [Scales(counts + random.normal(0, NOISE, counts.shape), NOISE).sizes([]) for _ in range(400)]
    found, error = (np.array([getattr(one, name)[0] for one in seen]) for name in ("information", "error"))
    np.testing.assert_allclose(np.sqrt(np.mean(error**2)), found.std(), rtol=0.25)


def test_how_many_units_a_hidden_group_has_is_as_certain_as_counts_make_it():
    """Of sixty groups that none stands out of: alike ones have the mean of all, others mostly their own."""
    random, lookup = np.random.default_rng(3), np.arange(60)[:, None]
    for number in (np.full(60, 30.0), np.tile([3.0, 120.0], 30)):
        counts = np.zeros((60, OCTAVES))
        counts[:, LOWEST + 2] = number
        off, said = [], []
        for _ in range(40):
            seen = Scales(counts + random.normal(0, 30.0, counts.shape), 30.0).sizes([lookup])
            hidden = seen.number_error > 0
            off.append((seen.number - number)[hidden])
            said.append(seen.number_error[hidden])
        off, said = (np.sqrt(np.mean(np.concatenate(each) ** 2)) for each in (off, said))
        assert 0.4 < off / said < 1.1 and off < 60


def test_groups_whose_scores_have_different_sizes_are_not_expected_by_numbers():
    """Rates that differ have scores of different sizes; they are seen at a later point, and for good."""
    counts, lookup = np.zeros((40, OCTAVES)), np.arange(40)[:, None]
    counts[:, LOWEST + 2] = 200.0
    same = Scales(counts, 10.0).sizes([lookup])
    counts[::2] = np.roll(counts[::2], 3, axis=1)
    other = Scales(counts, 10.0).sizes([lookup])
    assert same.alike.all() and not other.alike.any()
    every = np.ones(40, dtype=bool)
    beliefs = SimpleNamespace(counted=np.diag(same.information), _shown=every, _by_counts=every)
    for seen, expected in ((same, True), (other, False), (same, False)):
        Slopes.count_again(beliefs, seen)
        assert (beliefs._by_counts == expected).all()


def test_sizes_that_noise_has_made_count_less():
    """One of two is eight times what was believed: by a count that may be noise, and by one that is not."""
    for error, least, most in ((6.0, 1.0, 1.2), (0.1, 2.5, 3.0)):
        number, errors = np.full(2, 900.0), np.array([0.05, error])
        counted = Counted(
            np.array([1.0, 8.0]), number, errors, NOISE, number, np.zeros(2), np.ones(2, dtype=bool)
        )
        factor, own = counted.over(np.eye(2), np.ones(2, dtype=bool))
        assert least <= factor < most and OF_OCTAVES <= own < 0.2


def test_a_look_up_that_does_not_stand_out_touches_one_coordinate_a_record():
    """Or a metric would take each group for one that all records are in, and clip what shows the others."""
    source = SimpleNamespace(lookups=[LOOKUP], sums=[], size=SIZE, rank=1, touched=1 + SLOPES)
    nothing = Scales(np.zeros((SIZE, OCTAVES)), NOISE)
    measured = SimpleNamespace(source=source, left=1.0, scales=lambda phi, twins, share: nothing)
    search = Search(measured, N, 0.8, Normal(np.eye(SIZE), np.zeros(SIZE)))
    search._point = np.zeros(SIZE)
    search._scale()
    np.testing.assert_allclose(search._touched, [N / GROUPS] * GROUPS + [N] * SLOPES)
    np.testing.assert_allclose(search._touches, 1 + SLOPES)


def test_groups_whose_counts_are_noise_have_no_more_records_than_there_are():
    """Of 1,200 records in sixty groups. Counts were raised to their noise: together three times as many.

    The mean of a group's count has a standard deviation of 20 / sqrt(60) / 20 = .13; and one group is seen.
    """
    random, counts = np.random.default_rng(4), np.zeros((SIZE, OCTAVES))
    counts[:GROUPS, LOWEST + 2] = 20.0
    counts[7, LOWEST + 2] = 400.0
    found = Scales(counts + random.normal(0, NOISE, counts.shape), NOISE).sizes([LOOKUP])
    others = np.delete(found.number[:GROUPS], 7)
    assert found.number[7] == found.touched[7] and abs(found.number[7] - 400) < 5 * NOISE
    assert np.delete(found.touched[:GROUPS], 7).min() >= NOISE
    assert 0 < others.min() and abs(others.mean() - 20) < 20 * 6 * 0.2
    assert others.std() < NOISE / 2  # nearly all of what they differ by is noise
    exact = Scales(np.where(np.arange(SIZE)[:, None] == 3, 0.0, counts), 0.0).sizes([LOOKUP])
    np.testing.assert_array_equal(exact.number[:5], [20.0, 20.0, 20.0, 0.0, 20.0])  # without noise


class Near(Search):
    """Is near after a first round which went far."""

    done: list[str]

    def _round(self, share, last=False):
        self.done.append("last" if last else "round")
        self._measure.left -= share

    def _move(self):
        self._sizes.since = 1.0
        return 0.01

    _distance = 0.01
    _seen = Comparison(np.zeros(SIZE), 0.0, np.eye(SIZE), 0.0, np.ones(SIZE), 0.0)


def test_sizes_are_counted_where_the_last_round_is():
    """After a way that ended at once the last round's clip went by sizes of where it began: of a hundred
    linear regressions whose first sigma was seven times too large three did not arrive."""
    counts = np.zeros((SIZE, OCTAVES))
    counts[:GROUPS, LOWEST + 2], counts[GROUPS:, LOWEST + 2] = N / GROUPS, N
    found = Scales(counts, 1.0)

    def scales(phi, twins, share):
        search.done.append("count")
        return found

    source = SimpleNamespace(lookups=[LOOKUP], sums=[], size=SIZE, rank=1, touched=1 + SLOPES)
    measured = SimpleNamespace(source=source, left=1.0, scales=scales)
    search = Near(measured, N, 0.8, Normal(np.eye(SIZE), np.zeros(SIZE)))
    search.done = []
    said = Message(np.eye(SIZE), np.zeros(SIZE))
    rounds = [SimpleNamespace()]
    search._beliefs = SimpleNamespace(
        result=lambda *given: OneSided.nowhere(said), exact=False, is_far=(False, False), rounds=rounds
    )
    search(np.zeros(SIZE))
    assert search.done == ["count", "round", "count", "last"]


@pytest.mark.parametrize("noise, found", [(1.0, [0.5, 1.0, 0.75]), (1e4, [0.75, 0.75, 0.75])])
def test_each_coordinate_has_its_own_ratio_of_variance_to_slope_as_far_as_noise_shows_it(noise, found):
    seen = Comparison(np.zeros(3), 1.0, 1e3 * np.eye(3), 0.0, np.array([500.0, 1e3, 750.0]), noise)
    np.testing.assert_allclose(shares_of(seen), found, rtol=0.01)


def test_a_recount_that_noise_hides_does_not_replace_what_is_believed():
    """Metrics were then made of no information: scores became 18 times as long, wrong places "usable"."""
    shown, hidden = np.zeros((SIZE, OCTAVES)), np.zeros((SIZE, OCTAVES))
    shown[:GROUPS, LOWEST + 2], shown[GROUPS:, LOWEST + 2] = N / GROUPS, N
    counts = [shown]

    def scales(phi, twins, share):
        return Scales(counts[-1], 1.0)

    source = SimpleNamespace(lookups=[LOOKUP], sums=[], size=SIZE, rank=1, touched=1 + SLOPES)
    measured = SimpleNamespace(source=source, left=1.0, scales=scales)
    search = Near(measured, N, 0.8, Normal(np.eye(SIZE), np.zeros(SIZE)))
    search._point = np.zeros(SIZE)
    search._scale()
    before, moved = search._information, 4 * shown
    search._beliefs = SimpleNamespace(rounds=[SimpleNamespace()])
    counts.append(hidden)
    search._scale()
    assert search._information is before and before.any()
    counts.append(moved)
    search._scale()
    np.testing.assert_allclose(np.diag(search._information), 4 * np.diag(before))
