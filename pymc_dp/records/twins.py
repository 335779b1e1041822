"""Scores of records, and of outcomes that the model draws in their place: twins.

A record's twin has the record's covariates and an outcome drawn from the model at public parameters. At the
true parameters a record and its twins are exchangeable, so that a symmetric comparison of them has mean zero.
Where an outcome has few possible values, all of them are taken with their probabilities instead of draws.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from typing import NamedTuple, cast

import numpy as np
import pytensor
from pytensor.compile import SharedVariable
from pytensor.graph import ancestors

from pymc_dp.records import trial
from pymc_dp.records.draws import Draw, NotGenerativeError, draw_of
from pymc_dp.records.effect_scores import EffectScores
from pymc_dp.records.follow_up import INTERVALS, in_intervals
from pymc_dp.records.outcome_bounds import find_bounds, say_unlike
from pymc_dp.records.outcome_scores import OutcomeScores, Scored, count_outcomes, outcome_like, terms_with
from pymc_dp.records.outcomes import Found, Outcomes, Randomness, count_unknown_bounds
from pymc_dp.records.predictors import WithData, rows_in
from pymc_dp.records.scores_at import pull_back
from pymc_dp.records.sums import part_of
from pymc_dp.records.threads import Each
from pymc_dp.records.touched import in_order, read_whole, seen_apart
from pymc_dp.records.units import chunks_of

# Most rows of a chunk, including copies for several outcomes.
_ROWS = 4096


class TermScores(NamedTuple):
    """Scores of m rows, of one observed variable or of several that are compared together. All private.

    With effects of persons these are the scores of persons, not of rows.

    Attributes
    ----------
    own : ndarray, shape (m, k)
        Derivatives of each row's log-likelihood by its k predictors; or by phi, k = p.
    group : ndarray, shape (G, m, k)
        The same for the outcomes that a row is compared with: its own and its twins', or all that are
        possible. G is 0 where the model cannot draw outcomes.
    weights : ndarray, shape (G, m), or None
        Probabilities of the outcomes; None: all are equal.
    pieces : list of (Piece, ndarray or None), or None
        The parts of the rows ``x_a`` of the predictors; None: scores are by phi.
    at_risk : bool
        Whether weights are those of twins at risk: equal for the twins that are compared, 0 for the others.
    """

    own: np.ndarray
    group: np.ndarray
    weights: np.ndarray | None
    pieces: list[WithData] | None
    at_risk: bool = False

    def rows(self, metric: np.ndarray) -> np.ndarray:
        """Multiply the rows x_a of the predictors by a matrix of shape (q, p): shape (k, m, q), or (k, 1, q).

        The score by phi is ``sum_a own[:, a] x_a``, and likewise for the group.
        """
        if self.pieces is None:
            return np.ascontiguousarray(metric.T)[:, None, :]
        apart = any(other is not None for _, other in self.pieces)
        return rows_in(metric, self.pieces, len(self.own) if apart else 1, self.own.shape[1])


class Chunk(NamedTuple):
    """Scores of the rows of some units, for each group of observed variables.

    Attributes
    ----------
    units : slice
        The units' numbers.
    terms : list of TermScores
    first : ndarray of int, shape (units,), or None
        Position of each unit's first row. A unit's rows are in the order of the table, which has to be the
        order in which outcomes came about. None: there is one score for each unit.
    """

    units: slice
    terms: list[TermScores]
    first: np.ndarray | None = None


class Twins:
    """Scores of all records and of their twins, at public parameters.

    Parameters
    ----------
    records : RecordModel
    known : bool
        Whether censoring bounds that are arrays are assumed to be known for all records: see
        `with_known_bounds`.

    Attributes
    ----------
    size : int
        p, number of likelihood coordinates.
    names : list of list of str
        Observed variables that are compared together: each by itself, unless no density reads anything of
        the records but outcomes, or effects of persons are integrated. An outcome that other densities read
        comes before these.
    unlike : dict of str to str
        Observed variables that have no twins, and why.
    finite : dict of str to int
        Observed variables for which all possible outcomes are taken, and how many there are.
    bounds : dict of str to Variable
        Censoring bounds of those observed variables whose bound may be unknown for some records, and which
        are compared in intervals: see `pymc_dp.records.follow_up`.
    doubtful : dict of str to bool
        Observed variables whose censoring bounds are arrays, so that only the arrays' numbers show whether
        the bounds are known for all records; and whether these can be compared in intervals.
    lookups : list of ndarray of int, shape (G, q)
        Coordinates of phi: a record touches those of one row at most.
    sums : list of list of tuple of int and ndarray of int
        Records depend on phi only through sums, one for each list: of one coordinate from each array, with
        its sign.
    rank, touched : int
        Most numbers of a row's score; and most coordinates of phi in which a unit's score is not zero.

    Raises
    ------
    ModelRefusedError
        An observed variable has a log-likelihood without derivatives; or see `EffectScores`.

    Notes
    -----
    **Privacy.** All of this is decided from the graph and from shapes. What calls return is private: row i is
    a function of record i, of phi and of secret randomness; with effects, a person's score is a function of
    that person's rows. A call neither raises nor warns because of what a record holds; a score that does not
    exist is NaN.

    A twin of a person with effects has the person's covariates; its effects are drawn from their prior, and
    then all its outcomes given these. Its score is computed like the person's, from its outcomes and not from
    the effects that were drawn. So a person and its twins are exchangeable at the true parameters, whatever
    the error of the integral is.
    """

    def __init__(self, records: Scored, known: bool = False):
        self._records, reading, seen = records, records.reading, records.coordinates
        self.size: int = seen.size
        self.unlike: dict[str, str] = {}
        self.finite: dict[str, int] = {}
        observed, values = reading.opaque.observed, reading.opaque.values
        self._effects = {name: cast(SharedVariable, values[observed[name]]) for name in records.effects}
        self._outcomes = {
            name: outcome_like(rv, reading.n_rows, values[rv])
            for name, rv in observed.items()
            if name not in self._effects
        }
        self._arrays, self.bounds = find_bounds(reading.opaque, known, bool(self._effects))
        self.doubtful: Mapping[str, bool] = {name: name in self.bounds for name in self._arrays}
        self._scores: Sequence[OutcomeScores | EffectScores]
        if self._effects:
            self.names = [list(self._outcomes)]
            self._scores = [EffectScores(records, self._outcomes, self._effects)]
        else:
            self.names, self._scores = self._by_rows()
        self._draws: dict[str, Draw] = {}
        for names in self.names:
            if names[0] not in self.finite:
                self._draws |= self._find_draws([*self._effects, *names])
        # Whether bounds count as known is decided after payment: what either way cannot compare is noted now.
        self.unlike |= say_unlike(reading.opaque, self.bounds) | self.with_known_bounds.unlike
        self._note()

    def refuse_without_scores(self) -> None:
        """Refuse a model whose own outcomes have no derivatives where a search starts: see `trial`."""
        for scores, names in zip(self._scores, self.names, strict=True):
            draws = [self._draws[name] for name in names if name in self._draws]
            trial.refuse_without_scores(self._records, scores, draws, self.finite.get(names[0]))

    @cached_property
    def with_known_bounds(self) -> "Twins":
        """These twins under the assumption that arrays hold each record's true censoring bound."""
        return Twins(self._records, known=True) if self.doubtful else self

    def count_unknown_bounds(self) -> int:
        """Count the units that have an unknown censoring bound in an array. Private."""
        return count_unknown_bounds(self._records, self._arrays)

    @cached_property
    def apart(self) -> list["Twins"]:
        """Twins for sets of groups in `names` that have no coordinate of phi in common with another set."""
        found: list[tuple[set[int], list[int]]] = []
        for number, scores in enumerate(self._scores):
            if not scores.reads:  # no parameter is to be found
                continue
            alike = [one for one in found if not one[0].isdisjoint(scores.reads)]
            found = [one for one in found if one not in alike]
            read = set(scores.reads).union(*(read for read, _ in alike))
            found.append((read, [*(k for _, numbers in alike for k in numbers), number]))
        return [self] if len(found) <= 1 else [self._of(sorted(numbers)) for _, numbers in found]

    def _of(self, numbers: Sequence[int]) -> "Twins":
        """Return a copy for some of the groups in `names` alone."""
        part = copy(self)
        part.names, part._scores = [self.names[k] for k in numbers], [self._scores[k] for k in numbers]
        named = {name for names in part.names for name in names}
        part._outcomes = {name: place for name, place in self._outcomes.items() if name in named}
        part.bounds = {name: bound for name, bound in self.bounds.items() if name in named}
        part._draws = {name: draw for name, draw in self._draws.items() if name in named}
        part.apart = [part]
        part._note()
        return part

    def _note(self) -> None:
        """Set the attributes that are public properties of the scores."""
        records = self._records
        self.outcomes = Outcomes(records, self._outcomes, self._effects, self._draws, self.bounds)
        whole, looked_up = read_whole(((one.reads, one.pieces) for one in self._scores), self.size)
        self.lookups = seen_apart([one for scores in self._scores for one in scores.lookups], whole)
        self.sums = [one for scores in self._scores for one in scores.sums]
        self.rank = max(scores.size for scores in self._scores)
        # In a look-up a row depends on one coordinate for each number that it looks up.
        self.touched = min(int(whole.sum()) + looked_up, self.size)
        if records.unit_of_row is not None:  # a person's rows may touch all coordinates that are read
            self.rank = self.touched = len({k for scores in self._scores for k in scores.reads})
            self.lookups = []

    def _by_rows(self) -> tuple[list[list[str]], Sequence[OutcomeScores | EffectScores]]:
        """Return the names of observed variables that are compared together, and their scores."""
        records = self._records
        bounds = {
            name: pytensor.shared(np.zeros(records.n_rows), shape=(records.n_rows,)) for name in self.bounds
        }
        terms = terms_with(records, self._outcomes, bounds=bounds)
        blind = not bounds and set(records._roots).isdisjoint(ancestors(list(terms.values())))
        # Where possible, variables of a person's rows are compared together: else they would share one bound.
        joint = blind and len(terms) > 1 and records.unit_of_row is not None
        for name, rv in [] if joint else records.reading.opaque.observed.items():
            count = count_outcomes(records.reading, rv, records.coordinates)
            if count is not None:
                self.finite[name] = count
        # All together if no density reads more of the records than outcomes.
        together = not self.finite and blind
        groups = [list(terms)] if together else [[name] for name in in_order(records.reading, terms)]
        return groups, [
            OutcomeScores(
                records,
                {name: terms[name] for name in names},
                self._outcomes,
                self.finite.get(names[0]),
                bounds.get(names[0]),
            )
            for names in groups
        ]

    def _find_draws(self, names: Sequence[str]) -> dict[str, Draw]:
        """Return draws of variables that are drawn together; none if one of them cannot be drawn."""
        reading, seen = self._records.reading, self._records.coordinates
        try:
            observed, replaced = reading.opaque.observed, seen.replaced
            return {name: draw_of(reading, observed[name], replaced, name in self.bounds) for name in names}
        except NotGenerativeError as error:
            self.unlike |= {name: str(error) for name in names if name in self._outcomes}
            return {}

    def __call__(
        self, points: np.ndarray, twins: int, random: Randomness, each: Each = map
    ) -> Iterator[Callable[[], Chunk]]:
        """Iterate over all units in chunks, each of which is computed when it is called.

        Parameters
        ----------
        points : ndarray, shape (p,) or (q, p)
            The value of phi; or several equally likely values: scores are then derivatives of the logarithm
            of the mean likelihood, and twins are drawn at all points in turn. With effects, phi is the mean
            of the points.
        twins : int
            K, number of outcomes that are drawn for each record, where outcomes are drawn.
        random : PrivacyRandom
        each : callable
            Like `map`; outcomes are drawn with it.

        Yields
        ------
        callable
            Returns a `Chunk`. Several threads may call several of these at once: what they need is compiled.
        """
        points = np.atleast_2d(points)
        if self._effects:
            points = points.mean(axis=0)[None]
        found = self.outcomes(points, twins, random, each)
        records = self._records
        terms = len(self._scores) + (INTERVALS - 1) * len(self.bounds)
        # Most numbers in the scores of a chunk, so that they stay in the processor's cache.
        numbers = 2**17
        most = min(_ROWS, numbers // max(scores.size for scores in self._scores)) // terms
        for units, rows, first in chunks_of(records.n_rows, most, *records._rows_of_unit):
            chunk = partial(self._chunk, points, twins, found, units, rows, first, most)
            if units.start == 0:  # computed here, so that all is compiled before there are threads
                chunk = partial(Chunk, *chunk())
            yield chunk

    def _chunk(
        self,
        points: np.ndarray,
        twins: int,
        found: Found,
        units: slice,
        rows: slice | np.ndarray,
        first: np.ndarray | None,
        most: int,
    ) -> Chunk:
        """Compute the scores of some units: see `chunks_of`."""
        data, terms = self._records.data_of(rows), []
        of = partial(part_of, rows=rows, axis=0)
        for scores, names in zip(self._scores, self.names, strict=True):
            recorded = found.own, found.bounds
            own = [of(values[name]) for values in recorded for name in names if name in values]
            at = scores.at(points, data, len(own[0]), first)
            finite = names[0] in self.finite
            compared = twins if names[0] in found.drawn and not finite else 0
            if scores.bounded and compared:  # in intervals: see `pymc_dp.records.follow_up`
                (outcome, bound), (name,) = own, names
                bound, drawn = np.where(of(found.fit[name]), bound, np.nan), map(of, found.drawn[name])
                each = in_intervals(at, outcome, bound, list(drawn), most)
                terms += [TermScores(*scored, at.pieces, at_risk=True) for scored in each]
                continue
            outcomes = [own, *([of(found.drawn[name][k]) for name in names] for k in range(compared))]
            (group, *densities), weights = at(outcomes, most), None
            mine = group[0]
            if finite:
                group, weights = at.all_outcomes(most)
            elif compared:
                if scores.moves:
                    pull_back(group, densities[0][0], outcomes)
                good = np.all([of(found.fit[name]) for name in (*self._effects, *names)], axis=0)
                if first is not None and self._effects:
                    good = np.logical_and.reduceat(good, first)
                group[1:, ~good] = np.nan
            else:
                group = group[:0]
            terms.append(TermScores(mine, group, weights, at.pieces))
        return Chunk(units, terms, None if self._effects else first)
