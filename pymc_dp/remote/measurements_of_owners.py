"""Noisy sums of several data owners for a released likelihood: questions to each, and the sum of answers."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from pymc_dp.bounds import check_count, check_positive
from pymc_dp.likelihood.comparisons import Bounds
from pymc_dp.likelihood.measurements import Comparison, Count, Measurements, Shapes
from pymc_dp.likelihood.score_sizes import OCTAVES, Scales
from pymc_dp.likelihood.sources import Units
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.remote.answers import read_answers

#: Most twins of a record that an owner draws, so that its work is bounded whatever it is asked.
MOST_TWINS = 1024


class MeasurementsOfOwners:
    """The `NoisySums` of several owners: asks each of them, and adds their answers.

    Parameters
    ----------
    shapes : Units
        Public properties of the likelihood, on which all owners agree.
    ask : callable
        From a question and its arguments to the answers of all owners.
    spending : Spending
        The paid spending of the owner with the least noise; shares of the budget are the same for all owners.
    known : bool
        Whether censoring bounds that are arrays count as known (`Units.with_known_bounds`).
    which : int
        Index in `Units.apart`.

    Notes
    -----
    **Privacy.** Only sums with an owner's own noise are received here. Owner j's noise has the variance
    ``sensitivity**2 / (share mu_j**2)``; the variance of the sum's noise is the sum of these.
    """

    def __init__(
        self,
        shapes: Units,
        ask: Callable[..., list[dict[str, object]]],
        spending: Spending,
        known: bool = False,
        which: int = 0,
    ):
        self.source: Shapes = shapes
        self.doubtful = shapes.doubtful
        self._shapes, self._ask, self._spending = shapes, ask, spending
        self._own = {"known": known, "which": which}

    @property
    def apart(self) -> Sequence["MeasurementsOfOwners"]:
        """See `AllSums.apart`."""
        return [
            MeasurementsOfOwners(one, self._ask, self._spending, bool(self._own["known"]), k)
            for k, one in enumerate(self._shapes.apart)
        ]

    @property
    def with_known_bounds(self) -> "MeasurementsOfOwners":
        """See `AllSums.with_known_bounds`."""
        return MeasurementsOfOwners(self._shapes.with_known_bounds, self._ask, self._spending, known=True)

    @property
    def left(self) -> float:
        """Share of the budget that remains."""
        return self._spending.unspent

    def count_unknown_bounds(self, share: float) -> Count:
        """See `Measurements.count_unknown_bounds`."""
        self._spending.portion(share)
        return _added(Count, self._ask("count_unknown_bounds", share=share), {"number": (), "noise": ()})

    def scales(self, phi: np.ndarray, twins: int, share: float) -> Scales:
        """See `Measurements.scales`."""
        self._spending.portion(share)
        said = self._ask("scales", **self._own, phi=phi.tolist(), twins=twins, share=share)
        shapes = {"counts": (self.source.size, OCTAVES), "noise": ()}
        return _added(Scales, said, shapes)

    def compare(
        self, phi: np.ndarray, metric: np.ndarray, bounds: Bounds, twins: int, shares: tuple[float, float]
    ) -> Comparison:
        """See `Measurements.compare`."""
        for share in shares:
            self._spending.portion(share)
        question = {"phi": phi.tolist(), "metric": metric.tolist(), "bounds": list(bounds)}
        said = self._ask("compare_with_twins", **self._own, **question, twins=twins, shares=list(shares))
        size = self.source.size
        shapes = {"score": (size,), "score_noise": (), "slope": (size, size), "slope_noise": ()}
        return _added(Comparison, said, shapes | {"variances": (size,), "variance_noise": ()})


def _added[T](make: Callable[..., T], said: list[dict[str, object]], shapes: dict[str, tuple[int, ...]]) -> T:
    """Add the answers of owners; standard deviations of noise are added as variances.

    Raises
    ------
    PrivacyError
        An owner's answer is not numbers of these shapes.
    """
    found: list[np.ndarray | float] = []
    for name, shape in shapes.items():
        values = read_answers(partial(_array, name, shape), said)
        total = np.sqrt(np.sum(np.square(values), axis=0)) if "noise" in name else np.sum(values, axis=0)
        found.append(total if shape else float(total))
    return make(*found)


def _array(name: str, shape: tuple[int, ...], said: dict[str, object]) -> np.ndarray:
    found = np.array(said[name], dtype=float)
    if found.shape != shape or not np.all(np.isfinite(found)):
        raise ValueError("not finite, or of another shape")
    return found


class OwnMeasurements:
    """An owner's side: checks each question before it is answered.

    Parameters
    ----------
    measurements : Measurements
        Measurements of the owner's records, with its own budget and noise.

    Notes
    -----
    **Privacy.** Points, metrics, bounds, numbers of twins and shares may be anything that these methods
    accept, chosen by an adversary who has seen all answers: `Measurements` adds to each sum the noise that
    its bounds and its share of the owner's budget require, and releases nothing beyond that budget.
    """

    def __init__(self, measurements: Measurements):
        self._whole, self._size = measurements, measurements.source.size
        known = measurements.with_known_bounds.apart if measurements.doubtful else []
        self._measurements = [measurements.apart, known]

    def count_unknown_bounds(self, share: object) -> Callable[[], dict[str, object]]:
        """Check a question; return a function that answers it."""
        (own,) = self._shares([share])
        if not self._whole.doubtful:
            raise ValueError("bounds")
        return lambda: _plain(self._whole.count_unknown_bounds(own))

    def scales(
        self, known: object, which: object, phi: object, twins: object, share: object
    ) -> Callable[[], dict[str, object]]:
        """Check a question; return a function that answers it."""
        point, (own,) = _numbers(phi, (self._size,)), self._shares([share])
        twins, asked = _count(twins), self._asked(known, which)
        return lambda: _plain(asked.scales(point, twins, own))

    def compare_with_twins(
        self,
        known: object,
        which: object,
        phi: object,
        metric: object,
        bounds: Iterable[object],
        twins: object,
        shares: Iterable[object],
    ) -> Callable[[], dict[str, object]]:
        """Check a question; return a function that answers it."""
        points, matrix = _points(phi, self._size), _numbers(metric, (self._size, self._size))
        score, slope = (_positive(bound) for bound in bounds)
        of_score, of_slope = self._shares(shares)
        twins, asked = _count(twins), self._asked(known, which)
        return lambda: _plain(
            asked.compare(points, matrix, Bounds(score, slope), twins, (of_score, of_slope))
        )

    def _asked(self, known: object, which: Any) -> Measurements:
        check_count("which", which, 0)
        if not isinstance(known, bool) or which >= len(self._measurements[known]):
            raise ValueError("which")
        return self._measurements[known][which]

    def _shares(self, shares: Iterable[object]) -> list[float]:
        """Check shares of the owner's budget.

        Raises
        ------
        ValueError
            They are not positive, or exceed the remaining budget.
        """
        given = [_positive(share) for share in shares]
        if not math.fsum(given) <= self._whole.left:
            raise ValueError("shares")
        return given


def _points(given: object, size: int) -> np.ndarray:
    if not (isinstance(given, list) and given and isinstance(given[0], list)):
        return _numbers(given, (size,))
    # Most points of a round, since the scores at each take time.
    most_points = 16
    if len(given) > most_points:
        raise ValueError("points")
    return _numbers(given, (len(given), size))


def _numbers(given: object, shape: tuple[int, ...]) -> np.ndarray:
    values = np.array(given, dtype=float)
    if values.shape != shape or not np.all(np.isfinite(values)):
        raise ValueError("numbers")
    return values


def _positive(given: Any) -> float:
    check_positive("number", given)
    return float(given)


def _count(given: Any) -> int:
    check_count("twins", given, 1)
    if given > MOST_TWINS:
        raise ValueError("twins")
    return given


def _plain(measured: Count | Scales | Comparison) -> dict[str, object]:
    """Convert a result to types that JSON can hold."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        for name, value in measured._asdict().items()
    }
