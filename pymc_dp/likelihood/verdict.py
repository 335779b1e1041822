"""One calm verdict by parameter: what the release says of it, from released numbers alone."""

import math

import numpy as np

from pymc_dp.likelihood.mixtures import Normal
from pymc_dp.likelihood.search import Found
from pymc_dp.privacy.budget.known import Verdict

# Wider than without privacy by no more, it is as good; standard deviations over the prior's above which a
# parameter is hardly known.
_AS_GOOD, _LITTLE = 1.25, 0.7


def judge(found: Found, prior: Normal, labels: list[str]) -> dict[str, Verdict]:
    """What is known of each coordinate.

    Parameters
    ----------
    found : Found
    prior : Normal
        What the prior of the coordinates is like.
    labels : list of str

    Returns
    -------
    dict
        By label: `verdict` in words; `wider`, the standard deviation over that without privacy, as far as
        released numbers tell; `of_prior`, over the prior's.

    Notes
    -----
    **Privacy.** Post-processing.
    """
    private = _deviations(found.message.information + prior.precision)
    without = _deviations(found.information + prior.precision)
    before = _deviations(prior.precision)
    verdicts: dict[str, Verdict] = {}
    for label, one, other, first in zip(labels, private, without, before, strict=True):
        wider, of_prior = max(float(one / other), 1.0), min(float(one / first), 1.0)
        if of_prior > _LITTLE and (wider > _AS_GOOD or not np.any(found.message.information)):
            said = "says little"
        elif wider <= _AS_GOOD:
            said = "usable"
        else:
            said = "usable, wider than without privacy"
        verdicts[label] = {"verdict": said, "wider": wider, "of_prior": of_prior}
    return verdicts


def _deviations(precision: np.ndarray) -> np.ndarray:
    # In units in which all are alike: parameters may have any scale.
    unit = 1 / np.sqrt(np.maximum(np.diag(precision), math.ulp(0.0)))
    variances = np.diag(np.linalg.pinv(precision * np.outer(unit, unit), hermitian=True))
    return unit * np.sqrt(np.maximum(variances, math.ulp(0.0)))
