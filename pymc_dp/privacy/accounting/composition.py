"""The guarantee of a set of events: every valid accountant, and the smallest of what they say."""

import math
from dataclasses import dataclass
from functools import lru_cache

from pymc_dp.bounds import is_number
from pymc_dp.privacy.accounting.accountants import ACCOUNTANTS, TradeOff, never_best
from pymc_dp.privacy.accounting.costs import costs_of
from pymc_dp.privacy.accounting.event_sets import Events, EventSet
from pymc_dp.privacy.accounting.values import check_delta
from pymc_dp.rounding import round_up


@dataclass(frozen=True)
class Guarantee:
    """Trade-off curve of everything that happened.

    Parameters
    ----------
    events : EventSet
    reference_delta : float
        Where `accountant` and `by_accountant` are evaluated.

    Notes
    -----
    **Privacy.** Each accountant bounds the same mechanism from above, so the smallest of them is a bound at
    every delta. The choice depends on the events and delta alone, never on data.
    """

    events: EventSet
    reference_delta: float = 1e-6

    @property
    def is_private(self) -> bool:
        """False once something non-private happened."""
        return all(costs_of(event).private for event in self.events.counts)

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon that a valid accountant proves at `delta`; inf if none does.

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
        """Smallest delta that a valid accountant proves at `epsilon`; 1 if none does.

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
        """Accountant with the smallest epsilon at the reference delta."""
        return _smallest(self.events, "epsilon", self.reference_delta)[1]

    def by_accountant(self, delta: float | None = None) -> dict[str, float]:
        """Epsilon at a delta of every accountant that has one, smallest first: all of them upper bounds.

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


@lru_cache(maxsize=256)  # a plan is asked for what its search has found
def _smallest(events: EventSet, quantity: str, at: float) -> tuple[float, str]:
    """Smallest epsilon at a delta, or delta at an epsilon, and which accountant proves it."""
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
    """Guarantee of events on one data set.

    Parameters
    ----------
    events : DpEvent, EventSet, list, tuple or mapping
        As in `EventSet`: events, pairs (event, count), or a mapping of event to count. In any order: the
        composition may be adaptive.
    neighboring_relation : {"substitute", "add_remove"}, optional
        Needed unless `events` are `EventSet` objects, which carry it.
    reference_delta : float
        Where `Guarantee.accountant` and `Guarantee.by_accountant` are evaluated.

    Returns
    -------
    Guarantee

    Raises
    ------
    ValueError
        Unknown or invalid event; different neighbouring relations mixed; `reference_delta` outside (0, 1).

    Notes
    -----
    **Privacy.** Parameters of each event are fixed before the run or by public information, and what happens
    next may depend on everything released before: ordinary adaptive composition (docs/accounting,
    "Composition").
    """
    check_delta(reference_delta)
    return Guarantee(EventSet(events, neighboring_relation), reference_delta)
