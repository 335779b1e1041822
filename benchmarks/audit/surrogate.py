"""The case of a released surrogate."""

from dataclasses import fields, replace

import numpy as np
import pymc as pm

import pymc_dp as dp
from benchmarks.audit.attack import COMMON
from benchmarks.audit.cases import Case
from benchmarks.audit.faults import (
    HALF_NOISE,
    UNCLIPPED,
    Fault,
    HalfNoise,
    KnownSeed,
    Patch,
    chain_faults,
    leak,
)
from pymc_dp.audit import _numbers as surrogate_numbers
from pymc_dp.control_variates import releases
from pymc_dp.control_variates.clipped_rows import OUTER_GRID
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.releases import Releases
from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.records import curvature_kernels
from pymc_dp.records.sums import GRID, FullBatch
from pymc_dp.steps import on_residuals as surrogate_step

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
                finder.releases = Releases(finder.records, finder.settings, old.mu_squared, old.random)
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


class Quieter:
    """Half of the noise of a `PrivacyRandom`."""

    def __init__(self, random):
        self.random = random

    def normals(self, size):
        """Draws of a shape."""
        return 0.5 * self.random.normals(size)


def half_of_gradient(release):
    """Half of the noise, which the surrogate does not know."""

    def apply(self, kind, *arguments):
        if kind != "gradient":
            return release(self, kind, *arguments)
        kept, self.random = self.random, Quieter(self.random)
        try:
            return release(self, kind, *arguments)
        finally:
            self.random = kept

    return apply


def half_sensitivity(sensitivity):
    return lambda kind, *arguments: (0.5 if kind == "gradient" else 1.0) * sensitivity(kind, *arguments)


def too_wide(to_grid):
    """Gradients of the audited kind alone: outer products have a coarser grid."""
    return lambda vectors, scale, steps: to_grid(vectors, scale, 4 * steps if steps > OUTER_GRID else steps)


def as_clipped(expansion):
    """Gradients count as clipped in records' surrogates, as where nothing is measured of what clips cut.

    Otherwise a normal likelihood leaves nothing that a chain could compare.
    """
    return lambda surrogate, records: expansion(replace(surrogate, put_back=None), records)


def on_surrogate():
    n, far = 401, 100.0
    others = np.repeat([-1.0, 1.0], n // 2)
    # Few and cheap rounds: most of the budget is the last gradient's, the part that tells most.
    shares = dp.ControlVariates(
        early=(1.0,),
        early_gradient=0.02,
        early_fisher=0.02,
        early_hessian=0.02,
        early_histogram=0.01,
        late=(0.05, 0.95),
        late_histogram=0.06,
        late_hessian_histogram=0.06,
        late_cut=1e-4,
        late_shown=1e-4,
        hessian_least=0.02,
        hessian_weight=0.01,
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

    def told(found):
        """The sign of the audited record's ratio, which is +B or -B, by the direction of accepted moves.

        The other n - 1 records have one ratio in common: it is not seen modulo n - 1.
        """
        moves = np.diff(found["point"][:, :, 0], axis=1)
        rest = found["log_ratio"][:, 1:] % (n - 1)
        up, down = (np.abs(rest - sign * GRID % (n - 1)) < 0.5 for sign in (1, -1))
        return ((up * 1.0 - down) * np.sign(moves)).sum(axis=1)

    again = Again(4, evidence)
    own = Patch(surrogate_step, "PrivacyRandom", new=HalfNoise)
    known = chain_faults(dp.DPPenaltyMH)[0]
    spied = leak(dp.DPPenaltyMH, FullBatch, "__call__", lambda x: x.total)
    left = Patch(Surrogate, "expansion", as_clipped)
    faults = [
        replace(HALF_NOISE, patches=(*HALF_NOISE.patches, own)),
        Fault("gradient's noise halved", (Patch(Releases, "release", half_of_gradient),)),
        Fault("gradient's sensitivity C for 2C", (Patch(releases, "sensitivity", half_sensitivity),)),
        Fault(
            "gradients clipped 4 times too wide",
            (Patch(curvature_kernels, "to_grid", too_wide),),
            runs=500,
        ),
        replace(
            UNCLIPPED,
            name="residuals not clipped",
            patches=(*UNCLIPPED.patches, left),
            draws=8,
            runs=500,
            case={"score": drift},
        ),
        replace(spied, patches=(*spied.patches, left), draws=8, runs=400, case={"score": told}),
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
