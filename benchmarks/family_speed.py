"""What an iteration and a gradient cost for each family, against PyMC's own, in ratios of one run.

    OMP_NUM_THREADS=1 python -m benchmarks.family_speed                    # about six minutes
    OMP_NUM_THREADS=1 python -m benchmarks.family_speed --only softmax student_t --n 20000

"logp" is PyMC's compiled log-likelihood of the model, "iteration" a whole one of DPPenaltyMH on all records
(proposal, one pass, noise, decision); "plain" PyTensor's gradient of that log-likelihood, "gradient" the
clipped sum of the records' gradients. Times are medians in processor time of one thread, in milliseconds;
twenty calls of each in turn, since a chain finds the caches as it left them. Data are simulated from the
models' own priors (`benchmarks.families`).
"""

from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from benchmarks import running
from benchmarks.families.models import FAMILIES
from benchmarks.iteration.chains import Chain, started
from pymc_dp.records.model import RecordModel

ITERATION, GRADIENT = 1.2, 2.0
CLIP_BOUND = 1.0


def normal_rows(size):
    """Rows of a multivariate normal of unknown covariance."""

    def define(x, y):
        sd = pm.Exponential.dist(1.0, shape=size)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=size, eta=2, sd_dist=sd)
        pm.MvNormal("y", pm.Normal("mean", 0, 1, shape=size), chol=chol, observed=y)

    return define


def wide_softmax(x, y):
    """Three classes, all with weights of their own."""
    weights = pm.Normal("weights", 0, 1, shape=(10, 3))
    pm.Categorical("y", p=pm.math.softmax(x @ weights, axis=-1), observed=y)


def declare(name, n):
    """Model with data of its own kind."""
    r = np.random.default_rng(0)
    if name.startswith("mv_normal"):
        size = int(name.rsplit("_", 1)[1])
        define, x, y = normal_rows(size), None, r.normal(size=(n, size)) @ r.normal(size=(size, size))
    elif name == "wide_softmax":
        define, x, y = wide_softmax, r.normal(size=(n, 10)) / np.sqrt(10), r.integers(0, 3, n)
    else:
        define, covariates = FAMILIES[name]
        x = covariates(r, n)
        with pm.Model() as prior:
            define(pm.math.constant(x), None)
        y = pm.draw(prior["y"], random_seed=0)
    with pm.Model() as model:
        define(x if x is None else pm.Data("data_x", x), pm.Data("data_y", y))
    return model


NAMES = [*FAMILIES, "wide_softmax", "mv_normal_3", "mv_normal_10"]


def of_pymc(model):
    """PyMC's log-likelihood and its gradient, as functions of the value variables."""
    compiled = partial(model.compile_fn, inputs=model.value_vars, point_fn=False, on_unused_input="ignore")
    slopes = pt.grad(model.datalogp, model.value_vars, disconnected_inputs="ignore")
    slope = pt.concatenate([v.ravel() for v in slopes])
    functions = [compiled(model.datalogp), compiled(slope)]
    for function in functions:
        function.trust_input = True
    return functions


def measured(name, n, seconds):
    """Median milliseconds of an iteration, PyMC's log-likelihood, a clipped gradient and PyMC's plain one."""
    model = declare(name, n)
    records, point = RecordModel(model), model.initial_point(0)
    theta = records.ravel(point) + 0.05 * np.random.default_rng(0).normal(size=records.d)
    values = [records.unravel(theta)[v.name] for v in model.value_vars]
    logp, plain = of_pymc(model)
    found, expected = records.gradients(theta, 1e4), plain(*values)
    if found.clipped or not np.allclose(found.total, expected, rtol=1e-6, atol=4e-4 * n):
        raise RuntimeError("the clipped sum without clipping is something else")
    chain = Chain(started(model, lipschitz=None, clip_bound=CLIP_BOUND), records.unravel(theta))
    calls = [partial(logp, *values), partial(records.gradients, theta, CLIP_BOUND), partial(plain, *values)]
    return running.medians([chain, *calls], seconds, running.time.process_time, together=20)


def main():
    """Print the table."""
    parser = running.parser(__doc__)
    parser.add_argument("--only", choices=NAMES, nargs="+", default=NAMES)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=8.0)
    arguments = parser.parse_args()
    running.silence()
    columns = ("iteration", "logp", f"ratio<{ITERATION}", "gradient", "plain", f"ratio<{GRADIENT:g}")
    print(f"{f'n = {arguments.n:,}':18}" + "".join(f"{c:>11}" for c in columns))
    for name in arguments.only:
        iteration, logp, gradient, plain = measured(name, arguments.n, arguments.seconds)
        row = (iteration, logp, iteration / logp, gradient, plain, gradient / plain)
        print(f"{name:18}" + "".join(f"{value:11.2f}" for value in row), flush=True)


if __name__ == "__main__":
    main()
