"""Prior times the exponential of a public quadratic function of likelihood coordinates."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace

from pymc_dp.records.gate import compile_density

# Step of the central differences of gradients, over the size of a parameter.
DIFFERENCE = 1e-4


def curvature(gradient: Callable[[np.ndarray], np.ndarray], point: np.ndarray) -> np.ndarray:
    """Minus the Hessian of a public log-density, (d, d), from its gradient; zero where undefined."""
    columns = []
    for j in range(len(point)):
        h = DIFFERENCE * max(1.0, abs(point[j]))
        e = np.zeros(len(point))
        e[j] = h
        columns.append((gradient(point - e) - gradient(point + e)) / (2 * h))
    matrix = np.nan_to_num(np.array(columns), posinf=0.0, neginf=0.0)
    return 0.5 * (matrix + matrix.T)


class PublicDensity:
    """Log-density ``log p(theta) + slope' delta + delta' curvature delta / 2``.

    Here ``delta = phi(theta) - phi(c)``, and p(theta) is the prior.

    Parameters
    ----------
    model : RecordModel

    Notes
    -----
    **Privacy.** Reads no record.
    """

    def __init__(self, model: Any):
        self._model, self._coordinates = model, model.coordinates
        p = self._coordinates.size
        self.origin, self.slope = (pytensor.shared(np.zeros(p), shape=(p,)) for _ in range(2))
        self.curvature = pytensor.shared(np.zeros((p, p)), shape=(p, p))
        self.delta = self._coordinates.of_theta - self.origin
        delta = self.delta
        quadratic = pt.dot(self.slope, delta) + 0.5 * pt.dot(delta, pt.dot(self.curvature, delta))
        self.value = model._log_prior + quadratic

    def set(self, origin: np.ndarray, slope: np.ndarray, curvature: np.ndarray) -> None:
        """Take a quadratic function: phi(c) of shape (p,), (p,) and a symmetric (p, p)."""
        for shared, values in ((self.origin, origin), (self.slope, slope), (self.curvature, curvature)):
            shared.set_value(values)

    def log_prior(self, theta: np.ndarray) -> float:
        """Log-density at a point of shape (d,)."""
        return float(self._function(theta)[0])

    def log_prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        """Its gradient, shape (d,)."""
        return self._function(theta)[1]

    @property
    def start(self) -> dict[str, np.ndarray]:
        """A point of `model`."""
        return {"theta": np.zeros(self._model.d)}

    @cached_property
    def model(self) -> pm.Model:
        """The density as a PyMC model of one flat vector `theta`, for PyMC's samplers."""
        with pm.Model(model=None) as model:  # of its own, whatever model's context is open
            theta = pm.Flat("theta", shape=self._model.d)
            pm.Potential("public", graph_replace([self.value], {self._model._theta: theta}, strict=False)[0])
        return model

    @cached_property
    def value_and_gradient(self) -> Any:
        """Compiled, as PyMC's samplers want it."""
        function = compile_density(self.model, self.start, **self._model.compile_kwargs)
        function.trust_input = True
        return function

    @property
    def _function(self) -> Any:
        return self.value_and_gradient._pytensor_function
