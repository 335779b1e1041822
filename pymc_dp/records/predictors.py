"""Predictors: the few linear functions of phi on which a record's log-likelihood depends, from the graph.

In most models the log-likelihood of record i is ``F_i(z_1, ..., z_k)`` with k *predictors* that are linear
in the coordinates: ``z_a = x_a' phi``, where the row ``x_a`` is the record's row of a matrix or a number of
its own, a one at its group, a one at a parameter that all records share, or a sum of such. Then its gradient
is ``sum_a F_a x_a``: k numbers instead of p.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import NamedTuple, cast

import numba
import numpy as np
import pytensor.tensor as pt
from pytensor.compile import ViewOp
from pytensor.graph import Variable, ancestors
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pymc_dp.records import gate, other_records
from pymc_dp.records.coordinates import Coordinates
from pymc_dp.records.derivatives import NotStructuredError, jacobian, numbers_a_record, replaced
from pymc_dp.records.meetings import Kind, Meeting, Met, Summand, added, meet
from pymc_dp.records.row_products import multiply
from pymc_dp.records.sums import guarded

# Ops that select, reorder or copy numbers of an input without changing any, or put constants beside them.
_SELECTS = (Reshape, DimShuffle, SpecifyShape, Subtensor, AdvancedSubtensor, ViewOp, Join)


class Piece(NamedTuple):
    """A part of the rows ``x_a`` of some consecutive predictors.

    Attributes
    ----------
    kind : {"values", "product", "lookup"}
    first, numbers : int
        The first predictor a, and how many there are.
    columns : ndarray of int
        Coordinates of phi. For "values", one for each predictor; for a "product" with a matrix of c columns,
        shape (c, numbers); for a "lookup", the coordinate at each position of the table, -1 for a constant.
    other : Variable or None
        The matrix, or the positions, as a function of the data of the records.
    sign : {1, -1}
        The sign with which the piece is added to the predictors.
    """

    kind: Kind
    first: int
    numbers: int
    columns: np.ndarray
    other: Variable | None
    sign: int


#: A piece, and its matrix or positions for some records.
type WithData = tuple[Piece, np.ndarray | None]


class Predictors(NamedTuple):
    """Predictors of a log-likelihood, and its graphs as functions of them.

    Attributes
    ----------
    pieces : list of Piece
    size : int
        k, number of predictors.
    inputs : list of Variable
        Summands of the predictors of some records, as inputs of the graphs below; first axis: records.
    values : list of Variable
        `inputs` as functions of the separate variables of the coordinates and of the data; first axis:
        records, or 1.
    rows : Variable, vector
        Log-likelihoods.
    first : list of Variable
        Derivatives by those inputs that are not summands of an earlier predictor; first axis: records.
    met : Met
        Where parameters and records meet: a piece for each meeting.
    alike : list of tuple of int
        For each predictor: the first predictor that has the same derivatives for all records, up to a sign,
        and that sign. In ``cutpoints - mean``, if the graph has this difference only, a coordinate that is
        added to all cutpoints has the derivatives of the mean with the opposite sign.
    """

    pieces: list[Piece]
    size: int
    inputs: list[Variable]
    values: list[Variable]
    rows: Variable
    first: list[Variable]
    met: Met
    alike: list[tuple[int, int]]

    def of_data(
        self, outputs: Sequence[Variable], values: Sequence[Variable] | None = None
    ) -> list[Variable]:
        """Rewrite graphs of `inputs` as graphs of variables and data, one entry a record on the first axis.

        With `values`, these are put in the place of `inputs` instead of ``self.values``.
        """
        return self.met.of_data(outputs, dict(zip(self.inputs, values or self.values, strict=True)))


def find(
    terms: Sequence[Variable],
    coordinates: Coordinates,
    roots: Mapping[Variable, int],
    n_rows: int,
    start: np.ndarray,
    outcomes: Collection[Variable] = (),
) -> Predictors | None:
    """Find predictors in a graph.

    Parameters
    ----------
    terms : sequence of Variable
        Per-record terms as functions of the separate variables of the coordinates.
    coordinates : Coordinates
    roots : mapping of Variable to int
        Data leaves with one entry a record, and the axis of the records.
    n_rows : int
    start : ndarray, shape (p,)
        Any phi, at which graphs are tried.
    outcomes : collection of Variable, optional
        Roots that no row ``x_a`` may read: rows are then the same for a record and its twins.

    Returns
    -------
    Predictors or None
        None: log-likelihoods depend on the coordinates in another way, or through too many numbers.

    Notes
    -----
    **Privacy.** A function of the graph, of shapes and of a public point; it is tried on made-up records. No
    value of a record is read.
    """
    stand_ins, rows = other_records.symbolic_rows(terms, roots, n_rows)
    records = {stand_ins[root]: axis for root, axis in roots.items()}
    try:
        met = meet(rows, list(coordinates.columns), records, [stand_ins[root] for root in outcomes])
        return _found(met, coordinates.columns, coordinates.parts(start), roots)
    except Exception:  # another structure, or an Op without derivatives; made-up records: not about values
        return None


def _found(
    met: Met,
    columns: Mapping[Variable, slice],
    parts: Mapping[Variable, np.ndarray],
    roots: Mapping[Variable, int],
) -> Predictors:
    if not met.meetings:
        raise NotStructuredError
    inputs = {meeting.out: meeting.out.type() for meeting in met.meetings}
    rows, *first = replaced([met.rows, *met.adjoints()], inputs)
    values = replaced(list(inputs), met.originals)
    places, bent = [], set()
    for k, meeting in enumerate(met.meetings):
        try:
            places.append(_selected(meeting.parameter, columns, parts))
        except NotStructuredError:
            if meeting.kind != "values":
                raise
            first[k], where = _by_coordinates(first[k], meeting.parameter, columns)
            places.append(where)
            bent.add(k)
    made = Predictors([], 0, list(inputs.values()), values, rows, first, met, [])
    others = {meeting.out: meeting.other for meeting in met.meetings if meeting.other is not None}
    outputs = [*made.of_data(first), *others.values()]
    function = gate.compile_graph([*parts, *met.records], outputs, private=met.records, mode=gate.PLAIN_MODE)
    sizes = numbers_a_record(function, list(parts.values()), met.records, roots)
    of_others = dict(zip(others, sizes[len(first) :], strict=True))
    for meeting, where, size in zip(met.meetings, places, sizes, strict=False):
        if meeting.kind == "product":
            read = set(ancestors([cast(Variable, meeting.other)]))
            if of_others[meeting.out] * size != where.size or not read.isdisjoint([*columns, *inputs]):
                raise NotStructuredError
        if meeting.kind != "lookup" and np.any(where < 0):
            raise NotStructuredError
    joint = added(made.rows, made.inputs)
    starts, made = _assembled(
        made,
        met.meetings,
        places,
        sizes[: len(first)],
        [None if k in bent else own for k, own in enumerate(joint)],
    )
    moved = {k: _moves_all(met.meetings[k].parameter, columns, parts, places[k]) for k in bent}
    alike = [(k, 1) for k in range(made.size)]
    for k, j in product(bent, [j for j in range(len(joint)) if j not in bent and sizes[j] == 1]):
        own, other, shift = joint[k], joint[j], moved[k]
        if shift is not None and own is not None and other is not None and own.total == other.total:
            first_of, second = sorted((starts[j], starts[k] + shift))
            # Derivatives are taken by a predictor's first piece; the piece here may have another sign.
            alike[second] = (first_of, own.sign * other.sign * made.pieces[j].sign)
    return made._replace(alike=alike)


@np.errstate(all="ignore")
def _moves_all(
    parameter: Variable,
    columns: Mapping[Variable, slice],
    parts: Mapping[Variable, np.ndarray],
    places: np.ndarray,
) -> int | None:
    """Return the index of a coordinate that is added to all numbers of a parameter, as to all cutpoints.

    None if there is no such coordinate. Points of many sizes are tried, on both sides of zero: finite
    differences reveal steps; derivatives reveal nonlinearity, also where numbers are large.
    """
    outputs = [parameter, jacobian(parameter, [v for v in columns if v in set(ancestors([parameter]))])]
    function = gate.compile_graph(list(parts), outputs, private=(), mode=gate.PLAIN_MODE)
    rng, found = np.random.default_rng(0), set(range(len(places)))
    for size in np.geomspace(0.01, 1e6, 33):
        point = {v: size * rng.normal(size=np.shape(part)) for v, part in parts.items()}
        before, slope = guarded(function, *point.values())
        found = {k for k in found if np.all(np.abs(slope[:, k] - 1.0) <= 1e-9)}
        for k in list(found):
            flat = {v: np.array(values) for v, values in point.items()}
            for v, place in columns.items():
                if place.start <= places[k] < place.stop:
                    flat[v].reshape(-1)[places[k] - place.start] += size
            moved = guarded(function, *flat.values())[0] - before
            # Where numbers are too large for a difference, the derivatives alone decide.
            if np.any(np.abs(moved - size) > 1e-9 * (size + np.abs(before))):
                found.discard(k)
    return min(found, default=None)


def _by_coordinates(
    adjoint: Variable, parameter: Variable, columns: Mapping[Variable, slice]
) -> tuple[Variable, np.ndarray]:
    """Return derivatives by the coordinates of which a parameter is a function, and these coordinates."""
    read = set(ancestors([parameter]))
    used = [v for v in columns if v in read]
    if not used:
        raise NotStructuredError
    numbers = [np.arange(columns[v].start, columns[v].stop) for v in used]
    slope = jacobian(parameter, used)
    return pt.dot(adjoint.reshape((adjoint.shape[0], -1)), slope), np.concatenate(numbers)


def _assembled(
    made: Predictors,
    meetings: Sequence[Meeting],
    places: Sequence[np.ndarray],
    sizes: Sequence[int],
    joint: Sequence[Summand | None],
) -> tuple[list[int], Predictors]:
    """Assign predictors to each meeting, and return the first one of each.

    Meetings whose numbers are only ever added to each other share their predictors.
    """
    groups: dict[int, int] = {}
    pieces, starts, size = [], [], 0
    for k, (meeting, where) in enumerate(zip(meetings, places, strict=True)):
        own = joint[k]
        same = [j for j in groups if sizes[j] == sizes[k] and own is not None and _in_one_sum(joint[j], own)]
        start = groups[same[0]] if same else groups.setdefault(k, size)
        other = joint[same[0]] if same else None
        sign = 1 if own is None or other is None else own.sign * other.sign
        size += 0 if same else sizes[k]
        shape = (-1, sizes[k]) if meeting.kind == "product" else (-1,)
        pieces.append(Piece(meeting.kind, start, sizes[k], where.reshape(shape), meeting.other, sign))
        starts.append(start)
    if size > 12:  # no advantage over whole gradients
        raise NotStructuredError
    return starts, made._replace(pieces=pieces, size=size, first=[made.first[k] for k in groups])


def _in_one_sum(one: Summand | None, other: Summand) -> bool:
    return one is not None and (one.total, one.axes) == (other.total, other.axes)


def _selected(
    parameter: Variable, columns: Mapping[Variable, slice], parts: Mapping[Variable, np.ndarray]
) -> np.ndarray:
    """Return the entries of phi that `parameter` consists of, in C order; -1 for a constant, such as zero."""
    variable = parameter
    while variable not in columns:
        node = variable.owner
        if node is None or not isinstance(node.op, _SELECTS):
            raise NotStructuredError
        reads = [v for v in node.inputs if not columns.keys().isdisjoint(ancestors([v]))]
        if len(reads) != 1:
            raise NotStructuredError
        (variable,) = reads
    place = columns[variable]
    given = variable.type()
    (selected,) = replaced([parameter], {variable: given})
    shape, entries = parts[variable].shape, np.arange(place.start, place.stop, dtype=np.float64)
    try:
        function = gate.compile_graph([given], selected, private=(), mode=gate.PLAIN_MODE)
        values = np.ravel(function(entries.reshape(shape)))
        same = np.ravel(function((entries + place.stop).reshape(shape))) == values
    except Exception:  # a selection that depends on something else
        raise NotStructuredError from None
    if not np.all(np.isfinite(values)):
        raise NotStructuredError
    return np.where(same, -1, values).astype(np.int64)


def rows_in(metric: np.ndarray, pieces: Sequence[WithData], m: int, k: int) -> np.ndarray:
    """Multiply rows of k predictors of m records by a matrix A of shape (q, p): shape (k, m, q)."""
    out = np.zeros((k, m, len(metric)))
    with_nothing = np.vstack([metric.T, np.zeros(len(metric))])  # the last row, index -1, is for constants
    with np.errstate(all="ignore"):
        for piece, other in pieces:
            for j in range(piece.numbers):
                target = out[piece.first + j]
                if other is None:
                    target += piece.sign * metric[:, piece.columns[j]]
                elif piece.kind == "lookup":
                    table = piece.sign * with_nothing[piece.columns]
                    _add_looked_up(target, table, np.ascontiguousarray(other[:, j]))
                else:
                    target += multiply(other, piece.sign * metric[:, piece.columns[:, j]].T)
    return out


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _add_looked_up(out, table, positions):
    """Add the rows `positions` of a table to `out`, shape (m, p); NaN where there is no such row."""
    for i in range(out.shape[0]):
        k = positions[i]
        if 0 <= k < table.shape[0]:
            for j in range(out.shape[1]):
                out[i, j] += table[k, j]
        else:
            out[i] = np.nan
