"""What a chain says of clipping, at its end: the noisy share of clipped ratios."""

from dataclasses import dataclass

from dp_accounting import dp_event

from pymc_dp.privacy.mechanisms.randomness import ExactSum, Gaussian, PrivacyRandom


@dataclass(frozen=True)
class ClipFraction:
    """A chain's mean share of clipped ratios, with Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the sensitivity 1 / n; 0 for none.

    Notes
    -----
    **Privacy.** Given the chain's trajectory, one record moves each iteration's share, and so their mean, by
    at most 1 / n: one Gaussian release. Rounded to a grid of a sixteenth to a thirty-second of the noise, so
    that the last bits of a floating-point sum are not released.
    """

    noise_multiplier: float

    def event(self) -> dp_event.DpEvent:
        """What a chain releases."""
        return dp_event.GaussianDpEvent(self.noise_multiplier)

    def release(self, clipped: float, n: int, iterations: int, random: PrivacyRandom) -> float:
        """Noisy share; it may lie outside [0, 1], and far outside where n is small.

        Parameters
        ----------
        clipped : float
            Number of clipped ratios, summed over the chain's iterations.
        n : int
            Number of records (public).
        iterations : int
            Iterations of the chain, tuning included.
        random : PrivacyRandom
        """
        share = clipped / (n * iterations)
        if self.noise_multiplier == 0:
            return share
        return float(Gaussian(self.noise_multiplier / n).release(ExactSum(share), random))
