"""The plan of a call: what it runs, releases and costs, known before any data are read."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
from dp_accounting import dp_event

from pymc_dp.bounds import check_counts, check_delta, check_relation, check_target
from pymc_dp.errors import BudgetError
from pymc_dp.privacy.accounting.calibration import epsilon_of
from pymc_dp.privacy.accounting.composition import Guarantee, compose, exact_gaussian
from pymc_dp.privacy.accounting.event_sets import Events, EventSet, decode, encode, plain
from pymc_dp.privacy.budget.words import promise
from pymc_dp.privacy.mechanisms import gradients, iterations, randomness
from pymc_dp.privacy.mechanisms.iterations import Mechanism, Unlimited
from pymc_dp.privacy.mechanisms.randomness import ClipFraction
from pymc_dp.rounding import round_up

#: Classes that a stored plan may name: mechanisms, and the objects in their fields.
REGISTRY: tuple[type, ...] = (
    *(iterations.Unlimited, iterations.NoDecision, iterations.Penalty, iterations.NoisyRatio),
    *(iterations.PenaltyOnBatches, iterations.Barker, iterations.BarkerOnBatches, iterations.OnTunaBatches),
    *(gradients.Hamiltonian, gradients.Friction, gradients.Dynamics),
    *(randomness.FixedSizeBatches, randomness.PoissonBatches, randomness.TunaBatches),
)


def running_epsilon(
    iteration: Sequence[EventSet] | dp_event.DpEvent | EventSet,
    iterations: int,
    delta: float,
    *,
    neighboring_relation: str | None = None,
    chains: int = 1,
    once: Events = (),
    total: float | None = None,
) -> np.ndarray:
    """Compute epsilon after each iteration, before the run.

    Parameters
    ----------
    iteration : DpEvent, EventSet, or sequence of EventSet
        What an iteration of one chain releases. A sequence has one entry for each iteration, or a single
        entry for all of them.
    iterations : int
        Number of iterations of each chain.
    delta : float
    neighboring_relation : {"substitute", "add_remove"}, optional
        As in `pymc_dp.privacy.compose`.
    chains : int
        Number of chains. Each iteration is charged for all of them.
    once : DpEvent, EventSet, list, tuple or mapping
        What the run releases once, charged from the first iteration on.
    total : float, optional
        Epsilon of the whole run, if it is known.

    Returns
    -------
    ndarray, shape (iterations,)
        Upper bounds, non-decreasing; the last is the epsilon of the run. They are computed at numbers of
        iterations that are a factor of about 1.2 apart; the entries between have the value of the next of
        these.
    """
    check_delta(delta)
    given = list(iteration) if isinstance(iteration, list | tuple) else [iteration]
    if len(given) not in (1, iterations):
        raise ValueError(f"a sequence has one entry an iteration, or only one, not {len(given)}.")
    steps = [EventSet(one, neighboring_relation) for one in given]
    extra = EventSet(once, steps[0].neighboring_relation)
    if total is None:
        total = compose(_first(steps, extra, iterations, chains)).epsilon(delta)
    # Numbers of iterations at which epsilon is computed, a factor of 1.2 or less apart.
    ratio = np.geomspace(1, iterations, math.ceil(math.log(iterations) / math.log(1.2)) + 1)
    points = np.unique(np.minimum(np.ceil(ratio), iterations)).astype(int)
    values = [epsilon_of(_first(steps, extra, int(t), chains), delta, coarse=True) for t in points[:-1]]
    along = np.minimum(np.maximum.accumulate([*values, total]), total)
    found = along[np.searchsorted(points, np.arange(1, iterations + 1), side="left")]
    found.setflags(write=False)
    return found


def _first(steps: Sequence[EventSet], once: EventSet, t: int, chains: int) -> EventSet:
    """Return the events of the first t iterations of all chains."""
    each = steps[:t] if len(steps) > 1 else [steps[0].repeated(t)]
    return EventSet([once, *(one.repeated(chains) for one in each)])


class PlanFacts(TypedDict):
    """A plan as values for JSON: see `PrivacyPlan.to_dict`."""

    epsilon: float
    delta: float
    neighboring_relation: str
    chains: int
    tune: int
    draws: int
    mechanism: object
    clip_fraction: float | None
    once: object


@dataclass(frozen=True)
class Call:
    """A call of `pymc.sample` and its budget.

    Attributes
    ----------
    epsilon, delta : float
        Target of the whole call; ``epsilon=inf`` for no privacy.
    neighboring_relation : {"substitute", "add_remove"}
    chains, tune, draws : int
        There are ``chains * (tune + draws)`` iterations: tuning draws are paid for like others.

    Raises
    ------
    ValueError
        A number is out of range.
    """

    epsilon: float
    delta: float
    neighboring_relation: str
    chains: int
    tune: int
    draws: int

    def __post_init__(self) -> None:
        check_target(self.epsilon, self.delta)
        check_relation(self.neighboring_relation)
        check_counts(self.draws, self.tune, self.chains)
        for one in fields(self):
            object.__setattr__(self, one.name, plain(getattr(self, one.name)))

    @property
    def call(self) -> dict[str, Any]:
        """The fields of a call, by name."""
        return {one.name: getattr(self, one.name) for one in fields(Call)}

    @property
    def length(self) -> int:
        """Iterations of one chain."""
        return self.tune + self.draws

    @property
    def iterations(self) -> int:
        """Iterations of all chains."""
        return self.chains * self.length


@dataclass(frozen=True)
class PrivacyPlan(Call):
    """What a call runs, releases and costs.

    Attributes
    ----------
    mechanism : Mechanism
        What each iteration of a chain runs, and by which it is charged.
    clip_fraction : ClipFraction or None
        Each chain's release of its mean share of clipped ratios.
    once : EventSet
        What the call releases once, for all chains together.

    Notes
    -----
    **Privacy.** Releases compose as in `pymc_dp.privacy.compose`: Gaussians exactly (``mu**2`` is the sum of
    ``1 / nm**2``; Räisä 2021, Theorems 4.3 and 7), accept decisions by their own Renyi divergence. See
    docs/proofs/penalty and docs/proofs/decision_accounting. A call with ``epsilon=inf`` is charged as not
    private, whatever its mechanism.
    """

    mechanism: Mechanism
    clip_fraction: ClipFraction | None
    once: EventSet

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.events  # refuses what cannot be priced

    @property
    def _charged(self) -> Mechanism:
        return Unlimited() if math.isinf(self.epsilon) else self.mechanism

    @cached_property
    def iteration(self) -> tuple[EventSet, ...]:
        """Events of each iteration of a chain: one entry if all are the same, else ``tune + draws``."""
        return self._charged.iterations(self.neighboring_relation, self.length)

    @cached_property
    def chain(self) -> EventSet:
        """Events that each chain releases once."""
        relation = self.neighboring_relation
        own = self._charged.chain(relation)
        return own if self.clip_fraction is None else EventSet(self.clip_fraction.event(), relation) + own

    @property
    def release(self) -> str:
        """What each iteration releases: "decisions", "noisy_ratio" or "gradients"."""
        return self.mechanism.release

    @property
    def is_private(self) -> bool:
        """Whether every release has a finite price."""
        return self.guarantee.is_private

    @property
    def parameters(self) -> dict[str, float]:
        """Public settings of the call by name; "clip_bound" is in nats of the untempered ratio."""
        found = self.mechanism.parameters()
        if self.clip_fraction is not None:
            found["clip_fraction_noise_multiplier"] = self.clip_fraction.noise_multiplier
        return found

    @property
    def noise_multiplier(self) -> float:
        """Noise standard deviation of a log-ratio over its sensitivity; 0 if not private, NaN if none."""
        return self.mechanism.parameters().get("noise_multiplier", math.nan)

    @property
    def clip_bound(self) -> float | None:
        """Largest clip bound of a record's untempered log-ratio, in nats; None if it is not one number."""
        return self.mechanism.parameters().get("clip_bound")

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of the whole call, in which a penalty decision counts as its noisy log-ratio.

        inf if the call is not private; NaN if not every release is Gaussian.
        """
        if not self.is_private:
            return math.inf
        found = exact_gaussian(self.events)
        return math.nan if found is None else found.mu

    @cached_property
    def events(self) -> EventSet:
        """Events of everything that the call releases."""
        chain = self._charged.run(self.neighboring_relation, self.length) + self.chain
        return chain.repeated(self.chains) + self.once

    @cached_property
    def guarantee(self) -> Guarantee:
        """Trade-off curve of the whole call."""
        return compose(self.events, reference_delta=self.delta)

    def epsilon_at(self, delta: float) -> float:
        """Return an upper bound on epsilon of the whole call, at any delta."""
        return self.guarantee.epsilon(delta)

    def checked(self, call: Call, who: str) -> "PrivacyPlan":
        """Return this plan, if it is the plan of `call` and within its budget.

        Raises
        ------
        BudgetError
            It is not. The message names `who` made it.
        """
        if self.call != call.call or self.epsilon_at(call.delta) > call.epsilon:
            raise BudgetError(
                f"{who} returned the plan of another call, or one that is not within its budget: epsilon = "
                f"{round_up(self.epsilon_at(call.delta))} for {self.iterations} iterations, and the budget "
                f"is {call.epsilon:g} for {call.iterations}."
            )
        return self

    @property
    def promise(self) -> str:
        """The guarantee in words, with an epsilon that is never below the cost of the events."""
        return promise(max(self.epsilon, self.epsilon_at(self.delta)), self.delta)

    @cached_property
    def _running_epsilon(self) -> np.ndarray:
        if not self.is_private:
            return np.full(self.length, np.inf)
        return running_epsilon(
            self.iteration,
            self.length,
            self.delta,
            chains=self.chains,
            once=self.chain.repeated(self.chains) + self.once,
            total=self.epsilon_at(self.delta),
        )

    def running_epsilon(self) -> np.ndarray:
        """Return epsilon, at the plan's delta, of the first t iterations of all chains, for each t.

        Returns
        -------
        ndarray, shape (tune + draws,)
            Entry t - 1 is an upper bound on the cost of iterations 1..t of *all* chains, so that the last
            entry is the cost of the call.
        """
        return self._running_epsilon

    def __reduce__(self):  # without the computed curves
        return PrivacyPlan.from_dict, (self.to_dict(),)

    def to_dict(self) -> PlanFacts:
        """Return the fields as values for JSON."""
        return {
            **self.call,  # type: ignore[typeddict-item]
            "mechanism": encode(self.mechanism, REGISTRY),
            "clip_fraction": None if self.clip_fraction is None else self.clip_fraction.noise_multiplier,
            "once": json.loads(self.once.to_json()),
        }

    @classmethod
    def from_dict(cls, values: PlanFacts) -> "PrivacyPlan":
        """Rebuild a plan from `to_dict`; other keys are ignored."""
        share = values["clip_fraction"]
        own: dict[str, Any] = {one.name: values[one.name] for one in fields(Call)}  # type: ignore[literal-required]
        return cls(
            **own,
            mechanism=decode(values["mechanism"], REGISTRY),
            clip_fraction=None if share is None else ClipFraction(share),
            once=EventSet.from_json(json.dumps(values["once"])),
        )

    def settings(self) -> str:
        """Return the public settings of the mechanism, in words."""
        shown = self.mechanism.parameters().items()
        return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in shown)

    def __str__(self) -> str:
        relation = {"substitute": "one record replaced", "add_remove": "one record added or removed"}
        calls = (
            f"  {self.chains} chain(s) x ({self.tune} tuning + {self.draws} sampling) = "
            f"{self.iterations} iterations"
        )
        if not self.is_private:
            return f"NOT PRIVATE: epsilon = inf, no noise is added for privacy.\n{calls}"
        gaussian = "" if math.isnan(self.mu) else f"mu = {self.mu:.4g}"
        return "\n".join(
            [
                f"{self.promise} for the whole call, {relation[self.neighboring_relation]}",
                calls,
                "  " + "; ".join(part for part in (self.settings(), gaussian) if part),
                f"  epsilon({self.delta:g}) = {round_up(self.epsilon_at(self.delta))}, "
                f"{self.guarantee.accountant} accounting",
            ]
        )
