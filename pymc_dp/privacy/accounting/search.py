"""Looking for the parameter at which a run costs its budget, by upper bounds of the cost."""

import math
from collections.abc import Callable

# Corrections of a coarse bound's result aim so far below the budget; after so many this much may be left.
MARGIN, _CORRECTIONS, _MOST_CORRECTIONS, _LEFT = 1e-4, 3, 10, 0.01
_ITERATIONS = 60
# Logarithms of epsilon over the budget that are told apart.
_STEEP = 1.0


def bracket(
    fits: Callable[[float], bool],
    start: float,
    *,
    rising: bool = False,
    fits_at_start: bool = False,
    least: float = 0.0,
) -> tuple[float, float]:
    """Ends of a range of a parameter with the budget between them, for `calibrate`.

    Parameters
    ----------
    fits : callable
        Whether a parameter is within the budget.
    start : float
        Where to look first.
    rising : bool
        Whether the cost rises with the parameter.
    fits_at_start : bool
        Whether `start` is known to be within the budget; the range is then as narrow as it was seen to be.
    least : float
        No end below it is looked for.

    Returns
    -------
    low, high : float
    """
    good = start
    while not (fits_at_start or fits(good)):
        good = good / 1.5 if rising else 1.5 * good
    if rising:
        bad = start
        while fits(bad):
            bad *= 1.5
        return good, bad
    bad = good / 1.5
    while bad > least and fits(bad):
        bad /= 1.5
    return bad, min(1.5 * bad, good) if fits_at_start else good


def corrected(
    cost: Callable[[float], float],
    quick: Callable[[float], float],
    epsilon: float,
    first: float,
    low: float,
    high: float,
) -> float:
    """A parameter near `first` that spends what the coarse bound left; `first` itself if none is found."""
    spent = cost(first)
    if spent >= epsilon * (1 - MARGIN):
        return first
    away = first * 1.02 if first * 1.02 <= high else first / 1.02
    at_first, at_away = quick(first), quick(away)
    if not (0 < spent < epsilon and 0 < at_first != at_away > 0):
        return first
    slope = math.log(at_away / at_first) / math.log(away / first)
    good, bad, beyond, near, value = first, None, math.inf, first, spent
    for count in range(_MOST_CORRECTIONS):
        if count >= _CORRECTIONS and (bad is not None or spent >= epsilon * (1 - _LEFT)):
            break
        step = math.log(epsilon * (1 - MARGIN) / value) / slope
        last, last_value = near, value
        near = min(max(near * math.exp(step), low), high)
        value = cost(near)
        if epsilon * (1 - 3 * MARGIN) <= value <= epsilon:
            return near
        if value <= epsilon and value > spent:
            good, spent = near, value
        elif value > epsilon:
            bad, beyond = near, value
        if near == last or not 0 < value != last_value < math.inf or math.isinf(value):
            break
        slope = math.log(value / last_value) / math.log(near / last)
    if bad is None or spent >= epsilon * (1 - _LEFT):
        return good

    def excess(parameter: float) -> float:
        return _excess(cost(parameter), epsilon)

    return _root(excess, good, bad, _excess(spent, epsilon), _excess(beyond, epsilon), _LEFT)


def _excess(value: float, epsilon: float) -> float:
    """Logarithm of what is spent over the budget; above 0 if and only if it is more."""
    if value <= epsilon:
        return min(math.log(value / epsilon), 0.0) if value > 0 else -700.0
    return max(math.log(min(value, 1e300) / epsilon), 1e-300)


def within(
    cost: Callable[[float], float], epsilon: float, delta: float, low: float, high: float, tolerance: float
) -> float:
    """The last parameter in [low, high] that is within the budget, from the end that meets it."""

    def excess(parameter: float) -> float:
        return _excess(cost(parameter), epsilon)

    at_low, at_high = excess(low), excess(high)
    if at_low > 0 and at_high > 0:
        raise ValueError(
            f"no value between {low:g} and {high:g} meets epsilon = {epsilon:g} at delta = {delta:g}."
        )
    if at_low <= 0 and at_high <= 0:
        return low if at_low > at_high else high
    good, bad = (low, high) if at_low <= 0 else (high, low)
    f_good, f_bad = (at_low, at_high) if at_low <= 0 else (at_high, at_low)
    return _root(excess, good, bad, f_good, f_bad, tolerance)


def _root(
    excess: Callable[[float], float], good: float, bad: float, f_good: float, f_bad: float, tolerance: float
) -> float:
    """Last parameter with ``excess <= 0`` before `bad`: regula falsi (Illinois) on logarithms."""
    x_good, x_bad = math.log(good), math.log(bad)
    f_good, f_bad = max(f_good, -_STEEP), min(f_bad, _STEEP)
    last = 0
    for iteration in range(_ITERATIONS):
        gap = x_bad - x_good
        if abs(gap) <= tolerance:
            break
        share = -f_good / (f_bad - f_good)
        if iteration % 4 == 3 or not math.isfinite(share):
            share = 0.5
        # Towards the inside of the bracket by half the tolerance: it then closes from both sides.
        inside = min(0.25, 0.5 * tolerance / abs(gap))
        x = x_good + gap * min(max(share - inside, inside), 1 - inside)
        parameter = math.exp(x)
        value = excess(parameter)
        if value <= 0:
            x_good, f_good, good = x, max(value, -_STEEP), parameter
            f_bad = 0.5 * f_bad if last < 0 else f_bad  # twice on the same side
            last = -1
            if -value < tolerance:
                break
        else:
            x_bad, f_bad = x, min(value, _STEEP)
            f_good = 0.5 * f_good if last > 0 else f_good
            last = 1
    return good
