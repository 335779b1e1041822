"""Sparse matrices of records: products are rewritten with dense matrices, whose width is public."""

from collections.abc import Collection, Sequence

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.sparse.math import Dot, StructuredDot
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.variable import TensorVariable
from scipy.sparse import csr_matrix

from pymc_dp.records.graph import leaf_value, rewritten


def without_sparse_products(
    graphs: Sequence[Variable], private: Collection[Variable]
) -> tuple[list[Variable], dict[Variable, Variable]]:
    """Rewrite products of sparse matrices of records with dense ones as products of dense matrices.

    Returns
    -------
    graphs : list of Variable
    original : dict of Variable to Variable
        From the array that replaces a matrix to that matrix.

    Notes
    -----
    **Privacy.** How many entries of a row are not zero is a private number. An array that held these alone
    would be as wide as the fullest row: its shape, which is taken to be public, would be a function of that
    record, and so would be how sums over the other rows are rounded.
    """
    dense: dict[Variable, TensorVariable] = {}

    def change(node: Apply, inputs: list[Variable]) -> list[Variable] | None:
        if not isinstance(node.op, Dot | StructuredDot) or node.inputs[0] not in private:
            return None
        matrix, factor = inputs
        if matrix.type.format != "csr" or isinstance(factor.type, SparseTensorType):
            return None
        if matrix not in dense:
            dense[matrix] = pytensor.shared(_dense(leaf_value(matrix)), borrow=True)
        return [pt.dot(dense[matrix], factor)]

    found = rewritten(graphs, change)
    return found, {array: matrix for matrix, array in dense.items()}


def _dense(matrix: csr_matrix) -> np.ndarray:
    """Return a matrix as an array, in which a row with a column number out of range is NaN.

    SciPy's `toarray` trusts column numbers: one that is out of range is in another row, or other memory.
    """
    (n, width), stored = matrix.shape, min(len(matrix.data), len(matrix.indices))
    starts = np.clip(matrix.indptr[:-1].astype(np.int64), 0, stored)
    counts = np.clip(matrix.indptr[1:].astype(np.int64), starts, stored) - starts
    row = np.repeat(np.arange(n), counts)
    entry = np.arange(len(row)) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    column, found = matrix.indices[entry].astype(np.int64), np.zeros((n, width))
    fits = (column >= 0) & (column < width)
    with np.errstate(all="ignore"):
        np.add.at(found, (row[fits], column[fits]), matrix.data[entry][fits])
    found[row[~fits]] = np.nan
    return found
