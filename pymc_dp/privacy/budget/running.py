"""Epsilon along a run, computed before it."""

import math
from collections.abc import Sequence

import numpy as np
from dp_accounting import dp_event

from pymc_dp.privacy.accounting import gaussian, loss_distribution, rdp
from pymc_dp.privacy.accounting.accountants import (
    NotApplicableError,
    exact_gaussian,
    gaussian_limit,
    renyi_excluded,
)
from pymc_dp.privacy.accounting.composition import check_delta, compose
from pymc_dp.privacy.accounting.costs import costs_of, total_curve
from pymc_dp.privacy.accounting.event_sets import Events, EventSet

# Any order is valid: every so many of the orders of the Renyi accountant.
_ORDER_STRIDE = 6
# Compositions of Poisson-sampled releases are slow: so many of them, and the next larger one in between.
_COMPOSITIONS = 12


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
        Upper bounds, non-decreasing; the last is the epsilon of the run. Within two fifths of what `compose`
        gives, or .003, or else below .01, but for value iteration, whose price the others reach before the
        end. Poisson-sampled Gaussians at some eighty iterations, and the others in between at the next of
        these, Poisson-sampled events of other kinds at a dozen.
    """
    check_delta(delta)
    given = list(iteration) if isinstance(iteration, list | tuple) else [iteration]
    if len(given) not in (1, iterations):
        raise ValueError(f"a sequence has one entry an iteration, or only one, not {len(given)}.")
    steps = [EventSet(one, neighboring_relation) for one in given]
    extra = EventSet(once, steps[0].neighboring_relation)
    run = EventSet([extra, *(one.repeated(chains * (iterations // len(steps))) for one in steps)])
    if total is None:
        total = compose(run).epsilon(delta)
    bounds = [_gaussian(steps, extra, iterations, delta, chains)]
    if any(costs_of(event).sampling == "poisson" for event in run.counts):
        along = loss_distribution.running_epsilon(steps, extra, iterations, delta, chains)
        if not np.all(np.isfinite(along)):  # not only sampled Gaussians, or a delta that is too small for it
            along = np.minimum(along, _composed(steps, extra, iterations, delta, chains))
        bounds.append(along)
    else:
        bounds.append(_renyi(run, steps, extra, iterations, delta, chains))
        if len(steps) == 1:
            bounds.append(_limit(run, steps[0], extra, iterations, delta, chains))
    values = np.minimum(np.maximum.accumulate(np.min(bounds, axis=0)), total)
    values[-1] = total  # a part never costs more than the whole
    values.setflags(write=False)
    return values


def _cumulative(per_step: Sequence[float], iterations: int) -> np.ndarray:
    return np.cumsum(np.broadcast_to(per_step, iterations) if len(per_step) == 1 else per_step)


def _gaussian(
    steps: Sequence[EventSet], once: EventSet, iterations: int, delta: float, chains: int
) -> np.ndarray:
    """Gaussian releases, and decisions as the Gaussians behind them."""
    try:
        first, *each = (exact_gaussian(events).mu ** 2 for events in (once, *steps))
    except NotApplicableError:
        return np.full(iterations, np.inf)
    return gaussian.running_epsilon(np.sqrt(first + chains * _cumulative(each, iterations)), delta)


def _limit(
    run: EventSet, step: EventSet, once: EventSet, iterations: int, delta: float, chains: int
) -> np.ndarray:
    """What is not Gaussian as one Gaussian, in one pass."""
    try:
        limit = gaussian_limit(run)
    except NotApplicableError:
        return np.full(iterations, np.inf)
    if math.isinf(limit.mu_squared):
        return np.full(iterations, np.inf)
    done = chains * np.arange(1, iterations + 1)
    counts = [once.counts.get(kind, 0) + step.counts.get(kind, 0) * done for kind in limit.kinds]
    first, each = (
        sum(n / event.noise_multiplier**2 for event, n in one.counts.items() if event not in limit.kinds)
        for one in (once, step)
    )
    return limit.along(counts, first + each * done, delta)


def _renyi(
    run: EventSet, steps: Sequence[EventSet], once: EventSet, iterations: int, delta: float, chains: int
) -> np.ndarray:
    excluded = renyi_excluded(run)
    share = delta if excluded == 0 else 0.999 * delta
    curves = [total_curve(e.counts, e.neighboring_relation, decisions=True) for e in (once, *steps)]
    values = np.full(iterations, np.inf)
    for order in rdp.ORDERS[::_ORDER_STRIDE]:
        first, *each = (curve(float(order)) for curve in curves)
        if not math.isfinite(first + sum(each)):
            continue
        divergence = first + chains * _cumulative(each, iterations)
        # The conversion of rdp.epsilon_at is linear in the divergence.
        values = np.minimum(values, np.maximum(rdp.epsilon_at(float(order), 0.0, share) + divergence, 0.0))
    if excluded:
        with np.errstate(over="ignore"):
            values[(1 + np.exp(values)) * excluded > delta - share] = np.inf
    return values


def _composed(
    steps: Sequence[EventSet], once: EventSet, iterations: int, delta: float, chains: int
) -> np.ndarray:
    """Full composition at a few points, rounded up to the next."""
    points = np.unique(np.ceil(np.geomspace(1, iterations, min(iterations, _COMPOSITIONS)))).astype(int)
    values = []
    for t in points:
        first = steps[:t] if len(steps) > 1 else [steps[0].repeated(int(t))]
        events = EventSet([once, *(one.repeated(chains) for one in first)])
        values.append(compose(events).epsilon(delta))
    return np.asarray(values)[np.searchsorted(points, np.arange(1, iterations + 1), side="left")]
