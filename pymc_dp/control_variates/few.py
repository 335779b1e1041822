"""The search for few records: weighted scores that no clip biases, and what they leave open in the target."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pymc_dp.control_variates.beliefs import RESULT, WALK, Message, Prior, Round, believed
from pymc_dp.control_variates.curvature import symmetric
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.histograms import OCTAVES
from pymc_dp.control_variates.places import Places
from pymc_dp.control_variates.releases import releases_of
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.sums import Point
from pymc_dp.control_variates.surrogate import NOT_FOUND, Surrogate
from pymc_dp.errors import PrivacyError, TooFewRecordsError
from pymc_dp.likelihood import information
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom

# Histograms of scales: what stands out, of so many octaves together; of those beside, what counts.
_VISIBLE, _WIDEST, _BESIDE, _COUNTS = 5.0, 4, 2, 2.0
# Bounds of weighted scores over sqrt(p / n), where information is the metric: the least, down to
# sqrt(p / n) / mu of so much; below that they grow with this power, as noise is less than what weights cost;
# the most; and of slopes over the square of that.
_BOUND, _NOISY, _POWER, _WIDEST_BOUND, _OF_SLOPES = 1.1, 0.1, 0.4, 4.0, 1.25
# Noise of a score that it has at least, in the metric of the information: hides no more than 1 / 5000 of it.
_LEAST_NOISE = 0.014
# A step changes the predictor by no more.
_FURTHEST = 2.0
# Passes of misfits and beliefs: of a round, and of the last with what the result is made of.
_PASSES, _LAST_PASSES = 3, 4
# Most of q (1 - q); least mean weight, and least variance of a score over its slope.
_LARGEST_CURVATURE, _LEAST_WEIGHT, _LEAST_SHARE = 0.25, 1e-3, 0.02
# Least variance of a score, in any direction, over what it is on average; as a multiple of its slope.
_LEAST_VARIANCE = 0.3


class FewFinder:
    """Finds what weighted scores say of the parameters of a logistic regression.

    Parameters
    ----------
    records : RecordModel
        Of one linear predictor.
    settings : ControlVariates
        With `few`, and the number of rounds.
    mu_squared : float
        Budget of the whole call; inf for no noise.
    random : PrivacyRandom
    n : float
        Number of records, or about that: public.
    progress : callable, optional
        See `Releases`.
    neighboring_relation : {"substitute", "add_remove"}

    Notes
    -----
    A weight that does not depend on the outcome leaves the score's expectation at the true parameters 0,
    however much it cuts (Mallows' weights): what a round releases is a noisy linear equation whose slope is
    released as well (docs/proofs/few_records).

    **Privacy.** Every release is one of `Releases`, in the order of the schedule; the rest are functions of
    what was released.
    """

    def __init__(
        self,
        records: Any,
        settings: ControlVariates,
        mu_squared: float,
        random: PrivacyRandom,
        n: float,
        progress: Callable[[int, int], None] | None = None,
        neighboring_relation: str = "substitute",
    ):
        self.records, self.settings, self._n = records, settings, float(n)
        size = records.coordinates.size
        noisy = math.sqrt(size / (self._n * mu_squared)) / _NOISY
        bound = min(_BOUND * max(noisy**-_POWER, 1.0), _WIDEST_BOUND) if noisy > 0 else _WIDEST_BOUND
        # Of scores and of slopes: a record whose score is at the one is about at the other.
        self._bounds = bound * math.sqrt(size / self._n), _OF_SLOPES * bound**2 * size / self._n
        self.releases = releases_of(records, settings, mu_squared, random, progress, neighboring_relation)

    def __call__(self, start: np.ndarray) -> Surrogate:
        """Make every release of the schedule.

        Raises
        ------
        TooFewRecordsError
            Numbers that no matrix can be made of.
        """
        try:
            return self._search(start)
        except np.linalg.LinAlgError:
            raise TooFewRecordsError(NOT_FOUND) from None

    def _search(self, start: np.ndarray) -> Surrogate:
        places, size = Places(self.records, start, self.releases.structure, 1.0), start.size
        at = places.first(start.copy())
        counts, noise = self.releases.scales(at.phi, at.metric)
        scales = np.array([_scale_of(row, noise) for row in counts])
        # Of a predictor whose size is hidden nothing is expected: its prior is the first metric.
        found = np.diag(_LARGEST_CURVATURE * (scales / np.diag(at.metric)) ** 2)
        rounds: list[Round] = []
        prior = self._prior(places, at.theta)
        mean, covariance = prior.mean, np.linalg.inv(prior.precision)
        number = self.settings.few_rounds or 1
        for k in range(number):
            at = Point(at.theta, at.phi, _root(found + prior.precision), at.centre)
            rounds.append(self._round(at))
            cares = (WALK,) * _PASSES if k < number - 1 else (WALK, *(RESULT,) * _LAST_PASSES)
            for care in cares:
                mixture = believed(rounds, mean, covariance, prior, care)
                mean, covariance = mixture.moments(prior)
            if k < number - 1:
                found, step = rounds[-1].mean, mean - at.theta
                length = math.sqrt(max(float(step @ found @ step), 0.0) / rounds[-1].curvature)
                theta = at.theta + step * min(1.0, _FURTHEST / max(length, 1e-300))
                at = Point(theta, self.records.coordinates(theta), at.metric, at.centre)
                prior = self._prior(places, at.theta)
        message = mixture.widened(self._variances(at, rounds[-1])).matched(prior)
        if not self.releases.finished:
            raise PrivacyError("The surrogate made fewer releases than were paid for.")
        if not np.any(scales):
            return self._surrogate(at, Message.nothing(size))
        last = rounds[-1]
        return replace(self._surrogate(at, message), weight=last.weight / self._n, distance=last.distance)

    def _prior(self, places: Places, theta: np.ndarray) -> Prior:
        """The normal distribution that is like the prior at a point."""
        precision = places.precision(np.zeros((theta.size, theta.size)), theta)
        return Prior(precision, theta + np.linalg.solve(precision, self.records.log_prior_gradient(theta)))

    def _round(self, at: Point) -> Round:
        """Release a score and what goes with it, at a point and in its metric."""
        sums = self.releases.weighted(at.phi, at.metric, *self._bounds)
        draws = information.draws(
            sums.information,
            np.full_like(sums.information, sums.information_noise),
            self._n * self._bounds[1],
        )
        self._variance = sums.variance
        least = max(sums.weight_noise, _LEAST_WEIGHT * self._n)
        return Round(
            point=at.phi,
            metric=at.metric,
            score=sums.score,
            noise=max(sums.score_noise, _LEAST_NOISE),
            informations=draws,
            curvature=float(
                np.clip(sums.curvature, _LARGEST_CURVATURE * least, _LARGEST_CURVATURE * self._n)
            ),
            weight=float(np.clip(sums.weight, least, self._n)),
            weights=np.full(len(draws), 1 / len(draws)),
        )

    def _variances(self, at: Point, last: Round) -> np.ndarray:
        """Of where the score of the records is 0, around the true parameters; for each draw of the slope.

        The covariance V of the score was released with noise: as far as that hides it, it is taken to be a
        multiple of J, of the trace that is known from moments.
        """
        seen, noise = self.releases.variance(at.phi, at.metric, *self._bounds)
        slopes, size = last.informations, len(seen)
        mean = np.einsum("k,kij->ij", last.weights, slopes)
        share = float(np.clip(self._variance / np.trace(mean), _LEAST_SHARE, 1.0))
        whiten = _root(mean)
        apart = whiten @ seen @ whiten.T - share * np.eye(size)
        products = whiten @ whiten.T
        level = 0.5 * noise**2 * float(np.trace(products) ** 2 + np.sum(products**2))
        kept = max(0.0, 1 - level / max(float(np.sum(apart**2)), 1e-300))
        values, vectors = np.linalg.eigh(symmetric(share * np.eye(size) + kept * apart))
        values = np.clip(values, _LEAST_VARIANCE * share, 1.0)
        back = np.linalg.inv(whiten)
        variance = back @ ((vectors * values) @ vectors.T) @ back.T
        inverses = np.linalg.inv(slopes)
        return at.metric.T @ (inverses @ variance @ inverses) @ at.metric

    def _surrogate(self, at: Point, message: Message) -> Surrogate:
        size = at.phi.size
        return Surrogate(
            point=at.theta,
            phi=at.phi,
            metric=at.metric,
            centre=np.zeros(size),
            gradient_bound=self._bounds[0],
            hessian_bound=self._bounds[1],
            gradient=message.vector - message.information @ at.phi,
            gradient_noise=np.zeros((size, size)),
            hessian=-message.information,
            hessian_noise=0.0,
            tempering=1.0,
            noise_aware=False,
            few=True,
        )


def _root(precision: np.ndarray) -> np.ndarray:
    """A with ``A P A' = I``."""
    values, vectors = np.linalg.eigh(symmetric(precision))
    return (vectors / np.sqrt(np.maximum(values, 1e-20 * values.max()))).T


def _scale_of(counts: np.ndarray, noise: float) -> float:
    """Root of the sum of squares of what stands out of a histogram of octaves; 0 if nothing does."""
    best = (0.0, 0, 1)
    for width in range(1, _WIDEST + 1):
        together = np.convolve(counts, np.ones(width), "valid") / math.sqrt(width)
        cell = int(together.argmax())
        best = max(best, (float(together[cell]), cell, width))
    height, first, width = best
    if not height > _VISIBLE * max(noise, 0.25):
        return 0.0
    near = np.arange(max(first - _BESIDE, 0), min(first + width + 1, len(counts)))
    inside = (near >= first) & (near < first + width)
    kept = np.where(inside | (counts[near] > _COUNTS * noise), counts[near], 0.0)
    squares = 4.0 ** (near - OCTAVES + 0.5)
    return math.sqrt(max(float(kept @ squares), float(squares[inside].min())))


def finder_of(
    records: Any,
    settings: ControlVariates,
    mu_squared: float,
    random: PrivacyRandom,
    *,
    tempering: float,
    epsilon: float,
    lipschitz: float | None,
    n: int | None,
    progress: Callable[[int, int], None] | None = None,
    neighboring_relation: str = "substitute",
) -> Finder | FewFinder:
    """The search that the settings ask for."""
    if settings.few:
        return FewFinder(records, settings, mu_squared, random, n or 1, progress, neighboring_relation)
    return Finder(
        *(records, settings, mu_squared, random, tempering, epsilon),
        *(lipschitz, progress, neighboring_relation),
    )
