"""From a budget to the parameter, or number of iterations, at which a run costs it, by upper bounds."""

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache, partial

from dp_accounting import dp_event
from scipy.optimize import brentq

from pymc_dp.bounds import check_target
from pymc_dp.privacy.accounting.composition import compose, privacy_loss_distribution
from pymc_dp.privacy.accounting.costs import costs_of
from pymc_dp.privacy.accounting.event_sets import Events, EventSet

#: Relative tolerance: a search ends at a cost so little below epsilon, or if the parameter is known so
#: precisely.
TOLERANCE = 1e-4


def find_dearest(
    cost: Callable[[float], float],
    epsilon: float,
    start: float,
    ends: tuple[float, float],
    tolerance: float = TOLERANCE,
) -> float | None:
    """Find the most expensive parameter within a budget: one whose own cost was computed and is within it.

    Parameters
    ----------
    cost : callable
        Upper bound of epsilon at a parameter, a positive number. It must be monotone.
    epsilon : float
        Budget.
    start : float
        Parameter that is tried first.
    ends : (float, float)
        Range of the parameter, from the cheapest to the most expensive value.
    tolerance : float
        Relative tolerance of epsilon, and of the parameter.

    Returns
    -------
    float or None
        None if not even the cheapest parameter is within the budget.
    """
    sign = 1 if ends[0] < ends[1] else -1
    first, last = (sign * math.log(end) for end in ends)  # range of x, in which the cost increases
    longest, blind = math.log(8.0), math.log(2.0)  # largest step of x; step where the cost is 0 or infinite
    within: dict[float, float] = {}  # parameters whose cost was found within the budget, by x

    @cache
    def excess(x: float) -> float:
        """Return the logarithm of cost over budget; 0 if the cost is within the tolerance below it."""
        parameter = {first: ends[0], last: ends[1]}.get(x, math.exp(sign * x))
        value = cost(parameter)
        if value <= epsilon:
            within[x] = parameter
        # After six evaluations the tolerance is ten times as large, so that searches of non-smooth bounds end
        # too.
        left = tolerance if excess.cache_info().misses <= 6 else 10 * tolerance
        if epsilon * (1 - left) <= value <= epsilon:
            return 0.0
        if 0 < value < math.inf:
            return math.log(value / epsilon) + 0.5 * tolerance
        return math.copysign(blind, value - epsilon)

    # Take increasingly long steps, until the budget is between two costs.
    x, farther = min(max(sign * math.log(start), first), last), 1.0
    while (y := excess(x)) and x != (last if y < 0 else first):
        step = min(farther * max(abs(y), 1e-3 * tolerance), longest)
        before, x, farther = x, min(max(x - math.copysign(step, y), first), last), 2 * farther
        if y * excess(x) < 0:
            brentq(excess, before, x, xtol=0.1 * tolerance, maxiter=60, disp=False)
            break
    return within[max(within)] if within else None


def calibrate(
    make_events: Callable[[float], Events],
    epsilon: float,
    delta: float,
    *,
    neighboring_relation: str | None = None,
    low: float,
    high: float,
    tolerance: float = TOLERANCE,
) -> float:
    """Find the parameter at which a run costs `epsilon`, and never more.

    Parameters
    ----------
    make_events : callable
        Events of a run as a function of the parameter, a positive number. The cost must be monotone in it.
    epsilon, delta : float
        Budget.
    neighboring_relation : {"substitute", "add_remove"}, optional
        As in `pymc_dp.privacy.compose`.
    low, high : float
        Range of the parameter, positive. The cost must be within the budget at one end. If it is at both, the
        end that costs more is returned.
    tolerance : float
        Relative tolerance of the parameter; with many sampled noise scales, a few in ten thousand of epsilon.

    Returns
    -------
    float
        A parameter whose events were composed and found within the budget: the most expensive one that was
        found.

    Raises
    ------
    ValueError
        Neither end meets the budget, or an argument is out of range.
    """
    check_target(epsilon, delta)
    if not 0 < low < high < math.inf:
        raise ValueError(f"0 < low < high is needed, got {low!r} and {high!r}.")

    def events(parameter: float) -> EventSet:
        return EventSet(make_events(parameter), neighboring_relation)

    costs = [epsilon_of(events(end), delta, coarse=True) for end in (low, high)]
    ends = (low, high) if costs[0] < costs[1] else (high, low)
    found = dearest(events, epsilon, delta, math.sqrt(low * high), ends, tolerance)
    if found is None:
        raise ValueError(
            f"no value between {low:g} and {high:g} meets epsilon = {epsilon:g} at delta = {delta:g}."
        )
    return found


def dearest(
    events: Callable[[float], EventSet],
    epsilon: float,
    delta: float,
    start: float,
    ends: tuple[float, float],
    tolerance: float = TOLERANCE,
) -> float | None:
    """Find a parameter as `calibrate` does, if it is known which end is cheaper, from a first parameter on.

    Returns
    -------
    float or None
        None if no parameter is within the budget.
    """

    def cost(parameter: float, coarse: bool = False) -> float:
        return epsilon_of(events(parameter), delta, coarse)

    if len(events(start).counts) > 8:  # many noise scales are slow to compose: search coarsely first
        start = find_dearest(partial(cost, coarse=True), epsilon, start, ends, tolerance) or start
    return find_dearest(cost, epsilon, start, ends, tolerance)


def epsilon_of(events: EventSet, delta: float, coarse: bool = False) -> float:
    """Compute an upper bound on epsilon, faster than `compose`.

    Events that have loss distributions are priced by these alone, which are nearly always the best.

    Parameters
    ----------
    events : EventSet
    delta : float
    coarse : bool
        Faster and a few per cent looser, for sampled Gaussians.

    Returns
    -------
    float
        At least the epsilon of `compose`, and found much faster if there are many noise scales.
    """
    costs = [costs_of(event) for event in events.counts]
    if not any(one.decision for one in costs) and not all(one.gaussian for one in costs):
        losses = privacy_loss_distribution(events, coarse)
        value = math.inf if losses is None else losses.epsilon(delta)
        if value < math.inf:
            return value
    return compose(events).epsilon(delta)


def iterations_allowed(
    event: dp_event.DpEvent | EventSet,
    epsilon: float,
    delta: float,
    *,
    neighboring_relation: str | None = None,
    once: Events = (),
) -> int:
    """Find the largest number of iterations within a budget.

    Parameters
    ----------
    event : DpEvent or EventSet
        What one iteration releases.
    epsilon, delta : float
        Budget.
    neighboring_relation : {"substitute", "add_remove"}, optional
        As in `pymc_dp.privacy.compose`.
    once : DpEvent, EventSet, list, tuple or mapping
        What is released once, whatever the number of iterations.

    Returns
    -------
    int
        0 if not one iteration fits; at most 1e9.
    """
    check_target(epsilon, delta)
    one = EventSet(event, neighboring_relation)
    extra = EventSet(once, one.neighboring_relation)

    def fits(iterations: int) -> bool:
        return compose(one.repeated(iterations) + extra).epsilon(delta) <= epsilon

    good, step = 0, 1
    largest_number = 10**9
    while good + step <= largest_number and fits(good + step):
        good, step = good + step, 2 * step
    return min(last_that_fits(fits, good, good + step), largest_number)


def last_that_fits(fits: Callable[[int], bool], good: int, bad: int) -> int:
    """Return the largest number below `bad` that fits; `good` must fit."""
    return good + bisect_left(range(good + 1, bad), True, key=lambda number: not fits(number))
