"""Outcomes of records: those that were recorded, and those that the model draws in their place."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import call
from typing import NamedTuple, Protocol

import numpy as np
import pytensor.tensor as pt
from pytensor.compile import Function, In, SharedVariable
from pytensor.graph import Variable

from pymc_dp.records.draws import Draw
from pymc_dp.records.follow_up import FOR_INTERVALS, is_unknown
from pymc_dp.records.gate import CHECK_MODE, compile_graph
from pymc_dp.records.outcome_scores import Scored
from pymc_dp.records.sums import compiled, guarded
from pymc_dp.records.threads import Each, Reentrant


class Found(NamedTuple):
    """Outcomes of all rows, by the name of the observed variable.

    Attributes
    ----------
    own : dict of str to ndarray
        Recorded outcomes.
    bounds : dict of str to ndarray
        Censoring bounds, where each row has its own. Draws of such a variable are not censored, and there are
        `FOR_INTERVALS` more of them (`pymc_dp.records.follow_up`).
    drawn : dict of str to list of ndarray
        Outcomes that were drawn, K times.
    fit : dict of str to ndarray of bool
        Rows for which all draws exist.
    """

    own: dict[str, np.ndarray]
    bounds: dict[str, np.ndarray]
    drawn: dict[str, list[np.ndarray]]
    fit: dict[str, np.ndarray]


class Randomness(Protocol):
    """A secret random stream, such as `PrivacyRandom`."""

    def generators(self, number: int) -> list[np.random.Generator]:
        """Return generators with streams of their own."""


@dataclass(eq=False)
class Outcomes:
    """Compiled draws of the outcomes of all rows.

    Parameters
    ----------
    records : RecordModel
    places : mapping of str to Variable
        For each observed variable, by name, a variable of the type of its outcomes.
    effects : mapping of str to SharedVariable
        Effects of persons: drawn first, once a person; outcomes are then drawn given these.
    draws : mapping of str to Draw
        Draws of effects, and of those observed variables that can be drawn.
    bounds : mapping of str to Variable
        Graphs of censoring bounds, where each record has its own.

    Notes
    -----
    **Privacy.** What calls return is private: row i is a function of record i, of phi and of secret
    randomness.
    """

    records: Scored
    places: Mapping[str, Variable]
    effects: Mapping[str, SharedVariable]
    draws: Mapping[str, Draw]
    bounds: Mapping[str, Variable]

    def __call__(self, points: np.ndarray, twins: int, random: Randomness, each: Each = map) -> Found:
        """Read the recorded outcomes, and draw `twins` outcomes for each row; see `Twins`."""
        recorded = guarded(self._own, what="The observed values could not be read")
        own = dict(zip(self.places, recorded, strict=False))
        bounds = dict(zip(self.bounds, recorded[len(own) :], strict=True))
        return Found(own, bounds, *self._drawn(points, twins, random, each))

    @cached_property
    def _own(self) -> Function:
        """Compiled recorded outcomes, in the type of the drawn ones, and censoring bounds."""
        opaque = self.records.reading.opaque
        places = self.places.items()
        own = [pt.cast(opaque.values[opaque.observed[name]], place.type.dtype) for name, place in places]
        own += [pt.cast(bound, "float64") for bound in self.bounds.values()]
        return compiled([], own, {"mode": CHECK_MODE}, private=self.records._roots)

    @cached_property
    def _drawing(self) -> dict[str, Reentrant]:
        """Compiled draws."""
        return {name: compiled_draw(self.records, draw) for name, draw in self.draws.items()}

    def _drawn(
        self, points: np.ndarray, twins: int, random: Randomness, each: Each = map
    ) -> tuple[dict[str, list[np.ndarray]], dict[str, np.ndarray]]:
        """Draw outcomes of all rows K times, at the points in turn; and note which rows have all draws."""
        drawn: dict[str, list[np.ndarray]] = {}
        fit: dict[str, np.ndarray] = {}
        for name in self._drawing if twins else ():
            drawn[name], fit[name] = [], np.ones(self.records.n_rows, dtype=bool)
            effects = {} if name in self.effects else self.effects
            some = (
                partial(
                    self._draw,
                    name,
                    {place: drawn[effect][k] for effect, place in effects.items()},
                    points[k % len(points)],
                    random.generators(len(self.draws[name].generators)),
                )
                for k in range(twins + FOR_INTERVALS * (name in self.bounds))
            )
            # Effects are put into shared variables, not passed as arguments: then draws run one by one.
            for outcome, good in (map if effects else each)(call, some):
                if name in self.effects:
                    outcome, good = self._of_person(outcome), self._of_person(good)
                drawn[name].append(outcome)
                fit[name] &= good
        return drawn, fit

    def _draw(
        self,
        name: str,
        effects: Mapping[SharedVariable, np.ndarray],
        phi: np.ndarray,
        streams: Sequence[np.random.Generator],
    ) -> list[np.ndarray]:
        """Draw outcomes of all rows given these effects; return them, and which rows have one."""
        for place, values in effects.items():
            place.set_value(values, borrow=True)
        return guarded(self._drawing[name], phi, *streams, what="Outcomes could not be drawn")

    def _of_person(self, values: np.ndarray) -> np.ndarray:
        """Copy the value of each person's first row to all of that person's rows."""
        order, first = self.records._rows_of_unit
        if order is None or first is None:
            return values
        return np.ascontiguousarray(values[order[first[:-1]]][np.asarray(self.records.unit_of_row)])


def count_unknown_bounds(records: Scored, arrays: Mapping[str, Sequence[Variable]]) -> int:
    """Count the units that have an unknown censoring bound: private.

    Parameters
    ----------
    records : RecordModel
    arrays : mapping of str to sequence of Variable
        Graphs of the bounds of each observed variable.
    """
    opaque, rows = records.reading.opaque, np.zeros(records.n_rows, dtype=bool)
    for name, bounds in arrays.items():
        graphs = [pt.cast(one, "float64") for one in (opaque.values[opaque.observed[name]], *bounds)]
        read = compiled([], graphs, {"mode": CHECK_MODE}, private=list(opaque.original))
        outcome, *found = guarded(read, what="Bounds of censoring could not be read")
        for bound in found:
            rows |= is_unknown(outcome, bound).reshape(len(rows), -1).any(axis=1)
    units = records.unit_of_row
    return int(rows.sum()) if units is None else np.unique(np.asarray(units)[rows]).size


def compiled_draw(records: Scored, draw: Draw) -> Reentrant:
    """Compile a draw to a function of phi and of the draw's generators."""
    seen = records.coordinates
    # Numba's samplers do not raise, as those of NumPy do where a covariance is not positive definite.
    settings = records.compile_kwargs | {"mode": "NUMBA", "trusted": records.reading.trusted}
    inputs: list[Variable | In] = [seen.vector, *(In(one, mutable=True) for one in draw.generators)]
    outputs, private = seen.joined([draw.outcome, draw.fit]), records._roots
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about samplers that are NumPy's or SciPy's
        function = compile_graph(inputs, outputs, private=private, random=True, trust_input=True, **settings)
    return Reentrant(function)
