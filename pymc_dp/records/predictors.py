"""Through which few numbers each record's log-likelihood sees the likelihood coordinates, from the graph.

In most models the log-likelihood of record i is ``F_i(z_1, ..., z_k)`` with k *predictors* that are linear
in the coordinates: ``z_a = x_a' phi``, where the row ``x_a`` is the record's row of a matrix or a number of
its own, a one at its group, a one at a parameter that all records share, or a sum of such. Then its gradient
is ``sum_a F_a x_a``: k numbers instead of p.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pymc_dp.records import adjoints, gate, graph
from pymc_dp.records.adjoints import NotStructuredError
from pymc_dp.records.multiplied import added, multiplied
from pymc_dp.records.sums import guarded

# Predictors of a record; with more of them whole gradients are as good.
_MOST = 12
# What takes numbers of its first input and changes none.
_SELECTS = (Reshape, DimShuffle, SpecifyShape, Subtensor, AdvancedSubtensor, ViewOp)


class Piece(NamedTuple):
    """A part of the rows ``x_a`` of some consecutive predictors.

    Attributes
    ----------
    kind : {"values", "product", "lookup"}
    first, numbers : int
        The predictors a.
    columns : ndarray of int
        Of phi. For "values" one for each predictor; for a "product" with a matrix of c columns, shape (c,
        numbers); for a "lookup" what its positions stand for.
    other : Variable or None
        The matrix, or the positions, as a function of the data of the records.
    """

    kind: Literal["values", "product", "lookup"]
    first: int
    numbers: int
    columns: np.ndarray
    other: Variable | None


class Predictors(NamedTuple):
    """What was found.

    Attributes
    ----------
    pieces : list of Piece
    size : int
        k, number of predictors.
    inputs : list of Variable
        Predictors of some records, as inputs of the graphs below; first axis: records.
    values : list of Variable
        `inputs` as functions of the separate variables of the coordinates and of the data; first axis:
        records, or 1.
    rows : Variable, vector
        Log-likelihoods.
    first : list of Variable
        Derivatives by those inputs that are not added to earlier ones, of shape (m, numbers).
    records : dict of Variable to int
        Data of the records, any number of them, and the axis of the records.
    """

    pieces: list[Piece]
    size: int
    inputs: list[Variable]
    values: list[Variable]
    rows: Variable
    first: list[Variable]
    records: dict[Variable, int]

    def describe(self) -> str:
        """In words, without any number that is not public."""
        kinds = dict.fromkeys(_WORDS[piece.kind] for piece in self.pieces)
        number = "one linear predictor" if self.size == 1 else f"{self.size} linear predictors"
        return f"{number}, of {', '.join(kinds)}"

    def of_data(
        self, outputs: Sequence[Variable], values: Sequence[Variable] | None = None
    ) -> list[Variable]:
        """Graphs of `inputs` as functions of variables and data, one entry a record on the first axis.

        With `values` in the place of ``self.values``.
        """
        record, axis = next(iter(self.records.items()))
        given = adjoints.replaced(outputs, dict(zip(self.inputs, values or self.values, strict=True)))
        m = record.shape[axis]
        return [pt.broadcast_to(v, (m, *v.shape[1:])) if v.type.shape[0] == 1 else v for v in given]


_Kind = Literal["values", "product", "lookup"]
_PRODUCT: _Kind = "product"
_LOOKUP: _Kind = "lookup"
_WORDS = {"values": "shared parameters", "product": "a matrix product", "lookup": "a look-up"}


def find(
    terms: Sequence[Variable],
    coordinates: Any,
    roots: Mapping[Variable, int],
    n_rows: int,
    start: np.ndarray,
    outcomes: Collection[Variable] = (),
) -> Predictors | None:
    """Look for predictors.

    Parameters
    ----------
    terms : sequence of Variable
        Per-record terms as functions of the separate variables of the coordinates.
    coordinates : Coordinates
    roots : mapping of Variable to int
        Data leaves with one entry a record, and the axis of the records.
    n_rows : int
    start : ndarray, shape (p,)
        Any phi, to try graphs at.
    outcomes : collection of Variable, optional
        Roots that no row ``x_a`` may read: rows are then the same for a record and its twins.

    Returns
    -------
    Predictors or None
        None: records see the coordinates in another way, or through too many numbers.

    Notes
    -----
    **Privacy.** A function of the graph, of shapes and of a public point; it is tried on made-up records. No
    value of a record is read.
    """
    stand_ins, rows = graph.symbolic_rows(terms, roots, n_rows)
    records = {stand_ins[root]: axis for root, axis in roots.items()}
    shapes, parts = graph.shapes_of_one(roots), coordinates.parts(start)
    try:
        return _found(rows, coordinates.columns, records, parts, shapes, {stand_ins[v] for v in outcomes})
    except Exception:  # another structure, or an Op without derivatives; made-up records: not about values
        return None


class _Place(NamedTuple):
    """Where coordinates and records meet: an input that stands for the numbers there."""

    kind: Literal["values", "product", "lookup"]
    input: Variable
    value: Variable
    columns: np.ndarray
    other: Variable | None


def _found(
    rows: Variable,
    columns: Mapping[Variable, slice],
    records: Mapping[Variable, int],
    parts: Mapping[Variable, np.ndarray],
    shapes: Sequence[tuple[int, ...]],
    outcomes: set[Variable],
) -> Predictors:
    met = adjoints.meet(rows, list(columns), records)
    places, inputs = [], {}
    clients = FunctionGraph(outputs=[met.rows], clone=False).clients
    given = {*met.copies.values(), *met.outs}
    for leaf, copy in met.copies.items():
        where, own = _selected(leaf, columns, parts), pt.expand_dims(cast(Any, leaf), 0)
        scaled = multiplied(copy, clients, given)
        if scaled is None or outcomes.intersection(ancestors([scaled[1]])):
            places.append(_Place("values", copy, own, where, None))
        else:
            out, other = scaled
            inputs[out] = out.type()
            (value,) = adjoints.replaced([out], {copy: own})
            places.append(_Place("product", inputs[out], value, where, other))
    for node, out in zip(met.meetings, met.outs, strict=True):
        inputs[out] = out.type()
        left, *index = node.inputs
        if isinstance(node.op, Dot):
            (parameter,) = index
            if left in met.free:
                raise NotStructuredError
            kind = _PRODUCT
            other = met.memo.get(left, left)
        else:
            parameter = left
            kind = _LOOKUP
            other = node.op(pt.arange(parameter.size).reshape(parameter.shape), *index)
        places.append(_Place(kind, inputs[out], out, _selected(parameter, columns, parts), other))
    if not places:
        raise NotStructuredError
    (rows,) = adjoints.replaced([met.rows], inputs)
    found = [_matrix(a) for a in adjoints.gradients(rows.sum(), [p.input for p in places])]
    made = Predictors([], 0, [p.input for p in places], [p.value for p in places], rows, found, dict(records))
    tables = [k for k, place in enumerate(places) if place.other is not None]
    others = [cast(Variable, places[k].other) for k in tables]
    if outcomes.intersection(ancestors(others)):
        raise NotStructuredError
    sizes = _tried([*made.of_data(found), *others], records, parts, shapes)
    for k, numbers in zip(tables, sizes[len(places) :], strict=True):
        if places[k].kind == "product" and numbers * sizes[k] != places[k].columns.size:
            raise NotStructuredError
    return _assembled(made, places, sizes[: len(places)])


def _assembled(made: Predictors, places: Sequence[_Place], sizes: Sequence[int]) -> Predictors:
    """Give each place its predictors; those that are only ever added to each other are one."""
    joint = added(made.rows, made.inputs)
    groups: dict[int, int] = {}
    pieces, size = [], 0
    for k, place in enumerate(places):
        same = [j for j in groups if sizes[j] == sizes[k] and joint[j] is not None and joint[j] == joint[k]]
        start = groups[same[0]] if same else groups.setdefault(k, size)
        size += 0 if same else sizes[k]
        shape = (-1, sizes[k]) if place.kind == "product" else (-1,)
        pieces.append(Piece(place.kind, start, sizes[k], place.columns.reshape(shape), place.other))
    if size > _MOST:
        raise NotStructuredError
    first = [made.first[k] for k in groups]
    return made._replace(pieces=pieces, size=size, first=first)


def _matrix(values: Any) -> Any:
    """One row a record."""
    return values.reshape((values.shape[0], -1)) if values.type.ndim != 2 else values


def _selected(
    parameter: Variable, columns: Mapping[Variable, slice], parts: Mapping[Variable, np.ndarray]
) -> np.ndarray:
    """Which entries of phi `parameter` consists of, in C order."""
    variable = parameter
    while variable not in columns:
        node = variable.owner
        if node is None or not isinstance(node.op, _SELECTS):
            raise NotStructuredError
        variable = node.inputs[0]
    place = columns[variable]
    given = cast(Any, variable.type())
    (selected,) = adjoints.replaced([parameter], {variable: given})
    try:
        function = gate.compile_graph([given], selected, private=(), mode=gate.PLAIN_MODE)
        values = function(np.arange(place.start, place.stop, dtype=np.float64).reshape(parts[variable].shape))
    except Exception:  # a selection that depends on something else
        raise NotStructuredError from None
    return np.ravel(values).astype(np.int64)


def _tried(
    outputs: Sequence[Any],
    records: Mapping[Variable, int],
    parts: Mapping[Variable, np.ndarray],
    shapes: Sequence[tuple[int, ...]],
) -> list[int]:
    """Check, on made-up records, that each row is about its own record; numbers a record of each output."""
    function = gate.compile_graph([*parts, *records], outputs, private=records, mode=gate.PLAIN_MODE)
    return adjoints.numbers_a_record(partial(guarded, function, *parts.values()), records, shapes)
