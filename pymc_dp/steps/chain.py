"""A chain: its state, how it makes an iteration, and the values and facts that each draw carries."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import pymc as pm
from pymc.blocking import PointType, StatsDict, StatsType
from pymc.step_methods.compound import BlockedStep

from pymc_dp.clipping import Clip
from pymc_dp.errors import BudgetError, PrivacyError
from pymc_dp.kernels.metropolis import Accept, Info, Move, Ratio, State, metropolis, prior_change
from pymc_dp.privacy.budget import facts
from pymc_dp.privacy.budget.call import ChainBudget
from pymc_dp.privacy.budget.known import ReleasedFacts
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.budget.plan import PrivacyPlan
from pymc_dp.privacy.mechanisms.randomness import ClipFraction, Gaussian, PrivacyRandom
from pymc_dp.proposals.walk import Moves, RandomWalk
from pymc_dp.records.checks import check_start
from pymc_dp.records.gate import compile_graph
from pymc_dp.records.reading import RecordSettings
from pymc_dp.remote.template import Elsewhere
from pymc_dp.steps import surroundings


class Chain:
    """The state of one chain, made by a step's `setup_chain`.

    Parameters
    ----------
    budget : ChainBudget
        The chain's part of the call's budget.
    plan : PrivacyPlan
    random : PrivacyRandom
    facts : list of ndarray
        Facts for a report, in parts; each draw carries one part, in turn (`facts.parts`).

    Attributes
    ----------
    state : State or None
        The current point; None before the first iteration. Private in part.
    iteration, accepted : int
        Numbers of iterations, and of accepted proposals, so far.
    clipped : float
        Number of clipped ratios so far. Private.
    ratio : Ratio
    accept : callable
    clip_bound : float or None
        Clip bound of every move, in untempered nats: set where the noise must have one scale. None: the bound
        depends on the length of the move, and so does the noise.
    noise : Gaussian
        Noise of a sum of gradients, for samplers that release these.
    stats : dict of str to object
        Public stats that are the same at each iteration.
    values : bytes or None
        Released values at `state`, encoded; None if they have yet to be computed.
    memory : tuple of ndarray
        Other things that a sampler keeps.

    Notes
    -----
    **Privacy.** Cannot be copied or stored.
    """

    ratio: Ratio
    accept: Accept[PrivacyRandom]
    noise: Gaussian

    def __init__(
        self, budget: ChainBudget, plan: PrivacyPlan, random: PrivacyRandom, facts: list[np.ndarray]
    ):
        self.budget, self.plan, self.random, self.facts = budget, plan, random, facts
        self.state: Any = None
        self.iteration = self.accepted = 0
        self.clipped = 0.0
        self.clip_bound: float | None = None
        self.stats: dict[str, float | bool] = {}
        self.values: bytes | None = None
        self.memory: tuple[np.ndarray, ...] = ()

    def __reduce__(self):
        raise TypeError("a chain is never copied or stored")


class StepSettings(RecordSettings, total=False):
    """Arguments of every step, other than its budget."""

    chains: int
    tempering: float
    privacy_unit: object
    data: Elsewhere | None
    clip_fraction: bool
    ledger: Ledger | None
    label: str | None
    debug_seed: int | None
    model: pm.Model | None


class Released:
    """Values of the released variables, at the points of a chain.

    A release is made from these values, not from those that PyMC stores: another sampler may change the
    latter before they reach the trace, and whoever holds the result may change them afterwards.

    Parameters
    ----------
    model : pymc.Model
    names : sequence of str
        Variables that are released.
    start : dict of str to ndarray
        A point, from which dtypes and shapes are found.
    kwargs : mapping, optional
        Arguments of compilation.

    Notes
    -----
    **Privacy.** Functions of the point, which is released; names, dims and coordinates as the model declares
    them.
    """

    def __init__(
        self, model: pm.Model, names: Sequence[str], start: PointType, kwargs: Mapping[str, Any] | None = None
    ):
        self._model, self._compile_kwargs = model, dict(kwargs or {})
        self._names, self._point = list(names), start

    def __call__(self, point: PointType) -> bytes:
        """Return the bytes of the values of all variables, one after another."""
        pairs = zip(self._values(point), self._start, strict=True)
        return b"".join(value.astype(start.dtype, copy=False).tobytes() for value, start in pairs)

    def facts(self, withheld_dims: Collection[str] = (), left_out: Collection[str] = ()) -> ReleasedFacts:
        """Return how to decode the bytes of `__call__`, dims, coordinates and what is left out; for JSON.

        Parameters
        ----------
        withheld_dims : collection of str
            Dimensions whose coordinates are not included.
        left_out : collection of str
            Deterministics that are not released, for the report.
        """
        free = {rv.name for rv in self._model.free_RVs}
        dims = {name: self._model.named_vars_to_dims.get(name, ()) for name in self._names}
        public = {dim for of_one in dims.values() for dim in of_one} - set(withheld_dims)
        return {
            "variables": [
                {
                    "name": name,
                    "free": name in free,
                    "dtype": value.dtype.str,
                    "shape": list(value.shape),
                    "dims": list(dims[name]) or [None] * value.ndim,
                }
                for name, value in zip(self._names, self._start, strict=True)
            ],
            "coords": {
                dim: facts.encode_coordinate(values)
                for dim, values in self._model.coords.items()
                if dim in public and values is not None
            },
            "left_out_deterministics": sorted(left_out),
        }

    def _values(self, point: PointType) -> list[np.ndarray]:
        known = {**point, **self._computed(point)}
        return [np.asarray(known[name]) for name in self._names]

    @cached_property
    def _start(self) -> list[np.ndarray]:
        """Values at the start, for their dtypes and shapes."""
        return self._values(self._point)

    @cached_property
    def _computed(self) -> Callable[[PointType], dict[str, np.ndarray]]:
        """Function that computes the released variables that are not entries of the point."""
        inputs = self._model.value_vars
        missing = set(self._names) - {v.name for v in inputs}
        variables = [v for v in self._model.unobserved_value_vars if v.name in missing]
        if not variables:
            return lambda point: {}
        function = compile_graph(inputs, variables, private=(), as_pymc=True, **self._compile_kwargs)
        names = [v.name for v in variables]
        return lambda point: dict(zip(names, function(*(point[v.name] for v in inputs)), strict=True))

    def __getstate__(self):  # a copy compiles again
        return {name: value for name, value in self.__dict__.items() if name != "_computed"}


class Iterating(BlockedStep):
    """The iterations of a private step; `DPStep` sets up the chain.

    A subclass without an accept test overrides `_iterate`; one whose proposals are not a random walk
    overrides `_propose`.
    """

    moves: Moves
    records: Any  # a RecordModel, or its interface on records that are elsewhere
    clip: Clip
    clip_fraction: bool
    _chain: Chain | None = None  # from set-up to the last draw
    _released: Released

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Make one paid-for iteration from `point`."""
        chain = self._chain
        if chain is None:
            raise BudgetError(
                "A private step runs inside pm.sample or dp.sample, which start its chains (setup_chain)."
            )
        if chain.state is None:
            check_start(point)
        epsilon_spent = chain.budget.pay()
        theta = self.records.ravel(point)
        before = chain.state
        if before is None:
            chain.state = self._arrive(chain, theta)
        elif theta.tobytes() != before.theta.tobytes():
            raise PrivacyError(surroundings.MOVED)
        accepted, released = self._iterate(chain)
        chain.accepted += accepted
        chain.iteration += 1
        if chain.state is not before:
            point = self.records.unravel(chain.state.theta)
            chain.values = None
        if chain.values is None:
            chain.values = self._released(point)
        stats: StatsDict = {
            "accepted": accepted,
            "acceptance_rate": chain.accepted / chain.iteration,
            "step_size": self.moves.step_size,
            **released,
            **chain.stats,
            "clip_fraction": self._released_clip_fraction(chain),
            "epsilon_spent": epsilon_spent,
        }
        recorded = [float(stats.get(name, math.nan)) for name in self.recorded_stats]
        stats[facts.STAT] = chain.facts[chain.iteration % len(chain.facts)]
        stats[facts.DRAW] = facts.encode_draw(
            chain.budget.call, chain.budget.slot, chain.budget.used, recorded, chain.values
        )
        self.moves.decided(accepted)
        if self.tune:
            self.moves.learn(accepted, chain.iteration)
        if chain.budget.at_end:
            chain.budget.finish()
        return point, [stats]

    @cached_property
    def recorded_stats(self) -> dict[str, str]:
        """Names and types of the sampler stats that each draw carries, for a release.

        Only those that classes of this package declare: no proof covers the stats of other subclasses.
        """
        own = (kind for kind in type(self).__mro__ if kind.__module__.startswith("pymc_dp."))
        declared = {name for kind in own for name in vars(kind).get("stats_dtypes_shapes", ())}
        return {
            name: np.dtype(dtype).str
            for name, (dtype, _) in self.stats_dtypes_shapes.items()
            if name in declared - {facts.STAT, facts.DRAW}
        }

    def _arrive(self, chain: Chain, theta: np.ndarray) -> State:
        """Return the state before a chain's first iteration."""
        return State(theta, *chain.ratio.at(theta))

    def _iterate(self, chain: Chain) -> tuple[bool, dict[str, float]]:
        """Make one iteration, and replace `chain.state` by the next state.

        Returns
        -------
        accepted : bool
        stats : dict of str to float
            `noise_std`, `clip_bound`, and other stats that the plan charges for or that are public, such as
            `batch_size`.
        """
        propose = partial(self._propose, chain)
        chain.state, info = metropolis(
            chain.state, propose, chain.ratio, chain.accept, self.rng, chain.random
        )
        chain.clipped += info.ratio.clipped
        return info.accepted, self._stats(chain, info)

    def _propose(self, chain: Chain, rng: np.random.Generator, state: State) -> Move:
        move = cast(RandomWalk, self.moves).move(rng)
        bound = self.clip.bound(move) if chain.clip_bound is None else chain.clip_bound
        return Move(state.theta + move, bound, prior_change(state))

    def _stats(self, chain: Chain, info: Info) -> dict[str, float]:
        """Return the public stats of an iteration, after `chain.state` was replaced."""
        return {"noise_std": info.ratio.noise_std, "clip_bound": info.move.clip_bound}

    def _released_clip_fraction(self, chain: Chain) -> float:
        """Return the noisy share of clipped ratios at the chain's last iteration; NaN before."""
        if not (chain.budget.at_end and self.clip_fraction):
            return math.nan
        share = chain.plan.clip_fraction or ClipFraction(0.0)
        return share.release(chain.clipped, self.records.n, chain.budget.iterations, chain.random)
