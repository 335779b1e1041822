"""The noisy sums that a surrogate is made of: exact sums of integers, known sensitivities, Gaussians."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from dp_accounting import dp_event

from pymc_dp.control_variates.clipped_rows import GRID, OUTER_GRID
from pymc_dp.control_variates.histograms import OCTAVES, Histogram
from pymc_dp.control_variates.record_sums import KINDS, totals_of
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.structure import structure_of
from pymc_dp.errors import PrivacyError
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.mechanisms.randomness import ExactSum, Gaussian, PrivacyRandom

# Values of what a record adds have no obtuse angle between them (unit vectors of cells, outer products):
# two of them are no further apart than sqrt(2).
_AT_RIGHT_ANGLES = ("histogram", "fisher")


def sensitivity(kind: str, neighboring_relation: str = "substitute", candidates: int = 1) -> float:
    """Most that one record moves a sum by, in units of its bound.

    Parameters
    ----------
    kind : str
        See `record_sums.KINDS`.
    neighboring_relation : {"substitute", "add_remove"}
    candidates : int
        Of a line search.

    Notes
    -----
    **Privacy.** What a record adds has a norm of at most 1 (a line search of k points: sqrt(k)): that is what
    adding or removing it changes. Replacing it changes the sum by the distance of two such values: 2, or
    sqrt(2) (docs/proofs/control_variates, section 1).
    """
    if neighboring_relation == "substitute" and kind in _AT_RIGHT_ANGLES:
        return math.sqrt(2.0)
    return ExactSum.sensitivity(neighboring_relation) * math.sqrt(candidates)


#: Units of a sum in those of its bound.
SCALES = dict.fromkeys(KINDS, float(GRID)) | {"histogram": 1.0, "fisher": float(OUTER_GRID**2)}


def ends(cells: Sequence[int]) -> list[int]:
    """Where all histograms but the last end, one after the other."""
    return [int(end) for end in np.cumsum([2 * OCTAVES * c + 1 for c in cells])[:-1]]


class Releases:
    """Makes the releases of a schedule, in its order, each once.

    Parameters
    ----------
    records : RecordModel
        Or records elsewhere: see `record_sums.totals_of`.
    settings : ControlVariates
    mu_squared : float
        Budget of the whole call; inf for no noise.
    random : PrivacyRandom
    progress : callable, optional
        Called with the number of sums over the data that are done, and that there will be.
    neighboring_relation : {"substitute", "add_remove"}

    Notes
    -----
    Derivatives are in likelihood coordinates phi (`pymc_dp.records.coordinates`), of size p.

    **Privacy.** Neighbouring data sets: one record (privacy unit) replaced, or added or removed. A release is
    a sum over records of a function with values of norm at most 1 in the units of its bound; one record moves
    it by at most `sensitivity`. Rounding towards zero never increases a norm, and the sums are of integers.
    Its noise multiplier is ``1 / sqrt(share mu^2)``. A release that is not the next of the schedule is
    refused. The number of records is not used.
    """

    def __init__(
        self,
        records: Any,
        settings: ControlVariates,
        mu_squared: float,
        random: PrivacyRandom,
        progress: Callable[[int, int], None] | None = None,
        neighboring_relation: str = "substitute",
    ):
        self._progress, self._done, self._passes = progress, 0, passes(settings)
        self.random, self.mu_squared, self._relation = random, mu_squared, neighboring_relation
        if neighboring_relation != "substitute" and settings.recentre:
            raise PrivacyError("The centre of the clip is moved only where n is public.")
        self._left = settings.schedule()
        self.p: int = records.coordinates.size
        self.structure = structure_of(settings.structure, records.coordinates)
        self._totals = totals_of(records, self.structure)

    @property
    def finished(self) -> bool:
        """Whether every release was made."""
        return not self._left

    def multiplier(self, share: float) -> float:
        """Noise of a sum of clipped vectors, of this share of the budget, in clip bounds."""
        return sensitivity("gradient", self._relation) / math.sqrt(self.mu_squared * share)

    def _noise(self, kind: str, candidates: int = 1) -> float:
        """Standard deviation of the next release's noise; it is spent."""
        if not self._left or self._left[0][0] != kind:
            raise PrivacyError(
                f"The surrogate's next release is not a {kind}: nothing is made that was not paid."
            )
        _, share = self._left.pop(0)
        return sensitivity(kind, self._relation, candidates) / math.sqrt(share * self.mu_squared)

    def release(self, kind: str, *arguments: Any) -> tuple[np.ndarray, list[float]]:
        """Make the next release of the schedule.

        Parameters
        ----------
        kind : str
        *arguments : object
            Of the method of `RecordSums` of this name.

        Returns
        -------
        values : ndarray
            Noisy sum, in units of the bound: as it is summed; symmetric matrices packed.
        noise : list of float
            Its standard deviation: one number, or one for each histogram.
        """
        noise = self._noise_of(kind, arguments)
        self._passed(1 + len(arguments[1]) if kind == "line" else 1)
        total = self._totals(kind, *arguments) / SCALES[kind]
        if kind == "fisher":
            total = self.structure.packed(total)
        parts = np.split(total, ends(arguments[-1])) if kind == "histogram" else [total]
        noisy = [
            Gaussian(std).release(ExactSum(part), self.random) for part, std in zip(parts, noise, strict=True)
        ]
        return np.concatenate(noisy), noise

    def ahead(self, *requests: tuple[Any, ...]) -> None:
        """Say what will be released next at one point, each a kind and its arguments: the data are read once.

        **Privacy.** Sums are kept until they are released, in the order of the schedule; the arguments are
        known by then, so that none depends on noise that is still to be drawn.
        """
        made = getattr(self._totals, "ahead", None)
        if made is not None:
            made([(kind, arguments) for kind, *arguments in requests])

    def _noise_of(self, kind: str, arguments: Sequence[Any]) -> list[float]:
        """Standard deviations of the next release's noise."""
        if kind == "histogram":
            return [self._noise(kind) for _ in arguments[-1]]
        return [self._noise(kind, len(arguments[1]) if kind == "line" else 1)]

    def _passed(self, number: int = 1) -> None:
        """Count sums; how many there will be is public, and so is that they are made."""
        for _ in range(number):
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self._passes)

    def gradient(
        self, phi: np.ndarray, metric: np.ndarray, centre: np.ndarray, bound: float
    ) -> tuple[np.ndarray, float]:
        """Sum of ``clip(A (g_i - m))`` in units of `bound`, and its noise's standard deviation there."""
        value, (std,) = self.release("gradient", phi, metric, centre, bound)
        return value, std

    def hessian(self, phi: np.ndarray, metric: np.ndarray, bound: float) -> tuple[np.ndarray, float]:
        """Sum of ``clip(A H_i A')`` in Frobenius norm, in units of `bound`, and its noise's scale.

        The noise is symmetric and isotropic in the Frobenius norm: variance s^2 on the diagonal, s^2 / 2 off
        it.
        """
        value, (std,) = self.release("hessian", phi, metric, bound)
        return self.structure.unpacked(value), std

    def fisher(self, phi: np.ndarray, metric: np.ndarray, bound: float) -> tuple[np.ndarray, float]:
        """Sum of ``v v'``, ``v = clip(A g_i)`` in units of `bound`, and its noise's scale (see `hessian`)."""
        value, (std,) = self.release("fisher", phi, metric, bound)
        return self.structure.unpacked(value), std

    def split(self, first: float) -> None:
        """Share the budget of the next pair: `first` of it for the Hessian, the rest for the gradient.

        **Privacy.** Neither is made yet, and both have parameters that were released before, so that they are
        one Gaussian mechanism, whose noise multiplier does not depend on how it is shared.
        """
        if [kind for kind, _ in self._left[:1]] != ["pair"] or not 0 < first < 1:
            raise PrivacyError("The budget of a pair is shared once, and at its turn.")
        share = self._left.pop(0)[1]
        self._left[:0] = [("hessian", first * share), ("gradient", (1 - first) * share)]

    def norms(
        self, phi: np.ndarray, metric: np.ndarray, centre: np.ndarray, cells: Sequence[int]
    ) -> list[Histogram]:
        """Histograms of the norms of ``A (g_i - m)`` and, for a second number of cells, of ``A H_i A'``."""
        counts, noise = self.release("histogram", phi, metric, centre, tuple(cells))
        histograms = [Histogram(c, std) for c, std in zip(cells, noise, strict=True)]
        for histogram, found in zip(histograms, np.split(counts, ends(cells)), strict=True):
            histogram.counts = found
        return histograms

    def direction(self, phi: np.ndarray, metric: np.ndarray, centre: np.ndarray, beyond: float) -> np.ndarray:
        """Sum of the unit vectors of ``A (g_i - m)`` over the records whose norm is above `beyond`."""
        return self.release("direction", phi, metric, centre, beyond)[0]

    def cut(
        self, phi: np.ndarray, metric: np.ndarray, centre: np.ndarray, bound: float, depth: float
    ) -> tuple[np.ndarray, float]:
        """Sum of what lies of ``A (g_i - m)`` between `bound` and ``bound + depth``, in units of `depth`.

        And its noise's standard deviation there. A record adds a vector along ``A (g_i - m)``, of length 0 if
        its norm is below `bound` and of at most 1.
        """
        value, (std,) = self.release("cut", phi, metric, centre, bound, depth)
        return value, std

    def line(
        self, theta: np.ndarray, candidates: Sequence[np.ndarray], tempering: float
    ) -> tuple[np.ndarray, float]:
        """Log-likelihood of each candidate against `theta`, clipped at 1 nat a record, and its noise."""
        value, (std,) = self.release("line", theta, list(candidates), tempering)
        return value, std


def releases_of(records: Any, *arguments: Any) -> Releases:
    """Releases of records wherever they are: with ``records.releases`` where others add the noise."""
    return getattr(records, "releases", Releases)(records, *arguments)


def surrogate_events(settings: ControlVariates, epsilon: float, delta: float) -> list[dp_event.DpEvent]:
    """One Gaussian for each release of the schedule, of noise multiplier ``1 / sqrt(share mu^2)``."""
    if math.isinf(epsilon):
        return []
    squared = float(gaussian.mu(epsilon, delta)) ** 2
    return [dp_event.GaussianDpEvent(1 / math.sqrt(share * squared)) for _, share in settings.schedule()]


def passes(settings: ControlVariates) -> int:
    """How many sums over all records a surrogate takes: a function of its settings.

    Several at one point are made in one pass (`Releases.ahead`).
    """
    kinds, number = [kind for kind, _ in settings.schedule()], 0
    for k, kind in enumerate(kinds):
        if kind == "histogram" and kinds[k - 1 : k] == ["histogram"]:
            continue  # of gradients and of Hessians, in one
        number += {"line": 1 + 2 * len(settings.line_steps), "pair": 2}.get(kind, 1)
    return number
