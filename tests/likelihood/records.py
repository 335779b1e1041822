"""Records for tests of comparisons: hostile ones, and of simulated models; and their sums, one by one."""

import numpy as np

from pymc_dp.likelihood.comparisons import Totals, compare

# Sizes of numbers: up to where squares overflow, down to where they vanish.
_HUGE, _ODD = 1e200, (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0)


def alone(own, group, weights, rows, bounds, function=compare):
    """What each record adds by itself: scores, shape (m, p), and slopes with variances, (m, p * p + p)."""
    scores, slopes = [], []
    for i in range(len(own)):
        totals, one = Totals(rows.shape[2]), slice(i, i + 1)
        row = rows[:, one] if rows.shape[1] > 1 else rows
        given = None if weights is None else weights[:, one]
        function(own[one], group[:, one], given, row, bounds, totals)
        scores.append(totals.score)
        slopes.append(np.append(totals.slope, totals.variances))
    return np.array(scores), np.array(slopes)


@np.errstate(all="ignore")
def hostile(random, m, k, p, number, weighted):
    """Records that would break a bound: any sizes, collinear rows, numbers that are not finite."""
    group = random.standard_cauchy((number, m, k)) * 10.0 ** random.uniform(-3, 3, (m, 1))
    group *= 10.0 ** random.choice([0, 0, 0, 5, 150, -150, -310], (m, 1))
    rows = random.normal(size=(k, m, p)) * 10.0 ** random.choice([0, 0, 3, -8, 160, -160, -312], (m, 1))
    # Rows along an axis, or nearly along the first one.
    axis = random.random(m) < 0.3
    rows[:, axis] = 0.0
    rows[:, axis, random.integers(p, size=axis.sum())] = random.choice([-1e6, 1.0, 1e9], axis.sum())
    same = random.random(m) < 0.2
    rows[1:, same] = rows[:1, same] * (1 + 1e-9 * random.normal(size=(k - 1, same.sum(), 1)))
    group[1:, random.random(m) < 0.1] *= -_HUGE
    for array in (group, rows):
        odd = random.random(array.shape) < 0.01
        array[odd] = random.choice(_ODD, odd.sum())
    own = group[0].copy() if number and not weighted else random.standard_cauchy((m, k)) * 1e3
    if not weighted or not number:
        return own, group, None, rows
    weights = random.dirichlet(np.full(number, 0.3), m).T * (random.random((number, m)) < 0.8)
    weights[random.random((number, m)) < 0.01] = -0.5
    return own, group, weights, rows
