"""Row typing: which variables of a graph are public, hold one entry a record, or mix records."""

from pymc_dp.records.row_types import index_rules, rules, shape_rules  # noqa: F401  (they register)
from pymc_dp.records.row_types.types import LENGTH, PUBLIC, ByPlace, Mixed, Rows, RowType, Typing

__all__ = ["LENGTH", "PUBLIC", "ByPlace", "Mixed", "RowType", "Rows", "Typing"]
