"""Gradients of a chunk of records, as blocks: one compiled function, and where its outputs belong."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from pytensor.graph.basic import Variable

from pymc_dp.records import adjoints, gate, graph, kernels
from pymc_dp.records.adjoints import NotStructuredError, Part
from pymc_dp.records.clipped_sums import Block, Dense, Jacobian, Scaled, Sparse, identity, sparse
from pymc_dp.records.sums import Points, compiled, guarded

# Look-ups a record that are kept as positions; with more of them a full vector is not longer.
_LARGEST_SPARSE = 8


class _Place(NamedTuple):
    """Where the numbers of a part go."""

    kind: str
    # Columns of theta that the part's parameter is, or those that it is a function of.
    columns: np.ndarray
    is_columns: bool
    # No other part goes there.
    alone: bool
    # For a product: which of the data its matrix is; None when it is computed.
    table: int | None
    # Adjoints a record.
    numbers: int


class GradientRows:
    """Compiled gradients of some records.

    Parameters
    ----------
    records : Points
    rows : Variable, vector
        Log-likelihoods of some records as a function of the value variables, in the form that PyMC gave them.
    data : mapping of Variable to int
        What has these records, in the order of the model's arrays, and the axis of the records.

    Attributes
    ----------
    width : int
        About how many numbers a record there are.
    """

    def __init__(self, records: Points, rows: Variable, data: Mapping[Variable, int]):
        self._records, self._data = records, dict(data)
        columns = {v: records.columns[v.name] for v in records.value_vars}
        try:
            parts = adjoints.by_structure(rows, list(columns), data)
            numbers = self._tried(parts)
        except NotStructuredError:
            parts = adjoints.by_record(rows, list(columns), data)
            numbers = [place.stop - place.start for place in columns.values()]
        self._places = self._arranged(parts, columns, numbers)
        self._shared = _union(place.columns for place in self._places if not place.alone)
        self.width = 1 + self._shared.size + sum(_numbers(place) for place in self._places)
        self._function = self._compiled(self._outputs(parts), self._data, records.compile_kwargs)
        derivatives = [
            adjoints.jacobian(part.parameter, adjoints.touched(part.parameter, list(columns)))
            for part, place in zip(parts, self._places, strict=True)
            if not place.is_columns
        ]
        self._derivatives = self._compiled(derivatives, [], records.compile_kwargs) if derivatives else None

    def jacobians(self, theta: np.ndarray) -> list[Jacobian | None]:
        """How what met the records depends on the parameters at `theta`; reads no record."""
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
    ) -> list[Block]:
        """Gradients of m records.

        Parameters
        ----------
        theta : ndarray, shape (d,)
        jacobians : list
            At `theta`.
        data : list of ndarray
            Of these records, in the order of the model's arrays; contiguous.
        m : int
            Number of records.

        Returns
        -------
        list of Block
            No column of theta is in two of them; columns in none have derivative zero.
        """
        outputs = iter(guarded(self._function, theta, *data))
        shared = np.zeros((m, self._shared.size))
        blocks: list[Block] = [Dense(self._shared, shared)] if self._shared.size else []
        for place, jacobian in zip(self._places, jacobians, strict=True):
            adjoint = _matrix(next(outputs), m)
            if place.kind == "lookup":
                positions = _matrix(next(outputs), m, np.int64)
                if jacobian is None:
                    start, size = int(place.columns[0]), place.columns.size
                    blocks.append(Sparse(start, size, positions, adjoint))
                else:
                    kernels.add_looked_up(positions, adjoint, *jacobian, shared)
                continue
            if place.kind == "product":
                table = _matrix(next(outputs) if place.table is None else data[place.table], m)
                if jacobian is None and place.numbers == 1:
                    blocks.append(Scaled(int(place.columns[0]), table, adjoint[:, 0]))
                    continue
                adjoint = kernels.outer(table, adjoint)
            if jacobian is None:
                blocks.append(Dense(slice(place.columns[0], place.columns[-1] + 1), adjoint))
            else:
                kernels.add_values(adjoint, *jacobian, shared)
        return blocks

    def _compiled(
        self, outputs: Sequence[Variable], inputs: Iterable[Variable], compile_kwargs: Mapping[str, Any]
    ) -> Callable[..., Any]:
        given, on_vector = list(inputs), self._records._on_vector(outputs)
        return compiled([self._records._theta, *given], on_vector, compile_kwargs, private=given)

    def _outputs(self, parts: Sequence[Part]) -> list[Variable]:
        outputs = []
        for part in parts:
            outputs.append(part.adjoint)
            if part.other is not None and self._table(part) is None:
                outputs.append(part.other)
        return outputs

    def _table(self, part: Part) -> int | None:
        """Position among the data of a product's matrix."""
        inputs = list(self._data)
        if part.kind != "product" or part.other not in inputs or self._data[part.other] != 0:
            return None
        return inputs.index(part.other)

    def _tried(self, parts: Sequence[Part]) -> list[int]:
        """Check, on made-up records, that the first axis is theirs and that each row is about its own record.

        Returns
        -------
        list of int
            How many adjoints a record each part has.
        """
        variables = [v for part in parts for v in (part.adjoint, part.other) if v is not None]
        function = self._compiled(variables, self._data, {"mode": gate.CHECK_MODE})
        evaluate, shapes = (
            partial(guarded, function, self._records._start),
            graph.shapes_of_one(self._records._roots),
        )
        numbers = adjoints.numbers_a_record(evaluate, self._data, shapes)
        sizes = dict(zip(variables, numbers, strict=True))
        return [sizes[part.adjoint] for part in parts]

    def _arranged(
        self, parts: Sequence[Part], columns: Mapping[Variable, slice], numbers: Sequence[int]
    ) -> list[_Place]:
        """See which parts have columns of theta for themselves."""
        touched = [adjoints.touched(part.parameter, list(columns)) for part in parts]
        times = Counter(p for found in touched for p in found)
        places = []
        for part, found, number in zip(parts, touched, numbers, strict=True):
            is_columns = adjoints.same_numbers(part.parameter) in columns
            alone = is_columns and times[found[0]] == 1
            if part.kind == "lookup" and number > _LARGEST_SPARSE:
                alone = False
            where = _union(np.arange(columns[p].start, columns[p].stop) for p in found)
            places.append(_Place(part.kind, where, is_columns, alone, self._table(part), number))
        return places


def _numbers(place: _Place) -> int:
    """About how many numbers a record the block of a part, or what it is made from, has."""
    return min(2 * place.numbers, place.columns.size) if place.kind == "lookup" else place.columns.size


def _union(columns: Iterable[np.ndarray]) -> np.ndarray:
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *columns]))


def _matrix(values: np.ndarray, m: int, dtype: type = np.float64) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=dtype).reshape(m, -1)
