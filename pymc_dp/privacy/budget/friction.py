"""DPSGHMC: the noise that its friction injects is its privacy; what a schedule costs, what a budget needs."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from dp_accounting import dp_event

from pymc_dp.bounds import check_bound
from pymc_dp.errors import BudgetError
from pymc_dp.privacy.accounting.calibration import calibrate, epsilon_of
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.accounting.values import is_number
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan, not_private
from pymc_dp.privacy.budget.pricing import Budget
from pymc_dp.privacy.mechanisms.drawn_batches import PoissonBatches

# The search for the least noise multiplier starts at the Gaussian limit's answer, and goes so far from it.
_BRACKET, _WIDENINGS = 2.0, 12
# Events in another order may be composed to another last digit.
_NUDGE = 1e-9


@dataclass(frozen=True)
class Dynamics:
    """Step sizes ``step_size * (offset + t) ** -decay`` of iterations t = 1, 2, ..., and least friction.

    Parameters
    ----------
    batches : PoissonBatches
        A fresh one each step; the gradient estimate is ``tempering / q`` times the sum over the batch.
    clip_bound : float
        L: per-record gradients of the log-likelihood are clipped to this norm.
    step_size : float
        a, > 0.
    offset : float
        b, >= 0.
    decay : float
        gamma, >= 0; 1/3 as in Lode (2019), 0 for a constant step size.
    friction : float
        C, >= 0: the injected noise has variance 2 C eta per step, on a momentum of unit mass. A budget may
        raise it.
    resample : {"trajectory", "step"}
        When the momentum is drawn anew. At every step means the friction 2 / eta, whatever `friction` is:
        stochastic gradient Langevin dynamics.
    tempering : float
        In (0, 1].

    Raises
    ------
    ValueError
        An argument is out of range.

    Notes
    -----
    **Privacy.** Noise multiplier at a step: ``q sqrt(2 C / eta) / (tempering k L)``, k = 2 under
    "substitute", 1 under "add_remove" (docs/proofs/sampled_gaussians, Proposition 3; Lode 2019, section 5.4,
    for k = 1 and tempering q). All of it is public.
    """

    batches: PoissonBatches
    clip_bound: float
    step_size: float
    offset: float = 0.0
    decay: float = 1 / 3
    friction: float = 0.0
    resample: str = "trajectory"
    tempering: float = 1.0

    def __post_init__(self) -> None:
        for name, least in (
            ("clip_bound", 0.0),
            ("step_size", 0.0),
            ("offset", None),
            ("decay", None),
            ("friction", None),
            ("tempering", 0.0),
        ):
            value = getattr(self, name)
            enough = is_number(value) and (value >= 0 if least is None else value > least)
            if name in ("clip_bound", "step_size"):
                check_bound(name, value)
            if not (enough and value < math.inf):
                kind = "at least 0" if least is None else "positive"
                raise ValueError(f"{name} must be {kind} and finite, got {value!r}.")
        if self.tempering > 1:
            raise ValueError(f"tempering must lie in (0, 1], got {self.tempering!r}.")
        if self.resample not in ("trajectory", "step"):
            raise ValueError(f"resample must be 'trajectory' or 'step', got {self.resample!r}.")

    def noise_multipliers(self, iterations: int, neighboring_relation: str) -> np.ndarray:
        """What this friction's noise is over the sensitivity, shape (iterations,)."""
        eta = self._step_sizes(iterations)
        friction = 2 / eta if self.resample == "step" else self.friction
        return np.sqrt(2 * friction / eta) / self._sensitivity(neighboring_relation)

    def realized(
        self, noise_multipliers: np.ndarray, neighboring_relation: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Step sizes and frictions that are in balance with the noise of each iteration.

        The friction is raised; when the momentum is drawn anew at every step, the step size is lowered.

        Parameters
        ----------
        noise_multipliers : ndarray, shape (iterations,)
            At least those of `noise_multipliers`.
        neighboring_relation : {"substitute", "add_remove"}

        Returns
        -------
        step_sizes, frictions : ndarray, shape (iterations,)
        """
        noise = np.asarray(noise_multipliers) * self._sensitivity(neighboring_relation)
        if self.resample == "step":
            return 2 / noise, noise
        eta = self._step_sizes(noise.size)
        return eta, 0.5 * eta * noise**2

    def _step_sizes(self, iterations: int) -> np.ndarray:
        return self.step_size * (self.offset + np.arange(1, iterations + 1)) ** -self.decay

    def _sensitivity(self, neighboring_relation: str) -> float:
        """Of the gradient estimate."""
        records = 2 if neighboring_relation == "substitute" else 1
        return self.tempering * records * self.clip_bound / self.batches.sampling_probability


@lru_cache(maxsize=64)
def price(call: Call, dynamics: Dynamics, n_steps: int, *, clip_fraction: bool = False) -> PrivacyPlan:
    """What DPSGHMC releases in a call, with as much more noise than its friction's as the budget needs.

    Parameters
    ----------
    call : Call
    dynamics : Dynamics
    n_steps : int
        Gradients of an iteration, >= 1.
    clip_fraction : bool
        Each chain releases its mean clipped share, for 1e-4 of the budget.

    Returns
    -------
    PrivacyPlan
        One event set an iteration, or a single one when all have the same noise. Parameters
        "noise_multiplier" (the smallest), "sampling_probability", "clip_bound", "n_steps". Where the friction
        of `dynamics` alone is within the budget, that is the plan; otherwise the smallest noise multipliers
        are raised to a common floor, so that the budget is spent.

    Raises
    ------
    ValueError
        `n_steps` is out of range.
    BudgetError
        No noise is within the budget, as far as the accountants can tell.
    """
    if isinstance(n_steps, bool) or not isinstance(n_steps, int | np.integer) or n_steps < 1:
        raise ValueError(f"n_steps must be an integer of at least 1, got {n_steps!r}.")
    own = dynamics.noise_multipliers(call.length, call.neighboring_relation)
    public = {
        "sampling_probability": float(dynamics.batches.sampling_probability),
        "clip_bound": float(dynamics.clip_bound),
        "n_steps": float(n_steps),
    }
    if math.isinf(call.epsilon):
        return not_private(call, "gradients", noise_multiplier=float(own.min()), **public)
    budget = Budget(call, clip_fraction)

    def plan(noise: np.ndarray) -> PrivacyPlan:
        one_for_all = np.all(noise == noise[0])
        return PrivacyPlan(
            **{f.name: getattr(call, f.name) for f in fields(Call)},
            iteration=tuple(
                EventSet(
                    dp_event.SelfComposedDpEvent(_release(dynamics, nm), n_steps), call.neighboring_relation
                )
                for nm in (noise[:1] if one_for_all else noise).tolist()
            ),
            chain=budget.chain,
            once=budget.once,
            release="gradients",
            parameters={"noise_multiplier": float(noise.min()), **public, **budget.parameters},
        )

    def fits(found: PrivacyPlan) -> bool:
        return epsilon_of(found.events, call.delta) <= call.epsilon

    if own.min() > 0 and fits(found := plan(own)):
        return found

    def events(floor: float) -> EventSet:
        counts = Counter(np.maximum(own, floor).tolist())
        releases = [
            dp_event.SelfComposedDpEvent(_release(dynamics, nm), count * n_steps * call.chains)
            for nm, count in counts.items()
        ]
        return EventSet([*releases, budget.chain.repeated(call.chains), budget.once])

    floor = _floor(call, events, _first_guess(budget.mu_squared, call.iterations * n_steps, dynamics))
    nudge = _NUDGE
    while not fits(found := plan(np.maximum(own, floor))):
        floor, nudge = floor * (1 + nudge), 2 * nudge
    return found


def injected(plan: PrivacyPlan, dynamics: Dynamics) -> np.ndarray:
    """Noise multiplier of each iteration of a chain, read from the events that are charged.

    Parameters
    ----------
    plan : PrivacyPlan
        Of `price`, for these dynamics.
    dynamics : Dynamics

    Returns
    -------
    ndarray, shape (tune + draws,)
        Without privacy, those of the dynamics themselves.
    """
    if not plan.is_private:
        return dynamics.noise_multipliers(plan.length, plan.neighboring_relation)
    values = []
    for one in plan.iteration:
        (event,) = one.counts
        values.append(getattr(event, "event", event).noise_multiplier)
    return np.broadcast_to(np.array(values), plan.length)


def _release(dynamics: Dynamics, noise_multiplier: float) -> dp_event.DpEvent:
    if dynamics.batches.sampling_probability == 1:
        return dp_event.GaussianDpEvent(noise_multiplier)
    return dynamics.batches.gaussian_event(noise_multiplier)


def _first_guess(mu_squared: float, releases: int, dynamics: Dynamics) -> float:
    """Noise multiplier of equal releases in the Gaussian limit: ``mu^2 = k q^2 (exp(1 / nm^2) - 1)``."""
    q = dynamics.batches.sampling_probability
    return 1 / math.sqrt(math.log1p(mu_squared / (releases * q * q)))


def _floor(call: Call, events: Callable[[float], EventSet], guess: float) -> float:
    low, high = guess / _BRACKET, guess * _BRACKET
    for _ in range(_WIDENINGS):
        try:
            found = calibrate(events, call.epsilon, call.delta, low=low, high=high)
        except ValueError:  # not even `high` is within the budget
            low, high = high, high * _BRACKET
            continue
        if found > low:
            return found
        low, high = low / _BRACKET, low
    raise BudgetError(
        f"No amount of noise is within epsilon = {call.epsilon:g} at delta = {call.delta:g} by the "
        "accounting of releases on batches, which ends near delta = 1e-11: raise epsilon or delta, or sample "
        "fewer iterations."
    )
