"""DP HMC: noisy gradients for the trajectory, the penalty test at its end (Räisä 2021, Algorithm 3)."""

import math
from typing import Any

import numpy as np

from pymc_dp.acceptance import penalty
from pymc_dp.bounds import check_bound
from pymc_dp.clipping import LipschitzClip
from pymc_dp.errors import BudgetError
from pymc_dp.privacy import pricing
from pymc_dp.privacy.plan import Call, PrivacyPlan
from pymc_dp.records.sums import GRID
from pymc_dp.steps.base import DPStep
from pymc_dp.steps.hamiltonian import Trajectories

# Standard deviation of the final ratio's noise that the first step size aims at, in nats.
_RATIO_NOISE = 1.5


class DPHMC(DPStep):
    """Differentially private Hamiltonian Monte Carlo.

    A trajectory of `n_leapfrog` steps follows the noisy sum of clipped per-record gradients; at its end the
    log-likelihood ratio between its two ends is computed on all records, clipped, noised, and judged by the
    penalty test. Noise and clipping of the gradients cost acceptance, not exactness: the stationary
    distribution is the exact (tempered) posterior when no ratio is clipped. ``n_leapfrog=1`` is a private
    MALA.

    Parameters
    ----------
    vars : list, optional
        All free variables of the model (the default); anything less is refused.
    epsilon, delta : float
        Guarantee of one whole call of `pymc.sample`. ``epsilon=inf`` adds no noise and marks every result as
        not private.
    lipschitz : float, optional
        L, in nats per unit of unconstrained space: per-record gradients are clipped to this norm, and the
        final ratio to L times the distance between the ends. Give this, or both of the next two.
    gradient_clip : float, optional
        Clip of the gradients alone.
    ratio_clip : float, optional
        Clip of the final ratio alone, per unit of distance.
    n_leapfrog : int
        Leapfrog steps, and gradients, of an iteration.
    step_size : float, optional
        Initial leapfrog step size. Default: from the noise, so that neither the final ratio's noise nor the
        gradients' is too large. Tuning adapts it.
    mass : float or array_like of shape (d,), optional
        Diagonal mass; from public knowledge.
    gradient_share : float
        Share of the budget, as mu^2, for the gradients; the rest is for the final ratios.
    target_accept : float
        Acceptance rate that tuning aims at.
    adapt_step_size, adapt_mass : bool
        Whether tuning adapts the step size (from decisions) and the mass (from the draws so far).
    **kwargs
        `chains`, `tempering`, `neighboring_relation`, `privacy_unit`, `exclude_deterministics`,
        `clip_fraction`, `ledger`, `debug_seed`, `model`, `rng`, `compile_kwargs`: as in `DPPenaltyMH`.

    Raises
    ------
    ValueError
        A parameter is out of range.
    ModelRefusedError
        The model would leak; see `pymc_dp.records.checks`.
    BudgetError
        In sampling: a chain, iteration or call beyond the budget.

    Notes
    -----
    **Privacy.** Events: for each iteration `n_leapfrog` Gaussian releases of the sum of gradients clipped to
    norm b, sensitivity 2b (substitute) or b (add/remove), and one penalty decision; for each chain one more
    gradient, at its starting point: the noisy gradient of the end point is kept for the next trajectory
    (on rejection, that of the starting point), which is post-processing and keeps the chain reversible with
    respect to posterior times noise density (docs/proofs/hmc). Noise multipliers are public; the exact
    Gaussian total is ``k / nm_ratio^2 + (k n_leapfrog + chains) / nm_gradient^2`` for k iterations of all
    chains, and decisions are charged for less where that is smaller. Released: draws, decisions, data-free
    stats, the noisy clip fraction. Assumed: as in `DPPenaltyMH`.
    """

    name = "dp_hmc"
    test_on_residuals = "penalty"
    mechanism = (
        "Gaussian noise on sums of clipped gradients and on the final sum of clipped log-likelihood ratios, "
        "penalty test"
    )
    moves: Trajectories
    # The noisy gradient at the current point; the point itself, None before the chain's first one.
    _gradient: np.ndarray
    _gradient_point: np.ndarray | None

    def __init__(
        self,
        vars: Any = None,
        *,
        epsilon: float,
        delta: float,
        lipschitz: float | None = None,
        gradient_clip: float | None = None,
        ratio_clip: float | None = None,
        n_leapfrog: int = 5,
        step_size: float | None = None,
        mass: Any = None,
        gradient_share: float = 0.5,
        target_accept: float = 0.4,
        adapt_step_size: bool = True,
        adapt_mass: bool = True,
        **kwargs: Any,
    ):
        if lipschitz is None and (gradient_clip is None or ratio_clip is None):
            raise ValueError(
                "Give lipschitz=, a bound on every record's gradient norm, or both gradient_clip= and "
                "ratio_clip= (docs/clipping)."
            )
        if not 0 < gradient_share < 1:
            raise ValueError(f"gradient_share must lie in (0, 1), got {gradient_share!r}.")
        self.gradient_clip = _bound("gradient_clip", gradient_clip, lipschitz)
        self.ratio_clip = _bound("ratio_clip", ratio_clip, lipschitz)
        self.gradient_share = float(gradient_share)
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

    def _start(self) -> None:
        # Standard deviations of the noise, in units of the clip bounds.
        self._ratio_noise = self.plan.noise_multiplier * self._sensitivity
        self._gradient_noise = self.plan.parameters["gradient_noise_multiplier"] * self._sensitivity
        self.moves.start(self.moves.initial or self._default_step_size(), self.plan.tune)
        self._gradient_point = None

    def _default_step_size(self) -> float:
        if not self.plan.is_private:
            return 0.1
        velocity = 1 / np.sqrt(self.moves.mass)
        distance = _RATIO_NOISE / (self.tempering * self._ratio_noise * self.ratio_clip)
        by_ratio = distance / (self.moves.n_leapfrog * np.sqrt(np.sum(velocity**2)))
        # Gradient noise over a trajectory changes the momentum by at most its own standard deviation.
        kick = self.tempering * self._gradient_noise * self.gradient_clip * np.max(velocity)
        return float(min(by_ratio, 1 / (kick * math.sqrt(self.moves.n_leapfrog)), 1.0))

    def _arrive(self, theta: np.ndarray) -> None:
        super()._arrive(theta)
        if self._gradient_point is None:
            self._gradient, self._gradient_point = self._gradient_at(theta), theta
        elif not np.array_equal(theta, self._gradient_point):
            raise BudgetError(
                "A resumed chain is not where it stopped: another starting gradient was not paid for."
            )

    def _gradient_at(self, theta: np.ndarray) -> np.ndarray:
        """One noisy release: gradient of the tempered log-posterior."""
        total = self.records.gradients(theta, self.gradient_clip).total
        noisy = total + self._gradient_noise * self.gradient_clip * self._random.normals(self.records.d)
        return self.tempering * noisy + self.records.log_prior_gradient(theta)

    @np.errstate(over="ignore", invalid="ignore")  # a trajectory that runs away is rejected
    def _iterate(self, theta: np.ndarray) -> tuple[bool, dict[str, float]]:
        momentum = self.moves.momentum(self.rng)
        new, gradient, last = self.moves.run(theta, self._gradient, momentum, self._gradient_at)
        bound = LipschitzClip(self.ratio_clip).bound(new - theta)
        ratios = self.records.full_batch(new, self._rows, bound)
        self._clipped += ratios.clipped
        scale = self.tempering * bound
        noise_std = scale * self._ratio_noise
        log_ratio = (
            scale * (ratios.total / GRID + self._ratio_noise * self._random.normal())
            + ratios.log_prior
            - self._log_prior
            + self.moves.kinetic_energy(momentum)
            - self.moves.kinetic_energy(last)
        )
        accepted = penalty(log_ratio, noise_std * noise_std, self._random.exponential())
        if accepted:
            self._theta, self._rows, self._log_prior = new, ratios.rows, ratios.log_prior
            self._gradient, self._gradient_point = gradient, new
        if self.tune:
            self.moves.learn_mass(self._theta, self.iteration + 1)
        return accepted, {"noise_std": noise_std, "clip_bound": bound}

    def _clip_name(self) -> str:
        return f"gradients at norm {self.gradient_clip:g}, ratios at {self.ratio_clip:g} x distance moved"


def _bound(name: str, given: float | None, lipschitz: float | None) -> float:
    value: Any = lipschitz if given is None else given
    name = "lipschitz" if given is None else name
    check_bound(name, value)
    return float(value)
