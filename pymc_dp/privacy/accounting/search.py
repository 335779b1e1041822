"""Looking for the parameter at which a run costs its budget, by upper bounds of the cost."""

import math
from collections.abc import Callable

#: Relative, of epsilon: searches end so near below the budget, or once the parameter is known that well.
TOLERANCE = 1e-4
# Of costs; after some of them so much more is left, so that bounds which are not smooth end too.
_MOST, _PATIENCE, _MORE_LEFT = 60, 6, 10.0
# Steps of the logarithm of the parameter: at most; where the cost says nothing; next to an end that is known.
_LONGEST, _BLIND, _INSIDE = math.log(8.0), math.log(2.0), 0.02
# Slopes of logarithms of cost over those of the parameter that are believed.
_FLATTEST, _STEEPEST = 0.01, 20.0


def find_dearest(
    cost: Callable[[float], float],
    epsilon: float,
    start: float,
    *,
    low: float,
    high: float,
    rising: bool,
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
    low, high : float
        Range of the parameter.
    rising : bool
        Whether the cost rises with it.
    tolerance : float
        Relative, of epsilon and of the parameter.

    Returns
    -------
    float or None
        None if not even the cheapest parameter is within the budget.
    """
    # x: the logarithm of the parameter, in the direction in which the cost rises; y: of cost over the budget.
    sign = 1 if rising else -1
    ends = sorted((sign * math.log(low), sign * math.log(high)))
    x, slope = sign * math.log(start), 1.0
    good: tuple[float, float, float] | None = None  # x, y, parameter
    bad: tuple[float, float] | None = None
    last: tuple[float, float] | None = None
    same, before = 0, None  # how often the same side was found
    for count in range(_MOST):
        x = min(max(x, ends[0]), ends[1])
        parameter = (low if rising else high) if x == ends[0] else (high if rising else low)
        if ends[0] < x < ends[1]:
            parameter = math.exp(sign * x)
        value = cost(parameter)
        y = math.log(value / epsilon) + 0.5 * tolerance if 0 < value < math.inf else math.nan
        if last is not None and not math.isnan(y) and x != last[0]:
            slope = min(max((y - last[1]) / (x - last[0]), _FLATTEST), _STEEPEST)
        last = None if math.isnan(y) else (x, y)
        within = value <= epsilon
        same, before = same + 1 if within == before else 1, within
        if within:
            good = (x, y, parameter)
            left = tolerance * (1 if count < _PATIENCE else _MORE_LEFT)
            if value >= epsilon * (1 - left) or x == ends[1]:
                break
        else:
            bad = (x, y)
            if x == ends[0]:
                break
        ahead = (-y / slope) if not math.isnan(y) else (_BLIND if within else -_BLIND)
        if good is None or bad is None:
            ahead = math.copysign(max(abs(ahead), 1e-3 * tolerance), 1 if within else -1) * 2 ** max(
                same - 3, 0
            )
            x += min(max(ahead, -_LONGEST), _LONGEST)
            continue
        gap = bad[0] - good[0]
        if gap <= 0.1 * tolerance:
            break
        share = (x + ahead - good[0]) / gap
        if same > 2 or not 0 <= share <= 1:
            share, same = 0.5, 1
        x = good[0] + gap * min(max(share, _INSIDE), 1 - _INSIDE)
    return None if good is None else good[2]
