"""Private control variates in a step: propose on prior and surrogate, test what the surrogate leaves."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_dp.bounds import check_bound
from pymc_dp.control_variates.curvature import prior_curvature
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.structure import structure_of
from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.control_variates.verdict import (
    Cut,
    judge,
    judge_acceptance,
    what_was_cut,
)
from pymc_dp.kernels.metropolis import Move, State, largest_acceptance, nothing
from pymc_dp.privacy.budget import facts
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.proposals.walk import Moves
from pymc_dp.records.public_moves import PublicTransitions
from pymc_dp.records.residuals import Residuals
from pymc_dp.steps.base import DPStep
from pymc_dp.steps.chain import Chain
from pymc_dp.steps.progress import SurrogateBar
from pymc_dp.steps.residual_arguments import check_kinks
from pymc_dp.steps.residual_budget import ResidualBudget

# Sampler stat: what may be missing of the worst parameter, in posterior standard deviations.
CUT = "clip_uncertainty"

#: From two points to where residual ratios are clipped, in untempered nats.
ClipBound = Callable[[np.ndarray, np.ndarray], float]


class Released(NamedTuple):
    """What a chain has of the call's surrogate, and what follows from it."""

    surrogate: Surrogate
    transitions: PublicTransitions
    clip_bound: ClipBound
    cut: Cut


# Clip bounds that go by distance stay in floating point's range.
_SMALLEST = 1e-100
#: Tests of what is left: of the penalty or Barker's on all records, Barker's on a batch of TunaMH.
TESTS = ("penalty", "barker", "fast")


class OnResiduals:
    """What `DPPenaltyMH`, `DPBarker`, `DPFastMH` and `DPHMC` do with ``control_variates=``.

    The gradient and Hessian of the log-likelihood are released once, with noise, at a private centre; an
    iteration makes moves of PyMC's NUTS on prior times surrogate, which cost nothing, and tests only what the
    surrogate leaves of each record's log-likelihood. See docs/control_variates.

    Parameters
    ----------
    settings : ControlVariates
    test : {"penalty", "barker", "fast"}
    records : RecordModel
    tempering : float
    lipschitz : object
        A number limits the clip bounds of gradients, which are found privately.
    neighboring_relation : {"substitute", "add_remove"}
        With the latter n is private: `public_n` of the settings counts, if there is one, and the centre of
        the clip is not moved.

    Raises
    ------
    ValueError
        A setting does not go with the test or the model.

    Notes
    -----
    **Privacy.** Events: the Gaussian releases of the surrogate's schedule, once for all chains of the call
    (`pymc_dp.control_variates.releases`), and one decision an iteration. Released: the surrogate, the draws,
    decisions, data-free stats. Proof: docs/proofs/control_variates.
    """

    def __init__(
        self,
        settings: ControlVariates,
        test: str,
        records: Any,
        tempering: float,
        lipschitz: Any,
        neighboring_relation: str,
    ):
        self.settings, self.test, self.records, self.tempering = settings, test, records, tempering
        self.on_all, self.relation = test != "fast", neighboring_relation
        self.budget = ResidualBudget(settings, test, records, tempering, neighboring_relation)
        # Other forms bound moves in blocks or coordinates.
        if isinstance(lipschitz, int | float | str):
            check_bound("lipschitz", lipschitz)
        self.lipschitz = float(lipschitz) if isinstance(lipschitz, int | float) else None
        if settings.third_derivative_bound is not None:
            if test != "penalty":
                raise ValueError("third_derivative_bound is for DPPenaltyMH and DPHMC.")
            if not records.coordinates.identity:
                raise ValueError(
                    "third_derivative_bound bounds derivatives in the parameters, and the surrogate of this "
                    "model is in other coordinates."
                )
            if self.budget.owned:
                raise ValueError("third_derivative_bound is for records of one owner.")
        check_kinks(settings, records)
        self.moves = _OnSurrogate()
        self.mechanism = (
            "Gaussian noise on sums of gradients, their products, Hessians and histograms of norms, once ("
            f"the surrogate); then {test} test of what that leaves of the ratio"
        )
        if self.budget.owned:
            self.mechanism = f"each data owner adds {self.mechanism}"
        self.approximation = "posterior with the noise of the released gradient and Hessian in it"
        if settings.noise_aware:
            self.approximation += ", widened for that of the gradient"
        structure = structure_of(settings.structure, records.coordinates)
        elsewhere = getattr(records, "residuals", None)
        self.target = Residuals(records, structure) if elsewhere is None else elsewhere()
        self._expanded = False

    def price(self, call: Call, clip_fraction: bool) -> PrivacyPlan:
        """The surrogate once, and the chains' decisions."""
        return self.budget.price(call, clip_fraction)

    def start(self, chain: Chain) -> None:
        """The chain's ratio, on what the surrogate will leave."""
        self._expanded = False
        chain.ratio = self.budget.ratio(chain.plan, self.target)
        if not self.on_all:
            chain.stats["batch_size"] = chain.plan.parameters["batch_size"]

    @property
    def expected_acceptance(self) -> float:
        """Share of moves that are accepted where the surrogate is the likelihood."""
        if self.test != "penalty" or self.settings.third_derivative_bound is not None:
            return 0.5  # noise that goes by distance is smaller near the mode
        return largest_acceptance(self.settings.noise_std)

    def _clip_bound(self, plan: PrivacyPlan) -> ClipBound:
        third, constant = self.settings.third_derivative_bound, plan.clip_bound or math.inf
        if third is None:
            return lambda theta, new: constant

        def bound(theta: np.ndarray, new: np.ndarray) -> float:
            first, second = (float(np.linalg.norm(self.target.displacement(x))) for x in (theta, new))
            cubes = first * first * first + second * second * second
            return min(max(third * cubes / 6, _SMALLEST), 1 / _SMALLEST)

        return bound

    def arrive(self, step: DPStep, chain: Chain, theta: np.ndarray) -> State:
        """Release the surrogate, or take the one of the call; move away from its centre."""

        def release() -> str:
            # Of the call, not of the chain that happens to be first.
            random = PrivacyRandom(step.debug_seed, stream=step.chains)
            with SurrogateBar(step.shows_progress) as bar:
                finder = Finder(
                    self.records,
                    self.budget.suited(step.epsilon, step.delta),
                    self.budget.mu_squared(step.epsilon, step.delta),
                    random,
                    step.tempering,
                    step.epsilon,
                    self.lipschitz,
                    bar.show,
                    self.relation,
                )
                return finder(theta).to_json()

        surrogate = Surrogate.from_json(step._call.slots.once(release))
        cut = what_was_cut(surrogate, self.records, names_of(step))
        judge(surrogate, self.records, cut, self.settings)
        chain.stats[CUT] = cut.worst
        transitions = PublicTransitions(self.target.public, self._covariance(surrogate))
        chain.memory = Released(surrogate, transitions, self._clip_bound(chain.plan), cut)
        self.expand(chain)
        chain.facts = facts.parts(step.facts(), chain.plan.draws)
        draw = transitions.tune(step.rng, surrogate.point)
        start = theta if chain.iteration > 0 else draw
        return State(start, *chain.ratio.at(start))

    def _covariance(self, surrogate: Surrogate) -> np.ndarray:
        """Of prior times surrogate, about."""
        point = surrogate.point
        jacobian = self.records.coordinates.jacobian(point)
        return np.linalg.inv(surrogate.precision(prior_curvature(self.records, point), jacobian))

    def expand(self, chain: Chain) -> None:
        """Give the residuals the surrogate, unless they have it."""
        if not self._expanded and chain.memory is not None:
            surrogate = chain.memory.surrogate
            here = isinstance(self.target, Residuals)
            self.target.expand(surrogate.expansion(self.records) if here else surrogate)
            self._expanded = True

    def forget(self) -> None:
        """Drop what was computed from records; a chain that goes on expands again."""
        self.target.forget()
        self._expanded = False

    def propose(self, chain: Chain, rng: np.random.Generator, state: State) -> Move:
        """Transitions that leave prior times surrogate invariant."""
        new = chain.memory.transitions(rng, state.theta)
        return Move(new, chain.memory.clip_bound(state.theta, new), nothing)

    def decided(self, chain: Chain, accepted: bool) -> None:
        """At a chain's end, see whether it accepted about as often as its surrogate has it."""
        if chain.budget.at_end:
            made = chain.accepted + accepted, chain.iteration + 1
            judge_acceptance(*made, self.expected_acceptance)

    def facts(self, released: "Released | None") -> dict[str, Any]:
        """The released surrogate, and what is known of what clips cut, for the report."""
        if released is None:
            return {"surrogate": None, "cut": None}
        return {"surrogate": released.surrogate.to_json(), "cut": released.cut._asdict()}

    def clip_name(self, plan: PrivacyPlan) -> str:
        """Where ratios are clipped, for the report."""
        third = self.settings.third_derivative_bound
        bound = f"{plan.clip_bound or math.inf:.3g} nats"
        if third is not None:
            bound = f"{third:g} x (|delta|^3 + |delta'|^3) / 6 nats"
        if self.budget.owned:
            bound = f"the bound where the joint noise is {self.settings.noise_std:g} nats"
        return f"{bound}, less the surrogate's part; gradients, Hessians at bounds found privately"


def names_of(step: DPStep) -> list[str]:
    """Of the parameters, as `arviz.summary` writes them."""
    names, of_values = [], {value.name: rv.name for value, rv in step.model.values_to_rvs.items()}
    for value, shape in step.records.shapes.items():
        name = of_values[value]
        names += [f"{name}[{', '.join(map(str, k))}]" if k else name for k in np.ndindex(*shape)]
    return names


class _OnSurrogate(Moves):
    name = "NUTS on prior and surrogate"
    step_size = np.nan
