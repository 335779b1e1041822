"""Threads over chunks of records, and compiled functions that they share."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS

from pymc_dp.records import gate
from pymc_dp.records.sums import quiet
from pymc_dp.records.threads import InThreads, Reentrant


@pytest.mark.parametrize("number", [1, 2, 3])
def test_results_are_in_the_order_of_their_items(number):
    found = list(InThreads(number)(lambda k: (k * k, threading.get_ident()), range(40)))
    assert [square for square, _ in found] == [k * k for k in range(40)]
    assert all((ident == threading.get_ident()) == (number == 1) for _, ident in found)


@contextmanager
def catch():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def overlapping(way):
    """What two threads do that keep warnings from being shown, the one beginning before the other ends."""
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()

    def work(item):
        if item == 1:
            with way():
                first_in.set()
                second_in.wait()
            first_out.set()
        elif item == 2:
            first_in.wait()
            with way():
                second_in.set()
                first_out.wait()
                warnings.warn("about a record", UserWarning, stacklevel=1)

    return work


def test_no_thread_shows_what_another_keeps_back():
    """Warnings are errors here. The control: each thread changes Python's filters for itself."""
    before = list(warnings.filters)
    list(InThreads(2)(overlapping(quiet), [1, 2]))
    assert warnings.filters == before
    with warnings.catch_warnings(), pytest.raises(UserWarning, match="about a record"):
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(overlapping(catch), [1, 2]))


@pytest.mark.parametrize("way", [quiet, catch])
def test_the_first_changes_the_filters_and_the_last_puts_them_back(way, monkeypatch):
    """A change takes an entry out and puts it in again; in between another thread may warn (`catch`)."""
    before, changes = list(warnings.filters), []
    simplefilter = warnings.simplefilter
    monkeypatch.setattr(warnings, "simplefilter", lambda *args: changes.append(args) or simplefilter(*args))
    with way():
        with way():
            warnings.warn("about a record", UserWarning, stacklevel=1)
        warnings.warn("about a record", UserWarning, stacklevel=1)
    assert (len(changes) == 1) == (way is quiet)
    assert warnings.filters == before


def made(mode):
    """A function of a vector and of a shared number, as compiled and as threads call it."""
    x, shared = pt.vector("x", dtype="float64"), pytensor.shared(2.0, name="shared")
    outputs = [pt.exp(x) * shared, x.sum() + shared]
    function = gate.compile_graph([x], outputs, private=[x], mode=mode, trust_input=True)
    return function, Reentrant(function), shared


@pytest.mark.parametrize("mode", ["NUMBA", gate.CHECK_MODE], ids=["numba", "py"])
def test_a_function_that_threads_share_is_the_function(mode):
    """In each thread with its own arguments, and with shared variables as they are."""
    function, shared_by_threads, shared = made(mode)
    each = [np.full(5, k / 7) for k in range(60)]
    for value in (2.0, 3.0):
        shared.set_value(value)
        wanted = [[np.array(one) for one in function(x)] for x in each]
        found = list(InThreads(3)(shared_by_threads, each))
        for one, other in zip(found, wanted, strict=True):
            for a, b in zip(one, other, strict=True):
                np.testing.assert_array_equal(a, b)


def test_a_function_with_a_stream_of_its_own_is_not_one_for_threads():
    """All twins would be alike."""
    stream = pytensor.shared(np.random.default_rng(1))
    after, drawn = pt.random.normal(rng=stream, size=3, return_next_rng=True)
    function = pytensor.function([], [drawn], updates={stream: after}, mode=gate.CHECK_MODE)
    with pytest.raises(RuntimeError, match="changes shared variables"):
        Reentrant(function)


def test_what_is_compiled_lets_other_threads_run():
    """From a file of its own: one that PyTensor made of the same graph would hold Python's lock."""
    compiled = made("NUMBA")[0].vm.jit_fn
    assert compiled.targetoptions["nogil"]
    assert CACHED_SRC_FUNCTIONS[compiled.py_func].endswith("_unlocked")
    x = pt.vector("x", dtype="float64")
    plain = pytensor.function([x], [pt.exp(x) * 2.0], mode="NUMBA").vm.jit_fn
    assert not plain.targetoptions.get("nogil")  # control
