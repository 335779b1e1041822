"""Clip bounds: by how much one record may change the log-likelihood ratio of two points."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from pymc_dp.bounds import check_bound

# Smallest clip bound of a move, in nats: positive even if the move's length underflows, and so large that its
# reciprocal does not overflow.
SMALLEST_BOUND = 1e-290


class Clip(Protocol):
    """Bound on one record's log-likelihood ratio, as a function of the move."""

    def bound(self, move: np.ndarray) -> float:
        """Return the bound B > 0, in nats, for a displacement of shape (d,)."""


@dataclass(frozen=True)
class LipschitzClip:
    """Clip at ``B = L * norm(move)``, which clips nothing if L bounds every record's gradient norm.

    Parameters
    ----------
    constant : float
        L, in nats per unit of unconstrained parameter space.
    """

    constant: float

    def __post_init__(self):
        check_bound("lipschitz", self.constant)

    def bound(self, move: np.ndarray) -> float:
        """Bound for a displacement of shape (d,)."""
        return max(self.constant * float(np.sqrt(move @ move)), SMALLEST_BOUND)

    def __str__(self) -> str:
        return f"{self.constant:g} x distance moved"


#: Lipschitz constants: one number, one for each component, or those of each free variable.
type Constants = ArrayLike | Mapping[str, ArrayLike]


class LipschitzByPart:
    """Clip at ``B = sum over parts of L_b * norm(move of part b)``; a part is a variable or a component.

    If ``L_b`` bounds the norm of every record's gradient with respect to part b, nothing is clipped. B is at
    most ``norm(L) * norm(move)``, by the Cauchy-Schwarz inequality; a move of component j alone is clipped at
    ``L_j`` times its length.

    Parameters
    ----------
    constants : array_like of shape (d,), or dict of str to float or array_like
        One number for each component, in the order of the flat unconstrained vector; or, for each free
        variable, a number (a bound of the norm of its gradient) or an array of its unconstrained shape (a
        bound for each of its components). In nats per unit of unconstrained space.

    Raises
    ------
    ValueError
        A constant is not a number between 1e-100 and 1e100.
    """

    def __init__(self, constants: Constants):
        self._by_name = isinstance(constants, Mapping)
        parts = constants if isinstance(constants, Mapping) else {"array": constants}
        self._given = {name: np.asarray(value) for name, value in parts.items()}
        for name, value in self._given.items():
            check_bound(self._called(name), value, several=True)
        self.constants, self._starts = np.empty(0), np.empty(0, dtype=int)

    def _called(self, name: str) -> str:
        return f"lipschitz[{name!r}]" if self._by_name else "lipschitz"

    def fitted(self, shapes: Mapping[str, tuple[int, ...]]) -> "LipschitzByPart":
        """Find the parts in the flat vector, and return this object.

        Parameters
        ----------
        shapes : mapping of str to tuple
            Name and unconstrained shape of each free variable, in the order of the flat vector.

        Raises
        ------
        ValueError
            The names or shapes of the constants are not those of these variables.
        """
        if not self._by_name:
            shapes = {"array": (sum(map(math.prod, shapes.values())),)}
        elif set(self._given) != set(shapes):
            raise ValueError(
                f"lipschitz is given for {', '.join(self._given)}, and the free variables are "
                f"{', '.join(shapes)}: each needs an entry."
            )
        parts, starts, start = [], [], 0
        for name, shape in shapes.items():
            value = self._given[name]
            if value.ndim and value.shape != shape:
                raise ValueError(
                    f"{self._called(name)} has shape {value.shape}, and the unconstrained parameters "
                    f"{shape}: give a number, an array of that shape, or a dict with an entry for each free "
                    "variable."
                )
            parts.append(np.ravel(value))
            starts.append(start + np.arange(value.size))
            start += math.prod(shape)
        self.constants, self._starts = np.concatenate(parts).astype(float), np.concatenate(starts)
        return self

    def bound(self, move: np.ndarray) -> float:
        """Bound for a displacement of shape (d,)."""
        lengths = np.sqrt(np.add.reduceat(move * move, self._starts))
        return max(float(self.constants @ lengths), SMALLEST_BOUND)

    def __str__(self) -> str:
        shown = ", ".join(f"{constant:g}" for constant in self.constants[:8])
        return f"{shown}{', ...' if self.constants.size > 8 else ''} x distance moved by each part, added"


@dataclass(frozen=True)
class ConstantClip:
    """Clip at B nats, whatever the move.

    Parameters
    ----------
    constant : float
        B, in nats.
    """

    constant: float

    def __post_init__(self):
        check_bound("clip_bound", self.constant)

    def bound(self, move: np.ndarray) -> float:
        """Bound for a displacement of shape (d,)."""
        return self.constant

    def __str__(self) -> str:
        return f"{self.constant:g} nats"


def clipped(ratios: np.ndarray, bound: float) -> np.ndarray:
    """Return log-likelihood ratios clipped to [-bound, bound]: an odd function; NaN gives 0."""
    return np.clip(np.nan_to_num(ratios, nan=0.0, posinf=bound, neginf=-bound), -bound, bound)


def shares(ratios: np.ndarray, bound: float) -> np.ndarray:
    """Return log-likelihood ratios in units of `bound`, clipped to [-1, 1]: an odd function; NaN gives 0."""
    with np.errstate(all="ignore"):  # a warning of an overflow would leak something about a record
        return clipped(ratios / bound, 1.0)


def as_clip(lipschitz: Constants | None, clip_bound: ArrayLike | None, *, by_part: bool = False) -> Clip:
    """Build the clip from a step's two arguments, of which exactly one is given.

    Parameters
    ----------
    lipschitz : float, array_like or dict, optional
    clip_bound : float, optional
    by_part : bool
        Whether the step takes constants for parts of the parameters. It then has to call
        `LipschitzByPart.fitted`.
    """
    if (lipschitz is None) == (clip_bound is None):
        raise ValueError(
            "Give exactly one of lipschitz= and clip_bound=: how much one record may change the "
            "log-likelihood.\n"
            "  lipschitz=L clips a record's ratio at L * distance moved. For a logistic regression whose "
            "rows have norm <= R, L = R holds for every record; Poisson and normal regressions need public "
            "bounds on the outcome as well.\n"
            "  clip_bound=B clips it at B nats, for proposals of a fixed length.\n"
            "  Choose from public knowledge or on simulated data (docs/clipping): a bound read off the "
            "private data leaks."
        )
    if by_part and lipschitz is not None and (isinstance(lipschitz, Mapping) or np.ndim(lipschitz)):
        return LipschitzByPart(lipschitz)
    return LipschitzClip(lipschitz) if lipschitz is not None else ConstantClip(clip_bound)  # type: ignore[arg-type]
