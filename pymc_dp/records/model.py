"""Reads a PyMC model as records: log-likelihood rows, log-prior, a flat vector of parameters."""

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Unpack

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph import Variable

from pymc_dp.errors import PrivacyError
from pymc_dp.records import gate, graph, verification
from pymc_dp.records.complete_model import Complete, complete
from pymc_dp.records.gradients import Gradients
from pymc_dp.records.lengths import number_of_rows
from pymc_dp.records.outcome_scores import Scored
from pymc_dp.records.reader import read
from pymc_dp.records.reading import ReadingSettings
from pymc_dp.records.sums import FullBatch
from pymc_dp.records.twins import Twins
from pymc_dp.records.units import ids_in
from pymc_dp.records.units import units as numbered


class RecordModel(Scored):
    """A PyMC model seen as n records and d parameters.

    Parameters
    ----------
    model : pymc.Model
        Any model whose likelihood is a product over records, records on the first axis of every observed
        variable.
    privacy_unit : array_like, shape (n_rows,), str or mapping, optional
        Identifier of the person (or other unit) that each row belongs to, or the name of the
        `pymc.Data` with these. The log-likelihoods of a
        unit's rows are added before they are clipped. Default: each row is a unit.
    observed : collection of str, optional
        See `pymc_dp.records.reader.read`.
    compile_kwargs : dict, optional
        ``{"mode": ...}``, as in `pm.sample`: a plain mode, see `pymc_dp.records.gate`.
    verify : bool
        Whether the result of typing is checked numerically, on made-up records (`records.verification`): no
        value of a record is read for it.

    integrate : bool
        Whether effects with an entry for each person are integrated within that person's likelihood: see
        `records.effects`. Rows are then given the effect, and only `twins` computes integrated likelihoods.
    **settings
        `exclude_deterministics`, `public`, `trusted_ops`, `neighboring_relation`: see
        `pymc_dp.records.reader.read`.

    Attributes
    ----------
    n : int
        Number of privacy units.
    effects : list of str
        Names of the effects that are integrated.
    n_rows : int
        Number of rows.
    d : int
        Number of unconstrained parameters.
    value_vars : list of Variable
        PyMC's value variables, in the order of the flat vector.
    reading : Reading
        What was decided from the graph.
    tables : list of RecordModel
        This one alone: see `records.several_tables`.
    withheld_dims : list of str
        Dimensions of records or units: their coordinates may identify persons.
    released_variables : list of str
        Names that a release may contain: free variables and Deterministics that read no record.

    Raises
    ------
    ModelRefusedError
        The model would leak or cannot be read as records; see `pymc_dp.records.reader`.

    Notes
    -----
    Data are not copied. `check_data` detects `pm.set_data` after construction.
    """

    # Whether chains must run in this process.
    one_process = False

    def __init__(
        self,
        model: pm.Model,
        *,
        privacy_unit: object = None,
        observed: Collection[str] | None = None,
        compile_kwargs: Mapping[str, object] | None = None,
        verify: bool = True,
        integrate: bool = False,
        **settings: Unpack[ReadingSettings],
    ):
        self.neighboring_relation = settings.get("neighboring_relation", "substitute")
        self.compile_kwargs = gate.settings(compile_kwargs)
        self._model, self.effects, of_persons = Complete(model, [], set())
        if integrate:
            self._model, self.effects, of_persons = complete(
                model, privacy_unit, settings.get("public", ()), self.neighboring_relation
            )
        _, ids = ids_in(model, privacy_unit)
        self.unit_of_row, self.n = numbered(ids, number_of_rows(model, observed))
        units = None if ids is None else self.n
        reading = read(self._model, units=units, effects=self.effects, observed=observed, **settings)
        self.reading = reading
        self.n_rows = reading.n_rows
        if reading.trusted:
            self.compile_kwargs["trusted"] = reading.trusted
        self.value_vars = list(self._model.value_vars)
        self.shapes = {name: np.shape(value) for name, value in reading.start.items()}
        self._start = self.ravel(reading.start)
        self.d = self._start.size
        self._theta = pt.vector("theta", shape=(self.d,), dtype="float64")
        self._terms_of_values, self._roots = reading.terms, reading.roots
        self._terms: list[Variable] = self._on_vector(reading.terms)
        # Where a check about the parameters fails, the density is zero.
        conditions = self._on_vector(reading.conditions)
        (log_prior,) = self._on_vector([pt.add(*[t.sum() for t in reading.log_priors], 0.0)])
        self._log_prior = pt.switch(pt.all([pt.all(c) for c in conditions]), log_prior, -np.inf)
        self._snapshot = [(v, graph.leaf_value(v)) for v in reading.watched]
        self.released_variables = reading.released
        self.withheld_dims = sorted(of_persons.union(reading.withheld_dims))
        if verify:
            verification.separable(self)

    @property
    def tables(self) -> list["RecordModel"]:
        """Tables of records: this one."""
        return [self]

    @property
    def lengths(self) -> set[int]:
        """Numbers of rows and of privacy units; no array of such a length is published."""
        return {self.n_rows, self.n}

    # the data

    def check_data(self) -> None:
        """Refuse to go on when `pm.set_data` changed the data after the functions were compiled."""
        if any(shared.get_value(borrow=True) is not seen for shared, seen in self._snapshot):
            raise PrivacyError(
                "The model's data were changed (pm.set_data) after the step was made: it was checked, and "
                "its budget planned, for other records. Make a new step."
            )

    # compiled functions

    @cached_property
    def full_batch(self) -> FullBatch:
        """Exact sums over all units."""
        return FullBatch(self)

    @cached_property
    def gradients(self) -> Gradients:
        """Clipped sums of the units' gradients: ``gradients(theta, clip_bound)``, and ``gradients.batch``."""
        return Gradients(self)

    @cached_property
    def twins(self) -> Twins:
        """Scores of records and of outcomes that the model draws for them; see `pymc_dp.records.twins`."""
        return Twins(self)
