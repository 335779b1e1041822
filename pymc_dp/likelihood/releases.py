"""All releases of a likelihood: the count of unknown bounds, the searches, and the test of the fit."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from pymc_dp.likelihood.fit import judge_fit, share_of_fit, where_to_look
from pymc_dp.likelihood.identified import IdentifiedCoordinates
from pymc_dp.likelihood.measurements import AllSums, Count, Measurements, NoisySums
from pymc_dp.likelihood.mixtures import Message, Normal
from pymc_dp.likelihood.near_zero import NearZero
from pymc_dp.likelihood.points import UNBOUNDED
from pymc_dp.likelihood.rounds import Found
from pymc_dp.likelihood.search import Search
from pymc_dp.likelihood.shares import Portion, portions
from pymc_dp.likelihood.step_length import LONGEST_STEP
from pymc_dp.privacy.budget.known import AccuracyFacts, Censoring, Fit


def kept_shares(n: float, mu: float, neighboring_relation: str) -> dict[str, float]:
    """Return shares of the budget kept for the end, by the method of `Measurements` that spends each.

    Parameters
    ----------
    n : float
        Public number of records, exact or approximate.
    mu : float
        Gaussian differential privacy of the whole budget.
    neighboring_relation : {"substitute", "add_remove"}
    """
    shares = {"spread": share_of_fit(n, mu, neighboring_relation)}
    return {method: share for method, share in shares.items() if share > 0}


def _settle_bounds(measurements: AllSums, n: float) -> tuple[AllSums, AccuracyFacts]:
    """Count unknown bounds of censoring, and choose how records are compared.

    A comparison in intervals is right whether bounds are known or not, but it has less information
    (docs/proofs/twins, section 2). It is therefore chosen in case of doubt.

    Parameters
    ----------
    measurements : AllSums
    n : float
        Public number of records, exact or approximate.
    """
    # Share of the budget for the count of unknown bounds of censoring, if bounds are given as arrays.
    of_bounds = 0.03
    count = measurements.count_unknown_bounds(of_bounds)
    # All bounds are taken to be known if the noisy count of unknown ones is at most ``min(noises s, most n) +
    # near_zero n``, where s is the standard deviation of its noise and n the number of records. The last term
    # allows for outcomes near zero, whose bounds count as unknown.
    noises = 1.0
    most = 0.1
    near_zero = 0.005
    unknown = count.number > min(noises * count.noise, most * n) + near_zero * n
    never = [name for name, fit in measurements.doubtful.items() if not fit]
    said: Censoring = {
        "unknown": count.number,
        "noise": count.noise,
        "in_intervals": unknown,
        "in_doubt": unknown and bool(never),
        "said": _said(count, unknown, never),
    }
    return (measurements if unknown else measurements.with_known_bounds), {"censoring": said}


def _said(count: Count, unknown: bool, never: Sequence[str]) -> str:
    found = (
        f"of about {max(round(count.number), 0)} protected units (standard error {count.noise:.0f}) a bound "
        "is infinite, missing or far beyond the outcome"
    )
    if unknown and never:
        return (
            f"{found}. If that is so because the event was seen, the posterior is WRONG: outcomes of "
            f"{', '.join(never)} cannot be compared in intervals (docs/outcomes)."
        )
    if unknown:
        return (
            f"{found}: bounds were taken for unknown where the event was seen, times compared in intervals."
        )
    return f"{found}: bounds were taken for known of all records, times compared as a whole."


class Public(NamedTuple):
    """Public facts about the likelihood coordinates, from the model alone.

    Attributes
    ----------
    prior : Normal
        Approximation of their prior.
    start : ndarray, shape (p,)
        Where the search begins.
    near_zero : NearZero
        Coordinates of spreads; see there.
    longest : float
        Longest step: see `Search`.
    bounds : ndarray, shape (2, p) or (2, 1)
        Limits of the coordinates in the search.
    """

    prior: Normal
    start: np.ndarray
    near_zero: NearZero
    longest: float = LONGEST_STEP
    bounds: np.ndarray = UNBOUNDED


@threadpool_limits.wrap(limits=1, user_api="blas")
def search_from(measurements: AllSums, n: float, mu: float, public: Public) -> tuple[Found, AccuracyFacts]:
    """Make all releases, which were paid for: the likelihood that was found, and other facts on accuracy.

    BLAS uses one thread meanwhile: matrices are too small for more, and several threads wait for each other.
    """
    found, settled = [], AccuracyFacts()
    if measurements.doubtful:
        measurements, settled = _settle_bounds(measurements, n)
    for part, share, later in portions(measurements):
        one = _search(part, share, later, n, mu * math.sqrt(share), public)
        found.append(one._replace(shares=[share * own for own in one.shares]))
    whole = Found.joined(found)
    return whole, {**settled, "fit": look_at_fit(measurements, whole, public.prior, public.near_zero)}


def _search(
    measurements: NoisySums, share: float, later: float, n: float, mu: float, public: Public
) -> Found:
    """Search for the coordinates that are in some of the observed variables, with a portion of the budget."""
    start, spreads = public.start, public.near_zero.spreads
    seen = IdentifiedCoordinates(measurements.source, public.prior)
    own = NearZero({i: spreads[k] for i, k in enumerate(seen.kept) if k in spreads})
    within = seen.within(np.broadcast_to(public.bounds, (2, len(start))))
    sums, prior = Portion(measurements, seen, share, later), seen.prior(public.prior)
    search = Search(sums, n, mu, prior, own, public.longest, within, seen.pinned)
    with np.errstate(all="ignore"):
        try:
            found = search(seen.of(start))
            found = found._replace(
                point=seen.phi(found.point),
                message=seen.message(found.message),
                information=seen.matrix(found.information),
                least=seen.matrix(found.least),
                one_sided=seen.phi(found.one_sided),
            )
            known = bool(np.all(np.isfinite(found.information)))
        except np.linalg.LinAlgError:  # of released numbers
            known = False
        if not known:  # the released numbers give no usable matrix
            nothing = Message.nothing(len(start))
            point = seen.phi(seen.of(start))
            zero = nothing.information
            found = Found(point, nothing, search.rounds, search.shares, zero, zero, np.zeros_like(start))
        return found


def look_at_fit(measurements: NoisySums, found: Found, prior: Normal, near_zero: NearZero) -> Fit:
    """Release counts for the test of the fit, if a share was kept for it: see `judge_fit`."""
    nothing = judge_fit(None)
    if not isinstance(measurements, Measurements) or "spread" not in measurements.kept:
        return nothing
    if not np.any(found.message.information):
        return nothing
    try:
        psi, metric, wider, hardly = where_to_look(found.message, found.information, prior)
    except np.linalg.LinAlgError:  # of released numbers; the likelihood that was paid for is not lost
        return nothing
    phi = near_zero.phi(psi)
    metric = metric / near_zero.slopes(phi)
    is_finite = np.isfinite(phi).all() and np.isfinite(metric).all()
    return judge_fit(measurements.spread(phi, metric), wider, hardly) if is_finite else nothing
