"""expected_width(): the width of intervals of a released likelihood, predicted from public numbers alone."""

import math

from pymc_dp.bounds import check_relation, check_target
from pymc_dp.likelihood.efficiency import sharpest_bounds
from pymc_dp.privacy.accounting import gaussian


def expected_width(
    n: float,
    parameters: int,
    epsilon: float,
    delta: float = 1e-6,
    *,
    predictors: int = 1,
    neighboring_relation: str = "substitute",
) -> float:
    """Predict the width of intervals of `release_likelihood`, over the width without privacy.

    Parameters
    ----------
    n : float
        Number of records that have information about a parameter: for a group's level, the records of the
        group.
    parameters : int
        Number of parameters that a record has information about: of the levels of groups, one.
    epsilon, delta : float
        Budget of the release.
    predictors : int
        Of each record: 1 for logistic regressions and counts, 2 where a scale is estimated, ...
    neighboring_relation : {"substitute", "add_remove"}

    Returns
    -------
    float
        At least 1. It is computed from the noise and the clipping at the end of a search, for normal scores
        of units whose information differs somewhat. It is right within 15% up to 1.4, and a lower bound
        beyond (docs/planning has a table). The prior, which limits the width of a posterior, is not taken
        into account.

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
    # A record that is added or removed moves a sum half as much as one that is replaced, as if mu were
    # twice as large.
    mu *= 1.0 if neighboring_relation == "substitute" else 2.0
    # Expected distance to the parameters in the last round, where one record has Fisher information 1.
    way = 0.1
    # Share of the budget that the last round is expected to have.
    last_share = 0.6
    found = sharpest_bounds(n, mu * math.sqrt(last_share), parameters, min(predictors, parameters), way)
    return max(math.sqrt(n * found.variance), 1.0)
