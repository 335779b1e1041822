"""What a whole call costs, and how it is spent, before any data are read."""

import math
from dataclasses import asdict, dataclass, fields
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from dp_accounting import dp_event

from pymc_dp.privacy import calibration, gaussian, rdp
from pymc_dp.privacy.composition import Guarantee, compose
from pymc_dp.privacy.events import EventSet, FixedScalePenaltyDecisionDpEvent, PenaltyDecisionDpEvent
from pymc_dp.privacy.values import check_relation, check_target, round_up

# Share of the budget, as rho = mu^2 / 2, for the released clip fractions of all chains together.
CLIP_FRACTION_SHARE = 1e-4
# Relative headroom of a noise multiplier over the exact calibration: covers the rounding of a few operations.
_HEADROOM = 1e-9
# The running epsilon tries every so many of the orders of the Renyi accountant: any order is valid.
_ORDER_STRIDE = 6

RELEASES = ("decisions", "noisy_ratio")


@dataclass(frozen=True)
class PrivacyPlan:
    """Cost of a call: chains x (tune + draws) decisions or noisy ratios, and a clip fraction for each chain.

    Attributes
    ----------
    epsilon, delta : float
        Target of the whole call.
    neighboring_relation : {"substitute", "add_remove"}
    chains, tune, draws : int
        Iterations are ``chains * (tune + draws)``: discarded draws are paid for like others.
    noise_multiplier : float
        Standard deviation of the noise of each log-ratio, divided by its sensitivity.
    clip_fraction_noise_multiplier : float
        The same for the mean clipped share of a chain, released once; inf when it is not released.
    release : {"decisions", "noisy_ratio"}
        What each iteration lets out.
    noise_std : float or None
        Standard deviation of the noise of the tempered log-ratio in nats, when it is the same public number
        at every iteration.

    Notes
    -----
    **Privacy.** Releases compose as in `pymc_dp.privacy.compose`: Gaussians exactly (``mu**2`` is the sum of
    ``1 / nm**2``; Räisä 2021, Theorems 4.3 and 7), accept decisions by their own Renyi divergence. See
    docs/proofs/penalty and docs/proofs/decision_accounting.
    """

    epsilon: float
    delta: float
    neighboring_relation: str
    chains: int
    tune: int
    draws: int
    noise_multiplier: float
    clip_fraction_noise_multiplier: float = math.inf
    release: str = "decisions"
    noise_std: float | None = None

    @property
    def iterations(self) -> int:
        """Iterations of all chains."""
        return self.chains * (self.tune + self.draws)

    @property
    def is_private(self) -> bool:
        """Whether there is any noise at all."""
        return self.noise_multiplier > 0

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of the whole call: of the noisy ratios, also when only decisions come out."""
        if not self.is_private:
            return math.inf
        return math.sqrt(
            self.iterations / self.noise_multiplier**2 + self.chains / self.clip_fraction_noise_multiplier**2
        )

    @property
    def rho(self) -> float:
        """Zero-concentrated DP parameter of the whole call, ``mu**2 / 2``."""
        return 0.5 * self.mu**2

    @property
    def iteration_event(self) -> dp_event.DpEvent:
        """What one iteration releases."""
        if self.release == "noisy_ratio":
            return dp_event.GaussianDpEvent(self.noise_multiplier)
        if self.noise_std is not None:
            return FixedScalePenaltyDecisionDpEvent(self.noise_std, self.noise_std / self.noise_multiplier)
        return PenaltyDecisionDpEvent(self.noise_multiplier)

    @property
    def events(self) -> EventSet:
        """Everything the call releases."""
        if not self.is_private:
            return EventSet([dp_event.NonPrivateDpEvent()], self.neighboring_relation)
        happened = [dp_event.SelfComposedDpEvent(self.iteration_event, self.iterations)]
        if math.isfinite(self.clip_fraction_noise_multiplier):
            share = dp_event.GaussianDpEvent(self.clip_fraction_noise_multiplier)
            happened.append(dp_event.SelfComposedDpEvent(share, self.chains))
        return EventSet(happened, self.neighboring_relation)

    @cached_property
    def guarantee(self) -> Guarantee:
        """Trade-off curve of the whole call."""
        return compose(self.events, reference_delta=self.delta)

    def epsilon_at(self, delta: float) -> float:
        """Epsilon of the whole call at another delta, an upper bound."""
        return self.guarantee.epsilon(delta)

    def running_epsilon(self) -> np.ndarray:
        """Epsilon, at the plan's delta, of the first t iterations of every chain.

        Returns
        -------
        ndarray, shape (tune + draws,)
            Entry t - 1 is an upper bound on the cost of iterations 1..t of *all* chains, so that the last
            entry is the cost of the call.
        """
        return _running_epsilon(self)

    def __reduce__(self):  # without the computed curve
        return PrivacyPlan.from_dict, (self.to_dict(),)

    def to_dict(self) -> dict[str, Any]:
        """Fields as plain numbers and strings."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "PrivacyPlan":
        """Rebuild from `to_dict`; other keys are ignored."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})

    def __str__(self) -> str:
        relation = {"substitute": "one record replaced", "add_remove": "one record added or removed"}
        calls = (
            f"  {self.chains} chain(s) x ({self.tune} tuning + {self.draws} sampling) = "
            f"{self.iterations} iterations"
        )
        if not self.is_private:
            return f"NOT PRIVATE: epsilon = inf, no noise is added.\n{calls}"
        return "\n".join(
            [
                f"({self.epsilon:g}, {self.delta:g})-differential privacy for the whole call, "
                f"{relation[self.neighboring_relation]}",
                calls,
                f"  noise multiplier {self.noise_multiplier:.4g} for each iteration; mu = {self.mu:.4g}, "
                f"rho = {self.rho:.4g}",
                f"  epsilon({self.delta:g}) = {round_up(self.epsilon_at(self.delta))}, "
                f"{self.guarantee.accountant} accounting",
            ]
        )


@lru_cache(maxsize=64)
def _running_epsilon(plan: PrivacyPlan) -> np.ndarray:
    t = np.arange(1, plan.tune + plan.draws + 1)
    if not plan.is_private:
        return np.full(t.size, np.inf)
    # Always valid: decisions are post-processing of Gaussian releases.
    values = gaussian.running_epsilon(np.sqrt(plan.chains * t) / plan.noise_multiplier, plan.delta)
    if plan.release == "decisions":
        curve = rdp.total_curve({plan.iteration_event: 1}, plan.neighboring_relation, decisions=True)
        for order in rdp.ORDERS[::_ORDER_STRIDE]:
            # Linear in t: the conversion of rdp.epsilon_at with a multiple of one iteration's divergence.
            once = rdp.epsilon_at(float(order), 0.0, plan.delta)
            values = np.minimum(values, np.maximum(once + plan.chains * t * curve(float(order)), 0.0))
    total = plan.epsilon_at(plan.delta)
    values = np.minimum(np.maximum.accumulate(values), total)  # a part never costs more than the whole
    values[-1] = total
    values.setflags(write=False)
    return values


def plan(
    epsilon: float,
    delta: float,
    *,
    draws: int = 1000,
    tune: int,
    chains: int,
    neighboring_relation: str = "substitute",
    clip_fraction: bool = True,
    release: str = "decisions",
    shift: float | None = None,
    noise_std: float | None = None,
) -> PrivacyPlan:
    """Noise that keeps a whole call within (epsilon, delta).

    Parameters
    ----------
    epsilon : float
        Target, > 0; ``inf`` for no privacy.
    delta : float
        Target, in (0, 1); well below 1 / number of records.
    draws, tune, chains : int
        As in `pymc.sample`.
    neighboring_relation : {"substitute", "add_remove"}
    clip_fraction : bool
        Release each chain's mean clipped share, for 1e-4 of the budget.
    release : {"decisions", "noisy_ratio"}
        What each iteration lets out: the accept decision alone, or the noisy log-ratio as well.
    shift, noise_std : float, optional
        At most one of them, when it is the same public number at every iteration: the sensitivity of the
        tempered log-ratio, or the standard deviation of its noise, in nats. Decisions then cost less.

    Returns
    -------
    PrivacyPlan
        Its `epsilon_at(delta)` is never above `epsilon`.
    """
    check_target(epsilon, delta)
    check_relation(neighboring_relation)
    check_call(draws, tune, chains)
    if release not in RELEASES:
        raise ValueError(f"release must be one of {', '.join(RELEASES)}, got {release!r}.")
    if shift is not None and noise_std is not None:
        raise ValueError("give shift or noise_std, not both.")
    return _calibrated(
        float(epsilon), float(delta), neighboring_relation, int(chains), int(tune), int(draws),
        clip_fraction, release, shift, noise_std,
    )  # fmt: skip


def check_call(draws: int, tune: int, chains: int) -> None:
    """Raise ValueError unless these are numbers of draws (>= 1), tuning draws (>= 0) and chains (>= 1)."""
    for name, value, least in (("draws", draws, 1), ("tune", tune, 0), ("chains", chains, 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")


@lru_cache(maxsize=256)
def _calibrated(
    epsilon: float,
    delta: float,
    neighboring_relation: str,
    chains: int,
    tune: int,
    draws: int,
    clip_fraction: bool,
    release: str,
    shift: float | None,
    noise_std: float | None,
) -> PrivacyPlan:
    common = (epsilon, delta, neighboring_relation, chains, tune, draws)
    if math.isinf(epsilon):
        return PrivacyPlan(*common, 0.0, release=release)
    squared = float(gaussian.mu(epsilon, delta)) ** 2
    share = CLIP_FRACTION_SHARE if clip_fraction else 0.0
    once = math.sqrt(chains / (squared * share)) * (1 + _HEADROOM) if share else math.inf
    exact = math.sqrt(chains * (tune + draws) / (squared * (1 - share))) * (1 + _HEADROOM)

    def at(noise_multiplier: float) -> PrivacyPlan:
        fixed = noise_multiplier * shift if shift is not None else noise_std
        return PrivacyPlan(*common, noise_multiplier, once, release, fixed)

    if release == "noisy_ratio":
        return at(exact)
    # Decisions never cost more than the Gaussians behind them, so `exact` fits; look below it.
    low = exact / 1.5
    while low > 1e-3 * exact and at(low).epsilon_at(delta) <= epsilon:
        low /= 1.5
    found = calibration.calibrate(
        lambda nm: at(nm).events, epsilon, delta, low=low, high=min(1.5 * low, exact)
    )
    return at(found)
