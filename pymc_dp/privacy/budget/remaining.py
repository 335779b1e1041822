"""The budget of a call's iterations: the most expensive setting that fits, or whether a given one fits."""

import math
from collections.abc import Callable

from pymc_dp.errors import BudgetError
from pymc_dp.privacy.accounting import calibration, gaussian
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.mechanisms.iterations import Mechanism
from pymc_dp.privacy.mechanisms.randomness import ClipFraction
from pymc_dp.rounding import UP, round_up

# Share of the budget (of rho = mu^2 / 2) for the released clip fractions of all chains together.
CLIP_FRACTION_SHARE = 1e-4
#: Smallest setting of a search without other limits: smaller ones are useless.
LEAST = 1e-12
#: Largest setting of such a search.
MOST = 1e12


class Budget:
    """Budget of a call that remains for its iterations, after what is released once.

    Parameters
    ----------
    call : Call
    clip_fraction : bool
        Whether each chain releases its mean share of clipped ratios, for 1e-4 of the budget.
    """

    def __init__(self, call: Call, clip_fraction: bool = False):
        self.call = call
        self.share: ClipFraction | None = None
        # mu^2 that remains for the iterations of all chains, if they are Gaussian releases.
        self.mu_squared = float(gaussian.mu(call.epsilon, call.delta)) ** 2
        if clip_fraction and math.isfinite(call.epsilon):
            self.share = ClipFraction(self.gaussian(call.chains, CLIP_FRACTION_SHARE))
            self.mu_squared -= call.chains * (1 / self.share.noise_multiplier**2)

    def gaussian(self, releases: int, share: float = 1.0) -> float:
        """Return the noise multiplier at which a number of Gaussian releases cost a share of `mu_squared`."""
        return math.sqrt(releases / (share * self.mu_squared)) * UP

    def plan(self, mechanism: Mechanism) -> PrivacyPlan:
        """Return the plan whose iterations run a mechanism."""
        nothing = EventSet([], self.call.neighboring_relation)
        return PrivacyPlan(**self.call.call, mechanism=mechanism, clip_fraction=self.share, once=nothing)

    def fits(self, mechanism: Mechanism) -> bool:
        """Return whether the mechanism's plan is within the budget, by an upper bound of its price."""
        return calibration.epsilon_of(self.plan(mechanism).events, self.call.delta) <= self.call.epsilon

    def solve(
        self,
        at: Callable[[float], Mechanism],
        start: float,
        ends: tuple[float, float] = (MOST, LEAST),
        free: Mechanism | None = None,
    ) -> PrivacyPlan:
        """Find the most expensive plan within the budget, over a setting (`calibration.dearest`).

        Parameters
        ----------
        at : callable
            Mechanism as a function of the setting.
        start : float
            Setting at which the search starts.
        ends : tuple of float
            The cheapest and the most expensive setting. Default: those of a noise scale.
        free : Mechanism, optional
            Mechanism that is taken if ``epsilon=inf``.

        Raises
        ------
        BudgetError
            No setting is within the budget.
        """
        call = self.call
        if free is not None and math.isinf(call.epsilon):
            return self.plan(free)

        def events(value: float) -> EventSet:
            return self.plan(at(value)).events

        found = calibration.dearest(events, call.epsilon, call.delta, start, ends)
        if found is None:
            raise BudgetError(
                f"No setting between {min(ends):g} and {max(ends):g} is within epsilon = {call.epsilon:g} "
                f"at delta = {call.delta:g}: raise epsilon or delta, or sample fewer iterations."
            )
        return self.plan(at(found))


def fixed(
    call: Call, mechanism: Mechanism, advice: Callable[[], str], *, clip_fraction: bool = False
) -> PrivacyPlan:
    """Return the plan of a mechanism that has no setting to search, if it is within the budget.

    Parameters
    ----------
    call : Call
    mechanism : Mechanism
    advice : callable
        Returns advice on how to make the call cheaper, for the error message.
    clip_fraction : bool
        As in `Budget`.

    Raises
    ------
    BudgetError
        The price does not fit the budget; nothing has been read.
    """
    budget = Budget(call, clip_fraction)
    plan = budget.plan(mechanism)
    if math.isinf(call.epsilon) or budget.fits(mechanism):
        return plan
    (one,) = plan.iteration
    chains = plan.chain.repeated(call.chains)
    allowed = calibration.iterations_allowed(one, call.epsilon, call.delta, once=chains)
    raise BudgetError(
        f"{call.iterations} iterations (chains x (tune + draws)) cost epsilon = "
        f"{round_up(plan.epsilon_at(call.delta))} at delta = {call.delta:g}, and the budget is "
        f"{call.epsilon:g}: {allowed} iterations would fit. {advice()}"
    )
