"""What the noisy weighted scores of a search say together about the parameters: mixtures of normals."""

from typing import NamedTuple

import numpy as np

from pymc_dp.control_variates.curvature import symmetric


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

    def times(self, power: float) -> "Message":
        """That likelihood to a power."""
        return Message(power * self.information, power * self.vector)

    @classmethod
    def nothing(cls, size: int) -> "Message":
        """Of no information."""
        return cls(np.zeros((size, size)), np.zeros(size))


class Score(NamedTuple):
    """A released score at a point, and what its slope may be.

    Attributes
    ----------
    point : ndarray, shape (p,)
        t.
    metric : ndarray, shape (p, p)
        A.
    value : ndarray, shape (p,)
        Noisy ``A s(t)``.
    noise : float
        Standard deviation of each of its coordinates.
    informations : ndarray, shape (m, p, p)
        Draws of ``A J A'``, for minus the slope J of the score.
    """

    point: np.ndarray
    metric: np.ndarray
    value: np.ndarray
    noise: float
    informations: np.ndarray


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


def learnt(score: Score, earlier: Message, prior: Prior, misfit: np.ndarray) -> Mixture:
    """Likelihood of an earlier message and of a score that is linear up to a misfit.

    Parameters
    ----------
    score : Score
    earlier : Message
    prior : Prior
        For the weights.
    misfit : ndarray, shape (p, p)
        Covariance in the metric of what the score differs by from ``A J (theta - t)``, besides noise.
    """
    p = len(score.point)
    slopes = score.informations @ np.linalg.inv(score.metric).T
    noise = score.noise**2 * np.eye(p) + misfit
    weighted = slopes.transpose(0, 2, 1) @ np.linalg.inv(noise)
    informations = weighted @ slopes
    vectors = weighted @ score.value + informations @ score.point
    before = prior.precision + earlier.information
    mean = np.linalg.solve(before, prior.precision @ prior.mean + earlier.vector)
    total = noise + slopes @ np.linalg.inv(before) @ slopes.transpose(0, 2, 1)
    apart = score.value - slopes @ (mean - score.point)
    found = -0.5 * np.einsum("ki,ki->k", apart, np.linalg.solve(total, apart[..., None])[..., 0])
    found = found - 0.5 * np.linalg.slogdet(total)[1]
    weights = np.exp(found - found.max())
    return Mixture(
        symmetric_all(informations) + earlier.information, vectors + earlier.vector, weights / weights.sum()
    )
