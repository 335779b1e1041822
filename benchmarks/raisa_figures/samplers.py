"""The samplers of the figures."""

from collections.abc import Callable
from typing import Any

import numpy as np

import pymc_dp as dp
from benchmarks.raisa_figures.problem import (
    BATCH,
    DELTA,
    HALF,
    proposal,
    public_clip,
    public_scale,
    public_step,
)
from pymc_dp.proposals import GaussianWalk


def penalty(kind: str, d: int, tempering: float, epsilon: float, batch_size: int | None = None) -> Any:
    """Constant clip, in proportion to the step."""
    clip = public_clip(d, tempering, kind)

    def with_step(step: float) -> Any:
        return dp.DPPenaltyMH(
            epsilon=epsilon,
            delta=DELTA,
            clip_bound=clip * step,
            proposal=proposal(kind, d, tempering),
            step_size=step,
            adapt_step_size=False,
            tempering=tempering,
            chains=1,
            batch_size=batch_size,
        )

    nm = dp.calibrate(epsilon, DELTA, draws=2 * HALF, tune=0, chains=1).noise_multiplier
    if batch_size is not None:
        nm = with_step(1.0).cost(draws=2 * HALF, tune=0).noise_multiplier
    return with_step(public_step(kind, d, tempering, nm, batch_size))


def barker(d: int, tempering: float, epsilon: float) -> Any:
    """All records, no noise: the budget is a bound on each ratio, and so on the step."""
    given = {"epsilon": epsilon, "delta": DELTA, "tempering": tempering, "chains": 1}
    asked = dp.DPBarker(lipschitz=1.0, **given).cost(draws=2 * HALF, tune=0).parameters["clip_bound"]
    clip = public_clip(d, tempering, "all")
    step = min(0.999 * asked / clip, public_step("all", d, tempering, 0.0))
    return dp.DPBarker(
        clip_bound=clip * step,
        proposal=proposal("all", d, tempering),
        step_size=step,
        adapt_step_size=False,
        **given,
    )


def hmc(d: int, tempering: float, epsilon: float) -> Any:
    """Clips as for a walk: a gradient's norm is about a ratio over the length of the move."""
    scale = public_scale(d, tempering)
    length = np.sqrt(
        np.mean(
            [np.sum(proposal("all", d, tempering).move(np.random.default_rng(i), d) ** 2) for i in range(50)]
        )
    )
    clip = public_clip(d, tempering, "all") / length
    return dp.DPHMC(
        epsilon=epsilon,
        delta=DELTA,
        lipschitz=clip,
        gradient_clip_bound=clip * np.sqrt(d),
        mass=1 / scale**2,
        n_leapfrog=5,
        adapt_mass=False,
        tempering=tempering,
        chains=1,
    )


SAMPLERS: dict[str, Callable[[int, float, float], Any]] = {
    "penalty": lambda d, t, e: penalty("all", d, t, e),
    "penalty, one component": lambda d, t, e: penalty("one", d, t, e),
    "penalty, guided": lambda d, t, e: penalty("guided", d, t, e),
    "penalty, batches of 1,000": lambda d, t, e: penalty("all", d, t, e, BATCH),
    "Barker": barker,
    "HMC": hmc,
}


ITERATIONS = {"HMC": (200, 200)}  # tune, draws


def clipped_walk(d: int, factor: float) -> Any:
    """Random walk without noise."""
    clip = 1.7 * factor * public_clip(d, 1.0, "all")
    moves = GaussianWalk(np.diag(public_scale(d, 1.0) ** 2))
    given = {"step_size": 1.7, "adapt_step_size": False, "proposal": moves, "chains": 1}
    return dp.DPPenaltyMH(epsilon=np.inf, delta=DELTA, clip_bound=clip, **given)


def clipped_component(d: int, factor: float) -> Any:
    """Moves of one component without noise: not in the thesis's figure."""
    clip = 1.5 * factor * public_clip(d, 1.0, "one", 0.9)
    given = {"step_size": 1.5, "adapt_step_size": False, "proposal": proposal("one", d, 1.0), "chains": 1}
    return dp.DPPenaltyMH(epsilon=np.inf, delta=DELTA, clip_bound=clip, **given)


def clipped_hmc(d: int, factor: float) -> Any:
    """Trajectories of two posterior standard deviations without noise; gradients are not clipped."""
    scale = public_scale(d, 1.0)
    clip = factor * public_clip(d, 1.0, "all") / np.sqrt(np.mean(scale**2))
    given = {"mass": 1 / scale**2, "n_leapfrog": 4, "step_size": 0.45, "chains": 1}
    given |= {"adapt_step_size": False, "adapt_mass": False}
    return dp.DPHMC(epsilon=np.inf, delta=DELTA, lipschitz=clip, gradient_clip_bound=1e3, **given)


# As in the thesis: no walk in 10 dimensions, 3,000 iterations of a walk and 500 of HMC, half of them dropped.
WITHOUT_NOISE = {(2, "random walk"): (clipped_walk, 1500), (2, "HMC"): (clipped_hmc, 250)}
WITHOUT_NOISE |= {(2, "one component"): (clipped_component, 1500), (10, "HMC"): (clipped_hmc, 250)}
