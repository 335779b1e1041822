"""DPNUTS: `dp.sample` as a PyMC step: it releases a likelihood, and samples that with PyMC's NUTS."""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.blocking import PointType, StatsDict, StatsType
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.step_methods.hmc.base_hmc import BaseHMC
from pymc.step_methods.state import DataClassState, dataclass_state
from pymc.util import RandomGenerator, get_random_generator
from pytensor.graph import Variable
from rich.progress import TextColumn

from pymc_dp.bounds import model_of
from pymc_dp.errors import BudgetError, ModelRefusedError, NotSampledError, PrivacyError
from pymc_dp.likelihood.draws import CLOCKS, facts_of_draws, plan_of
from pymc_dp.privacy.budget import facts
from pymc_dp.privacy.budget.call import identity
from pymc_dp.privacy.budget.known import Facts
from pymc_dp.privacy.budget.plan import PrivacyPlan
from pymc_dp.records import refusals
from pymc_dp.records.checks import check_start
from pymc_dp.records.effects import find_effects
from pymc_dp.records.gate import initial_point
from pymc_dp.records.lengths import tables_of
from pymc_dp.releasing import release_likelihood
from pymc_dp.steps import surroundings
from pymc_dp.steps.chain import Released

#: Arguments that are passed on to `pymc.NUTS`. Unknown ones are refused before anything is paid.
OF_NUTS = (signature(pm.NUTS.__init__).parameters.keys() | signature(BaseHMC.__init__).parameters.keys()) - {
    *("self", "vars", "model", "blocked", "rng", "initial_point", "dtype", "kwargs", "pytensor_kwargs")
}
#: Arguments that are passed on to `release_likelihood`.
OF_RELEASE = signature(release_likelihood).parameters.keys()
# The stats of NUTS that have one number for each draw, without those that measure time.
_NUMBERS = {
    name: (dtype, shape)
    for name, (dtype, shape) in pm.NUTS.stats_dtypes_shapes.items()
    if shape == [] and not name.startswith(CLOCKS)
}


@dataclass_state
class DPNUTSState(StepMethodState):
    """State from which a chain can be resumed: that of NUTS."""

    nuts: DataClassState


class DPNUTS(BlockedStep):
    """PyMC's NUTS on a released likelihood, as a step.

    The likelihood is released, and paid for, once: when the step is made (`release_likelihood`). Draws read
    no record, so any number of chains, draws and calls adds no cost.

    Parameters
    ----------
    vars : list, optional
        All free variables of the model, which is the default. A subset is refused.
    epsilon : float, optional
        Guarantee of the release, and so of everything that is drawn. Needed, except with `owners`, who have
        an epsilon each.
    delta : float, optional
        As in `release_likelihood`.
    model : pymc.Model, optional
        Default: the model of the context.
    **kwargs
        The other arguments of `release_likelihood` (ledger, privacy_unit, public, ...), and those of
        `pymc.NUTS` (target_accept, max_treedepth, ...).

    Attributes
    ----------
    likelihood : Likelihood
        The released likelihood.
    settings : dict
        Arguments that were passed on to `pymc.NUTS`.

    Raises
    ------
    ModelRefusedError
        The model couples records, would leak, or has discrete parameters.
    PrivacyBudgetExceeded
        The release does not fit the ledger's remaining budget.
    NotSampledError
        `pymc.NUTS` refuses its arguments. The likelihood, which was paid for, is the error's attribute
        `likelihood`.
    TypeError, ValueError
        An argument is missing, unknown or out of range.

    Notes
    -----
    **Privacy.** The whole release is made, in this process, before the step exists; see `release_likelihood`
    for its events. The step samples the public model (``likelihood.model()``), which contains no array of
    records. What PyMC stores beside the draws is private, as with any step: publish what `dp.release`
    returns.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dp as dp
    >>> y = np.random.default_rng(1).normal(size=20_000)
    >>> with pm.Model():
    ...     mean = pm.Normal("mean", 0, 2)
    ...     _ = pm.Normal("y", mean, 1, observed=y)
    ...     step = dp.DPNUTS(epsilon=1, delta=1e-6)
    ...     idata = dp.release(pm.sample(100, tune=200, step=step, chains=2, cores=1, quiet=True))
    >>> idata.posterior["mean"].shape
    (2, 100)
    """

    name = "dp_nuts"
    _state_class = DPNUTSState
    stats_dtypes_shapes: ClassVar[dict[str, tuple[type, list[int] | None]]] = {
        **_NUMBERS,
        "epsilon_spent": (np.float64, []),
        facts.STAT: (object, None),
        facts.DRAW: (object, None),
    }
    stats_dtypes: ClassVar[list[dict[str, type]]] = [
        {name: dtype for name, (dtype, _) in stats_dtypes_shapes.items()}
    ]
    # The parts of the facts that draws carry, one part a draw in turn. None before `setup_chain`.
    _carried: list[np.ndarray] | None = None
    _point: PointType | None = None

    def __new__(cls, *args: object, **kwargs: object) -> "DPNUTS":
        """Make the object without PyMC's record of the arguments: each copy would hold the model in it."""
        return object.__new__(cls)

    def __getnewargs_ex__(self):
        return (), {}

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        model: pm.Model | None = None,
        **kwargs: Any,
    ):
        if unknown := kwargs.keys() - OF_RELEASE - OF_NUTS:
            raise TypeError(
                f"DPNUTS got {sorted(unknown)}, which neither dp.release_likelihood nor pymc.NUTS has."
            )
        model = model_of(model)
        self.vars = surroundings.all_free_variables(vars, model)
        _refuse_discrete(model)
        given = {name: kwargs.pop(name) for name in sorted(OF_RELEASE & kwargs.keys())}
        _refuse_effects(model, given)
        self.settings, self._call = kwargs, uuid.uuid4().hex
        self.likelihood = release_likelihood(model, epsilon=epsilon, delta=delta, **given)
        public = self.likelihood.model()
        try:
            self.nuts = pm.NUTS(model=public, compile_kwargs=given.get("compile_kwargs"), **kwargs)
        except Exception as error:
            raise NotSampledError(
                f"pymc.NUTS was not made ({type(error).__name__}: {error}).", self.likelihood
            ) from error
        names = [rv.name for rv in public.unobserved_RVs]
        self._released = Released(public, names, initial_point(public), given.get("compile_kwargs"))
        self.rng = get_random_generator(None)

    def stop_tuning(self) -> None:
        """End NUTS's adaptation."""
        self.nuts.stop_tuning()

    def reset_tuning(self) -> None:
        """Let NUTS adapt from the beginning."""
        self.nuts.reset_tuning()

    def setup_chain(self, rng: RandomGenerator, tune: int, draws: int) -> None:
        """Set up NUTS, and the facts that each draw of this chain carries. Called by PyMC once a chain."""
        surroundings.check_alone(self)
        super().setup_chain(rng, tune, draws)
        self.nuts.setup_chain(self.rng, tune, draws)
        plan = plan_of(self.likelihood.facts, 1, tune, draws)
        self._spent = plan.epsilon_at(plan.delta) if plan.is_private else np.inf
        # A number that identifies the chain. Chains may run in processes of their own, so none can be
        # counted.
        self._slot = int(hashlib.sha256(repr(identity(self.rng)).encode()).hexdigest()[:15], 16)
        self._iteration, self._point = 0, None
        self._carried = facts.parts(self._facts(plan), draws)

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Make one transition of NUTS on the public model."""
        if self._carried is None:
            raise BudgetError("DPNUTS runs inside pm.sample or dp.sample, which start its chains.")
        if self._point is None:
            check_start(point)
        elif any(np.any(point[name] != value) for name, value in self._point.items()):
            raise PrivacyError(surroundings.MOVED)
        new, (found,) = self.nuts.step(point)
        self._iteration += 1
        self._point = {v.name: np.array(new[v.name]) for v in self.vars}
        stats: StatsDict = {name: found[name] for name in _NUMBERS} | {"epsilon_spent": self._spent}
        numbers = [float(value) for value in stats.values()]
        stats[facts.STAT] = self._carried[self._iteration % len(self._carried)]
        stats[facts.DRAW] = facts.encode_draw(
            self._call, self._slot, self._iteration, numbers, self._released(self._point)
        )
        return new, [stats]

    def _facts(self, plan: PrivacyPlan) -> Facts:
        # The names that PyMC gives some of these stats in its results; a release uses the same.
        renamed = {
            "model_logp": "lp",
            "mean_tree_accept": "acceptance_rate",
            "depth": "tree_depth",
            "tree_size": "n_steps",
        }
        types = {renamed.get(name, name): np.dtype(dtype).str for name, (dtype, _) in _NUMBERS.items()}
        types["epsilon_spent"] = "<f8"
        return facts_of_draws(self.likelihood, plan, self._call, self._released.facts(), types)

    @BlockedStep.sampling_state.setter
    def sampling_state(self, state: DataClassState) -> None:
        """Set the state from which a chain is resumed."""
        BlockedStep.sampling_state.fset(self, state)
        self._point = None

    def _progressbar_config(self, n_chains: int = 1) -> tuple[list[TextColumn], Mapping[str, object]]:
        """Return the columns of PyMC's progress bar. Here other steps can be seen for the first time."""
        surroundings.check_alone(self)
        return self.nuts._progressbar_config(n_chains)

    @staticmethod
    def _make_progressbar_update_functions():
        return pm.NUTS._make_progressbar_update_functions()

    def __repr__(self) -> str:
        return f"<DPNUTS of {self.likelihood!r}>"


def _refuse_effects(model: pm.Model, given: Mapping[str, Any]) -> None:
    """Refuse effects that a release integrates out: `pymc.sample` would keep draws of each of them."""
    if len(tables_of(model)) > 1:
        return
    unit = given.get("privacy_unit")
    for elsewhere in (given.get("data"), *(given.get("owners") or ())):
        unit = unit if elsewhere is None else elsewhere.privacy_unit
    for rv in find_effects(model, unit, given.get("public", ())).axes:
        raise refusals.refuse_integrated(rv.name)


def _refuse_discrete(model: pm.Model) -> None:
    discrete = [v.name for v in model.value_vars if v not in model.continuous_value_vars]
    if discrete:
        raise ModelRefusedError(
            f"NUTS does not sample {', '.join(discrete)}: discrete.",
            "PyMC would give these variables a step of its own, which reads the exact likelihood.",
            "sum them out (pm.Mixture), or take a step that samples all variables, such as dp.DPPenaltyMH.",
        )
