"""How the budget of a surrogate is spent."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from pymc_dp.bounds import check_bound

# Records times mu from which the default shares are as good as those for few (measured with 6 parameters).
_MANY = 2500.0
# No cell of a histogram of few records stands out of the noise of a thousandth of the budget.
_FOR_FEW: dict[str, Any] = {
    "early": (1.0,) * 5,
    "early_histogram": 0.01,
    "early_gradient": 0.015,
    "early_fisher": 0.0075,
    "early_hessian": 0.015,
    "early_line": 0.0075,
    "late": (0.3, 0.7),
}


class LateShares(NamedTuple):
    """Shares of mu^2 of the releases of a late round: see `ControlVariates`."""

    norms: float
    hessian_norms: float
    cut: float
    pair: float
    fisher: float


@dataclass(frozen=True)
class ControlVariates:
    """Shares of the call's budget (as mu^2) of each release of a surrogate; what is left is for the last two.

    Parameters
    ----------
    chain : float
        Of all accept decisions together.
    noise_std : float
        Standard deviation of the noise of each log-ratio of residuals, in nats: fixes their clip bound.
    noise_aware : bool
        Whether the target is widened by what the noise of the surrogate makes uncertain.
    early : tuple of float
        One number for each round in which the centre is looked for: multiplies the next five shares. Where
        these six and `late` are the defaults, a call with few records has others: see `suited`.
    early_histogram, early_gradient, early_fisher, early_hessian, early_line : float
        Of a round: two histograms of norms (each), the gradient, the sum of outer products of gradients, the
        Hessian, a line search.
    line_steps : tuple of float
        Step lengths that the line search compares, longest first.
    late : tuple of float
        One number for each round near the mode, the last of which makes the surrogate: how the budget that is
        left is shared among them. All their gradients count (docs/proofs/control_variates, section 4).
    late_histogram, late_hessian_histogram : float
        Of what a late round has: histograms of norms of gradients and Hessians.
    late_cut : float
        Measurement of what the gradient's clip cuts.
    late_fisher : float
        Sum of outer products of gradients; in the last round `late_shown` instead.
    late_shown : float
        In the last round: the same sum, to be compared with the curvature.
    hessian_least, hessian_weight : float
        What is left of a round is shared between its Hessian and gradient as `hessian_weight` times the
        Hessian's clip bound to the gradient's, and the Hessian has at least `hessian_least` of it, and at
        most half.
    recentre : bool
        Whether the centre of the gradients' clip is moved, before each of the last two rounds.
    tail_histogram, tail_direction : float
        For each time.
    significance : float
        A histogram's cell counts from so many standard deviations of its noise on. A call looks at some 2,000
        cells above the records; noise passes 5.5 in one of 20,000 calls, which may then be refused.
    align : float
        Share of the norm beyond a clip bound that is taken to point in one direction, at least, where a bound
        is chosen between noise and bias, and for the records that a histogram shows.
    hessian_bound : float, optional
        Upper bound of the Frobenius norm of each record's (privacy unit's) Hessian in unconstrained space,
        when there is one: ``R^2 / 4`` for logits ``x'beta`` with ``|x| <= R``. Clip bounds are not chosen
        beyond it where likelihood coordinates are the parameters themselves. Privacy does not depend on it.
    least_shown : float
        Share of the information about each parameter that clipped gradients must show, for a result to be
        returned: less than that says that records were cut that matter, or that data vary less than the model
        has it.
    structure : "full", "diagonal", or sequence of sequences of str
        Which entries of Hessians (and of the matrices that find the centre) are released: all; those of each
        likelihood coordinate with itself; or those within blocks of variables, by name, where variables in no
        block are diagonal. With fewer entries there is less noise and less to compute, for d = 20 and more;
        what is left out stays in the residuals, exactly, where it wants a larger clip bound. Each iteration
        then reads one number a record and released entry, which are kept in memory.
    third_derivative_bound : float, optional
        Upper bound M of ``|d^3 l / dt^3|`` of each record's (privacy unit's) log-likelihood l along any line
        of unit speed in unconstrained space: ``.0963 R^3`` for logits ``x'beta`` with ``|x| <= R``. For
        `DPPenaltyMH` and `DPHMC`: residual ratios are then clipped at ``M (|delta|^3 + |delta'|^3) / 6``,
        with the distances of the two points from the surrogate's, instead of at a constant. No ratio of a
        record is beyond it whose gradient and Hessian were not clipped. Privacy does not depend on it.
    public_n : float, optional
        About the number of records (privacy units), from public knowledge: where n is private
        (``neighboring_relation="add_remove"``), in its place in `suited`, and the batches of `DPFastMH` go by
        it. Default there: the shares for many records.

    Notes
    -----
    **Privacy.** The shares are public and fixed before a run; every release is made, whatever the others say.
    """

    chain: float = 0.02
    noise_std: float = 1.0
    noise_aware: bool = True
    early: tuple[float, ...] = (0.5, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0)
    early_histogram: float = 0.001
    early_gradient: float = 0.004
    early_fisher: float = 0.004
    early_hessian: float = 0.004
    early_line: float = 0.003
    line_steps: tuple[float, ...] = (1.0, 0.3, 0.1)
    late: tuple[float, ...] = (0.05, 0.15, 0.8)
    late_histogram: float = 0.12
    late_hessian_histogram: float = 0.01
    late_cut: float = 0.12
    late_fisher: float = 0.1
    late_shown: float = 0.02
    hessian_least: float = 0.05
    hessian_weight: float = 0.5
    recentre: bool = True
    tail_histogram: float = 0.003
    tail_direction: float = 0.007
    significance: float = 5.5
    align: float = 0.3
    hessian_bound: float | None = None
    least_shown: float = 0.5
    structure: str | tuple[tuple[str, ...], ...] = "full"
    third_derivative_bound: float | None = None
    public_n: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            self._check(field.name, field.default)
        blocks = self.structure if isinstance(self.structure, (tuple, list)) else ()
        if self.structure not in ("full", "diagonal") and not (
            blocks and all(not isinstance(block, str) and len(block) for block in blocks)
        ):
            raise ValueError(
                'structure must be "full", "diagonal" or blocks of names such as [("a", "b"), ("c",)], got '
                f"{self.structure!r}."
            )
        if self.structure != "full" and self.third_derivative_bound is not None:
            raise ValueError("third_derivative_bound needs whole Hessians: structure='full'.")
        if self.hessian_least > 0.5:
            raise ValueError(f"hessian_least must be at most 0.5, got {self.hessian_least!r}.")
        if self.least_shown > 1:
            raise ValueError(f"least_shown is a share, at most 1, got {self.least_shown!r}.")
        if self._left <= 0:
            raise ValueError(f"the shares add up to {1 - self._left:g}: nothing is left for the late rounds.")
        if self.late_histogram + self.late_hessian_histogram + self.late_cut + self.late_fisher >= 1:
            raise ValueError("nothing is left of the late rounds for their Hessians and gradients.")

    def _check(self, name: str, default: Any) -> None:
        """Numbers as Python's own: in half precision shares would be rounded."""
        value = getattr(self, name)
        if name == "structure" or (value is None and default is None):
            return
        if isinstance(default, bool) or isinstance(value, bool):
            if not (isinstance(default, bool) and isinstance(value, bool)):
                kind = "True or False" if isinstance(default, bool) else "a number"
                raise ValueError(f"{name} must be {kind}, got {value!r}.")
            return
        check_bound(name, value, several=isinstance(value, tuple))
        single = np.asarray(value, dtype=float).tolist()
        object.__setattr__(self, name, tuple(single) if isinstance(single, list) else single)

    def suited(self, n: float, mu_squared: float) -> "ControlVariates":
        """The same for many records; for few, with fewer rounds and more for each, where that was left open.

        Parameters
        ----------
        n : int
            Records (privacy units).
        mu_squared : float
            Budget of the whole call.

        Notes
        -----
        **Privacy.** A function of public numbers.
        """
        defaults = {field.name: field.default for field in fields(self)}
        if n * math.sqrt(mu_squared) >= _MANY or any(getattr(self, k) != defaults[k] for k in _FOR_FEW):
            return self
        return replace(self, **_FOR_FEW)

    def schedule(self) -> list[tuple[str, float]]:
        """Every release but the decisions, in order, with its share of mu^2; "pair": Hessian and gradient."""
        releases = self._early()
        for k in range(len(self.late)):
            if self.recentres(k):
                releases += [("histogram", self.tail_histogram), ("direction", self.tail_direction)]
            shares = self.late_shares(k)
            releases += [
                ("histogram", shares.norms),
                ("histogram", shares.hessian_norms),
                ("cut", shares.cut),
            ]
            releases += [("pair", shares.pair), ("fisher", shares.fisher)]
        return releases

    def recentres(self, k: int) -> bool:
        """Whether the centre of the clip is moved before late round k."""
        return self.recentre and k >= len(self.late) - 2

    def late_shares(self, k: int) -> LateShares:
        """Of late round k."""
        whole = self._left * self.late[k] / sum(self.late)
        norms, hessian_norms = self.late_histogram * whole, self.late_hessian_histogram * whole
        cut = self.late_cut * whole
        fisher = (self.late_fisher if k < len(self.late) - 1 else self.late_shown) * whole
        return LateShares(norms, hessian_norms, cut, whole - norms - hessian_norms - cut - fisher, fisher)

    @property
    def _left(self) -> float:
        """Share of the late rounds together."""
        moves = sum(self.recentres(k) for k in range(len(self.late)))
        early = sum(share for _, share in self._early())
        return 1 - self.chain - early - moves * (self.tail_histogram + self.tail_direction)

    def _early(self) -> list[tuple[str, float]]:
        shares = [
            ("histogram", self.early_histogram),
            ("histogram", self.early_histogram),
            ("hessian", self.early_hessian),
            ("gradient", self.early_gradient),
            ("fisher", self.early_fisher),
            ("line", self.early_line),
        ]
        return [(kind, r * share) for r in self.early for kind, share in shares]


def as_control_variates(value: Any) -> ControlVariates | None:
    """True for the defaults, False or None for none, or the settings themselves."""
    if value is None or value is False:
        return None
    if value is True:
        return ControlVariates()
    if not isinstance(value, ControlVariates):
        raise ValueError(f"control_variates must be True, False or ControlVariates(...), got {value!r}.")
    return value
