"""DP-Fast MH as it was published (Zhang & Zhang 2023, Algorithm 2): not private, for reproducing figures."""

import math
from typing import Any

import numpy as np

import pymc_dp as dp
from pymc_dp.clipping import clipped
from pymc_dp.kernels.metropolis import LogRatio, Move, State
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.budget.remaining import Budget
from pymc_dp.privacy.mechanisms.iterations import Unlimited
from pymc_dp.privacy.mechanisms.randomness import DECIDED, ExactSum, Gaussian, PrivacyRandom
from pymc_dp.records.model import RecordModel


class Published:
    """Batches of TunaMH or all records, with Gaussian noise unless the sensitivity is small.

    Parameters
    ----------
    records : RecordModel
    tempering : float
    constants : float or array_like, shape (n,)
        c_i: bound of record i's ratio, per unit of distance.
    epsilon, delta : float
        The article's parameters of one iteration.
    base_batch : float, optional
        lambda; default: half of `largest_batch`.
    largest_batch : int, optional
        K: from so many draws on, all records are used. Default: ``epsilon C / max c_i`` (Appendix E.1).

    Raises
    ------
    ValueError
        An argument is out of range.

    Notes
    -----
    Differences from the printed algorithm. The variance is subtracted where noise is added only, as the proof
    of its Theorem 3 has it: subtracting it in the free branch as well would not be reversible. Ratios beyond
    ``c_i M``, which the article excludes, are clipped.

    **Privacy.** None: where no noise is added, a rejection may be impossible under one data set and not under
    its neighbour (docs/proofs/fast_mh, section 8); and c_i that depend on the data change how often all
    others are drawn.
    """

    def __init__(
        self,
        records: RecordModel,
        tempering: float,
        constants: Any,
        epsilon: float,
        delta: float,
        base_batch: float | None = None,
        largest_batch: float | None = None,
    ):
        self.records, self.tempering = records, tempering
        self.constants = np.broadcast_to(np.asarray(constants, dtype=float), records.n)
        if not (np.all(np.isfinite(self.constants)) and np.all(self.constants > 0)):
            raise ValueError("lipschitz must be positive and finite: a number, or one for each record.")
        self.total, self.largest = float(self.constants.sum()), float(self.constants.max())
        self.most = epsilon * self.total / self.largest if largest_batch is None else float(largest_batch)
        self.base = self.most / 2 if base_batch is None else float(base_batch)
        if not (0 < self.base < math.inf and 0 < self.most < math.inf):
            raise ValueError(f"lambda and K must be positive and finite, got {self.base!r}, {self.most!r}.")
        self.free = (epsilon * self.total / (6 * self.most * self.largest), epsilon)
        share = self.most * self.largest / self.total
        self.noise = (
            6 * share * math.sqrt(2 * max(math.log(2.5 * share / delta), 0.0)) / epsilon,
            math.sqrt(2 * math.log(1.25 / delta)) / epsilon,
        )
        self._cumulative = np.cumsum(self.constants)

    @property
    def largest_free(self) -> float:
        """Largest M at which neither branch adds noise."""
        minibatch, full = self.free
        bound = min(math.expm1(minibatch / 2) * self.base / self.total, full / (2 * self.largest))
        return bound * (1 - 1e-9)  # on the free side of the comparison, whatever the rounding

    def at(self, theta: np.ndarray) -> tuple[None, float]:
        """Nothing, and the log-prior."""
        return None, self.records.log_prior(theta)

    def __call__(self, state: State, move: Move, random: PrivacyRandom) -> LogRatio:
        """One iteration of Algorithm 2 up to its test; M is tempering times the distance, `clip_bound`."""
        theta, new, bound = state.theta, move.new, self.tempering * move.clip_bound
        drawn = int(random.generator.poisson(self.base + self.total * bound))
        full = drawn >= self.most
        ratio = self._full_batch(theta, new, bound) if full else self._batch(theta, new, bound, drawn, random)
        sensitivity = 2 * (self.largest * bound if full else math.log1p(self.total * bound / self.base))
        noise_std = 0.0 if sensitivity <= self.free[full] else self.noise[full] * sensitivity
        value = Gaussian(noise_std, DECIDED).release(ExactSum(ratio), random)
        return LogRatio(value, noise_std, 0.0, None, self.records.log_prior(new))

    def _ratios(self, theta: np.ndarray, new: np.ndarray, index: np.ndarray, bound: float) -> np.ndarray:
        """``U_i(theta) - U_i(theta')`` over ``c_i M``, in [-1, 1]."""
        ratios = self.tempering * self.records.ratios(theta, new, index)
        return clipped(ratios / (self.constants[index] * bound), 1.0)

    def _full_batch(self, theta: np.ndarray, new: np.ndarray, bound: float) -> float:
        index = np.arange(self.records.n)
        return float(np.sum(self._ratios(theta, new, index, bound) * self.constants * bound))

    def _batch(
        self, theta: np.ndarray, new: np.ndarray, bound: float, drawn: int, random: PrivacyRandom
    ) -> float:
        index = np.searchsorted(self._cumulative, random.uniform(drawn) * self.total, side="right")
        index = np.minimum(index, self.records.n - 1)
        ratios = self._ratios(theta, new, index, bound)
        most = self.total * bound
        kept = random.uniform(drawn) * (self.base + most) < self.base + 0.5 * most * (1 - ratios)
        return 2 * float(np.sum(np.arctanh(most * ratios[kept] / (2 * self.base + most))))


class PublishedFastMH(dp.DPFastMH):
    """The article's sampler as a step, on public data: every result of it says that it is not private.

    Parameters
    ----------
    vars : list, optional
        As in `DPFastMH`, from which it has its moves.
    epsilon, delta : float
        The article's parameters of one iteration. The guarantee that results carry is infinite.
    lipschitz : float or array_like, shape (n,)
        The article's c_i.
    base_batch, largest_batch : float, optional
        As in `Published`.
    **kwargs
        Other arguments of `DPFastMH`.
    """

    mechanism = "Zhang & Zhang 2023, Algorithm 2, as published: not private"

    def __init__(
        self,
        vars: Any = None,
        *,
        epsilon: float,
        delta: float,
        lipschitz: Any,
        base_batch: float | None = None,
        largest_batch: float | None = None,
        **kwargs: Any,
    ):
        super().__init__(vars, epsilon=math.inf, delta=delta, lipschitz=1.0, **kwargs)
        self.ratio = Published(
            self.records, self.tempering, lipschitz, epsilon, delta, base_batch, largest_batch
        )

    def _price(self, call: Call) -> PrivacyPlan:
        return Budget(call).plan(Unlimited())

    def _ratio(self, plan: PrivacyPlan) -> Published:
        return self.ratio

    def _default_step_size(self, ratio: Published) -> float:
        return ratio.largest_free / self.tempering / self.moves.unit_length

    def _clip_name(self) -> str:
        return "its own c_i x distance moved"
