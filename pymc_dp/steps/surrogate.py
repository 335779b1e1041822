"""Steps with private control variates: propose on prior and surrogate, test what the surrogate leaves."""

import math
from typing import Any, ClassVar

import numpy as np
from dp_accounting import dp_event

from pymc_dp.control_variates.curvature import prior_curvature
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.moves import PublicTransitions
from pymc_dp.control_variates.settings import ControlVariates, as_control_variates
from pymc_dp.control_variates.structure import structure_of
from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.control_variates.verdict import Cut, judge_acceptance, judge_cut, judge_price, what_was_cut
from pymc_dp.privacy import facts, gaussian
from pymc_dp.privacy.events import EventSet
from pymc_dp.privacy.plan import Call, PrivacyPlan
from pymc_dp.privacy.randomness import PrivacyRandom
from pymc_dp.records.residuals import Residuals
from pymc_dp.steps.base import DPStep
from pymc_dp.steps.moves import Moves
from pymc_dp.steps.surrogate_tests import (
    BarkerOnResiduals,
    FastBarkerOnResiduals,
    PenaltyOnResiduals,
    ResidualTest,
)

# Sampler stat: what may be missing of the worst parameter, in posterior standard deviations.
CUT = "clip_uncertainty"
# Transitions on the public density from the centre to a chain's start.
_WARM_UP = 30


class SurrogateStep(DPStep):
    """What `DPPenaltyMH`, `DPBarker`, `DPFastMH` and `DPHMC` are with ``control_variates=``.

    The gradient and Hessian of the log-likelihood are released once, with noise, at a private centre; an
    iteration makes Hamiltonian moves on prior times surrogate, which cost nothing, and tests only what the
    surrogate leaves of each record's log-likelihood. See docs/control_variates.

    Parameters
    ----------
    vars : list, optional
        All free variables of the model.
    epsilon, delta : float
        Guarantee of the whole call: the surrogate and all chains.
    control_variates : True or ControlVariates
    test : {"penalty", "barker", "fast"}
    lipschitz : float, optional
        Not needed: clip bounds are found privately. A limit for those of gradients, if given.
    **kwargs
        As in `DPPenaltyMH`; only ``neighboring_relation="substitute"``.

    Raises
    ------
    ValueError
        A parameter is out of range.
    TooFewRecordsError
        In `cost`: no call with so few records can succeed. In sampling: the noise of the surrogate dominates.
        Said from public and released numbers alone.
    ClippedRecordsError
        In sampling: what clips cut may move a parameter by more than a posterior standard deviation.
    ContradictionError
        In sampling: released numbers contradict each other.

    Warns
    -----
    ClippedRecordsWarning
        What clips cut may move a parameter by more than .3 posterior standard deviations.

    Notes
    -----
    **Privacy.** Events: the Gaussian releases of the surrogate's schedule, once for all chains of the call
    (`pymc_dp.control_variates.releases`), and one decision an iteration. Released: the surrogate, the draws,
    decisions, data-free stats. Proof: docs/proofs/control_variates.
    """

    name = "dp_surrogate"
    default_tune_steps = 0
    moves: Moves
    stats_dtypes_shapes: ClassVar[dict[str, tuple[Any, Any]]] = {
        **DPStep.stats_dtypes_shapes,
        CUT: (np.float64, []),
    }

    def __init__(
        self,
        vars: Any = None,
        *,
        epsilon: float,
        delta: float,
        control_variates: bool | ControlVariates = True,
        test: str = "penalty",
        lipschitz: Any = None,
        **kwargs: Any,
    ):
        settings = as_control_variates(control_variates)
        if settings is None:
            raise ValueError("control_variates must be True or ControlVariates(...).")
        if kwargs.get("neighboring_relation", "substitute") != "substitute":
            raise ValueError(
                "control_variates= is for neighboring_relation='substitute' only: n must be public."
            )
        self.settings = settings
        # Other forms bound moves in blocks or coordinates.
        self.lipschitz = float(lipschitz) if isinstance(lipschitz, int | float) else None
        super().__init__(vars, epsilon=epsilon, delta=delta, **kwargs)
        self.moves = _OnSurrogate()
        tests: dict[str, ResidualTest] = {
            "penalty": PenaltyOnResiduals(
                self.tempering, settings.noise_std, settings.third_derivative_bound
            ),
            "barker": BarkerOnResiduals(self.tempering),
            "fast": FastBarkerOnResiduals(self.tempering, self.records.n),
        }
        if test not in tests:
            raise ValueError(f"test must be one of {', '.join(tests)}, got {test!r}.")
        self.test = tests[test]
        if settings.third_derivative_bound is not None:
            if test != "penalty":
                raise ValueError("third_derivative_bound is for DPPenaltyMH and DPHMC.")
            if not self.records.coordinates.identity:
                raise ValueError(
                    "third_derivative_bound bounds derivatives in the parameters, and the surrogate of this "
                    "model is in other coordinates."
                )
        self.clip_fraction = self.clip_fraction and self.test.on_all
        self.mechanism = (
            "Gaussian noise on sums of gradients, their products, Hessians and histograms of norms, once ("
            f"the surrogate); then {test} test of what that leaves of the ratio"
        )
        self.approximation = "posterior with the noise of the released gradient and Hessian in it"
        if settings.noise_aware:
            self.approximation += ", widened for that of the gradient"
        self.target = Residuals(self.records, structure_of(settings.structure, self.records.coordinates))
        self.surrogate: Surrogate | None = None
        self.cut: Cut | None = None
        self._expanded = False

    def _price(self, call: Call) -> PrivacyPlan:
        relation = call.neighboring_relation
        if not np.isfinite(call.epsilon):
            return self.test.price(call, EventSet([], relation), self.clip_fraction)
        judge_price(self.settings, call.epsilon, call.delta, self.records.n)
        releases = surrogate_events(self.settings, call.epsilon, call.delta)
        return self.test.price(call, EventSet(releases, relation), self.clip_fraction)

    def _start(self) -> None:
        self.surrogate, self.cut, self._expanded = None, None, False

    def _arrive(self, theta: np.ndarray) -> np.ndarray:
        squared = float(gaussian.mu(self.epsilon, self.delta)) ** 2 if np.isfinite(self.epsilon) else np.inf

        def release() -> str:
            # Of the call, not of the chain that happens to be first.
            random = PrivacyRandom(self.debug_seed, stream=self.chains)
            finder = Finder(
                self.records, self.settings, squared, random, self.tempering, self.epsilon, self.lipschitz
            )
            return finder(theta).to_json()

        self.surrogate = Surrogate.from_json(self._call.slots.once(release))
        self.cut = what_was_cut(self.surrogate, self.records, self._names())
        judge_cut(self.cut)
        self._expand(self.surrogate)
        self._facts = facts.encode(self.facts())
        point = self.surrogate.point
        jacobian = self.records.coordinates.jacobian(point)
        precision = self.surrogate.precision(prior_curvature(self.records, point), jacobian)
        self._transitions = PublicTransitions(self.target, np.linalg.inv(np.linalg.cholesky(precision)).T)
        if not self.records.coordinates.identity:
            self._transitions.shorten(self.rng, point)
        resumed = self.iteration > 0
        start = theta if resumed else self._transitions(self.rng, point, _WARM_UP)
        self._rows, self._log_prior = self.target.full_batch.at(start) if self.test.on_all else (None, np.nan)
        return start

    def _expand(self, surrogate: Surrogate) -> None:
        self.target.expand(surrogate.expansion(self.records))
        self._expanded = True

    def _iterate(self, theta: np.ndarray) -> tuple[bool, dict[str, float]]:
        if not self._expanded and self.surrogate is not None:
            self._expand(self.surrogate)
        new = self._transitions(self.rng, theta)
        decision = self.test.decide(self.target, theta, new, self._rows, self.plan, self._random)
        self._clipped += decision.clipped
        if decision.accepted:
            self._theta, self._rows = new, decision.kept
        if self._chain.at_end:
            made = self.accepted + decision.accepted, self.iteration + 1
            judge_acceptance(*made, self.test.expected_acceptance)
        return decision.accepted, {
            CUT: math.nan if self.cut is None else self.cut.worst,
            "noise_std": decision.noise_std,
            "clip_bound": decision.clip_bound,
            "batch_size": decision.batch_size,
        }

    def __getstate__(self):
        # A copy has no paid chain, and a chain that goes on after it was copied expands again.
        self.target.forget()
        self._expanded = False
        return super().__getstate__()

    def facts(self) -> dict[str, Any]:
        """What a report needs to know, with the released surrogate."""
        released = getattr(self, "surrogate", None)
        cut = getattr(self, "cut", None)
        return super().facts() | {
            "surrogate": None if released is None else released.to_json(),
            "cut": None if cut is None else cut._asdict(),
        }

    def _names(self) -> list[str]:
        """Of the parameters, as `arviz.summary` writes them."""
        names = []
        for value in self.records.value_vars:
            name, shape = self.model.values_to_rvs[value].name, self.records.shapes[value.name]
            names += [f"{name}[{', '.join(map(str, k))}]" if k else name for k in np.ndindex(*shape)]
        return names

    def _clip_name(self) -> str:
        bound = self.test.bound(self.plan)
        return f"{bound}, less the surrogate's part; gradients, Hessians at bounds found privately"


def surrogate_events(settings: ControlVariates, epsilon: float, delta: float) -> list[dp_event.DpEvent]:
    """One Gaussian for each release of the schedule, of noise multiplier ``1 / sqrt(share mu^2)``."""
    squared = float(gaussian.mu(epsilon, delta)) ** 2
    return [dp_event.GaussianDpEvent(1 / math.sqrt(share * squared)) for _, share in settings.schedule()]


class _OnSurrogate(Moves):
    name = "Hamiltonian transitions on prior and surrogate"
    step_size = np.nan
