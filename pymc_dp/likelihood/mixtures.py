"""Mixtures of normal likelihoods, and single ones with the same posterior moments."""

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

# Smallest variance that a matrix or a posterior is taken to have.
_TINY = 1e-200
# Added to the diagonal of matrices that were scaled to a diagonal of 1, before they are inverted.
_RIDGE = 1e-11
#: Part of the prior's precision that is added to an information before a covariance is computed: records may
#: have none in some direction.
RIDGE = 1e-4
#: Standard deviation of a coordinate for which the prior's draws have no spread that is finite.
UNKNOWN = 100.0
# Matrices of at least this size are inverted one by one: by Cholesky's method this is faster then.
_LARGE = 64


class Normal(NamedTuple):
    """A normal distribution, which may stand for another one.

    Attributes
    ----------
    precision : ndarray, shape (p, p)
    mean : ndarray, shape (p,)
    draws : ndarray, shape (m, p), optional
        Draws of the distribution that it stands for.
    """

    precision: np.ndarray
    mean: np.ndarray
    draws: np.ndarray | None = None

    @classmethod
    def unknown(cls, mean: np.ndarray) -> "Normal":
        """Return one of which only the mean, shape (p,), is known."""
        return cls(np.eye(mean.size) / UNKNOWN**2, mean)

    @classmethod
    def like(cls, draws: np.ndarray, otherwise: np.ndarray) -> "Normal":
        """Return one with the median and spread of draws (m, p); with another mean (p,) if there is none."""
        draws = np.where(np.isfinite(draws), draws, np.nan)
        # Standard deviations are set by this quantile of the draws' distances to their median. It is far out
        # since levels of groups with an unknown spread are mostly near the median: a search that held the
        # others for impossible would take the scores that show them for noise.
        part = 0.95
        # The same quantile of the standard normal distribution's absolute values.
        normal_quantile = 1.96
        with np.errstate(all="ignore"):
            middle = np.nanmedian(draws, axis=0)
            spread = np.nanquantile(np.abs(draws - middle), part, axis=0) / normal_quantile
        middle = np.where(np.isfinite(middle), middle, otherwise)
        # Smallest standard deviation of a prior that is not constant.
        least = 1e-100
        # Largest standard deviation of a prior.
        most = 1e100
        spread = np.clip(np.where(np.isfinite(spread) & (spread > 0), spread, UNKNOWN), least, most)
        constant = (draws == middle).all(axis=0)
        # Standard deviation of a constant (a reference level of zero) over its absolute value (1 if less).
        of_constants = 1e-7
        spread = np.where(constant, of_constants * np.maximum(np.abs(middle), 1.0), spread)
        # Larger deviations count as this many standard deviations: priors of scales have single draws that
        # are further away than all others together.
        furthest = 3.0
        apart = np.clip(np.nan_to_num((draws - middle) / spread), -furthest, furthest)
        covariance = apart.T @ apart / len(apart)
        root = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
        # Correlations are shrunk by this factor, since those of a finite number of draws are not exact.
        kept = 0.98
        correlation = kept * covariance / np.outer(root, root)
        np.fill_diagonal(correlation, 1.0)
        precision = np.linalg.inv(correlation) / np.outer(spread, spread)
        return cls(0.5 * (precision + precision.T), middle, draws)

    def in_units(self, unit: np.ndarray) -> "Normal":
        """Return that of the coordinates divided by these numbers, shape (p,)."""
        draws = None if self.draws is None else self.draws / unit
        return Normal(self.precision * np.outer(unit, unit), self.mean / unit, draws)

    def times(self, factor: float) -> "Normal":
        """Return one with the precision multiplied by a factor, without draws."""
        return Normal(factor * self.precision, self.mean)

    def variances(self, metric: np.ndarray) -> np.ndarray:
        """Return the variances of the coordinates of a metric, shape (p,)."""
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
        """Return one without information."""
        return cls(np.zeros((size, size)), np.zeros(size))

    def over(self, number: float) -> "Message":
        """Return one with the same estimate, of which all variances are multiplied by a number."""
        return Message(self.information / number, self.vector / number)

    def moments(self, prior: Normal) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance of the posterior."""
        covariance = inverse(prior.precision + self.information)
        return covariance @ (prior.precision @ prior.mean + self.vector), covariance

    def widened(self, root: np.ndarray) -> "Message":
        """Add noise of covariance ``root root'``, shape (p, p), to the estimate that the message is."""
        told = self.information @ root
        lost = told @ np.linalg.inv(np.eye(root.shape[1]) + symmetric(root.T @ told))
        return Message(
            symmetric(self.information - lost @ told.T), self.vector - lost @ (root.T @ self.vector)
        )

    def of_some(self, some: np.ndarray, prior: Normal) -> tuple[np.ndarray, np.ndarray]:
        """Return posterior mean and precision of some linear combinations, the rows of a matrix (k, p)."""
        covariance = inverse(self.information + prior.precision)
        mean = some @ covariance @ (self.vector + prior.precision @ prior.mean)
        return mean, inverse(some @ covariance @ some.T)

    def with_some_of(self, other: "Message", some: np.ndarray, prior: Normal) -> "Mixture":
        """Return a likelihood with the posterior of some linear combinations (k, p) taken from another one.

        The conditional posterior of all else, given these, is that of this likelihood. The result may have
        negative information about the combinations: see `Mixture.matched`.
        """
        (mean, known), (before, own) = other.of_some(some, prior), self.of_some(some, prior)
        information = symmetric(self.information + some.T @ (known - own) @ some)
        vector = self.vector + some.T @ (known @ mean - own @ before)
        return Mixture(information[None], vector[None], np.ones(1))


class Mixture(NamedTuple):
    """A mixture of normal likelihoods.

    Attributes
    ----------
    informations : ndarray, shape (m, p, p)
    vectors : ndarray, shape (m, p)
        Of each component, as in a `Message`.
    weights : ndarray, shape (m,)
        Posterior weights of the components.
    """

    informations: np.ndarray
    vectors: np.ndarray
    weights: np.ndarray

    def moments(self, prior: Normal, covariances: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance of the posterior; those of its components, (m, p, p), may be given."""
        if covariances is None:
            covariances = inverse(self.informations + prior.precision)
        means = np.einsum("kij,kj->ki", covariances, self.vectors + prior.precision @ prior.mean)
        mean = self.weights @ means
        apart = means - mean
        between = (self.weights[:, None] * apart).T @ apart
        return mean, symmetric(np.tensordot(self.weights, covariances, 1) + between)

    def matched(self, prior: Normal, covariances: np.ndarray | None = None) -> Message:
        """Return the normal likelihood with the same posterior moments (see `moments` for the arguments).

        There is no information in a direction in which the posterior is wider than the prior. Where there is
        little, the likelihood's own mean is hardly determined: it is held near the posterior mean, so that
        the likelihood can be used with a wider prior as well.
        """
        mean, covariance = self.moments(prior, covariances)
        back = roots(prior.precision).T
        values, vectors = np.linalg.eigh(symmetric(back @ covariance @ back.T))
        values = np.maximum(values, _TINY)
        told, axes = np.maximum(1 / values - 1, 0.0), back.T @ vectors
        apart = vectors.T @ back @ (mean - prior.mean)
        # In each direction a message's score at the prior mean is no more than the information times the
        # distance to the posterior mean, plus this many standard deviations of a score.
        guessed = 3.0
        most = told * np.abs(apart) + guessed * np.sqrt(told)
        information = symmetric((axes * told) @ axes.T)
        vector = np.clip((1 + told) * apart, -most, most)
        return Message(information, axes @ vector + information @ prior.mean)

    def part(self, number: int) -> "Mixture":
        """Return about this number of the components, at equal steps."""
        kept = slice(None, None, max(len(self.weights) // number, 1))
        weights = self.weights[kept]
        weights = weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1 / len(weights))
        return Mixture(self.informations[kept], self.vectors[kept], weights)

    def evidence(self, prior: Normal) -> float:
        """Return the logarithm of its mean under a prior, up to terms that do not depend on the prior."""
        apart = self.vectors - self.informations @ prior.mean
        total = self.informations + prior.precision
        solved = np.linalg.solve(total, apart[:, :, None])[:, :, 0]
        each = 0.5 * np.einsum("ki,ki->k", apart, solved) - 0.5 * np.linalg.slogdet(total)[1]
        # The log-likelihood at the prior's mean, which is the same for all priors that are compared.
        each = each + np.einsum("ki,i->k", self.vectors, prior.mean)
        each = each - 0.5 * np.einsum("i,kij,j->k", prior.mean, self.informations, prior.mean)
        highest = float(each.max())
        whole = highest + math.log(float(self.weights @ np.exp(each - highest)))
        return whole + 0.5 * float(np.linalg.slogdet(prior.precision)[1])

    def widened(self, variances: np.ndarray) -> "Mixture":
        """Add noise of these covariances, shape (m, p, p), to the estimates that the components are."""
        root = np.linalg.cholesky(symmetric(variances))
        whole = symmetric(root.swapaxes(1, 2) @ self.informations @ root)
        values, vectors = np.linalg.eigh(whole)
        values = np.maximum(values, 0.0)[:, :, None]
        # ``L^-T Q``: ``(I + information V)^-1`` is ``L^-T Q (1 + values)^-1 Q' L'``.
        back = np.linalg.solve(root.swapaxes(1, 2), vectors)
        informations = back @ (values / (1 + values) * back.swapaxes(1, 2))
        turned = vectors.swapaxes(1, 2) @ root.swapaxes(1, 2) @ self.vectors[:, :, None]
        return Mixture(symmetric(informations), (back @ (turned / (1 + values)))[:, :, 0], self.weights)


class Relaxed:
    """Mean and covariance of a posterior that is computed from themselves, until they no longer change.

    With many groups, beliefs that went over to what is computed from them could alternate between two
    posteriors. So steps are multiplied by the factor of Aitken's relaxation, which finds where a linear
    function of one number settles in two steps (Irons & Tuck 1969, A version of the Aitken accelerator for
    computer iteration).

    Parameters
    ----------
    mean : ndarray, shape (p,)
    covariance : ndarray, shape (p, p)
        At first.
    """

    def __init__(self, mean: np.ndarray, covariance: np.ndarray):
        self.mean, self.covariance = mean, covariance
        self._part, self._last = 1.0, np.zeros(0)

    def step(self, mean: np.ndarray, covariance: np.ndarray) -> float:
        """Go towards what was computed from the beliefs, and return how far away that was.

        This is the root mean square of the differences of means and of standard deviations, over the
        computed ones of these.
        """
        deviations = np.sqrt(np.diag(covariance))
        apart = np.array([mean - self.mean, deviations - np.sqrt(np.diag(self.covariance))])
        apart = (apart / deviations).ravel()
        # Smallest factor of a step.
        shortest = 0.2
        if self._last.size:
            bend = self._last - apart
            part = self._part * float(self._last @ bend) / max(float(bend @ bend), _TINY)
            self._part = min(max(part, shortest), 1.0)
        self._last = apart
        self.mean = self.mean + self._part * (mean - self.mean)
        self.covariance = self.covariance + self._part * (covariance - self.covariance)
        return math.sqrt(float(np.mean(apart**2)))


def symmetric(matrices: np.ndarray) -> np.ndarray:
    """Return the symmetric parts of matrices, shape (..., p, p)."""
    return 0.5 * (matrices + np.swapaxes(matrices, -1, -2))


def is_positive(matrix: np.ndarray) -> bool:
    """Whether a symmetric matrix, shape (p, p), is positive definite."""
    return lapack.dpotrf(matrix, lower=1)[1] == 0


def roots(matrices: np.ndarray) -> np.ndarray:
    """Return R with ``R R'`` equal to positive definite matrices, shape (..., p, p).

    Where rounding leaves one singular, for which there is no Cholesky factor, eigenvalues are used.
    """
    scale = np.sqrt(np.maximum(np.diagonal(matrices, axis1=-2, axis2=-1), _TINY))
    scaled = symmetric(matrices / (scale[..., :, None] * scale[..., None, :]))
    try:
        return scale[..., :, None] * np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(scaled)
        return scale[..., :, None] * vectors * np.sqrt(np.maximum(values, _RIDGE))[..., None, :]


def inverse(matrices: np.ndarray) -> np.ndarray:
    """Return inverses of positive semi-definite matrices (..., p, p), bounded if these are near singular."""
    return inverse_and_volume(matrices)[0]


def inverse_and_volume(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what `inverse` does, and the logarithms of the matrices' determinants, shape (...)."""
    size = matrices.shape[-1]
    root = np.sqrt(np.maximum(np.diagonal(matrices, axis1=-2, axis2=-1), _TINY))
    if size < _LARGE:
        scale = root[..., :, None] * root[..., None, :]
        scaled = matrices / scale + _RIDGE * np.eye(size)
        found, volumes = symmetric(np.linalg.inv(scaled)) / scale, np.linalg.slogdet(scaled)[1]
    else:
        found, volumes = np.empty(matrices.shape), np.empty(matrices.shape[:-2])
        for k in np.ndindex(volumes.shape):
            found[k], volumes[k] = _inverse_of_one(matrices[k], 1 / root[k])
    return found, volumes + 2 * np.log(root).sum(-1)


def _inverse_of_one(matrix: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the inverse of a large matrix by its Cholesky factor, and that of the volume in these units."""
    scaled = matrix * scale[:, None] * scale
    scaled.flat[:: len(scale) + 1] += _RIDGE
    factor, failed = lapack.dpotrf(scaled, lower=1)
    if failed:  # by rounding
        return symmetric(np.linalg.inv(scaled)) * scale[:, None] * scale, np.linalg.slogdet(scaled)[1]
    volume = 2 * float(np.log(factor.diagonal()).sum())
    lower = np.tril(lapack.dpotri(factor, lower=1, overwrite_c=1)[0])
    lower.flat[:: len(scale) + 1] /= 2
    return (lower + lower.T) * scale[:, None] * scale, volume


def no_steeper(slopes: np.ndarray, last: np.ndarray, back: np.ndarray) -> np.ndarray:
    """Limit draws of an earlier slope: in no direction steeper than a draw of the last one.

    What is drawn of a slope that noise hides is always positive. In a direction in which records have nearly
    no information, every early round would thus claim the same information, wrongly. Later metrics resolve
    such directions better.

    Parameters
    ----------
    slopes : ndarray, shape (m, p, p)
    last, back : ndarray, shape (k, p, p)
        Roots of draws of the last slope, in the metric of `slopes`, and their inverses.
    """
    chosen = np.arange(len(slopes)) % len(last)
    root, back = last[chosen], back[chosen]
    values, vectors = np.linalg.eigh(symmetric(back @ slopes @ back.swapaxes(1, 2)))
    if values.max() <= 1:
        return slopes
    half = root @ vectors
    return (half * np.minimum(values, 1.0)[:, None, :]) @ half.swapaxes(1, 2)
