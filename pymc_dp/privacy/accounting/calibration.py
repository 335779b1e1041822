"""From a budget to a parameter: noise, iterations."""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from dp_accounting import dp_event

from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.accountants import (
    NotApplicableError,
    privacy_loss_distribution,
    value_iteration,
)
from pymc_dp.privacy.accounting.composition import compose
from pymc_dp.privacy.accounting.costs import costs_of
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.accounting.events import FixedScalePenaltyDecisionDpEvent, PenaltyDecisionDpEvent
from pymc_dp.privacy.accounting.search import TOLERANCE, Search
from pymc_dp.privacy.accounting.values import check_target

_MOST_ITERATIONS = 10**9
# With more noise scales than this, composing them is slow enough to search with a coarser bound first.
_MANY = 8
# Values of decisions on a grid jump by so much of epsilon between parameters: taken one by one, or in
# blocks.
_ROUGH = {False: 1e-3, True: 8e-3}


def calibrate(
    make_events: Callable[[float], Any],
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

    @cache
    def guess(parameter: float) -> float:
        if not many:
            try:
                return value_iteration(events(parameter)).about(delta)
            except NotApplicableError:
                pass  # it has none at this parameter: what steers never refuses
        return cost(parameter, True)

    at_start = events(start)
    many, iterated = _many_sampled(at_start), _iterated(at_start)
    search = partial(Search, epsilon=epsilon, low=low, high=high, rising=rising)
    if not iterated:
        return search(cost, guess=guess if many else None, tolerance=tolerance).run(start)
    rough = max(tolerance, _ROUGH[value_iteration(at_start).blocks])
    found = search(cost, guess=guess, tolerance=rough).run(start)
    if found is None or cost(found) < cost(found, True):
        return found
    # Another accountant is as good there, and smooth.
    other = search(partial(cost, coarse=True), tolerance=tolerance).run(found)
    return found if other is None else (max if rising else min)(found, other)


def epsilon_of(events: EventSet, delta: float, coarse: bool = False) -> float:
    """Epsilon, an upper bound; of what has loss distributions by these alone, nearly always the best.

    Parameters
    ----------
    events : EventSet
    delta : float
    coarse : bool
        Faster and some per cent looser, for sampled Gaussians and for decisions.

    Returns
    -------
    float
        At least what `compose` says, and much sooner for many noise scales.
    """
    costs = [costs_of(event) for event in events.counts]
    plain = all((one.sampled or one.noise_multiplier or one.mixture) and not one.decision for one in costs)
    if plain and any(one.sampled or one.mixture for one in costs):
        try:
            value = privacy_loss_distribution(events, coarse).epsilon(delta)
        except NotApplicableError:
            value = math.inf
        if value < math.inf:
            return value
    run = compose(events, reference_delta=delta)
    return run.coarse_epsilon(delta) if coarse else run.epsilon(delta)


def _many_sampled(events: EventSet) -> bool:
    return sum(costs_of(event).sampled is not None for event in events.counts) > _MANY


def _iterated(events: EventSet) -> bool:
    try:
        value_iteration(events)
    except NotApplicableError:
        return False
    return True


def iterations_allowed(
    event: dp_event.DpEvent | EventSet,
    epsilon: float,
    delta: float,
    *,
    neighboring_relation: str | None = None,
    once: Any = (),
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

    def fits(iterations: int, coarse: bool = True) -> bool:
        run = compose(one.repeated(iterations) + extra)
        return (run.coarse_epsilon(delta) if coarse else run.epsilon(delta)) <= epsilon

    good, step = 0, 1
    while good + step <= _MOST_ITERATIONS and fits(good + step):
        good, step = good + step, 2 * step
    good = _last(fits, good, good + step)
    # A coarse bound never says too many, but too few: it is some per cent above.
    bad = good + 1
    while bad <= _MOST_ITERATIONS and fits(bad, False):
        good, bad = bad, bad + max(1, bad // 16)
    return _last(lambda iterations: fits(iterations, False), good, bad)


def _last(fits: Callable[[int], bool], good: int, bad: int) -> int:
    """Largest number below `bad` that fits."""
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return min(good, _MOST_ITERATIONS)


def smallest_noise_multiplier(
    iterations: int,
    epsilon: float,
    delta: float,
    *,
    accounting: str = "decision",
    noise_std: float | None = None,
) -> float:
    """Noise multiplier of `iterations` penalty iterations that costs `epsilon`, and never more.

    Parameters
    ----------
    iterations : int
        Of all chains together, tuning included.
    epsilon, delta : float
        Budget; ``epsilon=inf`` gives 0.
    accounting : {"decision", "gaussian"}
        Charge for the decisions (only they are released), or for the noisy log-ratios.
    noise_std : float, optional
        Standard deviation of the noise of the tempered log-ratio, in nats, when it is fixed before the run
        (fixed-radius proposals, no adaptation); decision accounting is then scale-aware.

    Returns
    -------
    float
        Within 1e-5 relative of the smallest for that accountant.

    Raises
    ------
    ValueError
        An argument is out of range.
    """
    check_target(epsilon, delta)
    if isinstance(iterations, bool) or not isinstance(iterations, int | np.integer) or iterations < 1:
        raise ValueError(f"iterations must be an integer of at least 1, got {iterations!r}.")
    if accounting not in ("decision", "gaussian"):
        raise ValueError(f"accounting must be 'decision' or 'gaussian', got {accounting!r}.")
    if noise_std is not None and not 0 < noise_std < math.inf:
        raise ValueError(f"noise_std must be positive and finite, got {noise_std!r}.")
    if math.isinf(epsilon):
        return 0.0
    exact = math.sqrt(iterations) / float(gaussian.mu(epsilon, delta)) * (1 + 1e-9)
    if accounting == "gaussian":
        return exact

    def events(noise_multiplier: float) -> EventSet:
        one: dp_event.DpEvent = PenaltyDecisionDpEvent(noise_multiplier)
        if noise_std is not None:
            one = FixedScalePenaltyDecisionDpEvent(noise_std, noise_std / noise_multiplier)
        return EventSet([dp_event.SelfComposedDpEvent(one, int(iterations))], "substitute")

    # Decisions never cost more than the Gaussians, so `exact` fits; how much less depends on the scale.
    found = dearest(events, epsilon, delta, 0.8 * exact, low=1e-3 * exact, high=exact, rising=False)
    return exact if found is None else found
