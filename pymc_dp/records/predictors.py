"""Through which few numbers each record's log-likelihood sees the likelihood coordinates, from the graph.

In most models the log-likelihood of record i is ``F_i(z_1, ..., z_k)`` with k *predictors* that are linear
in the coordinates: ``z_a = x_a' phi``, where the row ``x_a`` is the record's row of a matrix or a number of
its own, a one at its group, a one at a parameter that all records share, or a sum of such. Then its gradient
is ``sum_a F_a x_a``: k numbers instead of p.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple, cast

import numba
import numpy as np
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pytensor.compile.executor import Function
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pymc_dp.records import gate, graph
from pymc_dp.records.coordinates import Coordinates
from pymc_dp.records.derivatives import NotStructuredError, jacobian, numbers_a_record, replaced
from pymc_dp.records.meetings import Kind, Meeting, Met, Summand, added, meet
from pymc_dp.records.row_products import multiply
from pymc_dp.records.sums import guarded
from pymc_dp.records.verification import made_up

# What takes numbers of an input and changes none; or puts constants beside them.
_SELECTS = (Reshape, DimShuffle, SpecifyShape, Subtensor, AdvancedSubtensor, ViewOp, Join)


class Piece(NamedTuple):
    """A part of the rows ``x_a`` of some consecutive predictors.

    Attributes
    ----------
    kind : {"values", "product", "lookup"}
    first, numbers : int
        The predictors a.
    columns : ndarray of int
        Of phi. For "values" one for each predictor; for a "product" with a matrix of c columns, shape (c,
        numbers); for a "lookup" what its positions stand for, -1 for a constant.
    other : Variable or None
        The matrix, or the positions, as a function of the data of the records.
    sign : {1, -1}
        With which it is added to the predictors.
    """

    kind: Kind
    first: int
    numbers: int
    columns: np.ndarray
    other: Variable | None
    sign: int


# Large real numbers of made-up records, over their size.
_SPREAD = (-1.0, -0.4, 0.01, 0.3, 1.0)

#: A piece, and its matrix or positions for some records.
type WithData = tuple[Piece, np.ndarray | None]


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
        Derivatives by those inputs that are not added to earlier ones; first axis: records.
    met : Met
        Where parameters and records meet: a piece for each place.
    alike : list of tuple of int
        For each predictor the first one of which its derivatives are those of any record, up to a sign, and
        that sign: of ``cutpoint - mean`` each by itself.
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
        """Graphs of `inputs` as functions of variables and data, one entry a record on the first axis.

        With `values` in the place of ``self.values``.
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
    joint = [None if k in bent else own for k, own in enumerate(added(made.rows, made.inputs))]
    kept, made = _assembled(made, met.meetings, places, sizes[: len(first)], joint)
    derivatives = [
        np.hstack([found[k].reshape(len(found[k]), -1) for k in kept])
        for found in _tried(function, parts, met.records, roots)
    ]
    return made._replace(alike=_alike(np.vstack(derivatives)))


def _by_coordinates(
    adjoint: Variable, parameter: Variable, columns: Mapping[Variable, slice]
) -> tuple[Variable, np.ndarray]:
    """Derivatives by the coordinates of which a parameter is a function, and which these are."""
    read = set(ancestors([parameter]))
    used = [v for v in columns if v in read]
    if not used:
        raise NotStructuredError
    numbers = [np.arange(columns[v].start, columns[v].stop) for v in used]
    slope = jacobian(parameter, used)
    return pt.dot(adjoint.reshape((adjoint.shape[0], -1)), slope), np.concatenate(numbers)


def _tried(
    function: Function,
    parts: Mapping[Variable, np.ndarray],
    records: Mapping[Variable, int],
    roots: Mapping[Variable, int],
) -> Iterator[list[np.ndarray]]:
    """What it gives for made-up records at two points.

    Of each array in turn there are large numbers as well, of both signs where they are real ones: what a
    record does not reach, beyond some number, would not show.
    """
    rng, made, tried = np.random.default_rng(0), [], []
    for values, axis in zip(made_up(records, roots), records.values(), strict=True):
        some = [0, 1, 2, 1, 0] if values.dtype.kind in "iu" else np.moveaxis(values, axis, -1)
        made.append(_by_axis(values, axis, some))
    for k, axis in enumerate(records.values()):
        whole = made[k].dtype.kind in "iu"
        sizes, large = ((1, -1), [3, 7, 40, 120, 100]) if whole else ((1e1, 1e3, 1e5, 1e8), _SPREAD)
        others = (_by_axis(made[k], axis, size * np.array(large)) for size in sizes)
        tried += [[*made[:k], other, *made[k + 1 :]] for other in others]
    for moved, some in product((0.0, 0.1), [made, *tried]):
        point = (part + moved * rng.uniform(0.5, 1.5, np.shape(part)) for part in parts.values())
        yield guarded(function, *point, *some)


def _by_axis(like: np.ndarray, axis: int, values: ArrayLike) -> np.ndarray:
    """An array like this one, with these values along an axis."""
    found = np.empty_like(like)
    np.moveaxis(found, axis, -1)[...] = values
    return found


def _alike(derivatives: np.ndarray) -> list[tuple[int, int]]:
    """For each predictor the first of which its derivatives are those, up to a sign, and that sign.

    Parameters
    ----------
    derivatives : ndarray, shape (m, k)
        Of made-up records.
    """
    known = derivatives[np.isfinite(derivatives).all(axis=1)]
    # Fewer show nothing.
    enough, rounding = 4, 1e-9
    found: list[tuple[int, int]] = []
    for k, one in enumerate(known.T):
        near = rounding * np.abs(one).max(initial=0.0)
        same = [
            (j, sign)
            for j in range(k)
            for sign in (1, -1)
            if found[j] == (j, 1) and np.abs(one - sign * known[:, j]).max(initial=0.0) <= near
        ]
        found.append(same[0] if same and np.count_nonzero(one) >= enough else (k, 1))
    return found


def _assembled(
    made: Predictors,
    meetings: Sequence[Meeting],
    places: Sequence[np.ndarray],
    sizes: Sequence[int],
    joint: Sequence[Summand | None],
) -> tuple[list[int], Predictors]:
    """Give each meeting its predictors; those that are only ever added to each other are one."""
    groups: dict[int, int] = {}
    pieces, size = [], 0
    for k, (meeting, where) in enumerate(zip(meetings, places, strict=True)):
        own = joint[k]
        same = [j for j in groups if sizes[j] == sizes[k] and own is not None and _in_one_sum(joint[j], own)]
        start = groups[same[0]] if same else groups.setdefault(k, size)
        other = joint[same[0]] if same else None
        sign = 1 if own is None or other is None else own.sign * other.sign
        size += 0 if same else sizes[k]
        shape = (-1, sizes[k]) if meeting.kind == "product" else (-1,)
        pieces.append(Piece(meeting.kind, start, sizes[k], where.reshape(shape), meeting.other, sign))
    if size > 12:  # whole gradients are as good
        raise NotStructuredError
    return list(groups), made._replace(pieces=pieces, size=size, first=[made.first[k] for k in groups])


def _in_one_sum(one: Summand | None, other: Summand) -> bool:
    return one is not None and (one.total, one.axes) == (other.total, other.axes)


def _selected(
    parameter: Variable, columns: Mapping[Variable, slice], parts: Mapping[Variable, np.ndarray]
) -> np.ndarray:
    """Which entries of phi `parameter` consists of, in C order; -1 for a constant: a level of zero, say."""
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
    """Rows of k predictors of m records, each times a matrix A of shape (q, p): shape (k, m, q)."""
    out = np.zeros((k, m, len(metric)))
    with_nothing = np.vstack([metric.T, np.zeros(len(metric))])  # its last row is that of constants
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
    """Add the rows `positions` of a table to (m, p); NaN where there is no such row."""
    for i in range(out.shape[0]):
        k = positions[i]
        if 0 <= k < table.shape[0]:
            for j in range(out.shape[1]):
                out[i, j] += table[k, j]
        else:
            out[i] = np.nan
