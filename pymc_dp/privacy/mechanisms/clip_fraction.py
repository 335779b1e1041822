"""The noisy share of clipped ratios, which a chain releases at its end."""

from dataclasses import dataclass

from dp_accounting import dp_event

from pymc_dp.privacy.mechanisms.randomness import ExactSum, Gaussian, PrivacyRandom


@dataclass(frozen=True)
class ClipFraction:
    """A chain's mean share of clipped ratios, with Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise, divided by the sensitivity 1 / n; 0 for no noise.

    Notes
    -----
    **Privacy.** Given the chain's trajectory, one record moves each iteration's share, and so their mean, by
    at most 1 / n: one Gaussian release. It is rounded to a grid of a sixteenth to a thirty-second of the
    noise, so that the last bits of a floating-point sum are not released.
    """

    noise_multiplier: float

    def event(self) -> dp_event.DpEvent:
        """Return the event of a chain's release."""
        return dp_event.GaussianDpEvent(self.noise_multiplier)

    def release(self, clipped: float, n: int, iterations: int, random: PrivacyRandom) -> float:
        """Release the noisy share. It may lie outside of [0, 1], and far outside if n is small.

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
