"""Privacy filter: whether one more request fits a budget if requests are chosen after seeing earlier results.

To compose the list of requests and compare it with (epsilon, delta) is valid for a list that was fixed in
advance. For requests that depend on earlier results it is not valid in general (Regehr et al. 2026). Two
additive rules are valid; both are proved or cited in docs/ledger, "Requests that depend on results".
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from dp_accounting import dp_event

from pymc_dp.bounds import check_choice, check_relation, check_target
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.composition import compose
from pymc_dp.privacy.accounting.costs import costs_of, event_rdp, mu_squared
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.accounting.rdp import EXCLUDED_SHARE, ORDERS, epsilon_at
from pymc_dp.rounding import UP


@dataclass(frozen=True)
class Cost:
    """Cost of a request, in the units of a filter.

    Attributes
    ----------
    amount : float
        Renyi divergence at the filter's order, or mu^2; inf if there is no bound.
    excluded : float
        Probability of the event outside of which `amount` holds.
    """

    amount: float
    excluded: float = 0.0


@dataclass(frozen=True)
class PrivacyFilter:
    """Rule that keeps all accepted requests within (epsilon, delta), whatever the requests depend on.

    Parameters
    ----------
    epsilon, delta : float
        Budget, finite.
    neighboring_relation : {"substitute", "add_remove"}
    accounting : {"renyi", "gaussian"}
        "renyi" accepts every event that has a Renyi bound, and allows 10-20% fewer Gaussian releases than
        "gaussian". The latter is exact, accepts Gaussian releases only, and charges penalty decisions like
        Gaussian releases.
    order : float, optional
        Renyi order, fixed before anything is requested. Default: the order that is best for Gaussian
        releases.

    Notes
    -----
    **Privacy.** At a fixed order, Renyi divergences of adaptively chosen mechanisms add up as long as their
    sum is bounded in advance (Feldman & Zrnic 2021); so do mu^2 in Gaussian differential privacy
    (Smith & Thakurta 2022). The first request is chosen before any result, so any accountant may price it. If
    it is accepted only on that ground, no budget remains after it.
    """

    epsilon: float
    delta: float
    neighboring_relation: str
    accounting: str = "renyi"
    order: float | None = None

    def __post_init__(self) -> None:
        check_target(self.epsilon, self.delta)
        check_relation(self.neighboring_relation)
        if math.isinf(self.epsilon):
            raise ValueError("epsilon must be finite: an infinite budget needs no ledger.")
        check_choice("accounting", self.accounting, ("renyi", "gaussian"))
        if self.accounting == "renyi" and self.order is None:
            best = max((float(order) for order in ORDERS), key=lambda order: self._room(order) / order)
            object.__setattr__(self, "order", best)
        if self.accounting == "renyi" and not (self.order is not None and 1 < self.order < math.inf):
            raise ValueError(f"order must be a finite number above 1, got {self.order!r}.")
        if self.accounting == "gaussian" and self.order is not None:
            raise ValueError("order belongs to accounting='renyi'.")

    def _room(self, order: float) -> float:
        return self.epsilon - epsilon_at(order, 0.0, (1 - EXCLUDED_SHARE) * self.delta)

    @property
    def capacity(self) -> Cost:
        """Largest total cost."""
        if self.order is None:
            return Cost(float(gaussian.mu(self.epsilon, self.delta)) ** 2)
        return Cost(self._room(self.order), EXCLUDED_SHARE * self.delta * math.exp(-self.epsilon) / 2)

    def cost(self, events: EventSet) -> Cost:
        """Return the cost of events; the amount is inf if one of them has no bound."""
        return _summed(
            (count, _leaf_cost(event, self.order, self.neighboring_relation))
            for event, count in events.counts.items()
        )

    def left(self, taken: Iterable[Cost]) -> Cost:
        """Return the capacity minus the costs so far; negative if a first request costs more by this rule."""
        capacity, used = self.capacity, _summed((1, cost) for cost in taken)
        return Cost(capacity.amount - used.amount, capacity.excluded - used.excluded)

    def accepts(self, taken: Iterable[Cost], more: Cost) -> bool:
        """Return whether `more` still fits after `taken`."""
        left = self.left(taken)
        return more.amount <= left.amount and more.excluded <= left.excluded

    def accepts_alone(self, events: EventSet) -> bool:
        """Return whether events fit as the first request, by any accountant."""
        guarantee = compose(events, self.neighboring_relation, reference_delta=self.delta)
        return guarantee.epsilon(self.delta) <= self.epsilon

    def largest_mu(self, taken: Iterable[Cost]) -> float:
        """Return the largest mu of Gaussian releases that fit after `taken` (not empty), rounded down."""
        left = self.left(taken)
        room = max(left.amount, 0.0) / UP**2 if left.excluded >= 0 else 0.0
        return math.sqrt(room if self.order is None else 2 * room / self.order) / UP


def _summed(costs: Iterable[tuple[int, Cost]]) -> Cost:
    """Add up costs, each times a count, and round up."""
    known = list(costs)
    return Cost(
        math.fsum(count * cost.amount for count, cost in known) * UP,
        math.fsum(count * cost.excluded for count, cost in known) * UP,
    )


@lru_cache(maxsize=100_000)
def _leaf_cost(event: dp_event.DpEvent, order: float | None, neighboring_relation: str) -> Cost:
    if order is None:
        return Cost(mu_squared(event))
    return Cost(event_rdp(event, order, neighboring_relation), costs_of(event).excluded(event))
