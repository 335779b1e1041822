"""Cost of a single event by each method of accounting: the registry that all accountants read."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from dp_accounting import dp_event as base

from pymc_dp.bounds import NEIGHBORING_RELATIONS, check_count
from pymc_dp.privacy.accounting import events, rdp
from pymc_dp.privacy.accounting.decisions import (
    bounded_range_rdp,
    penalty_rdp,
    subset_barker_rdp,
    subset_penalty_rdp,
)
from pymc_dp.privacy.accounting.poisson_barker import largest_range, poisson_barker_rdp, probit_range
from pymc_dp.privacy.accounting.poisson_mixture import (
    PoissonMixture,
    largest_multiplicity,
    poisson_mixture_rdp,
)
from pymc_dp.privacy.accounting.sampled_gaussian import FIXED, WHOLE, Lossy, SampledGaussian

#: A function of an event, a Renyi order and a neighbouring relation, that returns a divergence.
Renyi = Callable[[base.DpEvent, float, str], float]
#: A function of an event.
type _Of[T] = Callable[[base.DpEvent], T]


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Upper bounds on the cost of one class of events; those that are not given are unknown.

    Each bounds the cost of the same release, for both orders of two neighbouring data sets.

    Attributes
    ----------
    check : callable
        Raises ValueError unless the event's fields are in range, for classes that do not check them.
    relations : tuple of str
        Neighbouring relations for which the event is defined.
    private : bool
        False if nothing bounds its cost.
    renyi : callable
        Renyi divergence of what is released: for a decision, of the decision alone, not of the noisy value
        that it is computed from.
    decision : bool
        Whether what is released is an accept decision.
    excluded : callable
        Probability of rare events outside of which the Renyi bounds hold.
    gaussian : bool
        Whether it is a full-batch Gaussian release with the event's `noise_multiplier`, or a function of one.
    probit_shift : callable
        The most by which one record moves the probit of a decision, under a relation: its mu; inf if unknown.
    loss : callable
        A mechanism whose loss distribution bounds that of the event, under a relation; None if there is none.
    """

    check: _Of[None] = lambda event: None
    relations: tuple[str, ...] = NEIGHBORING_RELATIONS
    private: bool = True
    renyi: Renyi = lambda event, order, relation: math.inf
    decision: bool = False
    excluded: _Of[float] = lambda event: 0.0
    gaussian: bool = False
    probit_shift: Callable[[base.DpEvent, str], float] = lambda event, relation: math.inf
    loss: Callable[[base.DpEvent, str], Lossy | None] = lambda event, relation: None


def _whole(event: base.DpEvent, relation: str) -> Lossy:
    noise = event.noise_multiplier
    return SampledGaussian(1.0, 1 / noise if noise > 0 else math.inf, WHOLE)


def _sampled(q: float, release: base.DpEvent, kind: str) -> Lossy:
    whole = _whole(release, kind)
    if q in (0, 1):
        return whole if q else SampledGaussian(1.0, 0.0, WHOLE)
    return SampledGaussian(q, whole.mu, kind)


def _mixture(event: base.DpEvent, relation: str) -> Lossy | None:
    if relation == "substitute":
        return None
    jump = math.log1p(event.clip_bound / event.rate) / event.noise_std
    return PoissonMixture(event.rate + event.clip_bound, jump)


def _numbers(*names: str) -> _Of[None]:
    """Return a check of fields of an event of `dp_accounting`, whose classes accept any number."""

    def check(event: base.DpEvent) -> None:
        for name in names:
            events.check_number(f"{type(event).__name__}.{name}", getattr(event, name))

    return check


def _check_sampled_gaussian(event: base.DpEvent) -> None:
    if type(event.event) is not base.GaussianDpEvent:
        name = type(event.event).__name__
        raise ValueError(f"sampling is accounted for Gaussian releases only, not for {name}.")
    _numbers("noise_multiplier")(event.event)


def _check_poisson_sampled(event: base.DpEvent) -> None:
    _numbers("sampling_probability")(event)
    if event.sampling_probability > 1:
        raise ValueError(f"sampling_probability must be in [0, 1], got {event.sampling_probability!r}.")
    _check_sampled_gaussian(event)


def _check_fixed_size(event: base.DpEvent) -> None:
    check_count("SampledWithoutReplacementDpEvent.source_dataset_size", event.source_dataset_size)
    check_count("SampledWithoutReplacementDpEvent.sample_size", event.sample_size)
    if event.sample_size > event.source_dataset_size:
        raise ValueError("sample_size is larger than source_dataset_size.")
    _check_sampled_gaussian(event)


def _poisson_sampled_rdp(event: base.DpEvent, order: float, relation: str) -> float:
    if relation != "add_remove":
        return math.inf
    return rdp.poisson_gaussian_rdp(event.sampling_probability, event.event.noise_multiplier, order)


def _fixed_size_rdp(event: base.DpEvent, order: float, relation: str) -> float:
    q = event.sample_size / event.source_dataset_size
    return rdp.subsampled_gaussian_rdp(q, event.event.noise_multiplier, order)


def _poisson_mixture_rdp(event: base.DpEvent, order: float, relation: str) -> float:
    substitute = relation == "substitute"
    return poisson_mixture_rdp(event.rate, event.clip_bound, event.noise_std, order, substitute=substitute)


def _batch_penalty_rdp(event: base.DpEvent, order: float, relation: str) -> float:
    size = event.sampling_probability, event.noise_multiplier
    return min(subset_penalty_rdp(*size, order), rdp.subsampled_gaussian_rdp(*size, order))


#: All events that can be charged for. Others are refused when an `EventSet` is made of them.
COSTS: dict[type[base.DpEvent], Costs] = {
    base.NonPrivateDpEvent: Costs(private=False),
    base.GaussianDpEvent: Costs(
        check=_numbers("noise_multiplier"),
        renyi=lambda e, order, _: rdp.gaussian_rdp(e.noise_multiplier, order),
        loss=_whole,
        gaussian=True,
    ),
    base.PoissonSampledDpEvent: Costs(
        check=_check_poisson_sampled,
        renyi=_poisson_sampled_rdp,
        loss=lambda e, relation: _sampled(e.sampling_probability, e.event, f"poisson {relation}"),
    ),
    base.SampledWithoutReplacementDpEvent: Costs(
        check=_check_fixed_size,
        relations=("substitute",),
        renyi=_fixed_size_rdp,
        loss=lambda e, _: _sampled(e.sample_size / e.source_dataset_size, e.event, FIXED),
    ),
    # docs/proofs/prepare, sections 2 and 3.
    base.ZCDpEvent: Costs(check=_numbers("rho", "xi"), renyi=lambda e, order, _: e.xi + e.rho * order),
    events.ApproximateZCDpEvent: Costs(
        renyi=lambda e, order, _: e.rho * order, excluded=lambda e: e.excluded
    ),
    # docs/proofs/decision_accounting, Theorem 2.
    events.PenaltyDecisionDpEvent: Costs(
        renyi=lambda e, order, _: penalty_rdp(e.noise_multiplier, order),
        decision=True,
        loss=_whole,
        gaussian=True,
    ),
    # Theorem 3.
    events.FixedScalePenaltyDecisionDpEvent: Costs(
        renyi=lambda e, order, _: penalty_rdp(e.noise_multiplier, order, e.noise_std),
        decision=True,
        loss=_whole,
        gaussian=True,
    ),
    # Proposition 1.
    events.BoundedRangeDecisionDpEvent: Costs(
        renyi=lambda e, order, _: bounded_range_rdp(e.eta, order),
        decision=True,
        probit_shift=lambda e, _: probit_range(e.eta),
    ),
    # Theorem 7.
    events.PoissonMixtureDpEvent: Costs(
        renyi=_poisson_mixture_rdp,
        excluded=lambda e: largest_multiplicity(e.rate, e.clip_bound)[1],
        loss=_mixture,
    ),
    # docs/proofs/fast_mh, Theorem 5.
    events.PoissonBarkerDecisionDpEvent: Costs(
        renyi=lambda e, order, relation: poisson_barker_rdp(
            e.rate, e.clip_bound, order, relation == "substitute"
        ),
        decision=True,
        probit_shift=lambda e, relation: probit_range(
            largest_range(e.rate, e.clip_bound, relation == "substitute")
        ),
    ),
    # docs/proofs/barker, Theorem 6; Räisä 2021, Theorem 9.
    events.BatchPenaltyDecisionDpEvent: Costs(
        relations=("substitute",),
        renyi=_batch_penalty_rdp,
        decision=True,
        probit_shift=lambda e, _: 1 / e.noise_multiplier,
        loss=lambda e, _: _sampled(e.sampling_probability, e, FIXED),
    ),
    # docs/proofs/barker, Theorem 4.
    events.BarkerMinibatchDpEvent: Costs(
        relations=("substitute",),
        renyi=lambda e, order, _: subset_barker_rdp(e.batch_size, e.dataset_size, order),
        decision=True,
    ),
}


def costs_of(event: base.DpEvent) -> Costs:
    """Return the costs of an event of an `EventSet`."""
    return COSTS[type(event)]


def event_rdp(event: base.DpEvent, order: float, neighboring_relation: str) -> float:
    """Return the bound on the Renyi divergence of one event at one order; inf where there is none.

    Parameters
    ----------
    event : DpEvent
        Event of an `EventSet`; decisions are charged for the bit.
    order : float
        > 1.
    neighboring_relation : {"substitute", "add_remove"}

    Returns
    -------
    float
    """
    return costs_of(event).renyi(event, order, neighboring_relation)


def mu_squared(event: base.DpEvent) -> float:
    """Return ``1 / nm^2`` of the full-batch Gaussian that an event is, or is a function of; inf if none."""
    noise = event.noise_multiplier if costs_of(event).gaussian else 0.0
    return 1 / noise**2 if noise > 0 else math.inf


def total_curve(counts: Mapping[base.DpEvent, int], relation: str) -> rdp.Curve:
    """Return the sum of the events' Renyi curves (adaptive composition; Mironov 2017, Proposition 1).

    The order is fixed by the search before the sum is used, and the parameters of the events are fixed in
    advance.
    """
    return cache(lambda order: sum(n * event_rdp(one, order, relation) for one, n in counts.items()))
