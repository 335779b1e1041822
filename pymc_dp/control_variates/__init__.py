"""Private control variates: a quadratic surrogate, released once, of which a chain compares what is left."""

from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.surrogate import Surrogate

__all__ = ["ControlVariates", "Surrogate"]
