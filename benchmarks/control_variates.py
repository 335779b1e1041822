"""Private control variates against the non-private posterior.

    python -m benchmarks.control_variates logistic --n 20000 --epsilon 1 2 4 --data 10 --plain
    python -m benchmarks.control_variates released logistic --n 20000 --epsilon 1 2 4 --data 10
    python -m benchmarks.control_variates coverage --n 20000 --epsilon 2 --data 200 [--chains --draws 300]
    python -m benchmarks.control_variates poisson | linear | groups
    python -m benchmarks.control_variates many | many_correlated [--structure full]
    python -m benchmarks.control_variates gaussian | banana --epsilon 4 --data 5
    python -m benchmarks.control_variates speed --n 1000000

Errors are root mean squares over parameters of the difference of posterior means, in non-private posterior
standard deviations, in unconstrained space. The non-private posterior is Laplace's approximation (exact
enough at these sizes) or, for `groups`, a chain of this sampler without noise; `banana` and `gaussian` have
exact draws. `released` and `coverage` (without `--chains`) run no chain: they take the mean and standard
deviations of prior times surrogate (Laplace), which is what a chain samples but for the residuals. The model
is compiled once for all data sets there, which is why there can be many.
"""

import time
import warnings

import numpy as np
import pymc as pm

import pymc_dp as dp
from benchmarks import running
from pymc_dp.control_variates import ControlVariates
from pymc_dp.control_variates.curvature import prior_curvature
from pymc_dp.control_variates.finder import Finder
from pymc_dp.privacy.gaussian import mu
from pymc_dp.privacy.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel

DELTA = 1e-6
QUIET = {"cores": 1, "progressbar": False, "quiet": True, "compute_convergence_checks": False}


def shared(**arrays):
    """Data nodes of the model in context; None if it has them already, and then they are replaced."""
    model = pm.modelcontext(None)
    if set(arrays) <= set(model.named_vars):
        pm.set_data(arrays)
        return None
    return [pm.Data(name, values) for name, values in arrays.items()]


def logistic(seed, n):
    r = np.random.default_rng(seed)
    z = r.normal(size=(n, 5)) / np.sqrt(5)
    z /= np.maximum(1, np.linalg.norm(z, axis=1))[:, None]
    x = np.column_stack([np.full(n, 0.7), z * 0.714])
    truth = np.r_[-1, 1.5 * r.normal(size=5)]
    y = (r.random(n) < 1 / (1 + np.exp(-x @ truth))).astype(int)
    if data := shared(data_x=x, data_y=y):
        beta = pm.Normal("beta", 0, 2, shape=6)
        pm.Bernoulli("y", logit_p=data[0] @ beta, observed=data[1])
    return truth


def poisson(seed, n):
    r = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), r.normal(size=(n, 4)) * 0.5])
    truth = np.r_[1.0, 0.6 * r.normal(size=4)]
    if data := shared(data_x=x, data_y=r.poisson(np.exp(x @ truth))):
        beta = pm.Normal("beta", 0, 2, shape=5)
        pm.Poisson("y", pm.math.exp(data[0] @ beta), observed=data[1])
    return truth


def linear(seed, n, sigma_true=1.5):
    r = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), r.normal(size=(n, 4))])
    truth = np.r_[2.0, r.normal(size=4), np.log(sigma_true)]
    if data := shared(data_x=x, data_y=x @ truth[:5] + sigma_true * r.normal(size=n)):
        beta = pm.Normal("beta", 0, 5, shape=5)
        sigma = pm.HalfNormal("sigma", 5, initval=1.0)
        pm.Normal("y", data[0] @ beta, sigma, observed=data[1])
    return truth


def linear_large(seed, n):
    return linear(seed, n, 30.0)


def linear_small(seed, n):
    return linear(seed, n, 0.05)


def separable(seed, n):
    r = np.random.default_rng(seed)
    z = r.normal(size=(n, 5)) / np.sqrt(5)
    z /= np.maximum(1, np.linalg.norm(z, axis=1))[:, None]
    x = np.column_stack([np.full(n, 0.7), z * 0.714])
    truth = np.r_[-1, np.full(5, 25.0)]
    y = (r.random(n) < 1 / (1 + np.exp(-x @ truth))).astype(int)
    if data := shared(data_x=x, data_y=y):
        beta = pm.Normal("beta", 0, 10, shape=6)
        pm.Bernoulli("y", logit_p=data[0] @ beta, observed=data[1])
    return truth


def many(seed, n, d=50, correlation=0.0):
    """Fifty parameters; row norm <= 1; covariates with this correlation."""
    r = np.random.default_rng(seed)
    z = np.sqrt(1 - correlation) * r.normal(size=(n, d - 1)) + np.sqrt(correlation) * r.normal(size=(n, 1))
    z /= np.sqrt(d - 1)
    z /= np.maximum(1, np.linalg.norm(z, axis=1))[:, None]
    x = np.column_stack([np.full(n, 0.7), z * 0.714])
    truth = np.r_[-1, 1.5 * r.normal(size=d - 1)]
    y = (r.random(n) < 1 / (1 + np.exp(-x @ truth))).astype(int)
    if data := shared(data_x=x, data_y=y):
        beta = pm.Normal("beta", 0, 2, shape=d)
        pm.Bernoulli("y", logit_p=data[0] @ beta, observed=data[1])
    return truth


def many_correlated(seed, n):
    return many(seed, n, correlation=0.5)


def groups(seed, n):
    r = np.random.default_rng(seed)
    group, x, z = r.integers(20, size=n), r.normal(size=(n, 3)) * 0.6, r.normal(size=20)
    slopes = r.normal(size=3)
    y = (r.random(n) < 1 / (1 + np.exp(0.5 - 0.8 * z[group] - x @ slopes))).astype(int)
    if data := shared(data_group=group, data_x=x, data_y=y):
        mean, tau = pm.Normal("mean", 0, 2), pm.HalfNormal("tau", 1)
        level = pm.Normal("level", mean, tau, shape=20)
        beta = pm.Normal("beta", 0, 2, shape=3)
        pm.Bernoulli("y", logit_p=level[data[0]] + data[1] @ beta, observed=data[2])


MODELS = {f.__name__: f for f in (logistic, poisson, linear, linear_large, linear_small, separable, groups)}
MODELS |= {f.__name__: f for f in (many, many_correlated)}
POSITIVE = ("sigma", "tau")


def draws_of(idata):
    """Draws in unconstrained space, shape (draws, d)."""
    names = [v for v in ("beta", "sigma", "mean", "tau", "level") if v in idata.posterior]
    stacked = {v: idata.posterior[v].to_numpy() for v in names}
    return np.column_stack([
        (np.log(x) if v in POSITIVE else x).reshape(x.shape[0] * x.shape[1], -1) for v, x in stacked.items()
    ])  # fmt: skip


def laplace(records):
    """Mean and standard deviations by Newton's method on the exact log-posterior."""
    if not records.coordinates.identity:
        raise ValueError("derivatives are not by the parameters")
    theta = records._start.copy()

    def value(t):
        return records.full_batch.rows(t).sum() + records.log_prior(t)

    for _ in range(100):
        gradient, precision = records.log_prior_gradient(theta), prior_curvature(records, theta)
        for part in records.derivatives(theta, hessians=True):
            gradient = gradient + part.gradient.sum(axis=0)
            precision = precision - part.hessian.sum(axis=0)
        values, vectors = np.linalg.eigh(precision)
        step = vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(values), 1e-3))
        halvings = 0
        while not value(theta + step) >= value(theta) - 1e-6:
            step, halvings = step / 2, halvings + 1
            if halvings > 60:
                raise RuntimeError("Newton's method found no better point")
        theta = theta + step
        if abs(step @ precision @ step) < 1e-8:
            return theta, np.sqrt(np.diag(np.linalg.inv(precision)))
    raise RuntimeError("Newton's method did not converge")


def plain_step(model, epsilon):
    """The penalty chain without surrogate: it knows a Lipschitz constant."""
    return dp.DPPenaltyMH(epsilon=epsilon, delta=DELTA, chains=1, lipschitz=1.0, model=model)


def compared(step, seed, model, reference, **call):
    """Error and standard deviation ratios of one run, and what it took."""
    mean, sd = reference
    started = time.perf_counter()
    idata = dp.sample(step, random_seed=seed, model=model, **QUIET, **call)
    seconds = time.perf_counter() - started
    x = draws_of(idata)
    error, ratio = np.sqrt(np.mean(((x.mean(axis=0) - mean) / sd) ** 2)), x.std(axis=0) / sd
    return error, ratio, float(idata.sample_stats.accepted.mean()), seconds


def table(name, args):
    """Errors and ratios over data sets, of whole chains."""
    warnings.simplefilter("ignore")
    kinds = ["control variates", "plain"][: 1 + args.plain]
    found = {(kind, epsilon): [] for kind in kinds for epsilon in args.epsilon}
    structure = args.structure or ("diagonal" if name.startswith("many") else "full")
    for seed in range(args.data):
        with pm.Model() as model:
            MODELS[name](seed, args.n)
        variates = ControlVariates(structure=structure)
        settings = {"delta": DELTA, "chains": 1, "control_variates": variates, "model": model}
        if name == "groups":
            exact = dp.DPPenaltyMH(epsilon=np.inf, **settings)
            kept = draws_of(dp.sample(exact, draws=1000, tune=0, random_seed=seed, model=model, **QUIET))
            reference = kept.mean(axis=0), kept.std(axis=0)
        else:
            reference = laplace(RecordModel(model))
        for kind, epsilon in found:
            if kind == "plain":
                step, tune = plain_step(model, epsilon), {}
            else:
                step, tune = getattr(dp, args.sampler)(epsilon=epsilon, **settings), {"tune": 0}
            try:
                one = compared(step, seed, model, reference, draws=args.draws, **tune)
            except dp.TooFewRecordsError as error:
                print(seed, epsilon, error, flush=True)
                continue
            found[kind, epsilon].append(one)
            error, ratio, accepted, seconds = one
            print(f"{seed} {kind}, epsilon {epsilon:g}: error {error:.3f} sd ratio {ratio.min():.2f}-"
                  f"{ratio.max():.2f} accepted {accepted:.2f} {seconds:.0f} s", flush=True)  # fmt: skip
    for (kind, epsilon), kept in found.items():
        if not kept:
            continue
        errors, ratios = [one[0] for one in kept], np.array([one[1] for one in kept])
        medians = np.median(ratios, axis=0)
        print(
            f"{name} {args.sampler} {kind}, n = {args.n:,}, epsilon = {epsilon:g}, {args.draws} draws: "
            f"median error {np.median(errors):.3f} (largest {max(errors):.3f}) over {len(kept)} data sets, "
            f"{args.data - len(kept)} refused; sd ratios: medians by parameter {medians.min():.3f}-"
            f"{medians.max():.3f}, all {ratios.min():.2f}-{ratios.max():.2f}"
        )


class Released:
    """Prior times surrogate of many data sets, by one compiled model; and the exact posterior."""

    def __init__(self, name, n):
        self.name, self.n = name, n
        with pm.Model() as self.model:
            MODELS[name](0, n)
        self.records = RecordModel(self.model)

    def data(self, seed):
        """Take another data set; its true parameters."""
        with self.model:
            return MODELS[self.name](seed, self.n)

    def __call__(self, epsilon, seed):
        """Mean and standard deviations."""
        records = self.records
        squared = float(mu(epsilon, DELTA)) ** 2
        finder = Finder(records, ControlVariates(), squared, PrivacyRandom(seed), 1.0, epsilon)
        surrogate = finder(records._start)
        slope, curvature = surrogate.public()
        theta = surrogate.point.copy()
        for _ in range(50):
            jacobian, delta = records.coordinates.jacobian(theta), records.coordinates(theta) - surrogate.phi
            precision = prior_curvature(records, theta) - jacobian.T @ curvature @ jacobian
            gradient = records.log_prior_gradient(theta) + jacobian.T @ (slope + curvature @ delta)
            theta = theta + np.linalg.solve(precision, gradient)
        return theta, np.sqrt(np.diag(np.linalg.inv(precision)))


def released(args):
    """Errors and ratios without chains, for each epsilon."""
    made = Released(args.model, args.n)
    found = {epsilon: [] for epsilon in args.epsilon}
    for seed in range(args.data):
        made.data(seed)
        mean, sd = laplace(made.records)
        for epsilon in args.epsilon:
            try:
                theta, own = made(epsilon, seed)
            except dp.TooFewRecordsError as error:
                print(seed, error, flush=True)
                continue
            found[epsilon].append((np.sqrt(np.mean(((theta - mean) / sd) ** 2)), own / sd))
            print(seed, epsilon, f"error {found[epsilon][-1][0]:.3f}", flush=True)
    for epsilon, kept in found.items():
        errors, ratios = [k[0] for k in kept], np.array([k[1] for k in kept])
        print(
            f"{args.model}, prior times surrogate, n = {args.n:,}, epsilon = {epsilon:g}: median error "
            f"{np.median(errors):.3f} (largest {max(errors):.3f}) over {len(kept)} data sets, "
            f"{args.data - len(kept)} refused; sd ratios {ratios.min():.3f}-{ratios.max():.3f}"
        )


def coverage(args):
    """Share of 90% intervals that cover the simulated truth."""
    made, kept = Released("logistic", args.n), []
    for seed in range(args.data):
        truth = made.data(seed)
        try:
            if args.chains:
                step = dp.DPPenaltyMH(
                    epsilon=args.epsilon[0], delta=DELTA, chains=1, control_variates=True, model=made.model
                )
                call = {"draws": args.draws, "tune": 0, "random_seed": seed, "model": made.model}
                low, high = np.quantile(draws_of(dp.sample(step, **call, **QUIET)), [0.05, 0.95], axis=0)
            else:
                theta, sd = made(args.epsilon[0], seed)
                low, high = theta - 1.6449 * sd, theta + 1.6449 * sd
        except dp.TooFewRecordsError:
            continue
        kept.append((low < truth) & (truth < high))
        if seed % 20 == 19:
            print(seed, f"{np.mean(kept):.3f}", flush=True)
    error = np.std(np.mean(kept, axis=1)) / np.sqrt(len(kept))
    how = f"{args.draws} draws" if args.chains else "prior times surrogate"
    print(
        f"coverage of 90% intervals, {how}, n = {args.n:,}, epsilon = {args.epsilon[0]:g}: "
        f"{np.mean(kept):.3f} (standard error {error:.3f}), {len(kept)} data sets, "
        f"{args.data - len(kept)} refused"
    )


def reference(args):
    """Banana of the thesis, or a Gaussian mean in ten dimensions: MMD to exact draws."""
    distances, epsilon = [], args.epsilon[0]
    for seed in range(args.data):
        if args.what == "banana":
            problem = dp.models.banana(2, args.n, a=20.0, seed=seed)
        else:
            q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(10, 10)))
            covariance = (q * np.geomspace(0.0127, 2, 10)) @ q.T
            covariance = 0.5 * (covariance + covariance.T)
            problem = dp.models.gaussian_mean(10, args.n, cov=covariance, seed=seed)
        settings = ControlVariates(chain=args.chain, noise_std=args.noise_std)
        step = dp.DPPenaltyMH(
            epsilon=epsilon, delta=DELTA, chains=1, control_variates=settings, model=problem.model
        )
        try:
            idata = dp.sample(step, draws=args.draws, tune=0, random_seed=seed, model=problem.model, **QUIET)
        except dp.TooFewRecordsError as error:
            print(seed, error, flush=True)
            continue
        x = np.column_stack([idata.posterior[v].to_numpy().reshape(args.draws, -1) for v in idata.posterior])
        exact = problem.posterior_draws(1000, np.random.default_rng(seed))
        distances.append(dp.metrics.mmd(x, exact))
        accepted = float(idata.sample_stats.accepted.mean())
        clipped = float(idata.sample_stats.clip_fraction[0, -1])
        print(seed, f"MMD {distances[-1]:.3f} accepted {accepted:.2f} clipped {clipped:.4f}", flush=True)
    if distances:
        print(
            f"{args.what} n = {args.n:,}, epsilon = {epsilon:g}, {args.draws} draws, share of the "
            f"chain {args.chain:g}, noise_std {args.noise_std:g}: mean MMD "
            f"{np.mean(distances):.3f} over {len(distances)} runs, {args.data - len(distances)} refused"
        )


def speed(args):
    """Iterations per second: batches on residuals against the plain full-batch penalty chain."""
    warnings.simplefilter("ignore")
    with pm.Model() as model:
        logistic(0, args.n)
    rates = []
    for name, step, draws in (
        ("DPFastMH on residuals", _fast(model, args), 5000),
        ("plain DPPenaltyMH", plain_step(model, args.epsilon[0]), 60),
    ):
        times = [time.perf_counter()]
        with model:
            pm.sample(
                draws=draws, tune=0, step=step, chains=1, random_seed=0, **QUIET,
                callback=lambda trace, draw, times=times: times.append(time.perf_counter()),
            )  # fmt: skip
        each = np.diff(times)[draws // 10 :]
        rates.append(1 / np.median(each))
        print(
            f"{name}: {rates[-1]:.1f} iterations/s (median; mean {1 / np.mean(each):.1f}); the first "
            f"{times[1] - times[0]:.0f} s after the call"
        )
    print(f"ratio {rates[0] / rates[1]:.0f}")


def _fast(model, args):
    settings = ControlVariates(chain=args.chain)
    return dp.DPFastMH(epsilon=args.epsilon[0], delta=DELTA, chains=1, control_variates=settings, model=model)


def main():
    parser = running.parser(__doc__)
    others = {"released": released, "coverage": coverage, "banana": reference, "gaussian": reference}
    others["speed"] = speed
    parser.add_argument("what", choices=[*MODELS, *others])
    parser.add_argument("model", nargs="?", default="logistic", choices=MODELS, help="for `released`")
    parser.add_argument("--n", type=int)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[2.0])
    parser.add_argument("--data", type=int, default=10)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument(
        "--chain", type=float, default=0.02, help="share of the budget; banana, gaussian, speed"
    )
    parser.add_argument("--noise-std", type=float, default=1.0, help="banana, gaussian")
    parser.add_argument("--structure", choices=["full", "diagonal"], help="of Hessians")
    parser.add_argument("--sampler", default="DPPenaltyMH")
    parser.add_argument("--chains", action="store_true", help="coverage by chains")
    parser.add_argument("--plain", action="store_true", help="the plain penalty chain beside it")
    args = parser.parse_args()
    if args.n is None:
        args.n = {"speed": 1_000_000, "coverage": 20_000}.get(args.what, 100_000)
    if args.what in MODELS:
        table(args.what, args)
    else:
        others[args.what](args)


if __name__ == "__main__":
    main()
