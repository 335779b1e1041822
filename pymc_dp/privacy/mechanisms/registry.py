"""The mechanisms that a stored plan may name."""

from pymc_dp.privacy.mechanisms.friction import Dynamics
from pymc_dp.privacy.mechanisms.gradients import Friction, Hamiltonian
from pymc_dp.privacy.mechanisms.iterations import (
    Barker,
    BarkerOnBatches,
    NoDecision,
    NoisyRatio,
    OnTunaBatches,
    Penalty,
    PenaltyOnBatches,
    Unlimited,
)
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches, PoissonBatches, TunaBatches

#: Mechanisms, and what they consist of.
REGISTRY: tuple[type, ...] = (
    *(Unlimited, NoDecision, Penalty, NoisyRatio, PenaltyOnBatches, Barker, BarkerOnBatches),
    *(OnTunaBatches, Hamiltonian, Friction),
    *(FixedSizeBatches, PoissonBatches, TunaBatches, Dynamics),
)
