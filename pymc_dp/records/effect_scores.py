"""Scores of persons whose effects are integrated out: by Fisher's identity, from rows given the effect."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar.basic import Abs, ScalarMaximum, ScalarMinimum, Sign
from pytensor.tensor.elemwise import Elemwise

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import gate, graph, other_records, quadrature
from pymc_dp.records.derivatives import by_record, gradients, numbers_a_record
from pymc_dp.records.outcome_scores import Scored, terms_with
from pymc_dp.records.predictors import Piece
from pymc_dp.records.refusals import refuse_coupled
from pymc_dp.records.scores_at import ScoresAt, repeated
from pymc_dp.records.sums import compiled, guarded, sums
from pymc_dp.records.threads import Reentrant
from pymc_dp.records.touched import Lookup, Sum

# Functions of one or two numbers whose derivative jumps.
_KINKS = Abs, Sign, ScalarMaximum, ScalarMinimum


class _Rows(NamedTuple):
    """Log-densities of rows, or of effects.

    Attributes
    ----------
    density, slopes, scores : Variable
        Log-densities, shape (m,); their derivatives by the effects, (m, q); and by the coordinates, (m, p).
    inputs : list of Variable
        Data, outcomes and effects.
    """

    density: Variable
    slopes: Variable
    scores: Variable
    inputs: list[Variable]


class EffectScores:
    """Compiled log-densities and derivatives of rows and of effects, and integrals over the effects.

    Parameters
    ----------
    records : RecordModel
        Records of the model in which effects are observed (`complete_model`).
    outcomes, effects : mapping of str to Variable
        Variables for the outcomes and for the effects, by the names of the observed variables.

    Attributes
    ----------
    size, reads, pieces, lookups, sums
        As of `OutcomeScores`: scores are by phi.

    Raises
    ------
    ModelRefusedError
        A row depends on another row, a prior reads records, an outcome is read by the density of another, or
        a derivative is not known.

    Notes
    -----
    **Privacy.** Row i of what is compiled is a function of row i, of phi, of its outcomes and of its effects:
    decided by types in the graph, and tried on made-up records. A person's score is a function of that
    person's rows.
    """

    pieces: Sequence[Piece] = ()
    lookups: Sequence[Lookup] = ()

    def __init__(self, records: Scored, outcomes: Mapping[str, Variable], effects: Mapping[str, Variable]):
        self._seen, self._kwargs = records.coordinates, records.compile_kwargs
        self._records = records
        self._scale: tuple[np.ndarray, quadrature.Scale] | None = None
        places = {**outcomes, **effects}
        terms = terms_with(records, places, together=True)
        for name in outcomes:
            others = {place for other, place in outcomes.items() if other != name}
            if not others.isdisjoint(ancestors([terms[name]])):
                raise _refuse_recursive(name)
        self.shapes = [np.shape(graph.leaf_value(place))[1:] for place in effects.values()]
        self._places = list(graph.columns_of(dict(enumerate(self.shapes))).values())
        self._numbers: int = self._places[-1].stop
        self.size: int = self._seen.size
        self.reads = list(range(self.size))
        self.sums: list[Sum] = [[(1, np.array([k]))] for k in self.reads]
        likelihood = [terms[name] for name in outcomes]
        read = set(ancestors(likelihood)) - set(effects.values())
        self._data = [root in read for root in records._roots]
        data = [root for root, read in zip(records._roots, self._data, strict=True) if read]
        roots = {root: records._roots[root] for root in data}
        self._axes = list(roots.values())
        own = dict.fromkeys([*outcomes.values(), *effects.values()], 0)
        self._likelihood = self._derivatives(likelihood, {**roots, **own}, list(effects.values()))
        prior = [terms[name] for name in effects]
        own = dict.fromkeys(effects.values(), 0)
        private = {*records._roots, *outcomes.values()} - set(effects.values())
        if not private.isdisjoint(graph.read_as_values(prior)):
            raise refuse_coupled(next(iter(effects)), "its prior reads records")
        self._prior = self._derivatives(prior, own, list(effects.values()))
        self._kinked = have_kinks([*likelihood, *prior], effects.values())

    def _derivatives(
        self, terms: Sequence[Variable], roots: Mapping[Variable, int], effects: Sequence[Variable]
    ) -> _Rows:
        seen = self._seen
        stand_ins, density = other_records.symbolic_rows(terms, roots, self._records.n_rows)
        inputs = {stand_ins[root]: axis for root, axis in roots.items()}
        first, axis = next(iter(inputs.items()))
        m = first.shape[axis]
        scores = by_record(density, list(seen.columns), inputs)
        slopes = gradients(density.sum(), [stand_ins[place] for place in effects])
        slope = pt.concatenate([one.reshape((m, -1)) for one in slopes], axis=1)
        found = _Rows(density, slope, scores, list(inputs))
        # Check on made-up records that each row depends on its own record alone.
        tried = self._compiled(found, [density, slope, scores], {"mode": gate.CHECK_MODE})
        numbers_a_record(tried, [seen(self._records._start)], inputs, roots)
        return found

    # compiled functions

    def _compiled(
        self, rows: _Rows, outputs: Sequence[Variable], settings: Mapping[str, object]
    ) -> Reentrant:
        inputs = [self._seen.vector, *rows.inputs]
        return Reentrant(compiled(inputs, self._seen.joined(outputs), settings, private=rows.inputs))

    @cached_property
    def _functions(self) -> tuple[tuple[Reentrant, Reentrant], ...]:
        """Compiled densities with derivatives by effects, and by coordinates: of rows, then of effects."""
        made = partial(self._compiled, settings=self._kwargs)
        return tuple(
            (made(rows, [rows.density, rows.slopes]), made(rows, [rows.density, rows.scores]))
            for rows in (self._likelihood, self._prior)
        )

    def scale(self, phi: np.ndarray) -> quadrature.Scale:
        """Find the location and scale of the effects' prior at phi."""
        of_effects = self._functions[1][0]

        def prior(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            density, slopes = guarded(of_effects, phi, *self.parts(z))
            return density, slopes

        return quadrature.prior_scale(prior, self._numbers)

    def parts(self, z: np.ndarray) -> list[np.ndarray]:
        """Split the effects, shape (m, q), into the arrays that the compiled functions take."""
        return [
            np.ascontiguousarray(z[:, where]).reshape((len(z), *shape))
            for where, shape in zip(self._places, self.shapes, strict=True)
        ]

    def at(
        self, points: np.ndarray, data: Sequence[np.ndarray], m: int, first: np.ndarray | None
    ) -> ScoresAt:
        """Prepare some persons, as `OutcomeScores.at` does for rows: at one point, without log-densities.

        `first` has the position of each person's first row; None: each row is a person.
        """
        (phi,) = points
        if self._scale is None or not np.array_equal(self._scale[0], phi):
            self._scale = phi, self.scale(phi)
        used = [values for values, read in zip(data, self._data, strict=True) if read]
        scale = self._scale[1]

        def each(copies: int) -> list[Callable[..., list[np.ndarray]]]:
            arrays = [repeated(*one, copies) for one in zip(used, self._axes, strict=True)]
            starts = None if first is None else np.ravel(first + m * np.arange(copies)[:, None])
            return [partial(self._integrals, phi, scale, arrays, copies * m, starts)]

        return ScoresAt(each, None, m, 0, "")

    def _integrals(
        self,
        phi: np.ndarray,
        scale: quadrature.Scale,
        data: Sequence[np.ndarray],
        number: int,
        first: np.ndarray | None,
        *outcomes: np.ndarray,
    ) -> list[np.ndarray]:
        """Compute scores of persons, shape (m, p): derivatives of their integrated log-likelihoods by phi.

        NaN where the likelihood is not finite.
        """
        (of_rows, rows_by_phi), (of_effects, effects_by_phi) = self._functions
        m = number if first is None else len(first)
        person = None if first is None else np.repeat(np.arange(m), np.diff(np.append(first, number)))

        def evaluate(function: Reentrant, other: Reentrant, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            own = other(phi, *self.parts(z))
            effects = self.parts(z if person is None else z[person])
            shared = [sums(one, first) for one in function(phi, *data, *outcomes, *effects)]
            return tuple(one + of_all for one, of_all in zip(own, shared, strict=True))

        found = quadrature.nodes_at(partial(evaluate, of_rows, of_effects), scale, m, self._kinked)
        densities = np.empty(found.weights.shape)
        parts = np.empty((*densities.shape, self._seen.size))
        for k, z in enumerate(found.places):
            densities[k], parts[k] = evaluate(rows_by_phi, effects_by_phi, z)
        densities += found.weights
        return [quadrature.average(densities, parts)]


def have_kinks(terms: Sequence[Variable], variables: Iterable[Variable]) -> bool:
    """Return whether some derivatives by the variables jump, as those of Laplace's density do."""
    reading = set(variables)
    for node in toposort(list(terms)):
        if not reading.isdisjoint(node.inputs):
            reading.update(node.outputs)
            if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, _KINKS):
                return True
    return False


def _refuse_recursive(name: str) -> ModelRefusedError:
    return ModelRefusedError(
        f"The density of observed variable {name!r} reads another observed variable.",
        "with an effect of persons all outcomes of a person are drawn together, and those of one "
        "variable are not drawn from those of another.",
        "write the outcomes such that, given the effect, none reads another.",
    )
