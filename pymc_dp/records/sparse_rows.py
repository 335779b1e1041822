"""Sparse matrices of records: their products, written by the non-zero entries of each record."""

from collections.abc import Collection, Sequence

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.sparse.math import Dot, StructuredDot
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.variable import TensorVariable

from pymc_dp.records.graph import leaf_value, rewritten


def without_sparse_products(
    graphs: Sequence[Variable], private: Collection[Variable]
) -> tuple[list[Variable], dict[Variable, Variable]]:
    """Multiply sparse matrices of records with dense ones by the non-zero entries of each record.

    Returns
    -------
    graphs : list of Variable
    original : dict of Variable to Variable
        From the arrays that are read in place of a matrix to it.
    """
    entries: dict[Variable, tuple[TensorVariable, TensorVariable]] = {}

    def change(node: Apply, inputs: list[Variable]) -> list[Variable] | None:
        if not isinstance(node.op, Dot | StructuredDot) or node.inputs[0] not in private:
            return None
        matrix, factor = inputs
        if matrix.type.format != "csr" or isinstance(factor.type, SparseTensorType):
            return None
        if matrix not in entries:
            entries[matrix] = _nonzero_entries(matrix)
        columns, values = entries[matrix]
        rows = values if factor.type.ndim == 1 else values[:, :, None]
        # No product with padding, whose length depends on all rows: 0 times infinity is NaN.
        entry = pt.switch(pt.eq(rows, 0), 0.0, rows * pt.as_tensor(factor)[columns])
        return [entry.sum(axis=1)]

    found = rewritten(graphs, change)
    return found, {array: matrix for matrix, arrays in entries.items() for array in arrays}


def _nonzero_entries(matrix: Variable) -> tuple[TensorVariable, TensorVariable]:
    """Columns and values of the non-zero entries of each row, both of shape (n, most that a row has)."""
    value = leaf_value(matrix)
    counts = np.diff(value.indptr)
    within = np.arange(value.nnz) - np.repeat(value.indptr[:-1], counts)
    shape = (value.shape[0], int(counts.max(initial=1)))
    columns, values = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    row = np.repeat(np.arange(shape[0]), counts)
    columns[row, within], values[row, within] = value.indices, value.data
    return pytensor.shared(columns, borrow=True), pytensor.shared(values, borrow=True)
