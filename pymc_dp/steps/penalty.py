"""DP penalty: Metropolis-Hastings on a noisy log-ratio (Yıldırım & Ermiş 2019, Räisä 2021)."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Unpack

import numpy as np
from pytensor.graph.basic import Variable

from pymc_dp.bounds import check_choice
from pymc_dp.clipping import ConstantClip, Constants, LipschitzByPart, LipschitzClip, as_clip
from pymc_dp.kernels.metropolis import Info, Ratio
from pymc_dp.kernels.tuning import optimal_guided_walk, optimal_walk
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.known import Facts
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches, Gaussian
from pymc_dp.ratios import on_owners as of_owners
from pymc_dp.ratios.on_owners import OnOwners
from pymc_dp.ratios.subsets import CorrectedBatch
from pymc_dp.remote.owners import Owner, Owners, RecordsOfOwners, refuse_beside_owners
from pymc_dp.steps.chain import Chain
from pymc_dp.steps.walk_step import WalkSettings, WalkStep

# Sampler stat of runs that release, and charge for, their noisy log-ratios.
NOISY_RATIO = "noisy_log_ratio"


class DPPenaltyMH(WalkStep):
    """Differentially private random-walk Metropolis-Hastings with the penalty test.

    Each iteration computes every record's log-likelihood ratio between the proposal and the current point,
    clips it, adds Gaussian noise of standard deviation ``s`` to the tempered sum, and accepts with the
    penalty test ``ln u < noisy log-ratio - s**2 / 2``. The noise is corrected for: the chain's stationary
    distribution is the exact (tempered) posterior when no ratio is clipped. On batches it is approximate.

    Parameters
    ----------
    vars : list, optional
        All free variables of the model (the default); anything less is refused.
    epsilon, delta : float
        Guarantee of one whole call of `pymc.sample`: chains x (tune + draws) iterations. ``epsilon=inf`` adds
        no noise and marks every result as not private.
    lipschitz : float, array_like of shape (d,) or dict, optional
        L: a record's ratio is clipped at L times the distance moved in unconstrained space. An array has a
        constant for each component, a dict one or an array for each free variable; their bounds add up
        (`pymc_dp.clipping.LipschitzByPart`). Exactly one of `lipschitz` and `clip_bound` is given.
    clip_bound : float, optional
        B, in nats: a record's ratio is clipped at B.
    batch_size : int, optional
        b: each iteration reads b records drawn without replacement, and the test is corrected for the
        estimated variance of their sum (Räisä 2021, section 4.1). Approximate by the central limit theorem,
        and of use with a small `tempering` only: the noise grows like n T / b. Default: all records.
    chains : int, optional
        Chains of the call. Default: 2; each is paid for. `pymc.sample` has more by default on some machines:
        give it the same number, or use `dp.sample`.
    proposal : {"fixed_radius", "gaussian", "one_at_a_time", "guided"} or Proposal, optional
        Random walk; objects of `pymc_dp.proposals` take a public scale or covariance. Default:
        "fixed_radius", whose noise is the same at every iteration; "gaussian" in one dimension.
    step_size : float, optional
        Initial multiple of the proposal's scale. Default: with `lipschitz` and privacy, the step that is best
        when the noise limits it; otherwise 0.1. Tuning adapts it.
    target_accept : float, optional
        Acceptance rate that tuning aims at. Default: the best one for this proposal, .234 with a fixed
        radius.
    adapt_step_size : bool
        Whether tuning adapts the step size. Without adaptation, moves of one length (``FixedRadius`` with a
        scalar scale) have noise of one public size, and decisions are charged less.
    release : {"decisions", "noisy_ratio"}
        "noisy_ratio" stores each noisy log-ratio as a sampler stat, and charges for it: 1.3 to 1.5 times the
        noise variance per iteration that decisions alone need.
    tempering : float
        T in (0, 1]: the log-likelihood is multiplied by T.
    neighboring_relation : {"substitute", "add_remove"}
        Neighbouring data sets: one record replaced (n is public), or one added or removed.
    privacy_unit : array_like, shape (n_rows,), or mapping, optional
        Id of the person each row belongs to; a person's rows are summed, then clipped, and the guarantee is
        for persons. By name, as ``{"patient": ids}``, for a ledger of that unit.
    owners : list of Owner, optional
        Data owners, each with its own (epsilon, delta), clip bound, noise and ledger (Yıldırım & Ermiş 2019,
        Algorithm 2); `epsilon`, `delta`, `lipschitz`, `clip_bound` and `ledger` are then theirs. The rows of
        the model do not count.
    data : Shards, optional
        Records in several parts, on other machines or in turn; then the rows of the model do not count.
    exclude_deterministics : list of str
        Deterministics that are not released, though they read no private row; those that do never are.
    clip_fraction : bool
        Release, with noise and charged, each chain's mean share of clipped ratios at its last draw
        (`substitute` and full batch only).
    ledger : Ledger, optional
        Budget of the data set across calls, sessions and libraries; the whole call is charged before a row is
        read.
    label : str, optional
        What the ledger's entry is called. Default: the step's name.
    debug_seed : int, optional
        Reproducible noise, for debugging; marks every result as not private.
    model : pymc.Model, optional
    compile_kwargs : dict, optional
        ``{"mode": ...}``: how PyTensor compiles; a plain mode, with the linker ``"numba"`` (the default),
        ``"cvm"``, ``"vm"`` or ``"py"``. Others, such as `NanGuardMode`, stop at a record or show it.

    Raises
    ------
    ValueError
        A parameter is out of range.
    ModelRefusedError
        The model would leak; see `pymc_dp.records.checks`.
    BudgetError
        In sampling: a chain, iteration or call beyond the budget.

    Notes
    -----
    **Privacy.** Event: at each iteration one accept decision, behind one Gaussian release of the sum of
    clipped ratios with noise multiplier ``nm`` and sensitivity 2B (substitute) or B (add/remove), B public.
    Charged by decision accounting (docs/proofs/decision_accounting), or as Gaussians with
    ``release="noisy_ratio"`` (Räisä 2021, Theorem 7), over all iterations of all chains, tuning included.
    With `batch_size`: a Gaussian release on a batch without replacement (Räisä 2021, Theorem 9; the
    sensitivity is that of docs/proofs/penalty, section 6).
    Released: the draws, the decisions, data-free stats, the noisy clip fraction. Assumed: priors, bounds,
    initial values and proposals are chosen without the private data. Proof: docs/proofs/penalty.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dp as dp
    >>> rng = np.random.default_rng(1)
    >>> X = rng.uniform(-1, 1, size=(500, 2)) / np.sqrt(2)
    >>> y = rng.random(500) < 1 / (1 + np.exp(-X @ [1.0, -1.0]))
    >>> with pm.Model():
    ...     beta = pm.Normal("beta", 0, 2, shape=2)
    ...     _ = pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    ...     step = dp.DPPenaltyMH(epsilon=2.0, delta=1e-6, lipschitz=1.0, chains=1)
    >>> print(step.cost(draws=100, tune=100))  # doctest: +ELLIPSIS
    (2, 1e-06)-differential privacy for the whole call, one record replaced
    ...
    """

    name = "dp_penalty"
    takes_data = True
    mechanism = "Gaussian noise on the sum of clipped log-likelihood ratios, penalty test"
    approximation = ""
    _batches: FixedSizeBatches | None = None

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        lipschitz: Constants | None = None,
        clip_bound: float | None = None,
        batch_size: int | None = None,
        owners: Sequence[Owner] | None = None,
        release: str = "decisions",
        **kwargs: Unpack[WalkSettings],
    ):
        check_choice("release", release, ("decisions", "noisy_ratio"))
        given: dict[str, object] = {"epsilon": epsilon, "delta": delta, "lipschitz": lipschitz}
        given |= {"clip_bound": clip_bound, "batch_size": batch_size}
        given |= {name: kwargs.get(name) for name in ("ledger", "privacy_unit", "data")}
        if owners is not None:
            refuse_beside_owners(given)
            self._owners = joint = Owners(owners, kwargs.get("neighboring_relation", "substitute"))
            epsilon, delta = joint.epsilon, joint.delta
            lipschitz, clip_bound = joint.lipschitz, joint.clip_bound
            kwargs |= {"data": joint, "clip_fraction": False}
        elif epsilon is None or delta is None:
            raise TypeError("epsilon= and delta= are required: the guarantee of the whole call.")
        self.clip = as_clip(lipschitz, clip_bound, by_part=True)
        self.release = release
        if release == "noisy_ratio":
            self.stats_dtypes_shapes = {**self.stats_dtypes_shapes, NOISY_RATIO: (np.float64, [])}  # type: ignore[misc]
            self.stats_dtypes = [{name: dtype for name, (dtype, _) in self.stats_dtypes_shapes.items()}]
        if batch_size is not None:
            kwargs["clip_fraction"] = False  # the share of a batch has another sensitivity
        super().__init__(vars, epsilon=epsilon, delta=delta, **kwargs)
        if owners is not None:
            self.mechanism = f"each data owner adds Gaussian noise: {self.mechanism}"
        elif batch_size is not None:
            self.approximation = CorrectedBatch.approximation
            self._batches = self._fixed_batches(batch_size)
        if isinstance(self.clip, LipschitzByPart):
            names, shapes = self.model.values_to_rvs, self.records.shapes
            self.clip = self.clip.fitted({names[v].name: shapes[v.name] for v in self.model.value_vars})
        d = self.records.d
        best = optimal_guided_walk() if self.moves.guided else optimal_walk(d, not self.moves.gaussian)
        self._best_noise_std, self.moves.target_accept = best[0], self.moves.target_accept or best[1]

    @cached_property
    def recorded_stats(self) -> dict[str, str]:
        """See `Iterating.recorded_stats`; noisy log-ratios only where they are charged for."""
        noisy = {NOISY_RATIO: "<f8"} if self.release == "noisy_ratio" else {}
        return {**super().recorded_stats, **noisy}

    def _price(self, call: Call) -> PrivacyPlan:
        if isinstance(self.records, RecordsOfOwners):
            return of_owners.price(self.records, call, self.release)
        if self._batches is not None:
            return pricing.penalty_on_batches(call, self._batches, release=self.release)
        # Noise of one public size costs less.
        bound, fixed = self.moves.constant_clip_bound(self.clip, self.moves.initial), {}
        if bound:
            fixed = {"shift": self.tempering * self._sensitivity * bound}
        elif isinstance(self.clip, LipschitzClip) and self.moves.fixed_length():
            fixed = {"noise_std": self._best_noise_std}
        return pricing.penalty(call, clip_fraction=self.clip_fraction, release=self.release, **fixed)

    def facts(self) -> Facts:
        """What a report needs to know; nothing here is computed from private rows."""
        if not isinstance(self.records, RecordsOfOwners):
            return super().facts()
        return {**super().facts(), "owners": of_owners.facts(self.records, self.plan)}

    def _ratio(self, plan: PrivacyPlan) -> Ratio:
        """Where the log-ratio comes from; owners charge the call here."""
        if isinstance(self.records, RecordsOfOwners):
            return OnOwners(self.records, self.tempering, plan)
        return super()._ratio(plan)

    def _start_moves(self, chain: Chain) -> None:
        ratio: Any = chain.ratio
        self.moves.step_size = self.moves.initial or 0.1
        by_length = not isinstance(self.clip, ConstantClip)
        if self.moves.initial is None and by_length and chain.plan.noise_multiplier > 0:
            self.moves.set_steps(self.clip.bound, ratio.bound_of_noise(self._best_noise_std))
        chain.clip_bound = self.moves.constant_clip_bound(self.clip, self.moves.step_size)

    def _stats(self, chain: Chain, info: Info) -> dict[str, float]:
        stats = super()._stats(chain, info)
        if self.release == "noisy_ratio":
            stats[NOISY_RATIO] = float(Gaussian(info.ratio.noise_std).rounded(info.ratio.value))
        return stats
