"""The budget of Gaussian releases outside of chains: their events, their noise, their entry in a ledger."""

import math
import uuid
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypedDict

from dp_accounting import dp_event

from pymc_dp.bounds import check_relation, check_target
from pymc_dp.errors import warn_not_private
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.composition import Guarantee, compose
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.budget.call import check_ledger
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.budget.words import promise, whole
from pymc_dp.privacy.mechanisms.randomness import ExactSum, Gaussian, PrivacyRandom
from pymc_dp.rounding import UP


class SpendingFacts(TypedDict):
    """Cost of a release, as values for JSON."""

    epsilon: float
    delta: float
    neighboring_relation: str
    epsilon_at_delta: float
    events: str
    is_private: bool
    ledger: bool


class Spending:
    """A budget for a sequence of Gaussian releases, which are made in the order of their shares.

    Parameters
    ----------
    epsilon : float
        > 0; inf for no privacy.
    delta : float or None
        None: the delta of the ledger.
    shares : sequence of float
        Share of the budget (of mu squared) for each release, in the order in which they are made. They add up
        to at most 1.
    neighboring_relation : {"substitute", "add_remove"}
    ledger : Ledger, optional
    label : str
        Name of the ledger's entry.
    debug_seed : int, optional

    Raises
    ------
    TypeError, ValueError
        A number is out of range, or the ledger is for another relation.

    Notes
    -----
    **Privacy.** Event of each release: a Gaussian of noise multiplier ``1 / sqrt(share mu^2)``. `pay` must be
    called before any row is read; nothing is released that was not paid for.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float | None,
        shares: Sequence[float],
        neighboring_relation: str,
        ledger: Ledger | None = None,
        label: str = "",
        debug_seed: int | None = None,
    ):
        check_ledger(ledger, neighboring_relation)
        if delta is None and ledger is not None:
            delta = ledger.delta
        if delta is None:
            if epsilon != math.inf:
                raise TypeError("delta is missing: give it, or a ledger, whose delta is then taken.")
            delta = 1e-6  # any value would do, as nothing is guaranteed
        check_target(epsilon, delta)
        self.delta = float(delta)
        check_relation(neighboring_relation)
        if not (all(share > 0 for share in shares) and math.fsum(shares) <= 1 + 1e-12):
            raise ValueError("shares of the budget are positive, and add up to at most 1.")
        self.epsilon, self.neighboring_relation = float(epsilon), neighboring_relation
        self.ledger, self.label = ledger, label
        self.is_private = math.isfinite(self.epsilon) and debug_seed is None
        scale = max(1.0, math.fsum(shares)) * UP
        squared = float(gaussian.mu(self.epsilon, self.delta)) ** 2
        self.multipliers = [math.sqrt(scale / (share * squared)) for share in shares]
        self._left, self._paid, self._unspent = list(self.multipliers), False, Fraction(1)
        self.random = PrivacyRandom(debug_seed)

    @property
    def events(self) -> EventSet:
        """Events of all releases."""
        if math.isinf(self.epsilon):
            return EventSet.unlimited(self.neighboring_relation)
        return EventSet([dp_event.GaussianDpEvent(nm) for nm in self.multipliers], self.neighboring_relation)

    @property
    def guarantee(self) -> Guarantee:
        """Trade-off curve of these releases by themselves."""
        return compose(self.events, reference_delta=self.delta)

    def pay(self, quiet: bool = False) -> int | None:
        """Charge the ledger. Call this before a row is read.

        Parameters
        ----------
        quiet : bool
            Whether to omit the warning that a result is not private: the caller warns, or the rows are made
            up.

        Returns
        -------
        int or None
            Number of the ledger's entry, for `confirm`.

        Raises
        ------
        PrivacyBudgetExceeded
            The releases do not fit the ledger's remaining budget.
        """
        self._paid = True
        if not (self.is_private or quiet):
            warn_not_private(stacklevel=4)
        if self.ledger is None:
            return None
        charged = self.events if self.is_private else EventSet.unlimited(self.neighboring_relation)
        return self.ledger.reserve(charged, label=self.label, key=uuid.uuid4().hex)

    def confirm(self, entry: int | None) -> None:
        """Record in the ledger that the work ended normally."""
        if entry is not None and self.ledger is not None:
            self.ledger.confirm(entry)

    def noise(self, sensitivity: float) -> float:
        """Return the standard deviation of the next release's noise, for a sum of the given sensitivity."""
        return sensitivity * self._left[0]

    def release(self, total: ExactSum, sensitivity: float) -> tuple[Any, float]:
        """Release a sum with noise; return it and the noise's standard deviation, both times `total.unit`.

        Parameters
        ----------
        total : ExactSum
        sensitivity : float
            The most by which one record moves ``total.value``, in Euclidean norm.

        Raises
        ------
        RuntimeError
            The release was not paid for, or `portion` has used a part of it: a bug.
        """
        if not self._paid or not self._left or self._unspent < 1:
            raise RuntimeError("nothing is released that was not paid for.")
        std = self.noise(sensitivity)
        self._left.pop(0)
        return Gaussian(std).release(total, self.random), std * total.unit

    @property
    def unspent(self) -> float:
        """Share of the next release that `portion` has not given away, rounded down."""
        nearest = float(self._unspent)
        return nearest if nearest <= self._unspent else math.nextafter(nearest, 0.0)

    def portion(self, share: float) -> float:
        """Spend a part of the next release on one of several Gaussian releases that are made in place of it.

        Parameters
        ----------
        share : float
            Part of the squared ``1 / noise multiplier`` of the next release. It may depend on what was
            released before.

        Returns
        -------
        float
            Noise multiplier of the partial release.

        Raises
        ------
        RuntimeError
            The release was not paid for, or its parts would exceed it: a bug.

        Notes
        -----
        **Privacy.** Gaussian releases of ``mu_k``, chosen one by one, with ``sum mu_k^2 <= mu^2`` are
        together at most one of mu (Smith and Thakurta 2022; docs/proofs/twins, section 5). Shares are added
        up exactly.
        """
        if not self._paid or not self._left or not 0 < share <= self._unspent:
            raise RuntimeError("nothing is released that was not paid for.")
        self._unspent -= Fraction(share)
        return self._left[0] / math.sqrt(share)

    def facts(self) -> SpendingFacts:
        """Return what a report needs, as values for JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighboring_relation": self.neighboring_relation,
            "epsilon_at_delta": self.guarantee.epsilon(self.delta),
            "events": self.events.to_json(),
            "is_private": self.is_private,
            "ledger": self.ledger is not None,
        }


def cost_in_words(facts: SpendingFacts, unit: str) -> str:
    """Write one sentence on the cost of a release, and on what it protects: a row or a person."""
    if not facts["is_private"]:
        return "NONE. THIS RESULT IS NOT PRIVATE: epsilon = inf, or a debug seed."
    changed = "differs in the values of" if facts["neighboring_relation"] == "substitute" else "has or lacks"
    charged = "charged to the ledger" if facts["ledger"] else "in no ledger: add it to what was spent before"
    return (
        f"{promise(facts['epsilon_at_delta'], facts['delta'])} by itself, for data that {changed} one "
        f"{whole(unit)}; {charged}"
    )
