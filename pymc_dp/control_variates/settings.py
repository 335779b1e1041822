"""How the budget of a surrogate is spent."""

import math
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class ControlVariates:
    """Shares of the call's budget (as mu^2) of each release of a surrogate; its last gradient has the rest.

    Parameters
    ----------
    chain : float
        Of all accept decisions together.
    noise_std : float
        Standard deviation of the noise of each log-ratio of residuals, in nats: fixes their clip bound.
    noise_aware : bool
        Whether the target is widened by what the noise of the surrogate makes uncertain.
    early_rounds : int
        Rounds in which the centre is looked for.
    early_histogram, early_gradient, early_hessian, early_line : float
        In each of these rounds: two histograms of norms (each), the gradient, the Hessian, a line search.
    line_steps : tuple of float
        Step lengths that the line search compares, longest first.
    tails : int
        Times that the centre of the gradients' clip is moved, before each of the last two gradients.
    tail_histogram, tail_direction : float
        For each time.
    polish_histogram, polish_gradient, polish_hessian : float
        Of the last but one point.
    last_histogram, last_hessian : float
        Of the centre.
    hessian_histogram : float
        Of norms of Hessians, at each of the last two points.
    significance : float
        A histogram's cell counts from so many standard deviations of its noise on.

    Notes
    -----
    **Privacy.** The shares are public and fixed before a run; every release is made, whatever the others say.
    """

    chain: float = 0.02
    noise_std: float = 1.0
    noise_aware: bool = True
    early_rounds: int = 6
    early_histogram: float = 0.001
    early_gradient: float = 0.004
    early_hessian: float = 0.004
    early_line: float = 0.003
    line_steps: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03)
    tails: int = 2
    tail_histogram: float = 0.003
    tail_direction: float = 0.007
    polish_histogram: float = 0.003
    polish_gradient: float = 0.08
    polish_hessian: float = 0.02
    last_histogram: float = 0.01
    last_hessian: float = 0.05
    hessian_histogram: float = 0.003
    significance: float = 4.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            numbers = value if isinstance(value, tuple) else (value,)
            if not numbers or not all(math.isfinite(x) and x > 0 for x in numbers):
                if field.name != "noise_aware" and not (field.name == "tails" and value == 0):
                    raise ValueError(f"{field.name} must be positive and finite, got {value!r}.")
        if self.last_gradient <= 0:
            raise ValueError(
                f"the shares add up to {1 - self.last_gradient:g}: nothing is left for the last gradient."
            )

    def schedule(self) -> list[tuple[str, float]]:
        """Every release but the decisions, in order, with its share of mu^2."""
        before = [(name, share) for name, share in self._before_last()]
        return [*before, ("gradient", self.last_gradient)]

    @property
    def last_gradient(self) -> float:
        """Share of the gradient at the centre."""
        return 1 - self.chain - sum(share for _, share in self._before_last())

    def _before_last(self) -> list[tuple[str, float]]:
        early = [
            ("histogram", self.early_histogram),
            ("histogram", self.early_histogram),
            ("gradient", self.early_gradient),
            ("hessian", self.early_hessian),
            ("line", self.early_line),
        ]
        tail = [("histogram", self.tail_histogram), ("direction", self.tail_direction)] * self.tails
        polish = [
            ("histogram", self.polish_histogram),
            ("histogram", self.hessian_histogram),
            ("gradient", self.polish_gradient),
            ("hessian", self.polish_hessian),
        ]
        last = [
            ("histogram", self.last_histogram),
            ("histogram", self.hessian_histogram),
            ("hessian", self.last_hessian),
        ]
        return early * self.early_rounds + tail + polish + tail + last


def as_control_variates(value: Any) -> ControlVariates | None:
    """True for the defaults, False or None for none, or the settings themselves."""
    if value is None or value is False:
        return None
    if value is True:
        return ControlVariates()
    if not isinstance(value, ControlVariates):
        raise ValueError(f"control_variates must be True, False or ControlVariates(...), got {value!r}.")
    return value
