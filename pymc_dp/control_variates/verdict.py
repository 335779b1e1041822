"""What clips cut of each parameter, and which results are not returned: functions of released numbers."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from pymc_dp.control_variates.by_parameter import ByParameter
from pymc_dp.control_variates.curvature import prior_curvature
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.errors import (
    ClippedRecordsError,
    ClippedRecordsWarning,
    ContradictionError,
    SurrogateWarning,
    TooFewRecordsError,
)
from pymc_dp.privacy.accounting import gaussian

# What may be missing of a parameter's location, in posterior standard deviations: said, and refused.
NOTABLE, LARGEST = 0.3, 1.0
# Two gradients contradict each other beyond this quantile of the distance that their noise explains, and this
# many times that distance: the quadratic between the two points is an approximation.
_ALARM, _ROOM = 1e-9, 1.2
# A chain is stuck below this quantile of the moves of one that accepts a tenth of what is expected.
_STUCK = 1e-3
# Of how much a posterior may lean towards its prior for the noise, in its own standard deviations.
_LEANING = 0.3
# Of the prior's variance, that a surrogate takes away.
_TOLD = 0.1
# Of how far a surrogate may be used: posterior standard deviations, plus those of its noise.
_NEAR, _WITHIN = 1.0, 3.0
# Warned of, in units of what is refused.
_WARNED = 1.5
# Parameters that a message names.
_NAMED = 5
# Records of a histogram that is seen, in those of a cell that is: norms are spread over some octaves. Half of
# the calls go through at 0.7 to 1.1 times as many (measured with 3 to 12 parameters, epsilon 1 to 4).
_SPREAD = 5.0
# Records times mu from which the noise of the last gradient lets half of the calls through.
_ENOUGH = 1000.0


class Cut(NamedTuple):
    """What clips cut, in standard deviations of the posterior before it is widened.

    Attributes
    ----------
    parameters : list of str
        As `arviz.summary` calls them; of a transformed one, the scale is that of its transform.
    put_back : list of float
        By how much what was measured moved the posterior back.
    left : list of float
        Standard deviation of what may still be missing. It is part of the widening.
    shown : list of float
        Share of the information about it that clipped gradients show, at most; NaN: not known. See
        `ByParameter.shown`.
    towards_prior : list of float
        By how much the widening moved it: see `ByParameter.towards_prior`.
    wider : list of float
        Share by which its standard deviation may be too large, at most, since Hessians were clipped.
    told : list of float
        Share of its prior's variance that the surrogate takes away: see `ByParameter.told`.
    """

    parameters: list[str]
    put_back: list[float]
    left: list[float]
    shown: list[float]
    towards_prior: list[float]
    wider: list[float]
    told: list[float]

    @property
    def worst(self) -> float:
        """Largest of `left`."""
        return max(self.left, default=0.0)

    def above(self, limit: float) -> str:
        """Parameters of which more than `limit` may be missing, the worst first."""
        order = [k for k in np.argsort(self.left)[::-1] if self.left[k] > limit]
        named = ", ".join(f"{self.parameters[k]} ({self.left[k]:.2g} sd)" for k in order[:_NAMED])
        return named + (f" and {len(order) - _NAMED} more" if len(order) > _NAMED else "")


def what_was_cut(surrogate: Surrogate, records: Any, names: Sequence[str]) -> Cut:
    """By parameter, at the surrogate's point.

    Parameters
    ----------
    surrogate : Surrogate
    records : RecordModel
        For prior and coordinates, which are public.
    names : sequence of str
        Of the d parameters.
    """
    jacobian = np.nan_to_num(records.coordinates.jacobian(surrogate.point))
    curvature = prior_curvature(records, surrogate.point)
    of = ByParameter(surrogate, curvature, jacobian)
    moved = of.towards_prior(records.log_prior_gradient(surrogate.point))
    columns = (*of.cut(), of.shown(), moved, of.wider(), of.told())
    return Cut(list(names), *([round(float(x), 4) for x in some] for some in columns))


def judge(surrogate: Surrogate, records: Any, cut: Cut, settings: ControlVariates) -> None:
    """Refuse a surrogate that is of no use, and warn of one whose results may be off.

    Raises
    ------
    ClippedRecordsError

    Warns
    -----
    ClippedRecordsWarning, SurrogateWarning
    """
    judge_cut(cut)
    judge_shown(cut, settings.least_shown)
    judge_missing(surrogate, cut)
    judge_prior(cut)
    judge_told(cut)
    judge_place(surrogate, records)


def judge_cut(cut: Cut) -> None:
    """Refuse a result of which too much may be missing, and warn of one of which a good deal may be.

    Raises
    ------
    ClippedRecordsError

    Warns
    -----
    ClippedRecordsWarning
    """
    remedy = (
        "Their records' gradients have long tails. More records or a larger epsilon help, and so do a "
        "likelihood with bounded gradients (a link, a cap on the values by a public rule) and lipschitz=."
    )
    if cut.worst > LARGEST:
        raise ClippedRecordsError(
            "What clips cut cannot be told well enough, in posterior standard deviations: "
            f"{cut.above(LARGEST)}. {remedy}"
        )
    if cut.worst > NOTABLE:
        warnings.warn(
            "Clips cut records that tell about these parameters; their posterior was moved back and widened, "
            f"but may be off by (one standard deviation): {cut.above(NOTABLE)}. {remedy}",
            ClippedRecordsWarning,
            stacklevel=2,
        )


def judge_shown(cut: Cut, least: float) -> None:
    """Refuse a result whose clipped gradients show too little of what the curvature knows.

    Parameters
    ----------
    cut : Cut
    least : float
        Smallest share; up to half as much again, to 1 at most, there is a warning.

    Raises
    ------
    ClippedRecordsError

    Warns
    -----
    ClippedRecordsWarning
    """
    few = [k for k in np.argsort(cut.shown) if cut.shown[k] < min(_WARNED * least, 1.0)]  # not NaN
    if not few:
        return
    named = ", ".join(f"{cut.parameters[k]} ({cut.shown[k]:.0%})" for k in few[:_NAMED])
    message = (
        "The gradients of records, clipped, show less of the information than the model's curvature says "
        f"that there is, about: {named}. Either a few records that are far from the rest were cut (rare "
        "outcomes, small groups): use more records, a larger epsilon, or a stronger prior. Or the data vary "
        "far less than the model has it (a fixed scale that is too large): give the scale a prior. If you "
        "know that it is the latter, ControlVariates(least_shown=...) lowers what is asked for. Or the "
        "search is at another mode, or arrived at none, where the model fits badly: start nearer (initval=)."
    )
    if cut.shown[few[0]] < least:
        raise ClippedRecordsError(message)
    warnings.warn(message, ClippedRecordsWarning, stacklevel=2)


def judge_missing(surrogate: Surrogate, cut: Cut) -> None:
    """Warn where the curvature expects records that no histogram showed, and noise hides if they were cut.

    Warns
    -----
    ClippedRecordsWarning
    """
    hidden = [cut.parameters[k] for k in np.flatnonzero(np.isnan(cut.shown))]
    if surrogate.missing > 0 and hidden:
        warnings.warn(
            "The model's curvature expects gradients that no histogram showed (rare outcomes, small groups; "
            "or a scale that is too large; or the search is at another mode, where the model fits badly). "
            "Clip bounds were raised for them; whether that was enough is hidden by noise, for: "
            f"{', '.join(hidden[:_NAMED])}. More records or a larger epsilon tell.",
            ClippedRecordsWarning,
            stacklevel=2,
        )


def judge_place(surrogate: Surrogate, records: Any) -> None:
    """Warn of a surrogate that is used further from its centre than noise explains.

    Warns
    -----
    SurrogateWarning
    """
    point = surrogate.point
    jacobian = np.nan_to_num(records.coordinates.jacobian(point))
    slope = records.log_prior_gradient(point)
    distance, spread = surrogate.place(prior_curvature(records, point), slope, jacobian)
    if spread > 0 and distance > _NEAR + _WITHIN * spread:
        warnings.warn(
            f"The surrogate's mode is {distance:.2g} posterior standard deviations from where it was made, "
            f"and its noise explains {spread:.2g}: the search may not have arrived. Where the likelihood is "
            "not quadratic over such a distance the posterior is off. Start nearer (initval=), use priors of "
            "the size that you expect, more records or a larger epsilon.",
            SurrogateWarning,
            stacklevel=2,
        )


def judge_prior(cut: Cut) -> None:
    """Warn where the widening moved a posterior towards its prior.

    Warns
    -----
    SurrogateWarning
    """
    far = [k for k in np.argsort(np.abs(cut.towards_prior))[::-1] if abs(cut.towards_prior[k]) > _LEANING]
    if far:
        named = ", ".join(f"{cut.parameters[k]} ({cut.towards_prior[k]:+.2g} sd)" for k in far[:_NAMED])
        warnings.warn(
            "Prior and likelihood are far apart, and the likelihood, weaker for the noise, gave way. Against "
            f"the exact posterior these were moved, in their own standard deviations: {named}. Check the "
            "prior (its centre, its units); ControlVariates(noise_aware=False) does not widen.",
            SurrogateWarning,
            stacklevel=2,
        )


def judge_told(cut: Cut) -> None:
    """Warn of parameters of which the surrogate knows no more than the prior.

    Warns
    -----
    SurrogateWarning
    """
    few = [cut.parameters[k] for k in np.argsort(cut.told) if cut.told[k] < _TOLD]
    if few:
        more = f" and {len(few) - _NAMED} more" if len(few) > _NAMED else ""
        warnings.warn(
            f"The released surrogate says next to nothing about: {', '.join(few[:_NAMED])}{more}. Their "
            "posterior is about their prior, and may be far wider than without privacy: either the data say "
            "little, or a few records that would say something were cut (a rare category or group). Use more "
            "records, a larger epsilon, or merge rare categories by a public rule.",
            SurrogateWarning,
            stacklevel=2,
        )


def judge_gradients(disagreement: float, size: int) -> None:
    """Refuse two released gradients that contradict each other.

    Parameters
    ----------
    disagreement : float
        Squared distance in units of its covariance: chi squared, if there is nothing but noise.
    size : int
        Degrees of freedom.

    Raises
    ------
    ContradictionError
    """
    limit = _ROOM * float(stats.chi2.isf(_ALARM, size))
    if not disagreement <= limit:
        raise ContradictionError(
            f"The gradients released at the last two points contradict each other: {disagreement:.3g} for a "
            f"chi-squared number of {size} degrees of freedom, at most {limit:.3g} is accepted. The "
            "likelihood may have no single mode, or be far from quadratic between the two; start nearer "
            "(initval=), use fewer parameters, or take a larger epsilon."
        )


def judge_acceptance(accepted: int, decisions: int, expected: float) -> None:
    """Refuse a chain that accepted far fewer moves than its noise explains.

    Parameters
    ----------
    accepted, decisions : int
    expected : float
        Share that would be accepted if the surrogate were the likelihood.

    Raises
    ------
    ContradictionError
        In fewer than one of 1,000 chains that accept a tenth of what is expected, or more.
    """
    if float(stats.binom.cdf(accepted, decisions, expected / 10)) < _STUCK:
        raise ContradictionError(
            f"The chain accepted {accepted} of {decisions} moves where a surrogate that fits has "
            f"{expected:.0%} accepted: it is not near the likelihood, and the draws are not of the "
            "posterior. Take fewer parameters, a larger epsilon, or structure='full'."
        )


def records_needed(settings: ControlVariates, mu_squared: float) -> tuple[float, float]:
    """Records below which no call can succeed, and a number that would do; from public numbers.

    A search starts with histograms of a small share of the budget. No cell of them can stand out where all
    records together do not. And the last gradient's noise grows with fewer records. All go like 1 / mu.
    """
    least = min(share for kind, share in settings.schedule() if kind == "histogram")
    cell = settings.significance * float(np.sqrt(2 / (least * mu_squared)))
    return cell, max(_SPREAD * cell, _ENOUGH / float(np.sqrt(mu_squared)))


def would_do(settings: ControlVariates, epsilon: float, delta: float, n: int) -> str:
    """Advice: how many records at this epsilon, and which epsilon for these records."""
    squared = float(gaussian.mu(epsilon, delta)) ** 2
    enough = records_needed(settings, squared)[1]
    low, high = epsilon, epsilon
    while records_needed(settings, float(gaussian.mu(high, delta)) ** 2)[1] > n and high < 1e4:
        low, high = high, 2 * high
    for _ in range(30):
        middle = 0.5 * (low + high)
        too_few = records_needed(settings, float(gaussian.mu(middle, delta)) ** 2)[1] > n
        low, high = (middle, high) if too_few else (low, middle)
    return f"About {enough:,.0f} records, or epsilon = {high:.3g}, would do."


def judge_price(settings: ControlVariates, epsilon: float, delta: float, n: int) -> None:
    """Refuse a call that cannot succeed, before it is paid for.

    Raises
    ------
    TooFewRecordsError

    Notes
    -----
    **Privacy.** n, epsilon and delta are public.
    """
    least, _ = records_needed(settings, float(gaussian.mu(epsilon, delta)) ** 2)
    if n < least:
        raise TooFewRecordsError(
            f"Too few records for this budget: {n:,}, and no cell of a histogram with fewer than {least:,.0f}"
            f" stands out of its noise. {would_do(settings, epsilon, delta, n)} Where all records are in one "
            "place, dp.release_likelihood needs no such histogram."
        )
