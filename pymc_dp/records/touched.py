"""Which likelihood coordinates no record sees together, from the graph and from shapes."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pytensor.compile.executor import Function
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_dp.records import gate, graph, memory
from pymc_dp.records.predictors import Piece
from pymc_dp.records.reading import Reading
from pymc_dp.records.sums import guarded


class Lookup(NamedTuple):
    """Coordinates that records look up.

    Attributes
    ----------
    root : Variable or None
        The array of codes by which they do; None where it is more than one array, or computed.
    columns : ndarray of int, shape (G, q)
        Of phi: those that a record of each code sees, -1 for none. Where it is not known which go together,
        G rows of one if a record sees one, else one row of all.
    """

    root: Variable | None
    columns: np.ndarray

    def is_known(self, piece: Piece) -> bool:
        """Whether each number sees one coordinate of its column, whatever the code, and all are in there."""
        alone = piece.numbers == 1 and self.columns.shape[1] == 1
        each = set(np.ravel(piece.columns).tolist()) == set(np.ravel(self.columns).tolist())
        return bool((alone or self.root is not None) and each and np.all(piece.columns >= 0))


#: What a record sees of phi together: the sum of one coordinate of each of these arrays, with these signs.
type Sum = list[tuple[int, np.ndarray]]


def sums_of(
    pieces: Sequence[Piece], lookups: Mapping[int, Lookup], alike: Sequence[tuple[int, int]]
) -> list[Sum]:
    """What the predictors of one log-density see of phi.

    Parameters
    ----------
    pieces : sequence of Piece
    lookups : mapping of int to Lookup
        By the place of the piece that each is of.
    alike : sequence of tuple of int
        See `Predictors.alike`: what such predictors see is one sum.
    """
    found: dict[int, Sum] = {}
    alone: list[Sum] = []
    for k, piece in enumerate(pieces):
        columns = np.ravel(piece.columns)
        columns = columns[columns >= 0]
        if piece.kind == "values":
            for j in range(len(columns)):
                first, sign = alike[piece.first + j]
                found.setdefault(first, []).append((sign * piece.sign, columns[j : j + 1]))
        elif k in lookups and lookups[k].is_known(piece):
            for j, places in enumerate(lookups[k].columns.T):
                first, sign = alike[piece.first + j]
                found.setdefault(first, []).append((sign * piece.sign, np.unique(places)))
        else:  # each may be seen by itself
            alone += [[(1, columns[j : j + 1])] for j in range(len(columns))]
    return [*found.values(), *alone]


def lookups_of(
    pieces: Sequence[Piece], parts: Mapping[Variable, np.ndarray], roots: Mapping[Variable, Variable]
) -> dict[int, Lookup]:
    """What the look-ups of one log-density see, by the places of their pieces.

    Parameters
    ----------
    pieces : sequence of Piece
    parts : mapping of Variable to ndarray
        The variables of phi that pieces know the shapes of, and numbers of these shapes.
    roots : mapping of Variable to Variable
        From the data of the pieces' graphs to the arrays of the model.

    Notes
    -----
    **Privacy.** Positions are computed of all codes there can be, not of those there are.
    """
    found = {}
    for k, piece in enumerate(pieces):
        if piece.kind != "lookup" or piece.other is None:
            continue
        columns = np.ravel(piece.columns)
        read = [data for data in roots if data in set(ancestors([piece.other]))]
        codes = read[0] if len(read) == 1 else None
        # Which numbers go together is not known: one is by itself, several may be any.
        unknown = Lookup(None, columns[:, None] if piece.numbers == 1 else columns[None])
        if codes is None or codes.type.ndim != 1 or codes.type.dtype[:3] not in ("int", "uin"):
            found[k] = unknown
            continue
        inputs = [*parts, codes]
        function = gate.compile_graph(inputs, piece.other, private=[codes], mode=gate.PLAIN_MODE)
        tables = (np.shape(graph.leaf_value(leaf)) for leaf in graph.data_leaves([piece.other]))
        # Of codes beyond what is looked up none is to have a place.
        most = max([8 * columns.size, *(max(shape, default=0) for shape in tables)])
        tried = np.arange(max(columns.size, min(most, int(np.iinfo(codes.type.dtype).max) + 1)))
        rows = _places(function, parts, codes, tried)
        known = np.all((rows >= 0) & (rows < columns.size), axis=1)
        # Codes below zero are to be those from the end of the table, if they have places.
        number = 1 + int(np.max(np.flatnonzero(known), initial=-1))
        below = np.arange(-number, 0) if codes.type.dtype[:3] == "int" else np.zeros(0, dtype=int)
        last = _places(function, parts, codes, below)
        there = np.all((last >= 0) & (last < columns.size), axis=1)
        other = np.any(last != rows[: len(last)], axis=1)
        if known[columns.size :].any() or np.any(there & other):
            found[k] = unknown  # codes are not places in the table
            continue
        rows, known = rows[: columns.size], known[: columns.size]
        # Other codes are of no record: the row of the code before stands in.
        before = np.maximum.accumulate(np.where(known, np.arange(columns.size), np.argmax(known)))
        rows = rows[before] if np.any(known) else np.zeros_like(rows)
        found[k] = Lookup(roots[codes], columns[rows])
    return found


def _places(
    function: Function, parts: Mapping[Variable, np.ndarray], codes: Variable, tried: np.ndarray
) -> np.ndarray:
    """Places, shape (m, q), of codes of shape (m,)."""
    if not tried.size:
        return np.zeros((0, 1), dtype=np.int64)
    positions = guarded(function, *parts.values(), tried.astype(codes.type.dtype))
    return np.reshape(positions, (tried.size, -1)).astype(np.int64)


def seen_apart(lookups: Sequence[Lookup], whole: np.ndarray) -> list[np.ndarray]:
    """Sets of coordinates of which a record sees those of one row, and of no other.

    Parameters
    ----------
    lookups : sequence of Lookup
        Of all log-densities of one table.
    whole : ndarray of bool, shape (p,)
        Coordinates that records may see in another way.

    Returns
    -------
    list of ndarray of int, shape (G, q)
        Of phi; no coordinate is in two of them.
    """
    found = []
    for columns in _by_codes(lookups):
        seen = (tuple(column for column in dict.fromkeys(row) if column >= 0) for row in columns.tolist())
        rows = [row for row in dict.fromkeys(seen) if row]
        flat = [column for row in rows for column in row]
        if len(rows) > 1 and len(set(flat)) == len(flat) and len({len(row) for row in rows}) == 1:
            found.append(np.array(rows))
    times = np.zeros(len(whole), dtype=int)
    for columns in _by_codes(lookups):
        times[np.unique(columns[columns >= 0])] += 1
    return [rows for rows in found if not whole[rows].any() and times[rows].max() == 1]


def _by_codes(lookups: Sequence[Lookup]) -> list[np.ndarray]:
    """Columns side by side of what is looked up by the same codes."""
    together: list[list[Lookup]] = []
    for one in lookups:
        same = [parts for parts in together if _same(parts[0].root, one.root)]
        if same:
            same[0].append(one)
        else:
            together.append([one])
    found = []
    for parts in ([one.columns for one in some] for some in together):
        most = max(len(columns) for columns in parts)
        # Codes beyond a table are of no record: its last row stands in.
        found.append(np.hstack([columns[np.minimum(np.arange(most), len(columns) - 1)] for columns in parts]))
    return found


def _same(a: Variable | None, b: Variable | None) -> bool:
    """Whether codes are one array, in one place of the memory: what is in it is not read."""
    if a is None or b is None:
        return False
    return a is b or memory.same(graph.leaf_value(a), graph.leaf_value(b))


def in_order(reading: Reading, terms: Mapping[str, Variable]) -> list[str]:
    """Names of observed variables, those first whose outcomes the densities of others read."""
    values = {reading.opaque.values[reading.opaque.observed[name]]: name for name in terms}
    read = {
        name: {values[v] for v in ancestors([term]) if v in values} - {name} for name, term in terms.items()
    }
    found: list[str] = []
    while len(found) < len(terms):
        left = [name for name in terms if name not in found]
        found.append(next((name for name in left if read[name] <= set(found)), left[0]))
    return found
