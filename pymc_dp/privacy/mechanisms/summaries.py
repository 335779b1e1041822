"""Noise of plain summaries, by OpenDP: sums of whole numbers, and counts of cells not known beforehand.

This is the second of the two places where noise is added (the first is `randomness.Gaussian`): discrete
Gaussian noise, drawn by OpenDP from the operating system's randomness, and charged as zCDP. A measurement and
its event are one object. The cost by OpenDP's own privacy map is compared with the formula of
docs/proofs/prepare.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from dp_accounting import dp_event
from scipy.special import ndtri

from pymc_dp.errors import PrivacyError
from pymc_dp.privacy.accounting.events import ApproximateZCDpEvent
from pymc_dp.rounding import UP

if TYPE_CHECKING:
    from opendp.mod import Measurement


@contextmanager
def _contrib() -> Iterator[ModuleType]:
    """Enable OpenDP's parts that are not formally vetted, within a block; docs/proofs/prepare has a proof."""
    try:
        import opendp.prelude as opendp
        from opendp.mod import GLOBAL_FEATURES, disable_features, enable_features
    except ImportError:
        raise ImportError(
            "Plain summaries are released by OpenDP, which is not installed: pip install 'pymc-dp[prepare]'."
        ) from None
    had = "contrib" in GLOBAL_FEATURES
    enable_features("contrib")
    try:
        yield opendp
    finally:
        if not had:
            disable_features("contrib")


def _agree(claimed: float, priced: float) -> None:
    """Refuse if OpenDP's price is above the one that the event charges, which has a margin for rounding."""
    if not priced <= claimed * UP:
        raise PrivacyError("OpenDP prices this release above what was charged for it: nothing is released.")


@dataclass(frozen=True)
class IntegerSums:
    """Discrete Gaussian noise on a vector of sums over records of whole numbers.

    Parameters
    ----------
    rho : float
        Price, in zCDP, > 0.
    sensitivity : float
        The most by which one record moves the vector, in Euclidean norm, under the neighbouring relation.

    Notes
    -----
    **Privacy.** Event: rho-zCDP (Canonne, Kamath & Steinke 2020, Theorem 14). Sums are exact; every entry of
    the noise is a whole number.
    """

    rho: float
    sensitivity: float

    @property
    def std(self) -> float:
        """Scale of the noise: its standard deviation, or slightly more."""
        return self.sensitivity / math.sqrt(2 * self.rho)

    @property
    def event(self) -> dp_event.DpEvent:
        """Event of a release."""
        return dp_event.ZCDpEvent(self.rho * UP)

    @cached_property
    def measurement(self) -> "Measurement":
        """OpenDP's measurement; its price was compared with that of the event."""
        with _contrib() as opendp:
            space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l2_distance(T="f64")
            made = opendp.m.make_gaussian(*space, scale=self.std)
            _agree(self.rho, made.map(float(self.sensitivity)))
        return made

    def release(self, sums: np.ndarray) -> np.ndarray:
        """Release noisy sums: whole numbers as floats, of the shape of `sums`, which is a vector of int64."""
        return np.array(self.measurement([int(value) for value in sums]), dtype=float)


@dataclass(frozen=True)
class ThresholdedCounts:
    """Counts of cells that are not known beforehand; cells with few records are not released.

    Parameters
    ----------
    rho : float
        Price of the noise, in zCDP, > 0.
    delta : float
        Price of releasing which cells are above the threshold, and so not empty.
    neighboring_relation : {"substitute", "add_remove"}

    Notes
    -----
    **Privacy.** A record is in one cell. Replacing it moves it from one cell to another: two counts, each by
    1. Event: delta-approximate rho-zCDP (docs/proofs/prepare, section 3).
    """

    rho: float
    delta: float
    neighboring_relation: str

    @property
    def _cells(self) -> int:
        return 2 if self.neighboring_relation == "substitute" else 1

    @property
    def std(self) -> float:
        """Scale of the noise of a count."""
        return math.sqrt(self._cells / (2 * self.rho))

    @property
    def threshold(self) -> float:
        """Noisy counts below it are not released: a whole number."""
        return float(math.ceil(1.0 - self.std * float(ndtri(0.9 * self.delta / self._cells))) + 1)

    @property
    def event(self) -> dp_event.DpEvent:
        """Event of a release."""
        return ApproximateZCDpEvent(self.rho * UP, self.delta)

    @cached_property
    def measurement(self) -> "Measurement":
        """OpenDP's measurement; its price was compared with that of the event."""
        with _contrib() as opendp:
            domain = opendp.map_domain(opendp.atom_domain(T=str), opendp.atom_domain(T="f64", nan=False))
            metric = opendp.l02inf_distance(opendp.absolute_distance(T="f64"))
            made = opendp.m.make_gaussian_threshold(
                domain, metric, scale=self.std, threshold=self.threshold, k=0
            )
            rho, delta = made.map((self._cells, math.sqrt(self._cells), 1.0))
        _agree(self.rho, rho)
        _agree(self.delta, delta)
        return made

    def release(self, counts: Mapping[str, int]) -> dict[str, float]:
        """Release noisy counts of the cells above the threshold, by name, in the order of names.

        Parameters
        ----------
        counts : mapping of str to int
            Counts of the cells that are not empty, by name; a name is any text.
        """
        # A fixed injective map into ASCII, as OpenDP takes C strings, which are UTF-8 and end at a zero.
        coded = {
            name.encode("utf-8", "surrogatepass").hex(): float(count)
            for name, count in counts.items()
            if count
        }
        noisy = {
            bytes.fromhex(code).decode("utf-8", "surrogatepass"): float(count)
            for code, count in self.measurement(coded).items()
        }
        return dict(sorted(noisy.items()))
