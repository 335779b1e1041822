"""Cases of DPBarker, and of DPFastMH."""

from dataclasses import replace

import numpy as np

import pymc_dp as dp
from benchmarks.audit.attack import COMMON, DELTA, SHORTENED, WALK, Cycle, bound_of, model, neighbors
from benchmarks.audit.cases import Case, of_penalty
from benchmarks.audit.faults import (
    ADD_REMOVE,
    HALF_NOISE,
    UNCLIPPED,
    Fault,
    Patch,
    chain_faults,
    fixed_batch,
    leak,
    sharper,
    wider,
    wider_shares,
)
from benchmarks.audit.tester import Approximate
from benchmarks.published_fast_mh import PublishedFastMH
from pymc_dp.privacy.mechanisms.randomness import ExactSum, TunaBatches
from pymc_dp.ratios import barker_correction, tuna
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import FullBatch


def barker_on_all():
    def make(values, tilt, **kwargs):
        return dp.DPBarker(**{**COMMON, **SHORTENED, "model": model(values, tilt), **kwargs})

    cls = dp.DPBarker
    ratio = leak(cls, FullBatch, "__call__", lambda x: x.total)
    known, same, quarter = chain_faults(cls)
    # A decision is charged for by its sensitivity, which sets how sharp it may be.
    half = Patch(ExactSum, "sensitivity", new=staticmethod(lambda relation: 1.0))
    faults = [
        replace(sharper(), runs=3000),
        Fault("sensitivity B for 2B", (half,), runs=3000),
        replace(UNCLIPPED, draws=4),
        replace(ratio, draws=4),
        known,
        replace(same, runs=5000),
        quarter,
    ]
    return Case("DPBarker", make, neighbors(3), faults, move=bound_of)


def barker_on_batches():
    n, b = 40, 20

    def make(values, tilt, **kwargs):
        return dp.DPBarker(**{**COMMON, **SHORTENED, "batch_size": b, "model": model(values, tilt), **kwargs})

    cls = dp.DPBarker
    twice = Patch(barker_correction, "clip_bound", lambda old: lambda *a: 2 * old(*a))
    known = replace(chain_faults(cls)[0], draws=7)  # what the budget is enough for
    faults = [
        HALF_NOISE,
        Fault("bound 2B for B", (twice,)),
        replace(wider_shares(6), runs=4000),
        leak(cls, RecordModel, "ratios", np.sum),
        known,
    ]
    return Case("DPBarker, batches", make, neighbors(n), faults, move=bound_of, draws=4)


def fast_barker():
    n, batch = 20, 9

    def make(values, tilt, **kwargs):
        if "neighboring_relation" in kwargs:
            kwargs["public_n"] = n
        return dp.DPFastMH(
            **{
                **COMMON,
                **SHORTENED,
                "proposal": Cycle((1.0, 1.0)),
                "batch_size": batch,
                "model": model(values, tilt),
                **kwargs,
            }
        )

    cls = dp.DPFastMH
    known, same, quarter = chain_faults(cls)
    faults = [
        replace(sharper(), draws=8, runs=4000),
        ADD_REMOVE,
        replace(wider(tuna, 1.6), draws=8),
        leak(cls, RecordModel, "ratios", np.sum),
        known,
        replace(same, arguments={"proposal": WALK["proposal"]}, case={"base": lambda *_: 0.0}),
        quarter,
        fixed_batch(TunaBatches),
    ]
    # Where the record's influence is largest: far up, where rejections are rare (docs/proofs/fast_mh).
    return Case(
        "DPFastMH",
        make,
        neighbors(n),
        faults,
        move=bound_of,
        base=lambda *_: 1.25,
        draws=4,
        score=lambda found: found["accepted"].sum(1),
    )


def fast_published():
    def make(values, tilt, **kwargs):
        settings = {"epsilon": 1.0, "batch_size": 9}
        if kwargs:
            settings = {"epsilon": 1.0, "step_size": None}
        step = kwargs.pop("step", dp.DPFastMH)
        return step(**{**COMMON, **SHORTENED, **settings, "model": model(values, tilt), **kwargs})

    free = Fault(
        "published free branch",
        arguments={"step": PublishedFastMH},
        case={"claim": Approximate(1.0, DELTA)},
    )
    return Case("DPFastMH, one iteration", make, neighbors(20), [free], runs=5000, chain=1)


def fast_penalty():
    n, batch = 10, 4

    def make(values, tilt, **kwargs):
        if "neighboring_relation" in kwargs:
            kwargs["public_n"] = n
        settings = {"batch_size": batch, "test": "penalty", "noise_std": 4.0}
        return dp.DPFastMH(**{**COMMON, **SHORTENED, **settings, "model": model(values, tilt), **kwargs})

    cls = dp.DPFastMH
    known = chain_faults(cls)[0]
    faults = [HALF_NOISE, ADD_REMOVE, wider(tuna, 1.6), leak(cls, RecordModel, "ratios", np.sum), known]
    return Case(
        "DPFastMH, penalty", make, neighbors(n), faults, move=bound_of, base=of_penalty(None), draws=4
    )
