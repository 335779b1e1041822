"""The list of everyday models."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm

#: A function of a generator and a number of records, to a model and its true parameters by name.
Everyday = Callable[[np.random.Generator, int], tuple[pm.Model, dict[str, Any]]]
#: By name.
GALLERY: dict[str, Everyday] = {}


def everyday(make: Everyday) -> Everyday:
    """Register a model under the name of the function that makes it."""
    GALLERY[make.__name__] = make
    return make


def logistic(x: np.ndarray) -> np.ndarray:
    """Inverse of the logit."""
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    """Probabilities, along the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def choose(rng: np.random.Generator, p: np.ndarray) -> np.ndarray:
    """One category a row of probabilities."""
    return (rng.uniform(size=(len(p), 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
