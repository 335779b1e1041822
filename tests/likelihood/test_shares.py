"""What each count and each round of a search has of the budget."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pymc_dp.likelihood import releases, shares
from pymc_dp.likelihood.score_sizes import Scales


@pytest.mark.parametrize("mu", [0.05, 0.2, 1.0, 5.0])
@pytest.mark.parametrize("records", [1e3, 1e5])
def test_a_search_ends_with_all_that_is_left(mu, records):
    share, left, rounds = shares.of_first_round(mu, records, 5.0), 1.0, 0
    while not shares.is_last(share, left):
        left, rounds = left - share, rounds + 1
        share = shares.of_next_round(share, step=0.4, longest=2.5)
    assert rounds < 12
    assert left > 0.25
    assert shares.at_most(share, left) == 0.5 * left


def test_counts_leave_enough_for_the_rounds():
    first = shares.of_sizes(0.2, 1_000, 5.0)
    assert first == 0.06
    assert shares.of_sizes_again(0.01, left=0.9) == 0.03
    assert shares.of_sizes_again(0.01, left=0.63) is None
    assert shares.of_sizes_again(0.03, left=1.0) is None
    assert shares.of_sizes_beside(first, share=0.001) is None
    assert shares.of_sizes_beside(0.04, share=0.1) == 0.01


def test_a_round_after_a_short_step_has_twice_as_much():
    assert shares.of_next_round(0.1, step=0.2, longest=2.5) == 0.2
    assert shares.of_next_round(0.1, step=0.8, longest=2.5) == 0.1 * 1.15
    assert shares.of_next_round(0.1, step=0.2, longest=0.15) == 0.1 * 1.15  # it was cut short


def test_where_records_still_pull_rounds_go_on():
    """Half of the budget was spent on a last round that said nothing, as it had not arrived."""
    assert shares.of_far_round(0.3, 0.5, False, False) == 0.3
    left, rounds = 0.5, 0
    while not shares.is_last(share := shares.of_far_round(0.9, left, True, False), left):
        left, rounds = left - share, rounds + 1
    assert 10 < rounds < 25 and 0.05 < left <= 0.06
    assert shares.of_far_round(0.01, 0.5, True, False) == 0.01
    # A single group that is far away leaves half of the budget to the last round.
    assert shares.of_far_round(0.9, 0.6, False, True) == pytest.approx(0.12 * 0.6)
    assert shares.of_far_round(0.9, 0.5, False, True) == 0.9


class Asked:
    """Measurements for several searches, from one budget: adds up exactly what is asked for."""

    def __init__(self, *touched, kept=0.0, of=None):
        self.budget = of or SimpleNamespace(unspent=Fraction(1), asked=[], kept=kept)
        self.source = SimpleNamespace(touched=sum(touched))
        self.apart = [Asked(one, of=self.budget) for one in touched] if of is None else [self]

    @property
    def left(self):
        return float(self.budget.unspent) - self.budget.kept

    def scales(self, phi, twins, share):
        self.budget.unspent -= Fraction(share)
        self.budget.asked.append(share)
        return Scales(np.zeros(1), 1.0)


ALL = SimpleNamespace(kept=slice(None), phi=lambda phi: phi)


def portions(asked):
    """Arguments of the portions, of which all coordinates are kept, and these."""
    found = shares.portions(asked)
    return [(share, shares.Portion(of_one, ALL, share, later)) for of_one, share, later in found]


def test_one_search_has_the_whole_budget():
    ((share, one),) = portions(Asked(7, kept=0.025))
    assert share == 1.0 and one.left == 0.975


@pytest.mark.parametrize("kept", [0.0, 0.025])
def test_portions_are_of_one_budget_and_go_by_coordinates(kept):
    asked = Asked(4, 1, 30, kept=kept)
    found = portions(asked)
    parts = [share for share, _ in found]
    assert sum(parts) == pytest.approx(1.0, abs=1e-15)
    assert parts[0] / parts[1] == pytest.approx(6 / 3)
    for _, one in found:
        assert one.left == pytest.approx(1 - kept, abs=1e-8)  # whatever those before have left
        for part in (0.2, 0.3, 1.0):
            one.scales(None, 0, part * one.left * (1 - 1e-9))
    assert asked.budget.unspent >= 0 and asked.left == pytest.approx(0.0, abs=1e-8)
    ends = [sum(asked.budget.asked[:k]) for k in (3, 6, 9)]
    assert ends == pytest.approx([(1 - kept) * sum(parts[: k + 1]) for k in range(3)])


def test_blas_has_one_thread_during_a_search(monkeypatch):
    """Two that waited for each other took up to ten times as long."""

    def seen(_):
        raise LookupError([one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"])

    monkeypatch.setattr(releases, "portions", seen)
    with threadpool_limits(2, user_api="blas"), pytest.raises(LookupError) as found:
        releases.search_from(SimpleNamespace(doubtful={}), 100.0, 1.0, None)
    assert set(found.value.args[0]) == {1}
