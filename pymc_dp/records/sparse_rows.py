"""Sparse matrices of records: products are rewritten as sums over the non-zero entries of each record."""

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
    """Rewrite products of sparse matrices of records with dense ones as sums over each row's entries.

    Returns
    -------
    graphs : list of Variable
    original : dict of Variable to Variable
        From the arrays that replace a matrix to that matrix.
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
        # Padding, whose length depends on all rows, must not be multiplied: 0 times infinity is NaN.
        entry = pt.switch(pt.eq(rows, 0), 0.0, rows * pt.as_tensor(factor)[columns])
        return [entry.sum(axis=1)]

    found = rewritten(graphs, change)
    return found, {array: matrix for matrix, arrays in entries.items() for array in arrays}


def _nonzero_entries(matrix: Variable) -> tuple[TensorVariable, TensorVariable]:
    """Return columns and values of each row's non-zero entries, padded to (n, most entries of a row)."""
    value = leaf_value(matrix)
    counts = np.diff(value.indptr)
    within = np.arange(value.nnz) - np.repeat(value.indptr[:-1], counts)
    shape = (value.shape[0], int(counts.max(initial=1)))
    columns, values = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    row = np.repeat(np.arange(shape[0]), counts)
    columns[row, within], values[row, within] = value.indices, value.data
    return pytensor.shared(columns, borrow=True), pytensor.shared(values, borrow=True)
