"""Scores of records: first derivatives of log-likelihoods, with any outcome in place of the recorded one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from itertools import compress
from types import MappingProxyType
from typing import cast

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile import Mode
from pytensor.graph import Variable, ancestors
from pytensor.tensor.random.basic import BernoulliRV, BinomialRV, CategoricalRV
from pytensor.tensor.sharedvar import TensorSharedVariable

from pymc_dp.records import gate, graph, other_records
from pymc_dp.records.coordinates import Coordinates, likelihood_coordinates, terms_given
from pymc_dp.records.derivatives import by_record, gradients, numbers_a_record
from pymc_dp.records.draws import NotGenerativeError, given
from pymc_dp.records.positions import Size, length
from pymc_dp.records.predictors import Predictors, WithData, find
from pymc_dp.records.reading import Reading
from pymc_dp.records.refusals import refuse_coupled
from pymc_dp.records.row_types.ops import public_number
from pymc_dp.records.scores_at import ScoresAt, bounds_outcomes, repeated
from pymc_dp.records.sums import Points, compiled, guarded
from pymc_dp.records.threads import Reentrant
from pymc_dp.records.touched import Lookup, Sum, lookups_of, sums_of


class Scored(Points):
    """The part of a `RecordModel` that scores need."""

    effects: list[str]

    @cached_property
    def coordinates(self) -> Coordinates:
        """Likelihood coordinates; see `pymc_dp.records.coordinates`."""
        return likelihood_coordinates(self)

    def of_phi(
        self,
        inputs: Iterable[Variable],
        outputs: Sequence[Variable],
        settings: Mapping[str, object] | None = None,
    ) -> Reentrant:
        """Compile graphs of the coordinates' separate variables: functions of phi and of private inputs."""
        private, seen = list(inputs), self.coordinates
        kwargs = self.compile_kwargs if settings is None else settings
        return Reentrant(compiled([seen.vector, *private], seen.joined(outputs), kwargs, private=private))


def outcome_like(rv: Variable, n_rows: int, recorded: Variable) -> TensorSharedVariable:
    """Make a shared variable of an observed variable's type, to stand for outcomes; its values are unused."""
    # Lengths that are not in the type are taken from the array of the recorded values.
    leaves = [np.shape(graph.leaf_value(leaf)) for leaf in graph.data_leaves([recorded])]
    known = leaves[0] if len(leaves) == 1 and len(leaves[0]) == rv.type.ndim else rv.type.shape
    pairs = zip(rv.type.shape[1:], known[1:], strict=True)
    static = (n_rows, *(size if own is None else own for own, size in pairs))
    shape = tuple(1 if size is None else size for size in static)
    return pytensor.shared(np.zeros(shape, dtype=rv.type.dtype), borrow=True, shape=static)


def terms_with(
    records: Scored,
    outcomes: Mapping[str, Variable],
    together: bool = False,
    bounds: Mapping[str, Variable] = MappingProxyType({}),
) -> dict[str, Variable]:
    """Derive log-densities of records, by name, with variables in the place of outcomes and censoring bounds.

    They are functions of the separate variables of the likelihood coordinates. In each, one observed
    variable's outcome is replaced, and recorded values of the others are read; or, if `together`, all
    outcomes are replaced in all.
    """
    reading, seen = records.reading, records.coordinates
    observed, found = reading.opaque.observed, dict[str, Variable]()
    for names in [list(outcomes)] if together else [[name] for name in outcomes]:
        terms = terms_given(
            reading.opaque,
            seen.replaced,
            {observed[name]: outcomes[name] for name in names},
            {observed[name]: bounds[name] for name in names if name in bounds},
        )
        if not reading.are_rows(
            terms, [places[name] for places in (outcomes, bounds) for name in names if name in places]
        ):
            raise refuse_coupled(names[0], "with other outcomes its rows are not apart")
        found |= zip(names, terms, strict=True)
    return found


def count_outcomes(reading: Reading, rv: Variable, coordinates: Coordinates) -> int | None:
    """Return the number of possible outcomes 0, 1, ..., if it is small and public; else None."""
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
        count: Size | None = None if trials is None else trials + 1
    else:
        count = length(parameters[0], parameters[0].type.ndim - 1, coordinates.shapes)
    # At most as many scores as with 32 twins and the record itself.
    return int(count) if isinstance(count, int | np.integer) and 1 < count <= 33 else None


def differentiated(
    records: Scored,
    terms: Sequence[Variable],
    roots: Mapping[Variable, int],
    effects: Sequence[Variable] = (),
) -> tuple[dict[Variable, int], list[Variable]]:
    """Differentiate log-densities record by record, and try on made-up records that rows are apart.

    Parameters
    ----------
    records : RecordModel
    terms : sequence of Variable
        Log-densities that are added up, as functions of the separate variables of the coordinates.
    roots : mapping of Variable to int
        Data, outcomes and effects that they read, and the axis of the records.
    effects : sequence of Variable
        Those of `roots` that are effects of persons.

    Returns
    -------
    inputs : dict of Variable to int
        Variables in the place of `roots`, for any number of records.
    outputs : list of Variable
        Derivatives by the coordinates, shape (m, p); log-densities, (m,); and, if there are effects,
        derivatives by these, (m, q).
    """
    seen = records.coordinates
    stand_ins, rows = other_records.symbolic_rows(terms, roots, records.n_rows)
    inputs = {stand_ins[root]: axis for root, axis in roots.items()}
    outputs = [by_record(rows, list(seen.columns), inputs), rows]
    if effects:
        slopes = gradients(rows.sum(), [stand_ins[place] for place in effects])
        outputs.append(pt.concatenate([one.reshape((one.shape[0], -1)) for one in slopes], axis=1))
    tried = records.of_phi(inputs, outputs, {"mode": gate.CHECK_MODE})
    numbers_a_record(tried, [seen(records._start)], inputs, roots)
    return inputs, outputs


class OutcomeScores:
    """Compiled scores: derivatives by predictors where there are any, else by phi.

    Parameters
    ----------
    records : RecordModel
    terms : mapping of str to Variable
        Log-densities that are added up (`terms_with`), by the name of the observed variable.
    outcomes : mapping of str to Variable
        The variable for the outcomes of each.
    count : int or None
        Number of possible outcomes, if all of them are taken: log-densities are then computed as well.
    bound : Variable, optional
        The variable for the censoring bound, which is then passed beside each outcome.

    Attributes
    ----------
    names : list of str
    reads : list of int
        Coordinates of phi on which the log-densities depend.
    lookups : list of Lookup
    sums : list of list of tuple
        Sums through which records depend on phi: see `Twins`.
    size : int
        k, number of predictors; or p.
    bounded : bool
        Whether a censoring bound is passed beside each outcome.
    moves : bool
        Whether parameters move a bound of the support, as far as the graph shows.

    Notes
    -----
    **Privacy.** Row i of all outputs is a function of record i, of phi and of its outcome: decided by types
    in the graph, and tried on made-up records. Look-ups stay within their tables.
    """

    def __init__(
        self,
        records: Scored,
        terms: Mapping[str, Variable],
        outcomes: Mapping[str, Variable],
        count: int | None,
        bound: Variable | None = None,
    ):
        self.names, self.count, self._records = list(terms), count, records
        self._settings: Mapping[str, object] = records.compile_kwargs
        seen, read = records.coordinates, set(ancestors(list(terms.values())))
        places = [outcomes[name] for name in terms] + ([] if bound is None else [bound])
        self.bounded, self._places = bound is not None, len(places)
        self._data = [root in read for root in records._roots]
        roots = dict(compress(records._roots.items(), self._data)) | dict.fromkeys(places, 0)
        self.dtype = places[0].type.dtype
        flat, n_rows = list(terms.values()), records.n_rows
        self.moves = bounds_outcomes(flat, places, set(seen.columns))
        start = seen(records._start)
        found = find(flat, seen, roots, n_rows, start, places)
        self.predictors: Predictors | None = found
        self.pieces = [] if found is None else found.pieces
        self._given: list[Variable] = []
        self.size = seen.size if found is None else found.size
        self.lookups: list[Lookup] = []
        columns = {int(k) for piece in self.pieces for k in np.ravel(piece.columns)}
        self.reads = seen.read_by(flat) if found is None else sorted(columns)
        self.sums: list[Sum] = [[(1, np.array([k]))] for k in self.reads]
        if found is None:
            self._inputs, self._outputs = differentiated(records, flat, roots)
        else:
            self._inputs = found.met.records
            arrays = dict(zip(found.met.records, roots, strict=True))
            lookups = lookups_of(found.pieces, seen.parts(start), arrays)
            self.lookups, self.sums = list(lookups.values()), sums_of(found.pieces, lookups, found.alike)
            self._by_predictors(found)

    def in_mode(self, mode: Mode) -> "OutcomeScores":
        """Return the same scores, compiled in another mode."""
        other = copy(self)
        for compiled_here in ("_function", "_shared"):
            vars(other).pop(compiled_here, None)
        other._settings = {**self._settings, "mode": mode}
        return other

    def _by_predictors(self, found: Predictors) -> None:
        """Prepare derivatives as functions of inputs that do not depend on outcomes, computed beforehand."""
        tables = [k for k, piece in enumerate(found.pieces) if piece.other is not None]
        values = list(found.values)
        for k in tables:
            values[k] = found.inputs[k]
        self._given = [found.inputs[k] for k in tables]
        self._outputs = found.of_data([*found.first, found.rows], values)
        others = [cast(Variable, found.pieces[k].other) for k in tables]
        self._table = {k: found.met.table(other) for k, other in zip(tables, others, strict=True)}
        computed = [other for k, other in zip(tables, others, strict=True) if self._table[k] is None]
        self._shared_outputs = [*(found.values[k] for k in tables), *computed]

    def at(
        self, points: np.ndarray, data: Sequence[np.ndarray], m: int, first: np.ndarray | None = None
    ) -> ScoresAt:
        """Prepare some rows: compute what does not depend on their outcomes.

        Parameters
        ----------
        points : ndarray, shape (q, p)
            One or several values of phi, equally likely.
        data : sequence of ndarray
            Data of these rows, for each of the model's roots.
        m : int
            Number of rows.
        first
            Not used: see `EffectScores.at`.
        """
        function, tables = self._function, len(self._given)
        used = list(compress(data, self._data))
        found = [guarded(self._shared, phi, *used) if tables else [] for phi in points]
        axes = [*[0] * tables, *self._inputs.values()][: tables + len(used)]

        def each(copies: int) -> list[Callable[..., list[np.ndarray]]]:
            arrays = [[*map(np.ascontiguousarray, shared[:tables]), *used] for shared in found]
            return [
                partial(
                    _joined,
                    function,
                    phi,
                    *(repeated(*one, copies) for one in zip(of_phi, axes, strict=True)),
                )
                for phi, of_phi in zip(points, arrays, strict=True)
            ]

        pieces = None if self.predictors is None else self._with_data(iter(found[0][tables:]), used, m)
        return ScoresAt(each, pieces, m, self.count or 0, self.dtype)

    def _with_data(
        self, computed: Iterator[np.ndarray], data: Sequence[np.ndarray], m: int
    ) -> list[WithData]:
        """Return the pieces with their matrices or positions for m rows."""
        pieces = []
        for k, piece in enumerate(self.pieces):
            other = None
            if piece.other is not None:
                table = self._table[k]
                other = np.reshape(next(computed) if table is None else data[table], (m, -1))
                dtype = np.int64 if piece.kind == "lookup" else np.float64
                other = np.ascontiguousarray(other, dtype=dtype)
            pieces.append((piece, other))
        return pieces

    @cached_property
    def _function(self) -> Reentrant:
        """Compiled scores and log-densities."""
        return self._records.of_phi([*self._given, *self._inputs], self._outputs, self._settings)

    @cached_property
    def _shared(self) -> Reentrant:
        """Compiled products and look-ups, and tables that are computed: the same for all outcomes."""
        own = list(self._inputs)[: len(self._inputs) - self._places]
        return self._records.of_phi(own, self._shared_outputs, self._settings)


def _joined(function: Reentrant, *arguments: np.ndarray) -> list[np.ndarray]:
    """Join scores by all predictors to shape (m, k); return these, and log-densities.

    This is done in NumPy: as a part of the graph it would take a second or two to compile for each model.
    """
    *found, densities = function(*arguments)
    scores = [one.reshape((len(one), -1)) for one in found]
    return [scores[0] if len(scores) == 1 else np.concatenate(scores, axis=1), densities]
