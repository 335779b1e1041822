"""Sums over the records of this process: the same in several threads."""

import numpy as np
import pytest

import pymc_dp as dp
from pymc_dp.likelihood.comparisons import Bounds
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.records import threads
from pymc_dp.records.twins import Chunk
from tests.conftest import logistic_model
from tests.likelihood.records import hostile
from tests.likelihood.test_measurements import METRIC, PHI, P, term_of

BOUNDS = Bounds(1.5, 0.7)


class Chunks:
    """Hostile records, some at a time; notes how many chunks are there at once."""

    size, touched, parts, rank, lookups, sums = P, 2, 1, 2, (), ()

    def __init__(self, count=40):
        random = np.random.default_rng(5)
        self.chunks = [
            Chunk(slice(None), [term_of(*hostile(random, 30, 2, P, 4, k % 2 == 0))]) for k in range(count)
        ]
        self.given = 0

    def __call__(self, phi, twins, random, each):
        self.given = 0
        for chunk in self.chunks:
            self.given += 1
            yield lambda chunk=chunk: chunk


def numbers(source):
    totals = source.compare(PHI, METRIC, BOUNDS, 3)
    return np.concatenate([totals.score, totals.slope.ravel(), totals.trace, source.scales(PHI, 3).ravel()])


@pytest.mark.parametrize("cores", [2, 3])
def test_threads_make_the_same_sums(cores):
    """To the last bit, and without warnings, which are errors here."""
    one = numbers(RecordsHere(Chunks(), None))
    np.testing.assert_array_equal(numbers(RecordsHere(Chunks(), None, cores)), one)
    assert np.abs(one).max() > 0
    assert not np.array_equal(one, numbers(RecordsHere(Chunks(39), None)))  # control


def test_few_chunks_wait():
    units, waiting = Chunks(), []
    source = RecordsHere(units, None, 2)
    for done, _ in enumerate(source._each(lambda chunk: None, PHI, 3), 1):
        waiting.append(units.given - done)
    assert len(waiting) == 40 and 0 <= min(waiting) and max(waiting) <= threads._WAITING * 2


def test_an_error_in_a_thread_is_raised():
    units = Chunks()
    units.chunks[7].terms.append(units.chunks[7].terms[0])
    with pytest.raises(RuntimeError, match="more terms"):
        RecordsHere(units, None, 2).compare(PHI, METRIC, BOUNDS, 3)


@pytest.mark.parametrize("cores", [0, True, 2.0, None])
def test_what_is_no_number_of_threads_is_refused(cores):
    with pytest.raises(ValueError, match="cores must be an integer"):
        dp.release_likelihood(logistic_model(), epsilon=1, cores=cores)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
def test_a_release_does_not_depend_on_threads(monkeypatch):
    """Of records in several chunks."""
    monkeypatch.setattr("pymc_dp.records.twins._ROWS", 64)
    kwargs = {"epsilon": 2, "delta": 1e-6, "debug_seed": 1}
    one, two = (dp.release_likelihood(logistic_model(n=500), cores=cores, **kwargs) for cores in (1, 2))
    for name in ("point", "gradient", "information"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
