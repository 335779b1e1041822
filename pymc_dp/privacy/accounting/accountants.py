"""What events cost: one accountant a function, each an upper bound of the same trade-off curve.

An accountant takes an `EventSet` and gives its trade-off curve, or says why it has none.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from dp_accounting import dp_event

from pymc_dp.privacy.accounting import gaussian, loss_distribution, rdp
from pymc_dp.privacy.accounting.costs import costs_of, event_rdp, total_curve
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.accounting.gaussian_limit import GaussianLimit, LimitTradeOff, Release
from pymc_dp.privacy.accounting.sampled_gaussian import half_replacements, sampled_gaussians
from pymc_dp.privacy.accounting.value_iteration import ValueIteration

# Renyi accounting of many different noise scales: neighbours within this ratio share the smallest.
_GROUP_RATIO = 1.01
_UNGROUPED = 32
_UP = 1 + 1e-12
_MOST_KINDS = 16
# Decisions that are followed, one by one or in blocks.
_MOST_DECISIONS = 100_000


class TradeOff(Protocol):
    """Upper bound of an (epsilon, delta) curve."""

    def epsilon(self, delta: float) -> float:
        """Epsilon at `delta` in (0, 1); inf if there is none."""

    def delta(self, epsilon: float) -> float:
        """Delta at `epsilon` >= 0; 1 if there is none."""


class NotApplicableError(ValueError):
    """The accountant has no bound for these events; the message says why."""


@dataclass(frozen=True)
class GaussianTradeOff:
    """Exact curve of Gaussian differential privacy.

    Parameters
    ----------
    mu : float
    """

    mu: float

    def epsilon(self, delta: float) -> float:
        """Exact, rounded up."""
        return float(gaussian.epsilon(self.mu, delta))

    def delta(self, epsilon: float) -> float:
        """Exact, rounded up."""
        return float(gaussian.delta(self.mu, epsilon))


def exact_gaussian(events: EventSet) -> GaussianTradeOff:
    """Gaussian releases, and decisions charged as the Gaussians behind them: ``mu^2 = sum 1 / nm^2``."""
    return GaussianTradeOff(math.sqrt(2 * _total_rho(events, bounded_range=False)) * _UP)


@dataclass(frozen=True)
class ConcentratedTradeOff:
    """zCDP: ``epsilon = rho + 2 sqrt(rho ln(1/delta))`` (Bun & Steinke 2016, Proposition 1.3).

    Parameters
    ----------
    rho : float
    """

    rho: float

    def epsilon(self, delta: float) -> float:
        """Upper bound."""
        return (self.rho + 2 * math.sqrt(self.rho * -math.log(delta))) * _UP

    def delta(self, epsilon: float) -> float:
        """Upper bound."""
        if self.rho == 0:
            return 0.0
        if epsilon <= self.rho or math.isinf(self.rho):
            return 1.0
        return min(math.exp(-((epsilon - self.rho) ** 2) / (4 * self.rho)) * _UP, 1.0)


def zero_concentrated(events: EventSet) -> ConcentratedTradeOff:
    """Sum of rho: ``1 / (2 nm^2)`` a Gaussian, ``eta^2 / 8`` a bounded-range one (Räisä 2021, Theorem 6)."""
    return ConcentratedTradeOff(_total_rho(events, bounded_range=True))


def _total_rho(events: EventSet, bounded_range: bool) -> float:
    rho = 0.0
    for event, count in events.counts.items():
        costs = costs_of(event)
        if costs.noise_multiplier is not None:
            noise = costs.noise_multiplier(event)
            rho += count / (2 * noise**2) if noise > 0 else math.inf
        elif costs.eta is not None and bounded_range:
            rho += count * costs.eta(event) ** 2 / 8
        else:
            raise NotApplicableError(f"{type(event).__name__} is not a Gaussian release")
    return rho


@dataclass(frozen=True)
class _Renyi:
    curve: rdp.Curve
    proxy: rdp.Curve | None
    excluded: float  # probability of the events in which a capped multiplicity matters

    def epsilon(self, delta: float) -> float:
        share = delta if self.excluded == 0 else 0.999 * delta
        value = rdp.smallest(self.curve, lambda a, d: rdp.epsilon_at(a, d, share), self.proxy)
        value = max(value, 0.0) * _UP
        if self.excluded and (value > 600 or (1 + math.exp(value)) * self.excluded > delta - share):
            return math.inf
        return value

    def delta(self, epsilon: float) -> float:
        log_delta = rdp.smallest(self.curve, lambda a, d: rdp.log_delta_at(a, d, epsilon), self.proxy)
        if self.excluded and epsilon > 600:
            return 1.0
        extra = (1 + math.exp(epsilon)) * self.excluded if self.excluded else 0.0
        return min(math.exp(min(log_delta, 0.0)) * _UP + extra, 1.0)


def renyi(events: EventSet) -> TradeOff:
    """Sum of Renyi curves; decisions charged as the release behind them."""
    curve = total_curve(_coarsened(events.counts), events.neighboring_relation, decisions=False)
    return _renyi(events, curve, None)


def decision(events: EventSet) -> TradeOff:
    """Sum of Renyi curves, with decisions charged for the bit (docs/proofs/decision_accounting)."""
    if not any(costs_of(event).decision for event in events.counts):
        raise NotApplicableError("there is no accept decision among the events")
    counts = _coarsened(events.counts)
    cheap = total_curve(counts, events.neighboring_relation, decisions=False)
    return _renyi(events, total_curve(counts, events.neighboring_relation, decisions=True), cheap)


def _renyi(events: EventSet, curve: rdp.Curve, proxy: rdp.Curve | None) -> TradeOff:
    if rdp.smallest(proxy or curve, lambda _, divergence: divergence) == math.inf:
        kinds = ", ".join(sorted({type(event).__name__ for event in events.counts}))
        raise NotApplicableError(
            f"no finite Renyi divergence under {events.neighboring_relation!r} for: {kinds}"
        )
    return _Renyi(curve, proxy, renyi_excluded(events))


def renyi_excluded(events: EventSet) -> float:
    """Probability outside which the Renyi bounds hold: capped multiplicities of Poisson mixtures."""
    excluded = ((costs_of(event).excluded, event, count) for event, count in events.counts.items())
    return sum(count * probability(event) for probability, event, count in excluded if probability)


def _coarsened(counts: Mapping[dp_event.DpEvent, int]) -> Mapping[dp_event.DpEvent, int]:
    """Round noise down to that of a neighbour, where a kind of event comes with many noise scales."""
    kinds: dict[tuple, list[tuple[float, dp_event.DpEvent]]] = defaultdict(list)
    for event in counts:
        noise_of = costs_of(event).noise
        kind, noise = (event, 0.0) if noise_of is None else noise_of(event)
        kinds[type(event), kind].append((noise, event))
    result: dict[dp_event.DpEvent, int] = defaultdict(int)
    for members in kinds.values():
        leader, least = members[0][1], -math.inf
        for noise, event in sorted(members, key=lambda pair: pair[0]):
            if len(members) <= _UNGROUPED or noise > _GROUP_RATIO * least:
                leader, least = event, noise
            result[leader] += counts[event]
    return result


def privacy_loss_distribution(events: EventSet, coarse: bool = False) -> TradeOff:
    """Numerical composition of (sub)sampled Gaussians; decisions charged as the Gaussians behind them."""
    counts, relation = events.counts, events.neighboring_relation
    mechanisms = sampled_gaussians(counts, relation)
    halves = half_replacements(counts) if relation == "substitute" else None
    kind = loss_distribution.Whole if halves is None else loss_distribution.Replacement
    found = mechanisms if halves is None else halves
    if found is None:
        raise NotApplicableError("an event is not a Gaussian release, sampled or not")
    try:
        return kind(found, coarse)
    except OverflowError as error:
        raise NotApplicableError(str(error)) from error


@dataclass(frozen=True)
class _Basic:
    total: float

    def epsilon(self, delta: float) -> float:
        return self.total

    def delta(self, epsilon: float) -> float:
        # Largest delta of a total-DP mechanism at epsilon: (e^total - e^epsilon) / (e^total + 1).
        if epsilon >= self.total:
            return 0.0
        return min(-math.expm1(epsilon - self.total) / (1 + math.exp(-self.total)) * _UP, 1.0)


def basic(events: EventSet) -> TradeOff:
    """Sum of epsilons of pure-DP events (bounded-range decisions); delta is 0."""
    total = 0.0
    for event, count in events.counts.items():
        eta = costs_of(event).eta
        if eta is None:
            raise NotApplicableError(f"{type(event).__name__} is not pure-DP")
        total += count * eta(event)
    return _Basic(total * _UP)


def gaussian_limit(events: EventSet) -> LimitTradeOff:
    """Many small releases as one Gaussian (docs/proofs/gaussian_limit), decisions charged for the bit.

    Those of bounded range cost at most a Gaussian each (docs/accounting, Proposition 1).
    """
    squared, releases, relation = 0.0, {}, events.neighboring_relation
    for event, count in events.counts.items():
        costs = costs_of(event)
        noise = costs.noise_multiplier(event) if costs.noise_multiplier else 0.0
        most = 1 / noise**2 if noise > 0 else math.inf
        if costs.noise_multiplier and not costs.decision:
            squared += count * most
            continue
        if costs.probit_shift is not None:
            most = costs.probit_shift(event, relation) ** 2
        divergence = partial(event_rdp, event, neighboring_relation=relation, decisions=True)
        releases[event] = Release(divergence, most, count)
    if not releases:
        raise NotApplicableError("all releases are Gaussian")
    if len(releases) > _MOST_KINDS:
        raise NotApplicableError("too many different releases")
    kinds = {event: one.count for event, one in releases.items()}
    return LimitTradeOff(kinds, GaussianLimit(list(releases.values())), squared, renyi_excluded(events))


def value_iteration(events: EventSet) -> ValueIteration:
    """Value of the adaptive adversary: decisions of one kind on batches (docs/proofs/value_iteration)."""
    (event, count), *others = events.counts.items() or [(None, 0)]
    corners = None if others or event is None else costs_of(event).corners
    found = None if corners is None else corners(event)
    # Decisions on all records are as well charged by the Gaussian limit, within a tenth of their number.
    if found is None or not 0 < count <= _MOST_DECISIONS:
        raise NotApplicableError("not decisions of the penalty test on batches alone")
    return ValueIteration(found, count, total_curve(events.counts, events.neighboring_relation, True))


#: Name -> accountant, cheap ones first.
ACCOUNTANTS: dict[str, Callable[[EventSet], TradeOff]] = {
    "exact Gaussian": exact_gaussian,
    "Gaussian limit": gaussian_limit,
    "value iteration": value_iteration,
    "decision": decision,
    "PLD": privacy_loss_distribution,
    "RDP": renyi,
    "zCDP": zero_concentrated,
    "basic composition": basic,
}

#: Left out where many events are compared.
SLOW = ("value iteration",)


def never_best(events: EventSet) -> set[str]:
    """Accountants that another one, valid here, is never above: not worth their time."""
    costs = [costs_of(event) for event in events.counts]
    if all(one.noise_multiplier is not None for one in costs):
        return {"RDP", "zCDP", "PLD"} | (set() if any(one.decision for one in costs) else {"Gaussian limit"})
    if any(one.decision is not None for one in costs):
        return {"RDP", "zCDP"}
    return {"zCDP"}
