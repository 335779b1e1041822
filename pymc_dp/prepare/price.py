"""What `Prepare` may spend, and how it is shared out."""

import math
from dataclasses import dataclass
from functools import lru_cache

from pymc_dp.prepare.releases import measurement
from pymc_dp.privacy.accounting.calibration import calibrate
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.accounting.values import check_relation, check_target
from pymc_dp.privacy.budget.call import check_ledger
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.rounding import round_up

# Of delta, for levels that come out at all; accountants count it (1 + exp(epsilon)) times, and have a
# thousandth of delta for it (`privacy.budget.filters`). OpenDP reckons down to 2e-16.
_SHARE, _LEAST = 1e-4, 1e-15


@dataclass(frozen=True)
class Target:
    """Price of `fit`.

    Attributes
    ----------
    epsilon, delta : float
    relation : str
    level_delta : float
        Part of delta for each column of levels that are not known.
    """

    epsilon: float
    delta: float
    relation: str
    level_delta: float

    @classmethod
    def of(
        cls, epsilon: float | None, delta: float | None, ledger: Ledger | None, relation: str | None
    ) -> "Target":
        """Check the arguments.

        Raises
        ------
        TypeError
            One is missing, or the ledger is none.
        ValueError
            One is out of range, or contradicts the ledger.
        """
        check_ledger(ledger, relation)
        if delta is None and ledger is not None:
            delta = ledger.delta
        if epsilon is None or delta is None:
            raise TypeError("Prepare needs epsilon= and delta=, the price of fit.")
        check_target(epsilon, delta)
        if math.isinf(epsilon):
            raise ValueError("epsilon must be finite: to see exact numbers of public rows, compute them.")
        relation = relation or ("substitute" if ledger is None else ledger.neighboring_relation)
        check_relation(relation)
        worst_epsilon, worst_delta = epsilon, delta
        if ledger is not None:
            if ledger.accounting != "renyi":
                raise ValueError(
                    "The ledger's accounting is 'gaussian', which has no price for OpenDP's discrete noise: "
                    "use one with accounting='renyi', the default."
                )
            worst_epsilon, worst_delta = max(epsilon, ledger.epsilon), min(delta, ledger.delta)
        level_delta = max(_SHARE * worst_delta * math.exp(-worst_epsilon), _LEAST)
        return cls(float(epsilon), float(delta), relation, level_delta)

    def __str__(self) -> str:
        return f"epsilon = {round_up(self.epsilon)}, delta = {round_up(self.delta)}, {self.relation}"


@lru_cache
def rho_of(releases: tuple[str, ...], target: Target) -> float:
    """Price of each release, in zCDP: all together cost epsilon at delta, and no more."""

    def events(rho: float) -> EventSet:
        made = [measurement(one, rho, target.level_delta, target.relation).event for one in releases]
        return EventSet(made, target.relation)

    return calibrate(events, target.epsilon, target.delta, low=1e-14, high=1e3)
