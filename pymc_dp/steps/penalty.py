"""DP penalty: Metropolis-Hastings on a noisy log-ratio (Yıldırım & Ermiş 2019, Räisä 2021)."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Unpack

import numpy as np
from pytensor.graph import Variable

from pymc_dp.bounds import check_choice
from pymc_dp.clipping import ConstantClip, Constants, LipschitzByPart, LipschitzClip, as_clip
from pymc_dp.kernels.metropolis import Info, Ratio
from pymc_dp.kernels.tuning import optimal_guided_walk, optimal_walk
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.known import Facts
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.mechanisms.randomness import Gaussian
from pymc_dp.ratios import on_owners as of_owners
from pymc_dp.ratios.on_owners import OnOwners
from pymc_dp.ratios.subsets import CorrectedBatch
from pymc_dp.remote.owners import Owner, Owners, RecordsOfOwners, refuse_beside_owners
from pymc_dp.steps.chain import Chain
from pymc_dp.steps.walk_step import WalkSettings, WalkStep

# Name of the sampler stat that holds noisy log-ratios, in runs that release and charge for them.
NOISY_RATIO = "noisy_log_ratio"


class DPPenaltyMH(WalkStep):
    """Differentially private random-walk Metropolis-Hastings with the penalty test.

    Each iteration computes every record's log-likelihood ratio between the proposal and the current point,
    clips it, adds Gaussian noise of standard deviation ``s`` to the tempered sum, and accepts with the
    penalty test ``ln u < noisy log-ratio - s**2 / 2``. The test corrects for the noise: the chain's
    stationary distribution is the exact (tempered) posterior when no ratio is clipped. On batches it is
    approximate.

    Parameters
    ----------
    vars : list, optional
        All free variables of the model, which is the default. A subset is refused.
    epsilon, delta : float
        Guarantee of one whole call of `pymc.sample`: chains x (tune + draws) iterations. ``epsilon=inf`` adds
        no noise and marks every result as not private. Needed, except with `owners`.
    lipschitz : float, array_like of shape (d,) or dict, optional
        L, in nats per unit of unconstrained space: a record's ratio is clipped at L times the distance moved.
        An array has a constant for each component; a dict has a number or an array for each free variable.
        The bounds of the parts add up (`pymc_dp.clipping.LipschitzByPart`). Give exactly one of `lipschitz`
        and `clip_bound`.
    clip_bound : float, optional
        B, in nats: a record's ratio is clipped at B, whatever the move.
    batch_size : int, optional
        b: each iteration reads b records drawn without replacement, and the test is corrected for the
        estimated variance of their sum (Räisä 2021, section 4.1). The result is approximate, by the central
        limit theorem. Useful only with a small `tempering`, as the noise grows like n T / b. Default: all
        records.
    chains : int, optional
        Number of chains of the call, each of which is paid for. Default: 2. The default of `pymc.sample` is
        larger on some machines: give it the same number, or use `dp.sample`.
    proposal : {"fixed_radius", "gaussian", "one_at_a_time", "guided"} or Proposal, optional
        Random walk. Objects of `pymc_dp.proposals` take a public scale or covariance. Default:
        "fixed_radius", with which the noise is the same at every iteration; "gaussian" in one dimension.
    step_size : float, optional
        Initial multiple of the proposal's scale. Default: with `lipschitz` and privacy, the step size that is
        best where noise limits it; otherwise 0.1. Tuning adapts it.
    target_accept : float, optional
        Acceptance rate that tuning aims at. Default: the best one for this proposal, .234 with a fixed
        radius.
    adapt_step_size : bool
        Whether tuning adapts the step size. If it does not, and all moves have one length (``FixedRadius``
        with a scalar scale), the noise has one public standard deviation and decisions cost less.
    release : {"decisions", "noisy_ratio"}
        "noisy_ratio" stores each noisy log-ratio as a sampler stat, and charges for it. Each iteration then
        needs 1.3 to 1.5 times the noise variance that it needs where decisions alone are released.
    tempering : float
        T in (0, 1]: the log-likelihood is multiplied by T.
    neighboring_relation : {"substitute", "add_remove"}
        Neighbouring data sets: one record replaced (n is public), or one added or removed.
    privacy_unit : array_like, shape (n_rows,), or mapping, optional
        Id of the person to whom each row belongs. The ratios of a person's rows are added up, then clipped,
        and the guarantee is for persons. Give ``{"patient": ids}`` for a ledger whose unit is "patient".
    owners : list of Owner, optional
        Data owners, each with its own (epsilon, delta), clip bound, noise and ledger (Yıldırım & Ermiş 2019,
        Algorithm 2). `epsilon`, `delta`, `lipschitz`, `clip_bound` and `ledger` are then given by the owners.
        The rows of the model are then no part of the data.
    data : Shards, optional
        Records in several parts, on other machines or read one after another. The rows of the model are then
        no part of the data.
    exclude_deterministics : list of str
        Deterministics that are not to be released. Those that read a private row never are released.
    clip_fraction : bool
        Whether each chain releases, with noise and at a cost, the mean share of ratios that were clipped, at
        its last draw (`substitute` and full batch only).
    ledger : Ledger, optional
        Budget of the data set across calls, sessions and libraries. The whole call is charged before a row is
        read.
    label : str, optional
        Name of the ledger's entry. Default: the name of the step's class.
    debug_seed : int, optional
        Reproducible noise, for debugging; marks every result as not private.
    model : pymc.Model, optional
    compile_kwargs : dict, optional
        ``{"mode": ...}``: how PyTensor compiles: a plain mode, with the linker ``"numba"`` (the default),
        ``"cvm"``, ``"vm"`` or ``"py"``. Other modes, such as `NanGuardMode`, raise an error at the value of a
        record, or print it.

    Raises
    ------
    ValueError
        A parameter is out of range.
    ModelRefusedError
        The model would leak; see `pymc_dp.records.checks`.
    BudgetError
        During sampling, if a chain, iteration or call would exceed the budget.

    Notes
    -----
    **Privacy.** Event: one accept decision at each iteration. It is computed from one Gaussian release of the
    sum of clipped ratios, with noise multiplier ``nm`` and sensitivity 2B (substitute) or B (add/remove), B
    public. It is charged by decision accounting (docs/proofs/decision_accounting), or as a Gaussian with
    ``release="noisy_ratio"`` (Räisä 2021, Theorem 7), over all iterations of all chains, tuning included.
    With `batch_size`: a Gaussian release on a batch without replacement (Räisä 2021, Theorem 9; the
    sensitivity is that of docs/proofs/penalty, section 6). Released: the draws, the decisions, stats that do
    not depend on the data, the noisy clip fraction. Assumed: priors, bounds, initial values and proposals are
    chosen without the private data. Proof: docs/proofs/penalty.

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
        super().__init__(vars, epsilon=epsilon, delta=delta, batch_size=batch_size, **kwargs)
        if owners is not None:
            self.mechanism = f"each data owner adds Gaussian noise: {self.mechanism}"
        elif batch_size is not None:
            self.approximation = CorrectedBatch.approximation
        if isinstance(self.clip, LipschitzByPart):
            names, shapes = self.model.values_to_rvs, self.records.shapes
            self.clip = self.clip.fitted({names[v].name: shapes[v.name] for v in self.model.value_vars})
        d = self.records.d
        best = optimal_guided_walk() if self.moves.guided else optimal_walk(d, not self.moves.gaussian)
        self._best_noise_std, self.moves.target_accept = best[0], self.moves.target_accept or best[1]

    @cached_property
    def recorded_stats(self) -> dict[str, str]:
        """As `Iterating.recorded_stats`; with noisy log-ratios only where they are charged for."""
        noisy = {NOISY_RATIO: "<f8"} if self.release == "noisy_ratio" else {}
        return {**super().recorded_stats, **noisy}

    def _price(self, call: Call) -> PrivacyPlan:
        if isinstance(self.records, RecordsOfOwners):
            return of_owners.price(self.records, call, self.release)
        if self._batches is not None:
            return pricing.penalty_on_batches(call, self._batches, release=self.release)
        # Decisions whose noise has one public standard deviation cost less.
        bound, fixed = self.moves.constant_clip_bound(self.clip, self.moves.initial), {}
        if bound:
            fixed = {"shift": self.tempering * self._sensitivity * bound}
        elif isinstance(self.clip, LipschitzClip) and self.moves.fixed_length():
            fixed = {"noise_std": self._best_noise_std}
        return pricing.penalty(call, clip_fraction=self.clip_fraction, release=self.release, **fixed)

    def facts(self) -> Facts:
        """Return what a report needs to know; nothing here is computed from private rows."""
        if not isinstance(self.records, RecordsOfOwners):
            return super().facts()
        return {**super().facts(), "owners": of_owners.facts(self.records, self.plan)}

    def _ratio(self, plan: PrivacyPlan) -> Ratio:
        """Return the source of log-ratios. Data owners charge the call here."""
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
