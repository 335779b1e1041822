"""Prior times the exponential of a public quadratic function of likelihood coordinates."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt


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
        return float(self._functions[0](theta))

    def log_prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        """Its gradient, shape (d,)."""
        return self._functions[1](theta)

    @cached_property
    def _functions(self) -> tuple[Any, Any]:
        theta, kwargs = self._model._theta, self._model.compile_kwargs
        options: Mapping[str, Any] = {"on_unused_input": "ignore", "trust_input": True, **kwargs}
        value = pytensor.function([theta], self.value, **options)
        return value, pytensor.function([theta], pytensor.grad(self.value, theta), **options)
