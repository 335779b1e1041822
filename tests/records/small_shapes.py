"""A script: a few records' shapes are tiny, and outcomes of all are drawn by the code that ships."""

from operator import call

import numpy as np
import pymc as pm

from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from pymc_dp.records.twins import Twins

KINDS = {
    "student_t": lambda a: pm.StudentT("y", nu=a, mu=0.0, sigma=1.0, observed=np.ones(300)),
    "half_student_t": lambda a: pm.HalfStudentT("y", nu=a, sigma=1.0, observed=np.ones(300)),
    "inverse_gamma": lambda a: pm.InverseGamma("y", alpha=a, beta=1.0, observed=np.ones(300)),
    "beta": lambda a: pm.Beta("y", alpha=a, beta=a, observed=np.full(300, 0.5)),
    "beta_binomial": lambda a: pm.BetaBinomial("y", n=9, alpha=a, beta=a, observed=np.ones(300, int)),
}
VALUES = [1e-3, 1e-5, 1e-11, 1e-30, 1e-90]


# A record each.
PLACES = 7 + np.arange(len(VALUES))


def drawn(kind: str) -> bool:
    """Whether all other records have finite scores of their twins."""
    x = np.ones(300)
    x[PLACES] = VALUES
    with pm.Model() as model:
        KINDS[kind](pm.math.exp(pm.Normal("a")) * x)
    records = RecordModel(model, verify=False)
    (chunk,) = map(call, Twins(records)(records.coordinates(np.zeros(1)), 50, PrivacyRandom(debug_seed=1)))
    group = np.delete(np.asarray(chunk.terms[0].group), PLACES, axis=1)
    return bool(np.isfinite(group).all())


if __name__ == "__main__":
    for kind in KINDS:
        print(kind, drawn(kind))
    print("to the end")
