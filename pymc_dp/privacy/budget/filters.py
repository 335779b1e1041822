"""Whether one more request fits a budget when requests are chosen after seeing earlier results.

Composing the list of what was requested and comparing it with (epsilon, delta) is valid for a list that was
fixed in advance. For requests that depend on earlier results it is not, in general (Regehr et al. 2026). Two
rules are, and are additive; both are proved or cited in docs/ledger, "Requests that depend on results".
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
    """What a request takes from a filter.

    Attributes
    ----------
    amount : float
        Renyi divergence at the filter's order, or mu^2; inf if there is no bound.
    excluded : float
        Probability outside which `amount` holds.
    """

    amount: float
    excluded: float = 0.0


@dataclass(frozen=True)
class PrivacyFilter:
    """Rule that keeps everything accepted within (epsilon, delta), whatever the requests depended on.

    Parameters
    ----------
    epsilon, delta : float
        Budget, finite.
    neighboring_relation : {"substitute", "add_remove"}
    accounting : {"renyi", "gaussian"}
        "renyi" takes every event that has a Renyi bound, and allows 10-20% fewer Gaussian releases than
        "gaussian", which is exact, takes Gaussian releases only, and charges penalty decisions like them.
    order : float, optional
        Renyi order, fixed before anything is requested. Default: the one that is best for Gaussian releases.

    Notes
    -----
    **Privacy.** At a fixed order, Renyi divergences of adaptively chosen mechanisms add up as long as their
    sum is bounded in advance (Feldman & Zrnic 2021); so do mu^2 in Gaussian differential privacy
    (Smith & Thakurta 2022). A first request is chosen before any result: any accountant may price it, and
    what is accepted only so leaves nothing.
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
        """What events take; the amount is inf for an event without a bound."""
        return _summed(
            (count, _leaf_cost(event, self.order, self.neighboring_relation))
            for event, count in events.counts.items()
        )

    def left(self, taken: Iterable[Cost]) -> Cost:
        """Capacity minus what was taken; negative when a first request took more than the rule knows."""
        capacity, used = self.capacity, _summed((1, cost) for cost in taken)
        return Cost(capacity.amount - used.amount, capacity.excluded - used.excluded)

    def accepts(self, taken: Iterable[Cost], more: Cost) -> bool:
        """Whether `more` still fits after `taken`."""
        left = self.left(taken)
        return more.amount <= left.amount and more.excluded <= left.excluded

    def accepts_alone(self, events: EventSet) -> bool:
        """Whether events fit as the first request, by any accountant."""
        guarantee = compose(events, self.neighboring_relation, reference_delta=self.delta)
        return guarantee.epsilon(self.delta) <= self.epsilon

    def largest_mu(self, taken: Iterable[Cost]) -> float:
        """Largest mu of Gaussian releases that still fit after `taken`, which is not empty; rounded down."""
        left = self.left(taken)
        room = max(left.amount, 0.0) / UP**2 if left.excluded >= 0 else 0.0
        return math.sqrt(room if self.order is None else 2 * room / self.order) / UP


def _summed(costs: Iterable[tuple[int, Cost]]) -> Cost:
    """So many times each of some costs, rounded up."""
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
