"""Costs of events: accountants, each an upper bound of the same trade-off curve; the smallest is taken.

An accountant is a function from an `EventSet` to its trade-off curve, or None where it has no bound.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Protocol

from dp_accounting import dp_event

from pymc_dp.bounds import check_delta, is_number
from pymc_dp.privacy.accounting import gaussian, loss_distribution, rdp
from pymc_dp.privacy.accounting.costs import costs_of, event_rdp, mu_squared, total_curve
from pymc_dp.privacy.accounting.event_sets import Events, EventSet
from pymc_dp.privacy.accounting.gaussian_limit import GaussianLimit, Release
from pymc_dp.privacy.accounting.poisson_mixture import PoissonMixture
from pymc_dp.privacy.accounting.sampled_gaussian import WHOLE, Lossy, SampledGaussian, strongest
from pymc_dp.rounding import round_up

# Factor by which results of closed forms are rounded up: more than the rounding error of a few operations.
_UP = 1 + 1e-12


class TradeOff(Protocol):
    """Upper bound of an (epsilon, delta) curve."""

    def epsilon(self, delta: float) -> float:
        """Return epsilon at `delta` in (0, 1); inf if there is no bound."""

    def delta(self, epsilon: float) -> float:
        """Return delta at `epsilon` >= 0; 1 if there is no bound."""


@dataclass(frozen=True)
class GaussianTradeOff:
    """Exact curve of Gaussian differential privacy.

    Parameters
    ----------
    mu : float
    """

    mu: float

    def epsilon(self, delta: float) -> float:
        """Return the exact epsilon, rounded up."""
        return float(gaussian.epsilon(self.mu, delta))

    def delta(self, epsilon: float) -> float:
        """Return the exact delta, rounded up."""
        return float(gaussian.delta(self.mu, epsilon))


def exact_gaussian(events: EventSet) -> GaussianTradeOff | None:
    """Compose Gaussian releases, and decisions charged as the releases behind them: ``mu^2 = sum 1 / nm^2``.

    The release behind a decision is the noisy log-ratio that it is computed from.
    """
    if not all(costs_of(event).gaussian for event in events.counts):
        return None
    squared = sum(count * mu_squared(event) for event, count in events.counts.items())
    return GaussianTradeOff(math.sqrt(squared) * _UP)


class Renyi:
    """Sum of Renyi curves, with decisions charged for the bit (docs/proofs/decision_accounting)."""

    def __init__(self, events: EventSet):
        self._curve = total_curve(_coarsened(events), events.neighboring_relation)
        self._excluded = renyi_excluded(events)

    def epsilon(self, delta: float) -> float:
        """Return an upper bound."""
        share = delta if self._excluded == 0 else (1 - rdp.EXCLUDED_SHARE) * delta
        value = max(rdp.smallest(self._curve, lambda a, d: rdp.epsilon_at(a, d, share)), 0.0) * _UP
        return math.inf if rdp.lost(self._excluded, value) > delta - share else value

    def delta(self, epsilon: float) -> float:
        """Return an upper bound."""
        log_delta = rdp.smallest(self._curve, lambda a, d: rdp.log_delta_at(a, d, epsilon))
        return min(math.exp(min(log_delta, 0.0)) * _UP + rdp.lost(self._excluded, epsilon), 1.0)


def renyi_excluded(events: EventSet) -> float:
    """Return the probability of rare events outside of which the Renyi bounds hold, summed over events.

    These are multiplicities of Poisson mixtures above the cap, and the excluded events of approximate zCDP.
    """
    return sum(count * costs_of(event).excluded(event) for event, count in events.counts.items())


def _coarsened(events: EventSet) -> Mapping[dp_event.DpEvent, int]:
    """Round noise down to that of a similar event, if there are many noise scales."""
    if len(events.counts) <= 32:
        return events.counts
    noisy = [event for event in events.counts if not costs_of(event).decision]
    losses = {event: costs_of(event).loss(event, events.neighboring_relation) for event in noisy}
    standing = {one: event for event, one in losses.items() if one}
    leaders = strongest(standing, 1.01)
    result: dict[dp_event.DpEvent, int] = defaultdict(int)
    for event, count in events.counts.items():
        one = losses.get(event)
        result[standing[leaders[one]] if one else event] += count
    return result


def privacy_loss_distribution(events: EventSet, coarse: bool = False) -> TradeOff | None:
    """Compose loss distributions numerically; penalty decisions are charged as the releases behind them."""
    kind, found = loss_distribution.LossDistribution, losses(events.counts, events.neighboring_relation)
    if found is None and events.neighboring_relation == "substitute":
        kind, found = loss_distribution.Replacement, _halves(events.counts)
    try:
        return None if found is None else kind(found, coarse)
    except OverflowError:
        return None


def losses(counts: Mapping[dp_event.DpEvent, int], neighboring_relation: str) -> dict[Lossy, int] | None:
    """Return mechanisms with loss distributions that bound those of events; None if an event has none.

    All full-batch Gaussians, and penalty decisions (functions of one), become a single Gaussian.
    """
    found: dict[Lossy, int] = defaultdict(int)
    squared = 0.0
    for event, count in counts.items():
        one = costs_of(event).loss(event, neighboring_relation)
        if one is None:
            return None
        if one.kind == WHOLE:
            squared += count * one.mu**2
        else:
            found[one] += count
    if squared > 0:
        found[SampledGaussian(1.0, math.sqrt(squared), WHOLE)] = 1
    return dict(found)


def _halves(counts: Mapping[dp_event.DpEvent, int]) -> dict[Lossy, int] | None:
    """Return half of a replacement for each event under "substitute"; None if one of them cannot be halved.

    Half of a replacement is the removal (or addition) of a record that enters a Poisson number of times, and
    for a Gaussian a shift of its mean by half of the sensitivity.
    """
    found = losses(counts, "add_remove") or {}
    if {one.kind for one in found} - {WHOLE} != {PoissonMixture.kind}:
        return None
    return {replace(one, mu=one.mu / 2) if one.kind == WHOLE else one: n for one, n in found.items()}


def gaussian_limit(events: EventSet) -> GaussianLimit | None:
    """Bound many small releases by one Gaussian (docs/proofs/gaussian_limit); decisions count as the bit.

    A decision of bounded range costs at most a Gaussian (docs/accounting, Proposition 1).
    """
    squared, releases, relation = 0.0, [], events.neighboring_relation
    for event, count in events.counts.items():
        costs, most = costs_of(event), mu_squared(event)
        if costs.gaussian and not costs.decision:
            squared += count * most
        else:
            most = min(most, costs.probit_shift(event, relation) ** 2)
            releases.append(Release(partial(event_rdp, event, neighboring_relation=relation), most, count))
    if not 0 < len(releases) <= 16:
        return None
    return GaussianLimit(releases, squared, renyi_excluded(events))


#: Accountants by name; those that are fast come first.
ACCOUNTANTS: dict[str, Callable[[EventSet], TradeOff | None]] = {
    "exact Gaussian": exact_gaussian,
    "Gaussian limit": gaussian_limit,
    "RDP": Renyi,
    "PLD": privacy_loss_distribution,
}


def never_best(events: EventSet) -> set[str]:
    """Return accountants that can be omitted: another one, valid for these events, is never larger."""
    costs = [costs_of(event) for event in events.counts]
    if not all(one.gaussian for one in costs):
        return set()
    return {"PLD"} if any(one.decision for one in costs) else {"PLD", "RDP"}


@dataclass(frozen=True)
class Guarantee:
    """Trade-off curve of a set of events.

    Parameters
    ----------
    events : EventSet
    reference_delta : float
        Delta at which `accountant` and `by_accountant` are evaluated.

    Notes
    -----
    **Privacy.** Each accountant bounds the same mechanism from above, so the smallest of them is a bound at
    every delta. The choice depends on the events and delta alone, never on data.
    """

    events: EventSet
    reference_delta: float = 1e-6

    @property
    def is_private(self) -> bool:
        """Whether every event has a guarantee."""
        return all(costs_of(event).private for event in self.events.counts)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that a valid accountant proves at `delta`; inf if none does.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Raises
        ------
        ValueError
            `delta` is outside (0, 1).
        """
        check_delta(delta)
        return _smallest(self.events, "epsilon", float(delta))[0]

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta that a valid accountant proves at `epsilon`; 1 if none does.

        Raises
        ------
        ValueError
            `epsilon` is negative or NaN.
        """
        if not (is_number(epsilon) and epsilon >= 0):
            raise ValueError(f"epsilon must be at least 0, and in double precision, got {epsilon!r}.")
        return _smallest(self.events, "delta", float(epsilon))[0]

    @property
    def accountant(self) -> str:
        """Name of the accountant with the smallest epsilon at the reference delta."""
        return _smallest(self.events, "epsilon", self.reference_delta)[1]

    def by_accountant(self, delta: float | None = None) -> dict[str, float]:
        """Return epsilon at a delta by each accountant that has a bound, smallest first: all upper bounds.

        Parameters
        ----------
        delta : float, optional
            In (0, 1). Default: the reference delta.
        """
        at = self.reference_delta if delta is None else delta
        check_delta(at)
        built = {name: _trade_off(name, self.events) for name in ACCOUNTANTS} if self.is_private else {}
        found = {name: one.epsilon(at) for name, one in built.items() if one is not None}
        return dict(sorted(((name, e) for name, e in found.items() if math.isfinite(e)), key=lambda p: p[1]))

    def __str__(self) -> str:
        value = self.epsilon(self.reference_delta)
        return (
            f"({round_up(value)}, {round_up(self.reference_delta)})-differential privacy, "
            f"{self.events.neighboring_relation}, {self.accountant} accounting"
        )


@lru_cache(maxsize=64)
def _trade_off(name: str, events: EventSet) -> TradeOff | None:
    return ACCOUNTANTS[name](events)


@lru_cache(maxsize=256)  # a plan needs again what its search has computed
def _smallest(events: EventSet, quantity: str, at: float) -> tuple[float, str]:
    """Return the smallest epsilon at a delta, or delta at an epsilon, and the accountant that proves it."""
    best, name = math.inf if quantity == "epsilon" else 1.0, "none"
    if not all(costs_of(event).private for event in events.counts):
        return best, name
    if not events.counts:
        return 0.0, name
    for candidate in sorted(ACCOUNTANTS.keys() - never_best(events)):
        trade_off = _trade_off(candidate, events)
        value = math.inf if trade_off is None else getattr(trade_off, quantity)(at)
        if value < best:
            best, name = value, candidate
    return best, name


def compose(
    events: Events, neighboring_relation: str | None = None, *, reference_delta: float = 1e-6
) -> Guarantee:
    """Compose events on one data set.

    Parameters
    ----------
    events : DpEvent, EventSet, list, tuple or mapping
        As in `EventSet`: events, pairs (event, count), or a mapping of event to count. Their order does not
        matter: the composition may be adaptive.
    neighboring_relation : {"substitute", "add_remove"}, optional
        Needed unless `events` are `EventSet` objects, which have it.
    reference_delta : float
        Delta at which `Guarantee.accountant` and `Guarantee.by_accountant` are evaluated.

    Returns
    -------
    Guarantee

    Raises
    ------
    ValueError
        An event is unknown or invalid, different neighbouring relations are mixed, or `reference_delta` is
        outside (0, 1).

    Notes
    -----
    **Privacy.** Parameters of each event are fixed before the run or by public information. Each release may
    otherwise depend on everything released before: ordinary adaptive composition (docs/accounting,
    "Composition").
    """
    check_delta(reference_delta)
    return Guarantee(EventSet(events, neighboring_relation), reference_delta)
