"""One chain, from its set-up to its last draw."""

from collections.abc import Mapping
from typing import Any

from pymc_dp.kernels.metropolis import Accept, Ratio
from pymc_dp.privacy.budget.call import ChainBudget
from pymc_dp.privacy.budget.plan import PrivacyPlan
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom


class Chain:
    """What belongs to one chain; a step has none of it before `setup_chain`.

    Parameters
    ----------
    budget : ChainBudget
        Paid.
    plan : PrivacyPlan
    random : PrivacyRandom
    facts : ndarray
        For a report, encoded.

    Attributes
    ----------
    state : State or None
        None before the first iteration, and after a chain was resumed. Private in part.
    iteration, accepted : int
        So far.
    clipped : float
        Number of clipped ratios so far. Private.
    ratio : Ratio
    accept : callable
    clip_bound : float or None
        Of every move, in untempered nats; None if it goes by the move.
    stats : mapping of str to float
        Public numbers that are the same at each iteration.
    values : object
        Released values at `state`, encoded; None if they are to be computed.
    memory : object
        What a sampler keeps besides.

    Notes
    -----
    **Privacy.** Cannot be copied or stored.
    """

    ratio: Ratio
    accept: Accept

    def __init__(self, budget: ChainBudget, plan: PrivacyPlan, random: PrivacyRandom, facts: Any):
        self.budget, self.plan, self.random, self.facts = budget, plan, random, facts
        self.state: Any = None
        self.iteration = self.accepted = 0
        self.clipped = 0.0
        self.clip_bound: float | None = None
        self.stats: Mapping[str, float] = {}
        self.values: Any = None
        self.memory: Any = None

    def __reduce__(self):
        raise TypeError("a chain is never copied or stored")
