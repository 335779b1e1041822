"""How far one record may move the log-likelihood ratio."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

# A move that underflows still has a positive bound, whose reciprocal does not overflow.
SMALLEST_BOUND = 1e-290


class Clip(Protocol):
    """Bound on one record's log-likelihood ratio, as a function of the move."""

    def bound(self, move: np.ndarray) -> float:
        """B > 0 for a displacement of shape (d,)."""


@dataclass(frozen=True)
class LipschitzClip:
    """``B = L * norm(move)``: clips nothing when L bounds every record's gradient norm.

    Parameters
    ----------
    constant : float
        L, in nats per unit of unconstrained parameter space.
    """

    constant: float

    def __post_init__(self):
        _positive("lipschitz", self.constant)

    def bound(self, move: np.ndarray) -> float:
        """Bound for a displacement of shape (d,)."""
        return max(self.constant * float(np.sqrt(move @ move)), SMALLEST_BOUND)

    def __str__(self) -> str:
        return f"{self.constant:g} x distance moved"


@dataclass(frozen=True)
class ConstantClip:
    """``B`` nats whatever the move.

    Parameters
    ----------
    constant : float
        B, in nats.
    """

    constant: float

    def __post_init__(self):
        _positive("clip_bound", self.constant)

    def bound(self, move: np.ndarray) -> float:
        """Bound for a displacement of shape (d,)."""
        return self.constant

    def __str__(self) -> str:
        return f"{self.constant:g} nats"


def clipped(ratios: np.ndarray, bound: float) -> np.ndarray:
    """Log-likelihood ratios clipped to [-bound, bound]: an odd function; NaN gives 0."""
    return np.clip(np.nan_to_num(ratios, nan=0.0, posinf=bound, neginf=-bound), -bound, bound)


def _positive(name: str, value: float) -> None:
    if not (np.isscalar(value) and np.isreal(value) and np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive, finite number, got {value!r}.")


def as_clip(lipschitz: float | None, clip_bound: float | None) -> Clip:
    """Build the clip from a step's two arguments, of which exactly one is given."""
    if (lipschitz is None) == (clip_bound is None):
        raise ValueError(
            "Give exactly one of lipschitz= and clip_bound=: how much one record may change the "
            "log-likelihood.\n"
            "  lipschitz=L clips a record's ratio at L * distance moved. For a logistic regression whose "
            "rows have norm "
            "<= R, L = R holds for every record; Poisson and normal regressions need public bounds on the "
            "outcome as well.\n"
            "  clip_bound=B clips it at B nats, for proposals of a fixed length.\n"
            "  Choose from public knowledge or on simulated data (docs/clipping): a bound read off the "
            "private data leaks."
        )
    return LipschitzClip(lipschitz) if lipschitz is not None else ConstantClip(clip_bound)  # type: ignore[arg-type]
