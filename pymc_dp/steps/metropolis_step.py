"""Steps that propose, compare and decide: a random walk, or public moves and what a surrogate leaves."""

from abc import abstractmethod
from typing import Any

import numpy as np

from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.ratios.build import ratio_of, test_of
from pymc_dp.steps.base import DPStep
from pymc_dp.steps.chain import Chain
from pymc_dp.steps.on_residuals import CUT, OnResiduals


class MetropolisStep(DPStep):
    """Base class of steps with an accept test.

    A subclass implements `_price_of_walk` and `_start_walk`; with control variates `residuals` does both.
    """

    residuals: OnResiduals | None = None

    def _use(self, residuals: OnResiduals) -> None:
        """Take control variates; the last thing that a constructor does."""
        self.residuals, self.moves = residuals, residuals.moves
        self.default_tune_steps = 0
        # PyMC has put both on the instance.
        self.stats_dtypes_shapes = self.stats_dtypes_shapes | {CUT: (np.float64, [])}  # type: ignore[misc]
        self.stats_dtypes: Any = [stats | {CUT: np.float64} for stats in self.stats_dtypes]
        self.clip_fraction = self.clip_fraction and residuals.on_all
        self.mechanism, self.approximation = residuals.mechanism, residuals.approximation

    @property
    def title(self) -> str:
        """What a report calls the step."""
        return super().title + (" with control variates" if self.residuals is not None else "")

    @property
    def surrogate(self) -> Any:
        """The surrogate that this chain's call released; None before, and without control variates."""
        released = None if self.residuals is None or self._chain is None else self._chain.memory
        return None if released is None else released.surrogate

    def _price(self, call: Call) -> PrivacyPlan:
        if self.residuals is not None:
            return self.residuals.price(call, self.clip_fraction)
        return self._price_of_walk(call)

    @abstractmethod
    def _price_of_walk(self, call: Call) -> PrivacyPlan:
        """As `_price`, without control variates."""

    def _start(self, chain: Chain) -> None:
        chain.accept = test_of(chain.plan.mechanism)
        if self.residuals is not None:
            self.residuals.start(chain)
            return
        chain.ratio = self._ratio(chain.plan)
        self._start_walk(chain)

    def _ratio(self, plan: PrivacyPlan) -> Any:
        """Where the log-ratio comes from: the mechanism that was paid for, on the records."""
        return ratio_of(plan.mechanism, self.records, self.tempering, self._sensitivity)

    @abstractmethod
    def _start_walk(self, chain: Chain) -> None:
        """The moves of a chain whose ratio and test are known, without control variates."""

    def facts(self) -> dict[str, Any]:
        """What a report needs to know; the surrogate is in it once it is released."""
        if self.residuals is None:
            return super().facts()
        released = None if self._chain is None else self._chain.memory
        return super().facts() | self.residuals.facts(released)

    def _clip_name(self) -> str:
        return str(self.clip) if self.residuals is None else self.residuals.clip_name(self.plan)

    def __getstate__(self):
        if self.residuals is not None:
            self.residuals.forget()
        return super().__getstate__()
