"""Pictures of a guarantee, in ArviZ's conventions."""

from pymc_dp.plots.privacy import plot_privacy_profile, plot_privacy_spend

__all__ = ["plot_privacy_profile", "plot_privacy_spend"]
