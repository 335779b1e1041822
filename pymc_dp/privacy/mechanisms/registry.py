"""The mechanisms that a stored plan may name."""

from pymc_dp.privacy.mechanisms import friction, gradients, iterations, randomness

#: Classes of mechanisms, and of the objects in their fields.
REGISTRY: tuple[type, ...] = (
    *(iterations.Unlimited, iterations.NoDecision, iterations.Penalty, iterations.NoisyRatio),
    *(iterations.PenaltyOnBatches, iterations.Barker, iterations.BarkerOnBatches, iterations.OnTunaBatches),
    *(gradients.Hamiltonian, gradients.Friction, friction.Dynamics),
    *(randomness.FixedSizeBatches, randomness.PoissonBatches, randomness.TunaBatches),
)
