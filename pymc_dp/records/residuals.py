"""What a quadratic surrogate leaves of each record's log-likelihood: the records that a chain still compares.

With the surrogate ``q_i(theta) = (f_i (g_i - m) + m)' delta + k_i delta' H_i delta / 2``, ``delta =
phi(theta) - phi(c)``, of record i (g_i, H_i its gradient and Hessian in likelihood coordinates phi at c; f_i,
k_i the factors that clip them; m the public centre of the clip), this is the record model whose
log-likelihoods are ``l_i - q_i`` and whose prior is the prior times the exponential of a public quadratic
function.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace

from pymc_dp.records import graph
from pymc_dp.records.derivatives import along
from pymc_dp.records.predictor_residuals import PredictorResiduals
from pymc_dp.records.public_density import PublicDensity
from pymc_dp.records.sums import FullBatch, compiled, gather, guarded


class Expansion(NamedTuple):
    """A surrogate: its private factors, one for each unit, and its public part.

    Attributes
    ----------
    origin : ndarray, shape (p,)
        phi(c).
    metric : ndarray, shape (p, p)
        About posterior standard deviations there.
    centre : ndarray, shape (p,)
        m, centre of the clip of the gradients.
    gradient_factors, hessian_factors : ndarray, shape (n,)
        f_i, k_i in [0, 1]. Private.
    slope : ndarray, shape (p,)
    curvature : ndarray, shape (p, p)
        Of the public function ``slope' delta + delta' curvature delta / 2``, symmetric.
    entries : ndarray, shape (n, m), or None
        Entries of each Hessian that are not taken to be 0; None if none is. Private.
    """

    origin: np.ndarray
    metric: np.ndarray
    centre: np.ndarray
    gradient_factors: np.ndarray
    hessian_factors: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray
    entries: np.ndarray | None = None


class Residuals:
    """The part of `RecordModel`'s interface that steps compare points with, after a surrogate.

    Parameters
    ----------
    model : RecordModel
    structure : Structure, optional
        Of the Hessians, if not whole: ``delta' H_i delta`` is then a product with stored entries.

    Notes
    -----
    **Privacy.** Reads the same records; a record's residual is a function of that record, of the public
    surrogate, and of the record's own clip factors. An infinite or undefined derivative counts as 0, in the
    released sums as here.
    """

    def __init__(self, model: Any, structure: Any = None):
        self._structure: Any = None if structure is None or structure.full else structure
        self._model, self.n, self.d = model, model.n, model.d
        self._coordinates, self.public = model.coordinates, PublicDensity(model)
        p = self._coordinates.size
        self._centre = pytensor.shared(np.zeros(p), shape=(p,))
        self._by_predictors: PredictorResiduals | None = None
        if self._structure is None and getattr(model, "curvature", None) is not None:
            self._by_predictors = PredictorResiduals(model)
        # f and k; with predictors k is in what is stored by these.
        self._factors = (
            [pytensor.shared(np.zeros(model.n), shape=(model.n,)) for _ in range(2)]
            if self._by_predictors is None
            else [self._by_predictors.factor]
        )
        if self._structure is not None:
            self._entries = pytensor.shared(np.zeros((0, self._structure.rows.size)))
        self.full_batch = FullBatch(
            model._theta,
            self._all_residuals(),
            self.public.value,
            model.n,
            model.compile_kwargs,
            model._roots,
        )
        self.log_prior, self.log_prior_gradient = self.public.log_prior, self.public.log_prior_gradient

    def _all_residuals(self) -> Any:
        """Of all records, as a graph of theta."""
        if self._by_predictors is not None:
            return self._by_predictors.full(pt.dot(self._centre, self.public.delta))
        model = self._model
        rows, seen = (
            model._unit_rows(graph.smooth_rows(terms)) for terms in (model._terms, self._coordinates.terms)
        )
        residual = self._residual(rows, seen, *self._factors)
        if self._structure is not None:
            residual = residual - 0.5 * self._quadratic(self._factors[1])
        return residual

    def _residual(
        self, rows: Any, seen: Any, gradient_factor: Any, hessian_factor: Any, centred: bool = True
    ) -> Any:
        """Residuals of `rows`, functions of the parameters that are `seen` as functions of phi."""
        delta, phi = self.public.delta, self._coordinates.vector
        u = pt.vector("direction", shape=(self._coordinates.size,), dtype="float64")
        first, second = (
            clone_replace(derivative, {u: delta})  # type: ignore[arg-type]
            for derivative in along(seen, phi, self.public.origin, [u, u])
        )
        across = pt.dot(self._centre, delta) if centred else pt.constant(np.float64(0.0))
        linear = pt.switch(pt.isfinite(first), gradient_factor * (first - across), 0.0)
        left = rows - (linear + across)
        if self._structure is None:
            left = left - pt.switch(pt.isfinite(second), 0.5 * hessian_factor * second, 0.0)
        return graph.simplify([left])[0]

    def _quadratic(self, hessian_factor: Any) -> Any:
        """``k_i delta' H_i delta`` from stored entries."""
        structure, delta = self._structure, self.public.delta
        features = structure.weights * delta[structure.rows] * delta[structure.columns]
        return hessian_factor * pt.dot(self._entries, features)

    def expand(self, expansion: Expansion) -> None:
        """Take a surrogate."""
        self.public.set(expansion.origin, expansion.slope, expansion.curvature)
        self._centre.set_value(expansion.centre)
        given = (expansion.gradient_factors, expansion.hessian_factors)
        if self._by_predictors is not None:
            self._by_predictors.expand(expansion.origin, expansion.metric, *given)
        else:
            for shared, values in zip(self._factors, given, strict=True):
                shared.set_value(values)
        if self._structure is not None and expansion.entries is not None:
            # An entry that is not finite has a factor of 0.
            finite = np.nan_to_num(expansion.entries, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
            self._entries.set_value(finite, borrow=True)

    def displacement(self, theta: np.ndarray) -> np.ndarray:
        """From the surrogate's point, in likelihood coordinates, shape (p,)."""
        return self._coordinates(theta) - self.public.origin.get_value(borrow=True)

    def forget(self) -> None:
        """Drop the private factors."""
        if self._by_predictors is not None:
            self._by_predictors.forget()
        else:
            for shared in self._factors:
                shared.set_value(np.zeros(self.n))
        if self._structure is not None:
            self._entries.set_value(np.zeros((0, self._structure.rows.size)))

    def ratios(self, theta: np.ndarray, new: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Residual log-likelihood at `new` minus that at `theta`, of some units, shape (b,)."""
        centre = self._centre.get_value(borrow=True)
        factors = self._factors[0].get_value(borrow=True)[units].astype(np.float64)

        def of_rows(rows: np.ndarray) -> np.ndarray:
            parts = [gather(graph.leaf_value(r), rows, axis) for r, axis in self._model._roots.items()]
            if self._by_predictors is not None:
                weights = self._by_predictors.at(rows)
            else:
                owners = rows if self._model.unit_of_row is None else self._model.unit_of_row[rows]
                weights = [f.get_value(borrow=True)[owners] for f in self._factors]
            return guarded(lambda: self._rows(new, *weights, *parts) - self._rows(theta, *weights, *parts))

        move = self._coordinates(new) - self._coordinates(theta)
        left = self._model._on_units(of_rows, units) - (1 - factors) * float(centre @ move)
        if self._structure is None:
            return left
        products = self._structure.products
        moved = products(self.displacement(new)) - products(self.displacement(theta))
        weights = self._factors[1].get_value(borrow=True)[units]
        return left - 0.5 * weights * (self._entries.get_value(borrow=True)[units] @ moved)

    @cached_property
    def _rows(self) -> Any:
        """Rows of some records without the clip's centre, as a function of (theta, factors, *data).

        Factors are f and k, or what `PredictorResiduals` stores.
        """
        if self._by_predictors is not None:
            inputs, output = self._by_predictors.some()
            return self._compiled(inputs, output)
        roots, n_rows = self._model._roots, self._model.n_rows
        stand_ins, rows = graph.symbolic_rows(self._model._terms, roots, n_rows)
        _, seen = graph.symbolic_rows(self._coordinates.terms, roots, n_rows, stand_ins)
        f, k = (pt.vector(name, dtype="float64") for name in ("f", "k"))
        output = self._residual(rows, seen, f, k, centred=False)
        return self._compiled([f, k, *stand_ins.values()], output)

    def _compiled(self, inputs: Sequence[Any], output: Any) -> Any:
        given = [*inputs, *self._model._roots]
        return compiled([self._model._theta, *inputs], output, self._model.compile_kwargs, private=given)
