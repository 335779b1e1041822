"""The search for few records: weighted scores that no clip biases, and what they leave open in the target."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_dp.control_variates import information
from pymc_dp.control_variates.beliefs import Message, Mixture, Prior, Score, learnt
from pymc_dp.control_variates.curvature import symmetric
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.histograms import OCTAVES
from pymc_dp.control_variates.places import Places
from pymc_dp.control_variates.releases import WeightedSums, releases_of
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.sums import Point
from pymc_dp.control_variates.surrogate import NOT_FOUND, Surrogate
from pymc_dp.errors import PrivacyError, TooFewRecordsError
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom

# Histograms of scales: what stands out, of up to so many octaves together; of those beside, what counts.
_VISIBLE, _WIDEST, _BESIDE, _COUNTS = 5.0, 4, 2, 2.0
# Bounds of weighted scores over sqrt(p / n), and of their slopes over p / n, where information is the metric.
_SCORE, _SLOPE = 1.2, 1.2
# Relative change of the slope for a change of the predictor of 1 on the way, and its part in all directions.
_MISFIT, _SIDEWAYS = 0.5, 0.3
# Change of the predictor from which an earlier score counts half.
_HALF = 0.7
# A step changes the predictor by no more.
_FURTHEST = 2.0
# Passes of the misfit and of how far the parameters are.
_PASSES = 3
# Of the probability of a Bernoulli record, and of the weight's moments.
_LARGEST_CURVATURE, _LEAST_SHARE = 0.25, 0.02


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
        places = Places(self.records, start, self.releases.structure, 1.0)
        at = places.first(start.copy())
        counts, noise = self.releases.scales(at.phi, at.metric)
        scales = np.array([_scale_of(row, noise) for row in counts])
        # Where the size of a predictor is hidden the result is the prior.
        hidden = bool(np.any(scales == 0))
        sizes = np.where(scales > 0, scales, 1.0) / np.diag(at.metric)
        found = np.diag(_LARGEST_CURVATURE * sizes**2)
        message, rounds = Message.nothing(start.size), self.settings.few_rounds or 1
        for k in range(rounds):
            prior = self._prior(places, at.theta)
            at = Point(at.theta, at.phi, _root(found + prior.precision), at.centre)
            sums = self._weighted(at)
            mixture, slope, far = self._learnt(at, sums, message, prior)
            if k == rounds - 1:
                variances = self._variances(at, sums, mixture, slope)
                message = mixture.widened(variances).matched(prior)
            else:
                message = mixture.matched(prior).times(1 / (1 + (far / _HALF) ** 2))
                inverse = np.linalg.inv(at.metric)
                found = symmetric(inverse @ np.einsum("k,kij->ij", mixture.weights, slope) @ inverse.T)
                step = mixture.moments(prior)[0] - at.theta
                length = math.sqrt(max(float(step @ found @ step), 0.0) / self._curvature(sums))
                theta = at.theta + step * min(1.0, _FURTHEST / max(length, 1e-300))
                at = Point(theta, self.records.coordinates(theta), at.metric, at.centre)
        if not self.releases.finished:
            raise PrivacyError("The surrogate made fewer releases than were paid for.")
        if hidden:
            message = Message.nothing(start.size)
        return self._surrogate(at, message)

    def _prior(self, places: Places, theta: np.ndarray) -> Prior:
        """The normal distribution that is like the prior at a point."""
        precision = places.precision(np.zeros((theta.size, theta.size)), theta)
        return Prior(precision, theta + np.linalg.solve(precision, self.records.log_prior_gradient(theta)))

    def _weighted(self, at: Point) -> WeightedSums:
        size = at.phi.size
        bounds = _SCORE * math.sqrt(size / self._n), _SLOPE * size / self._n
        return self.releases.weighted(at.phi, at.metric, *bounds)

    def _curvature(self, sums: WeightedSums) -> float:
        """Sum of ``w q (1 - q)``, with noise, and within what it can be."""
        return float(np.clip(sums.curvature, _LEAST_SHARE * self._n, _LARGEST_CURVATURE * self._n))

    def _learnt(
        self, at: Point, sums: WeightedSums, message: Message, prior: Prior
    ) -> tuple[Mixture, np.ndarray, float]:
        """What is known after a round; draws of the score's slope; how far the predictor may be, in nats."""
        size = at.phi.size
        slopes = information.draws(sums.information, sums.information_noise, _SLOPE * size)
        score = Score(at.phi, at.metric, sums.score, sums.score_noise, slopes)
        inverse, misfit, far = np.linalg.inv(at.metric).T, np.zeros((size, size)), 0.0
        for _ in range(_PASSES):
            mixture = learnt(score, message, prior, misfit)
            mean, covariance = mixture.moments(prior)
            away = inverse @ (mean - at.theta)
            away2 = np.outer(away, away) + inverse @ covariance @ inverse.T
            squares = np.einsum("kij,ji->k", slopes, away2) / self._curvature(sums)
            moved = slopes @ away2 @ slopes
            sideways = _SIDEWAYS * np.trace(moved, axis1=1, axis2=2) / size
            weights = mixture.weights * _MISFIT**2 * squares / (1 + 0.25 * squares)
            misfit = np.einsum("k,kij->ij", weights, moved) + float(weights @ sideways) * np.eye(size)
            far = math.sqrt(max(float(mixture.weights @ squares), 0.0))
        return mixture, slopes, far

    def _variances(
        self, at: Point, sums: WeightedSums, mixture: Mixture, slopes: np.ndarray
    ) -> np.ndarray:
        """Of where the score of the records is 0, around the true parameters; for each draw of the slope."""
        trace = float(mixture.weights @ np.trace(slopes, axis1=1, axis2=2))
        share = float(np.clip(sums.variance / trace, _LEAST_SHARE, 1.0))
        return at.metric.T @ (share * np.linalg.inv(slopes)) @ at.metric

    def _surrogate(self, at: Point, message: Message) -> Surrogate:
        size = at.phi.size
        return Surrogate(
            point=at.theta,
            phi=at.phi,
            metric=at.metric,
            centre=np.zeros(size),
            gradient_bound=_SCORE * math.sqrt(size / self._n),
            hessian_bound=_SLOPE * size / self._n,
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
