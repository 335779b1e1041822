"""The budget of one call: which chains may run, how far, and what the ledger is charged."""

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pymc_dp.errors import BudgetError, PrivacyBudgetExceeded
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.budget.plan import PrivacyPlan
from pymc_dp.privacy.budget.slots import ChainSlots, identity


class ChainBudget:
    """Iterations that one chain has paid for.

    Attributes
    ----------
    plan : PrivacyPlan
    call : str
        Name of the call.
    slot : int
        Number of the chain in its call, from 0.
    iterations : int
        Tuning and sampling iterations that are paid for.
    used : int
        Iterations made.

    Notes
    -----
    **Privacy.** Cannot be copied or stored, and never counts backwards: resuming a chain elsewhere, or
    restoring an earlier state of it, does not buy iterations.
    """

    def __init__(
        self,
        call: "CallBudget",
        plan: PrivacyPlan,
        slot: int,
        charge: Callable[[], int | None] = lambda: None,
    ):
        self.plan, self.slot, self.iterations, self.used = plan, slot, plan.tune + plan.draws, 0
        self._call, self._charge = call, charge
        self.call = call.slots.name
        self._reservation: int | None = None
        self._running_epsilon = plan.running_epsilon()

    def pay(self) -> float:
        """Pay for the next iteration, before it reads a row; the first one charges the ledger for the call.

        Returns
        -------
        float
            Epsilon spent when every chain of the call has come this far.

        Raises
        ------
        BudgetError
            There is no next iteration, or the ledger has no room.
        """
        if self.used >= self.iterations:
            raise BudgetError(
                f"This chain has run the {self.iterations} iterations its budget covers. Make a new step "
                "for more."
            )
        if not self.used:
            self._reservation = self._charge()
        self.used += 1
        return self._running_epsilon[self.used - 1]

    @property
    def at_end(self) -> bool:
        """Whether the last iteration was paid for."""
        return self.used == self.iterations

    def finish(self) -> None:
        """Note that the chain made its last iteration; the last chain confirms the ledger's entry."""
        last_chain = self._call.slots.finish(self.slot)
        if last_chain and self._call.ledger is not None and self._reservation is not None:
            self._call.ledger.confirm(self._reservation)

    def __reduce__(self):
        raise TypeError("the budget of a chain is never copied or stored")


def check_ledger(ledger: object, neighboring_relation: str | None = None, unit: str | None = None) -> None:
    """Refuse what is no ledger, and one for another neighbouring relation or privacy unit than a call's.

    Raises
    ------
    TypeError
        `ledger` is something else, as the path of one.
    ValueError
        The ledger is for another neighbouring relation, or protects others.
    """
    if ledger is None:
        return
    if not isinstance(ledger, Ledger):
        path = repr(str(ledger)) if isinstance(ledger, str | os.PathLike) else "'study.db'"
        raise TypeError(
            f"ledger= takes a dp.Ledger, got {type(ledger).__name__}. Open it first: "
            f"ledger=dp.Ledger({path}); the first time with its budget, as dp.Ledger({path}, "
            "epsilon=4, delta=1e-6)."
        )
    if neighboring_relation not in (None, ledger.neighboring_relation):
        raise ValueError(
            f"The ledger is for neighboring_relation={ledger.neighboring_relation!r}, and this call for "
            f"{neighboring_relation!r}: costs under different relations cannot be composed."
        )
    if unit not in (None, ledger.privacy_unit):
        raise ValueError(
            f"The ledger is for the privacy unit {ledger.privacy_unit!r}, and this call for {unit!r}: what "
            "protects rows and what protects persons add up to a statement about neither.\n"
            "  How to fix it: give the ids of the ledger's unit, by its name, as "
            "privacy_unit={'patient': ids}; ids without a name are the unit 'id', no ids the unit 'row'. For "
            "another unit make another ledger, as dp.Ledger(path, epsilon=..., delta=..., "
            f"privacy_unit={unit!r}): what both release together has to be counted by hand."
        )


class CallBudget:
    """Budget of one call of `pymc.sample`, shared by its chains and their processes.

    Parameters
    ----------
    chains : int
    neighboring_relation : {"substitute", "add_remove"}
    ledger : Ledger, optional
    unit : str
        Privacy unit of the call.

    Raises
    ------
    TypeError
        `ledger` is something else, as the path of one.
    ValueError
        The ledger is for another neighbouring relation or privacy unit.
    """

    def __init__(
        self, chains: int, neighboring_relation: str, ledger: Ledger | None = None, unit: str = "row"
    ):
        check_ledger(ledger, neighboring_relation, unit)
        self.slots, self.ledger = ChainSlots(chains), ledger

    def open_chain(
        self, rng: np.random.Generator, plan: PrivacyPlan, *, is_private: bool, label: str
    ) -> ChainBudget:
        """Take a chain's share; the whole call is charged to the ledger once, when a first iteration is made.

        Parameters
        ----------
        rng : numpy.random.Generator
            PyMC's generator of the chain, which tells chains and calls apart.
        plan : PrivacyPlan
        is_private : bool
            Whether the draws will be private; if not, no ledger has room for them.
        label : str
            For the ledger's reader.

        Raises
        ------
        BudgetError
            The chain is not covered. No row may be read.
        """
        slot = self.slots.claim(*identity(rng), plan.tune, plan.draws)
        return ChainBudget(self, plan, slot, lambda: self._reserve(plan, is_private, label))

    def _reserve(self, plan: PrivacyPlan, is_private: bool, label: str) -> int | None:
        if self.ledger is None:
            return None
        events = plan.events if is_private else EventSet.unlimited(plan.neighboring_relation)
        try:
            return self.ledger.reserve(events, label=label, key=self.slots.name)
        except PrivacyBudgetExceeded as error:
            if not is_private:
                raise
            fits = self.ledger.largest(lambda draws: replace(plan, draws=draws).events, upper=plan.draws - 1)
            advice = f"at most draws={fits} would fit." if fits else "no draw would fit."
            exceeded = error.with_hint(f"At this noise {advice}")
        raise exceeded
