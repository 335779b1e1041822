"""Epsilon along a run, computed before it."""

import math
from collections.abc import Sequence

import numpy as np
from dp_accounting import dp_event

from pymc_dp.privacy.accounting.calibration import epsilon_of
from pymc_dp.privacy.accounting.composition import compose
from pymc_dp.privacy.accounting.event_sets import Events, EventSet
from pymc_dp.privacy.accounting.values import check_delta


def running_epsilon(
    iteration: Sequence[EventSet] | dp_event.DpEvent | EventSet,
    iterations: int,
    delta: float,
    *,
    neighboring_relation: str | None = None,
    chains: int = 1,
    once: Events = (),
    total: float | None = None,
) -> np.ndarray:
    """Epsilon after each iteration, computed before the run.

    Parameters
    ----------
    iteration : DpEvent, EventSet, or sequence of EventSet
        What an iteration of one chain releases; a sequence has one entry an iteration, or only one.
    iterations : int
        Of each chain.
    delta : float
    neighboring_relation : {"substitute", "add_remove"}, optional
        As in `pymc_dp.privacy.compose`.
    chains : int
        All of them are charged at each iteration.
    once : DpEvent, EventSet, list, tuple or mapping
        Charged from the first iteration on.
    total : float, optional
        Epsilon of the whole run, if it is known.

    Returns
    -------
    ndarray, shape (iterations,)
        Upper bounds, non-decreasing; the last is the epsilon of the run. Computed at numbers of iterations
        that are a fifth apart; each of the others is charged as the next of these.
    """
    check_delta(delta)
    given = list(iteration) if isinstance(iteration, list | tuple) else [iteration]
    if len(given) not in (1, iterations):
        raise ValueError(f"a sequence has one entry an iteration, or only one, not {len(given)}.")
    steps = [EventSet(one, neighboring_relation) for one in given]
    extra = EventSet(once, steps[0].neighboring_relation)
    if total is None:
        total = compose(_first(steps, extra, iterations, chains)).epsilon(delta)
    # At numbers of iterations that are a fifth apart.
    ratio = np.geomspace(1, iterations, math.ceil(math.log(iterations) / math.log(1.2)) + 1)
    points = np.unique(np.minimum(np.ceil(ratio), iterations)).astype(int)
    values = [epsilon_of(_first(steps, extra, int(t), chains), delta, coarse=True) for t in points[:-1]]
    along = np.minimum(np.maximum.accumulate([*values, total]), total)
    found = along[np.searchsorted(points, np.arange(1, iterations + 1), side="left")]
    found.setflags(write=False)
    return found


def _first(steps: Sequence[EventSet], once: EventSet, t: int, chains: int) -> EventSet:
    """The first t iterations of all chains."""
    each = steps[:t] if len(steps) > 1 else [steps[0].repeated(t)]
    return EventSet([once, *(one.repeated(chains) for one in each)])
