"""The ratio and the accept test of each mechanism: what runs is built from the mechanism that was priced."""

import math
from collections.abc import Callable
from typing import Any

from pymc_dp.kernels.metropolis import Accept, Ratio, accept_barker, accept_penalty
from pymc_dp.privacy.mechanisms import gradients, iterations
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.ratios import barker_correction
from pymc_dp.ratios.all_records import AllRecords, Records
from pymc_dp.ratios.subsets import BarkerBatch, CorrectedBatch
from pymc_dp.ratios.tuna import TunaBatch

#: Accept tests, by the name in a mechanism's attribute `test`.
TESTS: dict[str, Accept[PrivacyRandom]] = {
    "penalty": accept_penalty,
    "barker": accept_barker,
    "corrected barker": barker_correction.accepts,
}


type NoisySum = iterations.Penalty | iterations.NoisyRatio | gradients.Hamiltonian


def _noisy_sum(m: NoisySum, records: Records, tempering: float, sensitivity: float) -> AllRecords:
    only = m.noise_std if isinstance(m, iterations.Penalty) and m.one_scale else None
    return AllRecords(records, tempering, m.noise_multiplier * sensitivity, m.clip_bound or math.inf, only)


def _sum(
    m: iterations.Unlimited | iterations.Barker, records: Records, tempering: float, sensitivity: float
) -> AllRecords:
    return AllRecords(records, tempering, None, m.clip_bound or math.inf)


#: For each mechanism, a function of it, records, tempering and sensitivity (in units of the clip bound) that
#: makes the ratio.
RATIOS: dict[type[iterations.Mechanism], Callable[[Any, Records, float, float], Ratio]] = {
    iterations.Unlimited: _sum,
    iterations.Barker: _sum,
    iterations.Penalty: _noisy_sum,
    iterations.NoisyRatio: _noisy_sum,
    gradients.Hamiltonian: _noisy_sum,
    iterations.PenaltyOnBatches: lambda m, records, tempering, _: CorrectedBatch(
        records, tempering, m.batches, m.noise_multiplier
    ),
    iterations.BarkerOnBatches: lambda m, records, tempering, _: BarkerBatch(records, tempering, m.batches),
    iterations.OnTunaBatches: lambda m, records, tempering, _: TunaBatch(
        records, tempering, m.batches, m.noise_std or 0.0
    ),
}
