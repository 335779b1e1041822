"""Which likelihood coordinates no single record depends on together, from the graph and from shapes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pytensor.compile import Function
from pytensor.graph import Variable, ancestors

from pymc_dp.records import gate, graph, memory
from pymc_dp.records.predictors import Piece
from pymc_dp.records.reading import Reading
from pymc_dp.records.sums import guarded


class Lookup(NamedTuple):
    """Coordinates that records look up by a code, such as the number of their group.

    Attributes
    ----------
    root : Variable or None
        The array of codes; None where positions depend on several arrays, or on something else than codes.
    columns : ndarray of int, shape (G, q)
        Row g has the coordinates of phi that a record with code g depends on, -1 for none. Where it is not
        known which coordinates belong to one code: G rows of one coordinate if a record looks up one number,
        else one row of all coordinates.
    """

    root: Variable | None
    columns: np.ndarray

    def is_known(self, piece: Piece) -> bool:
        """Return whether each predictor of a piece reads one coordinate of its column for every code.

        All coordinates of the piece have to occur in `columns`, and none may be a constant.
        """
        alone = piece.numbers == 1 and self.columns.shape[1] == 1
        each = set(np.ravel(piece.columns).tolist()) == set(np.ravel(self.columns).tolist())
        return bool((alone or self.root is not None) and each and np.all(piece.columns >= 0))


#: A sum through which records depend on phi: of one coordinate from each of these arrays, with these signs.
type Sum = list[tuple[int, np.ndarray]]


def sums_of(
    pieces: Sequence[Piece], lookups: Mapping[int, Lookup], alike: Sequence[tuple[int, int]]
) -> list[Sum]:
    """Return the sums of coordinates through which the predictors of one log-density depend on phi.

    Parameters
    ----------
    pieces : sequence of Piece
    lookups : mapping of int to Lookup
        By the index of the piece that each belongs to.
    alike : sequence of tuple of int
        See `Predictors.alike`: predictors with the same derivatives are counted as one sum.
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
        else:  # records may depend on each coordinate by itself
            alone += [[(1, columns[j : j + 1])] for j in range(len(columns))]
    return [*found.values(), *alone]


def lookups_of(
    pieces: Sequence[Piece], parts: Mapping[Variable, np.ndarray], roots: Mapping[Variable, Variable]
) -> dict[int, Lookup]:
    """Return the coordinates that the look-ups of one log-density read, by the indices of their pieces.

    Parameters
    ----------
    pieces : sequence of Piece
    parts : mapping of Variable to ndarray
        The separate variables of phi, with arrays of their shapes.
    roots : mapping of Variable to Variable
        From the data of the pieces' graphs to the arrays of the model.

    Notes
    -----
    **Privacy.** Positions are computed for all codes that are possible, not for those in the data.
    """
    found = {}
    for k, piece in enumerate(pieces):
        if piece.kind != "lookup" or piece.other is None:
            continue
        columns = np.ravel(piece.columns)
        read = [data for data in roots if data in set(ancestors([piece.other]))]
        codes = read[0] if len(read) == 1 else None
        # It is not known which coordinates belong to one code.
        unknown = Lookup(None, columns[:, None] if piece.numbers == 1 else columns[None])
        if codes is None or codes.type.ndim != 1 or codes.type.dtype[:3] not in ("int", "uin"):
            found[k] = unknown
            continue
        inputs = [*parts, codes]
        function = gate.compile_graph(inputs, piece.other, private=[codes], mode=gate.PLAIN_MODE)
        tables = (np.shape(graph.leaf_value(leaf)) for leaf in graph.data_leaves([piece.other]))
        # Codes beyond the table must have no position in it: some of these are tried as well.
        most = max([8 * columns.size, *(max(shape, default=0) for shape in tables)])
        tried = np.arange(max(columns.size, min(most, int(np.iinfo(codes.type.dtype).max) + 1)))
        rows = _places(function, parts, codes, tried)
        known = np.all((rows >= 0) & (rows < columns.size), axis=1)
        # Negative codes, if they have positions, must count from the end of the table.
        number = 1 + int(np.max(np.flatnonzero(known), initial=-1))
        below = np.arange(-number, 0) if codes.type.dtype[:3] == "int" else np.zeros(0, dtype=int)
        last = _places(function, parts, codes, below)
        there = np.all((last >= 0) & (last < columns.size), axis=1)
        other = np.any(last != rows[: len(last)], axis=1)
        if known[columns.size :].any() or np.any(there & other):
            found[k] = unknown  # codes are not positions in the table
            continue
        rows, known = rows[: columns.size], known[: columns.size]
        # No record has a code without a position: its row repeats that of the code before.
        before = np.maximum.accumulate(np.where(known, np.arange(columns.size), np.argmax(known)))
        rows = rows[before] if np.any(known) else np.zeros_like(rows)
        found[k] = Lookup(roots[codes], columns[rows])
    return found


def _places(
    function: Function, parts: Mapping[Variable, np.ndarray], codes: Variable, tried: np.ndarray
) -> np.ndarray:
    """Return the positions, shape (m, q), that codes of shape (m,) look up."""
    if not tried.size:
        return np.zeros((0, 1), dtype=np.int64)
    positions = guarded(function, *parts.values(), tried.astype(codes.type.dtype))
    return np.reshape(positions, (tried.size, -1)).astype(np.int64)


def seen_apart(lookups: Sequence[Lookup], whole: np.ndarray) -> list[np.ndarray]:
    """Return arrays of coordinates such that a record depends on those of one row of each, and no other row.

    Parameters
    ----------
    lookups : sequence of Lookup
        Of all log-densities of one table.
    whole : ndarray of bool, shape (p,)
        Coordinates that records may depend on in another way than by a look-up.

    Returns
    -------
    list of ndarray of int, shape (G, q)
        Coordinates of phi; none is in two arrays.
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
    """Put look-ups by the same codes side by side, as columns of one array."""
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
        # No record has a code beyond a table: the table's last row is repeated for these.
        found.append(np.hstack([columns[np.minimum(np.arange(most), len(columns) - 1)] for columns in parts]))
    return found


def _same(a: Variable | None, b: Variable | None) -> bool:
    """Return whether codes are one array in memory; its entries are not read."""
    return a is not None and b is not None and memory.same(graph.leaf_value(a), graph.leaf_value(b))


def in_order(reading: Reading, terms: Mapping[str, Variable]) -> list[str]:
    """Sort the names of observed variables: an outcome that other densities read comes before these."""
    values = {reading.opaque.values[reading.opaque.observed[name]]: name for name in terms}
    read = {
        name: {values[v] for v in ancestors([term]) if v in values} - {name} for name, term in terms.items()
    }
    found: list[str] = []
    while len(found) < len(terms):
        left = [name for name in terms if name not in found]
        found.append(next((name for name in left if read[name] <= set(found)), left[0]))
    return found


def read_whole(each: Iterable[tuple[Sequence[int], Sequence[Piece]]], size: int) -> tuple[np.ndarray, int]:
    """Return the coordinates of phi that are read other than by look-ups; and most numbers looked up.

    Parameters
    ----------
    each : iterable of tuple
        For each log-density the coordinates that it reads, and the pieces of its predictors if there are any.
    size : int
        p, number of coordinates.
    """
    whole, looked_up = np.zeros(size, dtype=bool), 0
    for reads, pieces in each:
        if not pieces:
            whole[reads] = True
        for piece in pieces:
            if piece.kind == "lookup":
                looked_up += piece.numbers
            else:
                whole[np.ravel(piece.columns)] = True
    return whole, looked_up
