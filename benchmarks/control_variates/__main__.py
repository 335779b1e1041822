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
from benchmarks.control_variates.chains import plain_step, table
from benchmarks.control_variates.models import MODELS, logistic
from benchmarks.control_variates.posteriors import DELTA, Released, draws_of, laplace
from benchmarks.running import QUIET
from pymc_dp.control_variates import ControlVariates


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
            epsilon=epsilon,
            delta=DELTA,
            chains=1,
            control_variates=settings,
            model=problem.model,
            public=problem.public,
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
