"""The exact sum of clipped per-record gradients, on all records or on a batch, in one pass over the data."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pytensor.compile import Function
from pytensor.graph import Variable, ancestors

from pymc_dp.records import gate, graph, kernels, other_records
from pymc_dp.records.clipped_sums import (
    LARGEST_N,
    Block,
    Clip,
    Dense,
    Jacobian,
    Scaled,
    Sparse,
    identity,
    sparse,
)
from pymc_dp.records.derivatives import NotStructuredError, by_record, jacobian, numbers_a_record
from pymc_dp.records.meetings import Kind, Met, in_order, meet
from pymc_dp.records.sums import Points, compiled, guarded, sums
from pymc_dp.records.units import chunks_of


class SumOfGradients(NamedTuple):
    """Results of one pass over the data. Both are private.

    Attributes
    ----------
    total : ndarray, shape (d,)
        Sum over privacy units of the clipped gradient; exact, each coordinate a multiple of `Clip.step`.
    clipped : float
        Number of units whose gradient was clipped or was not finite.
    """

    total: np.ndarray
    clipped: float


class Gradients:
    """Clipped sums of per-unit gradients, for any model that is read as records.

    Parameters
    ----------
    records : Points

    Notes
    -----
    **Privacy.** One unit adds a vector of Euclidean norm at most `clip_bound`: the sum moves by at most twice
    that when a unit is replaced, by `clip_bound` when one is added or removed, in floating point as in theory
    (`Clip`, docs/proofs/hmc). Sums of integers are exact: neither the order of the units nor where a chunk
    ends matters. A gradient that is not finite adds zero. The gradients of a unit's rows are added before
    they are clipped. What is compiled depends on the model and on shapes, not on values.
    """

    def __init__(self, records: Points):
        self._records, self.d, self._of_rows = records, records._start.size, _OfRows(records)
        self._width = self._of_rows.width + (0 if records.unit_of_row is None else 2 * self.d)

    def __call__(self, theta: np.ndarray, clip_bound: float) -> SumOfGradients:
        """Sum the clipped gradients of all privacy units.

        Parameters
        ----------
        theta : ndarray, shape (d,)
        clip_bound : float
            b: a gradient g adds ``g min(1, b / |g|)``, with the Euclidean norm, up to rounding (`Clip`).

        Returns
        -------
        SumOfGradients

        Raises
        ------
        ValueError
            b is not a positive, ordinary number; there are more than 2**29 units.
        PrivacyError
            The gradients could not be evaluated.
        """
        return self._sum(theta, clip_bound, *self._records._rows_of_unit)

    def batch(self, theta: np.ndarray, units: np.ndarray, clip_bound: float) -> SumOfGradients:
        """Sum the clipped gradients of some privacy units, at a cost that does not depend on n.

        Parameters
        ----------
        theta : ndarray, shape (d,)
        units : ndarray of int, shape (b,)
            Positions in 0..n-1; one that occurs k times is added k times.
        clip_bound : float

        Returns
        -------
        SumOfGradients

        Raises
        ------
        IndexError
            A position outside 0..n-1 (compiled code would not notice).
        ValueError, PrivacyError
            As for all units.
        """
        return self._sum(theta, clip_bound, *self._records.rows_of(units))

    def _sum(
        self, theta: np.ndarray, clip_bound: float, rows: np.ndarray | None, starts: np.ndarray | None
    ) -> SumOfGradients:
        """Sum over units; unit k has ``rows[starts[k]:starts[k + 1]]``, or row k. Default: all rows."""
        number = self._records.n_rows if rows is None else rows.size
        units = number if starts is None else starts.size - 1
        if units > LARGEST_N:
            raise ValueError(f"more than 2**29 privacy units ({units}): their sum would not be exact.")
        clip, total, clipped = Clip(clip_bound, self.d), np.zeros(self.d), 0
        jacobians = self._of_rows.jacobians(theta)
        # Most numbers of a chunk, so that they fit into a core's cache.
        numbers = 2**17
        # Most rows of a chunk.
        most_rows = 16384
        most = min(most_rows, numbers // self._width)
        for some, which, first in chunks_of(number, most, rows, starts):
            data = self._records.data_of(which)
            m = which.stop - which.start if isinstance(which, slice) else which.size
            blocks = list(self._of_rows(theta, jacobians, data, m))
            if first is not None:
                gradients = np.zeros((m, self.d))
                for block in blocks:
                    block.put(gradients)
                blocks = [Dense(slice(0, self.d), sums(gradients, first))]
            clipped += clip.add(blocks, some.stop - some.start, total)
        return SumOfGradients(total * clip.step, float(clipped))


class _Place(NamedTuple):
    """The columns of theta to which the derivatives of a meeting belong."""

    kind: Kind
    # Columns of theta that the meeting's parameter consists of, or of which it is a function.
    columns: np.ndarray
    # Whether the parameter consists of these columns.
    is_columns: bool
    # Whether no other meeting has derivatives in these columns.
    alone: bool
    # For a product: index of its matrix among the data; None if the matrix is computed.
    table: int | None
    # Number of adjoints a record.
    numbers: int


class _OfRows:
    """Compiled gradients of some rows, as blocks.

    Parameters
    ----------
    records : Points

    Attributes
    ----------
    width : int
        Approximate count of numbers that are kept for a row.
    """

    def __init__(self, records: Points):
        self._records = records
        stand_ins, rows = other_records.symbolic_rows(
            records._terms_of_values, records._roots, records.n_rows
        )
        self._data = {stand_ins[root]: axis for root, axis in records._roots.items()}
        columns = graph.columns_of(records.shapes_of_values)
        try:
            outputs = self._by_structure(meet(rows, list(columns), self._data), columns)
        except NotStructuredError:
            outputs = [by_record(rows, list(columns), self._data)]
            every = np.arange(records._start.size)
            self._places = [_Place("values", every, True, True, None, every.size)]
            self._derivatives: Function | None = None
        self._shared = _union(place.columns for place in self._places if not place.alone)
        self.width = 1 + self._shared.size + sum(_numbers(place) for place in self._places)
        self._function = self._compiled(outputs, self._data, records.compile_kwargs)

    def _by_structure(self, met: Met, columns: Mapping[Variable, slice]) -> list[Variable]:
        """Determine the columns of each meeting, and return the outputs to compile."""
        adjoints = met.of_data(met.adjoints())
        others = {k: m.other for k, m in enumerate(met.meetings) if m.other is not None}
        matrices = dict(zip(others, met.of_data(list(others.values())), strict=True))
        function = self._compiled([*adjoints, *matrices.values()], self._data, {"mode": gate.CHECK_MODE})
        sizes = numbers_a_record(function, [self._records._start], self._data, self._records._roots)
        tables = {k: met.table(v) for k, v in others.items()}
        read = [set(ancestors([m.parameter])) for m in met.meetings]
        touched = [[p for p in columns if p in found] for found in read]
        times = Counter(p for found in touched for p in found)
        outputs, derivatives, self._places = [], [], []
        for k, (meeting, found) in enumerate(zip(met.meetings, touched, strict=True)):
            is_columns = _same_numbers(meeting.parameter) in columns
            alone = is_columns and times[found[0]] == 1
            if meeting.kind == "lookup" and sizes[k] > 8:
                alone = False  # with this many positions, a dense vector is no larger
            if not is_columns:
                derivatives.append(jacobian(meeting.parameter, found))
            where = _union(np.arange(columns[p].start, columns[p].stop) for p in found)
            self._places.append(_Place(meeting.kind, where, is_columns, alone, tables.get(k), sizes[k]))
            outputs += [adjoints[k], *([matrices[k]] if k in others and tables[k] is None else [])]
        kwargs = self._records.compile_kwargs
        self._derivatives = self._compiled(derivatives, [], kwargs) if derivatives else None
        return outputs

    def _compiled(
        self, outputs: Sequence[Variable], inputs: Iterable[Variable], compile_kwargs: Mapping[str, object]
    ) -> Function:
        given, on_vector = list(inputs), self._records._on_vector(outputs)
        return compiled([self._records._theta, *given], on_vector, compile_kwargs, private=given)

    def jacobians(self, theta: np.ndarray) -> list[Jacobian | None]:
        """Compute the derivatives of the meetings' parameters by theta; reads no record."""
        dense = iter(() if self._derivatives is None else guarded(self._derivatives, theta))
        found: list[Jacobian | None] = []
        for place in self._places:
            columns = np.searchsorted(self._shared, place.columns)
            if place.alone:
                found.append(None)
            elif place.is_columns:
                found.append(identity(columns.size, columns))
            else:
                found.append(sparse(next(dense), columns))
        return found

    def __call__(
        self, theta: np.ndarray, jacobians: Sequence[Jacobian | None], data: Sequence[np.ndarray], m: int
    ) -> Iterator[Block]:
        """Compute gradients of m rows.

        Parameters
        ----------
        theta : ndarray, shape (d,)
        jacobians : list
            See `jacobians`, at `theta`.
        data : list of ndarray
            Data of these rows, in the order of the model's arrays; contiguous.
        m : int

        Yields
        ------
        Block
            No column of theta is in two blocks; columns in none have derivative zero.
        """
        outputs = iter(guarded(self._function, theta, *data))
        shared = np.zeros((m, self._shared.size))
        for place, derivatives in zip(self._places, jacobians, strict=True):
            adjoint = _matrix(next(outputs), m)
            if place.kind == "lookup":
                positions = _matrix(next(outputs), m, np.int64)
                if derivatives is None:
                    yield Sparse(int(place.columns[0]), place.columns.size, positions, adjoint)
                else:
                    kernels.add_looked_up(positions, adjoint, *derivatives, shared)
                continue
            if place.kind == "product":
                table = _matrix(next(outputs) if place.table is None else data[place.table], m)
                if derivatives is None and place.numbers == 1:
                    yield Scaled(int(place.columns[0]), table, adjoint[:, 0])
                    continue
                adjoint = kernels.outer(table, adjoint)
            if derivatives is None:
                yield Dense(slice(place.columns[0], place.columns[-1] + 1), adjoint)
            else:
                kernels.add_values(adjoint, *derivatives, shared)
        if self._shared.size:
            yield Dense(self._shared, shared)


def _same_numbers(parameter: Variable) -> Variable:
    """Return the variable of which `parameter` is a reshaped copy."""
    while parameter.owner is not None and in_order(parameter.owner):
        parameter = parameter.owner.inputs[0]
    return parameter


def _numbers(place: _Place) -> int:
    """Return the approximate count of numbers a row in a place's block, or in what it is made from."""
    return min(2 * place.numbers, place.columns.size) if place.kind == "lookup" else place.columns.size


def _union(columns: Iterable[np.ndarray]) -> np.ndarray:
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *columns]))


def _matrix(values: np.ndarray, m: int, dtype: type = np.float64) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=dtype).reshape(m, -1)
