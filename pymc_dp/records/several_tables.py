"""Several sets of records in one model: an A/B test as two arrays, two groups of persons, two surveys.

Observed variables of one length are one table: a record is a row of all arrays of that length. Neighbouring
data differ in one record of one of the tables; how many records each has is public where that is so of one.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable, equal_computations

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import verification
from pymc_dp.records.coordinates import Coordinates, parameters
from pymc_dp.records.lengths import tables_of
from pymc_dp.records.model import RecordModel


class Tables:
    """Several tables of records that share their parameters.

    Parameters
    ----------
    model : pymc.Model
    **settings
        As for `RecordModel`; ids of privacy units go with one table only.

    Attributes
    ----------
    tables : list of RecordModel
        One a table, each over all parameters, all with the same likelihood coordinates: sums over tables add.
    n : int
        Number of records of all tables together.
    d, value_vars, shapes, reading, withheld_dims, neighboring_relation, compile_kwargs
        As of a `RecordModel`; the prior and what is released are the same in all tables. `reading` is the
        first table's.

    Raises
    ------
    ModelRefusedError
        A table cannot be read as records; a term of one reads an array of another, which couples their
        records; arrays of two tables share memory; or there are ids.

    Notes
    -----
    **Privacy.** A record is in one table only, so that it moves a sum over tables by no more than a sum over
    its own. What belongs to which table is decided from lengths: to cut one table in two by a private column
    (the censored and the others) makes these lengths, which are not protected, a function of the records.
    """

    unit_of_row = None

    def __init__(self, model: pm.Model, *, privacy_unit: Any = None, **settings: Any):
        groups = tables_of(model)
        check_units(privacy_unit, groups)
        verify = settings.pop("verify", True)
        # All are read before a value of one is looked at.
        self.tables = [
            RecordModel(model, observed=names, verify=False, **settings) for names in groups.values()
        ]
        for table in self.tables if verify else ():
            verification.separable(table._terms, table._theta, table._start, table.n_rows, table._roots)
        first = self.tables[0]
        self.n, self.d = sum(table.n for table in self.tables), first.d
        self.value_vars, self.shapes, self.reading = first.value_vars, first.shapes, first.reading
        self.neighboring_relation, self.compile_kwargs = first.neighboring_relation, first.compile_kwargs
        self.released_variables = first.released_variables
        self.withheld_dims = sorted({dim for table in self.tables for dim in table.withheld_dims})
        if not _see_the_same(self.tables):
            for table in self.tables:
                table.coordinates = parameters(table)

    @property
    def theta(self) -> Variable:
        """The parameters as one flat vector, in graphs of the first table, `log_prior` and `coordinates`."""
        return self.tables[0]._theta

    @property
    def log_prior(self) -> Variable:
        """Log-density of the prior as a graph of `theta`; it is the model's, and counts once."""
        return self.tables[0]._log_prior

    @cached_property
    def coordinates(self) -> Coordinates:
        """What the likelihood sees of the parameters, the same for all tables."""
        return self.tables[0].coordinates

    @property
    def form(self) -> str:
        """In words: what gradients and Hessians of records are made of."""
        return "; ".join(dict.fromkeys(table.form for table in self.tables))

    def ravel(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """Flat unconstrained vector, shape (d,), of a PyMC point."""
        return self.tables[0].ravel(point)

    def unravel(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """PyMC point (dict of arrays in value space) of a flat vector; a copy."""
        return self.tables[0].unravel(theta)

    def check_data(self) -> None:
        """Refuse to go on when `pm.set_data` changed the data after the functions were compiled."""
        for table in self.tables:
            table.check_data()


def read_records(model: pm.Model, **settings: Any) -> RecordModel | Tables:
    """Read a model: as one table of records where all observed variables have one length, else as several.

    Parameters
    ----------
    model : pymc.Model
    **settings
        As for `RecordModel`.

    Raises
    ------
    ModelRefusedError
        See `RecordModel` and `Tables`.
    """
    return RecordModel(model, **settings) if len(tables_of(model)) == 1 else Tables(model, **settings)


def check_units(privacy_unit: Any, groups: Mapping[int, list[str]]) -> None:
    """Refuse ids of persons where there are several tables."""
    if privacy_unit is not None and len(groups) > 1:
        raise ModelRefusedError(
            f"privacy_unit= was given, and observed variables are of {len(groups)} tables, with "
            f"{', '.join(map(str, groups))} rows.",
            "which rows of one table and of another are the same person's is not known.",
            "use the long format, one table with a column that says which; or leave privacy_unit= out.",
        )


def _see_the_same(tables: list[RecordModel]) -> bool:
    """Whether the likelihood coordinates that tables have of their own are the same function."""
    first = tables[0]
    return all(
        equal_computations(
            [first.coordinates.of_theta], [table.coordinates.of_theta], [first._theta], [table._theta]
        )
        for table in tables[1:]
    )
