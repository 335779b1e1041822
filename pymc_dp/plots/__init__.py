"""Pictures of a guarantee and of a check, in ArviZ's conventions."""

from pymc_dp.plots.accuracy import plot_accuracy
from pymc_dp.plots.check import plot_check
from pymc_dp.plots.privacy import plot_privacy_profile, plot_privacy_spend

__all__ = ["plot_accuracy", "plot_check", "plot_privacy_profile", "plot_privacy_spend"]
