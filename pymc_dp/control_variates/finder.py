"""From a public start to a private centre, and the surrogate there (docs/control_variates)."""

from typing import Any

import numpy as np

from pymc_dp.control_variates.releases import Histogram, Releases
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.surrogate import Surrogate, too_noisy
from pymc_dp.errors import PrivacyError, TooFewRecordsError
from pymc_dp.privacy.randomness import PrivacyRandom

# Share of the records that a tail direction looks at.
_TAIL = 0.05
# Step of the central differences of the log-prior's gradient, in prior standard deviations.
_DIFFERENCE = 1e-4
# Noise variance over the likelihood's information beyond which a surrogate is refused.
LARGEST_NOISE_RATIO = 4.0


class Finder:
    """Looks for the centre, and releases the surrogate there.

    Parameters
    ----------
    records : RecordModel
        Or its interface: `derivatives`, `full_batch.rows`, `log_prior`, `log_prior_gradient`, n, d.
    settings : ControlVariates
    mu_squared : float
        Budget of the whole call; inf for no noise.
    random : PrivacyRandom
    tempering : float
    epsilon : float
        For advice.
    """

    def __init__(
        self,
        records: Any,
        settings: ControlVariates,
        mu_squared: float,
        random: PrivacyRandom,
        tempering: float,
        epsilon: float,
    ):
        self.records, self.settings, self.tempering, self.epsilon = records, settings, tempering, epsilon
        self.releases = Releases(records, settings, mu_squared, random)

    def __call__(self, start: np.ndarray) -> Surrogate:
        """Make every release of the schedule.

        Raises
        ------
        TooFewRecordsError
            Noise dominates; what to change is in the message.
        """
        s = self.settings
        d = self.records.d
        point, metric = start.copy(), np.diag(self._prior_scale(start))
        for _ in range(s.early_rounds):
            point, metric = self._early_round(point, metric)
        centre = self._recentred(point, metric, np.zeros(d), 0)
        first = self._expand(point, metric, centre, s.polish_histogram, hessian_first=False)
        precision = self._precision(first["hessian"], first["hessian_noise"], point, metric)
        step = np.linalg.solve(precision, self._slope(first["gradient"], point))
        last_point, last_metric = point + step, _inverse_root(precision)
        centre = self._recentred(last_point, last_metric, centre, s.tails)
        last = self._expand(last_point, last_metric, centre, s.last_histogram, hessian_first=True)
        gradient, noise = _combined(first, last, last_point - point, metric, last_metric)
        if not self.releases.finished:
            raise PrivacyError("The surrogate made fewer releases than were paid for.")
        surrogate = Surrogate(
            point=last_point,
            metric=last_metric,
            centre=centre,
            gradient_bound=last["gradient_bound"],
            hessian_bound=last["hessian_bound"],
            gradient=gradient,
            gradient_noise=noise,
            hessian=last["hessian"],
            hessian_noise=last["hessian_noise"],
            tempering=self.tempering,
            noise_aware=s.noise_aware,
        )
        ratio = surrogate.noise_ratio(prior_curvature(self.records, last_point))
        if not ratio <= LARGEST_NOISE_RATIO:
            raise TooFewRecordsError(too_noisy(ratio, self.records.n, self.epsilon))
        return surrogate

    def _early_round(self, point: np.ndarray, metric: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Noisy Newton step with a line search, coarse clips."""
        s, d = self.settings, self.records.d
        bound, hessian_bound = self._bounds(point, metric, np.zeros(d), 1)
        gradient, _ = self.releases.gradient(point, metric, np.zeros(d), bound)
        hessian, noise = self.releases.hessian(point, metric, hessian_bound)
        inverse = np.linalg.inv(metric)
        gradient = inverse @ (bound * gradient)
        precision = self._precision(
            inverse @ (hessian_bound * hessian) @ inverse.T, hessian_bound * noise, point, metric
        )
        step = np.linalg.solve(precision, self._slope(gradient, point))
        candidates = [point + length * step for length in s.line_steps]
        ratios, noise = self.releases.line(point, candidates, self.tempering)
        prior = self.records.log_prior
        with np.errstate(invalid="ignore"):
            scores = np.nan_to_num(ratios + [prior(c) - prior(point) for c in candidates], nan=-np.inf)
        # The longest step that is not clearly worse than the best.
        chosen = int(np.flatnonzero(scores >= scores.max() - 3 * noise)[0])
        return candidates[chosen], _inverse_root(precision)

    def _bounds(
        self, point: np.ndarray, metric: np.ndarray, centre: np.ndarray, cells: int
    ) -> tuple[float, float]:
        """Clip bounds that hold for nearly all records."""
        first, second = self.releases.norms(point, metric, centre, cells, hessians_too=True)
        return self._bound(first), self._bound(second)

    def _top(self, histogram: Histogram) -> int:
        top = histogram.top(self.settings.significance)
        if top is None:
            raise TooFewRecordsError(
                "Too few records for this budget: no cell of a histogram of all records stands out of its "
                "noise. Take a larger epsilon, or more records."
            )
        return top

    def _bound(self, histogram: Histogram) -> float:
        return histogram.edge(self._top(histogram) + 1)

    def _recentred(self, point: np.ndarray, metric: np.ndarray, centre: np.ndarray, done: int) -> np.ndarray:
        """Move the centre of the clip towards the records furthest from it: Badoiu and Clarkson's steps."""
        whitened = metric @ centre
        for t in range(self.settings.tails):
            (histogram,) = self.releases.norms(
                point, metric, np.linalg.solve(metric, whitened), 4, hessians_too=False
            )
            top = self._top(histogram)
            number = _TAIL * self.records.n
            cell = histogram.upper(top, number)
            beyond = histogram.edge(cell)
            direction = self.releases.direction(point, metric, np.linalg.solve(metric, whitened), beyond)
            found = max(float(histogram.counts[cell : top + 1].sum()), number)
            direction = direction / max(found, float(np.linalg.norm(direction)))
            whitened = whitened + beyond * direction / (t + 2 + done)
        return np.linalg.solve(metric, whitened)

    def _expand(
        self, point: np.ndarray, metric: np.ndarray, centre: np.ndarray, share: float, hessian_first: bool
    ) -> dict[str, Any]:
        """Gradient and Hessian at a point, with their noise, in the units of the parameters."""
        first, second = self.releases.norms(
            point, metric, centre, 8 if hessian_first else 4, hessians_too=True
        )
        bound, hessian_bound = self._bound(first), self._bound(second)
        found: dict[str, Any] = {"gradient_bound": bound, "hessian_bound": hessian_bound}
        inverse = np.linalg.inv(metric)
        for kind in ("hessian", "gradient") if hessian_first else ("gradient", "hessian"):
            if kind == "gradient":
                value, std = self.releases.gradient(point, metric, centre, bound)
                found["gradient"] = inverse @ (bound * value) + self.records.n * centre
                found["gradient_std"] = bound * std
            else:
                value, std = self.releases.hessian(point, metric, hessian_bound)
                found["hessian"] = inverse @ (hessian_bound * value) @ inverse.T
                found["hessian_noise"] = hessian_bound * std
        return found

    # public functions of the prior

    def _slope(self, gradient: np.ndarray, point: np.ndarray) -> np.ndarray:
        return self.tempering * gradient + self.records.log_prior_gradient(point)

    def _prior_scale(self, point: np.ndarray) -> np.ndarray:
        """Prior standard deviations at the start, 1 where the prior has no curvature."""
        curvature = np.diag(prior_curvature(self.records, point))
        return 1 / np.sqrt(np.where(curvature > 1e-8, curvature, 1.0))

    def _precision(
        self, hessian: np.ndarray, noise: float, point: np.ndarray, metric: np.ndarray
    ) -> np.ndarray:
        """Posterior precision: the likelihood's, eigenvalues not below their noise, plus the prior's."""
        values, vectors = np.linalg.eigh(-self.tempering * (metric @ hessian @ metric.T))
        floor = self.tempering * noise * np.sqrt(2.0 * len(point))
        inverse = np.linalg.inv(metric)
        likelihood = inverse @ ((vectors * np.maximum(np.abs(values), floor)) @ vectors.T) @ inverse.T
        values, vectors = np.linalg.eigh(prior_curvature(self.records, point))
        total = likelihood + (vectors * np.maximum(values, 0.0)) @ vectors.T
        return 0.5 * (total + total.T)


def prior_curvature(records: Any, point: np.ndarray) -> np.ndarray:
    """Minus the Hessian of the log-prior, by central differences of its gradient; zero where undefined."""
    gradient = records.log_prior_gradient
    columns = []
    for j in range(len(point)):
        h = _DIFFERENCE * max(1.0, abs(point[j]))
        e = np.zeros(len(point))
        e[j] = h
        columns.append((gradient(point - e) - gradient(point + e)) / (2 * h))
    matrix = np.nan_to_num(np.array(columns), posinf=0.0, neginf=0.0)
    return 0.5 * (matrix + matrix.T)


def _combined(
    first: dict[str, Any],
    last: dict[str, Any],
    delta: np.ndarray,
    metric: np.ndarray,
    last_metric: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient at the last point from both, by generalised least squares, and the covariance of its noise."""
    inverse, last_inverse = np.linalg.inv(metric), np.linalg.inv(last_metric)
    noise = last["gradient_std"] ** 2 * last_inverse @ last_inverse.T
    if not np.any(noise):
        return last["gradient"], noise
    moved = first["gradient"] + 0.5 * (first["hessian"] + last["hessian"]) @ delta
    other = first["gradient_std"] ** 2 * inverse @ inverse.T
    for found, root in ((first, inverse), (last, last_inverse)):
        # Noise of half the Hessian times delta, of symmetric noise isotropic in the metric.
        z = root.T @ delta
        spread = (z @ z) * np.eye(len(z)) + np.outer(z, z)
        other = other + 0.125 * found["hessian_noise"] ** 2 * root @ spread @ root.T
    gain = noise @ np.linalg.inv(other + noise)
    gradient = last["gradient"] + gain @ (moved - last["gradient"])
    combined = noise - gain @ noise
    return gradient, 0.5 * (combined + combined.T)


def _inverse_root(precision: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(precision)
    return (vectors / np.sqrt(values)) @ vectors.T
