"""First derivatives of records' log-likelihoods with any outcome in the place of the recorded one."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import BernoulliRV, BinomialRV, CategoricalRV

from pymc_dp.records import gate, graph
from pymc_dp.records.coordinates import terms_given
from pymc_dp.records.derivatives import by_record, numbers_a_record
from pymc_dp.records.draws import NotGenerativeError, given
from pymc_dp.records.positions import length
from pymc_dp.records.predictors import Piece, Predictors, find
from pymc_dp.records.refusals import refuse_coupled
from pymc_dp.records.row_types.ops import public_number
from pymc_dp.records.sums import compiled, guarded
from pymc_dp.records.touched import Lookup, lookups_of

# Outcomes up to which all are taken: as many scores as of so many twins less one.
_OUTCOMES = 33


def outcome_like(rv: Variable, n_rows: int, recorded: Any) -> Any:
    """The place of an observed variable's values: a shared variable of its type, which no function reads."""
    # What a type does not say, the array of the recorded values does, in whatever type it is read.
    leaves = [np.shape(graph.leaf_value(leaf)) for leaf in graph.data_leaves([recorded])]
    known = leaves[0] if len(leaves) == 1 and len(leaves[0]) == rv.type.ndim else rv.type.shape
    pairs = zip(rv.type.shape[1:], known[1:], strict=True)
    static = (n_rows, *(size if own is None else own for own, size in pairs))
    shape = tuple(1 if size is None else size for size in static)
    return pytensor.shared(np.zeros(shape, dtype=rv.type.dtype), borrow=True, shape=static)


def terms_with(records: Any, outcomes: Mapping[str, Variable]) -> dict[str, Variable]:
    """Log-densities of records with outcomes in the place of observed values, by name.

    Functions of the separate variables of the likelihood coordinates. Each has one outcome put in; where it
    reads other observed variables, these have their recorded values.
    """
    reading, seen = records.reading, records.coordinates
    found = {}
    for name, outcome in outcomes.items():
        terms = terms_given(reading.opaque, seen.replaced, {reading.opaque.observed[name]: outcome})
        by_row = reading.by_row(terms, {**reading.roots, outcome: 0}, seen.shapes)
        if by_row is None:
            raise refuse_coupled(name, "with other outcomes its rows are not apart")
        found[name] = by_row[0]
    return found


def count_outcomes(reading: Any, rv: Variable, coordinates: Any) -> int | None:
    """Number of outcomes, 0, 1, ..., where each row has one of a few, and the number is public; or None."""
    op = rv.owner.op
    if rv.type.ndim != 1 or not isinstance(op, BernoulliRV | BinomialRV | CategoricalRV):
        return None
    if isinstance(op, BernoulliRV):
        return 2
    try:
        node = given(reading, rv, coordinates.replaced).owner
    except NotGenerativeError:
        return None
    parameters = op.dist_params(node)
    if isinstance(op, BinomialRV):
        trials = public_number(parameters[0])
        count = None if trials is None else trials + 1
    else:
        count = length(parameters[0], parameters[0].type.ndim - 1, coordinates.shapes)
    return int(count) if isinstance(count, int | np.integer) and 1 < count <= _OUTCOMES else None


class OutcomeScores:
    """Compiled derivatives, by predictors where there are any.

    Parameters
    ----------
    records : RecordModel
    terms : mapping of str to Variable
        Log-densities that are added up (`terms_with`), by the name of the observed variable.
    outcomes : mapping of str to Variable
        Place of the values of each.
    count : int or None
        Number of outcomes, if all of them are taken: log-densities are then computed as well.
    structured : bool
        Whether to look for predictors.

    Attributes
    ----------
    names : list of str
    lookups : list of Lookup
    size : int
        k.

    Notes
    -----
    **Privacy.** Row i of all outputs is a function of record i, of phi and of its outcome: typed in the
    graph, and tried on made-up records. Look-ups stay within their tables.
    """

    def __init__(
        self,
        records: Any,
        terms: Mapping[str, Variable],
        outcomes: Mapping[str, Variable],
        count: int | None,
        structured: bool,
    ):
        self.names, self.count, self._kwargs = list(terms), count, records.compile_kwargs
        self._seen = seen = records.coordinates
        read = set(ancestors(list(terms.values())))
        places = [outcomes[name] for name in terms]
        self._data = [root in read for root in records._roots]
        roots = {root: axis for root, axis in records._roots.items() if root in read}
        roots |= dict.fromkeys(places, 0)
        self._roots = roots
        self.dtype = places[0].type.dtype
        flat, n_rows = list(terms.values()), records.n_rows
        sparse = any(hasattr(records.reading.opaque.original.get(r, r).type, "format") for r in roots)
        start = seen(records._start)
        found = find(flat, seen, roots, n_rows, start, places) if structured and not sparse else None
        self.predictors: Predictors | None = found
        self.pieces = [] if found is None else found.pieces
        self._given: list[Variable] = []
        self.size = seen.size if found is None else found.size
        self.lookups: list[Lookup] = []
        if found is None:
            stand_ins, rows = graph.symbolic_rows(flat, roots, n_rows)
            self._inputs = {stand_ins[root]: axis for root, axis in roots.items()}
            self._outputs = self._by_record(rows, start)
        else:
            self._inputs = found.met.records
            arrays = dict(zip(found.met.records, roots, strict=True))
            self.lookups = lookups_of(found.pieces, seen.parts(start), arrays)
            self._by_predictors(found)
        self._functions: dict[bool, Callable[..., Any]] = {}
        self._rows: Any = None

    def _by_record(self, rows: Variable, start: np.ndarray) -> list[Variable]:
        seen = self._seen
        outputs = [by_record(rows, list(seen.columns), self._inputs), rows]
        inputs, settings = [seen.vector, *self._inputs], {"mode": gate.CHECK_MODE}
        tried = compiled(inputs, seen.joined(outputs), settings, private=self._inputs)
        numbers_a_record(tried, [start], self._inputs, self._roots)
        return outputs

    def _by_predictors(self, found: Predictors) -> None:
        """Derivatives as functions of what is the same for all outcomes, which is computed apart."""
        tables = [k for k, piece in enumerate(found.pieces) if piece.other is not None]
        values = list(found.values)
        for k in tables:
            values[k] = found.inputs[k]
        first = pt.concatenate(found.of_data(found.first, values), axis=1)
        self._given = [found.inputs[k] for k in tables]
        self._outputs = [first, *found.of_data([found.rows], values)]
        inputs = list(found.met.records)
        others = [cast(Variable, found.pieces[k].other) for k in tables]
        self._table = {
            k: inputs.index(other) if other in inputs and found.met.records[other] == 0 else None
            for k, other in zip(tables, others, strict=True)
        }
        computed = [other for k, other in zip(tables, others, strict=True) if self._table[k] is None]
        self._shared_outputs = [*(found.values[k] for k in tables), *computed]

    def at(self, phi: np.ndarray, data: Sequence[np.ndarray], m: int, dense: bool) -> "ScoresAt":
        """Prepare m records: compute what is the same for all their outcomes.

        Parameters
        ----------
        phi : ndarray, shape (p,)
        data : sequence of ndarray
            Of these records, for each of the model's roots.
        m : int
        dense : bool
            Whether log-densities are wanted.
        """
        function = self._compiled(dense)
        used = [values for values, read in zip(data, self._data, strict=True) if read]
        if self.predictors is None:
            return ScoresAt(partial(function, phi), used, [], None)
        found = [] if self._rows is None else guarded(self._rows, phi, *used)
        values = [np.ascontiguousarray(v) for v in found[: len(self._table)]]
        computed, pieces = iter(found[len(self._table) :]), []
        for k, piece in enumerate(self.pieces):
            other = None
            if piece.other is not None:
                table = self._table[k]
                other = np.reshape(next(computed) if table is None else used[table], (m, -1))
                dtype = np.int64 if piece.kind == "lookup" else np.float64
                other = np.ascontiguousarray(other, dtype=dtype)
            pieces.append((piece, other))
        positions = [np.ravel(piece.columns)[other] for piece, other in pieces if piece.kind == "lookup"]
        return ScoresAt(partial(function, phi, *values), used, positions, pieces)

    def _compiled(self, dense: bool) -> Callable[..., Any]:
        if dense in self._functions:
            return self._functions[dense]
        vector, kwargs, joined = self._seen.vector, self._kwargs, self._seen.joined
        private, outputs = [*self._given, *self._inputs], self._outputs if dense else self._outputs[:1]
        function = compiled([vector, *private], joined(outputs), kwargs, private=private)
        self._functions[dense] = function
        if self._given and self._rows is None:
            own = list(self._inputs)[: len(self._inputs) - len(self.names)]
            self._rows = compiled([vector, *own], joined(self._shared_outputs), kwargs, private=own)
        return function


class ScoresAt:
    """Scores of some records, for any outcomes.

    Parameters
    ----------
    function : callable
    data : list of ndarray
    positions, pieces
        See `pymc_dp.records.twins.TermScores`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        data: list[np.ndarray],
        positions: list[np.ndarray],
        pieces: list[tuple[Piece, Any]] | None,
    ):
        self._function, self._data, self.positions, self.pieces = function, data, positions, pieces

    def __call__(self, outcomes: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Scores, shape (m, k); and log-densities, shape (m,), where these are wanted."""
        return guarded(self._function, *self._data, *outcomes)
