"""What each count and each round of a search has of the budget."""

import pytest

from pymc_dp.likelihood import shares


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
