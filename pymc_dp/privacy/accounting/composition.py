"""The guarantee of a set of events: every valid accountant, and the smallest of what they say."""

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pymc_dp.privacy.accounting.accountants import ACCOUNTANTS, TradeOff, never_best
from pymc_dp.privacy.accounting.costs import costs_of
from pymc_dp.privacy.accounting.event_sets import Events, EventSet
from pymc_dp.privacy.accounting.values import is_number
from pymc_dp.rounding import round_up

# What was asked last: a plan is asked for what its search has found.
_KNOWN: OrderedDict[tuple[Any, ...], tuple[float, str]] = OrderedDict()
_MOST_KNOWN = 256


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
    _built: dict[str, TradeOff | None] = field(default_factory=dict, repr=False, compare=False)

    def _trade_off(self, name: str) -> TradeOff | None:
        if name not in self._built:
            self._built[name] = ACCOUNTANTS[name](self.events)
        return self._built[name]

    @property
    def is_private(self) -> bool:
        """False once something non-private happened."""
        return all(costs_of(event).private for event in self.events.counts)

    def _smallest(self, quantity: str, at: float, worst: float) -> tuple[float, str]:
        if not self.is_private:
            return worst, "none"
        if not self.events.counts:
            return 0.0, "none"
        key = (self.events, quantity, at)
        if key not in _KNOWN:
            _KNOWN[key] = self._found(quantity, at, worst)
            if len(_KNOWN) > _MOST_KNOWN:
                _KNOWN.popitem(last=False)
        return _KNOWN[key]

    def _found(self, quantity: str, at: float, worst: float) -> tuple[float, str]:
        best, name = worst, "none"
        for candidate in ACCOUNTANTS.keys() - never_best(self.events):
            trade_off = self._trade_off(candidate)
            if trade_off is not None:
                value = getattr(trade_off, quantity)(at)
                if value < best or (value == best and name != "none" and candidate < name):
                    best, name = value, candidate
        return best, name

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
        return self._smallest("epsilon", float(delta), math.inf)[0]

    def delta(self, epsilon: float) -> float:
        """Smallest delta that a valid accountant proves at `epsilon`; 1 if none does.

        Raises
        ------
        ValueError
            `epsilon` is negative or NaN.
        """
        if not (is_number(epsilon) and epsilon >= 0):
            raise ValueError(f"epsilon must be at least 0, and in double precision, got {epsilon!r}.")
        return self._smallest("delta", float(epsilon), 1.0)[0]

    @cached_property
    def accountant(self) -> str:
        """Accountant with the smallest epsilon at the reference delta."""
        return self._smallest("epsilon", self.reference_delta, math.inf)[1]

    def by_accountant(self, delta: float | None = None) -> dict[str, float]:
        """Epsilon at a delta of every accountant that has one, smallest first: all of them upper bounds.

        Parameters
        ----------
        delta : float, optional
            In (0, 1). Default: the reference delta.
        """
        at = self.reference_delta if delta is None else delta
        check_delta(at)
        built = {name: self._trade_off(name) for name in ACCOUNTANTS} if self.is_private else {}
        found = {name: one.epsilon(at) for name, one in built.items() if one is not None}
        return dict(sorted(((name, e) for name, e in found.items() if math.isfinite(e)), key=lambda p: p[1]))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings."""
        return {
            "neighboring_relation": self.events.neighboring_relation,
            "delta": self.reference_delta,
            "epsilon": self.epsilon(self.reference_delta),
            "accountant": self.accountant,
        }

    def __str__(self) -> str:
        value = self.epsilon(self.reference_delta)
        return (
            f"({round_up(value)}, {self.reference_delta:g})-differential privacy, "
            f"{self.events.neighboring_relation}, {self.accountant} accounting"
        )


def check_delta(delta: float) -> None:
    """Raise ValueError unless 0 < delta < 1."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta!r}.")


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
