"""Scores of persons whose effects are integrated out: by Fisher's identity, from rows given the effect."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import compress

import numpy as np
from pytensor.graph import Variable, ancestors
from pytensor.graph.traversal import toposort
from pytensor.scalar import Abs, ScalarMaximum, ScalarMinimum, Sign
from pytensor.tensor.elemwise import Elemwise

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import graph, quadrature
from pymc_dp.records.outcome_scores import Scored, differentiated, terms_with
from pymc_dp.records.predictors import Piece
from pymc_dp.records.refusals import refuse_coupled
from pymc_dp.records.scores_at import ScoresAt, repeated
from pymc_dp.records.sums import guarded, sums
from pymc_dp.records.threads import Reentrant
from pymc_dp.records.touched import Lookup, Sum

# Functions of one or two numbers whose derivative jumps.
_KINKS = Abs, Sign, ScalarMaximum, ScalarMinimum


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
    size, reads, pieces, lookups, sums, bounded, moves
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
    bounded = moves = False

    def __init__(self, records: Scored, outcomes: Mapping[str, Variable], effects: Mapping[str, Variable]):
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
        self.size: int = records.coordinates.size
        self.reads = list(range(self.size))
        self.sums: list[Sum] = [[(1, np.array([k]))] for k in self.reads]
        likelihood = [terms[name] for name in outcomes]
        read = set(ancestors(likelihood)) - set(effects.values())
        self._data = [root in read for root in records._roots]
        roots = dict(compress(records._roots.items(), self._data))
        self._axes, by = list(roots.values()), list(effects.values())
        self._likelihood = differentiated(records, likelihood, roots | dict.fromkeys(places.values(), 0), by)
        prior = [terms[name] for name in effects]
        private = {*records._roots, *outcomes.values()} - set(effects.values())
        if not private.isdisjoint(graph.read_as_values(prior)):
            raise refuse_coupled(next(iter(effects)), "its prior reads records")
        self._prior = differentiated(records, prior, dict.fromkeys(by, 0), by)
        self._kinked = have_kinks([*likelihood, *prior], by)

    @cached_property
    def _functions(self) -> tuple[tuple[Reentrant, Reentrant], ...]:
        """Compiled densities with derivatives by effects, and by coordinates: of rows, then of effects."""
        made = self._records.of_phi
        return tuple(
            (made(inputs, [density, slopes]), made(inputs, [density, scores]))
            for inputs, (scores, density, slopes) in (self._likelihood, self._prior)
        )

    def scale(self, phi: np.ndarray) -> quadrature.Scale:
        """Find the location and scale of the effects' prior at phi."""
        of_effects = self._functions[1][0]
        return quadrature.prior_scale(lambda z: guarded(of_effects, phi, *self.parts(z)), self._numbers)

    def parts(self, z: np.ndarray) -> list[np.ndarray]:
        """Split the effects, shape (m, q), into the arrays that the compiled functions take."""
        return [
            np.ascontiguousarray(z[:, where]).reshape((len(z), *shape))
            for where, shape in zip(self._places, self.shapes, strict=True)
        ]

    def at(
        self, points: np.ndarray, data: Sequence[np.ndarray], m: int, first: np.ndarray | None = None
    ) -> ScoresAt:
        """Prepare some persons, as `OutcomeScores.at` does for rows: at one point, without log-densities.

        `first` has the position of each person's first row; None: each row is a person.
        """
        (phi,) = points
        if self._scale is None or not np.array_equal(self._scale[0], phi):
            self._scale = phi, self.scale(phi)
        used, scale = list(compress(data, self._data)), self._scale[1]

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

        def evaluate(function: Reentrant, other: Reentrant, z: np.ndarray) -> list[np.ndarray]:
            own = other(phi, *self.parts(z))
            effects = self.parts(z if person is None else z[person])
            shared = [sums(one, first) for one in function(phi, *data, *outcomes, *effects)]
            return [one + of_all for one, of_all in zip(own, shared, strict=True)]

        places, weights = quadrature.nodes_at(partial(evaluate, of_rows, of_effects), scale, m, self._kinked)
        densities, parts = np.empty(weights.shape), np.empty((*weights.shape, self.size))
        for k, z in enumerate(places):
            densities[k], parts[k] = evaluate(rows_by_phi, effects_by_phi, z)
        return [quadrature.average(densities + weights, parts)]


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
