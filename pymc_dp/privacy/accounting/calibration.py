"""From a budget to a parameter: noise, iterations."""

import math
from collections.abc import Callable
from functools import partial

from dp_accounting import dp_event

from pymc_dp.privacy.accounting.accountants import privacy_loss_distribution
from pymc_dp.privacy.accounting.composition import compose
from pymc_dp.privacy.accounting.costs import costs_of
from pymc_dp.privacy.accounting.event_sets import Events, EventSet
from pymc_dp.privacy.accounting.search import TOLERANCE, find_dearest
from pymc_dp.privacy.accounting.values import check_target

_MOST_ITERATIONS = 10**9


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

    ends = [epsilon_of(events(end), delta, coarse=True) for end in (low, high)]
    found = dearest(
        events,
        epsilon,
        delta,
        math.sqrt(low * high),
        low=low,
        high=high,
        rising=ends[0] < ends[1],
        tolerance=tolerance,
    )
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
    *,
    low: float,
    high: float,
    rising: bool,
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

    search = partial(find_dearest, low=low, high=high, rising=rising, tolerance=tolerance)
    if len(events(start).counts) > 8:  # noise scales: composing them is slow
        start = search(partial(cost, coarse=True), epsilon, start) or start
    return search(cost, epsilon, start)


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
    if not any(one.decision for one in costs) and any(one.noise_multiplier is None for one in costs):
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
    while good + step <= _MOST_ITERATIONS and fits(good + step):
        good, step = good + step, 2 * step
    return min(last_that_fits(fits, good, good + step), _MOST_ITERATIONS)


def last_that_fits(fits: Callable[[int], bool], good: int, bad: int) -> int:
    """Largest number below `bad` that fits."""
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good
