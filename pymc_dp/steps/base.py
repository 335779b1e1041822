"""Base class of the private steps: the model as records, the budget of one call, the noise, the stats."""

import math
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
import pymc as pm
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.step_methods.state import DataClassState
from pymc.util import RandomGenerator, get_random_generator
from pytensor.graph import Variable
from rich.progress import TextColumn
from rich.table import Column

from pymc_dp.bounds import check_count, check_share, model_of
from pymc_dp.errors import BudgetError
from pymc_dp.kernels.metropolis import Ratio
from pymc_dp.privacy.budget import facts
from pymc_dp.privacy.budget.call import CallBudget
from pymc_dp.privacy.budget.known import Facts
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.budget.words import warn_weak
from pymc_dp.privacy.mechanisms.randomness import ExactSum, PrivacyRandom
from pymc_dp.ratios.build import RATIOS, TESTS
from pymc_dp.records.model import RecordModel
from pymc_dp.records.units import unit_of
from pymc_dp.remote.owners import Owners, refuse_as_data
from pymc_dp.remote.template import Elsewhere
from pymc_dp.steps import surroundings
from pymc_dp.steps.chain import Chain, Iterating, Released
from pymc_dp.versions import versions


class DPStep(Iterating):
    """Base class of the private steps.

    A subclass sets `mechanism` and `approximation`, and implements `_price` (what a call releases and costs)
    and `_start_moves` (set-up of a chain); if it has no accept test, `_start` in place of the latter. See the
    subclasses for the parameters.
    """

    name = "dp_step"
    mechanism: str
    # How the chain's distribution differs from the exact posterior even if nothing is clipped; empty if it
    # does not differ.
    approximation: str
    # Whether the step takes data=: whether it needs only those sums of records that `Shards` can compute.
    takes_data = False
    # The data owners that were given as owners=, if any. Their budgets are the step's budget.
    _owners: Owners | None = None
    default_tune_steps = 500
    _state_class = StepMethodState
    stats_dtypes_shapes: ClassVar[dict[str, tuple[type, list[int] | None]]] = {
        "accepted": (bool, []),
        "acceptance_rate": (np.float64, []),
        "step_size": (np.float64, []),
        "noise_std": (np.float64, []),
        "clip_bound": (np.float64, []),
        "batch_size": (np.float64, []),
        "clip_fraction": (np.float64, []),
        "epsilon_spent": (np.float64, []),
        "is_private": (bool, []),
        facts.STAT: (object, None),
        facts.DRAW: (object, None),
    }

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        epsilon: float,
        delta: float,
        chains: int = 2,
        tempering: float = 1.0,
        neighboring_relation: str = "substitute",
        privacy_unit: object = None,
        data: Elsewhere | None = None,
        exclude_deterministics: Collection[str] = (),
        public: Collection[object] = (),
        trusted_ops: Collection[object] = (),
        clip_fraction: bool = True,
        ledger: Ledger | None = None,
        label: str | None = None,
        debug_seed: int | None = None,
        model: pm.Model | None = None,
        compile_kwargs: Mapping[str, object] | None = None,
        blocked: bool = True,
        rng: RandomGenerator = None,  # PyMC passes blocked and rng; each chain has its own rng
    ):
        model = model_of(model)
        if data is not None and not self.takes_data:
            raise ValueError(f"{type(self).__name__} does not take data=: it needs all records in one place.")
        refuse_as_data(data, privacy_unit, self._owners)
        Call(epsilon, delta, neighboring_relation, chains, tune=0, draws=1)  # checks them
        if isinstance(exclude_deterministics, str):
            raise TypeError(
                "exclude_deterministics must be a list of names: write "
                f"[{exclude_deterministics!r}] instead of {exclude_deterministics!r}."
            )
        if debug_seed is not None:
            check_count("debug_seed", debug_seed, least=0)
        check_share("tempering", tempering, whole=True)
        self.chains = chains
        self.epsilon, self.delta = float(epsilon), float(delta)
        self.neighboring_relation = neighboring_relation
        # The sensitivity of the share of clipped ratios is 1 / n, so n must be public.
        self.clip_fraction = clip_fraction and neighboring_relation == "substitute"
        self.tempering = float(tempering)
        self.debug_seed = debug_seed
        self.label = label
        unit, _ = unit_of(privacy_unit if data is None else data.privacy_unit)
        self._call = CallBudget(chains, neighboring_relation, ledger, unit)
        self.model, self._parts = model, surroundings.density_parts(model)
        self.vars = surroundings.all_free_variables(vars, model)
        opened = partial(RecordModel, privacy_unit=privacy_unit) if data is None else data.records
        self.records = opened(
            model,
            exclude_deterministics=tuple(exclude_deterministics),
            public=public,
            trusted_ops=trusted_ops,
            neighboring_relation=neighboring_relation,
            compile_kwargs=compile_kwargs,
        )
        start = self.records.reading.start
        self._released = Released(model, self.records.released_variables, start, compile_kwargs)
        warn_weak(self.epsilon, self.delta, self.records.n if neighboring_relation == "substitute" else None)
        self.exclude_deterministics = sorted(exclude_deterministics)
        self.rng = get_random_generator(rng)
        self.blocked, self.tune = True, True

    # the budget

    def cost(self, draws: int = 1000, tune: int | None = None, chains: int | None = None) -> PrivacyPlan:
        """Compute the price of a call of `pymc.sample`, without reading data.

        Parameters
        ----------
        draws, tune, chains : int, optional
            As in `pymc.sample`; by default this step's own `default_tune_steps` and `chains`.

        Returns
        -------
        PrivacyPlan
            Print it, or read `parameters`, `events`, `epsilon_at(delta)`.

        Raises
        ------
        BudgetError
            No setting of this step is within the budget, or the plan that `_price` returned is not.
        """
        chains = self.chains if chains is None else chains
        tune = self.default_tune_steps if tune is None else tune
        call = Call(self.epsilon, self.delta, self.neighboring_relation, chains, tune, draws)
        return self._price(call).checked(call, f"{type(self).__name__}._price")

    @property
    def is_private(self) -> bool:
        """Whether the draws of this step may be published."""
        return math.isfinite(self.epsilon) and self.debug_seed is None

    def setup_chain(self, rng: RandomGenerator, tune: int, draws: int) -> None:
        """Take this chain's part of the call's budget, then set up its noise. Called by PyMC once a chain.

        Raises
        ------
        BudgetError
            The budget does not cover this chain; no row has been read.
        """
        surroundings.check(self, self.model, self._parts)
        super().setup_chain(rng, tune, draws)
        self._chain = None
        self.records.check_data()
        self.plan = self.cost(draws, tune)
        label = self.label or type(self).__name__
        budget = self._call.open_chain(self.rng, self.plan, is_private=self.is_private, label=label)
        random = PrivacyRandom(self.debug_seed, stream=budget.slot)
        chain = Chain(budget, self.plan, random, facts.parts(self.facts(), self.plan.draws))
        chain.stats = {"batch_size": math.nan, "is_private": self.is_private}
        self.tune = tune > 0
        self.moves.begin()
        self._start(chain)
        self._chain = chain

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: epsilon={self.epsilon!r}, delta={self.delta!r}, chains={self.chains}>"
        )

    def facts(self) -> Facts:
        """Return what a report needs, as values for JSON; nothing here is computed from private rows."""
        records = self.records
        return {
            "plan": self.plan.to_dict(),
            "step": type(self).__name__,
            "mechanism": self.mechanism,
            "approximation": self.approximation,
            "is_private": self.is_private,
            "debug_seed_used": self.debug_seed is not None,
            "n": records.n if self.neighboring_relation == "substitute" else None,
            "unit": "row" if records.unit_of_row is None else "person",
            "clip": self._clip_name(),
            "tempering": self.tempering,
            "proposal": self.moves.name,
            "released_variables": records.released_variables,
            "withheld_dims": records.withheld_dims,
            "excluded_deterministics": self.exclude_deterministics,
            "public_arrays": [(a.label, list(a.shape), a.kind) for a in records.reading.public_arrays],
            "trusted_ops": records.reading.trusted,
            "call": self._call.name,
            "stats": self.recorded_stats,
            **self._released.facts(records.withheld_dims, records.reading.left_out),
            "versions": versions(),
        }

    @property
    def _sensitivity(self) -> float:
        """The most by which one record moves a sum over records, in units of the clip bound."""
        return ExactSum.sensitivity(self.neighboring_relation)

    @abstractmethod
    def _price(self, call: Call) -> PrivacyPlan:
        """Return the plan of a call: settings at which what it releases costs at most the budget.

        Reads no data.
        """

    def _start(self, chain: Chain) -> None:
        """Set up a chain, when it has its part of the budget, the plan is known, and no row has been read."""
        chain.accept = TESTS[chain.plan.mechanism.test]
        chain.ratio = self._ratio(chain.plan)
        self._start_moves(chain)

    def _ratio(self, plan: PrivacyPlan) -> Ratio:
        """Return the source of log-ratios: the mechanism that was priced, applied to the records."""
        made = RATIOS[type(plan.mechanism)]
        return made(plan.mechanism, self.records, self.tempering, self._sensitivity)

    def _start_moves(self, chain: Chain) -> None:
        """Set up the moves of a chain whose ratio and accept test are set."""

    def _clip_name(self) -> str:
        """Describe the bound on a record's contribution, for the report."""
        return str(self.clip)

    # copies

    @BlockedStep.sampling_state.setter
    def sampling_state(self, state: DataClassState) -> None:
        """End the chain. PyMC sets this before each chain; none is resumed, and no noise is stored."""
        self._chain = None

    def __deepcopy__(self, memo: object = None) -> "DPStep":
        raise BudgetError("A private step is not copied: its budget is for one call. Make a new step.")

    __copy__ = __deepcopy__

    def __getstate__(self):
        return self.__dict__ | {"_chain": None}  # a stored step has no chain: none that was paid for

    # progress bar

    def _progressbar_config(self, n_chains: int = 1):
        """Return the columns of PyMC's progress bar. Here the number of chains is first known."""
        surroundings.check(self, self.model, self._parts)
        if n_chains != self.chains:
            raise BudgetError(
                f"The budget of this step is for chains={self.chains}, and pm.sample was called with "
                f"chains={n_chains}. Pass the same number to both (pm.sample's default is max(2, cores))."
            )
        shown = [
            TextColumn("{task.fields[acceptance_rate]:0.2f}", table_column=Column("Accepted", ratio=1)),
            TextColumn("{task.fields[epsilon_spent]:0.3f}", table_column=Column("ε spent", ratio=1)),
        ]
        return shown, {name: [0.0] * n_chains for name in ("acceptance_rate", "epsilon_spent")}

    @staticmethod
    def _make_progressbar_update_functions():
        return (lambda stats: {name: stats[name] for name in ("acceptance_rate", "epsilon_spent")},)
