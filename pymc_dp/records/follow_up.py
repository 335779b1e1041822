"""Times until an event, some of them censored: compared interval by interval, as long as a record is at risk.

Of a record whose event was seen the bound of its censoring was not reached, and many tables have none for
it: a model then says ``switch(seen, inf, time)``, or has an array with such numbers. A twin of such a record
would never be censored, and a record that was censored is known by its bound. But in a short interval a
record that is at risk is like its twins that are, whatever the bound is that it does not reach
(docs/proofs/twins, section 2).
"""

from collections.abc import Callable, Sequence

import numpy as np

#: A `pymc_dp.records.scores_at.ScoresAt`.
type Scores = Callable[[Sequence[Sequence[np.ndarray]], int], list[np.ndarray]]

# Cumulative hazards at the ends of the intervals in which a record is compared: longer ones where few are at
# risk. Beyond the last one, where 4% of the events are, what it says is left out.
_HAZARDS = 0.3, 0.65, 1.05, 1.6, 2.3, 3.3
#: How many these are.
INTERVALS = len(_HAZARDS)
# Hazards of two outcomes are taken to differ by so much, at least.
_TIE = 1e-12
#: Outcomes that are drawn to find a record's intervals.
FOR_INTERVALS = 8
# A bound that is so many times as large as the outcome stands for one that is not known.
_STANDS_FOR_UNKNOWN = 1e3


@np.errstate(all="ignore")
def is_unknown(outcome: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Whether bounds are infinite or missing, or as good as that beside their record's outcome."""
    return ~np.isfinite(bound) | (np.abs(bound) > _STANDS_FOR_UNKNOWN * np.abs(outcome))


@np.errstate(all="ignore")
def in_intervals(
    at: Scores, outcome: np.ndarray, bound: np.ndarray, twins: Sequence[np.ndarray], most: int
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Scores of rows and of their twins in each of some intervals, and weights of both.

    Parameters
    ----------
    at : callable
        A `ScoresAt` of outcomes and bounds: of an outcome that is its bound the score is that of the
        probability to be beyond it. With log-densities.
    outcome, bound : ndarray, shape (m,)
    twins : sequence of ndarray, shape (m,)
        `FOR_INTERVALS` outcomes for the intervals, and the others; none is censored.
    most : int
        See `ScoresAt`.

    Returns
    -------
    list of (ndarray, ndarray, ndarray)
        For each interval shapes (m, k), (1 + K, m, k) and (1 + K, m). In an interval at whose beginning
        a record is not at risk all of its scores are zero; a twin that is not has no weight.

    Notes
    -----
    **Privacy.** Row i is a function of record i, of its twins and of public numbers.
    """
    several, twins = twins[:FOR_INTERVALS], twins[FOR_INTERVALS:]
    bound = np.where(np.isnan(bound), np.inf, bound)  # PyMC's density of an outcome beside NaN is the law's
    never = np.full(len(outcome), np.inf)
    ends = _intervals(several, -np.array(at([[t, t] for t in several], most)[1]))
    # A bound that is not reached may be infinite, where there is no density: then it is looked at elsewhere.
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
    """Ends of intervals, shape (`INTERVALS`, m), by outcomes with these cumulative hazards."""
    order = np.argsort(np.array(times), axis=0)
    sorted_times = np.take_along_axis(np.array(times), order, axis=0)
    hazards = np.take_along_axis(hazards, order, axis=0)
    ends = []
    for hazard in _HAZARDS:
        k = np.clip(np.sum(hazards < hazard, axis=0) - 1, 0, len(hazards) - 2)[None]
        (t, after), (h, more) = (
            (np.take_along_axis(each, k, 0)[0], np.take_along_axis(each, k + 1, 0)[0])
            for each in (sorted_times, hazards)
        )
        ends.append(t + (hazard - h) / np.maximum(more - h, _TIE) * (after - t))
    return np.maximum.accumulate(np.array(ends), axis=0)
