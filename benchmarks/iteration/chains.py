"""Chains whose iterations are timed."""

import numpy as np
import pymc as pm
from pymc.step_methods.compound import BlockedStep

import pymc_dp as dp

DELTA = 1e-6


def started(model, **kwargs):
    """A running chain of DPPenaltyMH and its current point."""
    with model:
        step = dp.DPPenaltyMH(epsilon=2, delta=DELTA, chains=1, **({"lipschitz": 1.0} | kwargs))
    step.setup_chain(np.random.default_rng(0), 0, 2_000_000)
    return step


class Chain:
    """Calls a step on its own result."""

    def __init__(self, step, point):
        self.step, self.point = step, point

    def __call__(self):
        """One iteration."""
        self.point, _ = self.step.step(self.point)


class MinimalStep(BlockedStep):
    """The least a Metropolis step can do: propose, evaluate the log-posterior, decide."""

    name = "minimal"
    stats_dtypes_shapes = {"accepted": (bool, [])}  # noqa: RUF012

    def __init__(self, vars=None, *, model=None, rng=None, blocked=True):
        model = pm.modelcontext(model)
        self.vars, self.rng = model.value_vars, np.random.default_rng(0)
        self.logp = model.compile_fn(model.logp(), inputs=model.value_vars, point_fn=False)
        self.logp.trust_input = True
        self.current = None

    def step(self, point):
        """One iteration."""
        values = [point[v.name] for v in self.vars]
        if self.current is None:
            self.current = self.logp(*values)
        proposal = [v + 0.01 * self.rng.standard_normal(v.shape) for v in values]
        new = self.logp(*proposal)
        accepted = -self.rng.standard_exponential() < new - self.current
        if accepted:
            self.current = new
            point = {v.name: p for v, p in zip(self.vars, proposal, strict=True)}
        return point, [{"accepted": accepted}]
