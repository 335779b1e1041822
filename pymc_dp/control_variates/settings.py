"""How the budget of a surrogate is spent."""

from dataclasses import dataclass, fields
from typing import Any

from pymc_dp.bounds import check_bound

# Times the centre of the clip is moved before each of the last two gradients.
RECENTRED = 1


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
        One number for each round in which the centre is looked for: multiplies the next five shares.
    early_histogram, early_gradient, early_fisher, early_hessian, early_line : float
        Of a round: two histograms of norms (each), the gradient, the sum of outer products of gradients, the
        Hessian, a line search.
    line_steps : tuple of float
        Step lengths that the line search compares, longest first.
    polish : tuple of float
        One number for each of the rounds near the mode: multiplies the next three shares.
    polish_gradient, polish_fisher, polish_hessian : float
        Of such a round.
    polish_histogram, hessian_histogram : float
        Histograms of norms of gradients in such a round, and of Hessians there and at the last point.
    recentre : bool
        Whether the centre of the gradients' clip is moved, before each of the last two gradients.
    tail_histogram, tail_direction : float
        For each time.
    last_histogram : float
        Histogram that sets the last gradient's clip bound.
    cut : float
        Measurement of what the last gradient's clip cuts.
    hessian_least, hessian_weight : float
        What is left is shared between the last Hessian and gradient as `hessian_weight` times the Hessian's
        clip bound to the gradient's, and the Hessian has at least `hessian_least` of it, and at most half.
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
    polish: tuple[float, ...] = (0.25, 1.0)
    polish_gradient: float = 0.06
    polish_fisher: float = 0.015
    polish_hessian: float = 0.015
    polish_histogram: float = 0.003
    hessian_histogram: float = 0.003
    recentre: bool = True
    tail_histogram: float = 0.003
    tail_direction: float = 0.007
    last_histogram: float = 0.04
    cut: float = 0.08
    hessian_least: float = 0.03
    hessian_weight: float = 0.5
    significance: float = 5.5
    align: float = 0.3
    hessian_bound: float | None = None
    structure: str | tuple[tuple[str, ...], ...] = "full"
    third_derivative_bound: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if (
                field.name == "structure"
                or isinstance(value, bool)
                or (value is None and field.default is None)
            ):
                continue
            check_bound(field.name, value, several=isinstance(value, tuple))
        blocks = () if isinstance(self.structure, str) else tuple(self.structure)
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
        if self.last_pair <= 0:
            raise ValueError(
                f"the shares add up to {1 - self.last_pair:g}: nothing is left for the last two."
            )

    def schedule(self) -> list[tuple[str, float]]:
        """Every release but the decisions, in order, with its share of mu^2; the last two as a "pair"."""
        return [*self._before_last(), ("pair", self.last_pair)]

    @property
    def last_pair(self) -> float:
        """Share of the Hessian and the gradient at the centre together."""
        return 1 - self.chain - sum(share for _, share in self._before_last())

    def _before_last(self) -> list[tuple[str, float]]:
        early = [
            ("histogram", self.early_histogram),
            ("histogram", self.early_histogram),
            ("hessian", self.early_hessian),
            ("gradient", self.early_gradient),
            ("fisher", self.early_fisher),
            ("line", self.early_line),
        ]
        norms = [("histogram", self.polish_histogram), ("histogram", self.hessian_histogram)]
        polish = [
            ("hessian", self.polish_hessian),
            ("gradient", self.polish_gradient),
            ("fisher", self.polish_fisher),
        ]
        moves = RECENTRED * self.recentre
        tail = [("histogram", self.tail_histogram), ("direction", self.tail_direction)] * moves
        releases = [(kind, r * share) for r in self.early for kind, share in early]
        for k, r in enumerate(self.polish):
            last = k == len(self.polish) - 1
            releases += (tail if last else []) + norms + [(kind, r * share) for kind, share in polish]
        return [
            *releases,
            *tail,
            ("histogram", self.last_histogram),
            ("histogram", self.hessian_histogram),
            ("cut", self.cut),
        ]


def as_control_variates(value: Any) -> ControlVariates | None:
    """True for the defaults, False or None for none, or the settings themselves."""
    if value is None or value is False:
        return None
    if value is True:
        return ControlVariates()
    if not isinstance(value, ControlVariates):
        raise ValueError(f"control_variates must be True, False or ControlVariates(...), got {value!r}.")
    return value
