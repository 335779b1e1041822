"""What a call has left for its iterations: the dearest setting within it, or whether a given price fits."""

import math
from collections.abc import Callable

from pymc_dp.errors import BudgetError
from pymc_dp.privacy.accounting import calibration, gaussian
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.mechanisms.clip_fraction import ClipFraction
from pymc_dp.privacy.mechanisms.iterations import Mechanism
from pymc_dp.rounding import UP, round_up

# Share of the budget, as rho = mu^2 / 2, for the released clip fractions of all chains together.
CLIP_FRACTION_SHARE = 1e-4
#: Ends of searches for settings without other ones: nothing of use is beyond.
LEAST, MOST = 1e-12, 1e12


class Budget:
    """What a call has left for its iterations.

    Parameters
    ----------
    call : Call
    clip_fraction : bool
        Each chain releases its mean clipped share, for 1e-4 of the budget.
    """

    def __init__(self, call: Call, clip_fraction: bool = False):
        self.call = call
        self.share: ClipFraction | None = None
        # mu^2 that is left for the iterations of all chains, counting Gaussians only.
        self.mu_squared = float(gaussian.mu(call.epsilon, call.delta)) ** 2
        if clip_fraction and math.isfinite(call.epsilon):
            self.share = ClipFraction(self.gaussian(call.chains, CLIP_FRACTION_SHARE))
            self.mu_squared -= call.chains * (1 / self.share.noise_multiplier**2)

    def gaussian(self, releases: int, share: float = 1.0) -> float:
        """Noise multiplier of so many Gaussian releases that cost a share of what is left, as mu^2."""
        return math.sqrt(releases / (share * self.mu_squared)) * UP

    def plan(self, mechanism: Mechanism) -> PrivacyPlan:
        """Plan whose iterations run a mechanism."""
        nothing = EventSet([], self.call.neighboring_relation)
        return PrivacyPlan(**self.call.call, mechanism=mechanism, clip_fraction=self.share, once=nothing)

    def fits(self, mechanism: Mechanism) -> bool:
        """Whether its plan is within the budget, by an upper bound of its price."""
        return calibration.epsilon_of(self.plan(mechanism).events, self.call.delta) <= self.call.epsilon

    def solve(
        self,
        at: Callable[[float], Mechanism],
        start: float,
        ends: tuple[float, float] = (MOST, LEAST),
        free: Mechanism | None = None,
    ) -> PrivacyPlan:
        """Dearest plan with a setting between two ends, never over the budget (`calibration.dearest`).

        `ends` are from the cheapest to the dearest: by default those of a noise scale. Where there is no
        budget to keep, with ``epsilon=inf``, that of `free`.

        Raises
        ------
        BudgetError
            There is none.
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
    """Plan of an iteration whose price is given.

    Parameters
    ----------
    call : Call
    mechanism : Mechanism
    advice : callable
        How to make it cheaper, for the error.
    clip_fraction : bool
        As in `Budget`.

    Raises
    ------
    BudgetError
        It does not fit; nothing has been read.
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
