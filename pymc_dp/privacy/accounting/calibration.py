"""From a budget to a parameter, noise or iterations, at which a run costs it, by upper bounds of the cost."""

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

#: Relative, of epsilon: searches end so near below the budget, or once the parameter is known that well.
TOLERANCE = 1e-4


def find_dearest(
    cost: Callable[[float], float],
    epsilon: float,
    start: float,
    ends: tuple[float, float],
    tolerance: float = TOLERANCE,
) -> float | None:
    """The last parameter within a budget: one whose own cost was found within it.

    Parameters
    ----------
    cost : callable
        Upper bound of epsilon at a parameter, a positive number; it rises or falls throughout.
    epsilon : float
        Budget.
    start : float
        Parameter that is tried first.
    ends : (float, float)
        Range of the parameter, from where it is cheapest to where it is dearest.
    tolerance : float
        Relative, of epsilon and of the parameter.

    Returns
    -------
    float or None
        None if not even the cheapest parameter is within the budget.
    """
    sign = 1 if ends[0] < ends[1] else -1
    first, last = (sign * math.log(end) for end in ends)  # of x, in which the cost rises
    longest, blind = math.log(8.0), math.log(2.0)  # steps of x: at most, and where the cost says nothing
    within: dict[float, float] = {}  # parameters that were found within the budget, by x

    @cache
    def excess(x: float) -> float:
        """Logarithm of cost over the budget; 0 where it is well spent."""
        parameter = {first: ends[0], last: ends[1]}.get(x, math.exp(sign * x))
        value = cost(parameter)
        if value <= epsilon:
            within[x] = parameter
        # Bounds that are not smooth end too.
        left = tolerance if excess.cache_info().misses <= 6 else 10 * tolerance
        if epsilon * (1 - left) <= value <= epsilon:
            return 0.0
        if 0 < value < math.inf:
            return math.log(value / epsilon) + 0.5 * tolerance
        return math.copysign(blind, value - epsilon)

    # Farther each time, until the budget lies between two of them.
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
    """Parameter at which a run costs `epsilon`, and never more.

    Parameters
    ----------
    make_events : callable
        Events of a run as a function of the parameter, a positive number. The cost must rise or fall with it
        throughout.
    epsilon, delta : float
        Budget.
    neighboring_relation : {"substitute", "add_remove"}, optional
        As in `pymc_dp.privacy.compose`.
    low, high : float
        Range of the parameter, positive; the budget must be met at one end. When it is met at both, the end
        that costs more is returned.
    tolerance : float
        Relative, of the parameter; with many sampled noise scales, a few in ten thousand of epsilon.

    Returns
    -------
    float
        A parameter whose events were composed and found within the budget: the last one before it is
        exceeded.

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
    """As `calibrate`, for a cost that is known to rise or to fall, from a first parameter on.

    Returns
    -------
    float or None
        None if the budget is met nowhere.
    """

    def cost(parameter: float, coarse: bool = False) -> float:
        return epsilon_of(events(parameter), delta, coarse)

    if len(events(start).counts) > 8:  # noise scales: composing them is slow
        start = find_dearest(partial(cost, coarse=True), epsilon, start, ends, tolerance) or start
    return find_dearest(cost, epsilon, start, ends, tolerance)


def epsilon_of(events: EventSet, delta: float, coarse: bool = False) -> float:
    """Epsilon, an upper bound; of what has loss distributions by these alone, nearly always the best.

    Parameters
    ----------
    events : EventSet
    delta : float
    coarse : bool
        Faster and some per cent looser, for sampled Gaussians.

    Returns
    -------
    float
        At least what `compose` says, and much sooner for many noise scales.
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
    """Largest number of iterations within a budget.

    Parameters
    ----------
    event : DpEvent or EventSet
        What one iteration does.
    epsilon, delta : float
        Budget.
    neighboring_relation : {"substitute", "add_remove"}, optional
        As in `pymc_dp.privacy.compose`.
    once : DpEvent, EventSet, list, tuple or mapping
        What happens once, whatever the number of iterations.

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
    """Largest number below `bad` that fits; `good` does."""
    return good + bisect_left(range(good + 1, bad), True, key=lambda number: not fits(number))
