"""Releases of a surrogate from several data owners, each of whom adds its own noise."""

import math
from typing import Any

import numpy as np

from pymc_dp.control_variates.record_sums import Totals
from pymc_dp.control_variates.releases import Releases
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.structure import Structure
from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.errors import PrivacyError
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.values import is_number

#: Arguments of each sum: phi, a metric, parameters, points, or a positive number, by a letter.
_ARGUMENTS = {
    "gradient": "cmcn",
    "hessian": "cmn",
    "fisher": "cmn",
    "histogram": "cmck",
    "direction": "cmcn",
    "cut": "cmcnn",
    "line": "tpn",
}
# Cells of an octave, and points of a line search, at most.
_MOST = 64


class ReleasesOfOwners(Releases):
    """Asks every owner for each release, and adds what they say.

    Parameters
    ----------
    records : RecordsOfOwners
    settings : ControlVariates
    mu_squared : float
        ``1 / sum(1 / mu_j**2)`` of the owners' budgets: see `joint`.
    *arguments : object
        As `Releases`.

    Notes
    -----
    **Privacy.** Only sums with an owner's own noise are seen here. Owner j's noise has the variance
    ``sensitivity**2 / (share mu_j**2)``: together that of one data set and budget ``mu_squared``.
    """

    def __init__(self, records: Any, settings: ControlVariates, mu_squared: float, *arguments: Any):
        self._ask = records.ask
        super().__init__(records, settings, mu_squared, *arguments)

    def release(self, kind: str, *arguments: Any) -> tuple[np.ndarray, list[float]]:
        """See `Releases.release`."""
        noise = self._noise_of(kind, arguments)
        self._passed(1 + len(arguments[1]) if kind == "line" else 1)
        said = self._ask("release", kind=kind, arguments=[_plain(one) for one in arguments])
        return np.sum([np.array(values, dtype=float) for values in said], axis=0), noise

    def split(self, first: float) -> None:
        """See `Releases.split`."""
        super().split(first)
        self._ask("split", first=first)


def no_sums(structure: Structure) -> Totals:
    """In the place of exact sums: nobody has those of all owners."""

    def total(kind: str, *arguments: Any) -> np.ndarray:
        raise PrivacyError("Exact sums stay with their owners.")

    return total


def joint(budgets: list[tuple[float, float]]) -> float:
    """Budget mu^2 at which one data set has as much noise as owners with these (epsilon, delta) together."""
    inverse = [1 / gaussian.mu(*one) ** 2 for one in budgets if math.isfinite(one[0])]
    return 1 / float(sum(inverse)) if inverse else math.inf


def received(kind: str, arguments: list[Any], p: int, d: int) -> list[Any]:
    """Arguments of a release as an owner takes them.

    Raises
    ------
    ValueError
        They are not what the sum takes: shapes, finite numbers, ranges.
    """
    shapes = {"c": (p,), "m": (p, p), "t": (d,), "n": ()}
    found: list[Any] = []
    for letter, given in zip(_ARGUMENTS[kind], arguments, strict=True):
        if letter == "k":
            if not (0 < len(given) <= 2 and all(type(c) is int and 0 < c <= _MOST for c in given)):
                raise ValueError("cells")
            found.append(tuple(given))
            continue
        values = np.array(given, dtype=float)
        shape = (len(given), d) if letter == "p" else shapes[letter]
        if values.shape != shape or not np.all(np.isfinite(values)):
            raise ValueError("shape")
        if (letter == "n" and not values > 0) or (letter == "p" and not 0 < len(given) <= _MOST):
            raise ValueError("range")
        found.append(list(values) if letter == "p" else values if shape else float(values))
    return found


# Of a surrogate: by shape, and what may be missing.
_VECTORS = ("phi", "centre", "gradient", "put_back")
_MATRICES = ("metric", "gradient_noise", "hessian", "cut_left", "seen")
_NUMBERS = (
    "gradient_bound",
    "hessian_bound",
    "hessian_noise",
    "tempering",
    "seen_noise",
    "missing",
    "hessian_left",
)
_MAY_MISS = ("put_back", "cut_left", "seen")


def check_surrogate(text: str, structure: Structure, d: int) -> None:
    """Whether a text is a surrogate that records here can be compared with.

    Parameters
    ----------
    text : str
        Anything.
    structure : Structure
        Of these records' Hessians.
    d : int
        Number of parameters.

    Raises
    ------
    ValueError
        Shapes, finite numbers, or a structure that is not the one of the call. With a metric of another shape
        what is computed of a record would depend on others.
    """
    surrogate, p = Surrogate.from_json(text), structure.p
    shapes = {"point": (d,)} | dict.fromkeys(_VECTORS, (p,)) | dict.fromkeys(_MATRICES, (p, p))
    for name, shape in shapes.items():
        value: Any = getattr(surrogate, name)
        if value is None and name in _MAY_MISS:
            continue
        if not isinstance(value, np.ndarray) or value.shape != shape or not np.all(np.isfinite(value)):
            raise ValueError(name)
    for name in _NUMBERS:
        value = getattr(surrogate, name)
        if not is_number(value) or not math.isfinite(value) or value < 0:
            raise ValueError(name)
    if not (surrogate.gradient_bound > 0 and surrogate.hessian_bound > 0):
        raise ValueError("bounds")
    if type(surrogate.noise_aware) is not bool:
        raise ValueError("noise_aware")
    blocks: Any = None if structure.full else structure.labels.tolist()
    if blocks != (None if surrogate.blocks is None else np.asarray(surrogate.blocks).tolist()):
        raise ValueError("blocks")
    if np.any(surrogate.metric[~structure.mask]):
        raise ValueError("metric")


def settings_from(values: dict[str, Any]) -> ControlVariates:
    """Settings from what JSON makes of their fields."""
    return ControlVariates(**{name: _tuples(value) for name, value in values.items()})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value


def _plain(argument: Any) -> Any:
    """As JSON takes it."""
    if isinstance(argument, list | tuple):
        return [_plain(one) for one in argument]
    return argument.tolist() if isinstance(argument, np.ndarray | np.generic) else argument
