"""What is broken, and how: patches of the package, and faults made of them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from pymc_dp.kernels import metropolis as kernel
from pymc_dp.kernels.metropolis import barker
from pymc_dp.privacy.accounting.composition import compose
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.ratios import barker_correction
from pymc_dp.records.sums import FullBatch
from pymc_dp.steps import base


class HalfNoise(PrivacyRandom):
    """Gaussian noise of half the size."""

    def normals(self, size=None):
        """Draws of a shape."""
        return 0.5 * super().normals(size)


class KnownSeed(PrivacyRandom):
    """The stream follows from the public seed, which is the same in all runs."""

    seed = 0

    def __init__(self, debug_seed=None, stream=0):
        super().__init__(self.seed, 0)


def same_noise(iterate):
    """Each iteration has the noise of the chain's first."""

    def apply(self, chain):
        stream = chain.random.generator.bit_generator
        if chain.iteration == 0:
            chain.random.first = stream.state
        stream.state = chain.random.first
        return iterate(self, chain)

    return apply


def one_batch(draw):
    """A batch with the audited record in it, drawn once and for all, at the price of random ones."""
    kept = []

    def apply(self, random, *args):
        while not kept:
            batch = draw(self, random, *args)
            if 0 in batch:
                kept.append(batch)
        return kept[0]

    return apply


def quarter_priced(price):
    """Noise, and claim, for a quarter of the iterations."""

    def apply(self, call):
        plan = price(self, replace(call, draws=call.draws // 4))
        whole = replace(plan, draws=call.draws)
        whole.__dict__["guarantee"] = plan.guarantee
        return whole

    return apply


def unpriced(kept):
    """A claim for some of the events only."""

    def wrap(price):
        def apply(self, call):
            plan = replace(price(self, call))
            plan.__dict__["guarantee"] = compose(
                [e for e in plan.iteration[0].counts if isinstance(e, kept)] * call.iterations,
                call.neighboring_relation,
            )
            return plan

        return apply

    return wrap


def unclipped_sum(call):
    def apply(self, theta, old, bound):
        found = call(self, theta, old, 1e3 * bound)
        return found._replace(total=1e3 * found.total)

    return apply


def unclipped_gradients(call):
    return lambda self, *args: call(self, *args[:-1], 1e3 * args[-1])


class Leak:
    """The exact sum that an iteration computed, as one more stat."""

    def __init__(self, of=float):
        self.of, self.last = of, 0.0

    def spy(self, call):
        """Remember what a function finds."""

        def apply(*args):
            found = call(*args)
            self.last = self.of(found)
            return found

        return apply

    def stat(self, iterate):
        """Put it into the stats."""

        def apply(step, chain):
            accepted, stats = iterate(step, chain)
            return accepted, stats | {"log_ratio": self.last}

        return apply


@dataclass
class Patch:
    """Replace a function by a wrapped one, or by a value."""

    owner: Any
    name: str
    wrap: Callable | None = None
    new: Any = None

    def __enter__(self):
        new = self.new if self.wrap is None else self.wrap(getattr(self.owner, self.name))
        self._patch = patch.object(self.owner, self.name, new)
        self._patch.start()

    def __exit__(self, *_):
        self._patch.stop()


@dataclass
class Fault:
    """A name, patches, and what else differs from the step as shipped."""

    name: str
    patches: tuple = ()
    draws: int = 0
    runs: int = 0
    factor: float = 1.0
    arguments: dict = field(default_factory=dict)
    case: dict = field(default_factory=dict)


def leak(cls, owner, name, of):
    found = Leak(of)
    return Fault(
        "ratio in the stats", (Patch(owner, name, found.spy), Patch(cls, "_iterate", found.stat)), runs=600
    )


def stream(kind):
    return (Patch(base, "PrivacyRandom", new=kind),)


def chain_faults(cls):
    """What shows in several iterations only."""
    return [
        Fault("noise from random_seed", stream(KnownSeed), draws=8, runs=400),
        Fault("same noise each iteration", (Patch(cls, "_iterate", same_noise),), draws=4, runs=4000),
        Fault("a quarter of the iterations priced", (Patch(cls, "_price", quarter_priced),), draws=4),
    ]


HALF_NOISE = Fault("noise halved", stream(HalfNoise), factor=0.5)
HALF_SENSITIVITY = Fault("sensitivity B for 2B", (Patch(base.DPStep, "_sensitivity", new=1.0),))
ADD_REMOVE = Fault("sensitivity B for 2B", arguments={"neighboring_relation": "add_remove"})
UNCLIPPED = Fault("not clipped", (Patch(FullBatch, "__call__", unclipped_sum),), runs=400)


def sharper():
    return Fault("noise halved", (Patch(kernel, "barker", new=lambda h, *e: barker(2 * h, *e)),), factor=0.5)


def wider(module, times):
    """The formulas on batches break down for ratios of any size: a clip bound that is too wide."""
    return Fault(
        f"clipped {times:g} times too wide",
        (Patch(module, "clipped", new=lambda ratios, bound: np.clip(ratios, -times * bound, times * bound)),),
    )


def wider_shares(times):
    """The same of a batch's ratios in units of their bound; infinitely wide, they are not clipped."""
    name = f"clipped {times:g} times too wide" if np.isfinite(times) else "not clipped"
    new = lambda ratios, bound: np.clip(ratios / bound, -times, times)  # noqa: E731
    return Fault(name, (Patch(barker_correction, "shares", new=new),))


def fixed_batch(owner, **kwargs):
    return Fault("batch not resampled", (Patch(owner, "draw", one_batch),), **kwargs)
