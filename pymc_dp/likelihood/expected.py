"""expected_width(): how wide a released likelihood will be, from public numbers alone."""

import math

from pymc_dp.bounds import check_relation, check_target
from pymc_dp.likelihood.efficiency import sharpest_bounds
from pymc_dp.privacy.accounting import gaussian

# Of the budget, for the last round.
_LAST = 0.6
# The way to the parameters, then.
_WAY = 0.1


def expected_width(
    n: float,
    parameters: int,
    epsilon: float,
    delta: float = 1e-6,
    *,
    predictors: int = 1,
    neighboring_relation: str = "substitute",
) -> float:
    """How many times as wide as without privacy intervals of `release_likelihood` will be, about.

    Parameters
    ----------
    n : float
        Number of records that tell of a parameter: of a group's level those of the group.
    parameters : int
        That a record tells of: of the levels of groups one.
    epsilon, delta : float
    predictors : int
        Of each record: 1 for logistic regressions and counts, 2 where a scale is estimated, ...
    neighboring_relation : {"substitute", "add_remove"}

    Returns
    -------
    float
        At least 1. It is what noise and clips do at the end of a search, where scores are like normal ones of
        units that tell somewhat unequally:
        right within 15% up to 1.4, and a lower bound beyond (docs/planning has a table). It does not know the
        prior, which bounds how wide a posterior is.

    Raises
    ------
    TypeError, ValueError
        A number is out of range.

    Notes
    -----
    **Privacy.** Reads nothing.

    Examples
    --------
    >>> import pymc_dp as dp
    >>> print(f"{dp.expected_width(5000, parameters=6, epsilon=1):.1f}")
    1.4
    """
    check_target(epsilon, delta)
    check_relation(neighboring_relation)
    if not (n > 0 and parameters >= 1 and predictors >= 1):
        raise ValueError("n is positive, and there is at least one parameter and one predictor.")
    if math.isinf(epsilon):
        return 1.0
    mu = float(gaussian.mu(epsilon, delta))
    # One that is added or removed moves half as much: as if mu were twice as large.
    mu *= 1.0 if neighboring_relation == "substitute" else 2.0
    found = sharpest_bounds(n, mu * math.sqrt(_LAST), parameters, min(predictors, parameters), _WAY)
    return max(math.sqrt(n * found.variance), 1.0)
