"""Whole chains over data sets."""

import time
import warnings

import numpy as np
import pymc as pm

import pymc_dp as dp
from benchmarks.control_variates.models import MODELS
from benchmarks.control_variates.posteriors import DELTA, draws_of, laplace
from benchmarks.running import QUIET
from pymc_dp.control_variates import ControlVariates
from pymc_dp.records.model import RecordModel


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
