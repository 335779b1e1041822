"""Cases of DPHMC and DPSGHMC."""

from dataclasses import replace

import numpy as np

import pymc_dp as dp
from benchmarks.audit.attack import COMMON, mixture, model, neighbors
from benchmarks.audit.cases import Case
from benchmarks.audit.faults import (
    HALF_NOISE,
    HALF_SENSITIVITY,
    Fault,
    Patch,
    chain_faults,
    fixed_batch,
    leak,
    unclipped_gradients,
    unpriced,
)
from pymc_dp.privacy.accounting.events import PenaltyDecisionDpEvent
from pymc_dp.privacy.mechanisms.gradients import Friction
from pymc_dp.privacy.mechanisms.randomness import PoissonBatches
from pymc_dp.records.gradients import Gradients
from pymc_dp.records.sums import FullBatch


def momenta(draws):
    """What PyMC's public seed makes of the momentum along the first component."""
    return np.random.default_rng(0).standard_normal((draws, 2))[:, 0]


def hamiltonian():
    eta = 0.01

    def make(values, tilt, **kwargs):
        settings = {
            "lipschitz": 1e-3,
            "gradient_clip_bound": 1.0,
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

    def first_step_priced(event):
        def apply(self, noise_multiplier):
            return event(replace(self, n_steps=1), noise_multiplier)

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
            (Patch(Friction, "_of", first_step_priced),),
            draws=1,
            arguments={"n_steps": 4},
            case={"score": lambda found: found["point"][:, -1, 0]},
        ),
        fixed_batch(PoissonBatches, arguments={"sampling_probability": 0.25}, case={"score": total}),
    ]
    return Case("DPSGHMC", make, neighbors(8), faults, score=score(), draws=4, runs=1600)
