"""What clips, noise and prior did to each parameter: functions of a surrogate, all of which is released."""

import numpy as np

from pymc_dp.control_variates.surrogate import Surrogate, inverse_of

# What gradients show of the information is known within so many standard deviations of its noise; asked for
# where it is at least this share of the posterior's; not known where that noise is this share of it.
_SURELY, _MATTERS, _HIDDEN = 2.5, 0.1, 0.5


class ByParameter:
    """What became of each parameter, at a surrogate's centre.

    Parameters
    ----------
    surrogate : Surrogate
    prior_curvature : ndarray, shape (d, d)
        Minus the Hessian of the log-prior there.
    jacobian : ndarray, shape (p, d)
        Of phi there.

    Notes
    -----
    **Privacy.** Functions of released numbers and the prior.
    """

    def __init__(self, surrogate: Surrogate, prior_curvature: np.ndarray, jacobian: np.ndarray):
        self._surrogate, self._prior, self._jacobian = surrogate, prior_curvature, jacobian
        self._covariance, self._units = surrogate.posterior(prior_curvature, jacobian)

    def cut(self) -> tuple[np.ndarray, np.ndarray]:
        """What clips cut, in posterior standard deviations of each parameter: put back, and left.

        Returns
        -------
        put_back, left : ndarray, shape (d,)
            By how much the posterior was moved back, and the standard deviation of what is still missing. The
            posterior is that of the exact likelihood, before it is widened.
        """
        s, d = self._surrogate, len(self._prior)
        if s.put_back is None or s.cut_left is None:
            return np.zeros(d), np.zeros(d)
        moved = s.tempering * self._covariance @ self._jacobian.T
        scale = np.sqrt(np.maximum(np.diag(self._covariance), 1e-300))
        left = np.sqrt(np.maximum(np.diag(moved @ s.cut_left @ moved.T), 0.0))
        return moved @ s.put_back / scale, left / scale

    def wider(self) -> np.ndarray:
        """Share by which each parameter's standard deviation may be too large, for clipped Hessians; (d,).

        A clipped sum leaves the curvature too small, by a matrix whose norm in the metric is bounded: in the
        worst case all of it along the direction that tells most of that parameter, which is as good as so
        much along every direction.
        """
        s = self._surrogate
        whole = inverse_of(self._covariance) + s.tempering * s.hessian_left * self._units.T @ self._units
        return np.sqrt(np.diag(self._covariance) / np.maximum(np.diag(inverse_of(whole)), 1e-300)) - 1

    def shown(self) -> np.ndarray:
        """Share of the information about each parameter that clipped gradients show, at most; shape (d,).

        Where the model holds, the outer products of gradients add up to minus the Hessian: what is missing
        lies in records that were cut, or the data vary less than the model has it. Asked along the direction
        in which the likelihood coordinates go with a parameter, and along the one of which most is missing,
        which counts for the parameter that it is nearest to. 1 where the prior says nearly all; NaN where the
        noise hides what would be too little.
        """
        s, d = self._surrogate, len(self._prior)
        if s.seen is None:
            return np.ones(d)
        information, seen = s.information(), s.tempering * s.seen
        along = self._units @ self._covariance
        along = along / np.maximum(np.linalg.norm(along, axis=0), 1e-300)
        missing = np.linalg.eigh(information - seen)[1][:, -1]
        # The noise of a quadratic form is that of an entry; of the direction that is chosen by it, more.
        share = [self._share(u, information, seen, _SURELY) for u in along.T]
        nearest = int(np.argmax(np.abs(missing @ along)))
        least = self._share(missing, information, seen, _SURELY + s.structure.noise_norm)
        share[nearest] = share[nearest] if np.isnan(least) else np.fmin(share[nearest], least)
        return np.array(share)

    def _share(self, u: np.ndarray, information: np.ndarray, seen: np.ndarray, surely: float) -> float:
        s = self._surrogate
        known = float(u @ information @ u) - _SURELY * s.tempering * s.hessian_noise
        if known <= _MATTERS:
            return 1.0
        room = surely * s.tempering * s.seen_noise / known
        return float(np.clip(u @ seen @ u / known + room, 0.0, 1.0)) if room < _HIDDEN else np.nan

    def towards_prior(self, prior_slope: np.ndarray) -> np.ndarray:
        """By how much widening moves each parameter, in its own standard deviations; shape (d,).

        The widened likelihood is weaker, and gives way to a prior that pulls: the posterior given a noisy
        gradient is not the exact one, less sharp, where prior and likelihood are far apart.
        """
        s = self._surrogate
        exact = self._covariance @ (s.tempering * self._jacobian.T @ s.gradient + prior_slope)
        slope, _ = s.public()
        widened = np.linalg.inv(s.precision(self._prior, self._jacobian))
        moved = widened @ (self._jacobian.T @ slope + prior_slope) - exact
        return moved / np.sqrt(np.maximum(np.diag(widened), 1e-300))
