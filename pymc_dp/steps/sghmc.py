"""DP SGHMC: noisy gradients of batches, friction, and no accept test (Lode 2019, Algorithm 2)."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Unpack, cast

import numpy as np
from pytensor.graph import Variable

from pymc_dp.bounds import check_bound
from pymc_dp.kernels.friction import sghmc
from pymc_dp.kernels.metropolis import State
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.mechanisms.gradients import Dynamics, Friction
from pymc_dp.privacy.mechanisms.randomness import ExactSum, Gaussian, PoissonBatches
from pymc_dp.proposals.walk import Moves
from pymc_dp.steps.base import DPStep
from pymc_dp.steps.chain import Chain, StepSettings


class DPSGHMC(DPStep):
    """Differentially private stochastic gradient Hamiltonian Monte Carlo: an approximation.

    Each inner step follows the noisy sum of clipped gradients of a Poisson batch, with the friction that
    balances the noise: the noise that privacy needs *is* the noise of the dynamics (Chen, Fox & Guestrin
    2014; Lode's friction has the wrong sign). There is no accept test, so three things bias the result: a
    step size that is not small, the noise of the batches, and clipping.

    Parameters
    ----------
    vars : list, optional
        All free variables of the model, which is the default. A subset is refused.
    epsilon, delta : float
        Guarantee of one whole call of `pymc.sample`. ``epsilon=inf`` adds only the noise that balances
        `friction`, and marks every result as not private.
    lipschitz : float
        L: each record's gradient is clipped to this norm, in nats per unit of unconstrained space.
    sampling_probability : float
        q: each record is in a batch with this probability, independently of the others.
    n_steps : int
        J: number of inner steps in a draw. Each computes one noisy gradient.
    step_size : float
        a: the step size of draw t (tuning included) is ``a (offset + t) ** -decay``.
    offset, decay : float
        b and gamma: 0 and 1/3 as in Lode (2019); ``decay=0`` for a constant step size.
    friction : float
        C: the smallest friction. It is raised, and the noise with it, where the budget needs more noise. With
        ``epsilon=inf``, 0 gives the naive variant, without friction or noise.
    **kwargs
        `chains`, `tempering`, `neighboring_relation`, `privacy_unit`, `exclude_deterministics`, `ledger`,
        `debug_seed`, `model`, `compile_kwargs`: as in `DPPenaltyMH`.

    Raises
    ------
    ValueError
        A parameter is out of range.
    ModelRefusedError
        The model would leak; see `pymc_dp.records.checks`.
    BudgetError
        No amount of noise meets the budget; or, during sampling, a chain, iteration or call would exceed it.

    Notes
    -----
    **Privacy.** Event: each inner step releases the sum over a fresh Poisson batch of gradients clipped to
    norm L, with Gaussian noise of standard deviation ``q sqrt(2 C / eta) / T``. Each noise multiplier that is
    used is charged as such, by privacy loss distributions (Lode 2019, section 5.3;
    docs/proofs/sampled_gaussians). Each record's gradient is clipped; clipping the gradient of the batch, as
    in Lode's Algorithm 2, would have sensitivity 2L whatever the batch. Released: the draws, and stats that
    do not depend on the data.
    """

    name = "dp_sghmc"
    mechanism = "Gaussian noise on sums of clipped gradients of Poisson batches"
    approximation = "approximate: no accept test; bias from step size, batches and clipping"
    default_tune_steps = 0

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        epsilon: float,
        delta: float,
        lipschitz: float,
        sampling_probability: float = 0.01,
        n_steps: int = 10,
        step_size: float = 0.01,
        offset: float = 0.0,
        decay: float = 1 / 3,
        friction: float = 1.0,
        **kwargs: Unpack[StepSettings],
    ):
        check_bound("lipschitz", lipschitz)
        kwargs["clip_fraction"] = False  # a batch's share of clipped gradients has another sensitivity
        super().__init__(vars, epsilon=epsilon, delta=delta, **kwargs)
        batches = PoissonBatches(sampling_probability)
        self.dynamics = Dynamics(batches, lipschitz, step_size, offset, decay, friction, self.tempering)
        self.n_steps = n_steps
        self.moves = Moves()
        self.moves.name = "stochastic gradient Hamiltonian dynamics"
        self._price(Call(math.inf, self.delta, self.neighboring_relation, 1, 0, 1))  # checks n_steps

    def _price(self, call: Call) -> PrivacyPlan:
        return pricing.friction(call, self.dynamics, self.n_steps)

    def _start(self, chain: Chain) -> None:
        mechanism = cast(Friction, chain.plan.mechanism)
        noise = np.broadcast_to(mechanism.noise_multipliers, chain.plan.length)
        step_sizes, frictions = self.dynamics.realized(noise, self.neighboring_relation)
        # For each draw: step size, friction, and the standard deviation of the noise of a sum of gradients.
        chain.memory = step_sizes, frictions, noise * self._sensitivity * self.dynamics.clip_bound
        self.moves.step_size = float(step_sizes[0])

    def _arrive(self, chain: Chain, theta: np.ndarray) -> State:
        """Return a state that holds the point alone: iterations keep nothing else."""
        return State(theta, None, math.nan)

    def _gradient_at(self, chain: Chain, noise: Gaussian, theta: np.ndarray) -> np.ndarray:
        """Release one noisy estimate, from a batch, of the gradient of the tempered log-posterior."""
        batches = self.dynamics.batches
        if batches.sampling_probability == 1:
            total = self.records.gradients(theta, self.dynamics.clip_bound).total
        else:
            batch = batches.draw(chain.random, self.records.n)
            total = self.records.gradients.batch(theta, batch, self.dynamics.clip_bound).total
        noisy = noise.release(ExactSum(total), chain.random)
        return self.tempering / batches.sampling_probability * noisy + self.records.log_prior_gradient(theta)

    def _iterate(self, chain: Chain) -> tuple[bool, dict[str, float]]:
        eta, friction, noise = (float(values[chain.iteration]) for values in chain.memory)
        theta, steps = chain.state.theta, cast(Friction, chain.plan.mechanism).n_steps
        momentum = self.rng.standard_normal(theta.size)
        gradient_at = partial(self._gradient_at, chain, Gaussian(noise))
        new = sghmc(theta, momentum, gradient_at, steps=steps, step_size=eta, friction=friction)
        chain.state, self.moves.step_size = State(new, None, math.nan), eta
        return True, {"noise_std": noise, "clip_bound": self.dynamics.clip_bound}

    def _clip_name(self) -> str:
        return f"gradients at norm {self.dynamics.clip_bound:g}"
