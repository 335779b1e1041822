"""Censored times until an event: records are compared with twins interval by interval, while at risk.

Where the event of a record was observed, its censoring bound was not reached, and many tables do not have it:
the model then has ``switch(seen, inf, time)`` as the bound, or an array with such numbers. The twins of such
a record would never be censored, while those of a censored record would be: the bound would depend on the
outcome, and a record and its twins would not be exchangeable. Within a short interval, however, a record at
risk is exchangeable with its twins at risk, whatever the bound that it does not reach (docs/proofs/twins,
section 2).
"""

from collections.abc import Callable, Sequence

import numpy as np

#: A `pymc_dp.records.scores_at.ScoresAt`.
type Scores = Callable[[Sequence[Sequence[np.ndarray]], int], list[np.ndarray]]

# Cumulative hazards at the ends of the intervals in which a record is compared; intervals are longer where
# few are at risk. What happens beyond the last one, 4% of the events, is left out.
_HAZARDS = 0.3, 0.65, 1.05, 1.6, 2.3, 3.3
#: Number of intervals.
INTERVALS = len(_HAZARDS)
#: Number of outcomes that are drawn for each record, besides its twins, to find its intervals.
FOR_INTERVALS = 8


@np.errstate(all="ignore")
def is_unknown(outcome: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Return whether bounds are unknown: infinite, missing, or very large compared with the outcome."""
    # A bound of more than this many times the outcome counts as unknown.
    stands_for_unknown = 1e3
    return ~np.isfinite(bound) | (np.abs(bound) > stands_for_unknown * np.abs(outcome))


@np.errstate(all="ignore")
def in_intervals(
    at: Scores, outcome: np.ndarray, bound: np.ndarray, twins: Sequence[np.ndarray], most: int
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Compute scores of rows and of their twins in each interval, and weights of both.

    Parameters
    ----------
    at : callable
        A `ScoresAt` of outcomes and bounds, with log-densities: for an outcome that equals its bound these
        are of the probability to be beyond the bound.
    outcome, bound : ndarray, shape (m,)
    twins : sequence of ndarray, shape (m,)
        `FOR_INTERVALS` outcomes to find the intervals, then the K twins; none is censored.
    most : int
        See `ScoresAt`.

    Returns
    -------
    list of (ndarray, ndarray, ndarray)
        For each interval: the rows' scores, shape (m, k); scores of the groups, (1 + K, m, k); and weights,
        (1 + K, m). If a record is not at risk at the beginning of an interval, all scores of its group are
        zero; a twin that is not at risk has weight zero.

    Notes
    -----
    **Privacy.** Row i is a function of record i, of its twins and of public numbers.
    """
    several, twins = twins[:FOR_INTERVALS], twins[FOR_INTERVALS:]
    bound = np.where(np.isnan(bound), np.inf, bound)  # with a bound of NaN PyMC's density is uncensored
    never = np.full(len(outcome), np.inf)
    ends = _intervals(several, -np.array(at([[t, t] for t in several], most)[1]))
    # At an infinite bound there is no density; such a bound is not reached, and any other time may stand in.
    finite = np.where(np.isfinite(bound), bound, outcome)
    survived, _ = at([[t, t] for t in (*ends, finite)], most)
    survived, at_bound = survived[:-1], survived[-1]
    event, _ = at([[t, never] for t in (outcome, *twins)], most)
    times = np.array([outcome, *twins])
    seen, possible = outcome < bound, outcome <= bound
    found = []
    for j, end in enumerate(ends):
        begin, before = (never * -1, 0.0) if j == 0 else (ends[j - 1], survived[j - 1])
        last = np.minimum(end, bound)
        beyond = np.where((bound < end)[:, None], at_bound, survived[j])
        scores = np.where((times <= last)[:, :, None], event, beyond)
        scores[0] = np.where((seen & (outcome <= last))[:, None], event[0], beyond)
        scores -= before
        at_risk = times > begin
        scores = np.where(at_risk[:, :, None], scores, scores[0])
        here = at_risk[0]
        scores[:, ~here] = 0.0
        at_risk[:, ~here] = True
        scores[:, ~(possible & np.isfinite(end) & (end > begin))] = np.nan
        found.append((scores[0].copy(), scores, at_risk / at_risk.sum(axis=0)))
    return found


def _intervals(times: Sequence[np.ndarray], hazards: np.ndarray) -> np.ndarray:
    """Interpolate the ends of intervals, shape (`INTERVALS`, m), from times and their cumulative hazards."""
    order = np.argsort(np.array(times), axis=0)
    sorted_times = np.take_along_axis(np.array(times), order, axis=0)
    hazards = np.take_along_axis(hazards, order, axis=0)
    ends = []
    # Least difference of the cumulative hazards of two outcomes, by which an interpolation between them
    # divides.
    least_hazard_difference = 1e-12
    for hazard in _HAZARDS:
        k = np.clip(np.sum(hazards < hazard, axis=0) - 1, 0, len(hazards) - 2)[None]
        (t, after), (h, more) = (
            (np.take_along_axis(each, k, 0)[0], np.take_along_axis(each, k + 1, 0)[0])
            for each in (sorted_times, hazards)
        )
        ends.append(t + (hazard - h) / np.maximum(more - h, least_hazard_difference) * (after - t))
    return np.maximum.accumulate(np.array(ends), axis=0)
