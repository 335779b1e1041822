"""From a private table to columns that a model can use: constants, released once and applied row by row."""

from pymc_dp.prepare.kinds import Boolean, Category, Numeric
from pymc_dp.prepare.transformer import Prepare

__all__ = ["Boolean", "Category", "Numeric", "Prepare"]
