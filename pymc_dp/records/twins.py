"""Scores of records, and of outcomes that the model draws in their place: twins.

A record's twin has the record's covariates and an outcome drawn from the model at public parameters. At the
truth a record and its twins are exchangeable, so that what compares them symmetrically has mean zero. Where
there are few outcomes all of them are taken, with their probabilities.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.io import In
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_dp.records import graph
from pymc_dp.records.chunks import chunks_of, part_of
from pymc_dp.records.draws import Draw, NotGenerativeError, draw_of
from pymc_dp.records.gate import compile_graph
from pymc_dp.records.mean_likelihood import MeanLikelihood
from pymc_dp.records.outcome_scores import OutcomeScores, count_outcomes, outcome_like, terms_with
from pymc_dp.records.predictor_rows import rows_in
from pymc_dp.records.predictors import Piece
from pymc_dp.records.sums import compiled, guarded
from pymc_dp.records.touched import seen_apart

# Rows that are worked on at once, at most, and numbers of their scores: they stay in the cache.
ROWS, NUMBERS = 4096, 2**17


class TermScores(NamedTuple):
    """Scores of some units, of one observed variable or of several that are compared together. All private.

    Attributes
    ----------
    own : ndarray, shape (m, k)
        Derivatives of the unit's log-likelihood by its k predictors; or by phi, k = p.
    group : ndarray, shape (G, m, k)
        Of the outcomes that it is compared with: its own and its twins', or all there are. G is 0 where the
        model does not say how to draw.
    weights : ndarray, shape (G, m), or None
        Probabilities of the outcomes; None: all are equal.
    positions : list of ndarray of int, shape (m, j)
        Coordinates of phi that are looked up.
    pieces : list of (Piece, ndarray or None), or None
        What rows consist of; None: scores are by phi.
    """

    own: np.ndarray
    group: np.ndarray
    weights: np.ndarray | None
    positions: list[np.ndarray]
    pieces: list[tuple[Piece, Any]] | None

    def rows(self, metric: np.ndarray) -> np.ndarray:
        """Rows x_a of the predictors, times a matrix of shape (q, p): shape (k, m, q), or (k, 1, q).

        The score in phi is ``sum_a own[:, a] x_a``, and so for the group.
        """
        if self.pieces is None:
            return np.ascontiguousarray(metric.T)[:, None, :]
        apart = any(other is not None for _, other in self.pieces)
        return rows_in(metric, self.pieces, len(self.own) if apart else 1, self.own.shape[1])


class Chunk(NamedTuple):
    """Scores of some units: which, and for each group of observed variables."""

    units: slice
    terms: list[TermScores]


class Twins:
    """Scores of all records and of their twins, at public parameters.

    Parameters
    ----------
    records : RecordModel

    Attributes
    ----------
    size : int
        p, number of likelihood coordinates.
    names : list of list of str
        Observed variables that are compared together: each by itself, unless no density reads anything of
        the records but outcomes.
    unlike : dict of str to str
        Observed variables of which there are no twins, and why.
    finite : dict of str to int
        Those of which all outcomes are taken, and how many there are.
    lookups : list of ndarray of int, shape (G, q)
        Coordinates of phi of which each record touches those of one row, or none.

    Raises
    ------
    ModelRefusedError
        An observed variable has a log-likelihood without derivatives.

    Notes
    -----
    **Privacy.** All of this is decided from the graph and from shapes. What calls give is private: row i is a
    function of record i, of phi and of secret randomness. A call neither raises nor warns because of what a
    record holds; where a score does not exist there is NaN.
    """

    def __init__(self, records: Any):
        self._records, reading, seen = records, records.reading, records.coordinates
        self.size: int = seen.size
        self.n = records.n
        self.unlike: dict[str, str] = {}
        self.finite: dict[str, int] = {}
        self._outcomes = {
            name: outcome_like(rv, reading.n_rows, reading.opaque.values[rv])
            for name, rv in reading.opaque.observed.items()
        }
        by_rows = records.unit_of_row is None
        terms = terms_with(records, self._outcomes)
        for name, rv in reading.opaque.observed.items() if by_rows else ():
            count = count_outcomes(reading, rv, seen)
            if count is not None:
                self.finite[name] = count
        self.names = self._together(terms)
        self._scores = [
            OutcomeScores(
                records,
                {name: terms[name] for name in names},
                self._outcomes,
                self.finite.get(names[0]),
                by_rows,
            )
            for names in self.names
        ]
        self._draws: dict[str, Draw] = {}
        for names in self.names:
            if names[0] not in self.finite:
                self._find_draws(names)
        whole, looked_up = self._seen()
        self.lookups = seen_apart([one for scores in self._scores for one in scores.lookups], whole)
        self.parts, self.rank = len(self.names), max(scores.size for scores in self._scores)
        # Coordinates in which a unit can have a score, at most: of a look-up one a number.
        self.touched = min(int(whole.sum()) + looked_up, self.size)

    def _seen(self) -> tuple[np.ndarray, int]:
        """Coordinates of phi that a unit may see other than by look-ups; how many it looks up, at most."""
        whole, looked_up = np.zeros(self.size, dtype=bool), 0
        for scores in self._scores:
            whole |= not scores.pieces
            for piece in scores.pieces:
                if piece.kind == "lookup":
                    looked_up += piece.numbers
                else:
                    whole[np.ravel(piece.columns)] = True
        return whole, looked_up

    def _together(self, terms: Mapping[str, Variable]) -> list[list[str]]:
        """Names, all in one list if no density reads more of the records than outcomes."""
        if not self.finite and set(self._records._roots).isdisjoint(ancestors(list(terms.values()))):
            return [list(terms)]
        return [[name] for name in terms]

    def _find_draws(self, names: Sequence[str]) -> None:
        """Of observed variables that are compared together; one that has none leaves the others without."""
        reading, seen = self._records.reading, self._records.coordinates
        try:
            found = {
                name: draw_of(reading, reading.opaque.observed[name], seen.replaced, seen.shapes)
                for name in names
            }
        except NotGenerativeError as error:
            self.unlike |= dict.fromkeys(names, str(error))
        else:
            self._draws |= found

    @cached_property
    def _drawing(self) -> dict[str, tuple[Callable[..., Any], int]]:
        """Compiled draws, and how many generators each needs."""
        return {
            name: (compiled_draw(self._records, draw), len(draw.generators))
            for name, draw in self._draws.items()
        }

    def __call__(self, points: np.ndarray, twins: int, random: Any) -> Iterator[Chunk]:
        """Go through all units in chunks.

        Parameters
        ----------
        points : ndarray, shape (p,) or (q, p)
            What phi is; or may be, each point as likely as the others: scores are then of the mean of the
            likelihoods, and twins are drawn at all of them.
        twins : int
            K, number of outcomes that are drawn for each record, where they are drawn.
        random : PrivacyRandom

        Yields
        ------
        Chunk
        """
        points = np.atleast_2d(points)
        own = {name: self._own[name]() for name in self._outcomes}
        drawn, fit = self._drawn(points, twins, random)
        records = self._records
        roots = records._roots
        most = min(ROWS, NUMBERS // self.rank)
        for units, rows, first in chunks_of(records.n_rows, most, *records._rows_of_unit):
            data = [part_of(graph.leaf_value(root), rows, axis) for root, axis in roots.items()]
            terms = []
            for scores in self._scores:
                here = [part_of(own[name], rows, 0) for name in scores.names]
                finite = scores.names[0] in self.finite
                at = MeanLikelihood(scores, points, data, len(here[0]), first, finite)
                mine = at(here)[0]
                group, weights = mine[None][:0], None
                if finite:
                    group, weights = at.all_outcomes(len(mine))
                elif twins and scores.names[0] in drawn:
                    group = np.empty((twins + 1, *mine.shape))
                    group[0] = mine
                    for k in range(twins):
                        group[k + 1] = at([part_of(drawn[name][k], rows, 0) for name in scores.names])[0]
                    good = np.all([part_of(fit[name], rows, 0) for name in scores.names], axis=0)
                    if first is not None:
                        good = np.logical_and.reduceat(good, first)
                    group[1:, ~good] = np.nan
                terms.append(TermScores(mine, group, weights, at.positions, at.pieces))
            yield Chunk(units, terms)

    @cached_property
    def _own(self) -> dict[str, Callable[[], np.ndarray]]:
        """Recorded outcomes, as arrays of the type of what is drawn."""
        return {name: recorded(self._records, name, place) for name, place in self._outcomes.items()}

    def _drawn(
        self, points: np.ndarray, twins: int, random: Any
    ) -> tuple[dict[str, list[np.ndarray]], dict[str, np.ndarray]]:
        """Outcomes of all rows, K times, at one point after the other; and which rows have them."""
        drawn: dict[str, list[np.ndarray]] = {}
        fit: dict[str, np.ndarray] = {}
        for name in self._draws if twins else ():
            function, generators = self._drawing[name]
            drawn[name], fit[name] = [], np.ones(self._records.n_rows, dtype=bool)
            for k in range(twins):
                point = points[k % len(points)]
                outcome, good = guarded(
                    function, point, *random.generators(generators), what="Outcomes could not be drawn"
                )
                drawn[name].append(outcome)
                fit[name] &= good
        return drawn, fit


def compiled_draw(records: Any, draw: Draw) -> Callable[..., Any]:
    """Compile a draw: a function of phi and of its generators."""
    seen = records.coordinates
    # Numba's samplers do not raise, as those of NumPy do where a covariance is not positive definite.
    settings = {
        **records.compile_kwargs,
        "mode": "NUMBA",
        "private": records._roots,
        "random": True,
        "trusted": records.reading.trusted,
        "trust_input": True,
    }
    inputs = [seen.vector, *(In(generator, mutable=True) for generator in draw.generators)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a sampler is NumPy's or SciPy's
        return compile_graph(inputs, seen.joined([draw.outcome, draw.fit]), **settings)


def recorded(records: Any, name: str, place: Variable) -> Callable[[], np.ndarray]:
    """Recorded outcomes of an observed variable, as an array of the type of what is drawn."""
    opaque = records.reading.opaque
    outcome = pt.cast(opaque.values[opaque.observed[name]], cast(Any, place).type.dtype)
    return _called(compiled([], outcome, {}, private=records._roots))


def _called(function: Callable[..., Any]) -> Callable[[], np.ndarray]:
    return lambda: guarded(function, what="The observed values could not be read")
