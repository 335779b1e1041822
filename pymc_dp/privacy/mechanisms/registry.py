"""The mechanisms that a stored plan may name."""

from pymc_dp.privacy.mechanisms import friction, gradients, iterations, randomness

#: Mechanisms, and what they consist of.
REGISTRY: tuple[type, ...] = (
    *(iterations.Unlimited, iterations.NoDecision, iterations.Penalty, iterations.NoisyRatio),
    *(iterations.PenaltyOnBatches, iterations.Barker, iterations.BarkerOnBatches, iterations.OnTunaBatches),
    *(gradients.Hamiltonian, gradients.Friction, friction.Dynamics),
    *(randomness.FixedSizeBatches, randomness.PoissonBatches, randomness.TunaBatches),
)
