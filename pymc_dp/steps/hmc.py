"""DP HMC: noisy gradients for the trajectory, the penalty test at its end (Räisä 2021, Algorithm 3)."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Unpack, cast

import numpy as np
from pytensor.graph import Variable

from pymc_dp.bounds import check_bound, check_share
from pymc_dp.clipping import LipschitzClip
from pymc_dp.kernels.metropolis import Info, LogRatio, Move, State
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.mechanisms.gradients import Hamiltonian
from pymc_dp.privacy.mechanisms.randomness import ExactSum, Gaussian
from pymc_dp.proposals.trajectories import Trajectories
from pymc_dp.steps.base import DPStep
from pymc_dp.steps.chain import Chain, StepSettings


class DPHMC(DPStep):
    """Differentially private Hamiltonian Monte Carlo.

    A trajectory of `n_leapfrog` steps follows noisy sums of clipped per-record gradients. At its end the
    log-likelihood ratio of its two ends is computed on all records, with each record's ratio clipped and
    noise added to the sum, and the penalty test accepts or rejects the end. Noise and clipping of the
    gradients lower the acceptance rate, but do not bias the result: the stationary distribution is the exact
    (tempered) posterior when no ratio is clipped. ``n_leapfrog=1`` is a private MALA.

    Parameters
    ----------
    vars : list, optional
        All free variables of the model, which is the default. A subset is refused.
    epsilon, delta : float
        Guarantee of one whole call of `pymc.sample`. ``epsilon=inf`` adds no noise and marks every result as
        not private.
    lipschitz : float
        L, in nats per unit of unconstrained space: each record's gradient is clipped to norm L, and its final
        log-likelihood ratio to L times the distance between the ends of the trajectory. Required.
    gradient_clip_bound : float, optional
        Norm to which each record's gradient is clipped, if it is not to be `lipschitz`, the default.
    n_leapfrog : int
        Number of leapfrog steps in an iteration. Each computes one noisy gradient.
    step_size : float, optional
        Initial leapfrog step size. Default: computed from the standard deviations of the noise, so that
        neither the noise of the final ratio nor that of the gradients is too large. Tuning adapts it.
    mass : float or array_like of shape (d,), optional
        Diagonal of the mass matrix, chosen from public knowledge.
    gradient_share : float
        Share of the budget (of mu squared) that is spent on gradients. The rest is spent on final ratios.
    target_accept : float
        Acceptance rate that tuning aims at.
    adapt_step_size, adapt_mass : bool
        Whether tuning adapts the step size (from decisions) and the mass (from the draws so far).
    **kwargs
        `chains`, `tempering`, `neighboring_relation`, `privacy_unit`, `exclude_deterministics`,
        `clip_fraction`, `ledger`, `debug_seed`, `model`, `compile_kwargs`: as in `DPPenaltyMH`.

    Raises
    ------
    ValueError
        A parameter is out of range.
    ModelRefusedError
        The model would leak; see `pymc_dp.records.checks`.
    BudgetError
        During sampling, if a chain, iteration or call would exceed the budget.

    Notes
    -----
    **Privacy.** Events: each iteration makes `n_leapfrog` Gaussian releases of the sum of gradients clipped
    to norm b, with sensitivity 2b (substitute) or b (add/remove), and one penalty decision. Each chain
    releases one more gradient, at its starting point. After that a trajectory starts with the noisy gradient
    that the last one ended with (or, after a rejection, started with). Reusing it is post-processing, and
    keeps the chain reversible with respect to posterior times noise density (docs/proofs/hmc). Noise
    multipliers are public; the exact Gaussian total is ``k / nm_ratio^2 + (k n_leapfrog + chains) /
    nm_gradient^2`` for k iterations of all chains, and decisions are charged by decision accounting where
    that is smaller. Released: draws, decisions, stats that do not depend on the data, the noisy clip
    fraction. Assumed: as in `DPPenaltyMH`.
    """

    name = "dp_hmc"
    mechanism = (
        "Gaussian noise on sums of clipped gradients and on the final sum of clipped log-likelihood ratios, "
        "penalty test"
    )
    approximation = ""
    moves: Trajectories

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        epsilon: float,
        delta: float,
        lipschitz: float | None = None,
        gradient_clip_bound: float | None = None,
        n_leapfrog: int = 5,
        step_size: float | None = None,
        mass: float | np.ndarray | None = None,
        gradient_share: float = 0.5,
        target_accept: float = 0.4,
        adapt_step_size: bool = True,
        adapt_mass: bool = True,
        **kwargs: Unpack[StepSettings],
    ):
        if lipschitz is None:
            raise ValueError("Give lipschitz=, a bound on every record's gradient norm (docs/clipping).")
        check_bound("lipschitz", lipschitz)
        if gradient_clip_bound is not None:
            check_bound("gradient_clip_bound", gradient_clip_bound)
        check_share("gradient_share", gradient_share)
        self.lipschitz = float(lipschitz)
        self.gradient_clip_bound = float(lipschitz if gradient_clip_bound is None else gradient_clip_bound)
        self.clip, self.gradient_share = LipschitzClip(self.lipschitz), float(gradient_share)
        super().__init__(vars, epsilon=epsilon, delta=delta, **kwargs)
        self.moves = Trajectories(
            self.records.d,
            n_leapfrog,
            step_size=step_size,
            mass=mass,
            target_accept=target_accept,
            adapt_step_size=adapt_step_size,
            adapt_mass=adapt_mass,
        )

    def _price(self, call: Call) -> PrivacyPlan:
        return pricing.hamiltonian(
            call, self.moves.n_leapfrog, self.gradient_share, clip_fraction=self.clip_fraction
        )

    def _start_moves(self, chain: Chain) -> None:
        mechanism = cast(Hamiltonian, chain.plan.mechanism)
        noise = mechanism.gradient_noise_multiplier * self._sensitivity * self.gradient_clip_bound
        chain.noise = Gaussian(noise)
        self.moves.start(self.moves.initial or self._default_step_size(chain.plan, noise), chain.plan.tune)

    def _default_step_size(self, plan: PrivacyPlan, gradient_noise: float) -> float:
        if not plan.is_private:
            return 0.1
        ratio_noise = plan.noise_multiplier * self._sensitivity
        velocity = 1 / np.sqrt(self.moves.mass)
        # Largest distance moved at which the final ratio's noise has a standard deviation of 1.5 nats.
        distance = 1.5 / (self.tempering * ratio_noise * self.lipschitz)
        by_ratio = distance / (self.moves.n_leapfrog * np.sqrt(np.sum(velocity**2)))
        # Step size at which the gradients' noise, summed over a trajectory, changes no component of the
        # momentum by more than the momentum's own standard deviation.
        kick = self.tempering * gradient_noise * np.max(velocity)
        return float(min(by_ratio, 1 / (kick * math.sqrt(self.moves.n_leapfrog)), 1.0))

    def _arrive(self, chain: Chain, theta: np.ndarray) -> State:
        state = super()._arrive(chain, theta)
        # The noisy gradient at the current point; `_propose` appends that at the end of the trajectory.
        chain.memory = (self._gradient_at(chain, theta),)
        return state

    def _gradient_at(self, chain: Chain, theta: np.ndarray) -> np.ndarray:
        """Release one noisy gradient of the tempered log-posterior."""
        total = self.records.gradients(theta, self.gradient_clip_bound).total
        noisy = chain.noise.release(ExactSum(total), chain.random)
        return self.tempering * noisy + self.records.log_prior_gradient(theta)

    def _propose(self, chain: Chain, rng: np.random.Generator, state: State) -> Move:
        start = self.moves.momentum(rng)
        new, gradient, end = self.moves.run(
            state.theta, chain.memory[0], start, partial(self._gradient_at, chain)
        )
        chain.memory = chain.memory[0], gradient

        def log_public(found: LogRatio) -> float:
            energy = self.moves.kinetic_energy(start) - self.moves.kinetic_energy(end)
            return found.log_prior - state.log_prior + energy

        bound = self.clip.bound(new - state.theta)
        return Move(new, bound, log_public)

    @np.errstate(over="ignore", invalid="ignore")  # a trajectory that diverges is rejected
    def _iterate(self, chain: Chain) -> tuple[bool, dict[str, float]]:
        return super()._iterate(chain)

    def _stats(self, chain: Chain, info: Info) -> dict[str, float]:
        if info.accepted:
            chain.memory = chain.memory[1:]
        if self.tune:
            self.moves.learn_mass(chain.state.theta, chain.iteration + 1)
        return super()._stats(chain, info)

    def _clip_name(self) -> str:
        return (
            f"gradients at norm {self.gradient_clip_bound:g}, ratios at {self.lipschitz:g} x distance moved"
        )
