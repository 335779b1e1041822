"""The guarantee of a set of events: every valid accountant, and the smallest of what they say."""

import math
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pymc_dp.printing import html_table, text_table
from pymc_dp.privacy.accounting.accountants import ACCOUNTANTS, SLOW, NotApplicableError, TradeOff, never_best
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
        Where `accountant` and `valid` are evaluated.

    Notes
    -----
    **Privacy.** Each accountant bounds the same mechanism from above, so the smallest of them is a bound at
    every delta. The choice depends on the events and delta alone, never on data.
    """

    events: EventSet
    reference_delta: float = 1e-6
    _built: dict[str, TradeOff | str] = field(default_factory=dict, repr=False, compare=False)

    def _trade_off(self, name: str) -> TradeOff | str:
        if name not in self._built:
            try:
                self._built[name] = ACCOUNTANTS[name](self.events)
            except NotApplicableError as error:
                self._built[name] = str(error)
        return self._built[name]

    @property
    def is_private(self) -> bool:
        """False once something non-private happened."""
        return all(costs_of(event).private for event in self.events.counts)

    def _smallest(
        self, quantity: str, at: float, worst: float, without: Iterable[str] = ()
    ) -> tuple[float, str]:
        if not self.is_private:
            return worst, "none"
        if not self.events.counts:
            return 0.0, "none"
        key = (self.events, quantity, at, frozenset(without))
        if key not in _KNOWN:
            _KNOWN[key] = self._found(quantity, at, worst, without)
            if len(_KNOWN) > _MOST_KNOWN:
                _KNOWN.popitem(last=False)
        return _KNOWN[key]

    def _found(self, quantity: str, at: float, worst: float, without: Iterable[str]) -> tuple[float, str]:
        best, name = worst, "none"
        for candidate in ACCOUNTANTS.keys() - never_best(self.events) - set(without):
            trade_off = self._trade_off(candidate)
            if not isinstance(trade_off, str):
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

    def coarse_epsilon(self, delta: float) -> float:
        """An upper bound of `epsilon` that takes less time."""
        return self._smallest("epsilon", delta, math.inf, SLOW)[0]

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

    @property
    def valid(self) -> dict[str, float]:
        """Epsilon at the reference delta of every accountant that has one, smallest first."""
        return {
            row.accountant: row.epsilon
            for row in compare_accountants(self, self.reference_delta).rows
            if row.valid
        }

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
        Where `Guarantee.accountant` and `Guarantee.valid` are evaluated.

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


@dataclass(frozen=True)
class ComparisonRow:
    """One accountant's answer.

    Attributes
    ----------
    accountant : str
    epsilon : float
        inf where there is no bound.
    note : str
        Why there is none.
    """

    accountant: str
    epsilon: float
    note: str = ""

    @property
    def valid(self) -> bool:
        """Whether there is a bound."""
        return math.isfinite(self.epsilon)


@dataclass(frozen=True)
class AccountantComparison:
    """Accountants side by side, smallest epsilon first; see `compare_accountants`."""

    delta: float
    neighboring_relation: str
    rows: tuple[ComparisonRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings; None where there is no bound."""
        return {
            "delta": self.delta,
            "neighboring_relation": self.neighboring_relation,
            "epsilon": {row.accountant: row.epsilon if row.valid else None for row in self.rows},
            "notes": {row.accountant: row.note for row in self.rows if row.note},
        }

    def _cells(self) -> list[tuple[str, str]]:
        head = "accountant", f"epsilon at delta = {self.delta:g} ({self.neighboring_relation})"
        values = [round_up(row.epsilon) if row.valid else f"- ({row.note})" for row in self.rows]
        return [head, *zip((row.accountant for row in self.rows), values, strict=True)]

    def __str__(self) -> str:
        return text_table(self._cells())

    def _repr_html_(self) -> str:
        head, *rows = self._cells()
        return html_table(head, rows)


def compare_accountants(
    events: Guarantee | Events, delta: float, neighboring_relation: str | None = None
) -> AccountantComparison:
    """What every accountant says about the same events.

    Parameters
    ----------
    events : Guarantee, or what `compose` takes
    delta : float
        In (0, 1).
    neighboring_relation : {"substitute", "add_remove"}, optional
        As in `compose`.

    Returns
    -------
    AccountantComparison
        All of them upper bounds; the first is the one to report.
    """
    check_delta(delta)
    guarantee = events if isinstance(events, Guarantee) else compose(events, neighboring_relation)
    rows = []
    for name in ACCOUNTANTS:
        found = guarantee._trade_off(name) if guarantee.is_private else "something non-private happened"
        value, why = (math.inf, found) if isinstance(found, str) else (found.epsilon(delta), "")
        if not (why or math.isfinite(value)):
            why = "no finite epsilon at this delta"
        rows.append(ComparisonRow(name, value, why))
    rows.sort(key=lambda row: row.epsilon)
    return AccountantComparison(delta, guarantee.events.neighboring_relation, tuple(rows))
