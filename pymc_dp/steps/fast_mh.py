"""DP-Fast MH: exact minibatch Metropolis-Hastings, with a test whose decisions are private."""

import math
from collections.abc import Sequence
from typing import Unpack

from pytensor.graph import Variable

from pymc_dp.bounds import check_choice, check_positive
from pymc_dp.clipping import Constants, as_clip
from pymc_dp.kernels.metropolis import Ratio
from pymc_dp.kernels.tuning import optimal_barker_walk, optimal_walk
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.mechanisms.iterations import OnTunaBatches
from pymc_dp.ratios.tuna import TunaBatch
from pymc_dp.steps.chain import Chain
from pymc_dp.steps.walk_step import WalkSettings, WalkStep


class DPFastMH(WalkStep):
    """Differentially private Metropolis-Hastings on minibatches, with the exact posterior as its target.

    Each iteration draws records as TunaMH does (Zhang, Cooper & De Sa 2020), clips their log-likelihood
    ratios, and accepts by Barker's test, whose own randomness makes the decision private: no noise is added.
    The stationary distribution is the exact (tempered) posterior when no ratio is clipped, whatever the batch
    size. The longest move and the batch size are computed from epsilon, delta and a Lipschitz constant.

    Parameters
    ----------
    vars : list, optional
        All free variables of the model, which is the default. A subset is refused.
    epsilon, delta : float
        Guarantee of one whole call of `pymc.sample`: all chains, tuning included. ``epsilon=inf`` gives plain
        TunaMH, and marks every result as not private.
    lipschitz : float, optional
        L: a record's log-likelihood ratio is clipped to ``L * distance moved``, in nats per unit of
        unconstrained space. Moves longer than the budget allows are shortened. Give this or `clip_bound`.
    clip_bound : float, optional
        B: a record's ratio is clipped to this many nats, whatever the move. Give also a `step_size` at which
        little is clipped: tuning does not adapt it. Batches are as large as the budget requires.
    batch_size : float, optional
        Expected number of drawn records, ``lambda + n B``. Default: see docs/fast_mh; at least 1,000. From n
        / 2 on all records are used.
    test : {"barker", "penalty"}
        Accept test. "penalty" is the penalty test, for which Gaussian noise is added to the log-ratio.
    noise_std : float, optional
        For "penalty": standard deviation of the noise of the longest move, in nats. Default: the one with the
        largest expected squared jump, about 2.4.
    public_n : int, optional
        For ``neighboring_relation="add_remove"``: approximate number of records, from public knowledge.
    proposal : {"gaussian", "fixed_radius"} or object with ``move(rng, d)``, optional
        Default: "fixed_radius"; "gaussian" in one dimension.
    step_size : float, optional
        Initial multiple of the proposal's scale. Default: that of the longest move, or of a shorter one where
        the sampling noise of the batch would be too large.
    target_accept : float, optional
        Acceptance rate that tuning aims at. Default: the rate with the largest expected squared jump.
    adapt_step_size : bool
        Whether tuning adapts the step size, from accept decisions only (not with `clip_bound`).
    **kwargs
        `chains`, `tempering`, `neighboring_relation`, `privacy_unit`, `exclude_deterministics`, `ledger`,
        `debug_seed`, `model`, `compile_kwargs`: as in `DPPenaltyMH`.

    Raises
    ------
    ValueError
        A parameter is out of range, such as a batch that is larger than n, or so small that no lambda > 0 is
        left.
    ModelRefusedError
        The model would leak; see `pymc_dp.records.checks`.
    BudgetError
        In `cost` and during sampling, if the settings do not fit the budget; during sampling, if a chain or
        call would exceed it.

    Notes
    -----
    **Privacy.** Event: one decision at each iteration. A record enters the log-ratio a Poisson number of
    times, with mean at most ``lambda / n + B``, each time with a term of at most ``log(1 + n B / lambda)``.
    "barker": `PoissonBarkerDecisionDpEvent`, or a bounded-range decision on all records; "penalty":
    `PoissonMixtureDpEvent`, or a penalty decision on all records. The object that draws the batch states the
    event. Released: draws, decisions, and stats that do not depend on the data, among them the *expected*
    number of drawn records; the number itself would cost more. No clip fraction is released. Assumed: as in
    `DPPenaltyMH`. Proof: docs/proofs/fast_mh.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dp as dp
    >>> rng = np.random.default_rng(1)
    >>> X = rng.uniform(-1, 1, size=(5000, 2)) / np.sqrt(2)
    >>> y = rng.random(5000) < 1 / (1 + np.exp(-X @ [1.0, -1.0]))
    >>> with pm.Model():
    ...     beta = pm.Normal("beta", 0, 2, shape=2)
    ...     _ = pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    ...     step = dp.DPFastMH(epsilon=1.0, delta=1e-6, lipschitz=1.0, chains=1)
    >>> print(step.cost(draws=2000, tune=500))  # doctest: +ELLIPSIS
    (1, 1e-06)-differential privacy for the whole call, one record replaced
    ...
    """

    name = "dp_fast_mh"
    approximation = ""
    takes_data = True

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        epsilon: float,
        delta: float,
        lipschitz: Constants | None = None,
        clip_bound: float | None = None,
        batch_size: float | None = None,
        test: str = "barker",
        noise_std: float | None = None,
        public_n: int | None = None,
        **kwargs: Unpack[WalkSettings],
    ):
        check_choice("test", test, ("barker", "penalty"))
        for name, value in (("batch_size", batch_size), ("noise_std", noise_std), ("public_n", public_n)):
            if value is not None:
                check_positive(name, value)
        if clip_bound is not None and kwargs.get("step_size") is None:
            raise ValueError("clip_bound= needs step_size=: moves so short that few records are clipped.")
        self.test = test
        self.clip = as_clip(lipschitz, clip_bound)
        super().__init__(vars, epsilon=epsilon, delta=delta, **(kwargs | {"clip_fraction": False}))
        self._n = self._known_n(public_n, batch_size)
        self._inclusion = None if batch_size is None else batch_size / self._n
        self._constant = clip_bound
        if clip_bound is not None:
            self.moves.adapt = False  # acceptance does not show what is clipped
        d = self.records.d
        self._best_noise_std, best = optimal_walk(d, not self.moves.gaussian)
        self.noise_std = self._best_noise_std if noise_std is None else float(noise_std)
        # Without privacy the test is that of Metropolis, and the only noise is the sampling error of the
        # batch.
        if test == "barker" and math.isfinite(self.epsilon):
            self._best_noise_std, best = optimal_barker_walk(d, not self.moves.gaussian)
        self.moves.target_accept = self.moves.target_accept or best

    def _known_n(self, public_n: int | None, batch_size: float | None) -> int:
        if self.neighboring_relation == "add_remove" and public_n is None:
            raise ValueError(
                "Under neighboring_relation='add_remove' the number of records is private, and the size of "
                "a batch refers to one: give public_n=, about as many as there are, from public knowledge."
            )
        n = self.records.n if public_n is None else int(public_n)
        if batch_size is not None and batch_size > n:
            raise ValueError(f"batch_size = {batch_size:g} is larger than n = {n}; leave it out.")
        return n

    def _price(self, call: Call) -> PrivacyPlan:
        return pricing.fast_mh(
            call,
            n=self._n,
            d=self.records.d,
            tempering=self.tempering,
            noise_std=self.noise_std if self.test == "penalty" else None,
            one_scale=self._constant is not None,
            inclusion=self._inclusion,
            clip_bound=self._constant,
        )

    def _start_moves(self, chain: Chain) -> None:
        # The expected number of draws: the number itself is secret (docs/proofs/fast_mh, section 5).
        mechanism = chain.plan.mechanism
        chain.stats["batch_size"] = mechanism.batch_size if isinstance(mechanism, OnTunaBatches) else math.nan
        self._limit_moves(chain.plan.clip_bound)
        self.moves.step_size = self.moves.initial or self._default_step_size(chain.ratio)

    def _default_step_size(self, ratio: Ratio) -> float:
        if math.isinf(self.moves.longest):
            return 0.1
        length = self.moves.longest
        if isinstance(ratio, TunaBatch):
            # The clip bound at which the sampling noise of the batch is best, if each record's ratio were as
            # large as its bound (docs/fast_mh).
            middle = ratio.batches.spread / 2
            bound = self._best_noise_std * math.sqrt(middle * self.records.d / self._n)
            length *= min(1.0, bound / ratio.batches.clip_bound)
        return length / self.moves.unit_length

    @property
    def mechanism(self) -> str:  # type: ignore[override]
        """Description of an iteration, for the report."""
        on_batches = isinstance(self.plan.mechanism, OnTunaBatches)
        where = "Poisson batches of clipped" if on_batches else "sum of clipped"
        noise = "Gaussian noise, penalty test" if self.test == "penalty" else "no noise, Barker's test"
        return f"{where} log-likelihood ratios, {noise if math.isfinite(self.epsilon) else 'Metropolis test'}"
