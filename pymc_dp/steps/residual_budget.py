"""Public numbers of a call with control variates: records, budget, settings, price."""

import math
from dataclasses import replace
from typing import Any

from pymc_dp.control_variates.releases import sensitivity, surrogate_events
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.verdict import judge_price
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.budget import fast_mh_pricing, pricing
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.mechanisms.randomness import ExactSum
from pymc_dp.ratios import on_owners
from pymc_dp.ratios.build import ratio_of
from pymc_dp.remote.owners import RecordsOfOwners

# Clip bounds that are found for gradients, over the root of their mean square in posterior standard
# deviations: 3.0 to 3.4 for logistic regressions, 4.7 to 7.4 for linear ones and counts (docs/planning).
_BOUNDED, _LONG = 3.0, 6.0


class ResidualBudget:
    """What a call with control variates has, and what it costs.

    Parameters
    ----------
    settings : ControlVariates
    test : {"penalty", "barker", "fast"}
    records : RecordModel
        Or its interface, on records elsewhere.
    tempering : float
    neighboring_relation : {"substitute", "add_remove"}

    Attributes
    ----------
    n : int or None
        Number of records, or about that: `public_n` of the settings where it is private; None if not given.
    owned : bool
        Whether the records are several owners'.

    Raises
    ------
    ValueError
        A batch goes by a number of records, and none is public.

    Notes
    -----
    **Privacy.** Reads no record; where n is private it is not looked at.
    """

    def __init__(
        self, settings: ControlVariates, test: str, records: Any, tempering: float, neighboring_relation: str
    ):
        self.settings, self.test, self.records, self.tempering = settings, test, records, tempering
        self.relation, self.owned = neighboring_relation, isinstance(records, RecordsOfOwners)
        public = settings.public_n
        self.n: int | None = None if public is None else int(public)
        if neighboring_relation == "substitute":
            self.n = records.n
        elif test == "fast" and public is None:
            raise ValueError(
                "Under neighboring_relation='add_remove' the number of records is private, and the size of a "
                "batch refers to one: give control_variates=ControlVariates(public_n=...), about as many as "
                "there are, from public knowledge."
            )

    def suited(self, epsilon: float, delta: float) -> ControlVariates:
        """Settings for so many records and so much budget."""
        squared = self.mu_squared(epsilon, delta)
        if self.relation == "substitute":
            return self.settings.suited(self.records.n, squared)
        # Sums of clipped vectors have half the noise.
        settings = self.settings if self.n is None else self.settings.suited(self.n, 4 * squared)
        return replace(settings, recentre=False)

    def mu_squared(self, epsilon: float, delta: float) -> float:
        """Budget as mu^2; of owners, that of one data set with their joint noise."""
        if self.owned:
            return self.records.mu_squared
        return float(gaussian.mu(epsilon, delta)) ** 2 if math.isfinite(epsilon) else math.inf

    def price(self, call: Call, clip_fraction: bool) -> PrivacyPlan:
        """The surrogate once, and the chains' decisions.

        Raises
        ------
        TooFewRecordsError
            No call with so few records can succeed.
        """
        settings = self.suited(call.epsilon, call.delta)
        if self.owned:
            return on_owners.price(self.records, call, "decisions", settings)
        return replace(self._price(call, settings, clip_fraction), expects=self._expects(call, settings))

    def _expects(self, call: Call, settings: ControlVariates) -> str:
        """How much wider the noise of the last gradient makes posteriors, about, in words."""
        if self.n is None or math.isinf(call.epsilon):
            return ""
        share = settings.late_shares(len(settings.late) - 1).pair * self.mu_squared(call.epsilon, call.delta)
        noise = sensitivity("gradient", self.relation) ** 2 / share * self.records.coordinates.size / self.n
        least, most = (math.sqrt(1 + bound**2 * noise) for bound in (_BOUNDED, _LONG))
        return (
            f"expect posteriors about {least:.2f} times as wide as without privacy where a record's gradient "
            f"is bounded (logistic), {most:.2f} where it is not; dp.expected_accuracy says it of your model"
        )

    def _price(self, call: Call, settings: ControlVariates, clip_fraction: bool) -> PrivacyPlan:
        if math.isfinite(call.epsilon) and self.relation == "substitute":
            judge_price(settings, call.epsilon, call.delta, self.records.n)
        releases = surrogate_events(settings, call.epsilon, call.delta)
        once = EventSet(releases, call.neighboring_relation)
        if self.test == "fast":
            return fast_mh_pricing.barker_on_residuals(call, self.n or 0, self.tempering, once)
        shared: Any = {"clip_fraction": clip_fraction, "once": once}
        if self.test == "barker":
            return pricing.barker(call, self.tempering, most=pricing.UNCLIPPED, **shared)
        if self.settings.third_derivative_bound is not None:
            return pricing.penalty(call, **shared)
        return pricing.penalty_on_residuals(call, self.settings.noise_std, self.tempering, **shared)

    def ratio(self, plan: PrivacyPlan, residuals: Any) -> Any:
        """What a chain compares points with: what the surrogate will leave. Owners charge the call here."""
        if self.owned:
            settings = self.suited(plan.epsilon, plan.delta)
            return on_owners.OnOwnersResiduals(self.records, self.tempering, plan, settings, residuals)
        return ratio_of(plan.mechanism, residuals, self.tempering, ExactSum.sensitivity(self.relation))
