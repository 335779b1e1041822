"""Plant faults in every sampler, to see whether the audit finds them, and is silent without.

    OMP_NUM_THREADS=1 python benchmarks/audit.py          # the table of docs/audit.md
    OMP_NUM_THREADS=1 python benchmarks/audit.py DPHMC    # rows that begin so
    OMP_NUM_THREADS=1 python benchmarks/audit.py limits   # what hides below the slack, without sampling

Two data sets of a few records differ in one, whose clipped log-likelihood ratio (or gradient) is +B under the
first and -B under the second for a move to the right; those of the others are about zero. Moves are fixed, so
that the attacker knows them. The first component of theta is what that record depends on; a prior slope along
the second one puts the log-ratio where a decision tells most.
"""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import expit, log_ndtr, ndtr

import pymc_dp as dp
from pymc_dp.audit import _numbers as surrogate_numbers
from pymc_dp.audit import audit, released
from pymc_dp.control_variates import releases
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.releases import Releases
from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.kernels import acceptance
from pymc_dp.kernels.acceptance import barker
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.composition import compose
from pymc_dp.privacy.accounting.events import PenaltyDecisionDpEvent
from pymc_dp.privacy.mechanisms.drawn_batches import FixedSizeBatches, PoissonBatches, TunaBatches
from pymc_dp.privacy.mechanisms.iterations import Friction
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.proposals.walk import RandomWalk
from pymc_dp.ratios import barker_correction, tuna
from pymc_dp.ratios import subsets as batch_ratio
from pymc_dp.ratios.on_statistics import OnStatistics
from pymc_dp.records.gradients import Gradients
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import FullBatch
from pymc_dp.steps import base
from pymc_dp.steps import on_residuals as surrogate_step
from pymc_dp.tester import Approximate, TradeOffTester

EPSILON, DELTA = 6.0, 1e-5
# A record's standard deviation, and a value whose gradient is 10 nats: ten times what is not clipped.
SD = 100.0
FAR = 10 * SD**2


class Cycle:
    """The same moves in turn, whatever is decided."""

    def __init__(self, *moves):
        self.moves, self.next = np.array(moves, dtype=float), 0

    def move(self, rng, d):
        """Displacement."""
        self.next += 1
        return self.moves[(self.next - 1) % len(self.moves)]


def signs(draws):
    """Direction of each move, as the audited record sees it."""
    return np.where(np.arange(draws) % 2 == 0, 1.0, -1.0)


def neighbors(n, first=FAR, second=-FAR):
    """Two data sets of n records; one differs."""
    return [np.r_[value, np.zeros(n - 1)] for value in (first, second)]


def model(values, tilt=0.0):
    with pm.Model() as built:
        theta = pm.Normal("theta", 0, 1e6, shape=2)
        pm.Potential("tilt", tilt * theta[1])
        pm.Normal("y", theta[0], SD, observed=values)
    return built


WALK = {"proposal": Cycle((1.0, 1.0), (-1.0, 1.0)), "step_size": 1.0, "adapt_step_size": False}
COMMON = {"epsilon": EPSILON, "delta": DELTA, "chains": 1, "debug_seed": 0}


def most_telling(std, variance, shift):
    """Log-ratio at which penalty decisions of two data sets differ most (Hellinger distance).

    Acceptance is ``-E < h + std z - variance / 2``, and the data sets' h are `shift` apart.
    """

    def accepts(h):
        z = (h - variance / 2) / std
        return np.clip(
            ndtr(z) + np.exp(np.minimum(h - variance / 2 + std**2 / 2 + log_ndtr(-z - std), 0)), 0, 1
        )

    h = np.linspace(-60, 60, 24_001)
    a, b = accepts(h - shift / 2), accepts(h + shift / 2)
    return float(h[np.argmin(np.sqrt(a * b) + np.sqrt((1 - a) * (1 - b)))])


def decisions(found):
    """Accepted moves to the right minus those to the left: all that decisions tell, if they are alike."""
    accepted = found["accepted"]
    return accepted @ signs(accepted.shape[1])


def mixture(values, shift, std, q):
    """Log-likelihood ratio of Gaussians that a record enters with probability q, at +shift or -shift."""

    def log_density(centre):
        z = -0.5 * ((values - centre) / std) ** 2
        zero = -0.5 * (values / std) ** 2
        return np.logaddexp(np.log(q) + z, np.log1p(-q) + zero) if q < 1 else z

    return (log_density(shift) - log_density(-shift)).sum(1)


# faults


class HalfNoise(PrivacyRandom):
    """Gaussian noise of half the size."""

    def normal(self):
        """One draw."""
        return 0.5 * super().normal()

    def normals(self, size):
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
        if chain.iteration == 0:
            chain.random.first = chain.random.state
        chain.random.state = chain.random.first
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
    return Fault(
        "noise halved", (Patch(acceptance, "barker", new=lambda h, *e: barker(2 * h, *e)),), factor=0.5
    )


def wider(module, times):
    """The formulas on batches break down for ratios of any size: a clip bound that is too wide."""
    return Fault(
        f"clipped {times:g} times too wide",
        (Patch(module, "clipped", new=lambda ratios, bound: np.clip(ratios, -times * bound, times * bound)),),
    )


def fixed_batch(owner, **kwargs):
    return Fault("batch not resampled", (Patch(owner, "draw", one_batch),), **kwargs)


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


def penalty_on_all():
    def make(values, tilt, **kwargs):
        return dp.DPPenaltyMH(**{**COMMON, **WALK, "clip_bound": 1.0, "model": model(values, tilt), **kwargs})

    cls = dp.DPPenaltyMH
    ratio = leak(cls, FullBatch, "__call__", lambda x: x.total)
    faults = [HALF_NOISE, HALF_SENSITIVITY, UNCLIPPED, ratio, *chain_faults(cls)]
    return Case("DPPenaltyMH", make, neighbors(3), faults, base=of_penalty(1.0))


def penalty_on_statistics():
    def make(values, tilt, **kwargs):
        settings = {"sufficient_statistics": "auto", "statistic_bound": SD**2}
        return dp.DPPenaltyMH(**{**COMMON, **WALK, **settings, "model": model(values, tilt), **kwargs})

    cls = dp.DPPenaltyMH

    def unclipped(total):
        def apply(self):
            found = total.fget(self)
            return found._replace(total=10 * found.total)

        return property(apply)

    spy = Leak(lambda x: float(x.total[0]))
    ratio = Fault(
        "ratio in the stats",
        (
            Patch(OnStatistics, "_total", lambda old: property(spy.spy(old.fget))),
            Patch(cls, "_iterate", spy.stat),
        ),
        runs=400,
    )
    faults = [
        HALF_NOISE,
        HALF_SENSITIVITY,
        Fault("not clipped", (Patch(OnStatistics, "_total", unclipped),), runs=400),
        ratio,
        chain_faults(cls)[2],
    ]
    return Case("DPPenaltyMH, sufficient statistics", make, neighbors(3), faults, base=of_penalty(1.0))


def penalty_on_batches():
    n, b, bound = 20, 10, 0.05

    def make(values, tilt, **kwargs):
        settings = {"clip_bound": bound, "batch_size": b, "release": "noisy_ratio"}
        return dp.DPPenaltyMH(**{**COMMON, **WALK, **settings, "model": model(values, tilt), **kwargs})

    def score(factor=1.0):
        def of(found):
            ratios = found["noisy_log_ratio"]
            return mixture(ratios * signs(ratios.shape[1]), bound * n / b, factor * found["noise_std"], b / n)

        return of

    def differences(found):
        ratios = found["noisy_log_ratio"]
        return np.round(ratios @ signs(ratios.shape[1]), 6)

    cls = dp.DPPenaltyMH
    known, same, quarter = chain_faults(cls)
    halved = Patch(batch_ratio, "sensitivity", lambda old: lambda *a: 0.5 * old(*a))
    faults = [
        replace(HALF_NOISE, case={"score": score(0.5)}),
        Fault("sensitivity B for 2B", (halved,)),
        Fault("not clipped", (Patch(batch_ratio, "clipped", new=lambda ratios, bound: ratios),)),
        leak(cls, RecordModel, "ratios", np.sum),
        known,
        replace(same, case={"score": differences}),
        quarter,
        fixed_batch(FixedSizeBatches, draws=4, arguments={"batch_size": 5}, case={"score": differences}),
    ]
    return Case("DPPenaltyMH, batches", make, neighbors(n), faults, score=score(), runs=4000)


LIPSCHITZ = np.sqrt(0.5)  # the bound is then the distance along each component
SHORTENED = {
    "lipschitz": LIPSCHITZ,
    "proposal": WALK["proposal"],
    "step_size": 100.0,
    "adapt_step_size": False,
}


def bound_of(plan):
    return plan.parameters["clip_bound"]


def barker_on_all():
    def make(values, tilt, **kwargs):
        return dp.DPBarker(**{**COMMON, **SHORTENED, "model": model(values, tilt), **kwargs})

    cls = dp.DPBarker
    ratio = leak(cls, FullBatch, "__call__", lambda x: x.total)
    known, same, quarter = chain_faults(cls)
    faults = [
        replace(sharper(), runs=3000),
        replace(HALF_SENSITIVITY, runs=3000),
        replace(UNCLIPPED, draws=4),
        replace(ratio, draws=4),
        known,
        replace(same, runs=5000),
        quarter,
    ]
    return Case("DPBarker", make, neighbors(3), faults, move=bound_of)


def barker_on_batches():
    n, b = 40, 20

    def make(values, tilt, **kwargs):
        return dp.DPBarker(**{**COMMON, **SHORTENED, "batch_size": b, "model": model(values, tilt), **kwargs})

    cls = dp.DPBarker
    twice = Patch(barker_correction, "clip_bound", lambda old: lambda *a: 2 * old(*a))
    known = chain_faults(cls)[0]
    faults = [
        HALF_NOISE,
        Fault("bound 2B for B", (twice,)),
        replace(wider(barker_correction, 6), runs=4000),
        leak(cls, RecordModel, "ratios", np.sum),
        known,
    ]
    return Case("DPBarker, batches", make, neighbors(n), faults, move=bound_of, draws=4)


def fast_barker():
    n, batch = 20, 9

    def make(values, tilt, **kwargs):
        if "neighboring_relation" in kwargs:
            kwargs["public_n"] = n
        return dp.DPFastMH(
            **{
                **COMMON,
                **SHORTENED,
                "proposal": Cycle((1.0, 1.0)),
                "batch_size": batch,
                "model": model(values, tilt),
                **kwargs,
            }
        )

    cls = dp.DPFastMH
    known, same, quarter = chain_faults(cls)
    faults = [
        replace(sharper(), draws=8, runs=4000),
        ADD_REMOVE,
        replace(wider(tuna, 1.6), draws=8),
        leak(cls, RecordModel, "ratios", np.sum),
        known,
        replace(same, arguments={"proposal": WALK["proposal"]}, case={"base": lambda *_: 0.0}),
        quarter,
        fixed_batch(TunaBatches),
    ]
    # Where the record's influence is largest: far up, where rejections are rare (docs/proofs/fast_mh).
    return Case(
        "DPFastMH",
        make,
        neighbors(n),
        faults,
        move=bound_of,
        base=lambda *_: 1.25,
        draws=4,
        score=lambda found: found["accepted"].sum(1),
    )


def fast_published():
    def make(values, tilt, **kwargs):
        settings = {"epsilon": 1.0, "batch_size": 9}
        if kwargs:
            settings = {"epsilon": 1.0, "step_size": None}
        return dp.DPFastMH(**{**COMMON, **SHORTENED, **settings, "model": model(values, tilt), **kwargs})

    free = Fault(
        "published free branch",
        arguments={"test": "published", "allow_not_private": True},
        case={"claim": Approximate(1.0, DELTA)},
    )
    return Case("DPFastMH, one iteration", make, neighbors(20), [free], runs=5000, chain=1)


def fast_penalty():
    n, batch = 10, 4

    def make(values, tilt, **kwargs):
        if "neighboring_relation" in kwargs:
            kwargs["public_n"] = n
        settings = {"batch_size": batch, "test": "penalty", "noise_std": 4.0}
        return dp.DPFastMH(**{**COMMON, **SHORTENED, **settings, "model": model(values, tilt), **kwargs})

    cls = dp.DPFastMH
    known = chain_faults(cls)[0]
    faults = [HALF_NOISE, ADD_REMOVE, wider(tuna, 1.6), leak(cls, RecordModel, "ratios", np.sum), known]
    return Case(
        "DPFastMH, penalty", make, neighbors(n), faults, move=bound_of, base=of_penalty(None), draws=4
    )


def momenta(draws):
    """What PyMC's public seed makes of the momentum along the first component."""
    return np.random.default_rng(0).standard_normal((draws, 2))[:, 0]


def hamiltonian():
    eta = 0.01

    def make(values, tilt, **kwargs):
        settings = {
            "gradient_clip": 1.0,
            "ratio_clip": 1e-3,
            "gradient_share": 0.95,
            "n_leapfrog": 1,
            "step_size": eta,
            "adapt_step_size": False,
        }
        return dp.DPHMC(**{**COMMON, **settings, "model": model(values, tilt), **kwargs})

    def score(found):
        """Sum of the noisy gradients that accepted moves show."""
        points, accepted = found["point"][:, :, 0], found["accepted"]
        moves = np.diff(points, axis=1, prepend=0.0)
        return (accepted * (moves - eta * momenta(moves.shape[1]))).sum(1)

    cls = dp.DPHMC
    known, _, quarter = chain_faults(cls)
    faults = [
        HALF_NOISE,
        HALF_SENSITIVITY,
        Fault("not clipped", (Patch(Gradients, "__call__", unclipped_gradients),), runs=600),
        leak(cls, FullBatch, "__call__", lambda x: x.total),
        replace(known, draws=3),
        quarter,
        Fault("gradients not priced", (Patch(cls, "_price", unpriced(PenaltyDecisionDpEvent)),)),
    ]
    return Case("DPHMC", make, neighbors(3), faults, score=score, draws=3, chain=3, runs=1200)


def stochastic_gradients():
    q = 0.5

    def make(values, tilt, **kwargs):
        settings = {
            "lipschitz": 1.0,
            "sampling_probability": q,
            "n_steps": 1,
            "step_size": 0.01,
            "decay": 0.0,
            "friction": 1e-6,
        }
        return dp.DPSGHMC(**{**COMMON, **settings, "model": model(values, tilt), **kwargs})

    def sums(found):
        """Noisy sum of gradients of each batch, as the moves show it, and its noise."""
        points, eta, noise = found["point"][:, :, 0], found["step_size"], found["noise_std"]
        moves = np.diff(points, axis=1, prepend=0.0)
        damping = 0.25 * eta**2 * (noise / q) ** 2
        kept, kick = (1 - damping) / (1 + damping), eta / (1 + damping)
        p = momenta(moves.shape[1])
        return q * (2 * moves / eta - (1 + kept) * p) / kick, noise

    def score(factor=1.0):
        def of(found):
            values, noise = sums(found)
            return mixture(values, 1.0, factor * noise, q)

        return of

    def total(found):
        return sums(found)[0].sum(1)

    def first_step_priced(iterations):
        def apply(self, relation, length):
            return iterations(replace(self, n_steps=1), relation, length)

        return apply

    cls = dp.DPSGHMC
    faults = [
        replace(HALF_NOISE, case={"score": score(0.5)}),
        HALF_SENSITIVITY,
        Fault(
            "not clipped", (Patch(Gradients, "batch", unclipped_gradients),), case={"score": total}, runs=1000
        ),
        leak(cls, Gradients, "batch", lambda x: float(x.total[0])),
        replace(chain_faults(cls)[0], draws=4),
        Fault(
            "a quarter of the inner steps priced",
            (Patch(Friction, "iterations", first_step_priced),),
            draws=1,
            arguments={"n_steps": 4},
            case={"score": lambda found: found["point"][:, -1, 0]},
        ),
        fixed_batch(PoissonBatches, arguments={"sampling_probability": 0.25}, case={"score": total}),
    ]
    return Case("DPSGHMC", make, neighbors(8), faults, score=score(), draws=4, runs=1600)


# Where the numbers of a released surrogate are (`audit.released`): with one parameter, one for each field.
PLACE = {field.name: i for i, field in enumerate(fields(Surrogate))}


class Again:
    """More surrogates of the same data, each with noise of its own."""

    def __init__(self, times, evidence):
        self.times, self.evidence, self.found = times, evidence, 0.0

    def find(self, call):
        """All of them; what the others say is the sum of their evidence."""

        def apply(finder, start):
            made = [call(finder, start)]
            for _ in range(self.times - 1):
                old = finder.releases
                finder.releases = Releases(old.records, finder.settings, old.mu_squared, old.random)
                made.append(call(finder, start))
            self.found = sum(self.evidence(surrogate_numbers(other)) for other in made[1:])
            return made[0]

        return apply

    def stat(self, iterate):
        """Put it into the stats."""

        def apply(step, chain):
            accepted, stats = iterate(step, chain)
            return accepted, stats | {"others": self.found}

        return apply


def half_of_gradient(gradient):
    """Half of the noise, which the surrogate does not know."""

    def apply(releases, *args):
        noisy = releases._noisy
        releases._noisy = lambda total, std: noisy(total, 0.5 * std)
        try:
            return gradient(releases, *args)
        finally:
            del releases._noisy

    return apply


def half_sensitivity(noise):
    return lambda releases, kind, sensitivity: noise(
        releases, kind, 0.5 * sensitivity if kind == "gradient" else sensitivity
    )


def on_surrogate():
    n, far = 401, 100.0
    others = np.repeat([-1.0, 1.0], n // 2)
    # Few and cheap rounds: most of the budget is the last gradient's, the part that tells most.
    shares = dp.ControlVariates(
        early=(1.0,),
        early_gradient=0.02,
        early_fisher=0.02,
        early_hessian=0.02,
        polish=(0.5,),
        recentre=False,
    )

    def make(values, tilt, **kwargs):
        with pm.Model() as built:
            pm.Normal("y", pm.Normal("theta", 0, 1), 1, observed=values)
        return dp.DPPenaltyMH(**{**COMMON, "control_variates": shares, "model": built, **kwargs})

    def evidence(numbers):
        """What the gradient at the centre says beyond the known records."""
        point, metric, bound, gradient, noise = (
            numbers[..., PLACE[name]]
            for name in ("point", "metric", "gradient_bound", "gradient", "gradient_noise")
        )
        return (gradient + (n - 1) * point) * bound / metric / noise

    def of_surrogate(found):
        return evidence(found["surrogate"][:, 0])

    def drift(found):
        """Moves to the right that were accepted, less those to the left."""
        return found["point"][:, -1, 0] - found["point"][:, 0, 0]

    again = Again(4, evidence)
    own = Patch(surrogate_step, "PrivacyRandom", new=HalfNoise)
    known = chain_faults(dp.DPPenaltyMH)[0]
    faults = [
        replace(HALF_NOISE, patches=(*HALF_NOISE.patches, own)),
        Fault("gradient's noise halved", (Patch(Releases, "gradient", half_of_gradient),)),
        Fault("gradient's sensitivity C for 2C", (Patch(Releases, "_noise", half_sensitivity),)),
        Fault(
            "gradients clipped 4 times too wide",
            (Patch(releases, "factors", lambda old: lambda vectors, bound: old(vectors, 4 * bound)),),
            runs=500,
        ),
        replace(UNCLIPPED, name="residuals not clipped", draws=8, runs=500, case={"score": drift}),
        replace(
            leak(dp.DPPenaltyMH, FullBatch, "__call__", lambda x: x.total), runs=400, case={"score": drift}
        ),
        Fault(
            "surrogate released 4 times, priced once",
            (Patch(Finder, "__call__", again.find), Patch(dp.DPPenaltyMH, "_iterate", again.stat)),
            runs=500,
            case={"score": lambda found: of_surrogate(found) + found["others"][:, 0]},
        ),
        replace(
            known,
            patches=(*known.patches, Patch(surrogate_step, "PrivacyRandom", new=KnownSeed)),
            draws=1,
        ),
    ]
    data = [np.r_[sign * far, others] for sign in (1.0, -1.0)]
    return Case("DPPenaltyMH, control variates", make, data, faults, score=of_surrogate, chain=1, runs=800)


CASES = [
    penalty_on_all,
    penalty_on_statistics,
    penalty_on_batches,
    barker_on_all,
    barker_on_batches,
    fast_barker,
    fast_published,
    fast_penalty,
    hamiltonian,
    stochastic_gradients,
    on_surrogate,
]


def cells(case):
    yield Fault("as shipped")
    if case.chain != case.draws:
        yield Fault("as shipped", draws=case.chain)
    yield from case.faults


def check(case, fault):
    case = replace(case, **fault.case)
    draws = fault.draws or case.draws
    with ExitStack() as stack:
        stack.enter_context(Patch(RandomWalk, "unit_length", new=np.sqrt(2.0)))  # else measured at each start
        stack.enter_context(Patch(gaussian, "mu", lambda mu: cache(mu)))  # the same in each run
        stack.enter_context(Patch(surrogate_step, "_WARM_UP", new=3))  # costs time, and tells nothing
        for each in fault.patches:
            stack.enter_context(each)
        probe = case.make(case.data[0], 0.0, **fault.arguments)
        plan = probe.cost(draws, 0)
        tilt = case.base(probe, plan, fault.factor) / case.move(plan)
        steps = [case.make(values, tilt, **fault.arguments) for values in case.data]
        if fault.name == "noise from random_seed":
            # Not every seed lets a decision of a short run depend on the record.
            for KnownSeed.seed in range(100):
                a, b = (released(step, draws, runs=4)["point"] for step in steps)
                if not np.array_equal(a, b):
                    break
        result = audit(
            lambda step: step,
            steps,
            draws=draws,
            runs=fault.runs or case.runs,
            score=case.score,
            claim=case.claim,
        )
    claimed = plan.guarantee.epsilon(DELTA) if case.claim is None else case.claim.epsilon
    return draws, claimed, result


def largest_excess(claim, accepts, draws):
    """The best event on numbers of accepted moves, without sampling error: its excess, and the log-ratio."""
    tester, found = TradeOffTester(claim), []
    for h in np.linspace(-8, 8, 161):
        a, b = accepts(h, 1.0), accepts(h, -1.0)
        most = np.arange(1, draws + 1)
        up, down = (stats.binom.sf(most - 1, draws, p) for p in (a, b))
        found += [(float(np.max(up - tester._allowed(down))), h)]
        found += [(float(np.max(1 - down - tester._allowed(1 - up))), h)]
    return max(found)


def limits():
    draws = 4
    n, b = 40, 20
    step = dp.DPBarker(**{**COMMON, **SHORTENED, "batch_size": b, "model": model(np.zeros(n))})
    plan = step.cost(draws, 0)
    for name, noise, bound in (("as shipped", 1.0, 1.0), ("noise halved", 0.5, 1.0), ("bound 2B", 1.0, 2.0)):

        def accepts(h, sign, noise=noise, bound=bound):
            normal = noise * np.sqrt(barker_correction.NOISE_VARIANCE)
            return sum(
                p * ndtr((h + x - barker_correction._SORTED) / normal) @ barker_correction._MASS
                for p, x in ((b / n, sign * bound / np.sqrt(b)), (1 - b / n, 0.0))
            )

        excess, h = largest_excess(plan.guarantee, accepts, draws)
        print(f"DPBarker, batches, {name}: largest excess {excess:.4f} (at log-ratio {h:.1f})")
    draws, n, batch = 8, 20, 9
    step = dp.DPFastMH(**{**COMMON, **SHORTENED, "batch_size": batch, "model": model(np.zeros(n))})
    plan = step.cost(draws, 0)
    size, inclusion = plan.parameters["clip_bound"], plan.parameters["inclusion"]
    batches, counts = TunaBatches(inclusion, size), np.arange(40)
    for name, sharpness in (("as shipped", 1.0), ("noise halved", 2.0)):

        def accepts(h, sign, sharpness=sharpness):
            term = sign * tuna.largest_term(size, batches)
            rate = batches.rate + 0.5 * size * (1 - sign)
            return stats.poisson.pmf(counts, rate) @ expit(sharpness * (h + counts * term))

        excess, h = largest_excess(plan.guarantee, accepts, draws)
        print(f"DPFastMH, {name}: largest excess {excess:.4f} (at log-ratio {h:.1f})")
    plan = dp.calibrate(EPSILON, DELTA, draws=draws, tune=0, chains=1, clip_fraction=False)
    mu, epsilons = np.sqrt(draws) / plan.noise_multiplier, np.linspace(0, 10, 101)
    excess = gaussian.delta(mu, epsilons) - [plan.guarantee.delta(e) for e in epsilons]
    print(
        f"noisy ratios at the price of decisions: epsilon {gaussian.epsilon(mu, DELTA):.2f} for {EPSILON:g}; "
        f"largest excess {excess.max():.4f} at epsilon {epsilons[np.argmax(excess)]:.1f}"
    )


def main(words):
    print("| sampler | fault | draws | claimed ε | ε at least | P at least | P′ at most | claim allows | |")
    print("|---|---|---|---|---|---|---|---|---|")
    start = time.perf_counter()
    for build in CASES:
        case = build()
        for fault in cells(case):
            if words and not any(f"{case.name}: {fault.name}".startswith(word) for word in words):
                continue
            try:
                draws, claimed, found = check(case, fault)
            except dp.TooFewRecordsError:  # in one of the runs: there is nothing to compare
                print(f"| {case.name} | {fault.name} | | | | | | | surrogate refused |", flush=True)
                continue
            verdict = "**caught**" if found.violated else "not refuted"
            print(f"{time.perf_counter() - start:.0f} s: {case.name}, {fault.name}", file=sys.stderr)
            numbers = [found.epsilon_lower, found.probability, found.other_probability, found.allowed]
            values = " | ".join(f"{value:.3g}" for value in numbers)
            print(
                f"| {case.name} | {fault.name} | {draws} | {claimed:.3g} | {values} | {verdict} |", flush=True
            )
    print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    limits() if sys.argv[1:] == ["limits"] else main(sys.argv[1:])
