"""What a case has."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.audit.attack import decisions, most_telling


@dataclass
class Case:
    """A sampler on the worst pair of data sets that we know.

    `make` is called with a data set, the slope of the prior, and the arguments of a fault; `base` says at
    which log-ratio a decision tells most, from a step, its plan and the actual noise over the reported one;
    `move` is the distance along the second component.
    """

    name: str
    make: Callable
    data: list
    faults: list
    draws: int = 1
    chain: int = 4
    runs: int = 2000
    base: Callable = lambda step, plan, factor: 0.0
    move: Callable = lambda plan: 1.0
    score: Callable = decisions
    claim: Any = None


def of_penalty(bound):
    """Where a penalty decision on all records tells most."""

    def most(step, plan, factor):
        size = bound or plan.parameters["clip_bound"]
        s = plan.parameters.get("noise_std") or plan.noise_multiplier * 2 * size
        if plan.noise_multiplier == plan.noise_multiplier:
            s = plan.noise_multiplier * step._sensitivity * size
        return most_telling(s * factor, s**2, 2 * size)

    return most
