"""Cases of DPPenaltyMH."""

from dataclasses import replace

import numpy as np

import pymc_dp as dp
from benchmarks.audit.attack import COMMON, WALK, mixture, model, neighbors, signs
from benchmarks.audit.cases import Case, of_penalty
from benchmarks.audit.faults import (
    HALF_NOISE,
    HALF_SENSITIVITY,
    UNCLIPPED,
    Fault,
    Patch,
    chain_faults,
    fixed_batch,
    leak,
    wider_shares,
)
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches
from pymc_dp.ratios import subsets as batch_ratio
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import FullBatch


def penalty_on_all():
    def make(values, tilt, **kwargs):
        return dp.DPPenaltyMH(**{**COMMON, **WALK, "clip_bound": 1.0, "model": model(values, tilt), **kwargs})

    cls = dp.DPPenaltyMH
    ratio = leak(cls, FullBatch, "__call__", lambda x: x.total)
    faults = [HALF_NOISE, HALF_SENSITIVITY, UNCLIPPED, ratio, *chain_faults(cls)]
    return Case("DPPenaltyMH", make, neighbors(3), faults, base=of_penalty(1.0))


def penalty_on_batches():
    n, b, bound = 20, 10, 0.05

    def make(values, tilt, **kwargs):
        settings = {"clip_bound": bound, "batch_size": b, "release": "noisy_ratio"}
        return dp.DPPenaltyMH(**{**COMMON, **WALK, **settings, "model": model(values, tilt), **kwargs})

    def score(factor=1.0):
        def of(found):
            ratios = found["noisy_log_ratio"]
            return mixture(ratios * signs(ratios.shape[1]), bound * n / b, factor * found["noise_std"], b / n)

        return of

    def differences(found):
        ratios = found["noisy_log_ratio"]
        return np.round(ratios @ signs(ratios.shape[1]), 6)

    cls = dp.DPPenaltyMH
    known, same, quarter = chain_faults(cls)
    halved = Patch(batch_ratio, "sensitivity", lambda old: lambda *a: 0.5 * old(*a))
    faults = [
        replace(HALF_NOISE, case={"score": score(0.5)}),
        Fault("sensitivity B for 2B", (halved,)),
        wider_shares(np.inf),
        leak(cls, RecordModel, "ratios", np.sum),
        known,
        replace(same, case={"score": differences}),
        quarter,
        fixed_batch(FixedSizeBatches, draws=4, arguments={"batch_size": 5}, case={"score": differences}),
    ]
    return Case("DPPenaltyMH, batches", make, neighbors(n), faults, score=score(), runs=4000)
