"""Threads over chunks of records, and compiled functions that several of them may call at once."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Protocol

import numpy as np
from pytensor.compile.executor import Function

from pymc_dp.records.sums import quiet

# Chunks that wait, for each thread: what came of them is in memory.
_WAITING = 2


class Each(Protocol):
    """Apply a function to items, and give the results in their order: `map`, or in threads."""

    def __call__[T, R](self, function: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        """As `map`."""


class InThreads:
    """A `map` in some threads.

    Parameters
    ----------
    number : int
        Of threads. With one, everything is computed where it is asked for.
    """

    def __init__(self, number: int = 1):
        self._number = number

    def __call__[T, R](self, function: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        """Apply a function to items; give the results in their order, of which a few wait at most."""

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

    PyTensor's functions keep what they are called with. What Numba compiled of one does not, and is called
    without the function; of other compilers' one is called after the other.

    Parameters
    ----------
    function : Function
        With a list of outputs.

    Raises
    ------
    RuntimeError
        It changes a shared variable, as a random stream of its own, which would stand still: a bug.
    """

    def __init__(self, function: Function):
        if any(one.update is not None for one in function.maker.inputs):
            raise RuntimeError("a function that changes shared variables is not one for threads.")
        self._function, self._lock = function, Lock()
        self._compiled = getattr(function.vm, "jit_fn", None)

    def __call__(self, *arguments: np.ndarray) -> list[np.ndarray]:
        """Call the function, as its inputs were trusted when it was compiled."""
        if self._compiled is None:
            with self._lock:
                return self._function(*arguments)
        shared = (place.storage[0] for place in self._function.input_storage[len(arguments) :])
        return list(self._compiled(*arguments, *shared))
