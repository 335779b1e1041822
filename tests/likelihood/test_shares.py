"""What each count and each round of a search has of the budget."""

import numpy as np
import pytest

import pymc_dp as dp
from benchmarks import published
from pymc_dp.likelihood import shares
from pymc_dp.likelihood.search import Search


@pytest.mark.parametrize("mu", [0.05, 0.2, 1.0, 5.0])
@pytest.mark.parametrize("records", [1e3, 1e5])
def test_a_search_ends_with_all_that_is_left(mu, records):
    share, left, rounds = shares.of_first_round(mu, records, 5.0), 1.0, 0
    while not shares.is_last(share, left):
        left, rounds = left - share, rounds + 1
        share = shares.of_next_round(share, step=0.4, turned_back=False)
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


def test_a_step_back_that_was_a_surprise_is_made_again():
    assert shares.of_next_round(0.1, step=0.2, turned_back=True) == 0.1
    assert shares.of_next_round(0.1, step=0.2, turned_back=False) == 0.2


def widest_slope():
    """The largest posterior sd; of this data set a round on the way lands beyond the parameters."""
    design = next(one for one in published.DESIGNS if one.name.startswith("logistic, x normal"))
    x, y = design.rows(700, np.random.default_rng([19, 700]))
    model = published.model(x, y, design.linear)
    return published.posterior(dp.release_likelihood(model, debug_seed=19, **design.budget()))[1].max()


@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
def test_a_round_beyond_the_parameters_is_made_good(monkeypatch):
    assert widest_slope() < 0.2
    # Control: with shares that grow after it the last round has to go further, and knows less.
    monkeypatch.setattr(Search, "_turned_back", False)
    assert widest_slope() > 0.3
