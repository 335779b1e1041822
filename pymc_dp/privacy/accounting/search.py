"""Looking for the parameter at which a run costs its budget, by upper bounds of the cost."""

import math
from collections.abc import Callable
from itertools import pairwise

#: Relative, of epsilon: searches end so near below the budget, or once the parameter is known that well.
TOLERANCE = 1e-4
# More is left after so many costs, so that bounds which are not smooth end too.
_PATIENCE, _MORE_LEFT, _MOST = 6, 10.0, 60
# The same where a guess steers; the slope of cost over guess that is believed, of points that far apart.
_FEW, _LITTLE_MORE, _TREND, _APART = 2, 2.5, 2.0, 0.01
# Steps of the logarithm of the parameter: at most; where the cost says nothing; next to an end that is known.
_LONGEST, _BLIND, _INSIDE = math.log(8.0), math.log(2.0), 0.02
# Slopes of logarithms of cost over those of the parameter that are believed.
_FLATTEST, _STEEPEST = 0.01, 20.0
# So much nearer must an end come in two costs, or the middle is taken.
_SHRINKING = 0.5


class Search:
    """The last parameter within a budget, from a few costs: what is found had its cost within the budget.

    Parameters
    ----------
    cost : callable
        Upper bound of epsilon at a parameter, a positive number; it rises or falls throughout.
    epsilon : float
        Budget.
    low, high : float
        Range of the parameter.
    rising : bool
        Whether the cost rises with it.
    guess : callable, optional
        About as the cost, up to a factor that hardly changes, and much cheaper: only steers.
    tolerance : float
        Relative, of epsilon and of the parameter.
    """

    def __init__(
        self,
        cost: Callable[[float], float],
        epsilon: float,
        *,
        low: float,
        high: float,
        rising: bool,
        guess: Callable[[float], float] | None = None,
        tolerance: float = TOLERANCE,
    ):
        self._cost, self._guess, self._epsilon, self._tolerance = cost, guess, epsilon, tolerance
        self._sign = 1 if rising else -1
        self._low, self._high = low, high
        self._cheap, self._dear = (low, high) if rising else (high, low)

    def run(self, start: float) -> float | None:
        """A parameter whose cost was found within the budget; None if not even the cheapest is."""
        if self._guess is not None:
            known = self._guess
            start = (
                Search(
                    known,
                    self._epsilon,
                    low=self._low,
                    high=self._high,
                    rising=self._sign > 0,
                    tolerance=0.1 * self._tolerance,
                ).run(start)
                or self._cheap
            )
        aim = -0.5 * self._tolerance
        parameter, good, bad = start, None, None
        points: list[tuple[float, float]] = []  # logarithms: of the parameter, of cost over the budget
        gaps: list[float] = []
        for count in range(_MOST):
            value = self._cost(parameter)
            patience, more = (_PATIENCE, _MORE_LEFT) if self._guess is None else (_FEW, _LITTLE_MORE)
            left = self._tolerance * (1 if count < patience else more)
            if value <= self._epsilon:
                if good is None or self._sign * (parameter - good) > 0:
                    good = parameter
                if value >= self._epsilon * (1 - left) or parameter == self._dear:
                    break
            elif parameter == self._cheap:
                break
            elif bad is None or self._sign * (parameter - bad) < 0:
                bad = parameter
            x, after = math.log(parameter), math.nan
            if 0 < value < math.inf:
                points.append((x, math.log(value / self._epsilon)))
                after = self._predicted(points, aim)
            if good is None or bad is None:
                if math.isnan(after):
                    after = x + (_BLIND if value <= self._epsilon else -_BLIND) * self._sign
                ahead = self._sign if value <= self._epsilon else -self._sign
                step = min(ahead * (after - x), _LONGEST)
                step = (step if step > 0 else _BLIND) * 2 ** max(count - _PATIENCE // 2, 0)
                parameter = self._clipped(x + ahead * step)
                continue
            first, gap = math.log(good), math.log(bad / good)
            gaps.append(abs(gap))
            if abs(gap) <= 0.1 * self._tolerance:
                break
            share = (after - first) / gap
            slow = len(gaps) > 2 and gaps[-1] > _SHRINKING * gaps[-3]
            if slow or not 0 <= share <= 1:
                share = 0.5
                gaps = gaps[-1:]
            parameter = math.exp(first + gap * min(max(share, _INSIDE), 1 - _INSIDE))
        return good

    def _predicted(self, points: list[tuple[float, float]], aim: float) -> float:
        """Where the cost is at its aim, from the points that are nearest to it."""
        near = sorted(points, key=lambda one: abs(one[1] - aim))[:3]
        if self._guess is not None:
            return self._followed(self._guess, points[-2:], aim)
        x, y = near[0]
        if len(near) == 1:
            return x + self._sign * (aim - y)
        steps = [(b[0] - a[0], self._sign * (b[1] - a[1])) for a, b in pairwise(sorted(near))]
        inside = min(y for _, y in near) <= aim <= max(y for _, y in near)
        if not inside or any(dx == 0 or not _FLATTEST * dx <= dy <= _STEEPEST * dx for dx, dy in steps):
            dx, dy = near[1][0] - x, near[1][1] - y
            slope = min(max(self._sign * dy / dx, _FLATTEST), _STEEPEST) if dx else 1.0
            return x + self._sign * (aim - y) / slope
        return sum(
            x * math.prod((aim - other) / (y - other) for _, other in near if other != y) for x, y in near
        )

    def _followed(
        self, guess: Callable[[float], float], points: list[tuple[float, float]], aim: float
    ) -> float:
        """From the last point, by the guess times what the cost was of it."""
        (x, y), trend = points[-1], 0.0
        here, before = guess(math.exp(x)), guess(math.exp(points[0][0]))
        if not (0 < here < math.inf and 0 < before < math.inf):
            return x + self._sign * (aim - y)
        if abs(x - points[0][0]) > _APART:
            trend = (y - points[0][1] - math.log(here / before)) / (x - points[0][0])
            trend = min(max(trend, -_TREND), _TREND)
        found = Search(
            lambda parameter: guess(parameter) * math.exp(trend * (math.log(parameter) - x)),
            here * math.exp(aim - y),
            low=self._low,
            high=self._high,
            rising=self._sign > 0,
            tolerance=0.1 * self._tolerance,
        ).run(math.exp(x))
        return math.log(self._cheap if found is None else found)

    def _clipped(self, x: float) -> float:
        """The ends themselves, where x is beyond them."""
        if x <= math.log(self._low):
            return self._low
        return self._high if x >= math.log(self._high) else math.exp(x)
