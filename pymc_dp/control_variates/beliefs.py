"""What the noisy weighted scores of a search say together about the parameters: mixtures of normals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pymc_dp.control_variates.curvature import symmetric

# Of a misfit: the part that goes in all directions. How fast an earlier score loses its worth with distance;
# the part of the slope at the end in that on the way, from a distance of 1 on.
_SIDEWAYS, _SHARP, _SECANT = 0.3, 4, 0.5


class Prior(NamedTuple):
    """A normal prior: precision, shape (p, p), and mean, (p,)."""

    precision: np.ndarray
    mean: np.ndarray


class Message(NamedTuple):
    """A normal likelihood ``exp(nu' theta - theta' L theta / 2)``.

    Attributes
    ----------
    information : ndarray, shape (p, p)
        L.
    vector : ndarray, shape (p,)
        nu.
    """

    information: np.ndarray
    vector: np.ndarray

    @classmethod
    def nothing(cls, size: int) -> "Message":
        """Of no information."""
        return cls(np.zeros((size, size)), np.zeros(size))


@dataclass
class Round:
    """A released score at a point, and what its slope may be.

    Attributes
    ----------
    point : ndarray, shape (p,)
        t.
    metric : ndarray, shape (p, p)
        A.
    score : ndarray, shape (p,)
        Noisy ``A s(t)``.
    noise : float
        Standard deviation of each of its coordinates.
    informations : ndarray, shape (m, p, p)
        Draws of ``A J A'``, for minus the slope J of the score.
    curvature : float
        Sum of ``w q (1 - q)`` over records.
    weight : float
        Sum of the weights w.
    weights : ndarray, shape (m,)
        Posterior ones of the draws.
    distance : float
        Root of the mean square change of the predictor from here to the parameters.
    """

    point: np.ndarray
    metric: np.ndarray
    score: np.ndarray
    noise: float
    informations: np.ndarray
    curvature: float
    weight: float
    weights: np.ndarray
    distance: float = 0.0

    @property
    def mean(self) -> np.ndarray:
        """Expected J, shape (p, p)."""
        inverse = np.linalg.inv(self.metric)
        return symmetric(inverse @ np.einsum("k,kij->ij", self.weights, self.informations) @ inverse.T)

    def misfit(self, mean: np.ndarray, covariance: np.ndarray, care: "Care") -> np.ndarray:
        """Covariance in the metric of what the score differs by from a linear one, for parameters like these.

        Relatively it goes by the change of the predictor.
        """
        inverse = np.linalg.inv(self.metric).T
        away = inverse @ (mean - self.point)
        spread = np.outer(away, away) + inverse @ covariance @ inverse.T
        squares = np.maximum(np.einsum("kij,ji->k", self.informations, spread) / self.curvature, 0.0)
        self.distance = math.sqrt(float(self.weights @ squares))
        moved = self.informations @ spread @ self.informations
        weights = self.weights * care.misfit**2 * squares / (1 + care.bounded * squares)
        sideways = _SIDEWAYS * float(weights @ np.trace(moved, axis1=1, axis2=2)) / len(mean)
        return np.einsum("k,kij->ij", weights, moved) + sideways * np.eye(len(mean))


class Care(NamedTuple):
    """How much is made of what cannot be known from the releases.

    Attributes
    ----------
    misfit : float
        Relative change of a score's slope for a change of the predictor by 1.
    bounded : float
        How soon that no longer grows, far away.
    half : float
        Change of the predictor from which an earlier score counts half; inf: all count.
    """

    misfit: float
    bounded: float
    half: float


#: On the way to the parameters, where standing still is worse than going too far; and for the result.
WALK, RESULT = Care(0.4, 0.25, math.inf), Care(0.9, 0.0, 0.7)


class Mixture(NamedTuple):
    """A likelihood that is a mixture of normal ones.

    Attributes
    ----------
    informations : ndarray, shape (m, p, p)
    vectors : ndarray, shape (m, p)
        As those of a `Message`.
    weights : ndarray, shape (m,)
        Posterior ones.
    """

    informations: np.ndarray
    vectors: np.ndarray
    weights: np.ndarray

    def moments(self, prior: Prior) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the posterior."""
        covariances = np.linalg.inv(self.informations + prior.precision)
        means = np.einsum("kij,kj->ki", covariances, self.vectors + prior.precision @ prior.mean)
        mean = self.weights @ means
        apart = means - mean
        between = np.einsum("k,ki,kj->ij", self.weights, apart, apart)
        return mean, symmetric(np.einsum("k,kij->ij", self.weights, covariances) + between)

    def matched(self, prior: Prior) -> Message:
        """The normal likelihood whose posterior has these moments; nothing where they say less than that."""
        mean, covariance = self.moments(prior)
        values, vectors = np.linalg.eigh(symmetric(np.linalg.inv(covariance) - prior.precision))
        information = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return Message(information, information @ mean + prior.precision @ (mean - prior.mean))

    def widened(self, variances: np.ndarray) -> "Mixture":
        """With noise of these covariances, shape (m, p, p), added to what the likelihood is one of."""
        added = np.linalg.inv(variances)
        gain = self.informations @ np.linalg.inv(self.informations + added)
        informations = self.informations - gain @ self.informations
        vectors = self.vectors - np.einsum("kij,kj->ki", gain, self.vectors)
        return Mixture(symmetric_all(informations), vectors, self.weights)


def symmetric_all(matrices: np.ndarray) -> np.ndarray:
    """Symmetric parts."""
    return 0.5 * (matrices + matrices.transpose(0, 2, 1))


def believed(
    rounds: Sequence[Round], mean: np.ndarray, covariance: np.ndarray, prior: Prior, care: Care
) -> Mixture:
    """Likelihood of all scores, each a linear one up to its misfit.

    Parameters
    ----------
    rounds : sequence of Round
        Their weights and distances are renewed.
    mean : ndarray, shape (p,)
    covariance : ndarray, shape (p, p)
        What is believed of the parameters: misfits go by it.
    prior : Prior
    care : Care
    """
    message, last = Message.nothing(len(mean)), rounds[-1]
    for one in rounds:
        noise = one.noise**2 * np.eye(len(mean)) + one.misfit(mean, covariance, care)
        slopes = one.informations
        if one is not last:
            noise = noise * (1 + (one.distance / care.half) ** _SHARP)
            # On the way the slope is between that here and that at the end, with the weights of here.
            part = _SECANT * min(1.0, one.distance)
            there = one.metric @ last.mean @ one.metric.T * (one.weight / last.weight)
            slopes = (1 - part) * slopes + part * there
        mixture = _learnt(one, slopes, noise, message, prior)
        one.weights = mixture.weights
        if one is not last:
            message = mixture.matched(prior)
    return mixture


def _learnt(
    one: Round, informations: np.ndarray, noise: np.ndarray, earlier: Message, prior: Prior
) -> Mixture:
    """Likelihood of an earlier message and of a linear score with noise of this covariance, (p, p)."""
    slopes = informations @ np.linalg.inv(one.metric).T
    weighted = slopes.transpose(0, 2, 1) @ np.linalg.inv(noise)
    found = weighted @ slopes
    vectors = weighted @ one.score + found @ one.point
    before = np.linalg.inv(prior.precision + earlier.information)
    mean = before @ (prior.precision @ prior.mean + earlier.vector)
    total = noise + slopes @ before @ slopes.transpose(0, 2, 1)
    apart = one.score - slopes @ (mean - one.point)
    density = -0.5 * np.einsum("ki,ki->k", apart, np.linalg.solve(total, apart[..., None])[..., 0])
    density = density - 0.5 * np.linalg.slogdet(total)[1]
    weights = np.exp(density - density.max())
    return Mixture(
        symmetric_all(found) + earlier.information, vectors + earlier.vector, weights / weights.sum()
    )
