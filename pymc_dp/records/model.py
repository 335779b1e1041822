"""Reads a PyMC model as records: log-likelihood rows, log-prior, a flat vector of parameters."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace

from pymc_dp.errors import ModelRefusedError, PrivacyError
from pymc_dp.records import checks, graph, verification
from pymc_dp.records.batches import Batches
from pymc_dp.records.coordinates import Coordinates, likelihood_coordinates, slices
from pymc_dp.records.derivatives import RecordDerivatives
from pymc_dp.records.gradients import Gradients
from pymc_dp.records.guard import guarded
from pymc_dp.records.sums import FullBatch
from pymc_dp.records.units import units


class RecordModel:
    """A PyMC model seen as n records and d parameters.

    Parameters
    ----------
    model : pymc.Model
        Any model whose likelihood is a product over records, records on the first axis of every observed
        variable.
    privacy_unit : array_like, shape (n_rows,), optional
        Identifier of the person (or other unit) that each row belongs to. The log-likelihoods of a
        unit's rows are added before they are clipped. Default: each row is a unit.
    exclude_deterministics : collection of str
        Deterministics that read private rows and that will not be released.
    compile_kwargs : dict, optional
        Passed to `pytensor.function`; as in `pm.sample`.

    Attributes
    ----------
    n : int
        Number of privacy units.
    n_rows : int
        Number of rows.
    d : int
        Number of unconstrained parameters.
    value_vars : list of Variable
        PyMC's value variables, in the order of the flat vector.
    withheld_dims : list of str
        Dimensions as long as there are records or units: their coordinates may identify persons.
    released_variables : list of str
        Names that a release may contain: free variables and Deterministics that read no record.

    Raises
    ------
    ModelRefusedError
        The model would leak or cannot be read as records; see `pymc_dp.records.checks`.

    Notes
    -----
    Data are not copied. `check_data` detects `pm.set_data` after construction.
    """

    def __init__(
        self,
        model: pm.Model,
        *,
        privacy_unit: Any = None,
        exclude_deterministics: Collection[str] = (),
        compile_kwargs: Mapping[str, Any] | None = None,
    ):
        checks.supported(model)
        self._model = model
        self.value_vars = list(model.value_vars)
        self.compile_kwargs = dict(compile_kwargs or {})
        start = model.initial_point(0)
        self.shapes = {v.name: np.shape(start[v.name]) for v in self.value_vars}
        self.d = int(sum(np.prod(shape, dtype=int) for shape in self.shapes.values()))
        self._start = self.ravel(start)

        names = [rv.name for rv in model.observed_RVs]
        conditions: list[Variable] = []
        terms = graph.flatten(_log_terms(model, model.observed_RVs, "observed variable"), conditions)
        lengths = {}
        for rv, name, term in zip(model.observed_RVs, names, terms, strict=True):
            checks.deterministic_likelihood(name, term)
            shape = pt.as_tensor(model.rvs_to_values[rv]).shape.eval(mode=checks.CHECK_MODE)
            checks.observed_term(name, term.type.ndim, shape)
            lengths[name] = int(shape[0])
        checks.same_records(lengths)
        self.n_rows = next(iter(lengths.values()))
        self.unit_of_row, self.n = units(privacy_unit, self.n_rows)

        self._theta = pt.vector("theta", shape=(self.d,), dtype="float64")
        self._terms_of_values = terms
        self._terms: list[Variable] = self._on_vector(terms)
        self._roots = verification.record_roots(self._terms, self._theta, self._start, self.n_rows)
        sizes = {self.n_rows, self.n}
        public = {leaf for leaf in graph.data_leaves(self._terms) if leaf not in self._roots}
        if self.unit_of_row is not None:
            checks.no_unit_arrays(public, self.n)
        checks.only_records_and_small_tables(public, self.n_rows)
        free = [*model.free_RVs, *model.potentials]
        prior_terms = graph.flatten(_log_terms(model, free, "prior of"), conditions)
        priors = {v.name: term for v, term in zip(free, prior_terms, strict=True)}
        checks.nothing_else_reads_records(model, priors, sizes, self._roots, public, exclude_deterministics)
        # A check that reads no record is about the parameters: where it fails, the density is zero.
        about_parameters = [
            c
            for c in self._on_vector(conditions)
            if not checks.private_leaves([c], sizes, self._roots, public)
        ]
        (log_prior,) = self._on_vector([pt.add(*[t.sum() for t in prior_terms], 0.0)])
        self._log_prior = pt.switch(pt.all([pt.all(c) for c in about_parameters]), log_prior, -np.inf)
        self._snapshot = [
            (leaf, leaf.get_value(borrow=True))
            for leaf in graph.data_leaves([*terms, *prior_terms, *model.deterministics])
            if isinstance(leaf, SharedVariable) and isinstance(leaf.get_value(borrow=True), np.ndarray)
        ]
        self.released_variables = [rv.name for rv in model.free_RVs] + [
            d.name for d in model.deterministics if d.name not in exclude_deterministics
        ]
        dims = {name: int(size.eval(mode=checks.CHECK_MODE)) for name, size in model.dim_lengths.items()}
        self.withheld_dims = sorted(name for name, length in dims.items() if length in sizes)
        self.full_batch = FullBatch(
            self._theta,
            self._unit_rows(graph.opaque_data(graph.rows(self._terms), self.n_rows)),
            self._log_prior,
            self.n,
            self.compile_kwargs,
        )
        checks.no_per_record_latents(self.shapes, sizes, self._units_moved_by)
        verification.separable(
            self._terms, self._theta, self._start, self.n_rows, self._roots, self._row_values
        )

    # parameters as one flat vector

    def ravel(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """Flat unconstrained vector, shape (d,), of a PyMC point."""
        return np.concatenate([np.ravel(point[name]) for name in self.shapes])

    def unravel(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """PyMC point (dict of arrays in value space) of a flat vector; a copy."""
        point, start = {}, 0
        for name, shape in self.shapes.items():
            stop = start + int(np.prod(shape, dtype=int))
            point[name] = theta[start:stop].reshape(shape).copy()
            start = stop
        return point

    def _on_vector(self, outputs: Sequence[Variable]) -> list[Variable]:
        parts = slices(self._theta, {v: self.shapes[v.name] for v in self.value_vars})
        return clone_replace(list(outputs), parts)

    # the data

    def check_data(self) -> None:
        """Refuse to go on when `pm.set_data` changed the data after the functions were compiled."""
        if any(shared.get_value(borrow=True) is not seen for shared, seen in self._snapshot):
            raise PrivacyError(
                "The model's data were changed (pm.set_data) after the step was made: it was checked, and "
                "its "
                "budget planned, for other records. Make a new step."
            )

    # compiled functions

    @cached_property
    def _batches(self) -> Batches:
        return Batches(self._theta, self._terms, self._roots, self.n_rows, self.compile_kwargs)

    @cached_property
    def gradients(self) -> Gradients:
        """Clipped sums of the units' gradients: ``gradients(theta, clip_bound)``, and ``gradients.batch``."""
        columns, start = {}, 0
        for variable in self.value_vars:
            stop = start + int(np.prod(self.shapes[variable.name], dtype=int))
            columns[variable], start = slice(start, stop), stop
        rows_of_unit = None if self.unit_of_row is None else self._rows_of_unit
        return Gradients(
            self._theta,
            columns,
            self._on_vector,
            self._terms_of_values,
            self._roots,
            self.n_rows,
            rows_of_unit,
            self._start,
            self.compile_kwargs,
        )

    @cached_property
    def coordinates(self) -> Coordinates:
        """What the likelihood sees of the parameters; see `pymc_dp.records.coordinates`."""
        return likelihood_coordinates(self._model, self)

    @cached_property
    def derivatives(self) -> RecordDerivatives:
        """Gradients and Hessians of each unit's log-likelihood in likelihood coordinates, in chunks."""
        rows_of_unit = None if self.unit_of_row is None else self._rows_of_unit
        seen = self.coordinates
        return RecordDerivatives(
            seen.vector, seen.terms, self._roots, self.n_rows, rows_of_unit, self.compile_kwargs
        )

    @cached_property
    def _rows_of_unit(self) -> tuple[np.ndarray, np.ndarray]:
        unit_of_row = np.asarray(self.unit_of_row)
        order = np.argsort(unit_of_row, kind="stable")
        return order, np.searchsorted(unit_of_row[order], np.arange(self.n + 1))

    def minibatch(self, theta: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Log-likelihoods of some privacy units, at a cost that does not depend on n.

        Parameters
        ----------
        theta : ndarray, shape (d,)
        units : ndarray of int, shape (b,)
            Positions in 0..n-1; repeats are allowed.

        Returns
        -------
        ndarray, shape (b,)

        Raises
        ------
        IndexError
            A position outside 0..n-1 (compiled code would not notice).
        """
        return self._on_units(lambda rows: self._batches(theta, rows), units)

    def ratios(self, theta: np.ndarray, new: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Log-likelihood ratios of some privacy units, at a cost that does not depend on n.

        Parameters
        ----------
        theta, new : ndarray, shape (d,)
        units : ndarray of int, shape (b,)
            Positions in 0..n-1; repeats are allowed.

        Returns
        -------
        ndarray, shape (b,)
            Log-likelihood at `new` minus that at `theta`; not clipped, may hold NaN and infinities.

        Raises
        ------
        IndexError
            A position outside 0..n-1.
        """
        return self._on_units(lambda rows: self._batches.ratios(theta, new, rows), units)

    def _on_units(self, of_rows: Callable[[np.ndarray], np.ndarray], units: np.ndarray) -> np.ndarray:
        """Sums over the rows of each unit."""
        units = np.asarray(units, dtype=np.int64)
        if units.size and (units.min() < 0 or units.max() >= self.n):
            raise IndexError(f"privacy units are 0..{self.n - 1}")
        if self.unit_of_row is None:
            return of_rows(units)
        order, first = self._rows_of_unit
        lengths = first[units + 1] - first[units]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
        rows = of_rows(order[np.repeat(first[units], lengths) + within])
        return np.add.reduceat(rows, starts[:-1]) if units.size else rows

    def log_prior(self, theta: np.ndarray) -> float:
        """Log-prior at `theta`, Jacobians included; reads no record."""
        return float(self._log_prior_function(theta))

    def log_prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        """Gradient of the log-prior, Jacobians included, shape (d,); reads no record."""
        return self._log_prior_gradient_function(theta)

    @cached_property
    def _log_prior_gradient_function(self) -> Callable[[np.ndarray], np.ndarray]:
        return pytensor.function(
            [self._theta],
            pytensor.grad(self._log_prior, self._theta, disconnected_inputs="ignore"),
            on_unused_input="ignore",
            trust_input=True,
            **self.compile_kwargs,
        )

    @cached_property
    def _log_prior_function(self) -> Callable[[np.ndarray], np.ndarray]:
        return pytensor.function(
            [self._theta], self._log_prior, on_unused_input="ignore", trust_input=True, **self.compile_kwargs
        )

    def _unit_rows(self, rows: Variable) -> Variable:
        if self.unit_of_row is None:
            return rows
        return pt.zeros(self.n)[self.unit_of_row].inc(rows)

    def _row_values(self, theta: np.ndarray) -> np.ndarray:
        """Log-likelihood of every row (not unit)."""
        if self.unit_of_row is None:
            return self.full_batch.rows(theta)
        return guarded(self._rows, theta)

    @cached_property
    def _rows(self) -> Callable[[np.ndarray], np.ndarray]:
        return pytensor.function(
            [self._theta], graph.rows(self._terms), mode=checks.CHECK_MODE, on_unused_input="ignore"
        )

    def _units_moved_by(self, name: str, entry: int) -> int:
        """Count the privacy units whose log-likelihood changes when one entry of a free variable does."""
        point = self.unravel(self._start + 0.1)
        before = self._row_values(self.ravel(point))
        point[name].reshape(-1)[entry] += 0.5
        moved = np.flatnonzero(checks.differ(before, self._row_values(self.ravel(point))))
        return moved.size if self.unit_of_row is None else np.unique(self.unit_of_row[moved]).size


def _log_terms(model: pm.Model, variables: Sequence[Variable], kind: str) -> list[Variable]:
    """Elementwise log-density terms of `variables`, Jacobians of free variables included."""
    try:
        return model.logp(vars=list(variables), sum=False, jacobian=True)
    except Exception as error:
        names = ", ".join(repr(v.name) for v in variables)
        raise ModelRefusedError(
            f"PyMC cannot derive the log-density of {kind} {names} ({type(error).__name__}).",
            "without it there is nothing to clip and to account for.",
            "use a distribution with a logp (pm.CustomDist(..., logp=...)), not a simulator.",
        ) from None
