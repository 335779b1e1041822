"""A model's likelihood as an exponential family, checked against the model."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import exponential_family, gate, graph
from pymc_dp.records.model import RecordModel
from pymc_dp.records.statistics import StatisticBound, Statistics, StatisticSum, exact_sum
from pymc_dp.records.sums import compiled, compiled_rows

# Records and points at which the statistics are compared with the model.
_RECORDS, _POINTS = 64, 4
# Made-up records: shares, truth values, positive numbers, counts. A family has a density at some of them.
_MADE_UP: tuple[Callable[[np.random.Generator], np.ndarray], ...] = (
    lambda rng: rng.uniform(0.2, 0.8, 997),
    lambda rng: rng.integers(0, 2, 997).astype(float),
    lambda rng: rng.uniform(1.5, 6.0, 997),
    lambda rng: rng.integers(2, 7, 997).astype(float),
)


class Natural(NamedTuple):
    """What the parameters give; reads no record.

    Attributes
    ----------
    phi : ndarray, shape (k,)
    log_g : float
    log_prior : float
        With Jacobians.
    """

    phi: np.ndarray
    log_g: float
    log_prior: float


class SufficientStatistics:
    """Sufficient statistics of a model.

    Parameters
    ----------
    model : pymc.Model
    records : RecordModel
        Of this model, each row a unit.
    statistics : "auto" or Statistics
        "auto" for the families of `pymc_dp.records.exponential_family`.
    bound : StatisticBound

    Attributes
    ----------
    names : list of str
        Of the statistic's entries.

    Raises
    ------
    ModelRefusedError
        The model is not recognised, or its log-likelihood is not the one that the statistics give.
    ValueError
        `statistics` is something else, or there are bounds for another number of entries.
    """

    def __init__(
        self, model: pm.Model, records: RecordModel, statistics: "str | Statistics", bound: StatisticBound
    ):
        self._model, self._records, self.bound = model, records, bound
        self._of_rows: Callable[[Mapping[str, np.ndarray]], np.ndarray]
        self.natural: Callable[[np.ndarray], Natural]
        if isinstance(statistics, str):
            if statistics != "auto":
                raise ValueError(f"sufficient_statistics is 'auto' or an object, got {statistics!r}.")
            shapes = {name: np.shape(column) for name, column in self._columns().items()}
            family = exponential_family.recognise(model, records.reading, shapes)
            self.names, self._of_rows = family.names, family.statistic
            self.natural = self._compiled(*records._on_vector([family.natural, family.log_g]))
        else:
            for method in ("statistic", "natural_parameter", "log_g"):
                if not callable(getattr(statistics, method, None)):
                    raise ValueError(f"sufficient_statistics= is 'auto' or an object with {method}(...).")
            self._of_rows, self.natural = _checked(statistics.statistic), self._of_object(statistics)
            self.names = [f"S[{k}]" for k in range(self.natural(records._start).phi.size)]
        bound.check(len(self.names), ", ".join(self.names))
        self._verify()

    def total(self) -> StatisticSum:
        """Exact sum of the clipped statistics: one pass over the data."""
        return exact_sum(self._of_rows, self._columns(), self.bound)

    # where S, phi and ln g come from

    def _columns(self) -> dict[str, np.ndarray]:
        """Observed values, and data with one entry a record, by name."""
        model = self._model
        roots = {v: axis for v, axis in self._records._roots.items() if axis == 0}
        data = {v.name: v for v in model.data_vars if v in roots}
        data |= {rv.name: model.rvs_to_values[rv] for rv in model.observed_RVs}
        return {name: _value(variable) for name, variable in data.items()}

    def _columns_of(self, made: Mapping[Variable, np.ndarray]) -> dict[str, np.ndarray]:
        """What `_columns` would be with other records."""
        records, opaque = self._records, self._records.reading.opaque
        stand_ins, _ = graph.symbolic_rows(records._terms, records._roots, records.n_rows)
        first, axis = next((stand_ins[root], axis) for root, axis in records._roots.items())
        observed = {name: opaque.values[rv] for name, rv in opaque.observed.items()}
        values = graph.replace_records(list(observed.values()), stand_ins, records.n_rows, first.shape[axis])
        given = list(stand_ins.values())
        function = gate.compile_graph(given, values, private=given, mode=gate.CHECK_MODE)
        data = {v.name: made[v] for v in self._model.data_vars if records._roots.get(v) == 0}
        return data | dict(zip(observed, function(*made.values()), strict=True))

    def _compiled(self, phi: Variable, log_g: Variable) -> Callable[[np.ndarray], Natural]:
        records = self._records
        outputs = [phi, log_g, records._log_prior]
        function = compiled([records._theta], outputs, records.compile_kwargs, private=())

        def natural(theta: np.ndarray) -> Natural:
            with np.errstate(all="ignore"):
                phi, log_g, log_prior = function(theta)
            return Natural(phi, float(log_g), float(log_prior))

        return natural

    def _of_object(self, statistics: Statistics) -> Callable[[np.ndarray], Natural]:
        names, records = [rv.name for rv in self._model.free_RVs], self._records
        values = records._on_vector(self._model.replace_rvs_by_values(self._model.free_RVs))
        point_of = compiled([records._theta], values, records.compile_kwargs, private=())

        def natural(theta: np.ndarray) -> Natural:
            point = dict(zip(names, point_of(theta), strict=True))
            with np.errstate(all="ignore"):
                phi = np.asarray(statistics.natural_parameter(point), dtype=float)
                log_g = float(statistics.log_g(point))
            if phi.ndim != 1:
                raise ValueError(f"natural_parameter must return a vector, got shape {phi.shape}.")
            return Natural(phi, log_g, self._records.log_prior(theta))

        return natural

    # that they are this model's

    def _verify(self) -> None:
        """Compare with the model's own log-likelihood ratios, on made-up records of several kinds."""
        records = self._records
        rng = np.random.default_rng(0)
        function = compiled_rows(records, mode=gate.CHECK_MODE)
        points = records._start + rng.normal(scale=0.5, size=(_POINTS, records.d))
        naturals = [self.natural(point) for point in points]
        compared = False
        for make in _MADE_UP:
            made = {root: _like(root, axis, make(rng)) for root, axis in records._roots.items()}
            rows = self._columns_of(made)
            with np.errstate(all="ignore"):
                statistics = self._of_rows(rows)
                if statistics.shape != (_RECORDS, len(self.names)):
                    raise _wrong(
                        f"S has shape {statistics.shape} for {_RECORDS} records and {len(self.names)} "
                        "natural parameters"
                    )
                self._verify_rows(rows, statistics)
                try:
                    likelihoods = np.array([function(point, *made.values()) for point in points])
                except Exception:  # no such records: an index out of range
                    continue
                terms = np.array([statistics @ one.phi + one.log_g for one in naturals])
                sizes = np.array([np.abs(statistics) @ np.abs(one.phi) + abs(one.log_g) for one in naturals])
                model, own = likelihoods - likelihoods[0], terms - terms[0]
                close = np.abs(model - own) <= 1e-6 * np.abs(model) + 1e-10 * (1 + sizes + sizes[0])
            if not np.all(close | ~np.isfinite(model)):
                raise _wrong(
                    "phi(theta)' S(y) + ln g(theta) changes by another amount than the log-likelihood"
                )
            compared |= bool(np.any(np.isfinite(model[1:])))
        if not compared:
            raise _wrong("no made-up record has a finite log-likelihood, so that they cannot be compared")

    def _verify_rows(self, rows: Mapping[str, np.ndarray], statistics: np.ndarray) -> None:
        """Check that a row of S depends on that row of the data alone."""
        half = len(statistics) // 2
        part = self._of_rows({name: column[:half] for name, column in rows.items()})
        turned = self._of_rows({name: column[::-1] for name, column in rows.items()})
        for found, expected in ((part, statistics[:half]), (turned, statistics[::-1])):
            if found.shape != expected.shape or not np.allclose(found, expected, rtol=1e-9, equal_nan=True):
                raise _wrong("S of a record depends on which other records are there")


def _like(root: Variable, axis: int, numbers: np.ndarray) -> np.ndarray:
    """Made-up records in the shape and type of an array."""
    shape = list(np.shape(graph.leaf_value(root)))
    shape[axis] = _RECORDS
    return np.resize(numbers, shape).astype(graph.leaf_value(root).dtype)


def _checked(statistic: Callable[[Mapping[str, np.ndarray]], Any]) -> Any:
    def checked(rows: Mapping[str, np.ndarray]) -> np.ndarray:
        found = np.asarray(statistic(rows), dtype=float)
        b = len(next(iter(rows.values())))
        if found.ndim != 2 or found.shape[0] != b:
            raise ValueError(f"statistic must return shape (b, k) for b = {b} records, got {found.shape}.")
        return found

    return checked


def _value(variable: Variable) -> np.ndarray:
    if variable.owner is None:
        return np.asarray(graph.leaf_value(variable))
    return gate.evaluate(variable)


def _wrong(what: str) -> ModelRefusedError:
    return ModelRefusedError(
        f"The sufficient statistics do not give the model's log-likelihood: {what}.",
        "the chain would sample another posterior, and its report would say otherwise.",
        "S, phi and ln g must satisfy ln p(y | theta) = phi(theta)' S(y) + ln g(theta) + a term without "
        "theta, for every record (docs/exponential_families).",
    )
