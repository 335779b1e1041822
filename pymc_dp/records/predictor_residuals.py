"""Residuals of a surrogate by predictors: no gradient and no Hessian is computed again in an iteration.

With ``zeta_a = z_a(theta) - z_a(c)`` for the predictors of record i (`pymc_dp.records.predictors`), the
surrogate of the record is

    (1 - f_i) m' delta + sum_a f_i F_a zeta_a + sum_ab k_i F_ab zeta_a zeta_b / 2

with derivatives at c, which are stored: a quadratic in k numbers instead of p. A record whose log-likelihood
has a kink within some posterior standard deviations of c leaves 0: its curvature is spread over these in the
surrogate, and what is left, the kink less the spread, would be clipped on one side only.

Of a record with one predictor 24 bytes are kept. Its predictor at c is rounded to single precision, c', and
so is f_i, which are then what they are: with ``e = z(c) - c'`` and ``zeta' = z(theta) - c'`` the same
quadratic is ``(f F - k F' e) zeta' + k F' zeta'^2 / 2`` and a constant, which no comparison of two points
sees.
"""

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace

from pymc_dp.records import adjoints, graph

_LARGEST = float(np.finfo(np.float32).max)


class PredictorResiduals:
    """What is stored of each record, and the residual as a graph of it.

    Parameters
    ----------
    model : RecordModel
        With `curvature`.

    Attributes
    ----------
    factor : shared variable, vector of length n, float32
        f_i.

    Notes
    -----
    **Privacy.** What is stored of a record is a function of that record, of public numbers and of its own
    clip factors: private. A record whose derivatives are not finite has factors of 0, and zeros are stored.
    """

    def __init__(self, model: Any):
        self._model, self._predictors = model, model.predictors
        k, n = self._predictors.size, model.n
        found = [piece for piece in self._predictors.pieces if piece.kind != "values"]
        private = [any(q.first <= a < q.first + q.numbers for q in found) for a in range(k)]
        self._pairs = list(combinations_with_replacement(range(k), 2))
        # Predictors at c: one number where it is the same for all records.
        self._origin = [_zeros(n, "float32") if own else _zeros(1) for own in private]
        self._first = [_zeros(n) for _ in range(k)]
        self._second = [_zeros(n) for _ in self._pairs]
        # 0 for records at a kink, of which the surrogate has all; 1 for others.
        self._straight = [_zeros(n, "int8")] if self._predictors.kinks else []
        self.factor = _zeros(n, "float32")

    def full(self, across: Any) -> Any:
        """Residuals of all records as a graph of theta; ``across`` is m' delta."""
        (rows,) = self._on_theta(
            [self._graph(*self._stored()) - (1.0 - pt.cast(self.factor, "float64")) * across]
        )
        roots = dict(zip(self._predictors.records, self._model._roots, strict=True))
        return graph.simplify(adjoints.replaced([rows], roots))[0]

    def some(self) -> tuple[list[Any], Any]:
        """Inputs for some records (stored numbers, and data), and their residuals with m = 0."""
        given = [[_like(v) for v in part] for part in self._stored()]
        (rows,) = self._on_theta([self._graph(*given)])
        own = [
            new
            for part, kept in zip(given, self._stored(), strict=True)
            for new, old in zip(part, kept, strict=True)
            if new is not old
        ]
        return [*own, *self._predictors.records], graph.simplify([rows])[0]

    def at(self, units: np.ndarray) -> list[np.ndarray]:
        """Values for the first of these inputs, for some records."""
        return [v.get_value(borrow=True)[units] for part in self._stored() for v in part if not _single(v)]

    def expand(
        self,
        phi: np.ndarray,
        metric: np.ndarray,
        gradient_factors: np.ndarray,
        hessian_factors: np.ndarray,
    ) -> None:
        """Store what is needed for a surrogate at c, with phi(c) of shape (p,); one pass over the data."""
        origin, first, second, straight = [
            [v.get_value(borrow=True) for v in part] for part in self._stored()
        ]
        factor = self.factor.get_value(borrow=True)
        factor[:] = gradient_factors
        at_kink = [self._pairs.index((a, a)) for a in self._predictors.kinks]
        for part in self._model.curvature(phi, metric):
            units, moved = part.units, np.zeros_like(part.values)
            for a, stored in enumerate(origin):
                if stored.dtype == np.float64:  # the same for all records
                    stored[:] = _known(part.values[:1, a])
                    continue
                exact = _known(part.values[:, a])
                stored[units] = np.clip(exact, -_LARGEST, _LARGEST)
                moved[:, a] = exact - stored[units]
            # Nothing is said of a record that overflows.
            with np.errstate(all="ignore"):
                for t, stored in enumerate(second):
                    stored[units] = _known(hessian_factors[units] * part.second[:, t])
                slopes = _known(factor[units, None] * part.first)
                for (a, b), stored in zip(self._pairs, second, strict=True):
                    slopes[:, a] -= stored[units] * moved[:, b]
                    if a != b:
                        slopes[:, b] -= stored[units] * moved[:, a]
            for a, stored in enumerate(first):
                stored[units] = _known(slopes[:, a])
            for stored in straight:
                stored[units] = np.all(part.second[:, at_kink] == 0, axis=1)
        for stored in straight:
            # All of such a record is in the surrogate, the clip's centre too.
            factor[stored == 0] = 1.0

    def forget(self) -> None:
        """Drop what is private."""
        for variable in [self.factor, *(v for part in self._stored() for v in part)]:
            variable.get_value(borrow=True)[:] = 0

    def _stored(self) -> list[list[Any]]:
        return [self._origin, self._first, self._second, self._straight]

    def _graph(
        self, origin: Sequence[Any], first: Sequence[Any], second: Sequence[Any], straight: Sequence[Any]
    ) -> Any:
        """As a function of the predictors' inputs."""
        moves = [z - c for z, c in zip(self._predictors.columns(), origin, strict=True)]
        quadratic: Any = sum(
            _scaled(w, a, b) * moves[a] * moves[b] for w, (a, b) in zip(second, self._pairs, strict=True)
        )
        taken: Any = sum(g * z for g, z in zip(first, moves, strict=True)) + quadratic
        left = self._predictors.rows - pt.switch(pt.isfinite(taken), taken, 0.0)
        return pt.switch(straight[0], left, 0.0) if straight else left

    def _on_theta(self, outputs: Sequence[Any]) -> list[Any]:
        coordinates = self._model.coordinates
        joined = coordinates.joined(self._predictors.of_data(outputs))
        if coordinates.identity:
            return joined
        return clone_replace(joined, {coordinates.vector: coordinates.of_theta})


def _zeros(size: int, dtype: str = "float64") -> Any:
    return pytensor.shared(np.zeros(size, dtype=dtype), shape=(size,), borrow=True)


def _single(variable: Any) -> bool:
    """Whether it holds one public number."""
    return variable.type.shape == (1,)


def _like(variable: Any) -> Any:
    """An input in its place, for some of its records."""
    return variable if _single(variable) else pt.vector(dtype=variable.type.dtype)


def _scaled(weight: Any, a: int, b: int) -> Any:
    return 0.5 * weight if a == b else weight


def _known(values: np.ndarray) -> np.ndarray:
    return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
