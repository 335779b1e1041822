"""Scores of persons whose effects are integrated, and of whole persons that the model draws: twins.

A person's twin has the person's covariates; its effects are drawn from their prior at public parameters, and
then all its outcomes. Its score is computed as the person's is: of its outcomes, not of the effects that are
known of it. So a person and its twins are exchangeable at the truth, however good the integral is.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from pymc_dp.records import graph
from pymc_dp.records.chunks import chunks_of, part_of
from pymc_dp.records.draws import NotGenerativeError, draw_of
from pymc_dp.records.effect_scores import EffectScores
from pymc_dp.records.outcome_scores import outcome_like
from pymc_dp.records.quadrature import Scale
from pymc_dp.records.sums import guarded
from pymc_dp.records.twins import NUMBERS, ROWS, Chunk, TermScores, compiled_draw, recorded


class EffectTwins:
    """Scores of all persons and of their twins, at public parameters.

    Parameters
    ----------
    records : RecordModel
        With effects.

    Attributes
    ----------
    size, names, unlike, finite, lookups, parts, rank, touched
        As of `pymc_dp.records.twins.Twins`: all observed variables are compared together, by no predictors.

    Raises
    ------
    ModelRefusedError
        See `EffectScores`.

    Notes
    -----
    **Privacy.** As of `Twins`, for persons.
    """

    def __init__(self, records: Any):
        reading = records.reading
        observed = reading.opaque.observed
        self._records, self.n = records, records.n
        self._effects = {name: reading.opaque.values[observed[name]] for name in records.effects}
        self._outcomes = {
            name: outcome_like(rv, reading.n_rows, reading.opaque.values[rv])
            for name, rv in observed.items()
            if name not in self._effects
        }
        self._scores = EffectScores(records, self._outcomes, self._effects)
        self.size: int = records.coordinates.size
        self.names = [list(self._outcomes)]
        self.finite: dict[str, int] = {}
        self.lookups: list[np.ndarray] = []
        self.parts, self.rank, self.touched = 1, self.size, self.size
        self.unlike: dict[str, str] = {}
        self._draws = {}
        seen = records.coordinates
        for name in (*self._effects, *self._outcomes):
            try:
                self._draws[name] = draw_of(reading, observed[name], seen.replaced, seen.shapes)
            except NotGenerativeError as error:
                self.unlike[name] = str(error)
        self._compiled: dict[str, tuple[Callable[..., Any], int]] = {}

    def __call__(self, points: np.ndarray, twins: int, random: Any) -> Iterator[Chunk]:
        """Go through all persons in chunks: see `Twins`; of many points their mean is taken."""
        phi = np.atleast_2d(points).mean(axis=0)
        own = {name: recorded(self._records, name, place)() for name, place in self._outcomes.items()}
        drawn = [self._drawn(phi, random) for _ in range(twins)] if not self.unlike else []
        scale = self._scores.scale(phi)
        records = self._records
        roots = records._roots
        most = min(ROWS, NUMBERS // self.rank)
        for units, rows, first in chunks_of(records.n_rows, most, *records._rows_of_unit):
            data = [part_of(graph.leaf_value(root), rows, axis) for root, axis in roots.items()]
            score = partial(self._score, phi, scale, data, rows, first)
            mine = score(own)
            group = np.empty((len(drawn) + 1 if drawn else 0, *mine.shape))
            if drawn:
                group[0] = mine
            for k, (outcomes, fit) in enumerate(drawn):
                group[k + 1] = score(outcomes)
                good = part_of(fit, rows, 0)
                if first is not None:
                    good = np.logical_and.reduceat(good, first)
                group[k + 1, ~good] = np.nan
            yield Chunk(units, [TermScores(mine, group, None, [], None)])

    def _score(
        self,
        phi: np.ndarray,
        scale: Scale,
        data: list[np.ndarray],
        rows: Any,
        first: np.ndarray | None,
        outcomes: Mapping[str, np.ndarray],
    ) -> np.ndarray:
        here = [part_of(outcomes[name], rows, 0) for name in self._outcomes]
        return self._scores(phi, scale, data, here, first)

    def _drawn(self, phi: np.ndarray, random: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Outcomes of all rows, drawn with new effects; and which rows have them."""
        found, fit = {}, np.ones(self._records.n_rows, dtype=bool)
        for name in (*self._effects, *self._outcomes):
            if name not in self._compiled:
                draw = self._draws[name]
                self._compiled[name] = compiled_draw(self._records, draw), len(draw.generators)
            function, number = self._compiled[name]
            what = "Outcomes could not be drawn"
            values, good = guarded(function, phi, *random.generators(number), what=what)
            if name in self._effects:
                values, good = self._of_person(values), self._of_person(good)
                self._effects[name].set_value(values, borrow=True)
            else:
                found[name] = values
            fit &= good
        return found, fit

    def _of_person(self, values: np.ndarray) -> np.ndarray:
        """Give all rows of a person what its first one has."""
        order, first = self._records._rows_of_unit
        if order is None:
            return values
        return np.ascontiguousarray(values[order[first[:-1]]][np.asarray(self._records.unit_of_row)])
