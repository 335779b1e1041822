"""What a whole call costs, and how it is spent, before any data are read."""

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from pymc_dp.privacy import gaussian

NEIGHBORING_RELATIONS = ("substitute", "add_remove")
# Share of the budget, as rho = mu^2 / 2, for the released clip fractions of all chains together.
CLIP_FRACTION_SHARE = 1e-4
# Relative headroom of a noise multiplier over the exact calibration: covers the rounding of a few float
# operations.
_HEADROOM = 1e-9


@dataclass(frozen=True)
class PrivacyPlan:
    """Cost of a call: chains x (tune + draws) Gaussian releases, and a released clip fraction for each chain.

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

    Notes
    -----
    **Privacy.** All releases are Gaussian with noise proportional to their sensitivity, so that they compose
    exactly (MATH: ``mu**2`` is the sum of ``1 / nm**2``; Räisä 2021, Theorems 4.3 and 7, in Gaussian-DP
    notation). See docs/proofs/penalty.
    """

    epsilon: float
    delta: float
    neighboring_relation: str
    chains: int
    tune: int
    draws: int
    noise_multiplier: float
    clip_fraction_noise_multiplier: float = math.inf

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
        """Gaussian-DP parameter of the whole call."""
        if not self.is_private:
            return math.inf
        return math.sqrt(
            self.iterations / self.noise_multiplier**2 + self.chains / self.clip_fraction_noise_multiplier**2
        )

    @property
    def rho(self) -> float:
        """Zero-concentrated DP parameter of the whole call, ``mu**2 / 2``."""
        return 0.5 * self.mu**2

    def epsilon_at(self, delta: float) -> float:
        """Exact epsilon of the whole call at another delta (an upper bound to the last digit)."""
        return math.inf if not self.is_private else float(gaussian.epsilon(self.mu, delta))

    def running_epsilon(self) -> np.ndarray:
        """Epsilon, at the plan's delta, of the first t iterations of every chain.

        Returns
        -------
        ndarray, shape (tune + draws,)
            Entry t - 1 is an upper bound on the cost of iterations 1..t of *all* chains, so that the last
            entry is the cost of the call. Within half a per cent.
        """
        t = np.arange(1, self.tune + self.draws + 1)
        if not self.is_private:
            return np.full(t.size, np.inf)
        squared = self.chains * t / self.noise_multiplier**2
        squared[-1] = self.mu**2
        return gaussian.running_epsilon(np.sqrt(squared), self.delta)

    def to_dict(self) -> dict[str, Any]:
        """Fields as plain numbers and strings."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "PrivacyPlan":
        """Rebuild from `to_dict`; other keys are ignored."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})

    def __str__(self) -> str:
        relation = {"substitute": "one record replaced", "add_remove": "one record added or removed"}
        lines = [
            f"({self.epsilon:g}, {self.delta:g})-differential privacy for the whole call, "
            f"{relation[self.neighboring_relation]}",
            f"  {self.chains} chain(s) x ({self.tune} tuning + {self.draws} sampling) = {self.iterations} "
            "iterations",
        ]
        if self.is_private:
            lines += [
                f"  noise multiplier {self.noise_multiplier:.4g} for each iteration; mu = {self.mu:.4g}, "
                f"rho = {self.rho:.4g}",
                f"  epsilon({self.delta:g}) = {round_up(self.epsilon_at(self.delta))}, exact Gaussian "
                "accounting",
            ]
        else:
            lines = ["NOT PRIVATE: epsilon = inf, no noise is added.", lines[1]]
        return "\n".join(lines)


def plan(
    epsilon: float,
    delta: float,
    *,
    draws: int = 1000,
    tune: int,
    chains: int,
    neighboring_relation: str = "substitute",
    clip_fraction: bool = True,
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

    Returns
    -------
    PrivacyPlan
        Its `epsilon_at(delta)` is never above `epsilon`.
    """
    check_target(epsilon, delta)
    check_relation(neighboring_relation)
    for name, value, least in (("draws", draws, 1), ("tune", tune, 0), ("chains", chains, 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")
    common = (float(epsilon), float(delta), neighboring_relation, int(chains), int(tune), int(draws))
    if math.isinf(epsilon):
        return PrivacyPlan(*common, 0.0)
    squared = float(gaussian.mu(epsilon, delta)) ** 2
    share = CLIP_FRACTION_SHARE if clip_fraction else 0.0
    return PrivacyPlan(
        *common,
        noise_multiplier=math.sqrt(chains * (tune + draws) / (squared * (1 - share))) * (1 + _HEADROOM),
        clip_fraction_noise_multiplier=math.sqrt(chains / (squared * share)) * (1 + _HEADROOM)
        if share
        else math.inf,
    )


def check_target(epsilon: float, delta: float) -> None:
    """Raise ValueError unless epsilon > 0 (inf allowed) and 0 < delta < 1."""
    if not (_is_number(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be a positive number (or inf, for no privacy), got {epsilon!r}.")
    if not (_is_number(delta) and 0 < delta < 1):
        raise ValueError(
            f"delta must lie strictly between 0 and 1, well below 1 / (number of records), got {delta!r}."
        )


def check_relation(neighboring_relation: str) -> None:
    """Raise ValueError for an unknown neighbouring relation."""
    if neighboring_relation not in NEIGHBORING_RELATIONS:
        raise ValueError(
            f"neighboring_relation must be one of {', '.join(NEIGHBORING_RELATIONS)}, got "
            f"{neighboring_relation!r}."
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def round_up(value: float, digits: int = 4) -> str:
    """Decimal string of at least `value`: a printed epsilon is never below the computed one."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
    steps = math.ceil(value / unit)
    while float(f"{steps * unit:.{digits}g}") < value:
        steps += 1
    return f"{steps * unit:.{digits}g}"
