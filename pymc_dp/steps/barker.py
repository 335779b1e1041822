"""DP Barker: a test whose own randomness is the privacy, on all records; batches (Heikkilä et al. 2019)."""

import math
from typing import Any

import numpy as np

from pymc_dp.clipping import ConstantClip, LipschitzClip, as_clip
from pymc_dp.privacy.plan import Call, PrivacyPlan
from pymc_dp.proposals import Proposal
from pymc_dp.steps.barker_ratios import OnAllRecords, OnBatches
from pymc_dp.steps.base import DPStep
from pymc_dp.steps.tuning import optimal_barker_walk
from pymc_dp.steps.walk import RandomWalk, check_walk


class DPBarker(DPStep):
    """Differentially private random-walk sampler with Barker's acceptance test.

    A proposal is accepted with probability ``1 / (1 + exp(-log-ratio))``. On all records (the default) no
    noise is added: when one record cannot move the log-ratio by more than the clipping allows, the decision
    is private by its own randomness. The stationary distribution is the exact (tempered) posterior when no
    ratio is clipped. On batches it is approximate.

    Parameters
    ----------
    vars : list, optional
        All free variables of the model (the default); anything less is refused.
    epsilon, delta : float
        Guarantee of one whole call of `pymc.sample`: all chains, tuning included. ``epsilon=inf`` gives
        Barker's sampler, and marks every result as not private.
    lipschitz : float, optional
        L: the log-likelihood ratio of a record is at most ``L * distance moved``, in nats per unit of
        unconstrained space. Moves longer than the budget allows are shortened, and no ratio is clipped if L
        holds for every record. Without `batch_size`, exactly one of `lipschitz` and `clip_bound` is given.
    clip_bound : float, optional
        B: a record's ratio is clipped to this many nats, whatever the move. It fixes the price.
    batch_size : int, optional
        b: each iteration reads b records drawn without replacement, and noise completes their own error to
        an about logistic one (Heikkilä et al. 2019; Räisä 2021, Algorithm 2). A record's ratio is clipped at
        ``sqrt(b) / (n T)``, and moves are shortened to that over `lipschitz`. Approximate by the central
        limit theorem and by the correction distribution. b and n fix the price. Default: all records.
    proposal : {"fixed_radius", "gaussian", ...} or Proposal, optional
        As in `DPPenaltyMH`.
    step_size : float, optional
        Initial multiple of the proposal's scale. Default: the longest move; .1 with `clip_bound`. Needed with
        `lipschitz` and ``epsilon=inf`` on all records, where no budget limits the moves.
    target_accept : float, optional
        Acceptance rate that tuning aims at. Default: that of the longest expected squared jump, .16 with a
        fixed radius. Where the longest move is short, more are accepted.
    adapt_step_size : bool
        Whether tuning adapts the step size, from accept decisions only.
    clip_fraction : bool
        As in `DPPenaltyMH`; all records only.
    **kwargs
        `chains`, `tempering`, `neighboring_relation`, `privacy_unit`, `data`, `exclude_deterministics`,
        `ledger`, `debug_seed`, `model`, `rng`, `compile_kwargs`: as in `DPPenaltyMH`. On batches
        `neighboring_relation` is "substitute".

    Raises
    ------
    ValueError
        A parameter is out of range; a batch larger than n, or of 10 records or fewer.
    ModelRefusedError
        The model would leak; see `pymc_dp.records.checks`.
    BudgetError
        In `cost` and in sampling: `clip_bound` or `batch_size` does not fit the budget; a chain or call
        beyond it.

    Notes
    -----
    **Privacy.** Event: at each iteration one decision. All records: one record moves its log-odds by at most
    ``eta = T * 2B`` (substitute) or ``T * B`` (add/remove): `BoundedRangeDecisionDpEvent`
    (docs/proofs/decision_accounting, Proposition 1). Batches: `BarkerMinibatchDpEvent` (docs/proofs/barker,
    Theorem 4). Released: draws, decisions, data-free stats, the noisy clip fraction. Assumed: as in
    `DPPenaltyMH`.

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
    test_on_residuals = "barker"
    moves: RandomWalk

    def __init__(
        self,
        vars: Any = None,
        *,
        epsilon: float,
        delta: float,
        lipschitz: float | None = None,
        clip_bound: float | None = None,
        batch_size: int | None = None,
        proposal: str | Proposal | None = None,
        step_size: float | None = None,
        target_accept: float | None = None,
        adapt_step_size: bool = True,
        clip_fraction: bool = True,
        **kwargs: Any,
    ):
        check_walk(proposal, step_size, target_accept)
        if batch_size is not None and (lipschitz is None or clip_bound is not None):
            raise ValueError(
                "batch_size= goes with lipschitz=: on batches a ratio is clipped at sqrt(batch_size) / (n * "
                "tempering) nats, and moves are short enough for that."
            )
        self.clip = as_clip(lipschitz, clip_bound)
        super().__init__(
            vars, epsilon=epsilon, delta=delta, clip_fraction=clip_fraction and batch_size is None, **kwargs
        )
        self._test: OnAllRecords | OnBatches
        if batch_size is None:
            if math.isinf(self.epsilon) and step_size is None and clip_bound is None:
                raise ValueError("step_size= is missing: with epsilon=inf no budget limits the moves.")
            self._test = OnAllRecords(self.records, self.tempering, self._sensitivity, self.clip)
        else:
            if self.neighboring_relation != "substitute":
                raise ValueError("batch_size= is for neighboring_relation='substitute': n must be public.")
            self._test = OnBatches(self.records, self.tempering, batch_size)
        self.mechanism, self.approximation = self._test.mechanism, self._test.approximation
        d = self.records.d
        self.moves = RandomWalk(
            proposal, d, step_size=step_size, target_accept=target_accept, adapt=adapt_step_size
        )
        best = optimal_barker_walk(d, not self.moves.gaussian)[1]
        self.moves.target_accept = self.moves.target_accept or best

    def _price(self, call: Call) -> PrivacyPlan:
        return self._test.price(call, self.clip_fraction)

    def _start(self) -> None:
        if self._constant is not None and isinstance(self.clip, LipschitzClip):
            self.moves.longest = self._constant / self.clip.constant
        longest = self.moves.longest
        default = longest / self.moves.unit_length if math.isfinite(longest) else 0.1
        self.step_size = self.moves.initial or default

    @property
    def _constant(self) -> float | None:
        """Bound on each ratio, in nats; None where no budget sets one, and it is that of the move."""
        return self.plan.parameters.get("clip_bound")

    def _arrive(self, theta: np.ndarray) -> None:
        self._rows, self._log_prior = self._test.at(theta)

    def _iterate(self, theta: np.ndarray) -> tuple[bool, dict[str, float]]:
        move = self.moves.move(self.rng)
        bound = self._constant or self.clip.bound(move)
        new = self._test.compare(theta, theta + move, self._rows, bound, self._random)
        self._clipped += new.clipped
        accepted = self._test.accepts(new.ratio + new.log_prior - self._log_prior, self._random)
        if accepted:
            self._theta, self._rows, self._log_prior = theta + move, new.kept, new.log_prior
        return accepted, {"clip_bound": bound, **self._test.stats}

    def _clip_name(self) -> str:
        return str(self.clip if self._constant is None else ConstantClip(self._constant))
