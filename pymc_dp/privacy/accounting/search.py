"""Looking for the parameter at which a run costs its budget, by upper bounds of the cost."""

import math
from collections.abc import Callable

#: Relative, of epsilon: searches end so near below the budget, or once the parameter is known that well.
TOLERANCE = 1e-4
# Steps of the logarithm of the parameter: at most; where the cost says nothing; next to an end that is known.
_LONGEST, _BLIND, _INSIDE = math.log(8.0), math.log(2.0), 0.02


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
    x = min(max(sign * math.log(start), ends[0]), ends[1])
    good: tuple[float, float, float] | None = None  # x, y, parameter
    bad: tuple[float, float] | None = None
    same, before = 0, None  # how often the same side was found
    for count in range(60):
        parameter = math.exp(sign * x)
        if x in ends:
            parameter = low if (x == ends[0]) == rising else high
        value = cost(parameter)
        y = math.copysign(_BLIND, value - epsilon)  # where the cost says nothing
        if 0 < value < math.inf:
            y = math.log(value / epsilon) + 0.5 * tolerance
        within = value <= epsilon
        same, before = same + 1 if within == before else 1, within
        if within:
            good = (x, y, parameter)
        else:
            bad = (x, y)
        left = tolerance * (1 if count < 6 else 10)  # bounds that are not smooth end too
        if x == (ends[1] if within else ends[0]) or (within and value >= epsilon * (1 - left)):
            break
        if good is None or bad is None:  # farther each time, until the budget lies between
            step = math.copysign(max(abs(y), 1e-3 * tolerance), -1 if y > 0 else 1)
            x += min(max(2 ** (same - 1) * step, -_LONGEST), _LONGEST)
            x = min(max(x, ends[0]), ends[1])
            continue
        gap = bad[0] - good[0]
        if gap <= 0.1 * tolerance:
            break
        # A straight line, on which the end that has not moved counts for less each time (Illinois algorithm).
        stays = 0.5 ** (same - 1)
        below, above = good[1] * (1 if within else stays), bad[1] * (stays if within else 1)
        share = below / (below - above)
        x = good[0] + gap * min(max(share, _INSIDE), 1 - _INSIDE)
    return None if good is None else good[2]
