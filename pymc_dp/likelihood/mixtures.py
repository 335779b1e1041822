"""Mixtures of normal likelihoods, and the normal one with the same moments."""

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

# Least variance.
_TINY = 1e-200
# What is added to correlation matrices before they are inverted.
_RIDGE = 1e-11
# This part of its draws is nearer to a prior's median than `_OF_PART` standard deviations: the levels of
# groups whose spread is unknown are mostly near it, but a search that holds those further out for impossible
# takes the scores that say so for noise.
_PART = 0.95
# Two-sided quantile of a normal number for that part.
_OF_PART = 1.96
# Standard deviation of a constant, over its size: a reference level of zero.
_OF_CONSTANTS = 1e-7
#: Of the prior's precision, added where a covariance is taken: records may say nothing of some direction.
RIDGE = 1e-4
# Standard deviation where a prior has none.
_UNKNOWN = 100.0
# The least and the most that is taken for one.
_LEAST = 1e-100
_MOST = 1e100
# A score is no more than so many of its standard deviations from what it would be at what is believed.
_GUESSED = 3.0


class Normal(NamedTuple):
    """A normal distribution.

    Attributes
    ----------
    precision : ndarray, shape (p, p)
    mean : ndarray, shape (p,)
    draws : ndarray, shape (m, p), optional
        Of what it stands for.
    """

    precision: np.ndarray
    mean: np.ndarray
    draws: np.ndarray | None = None

    @classmethod
    def unknown(cls, mean: np.ndarray) -> "Normal":
        """Of which nothing is known but the mean, shape (p,)."""
        return cls(np.eye(mean.size) / _UNKNOWN**2, mean)

    @classmethod
    def like(cls, draws: np.ndarray, otherwise: np.ndarray) -> "Normal":
        """With the median and the spread of draws, shape (m, p); another mean, (p,), where there is none."""
        draws = np.where(np.isfinite(draws), draws, np.nan)
        with np.errstate(all="ignore"):
            middle = np.nanmedian(draws, axis=0)
            spread = np.nanquantile(np.abs(draws - middle), _PART, axis=0) / _OF_PART
        middle = np.where(np.isfinite(middle), middle, otherwise)
        spread = np.clip(np.where(np.isfinite(spread) & (spread > 0), spread, _UNKNOWN), _LEAST, _MOST)
        constant = (draws == middle).all(axis=0)
        spread = np.where(constant, _OF_CONSTANTS * np.maximum(np.abs(middle), 1.0), spread)
        # Beyond so many standard deviations a draw counts as so many, since priors of scales have draws that
        # are further than all others together.
        furthest = 3.0
        apart = np.clip(np.nan_to_num((draws - middle) / spread), -furthest, furthest)
        covariance = apart.T @ apart / len(apart)
        root = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
        # Part of a correlation that is left: what so many draws show of it is not exact.
        kept = 0.98
        correlation = kept * covariance / np.outer(root, root)
        np.fill_diagonal(correlation, 1.0)
        precision = np.linalg.inv(correlation) / np.outer(spread, spread)
        return cls(0.5 * (precision + precision.T), middle, draws)

    def in_units(self, unit: np.ndarray) -> "Normal":
        """The same of the coordinates over these numbers, shape (p,)."""
        draws = None if self.draws is None else self.draws / unit
        return Normal(self.precision * np.outer(unit, unit), self.mean / unit, draws)

    def times(self, factor: float) -> "Normal":
        """With a precision of so many times this one."""
        return Normal(factor * self.precision, self.mean)

    def variances(self, metric: np.ndarray) -> np.ndarray:
        """Of each coordinate of a metric."""
        back = np.linalg.inv(metric)
        return np.diag(back.T @ inverse(self.precision) @ back)


class Message(NamedTuple):
    """A normal likelihood ``exp(vector' phi - phi' information phi / 2)``.

    Attributes
    ----------
    information : ndarray, shape (p, p)
    vector : ndarray, shape (p,)
    """

    information: np.ndarray
    vector: np.ndarray

    @classmethod
    def nothing(cls, size: int) -> "Message":
        """Of no information."""
        return cls(np.zeros((size, size)), np.zeros(size))

    def widened(self, root: np.ndarray) -> "Message":
        """With noise of covariance ``root root'``, shape (p, p), added to what it is one of."""
        told = self.information @ root
        lost = told @ np.linalg.inv(np.eye(root.shape[1]) + symmetric(root.T @ told))
        return Message(
            symmetric(self.information - lost @ told.T), self.vector - lost @ (root.T @ self.vector)
        )

    def of_some(self, some: np.ndarray, prior: Normal) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and precision of some combinations of coordinates, shape (k, p)."""
        covariance = inverse(self.information + prior.precision)
        mean = some @ covariance @ (self.vector + prior.precision @ prior.mean)
        return mean, inverse(some @ covariance @ some.T)

    def with_some_of(self, other: "Message", some: np.ndarray, prior: Normal) -> "Mixture":
        """A likelihood by which some combinations of coordinates have the posterior that another gives them.

        And all else, given these, what this one gives it. What it says of them, rows of shape (k, p), may be
        less than nothing: see `Mixture.matched`.
        """
        (mean, known), (before, own) = other.of_some(some, prior), self.of_some(some, prior)
        information = symmetric(self.information + some.T @ (known - own) @ some)
        vector = self.vector + some.T @ (known @ mean - own @ before)
        return Mixture(information[None], vector[None], np.ones(1))


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

    def moments(self, prior: Normal) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the posterior."""
        covariances = inverse(self.informations + prior.precision)
        means = np.einsum("kij,kj->ki", covariances, self.vectors + prior.precision @ prior.mean)
        mean = self.weights @ means
        apart = means - mean
        between = np.einsum("k,ki,kj->ij", self.weights, apart, apart)
        return mean, symmetric(np.einsum("k,kij->ij", self.weights, covariances) + between)

    def matched(self, prior: Normal) -> Message:
        """The normal likelihood whose posterior has these moments; nothing where they say less than that.

        Where it says little its mean is a guess, and is not far from what is believed: under a wider prior it
        is a likelihood as well.
        """
        mean, covariance = self.moments(prior)
        back = roots(prior.precision).T
        values, vectors = np.linalg.eigh(symmetric(back @ covariance @ back.T))
        values = np.maximum(values, _TINY)
        told, axes = np.maximum(1 / values - 1, 0.0), back.T @ vectors
        apart = vectors.T @ back @ (mean - prior.mean)
        most = told * np.abs(apart) + _GUESSED * np.sqrt(told)
        information = symmetric((axes * told) @ axes.T)
        vector = np.clip((1 + told) * apart, -most, most)
        return Message(information, axes @ vector + information @ prior.mean)

    def part(self, number: int) -> "Mixture":
        """About so many of its components, at equal steps."""
        kept = slice(None, None, max(len(self.weights) // number, 1))
        weights = self.weights[kept]
        weights = weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1 / len(weights))
        return Mixture(self.informations[kept], self.vectors[kept], weights)

    def evidence(self, prior: Normal) -> float:
        """Logarithm of its mean under a prior, but for what does not go by that."""
        apart = self.vectors - self.informations @ prior.mean
        total = self.informations + prior.precision
        solved = np.linalg.solve(total, apart[:, :, None])[:, :, 0]
        each = 0.5 * np.einsum("ki,ki->k", apart, solved) - 0.5 * np.linalg.slogdet(total)[1]
        # The mean at the prior's own: the same for all priors here.
        each = each + np.einsum("ki,i->k", self.vectors, prior.mean)
        each = each - 0.5 * np.einsum("i,kij,j->k", prior.mean, self.informations, prior.mean)
        highest = float(each.max())
        whole = highest + math.log(float(self.weights @ np.exp(each - highest)))
        return whole + 0.5 * float(np.linalg.slogdet(prior.precision)[1])

    def widened(self, variances: np.ndarray) -> "Mixture":
        """With noise of these covariances, shape (m, p, p), added to what the likelihood is one of."""
        root = np.linalg.cholesky(symmetric(variances))
        whole = symmetric(root.swapaxes(1, 2) @ self.informations @ root)
        values, vectors = np.linalg.eigh(whole)
        values = np.maximum(values, 0.0)[:, :, None]
        # ``L^-T Q``, with which ``(I + information V)^-1 = L^-T Q (1 + values)^-1 Q' L'``.
        back = np.linalg.solve(root.swapaxes(1, 2), vectors)
        informations = back @ (values / (1 + values) * back.swapaxes(1, 2))
        turned = vectors.swapaxes(1, 2) @ root.swapaxes(1, 2) @ self.vectors[:, :, None]
        return Mixture(symmetric(informations), (back @ (turned / (1 + values)))[:, :, 0], self.weights)


def symmetric(matrices: np.ndarray) -> np.ndarray:
    """Symmetric parts."""
    return 0.5 * (matrices + np.swapaxes(matrices, -1, -2))


def is_positive(matrix: np.ndarray) -> bool:
    """Whether a symmetric matrix, shape (p, p), is positive definite."""
    return lapack.dpotrf(matrix, lower=1)[1] == 0


def roots(matrices: np.ndarray) -> np.ndarray:
    """R with ``R R'`` these positive definite matrices, shape (..., p, p), which rounding may leave singular.

    By eigenvalues: nothing raises after it was paid.
    """
    scale = np.sqrt(np.maximum(np.diagonal(matrices, axis1=-2, axis2=-1), _TINY))
    values, vectors = np.linalg.eigh(symmetric(matrices / (scale[..., :, None] * scale[..., None, :])))
    return scale[..., :, None] * vectors * np.sqrt(np.maximum(values, _RIDGE))[..., None, :]


def inverse(matrices: np.ndarray) -> np.ndarray:
    """Inverses of positive semi-definite matrices, of which those that are nearly singular are bounded."""
    root = np.sqrt(np.maximum(np.diagonal(matrices, axis1=-2, axis2=-1), _TINY))
    scale = root[..., :, None] * root[..., None, :]
    return symmetric(np.linalg.inv(matrices / scale + _RIDGE * np.eye(matrices.shape[-1])) / scale)


def squares_within(matrices: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``v' M^-1 v`` for each of some positive definite matrices, bounded as by `inverse`, and log det M."""
    root = np.sqrt(np.maximum(np.diagonal(matrices, axis1=-2, axis2=-1), _TINY))
    scaled = matrices / (root[:, :, None] * root[:, None, :]) + _RIDGE * np.eye(matrices.shape[-1])
    apart = vectors / root
    squares = np.einsum("ki,ki->k", apart, np.linalg.solve(scaled, apart[:, :, None])[:, :, 0])
    return squares, np.linalg.slogdet(scaled)[1] + 2 * np.log(root).sum(axis=1)
