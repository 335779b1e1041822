"""DP Barker: on all records, Barker's test is private by its own randomness; on batches noise is added.

Batches: Heikkilä et al. (2019).
"""

import math
from collections.abc import Sequence
from typing import Unpack

from pytensor.graph import Variable

from pymc_dp.clipping import ConstantClip, as_clip
from pymc_dp.kernels.tuning import optimal_barker_walk
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.ratios import barker_correction
from pymc_dp.ratios.subsets import BarkerBatch
from pymc_dp.steps.chain import Chain
from pymc_dp.steps.walk_step import WalkSettings, WalkStep


class DPBarker(WalkStep):
    """Differentially private random-walk sampler with Barker's acceptance test.

    A proposal is accepted with probability ``1 / (1 + exp(-log-ratio))``. On all records (the default) no
    noise is added: when one record cannot move the log-ratio by more than the clipping allows, the decision
    is private by its own randomness. The stationary distribution is the exact (tempered) posterior when no
    ratio is clipped. On batches it is approximate.

    Parameters
    ----------
    vars : list, optional
        All free variables of the model, which is the default. A subset is refused.
    epsilon, delta : float
        Guarantee of one whole call of `pymc.sample`: all chains, tuning included. ``epsilon=inf`` gives
        Barker's sampler, and marks every result as not private.
    lipschitz : float, optional
        L, in nats per unit of unconstrained space: a record's log-likelihood ratio is taken to be at most
        ``L * distance moved``. Moves longer than the budget allows are shortened, so that no ratio is clipped
        if L holds for every record. Give exactly one of `lipschitz` and `clip_bound`; with `batch_size`, give
        `lipschitz`.
    clip_bound : float, optional
        B: a record's ratio is clipped to this many nats, whatever the move. It determines the price.
    batch_size : int, optional
        b: each iteration reads b records drawn without replacement. Noise is added to their log-ratio, so
        that its error, sampling error included, is about logistic (Heikkilä et al. 2019; Räisä 2021,
        Algorithm 2). A record's ratio is clipped at ``sqrt(b) / (n T)``, and moves are no longer than this
        over `lipschitz`. The result is approximate, by the central limit theorem and by the correction
        distribution. b and n determine the price. Default: all records.
    proposal : {"fixed_radius", "gaussian", ...} or Proposal, optional
        As in `DPPenaltyMH`.
    step_size : float, optional
        Initial multiple of the proposal's scale. Default: the longest move that the budget allows; .1 with
        `clip_bound`. Needed with `lipschitz` and ``epsilon=inf`` on all records, where no budget limits the
        moves.
    target_accept : float, optional
        Acceptance rate that tuning aims at. Default: the rate with the largest expected squared jump, .16
        with a fixed radius. The actual rate is higher where the longest move is short.
    adapt_step_size : bool
        Whether tuning adapts the step size, from accept decisions only.
    clip_fraction : bool
        As in `DPPenaltyMH`; all records only.
    **kwargs
        `chains`, `tempering`, `neighboring_relation`, `privacy_unit`, `data`, `exclude_deterministics`,
        `ledger`, `debug_seed`, `model`, `compile_kwargs`: as in `DPPenaltyMH`. On batches
        `neighboring_relation` is "substitute".

    Raises
    ------
    ValueError
        A parameter is out of range, such as a batch larger than n, or of 10 records or fewer.
    ModelRefusedError
        The model would leak; see `pymc_dp.records.checks`.
    BudgetError
        In `cost` and during sampling, if `clip_bound` or `batch_size` does not fit the budget; during
        sampling, if a chain or call would exceed it.

    Notes
    -----
    **Privacy.** Event: one decision at each iteration. On all records one record moves its log-odds by at
    most ``eta = T * 2B`` (substitute) or ``T * B`` (add/remove): `BoundedRangeDecisionDpEvent`
    (docs/proofs/decision_accounting, Proposition 1). On batches: `BarkerMinibatchDpEvent`
    (docs/proofs/barker, Theorem 4). Released: draws, decisions, stats that do not depend on the data, the
    noisy clip fraction. Assumed: as in `DPPenaltyMH`.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dp as dp
    >>> rng = np.random.default_rng(1)
    >>> X = rng.uniform(-1, 1, size=(500, 2)) / np.sqrt(2)
    >>> y = rng.random(500) < 1 / (1 + np.exp(-X @ [1.0, -1.0]))
    >>> with pm.Model():
    ...     beta = pm.Normal("beta", 0, 2, shape=2)
    ...     _ = pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    ...     step = dp.DPBarker(epsilon=2.0, delta=1e-6, lipschitz=1.0, chains=1)
    >>> print(step.cost(draws=100, tune=100))  # doctest: +ELLIPSIS
    (2, 1e-06)-differential privacy for the whole call, one record replaced
    ...
    """

    name = "dp_barker"
    takes_data = True
    mechanism = "sum of clipped log-likelihood ratios, no noise, Barker's test"
    approximation = ""

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        epsilon: float,
        delta: float,
        lipschitz: float | None = None,
        clip_bound: float | None = None,
        batch_size: int | None = None,
        **kwargs: Unpack[WalkSettings],
    ):
        if batch_size is not None and (lipschitz is None or clip_bound is not None):
            raise ValueError(
                "batch_size= goes with lipschitz=: on batches a ratio is clipped at sqrt(batch_size) / (n * "
                "tempering) nats, and moves are short enough for that."
            )
        self.clip = as_clip(lipschitz, clip_bound)
        super().__init__(vars, epsilon=epsilon, delta=delta, batch_size=batch_size, **kwargs)
        if self._batches is not None:
            self._batches.barker_event()  # refuses batches so small that no Rényi order is left
            self.mechanism = "clipped log-likelihood ratios of a batch, noise up to variance 2, Barker's test"
            self.approximation = BarkerBatch.approximation
        elif math.isinf(self.epsilon) and self.moves.initial is None and clip_bound is None:
            raise ValueError("step_size= is missing: with epsilon=inf no budget limits the moves.")
        best = optimal_barker_walk(self.records.d, not self.moves.gaussian)[1]
        self.moves.target_accept = self.moves.target_accept or best

    def _price(self, call: Call) -> PrivacyPlan:
        if self._batches is not None:
            sizes = self._batches.batch_size, self._batches.dataset_size
            bound = barker_correction.clip_bound(*sizes, self.tempering)
            return pricing.barker_on_batches(call, self._batches, bound)
        if isinstance(self.clip, ConstantClip):
            return pricing.barker_at(call, self.clip.constant, self.tempering, self.clip_fraction)
        return pricing.barker(call, self.tempering, clip_fraction=self.clip_fraction)

    def _start_moves(self, chain: Chain) -> None:
        chain.clip_bound = chain.plan.clip_bound
        if self._batches is not None:
            chain.stats["batch_size"] = float(self._batches.batch_size)
        self._limit_moves(chain.clip_bound)
        longest = self.moves.longest
        default = longest / self.moves.unit_length if math.isfinite(longest) else 0.1
        self.moves.step_size = self.moves.initial or default

    def _clip_name(self) -> str:
        if self.plan.clip_bound is None:
            return super()._clip_name()
        return str(ConstantClip(self.plan.clip_bound))
