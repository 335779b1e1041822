"""Sums over the records of this process: the same in several threads."""

import math
from types import MappingProxyType

import numpy as np
import pytest

import pymc_dp as dp
from pymc_dp.likelihood.comparisons import SCORE_GRID, SLOPE_GRID, Bounds, Totals, compare
from pymc_dp.likelihood.sources import RecordsHere, one_after_the_other
from pymc_dp.records import threads
from pymc_dp.records.twins import Chunk
from tests.conftest import logistic_model
from tests.likelihood.records import hostile
from tests.likelihood.test_measurements import METRIC, PHI, P, term_of

BOUNDS = Bounds(1.5, 0.7)


class Chunks:
    """Hostile records, some at a time; notes how many chunks are there at once."""

    size, touched, rank, lookups, sums, doubtful = P, 2, 2, (), (), MappingProxyType({})

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
    totals, scales = source.compare(PHI, METRIC, BOUNDS, 3), source.scales(PHI, 3)
    return np.concatenate([totals.score, totals.slope.ravel(), totals.variances, scales.ravel()])


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
    units.chunks[7].terms.clear()
    with pytest.raises(IndexError):
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


@np.errstate(all="ignore")
def test_terms_are_rows_of_their_unit():
    """Of other widths, numbers of points and kinds: what is filled up has no weight and tells nothing."""
    random = np.random.default_rng(6)
    shapes = [(3, 4, False), (1, 2, True), (2, 4, False)]
    terms = [term_of(*hostile(random, 30, k, P, number, weighted)) for k, number, weighted in shapes]
    terms[1].rows = lambda metric, rows=terms[1].rows: rows(metric)[:, :1]
    made = one_after_the_other(Chunk(slice(None), terms), METRIC)
    for j, term in enumerate(terms):
        own, lone, rows = made.own[j::3], Totals(P), term.rows(METRIC)
        width, size = term.own.shape[1], len(term.group)
        np.testing.assert_array_equal(own[:, :width], term.own)
        assert not own[:, width:].any() and not made.rows[width:, j::3].any()
        assert not made.weights[size:, j::3].any() and (made.leaves[j::3] == (j != 1)).all()
        compare(term.own, term.group, term.weights, rows, BOUNDS, lone)
        filled = Totals(P)
        parts = own, made.group[:, j::3], made.weights[:, j::3], made.rows[:, j::3]
        compare(*parts, BOUNDS, filled, None, made.leaves[j::3])
        # As it is by itself, but for rounding of a sum that has zeros added to it.
        np.testing.assert_allclose(filled.score, lone.score, atol=1e-6 * 2**20)
    np.testing.assert_array_equal(made.first, np.arange(0, 90, 3))
    of_persons = Chunk(slice(None), terms, first=np.array([0, 4, 20]))
    np.testing.assert_array_equal(one_after_the_other(of_persons, METRIC).first, [0, 12, 60])
    # One unit's terms together are within what one term may be.
    for i in range(30):
        some, totals = slice(3 * i, 3 * i + 3), Totals(P)
        parts = made.own[some], made.group[:, some], made.weights[:, some], made.rows[:, some]
        compare(*parts, BOUNDS, totals, np.array([0]), made.leaves[some])
        assert np.sum(totals.score**2) <= SCORE_GRID**2
        assert np.sum(totals.slope**2) + np.sum(totals.variances**2) <= SLOPE_GRID**2


def test_what_comes_last_is_left_room():
    """Where a row tells most of its unit, a row at right angles to it that tells the rest is heard."""
    random, units = np.random.default_rng(11), 500
    rows = np.zeros((3, 2 * units, 3))
    rows[0, ::2, 0] = rows[1, ::2, 1] = rows[0, 1::2, 2] = 1.0
    group = random.normal(size=(17, 2 * units, 3))
    bounds, totals = Bounds(0.7 * math.sqrt(3), 8.0), Totals(3)
    compare(group[0], group, None, rows, bounds, totals, np.arange(0, 2 * units, 2))
    first, last = np.diag(totals.slope)[[0, 2]]
    assert last > 0.6 * first
