"""Several tables of records in one model: an A/B test as two arrays, two groups of persons, two surveys.

Observed variables of one length are one table: a record is a row of all arrays of that length. Neighbouring
data differ in one record of one of the tables; the number of records of each table is public, as that of a
single table is under the same relation.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Any, Protocol, Unpack

import numpy as np
import pymc as pm
from pytensor.graph.basic import equal_computations

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import verification
from pymc_dp.records.coordinates import Coordinates, parameters
from pymc_dp.records.lengths import tables_of
from pymc_dp.records.model import RecordModel
from pymc_dp.records.outcomes import Randomness
from pymc_dp.records.reading import Reading, RecordSettings
from pymc_dp.records.threads import Each
from pymc_dp.records.twins import Chunk, Twins


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
        One for each table, over all parameters and with the same likelihood coordinates, so that sums over
        tables can be added.
    n : int
        Number of records of all tables together.
    d, reading, ravel, withheld_dims, neighboring_relation
        As of a `RecordModel`; the prior is the same in all tables. `reading` is the first table's. Variables
        that read the records of any table are not released.

    Raises
    ------
    ModelRefusedError
        A table cannot be read as records; a term of one reads an array of another, which couples their
        records; arrays of two tables share memory; there are ids; or the number of records is private.

    Notes
    -----
    **Privacy.** A record is in one table only, so that it moves a sum over tables by no more than a sum over
    its own. What belongs to which table is decided from lengths, which are taken as public: to cut one table
    in two by a private column (the censored and the others) makes them a function of the records.
    """

    unit_of_row = None

    def __init__(
        self,
        model: pm.Model,
        *,
        privacy_unit: object = None,
        verify: bool = True,
        **settings: Unpack[RecordSettings],
    ):
        groups = tables_of(model)
        check_tables(groups, privacy_unit, settings.get("neighboring_relation", "substitute"))
        # All are read before a value of one is looked at.
        self.tables = [
            RecordModel(model, observed=names, verify=False, **settings) for names in groups.values()
        ]
        for table in self.tables if verify else ():
            verification.separable(table)
        first = self.tables[0]
        self.n, self.d = sum(table.n for table in self.tables), first.d
        self.reading, self.neighboring_relation = first.reading, first.neighboring_relation
        self._model, self.ravel = model, first.ravel
        by_all = set.intersection(*(set(table.released_variables) for table in self.tables))
        self.released_variables = [name for name in first.released_variables if name in by_all]
        self.withheld_dims = sorted({dim for table in self.tables for dim in table.withheld_dims})
        if not _see_the_same(self.tables):
            for table in self.tables:
                table.coordinates = parameters(table)

    @property
    def lengths(self) -> set[int]:
        """Numbers of rows and units of each table and of all together: see `RecordModel.lengths`."""
        return {self.n}.union(*(table.lengths for table in self.tables))

    @cached_property
    def coordinates(self) -> Coordinates:
        """Likelihood coordinates, the same for all tables."""
        return self.tables[0].coordinates


class Records(Protocol):
    """Interface of records for a release: a `RecordModel`, `Tables`, or records elsewhere.

    Attributes
    ----------
    n : int
        Number of privacy units of all tables.
    neighboring_relation : str
    unit_of_row : ndarray or None
        None where each row is a privacy unit.
    reading : Reading
        Result of reading the model.
    released_variables : list of str
        Names that a release may contain.
    """

    _model: pm.Model
    n: Any
    neighboring_relation: str
    unit_of_row: Any
    reading: Reading
    released_variables: list[str]

    @property
    def tables(self) -> Sequence[RecordModel]:
        """Records of this process; for records elsewhere, those of the model that stands for theirs."""

    @property
    def lengths(self) -> set[int]:
        """Numbers of rows and of privacy units; no array of such a length is published."""

    @property
    def withheld_dims(self) -> Sequence[str]:
        """Dimensions of records."""

    @property
    def coordinates(self) -> Coordinates:
        """Likelihood coordinates."""

    def ravel(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """Convert a PyMC point to the flat unconstrained vector."""


def read_records(
    model: pm.Model,
    *,
    privacy_unit: object = None,
    verify: bool = True,
    integrate: bool = False,
    **settings: Unpack[RecordSettings],
) -> RecordModel | Tables:
    """Read a model: as one table of records where all observed variables have one length, else as several.

    Parameters
    ----------
    model : pymc.Model
    **settings
        As for `RecordModel`; effects are integrated where there is one table.

    Raises
    ------
    ModelRefusedError
        See `RecordModel` and `Tables`.
    """
    if len(tables_of(model)) == 1:
        return RecordModel(model, privacy_unit=privacy_unit, verify=verify, integrate=integrate, **settings)
    # With several tables, effects of persons are refused.
    return Tables(model, privacy_unit=privacy_unit, verify=verify, **settings)


class TablesTwins:
    """Scores of the records of all tables and of their twins, one table after the other.

    Parameters
    ----------
    records : RecordModel or Tables
    known : bool
        See `Twins`.

    Attributes
    ----------
    size, unlike
        As of `Twins`.
    doubtful : dict of str to bool
        Of all tables.
    touched, rank : int
        The largest of any table: a record is in one table.
    lookups : list of ndarray of int, shape (G, q)
        Coordinates of which a record touches those of one row at most, whichever table it is in. Besides
        look-ups these are coordinates that one table alone reads, a row for each table.
    sums : list of list of tuple
        Sums of all tables, as of `Twins`.

    Raises
    ------
    ModelRefusedError
        See `Twins`.

    Notes
    -----
    **Privacy.** As of `Twins`: a record's scores are a function of this record.
    """

    def __init__(self, records: RecordModel | Tables, known: bool = False):
        self._records = records
        self._twins = [table.twins.with_known_bounds if known else table.twins for table in records.tables]
        self.doubtful: Mapping[str, bool] = {
            name: fit for twins in self._twins for name, fit in twins.doubtful.items()
        }
        self.size: int = records.coordinates.size
        self.unlike = {name: why for twins in self._twins for name, why in twins.unlike.items()}
        self.rank = max(twins.rank for twins in self._twins)
        reads = [set(table.coordinates.read_by(table.coordinates.open_terms)) for table in records.tables]
        self.touched = max(
            min(twins.touched, len(read)) for twins, read in zip(self._twins, reads, strict=True)
        )
        self.sums = [one for twins in self._twins for one in twins.sums]
        self.lookups = _touched_once([twins.lookups for twins in self._twins], reads)

    def refuse_without_scores(self) -> None:
        """See `Twins.refuse_without_scores`."""
        for twins in self._twins:
            twins.refuse_without_scores()

    @property
    def with_known_bounds(self) -> "TablesTwins":
        """The same with known bounds, as of `Twins`."""
        return TablesTwins(self._records, known=True)

    def count_unknown_bounds(self) -> int:
        """Count the units with an unknown bound, as `Twins` does: a record is in one table."""
        return sum(twins.count_unknown_bounds() for twins in self._twins if twins.doubtful)

    @property
    def apart(self) -> Sequence["Twins | TablesTwins"]:
        """Twins without common coordinates, as of `Twins`; several tables are not taken apart."""
        return self._twins[0].apart if len(self._twins) == 1 else [self]

    def __call__(
        self, points: np.ndarray, twins: int, random: Randomness, each: Each = map
    ) -> Iterator[Callable[[], Chunk]]:
        """Iterate over all records in chunks: see `Twins`. Units are numbered within their table."""
        for table in self._twins:
            yield from table(points, twins, random, each)


def _touched_once(lookups: Sequence[Sequence[np.ndarray]], reads: Sequence[set[int]]) -> list[np.ndarray]:
    """Return arrays of coordinates of which no record touches those of two rows.

    These are look-ups of one table that the other tables have as well, or of which they read nothing; and
    arrays with one coordinate for each table, which no other table reads.
    """
    known = [
        {tuple(map(tuple, rows.tolist())): set(rows.ravel().tolist()) for rows in seen} for seen in lookups
    ]
    found = {
        rows: columns
        for table in known
        for rows, columns in table.items()
        if all(rows in other or columns.isdisjoint(read) for other, read in zip(known, reads, strict=True))
    }
    taken: set[int] = set().union(*(columns for table in known for columns in table.values()))
    own = [sorted(read - taken - set().union(*reads[:k], *reads[k + 1 :])) for k, read in enumerate(reads)]
    beside = ([one for one in of_all if one is not None] for of_all in zip_longest(*own))
    alone = [[[column] for column in sorted(place)] for place in beside if len(place) > 1]
    return [np.array(rows) for rows in [*found, *alone]]


def check_tables(
    groups: Mapping[int, list[str]], privacy_unit: object, neighboring_relation: str = "substitute"
) -> None:
    """Refuse several tables where there are ids of persons, or where numbers of records are private."""
    if len(groups) > 1 and neighboring_relation != "substitute":
        raise ModelRefusedError(
            f'neighboring_relation="{neighboring_relation}" was given, and observed variables have different '
            "lengths.",
            "which arrays are one table is decided from their lengths, and with one record more or less two "
            "tables would be read as one.",
            "use the long format, one table with a column that says which; or protect the replacement of a "
            'record, neighboring_relation="substitute", with the number of records of each table public.',
        )
    if privacy_unit is not None and len(groups) > 1:
        raise ModelRefusedError(
            f"privacy_unit= was given, and observed variables are of {len(groups)} tables, with "
            f"{', '.join(map(str, groups))} rows.",
            "which rows of one table and of another are the same person's is not known.",
            "use the long format, one table with a column that says which; or leave privacy_unit= out.",
        )


def _see_the_same(tables: list[RecordModel]) -> bool:
    """Return whether the likelihood coordinates that were found for each table are the same function."""
    first = tables[0]
    return all(
        equal_computations(
            [first.coordinates.of_theta], [table.coordinates.of_theta], [first._theta], [table._theta]
        )
        for table in tables[1:]
    )
