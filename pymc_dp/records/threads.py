"""Threads over chunks of records, and compiled functions that several of them may call at once."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Protocol

import numpy as np
from pytensor.compile import Function

from pymc_dp.records.sums import quiet

# Most chunks that wait, for each thread, with their results in memory.
_WAITING = 2


class Each(Protocol):
    """A function like `map`, which may use threads: results are in the order of the items."""

    def __call__[T, R](self, function: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        """Apply the function to each item, as `map` does."""


class InThreads:
    """A `map` in some threads.

    Parameters
    ----------
    number : int
        Number of threads. With one, everything is computed in the calling thread.
    """

    def __init__(self, number: int = 1):
        self._number = number

    def __call__[T, R](self, function: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        """Apply a function to items, and yield the results in their order; only a few wait in memory."""

        def quietly(item: T) -> R:
            with quiet():
                return function(item)

        if self._number == 1:
            yield from map(quietly, items)
            return
        waiting: deque[Future[R]] = deque()
        with ThreadPoolExecutor(self._number) as pool:
            for item in items:
                waiting.append(pool.submit(quietly, item))
                if len(waiting) > _WAITING * self._number:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


class Reentrant:
    """A compiled function that several threads may call at once.

    PyTensor's functions store their arguments, and cannot be called by two threads at once. Numba's compiled
    code does not, and is called directly; with other compilers, calls are made one after the other.

    Parameters
    ----------
    function : Function
        A function with a list of outputs.

    Raises
    ------
    RuntimeError
        The function changes a shared variable, such as a random stream, which would not be updated: a bug.
    """

    def __init__(self, function: Function):
        if any(one.update is not None for one in function.maker.inputs):
            raise RuntimeError("a function that changes shared variables is not one for threads.")
        self._function, self._lock = function, Lock()
        self._compiled = getattr(function.vm, "jit_fn", None)

    def __call__(self, *arguments: np.ndarray) -> list[np.ndarray]:
        """Call the function; arguments must have the right type (it was compiled with trusted inputs)."""
        if self._compiled is None:
            with self._lock:
                return self._function(*arguments)
        shared = (place.storage[0] for place in self._function.input_storage[len(arguments) :])
        return list(self._compiled(*arguments, *shared))
