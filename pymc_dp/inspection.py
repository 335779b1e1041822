"""inspect(): show how a model is read, before anything is sampled or paid."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pymc as pm

from pymc_dp.bounds import model_of
from pymc_dp.errors import ModelRefusedError, PrivacyError
from pymc_dp.likelihood.efficiency import expected_width
from pymc_dp.likelihood.public_model import read_public
from pymc_dp.printing import text_table
from pymc_dp.records import reader
from pymc_dp.records.arrays import Array
from pymc_dp.records.complete_model import Complete, complete
from pymc_dp.records.lengths import tables_of
from pymc_dp.records.model import RecordModel
from pymc_dp.records.reading import ReadingSettings, VariableReading
from pymc_dp.records.several_tables import Tables, TablesTwins, check_tables, read_records
from pymc_dp.records.units import ids_in, units


@dataclass(frozen=True)
class Inspection:
    """How a model is read; to be printed.

    Attributes
    ----------
    n : int or None
        Number of privacy units; None if it could not be read.
    arrays : list of Array
        Label, shape, type and kind of every array: private rows, or public.
    variables : list of VariableReading
        Name and role of every variable, with the reason.
    withheld_dims : list of str
        Dimensions whose coordinates are not released.
    refusals : list of ModelRefusedError
        Reasons for which the model would be refused; empty if it would be accepted.
    no_release : PrivacyError or None
        The reason for which `dp.sample` without a step, and `dp.release_likelihood`, would refuse a model
        that steps take.
    tables : list of int
        Number of rows of each table; observed variables of the same length are one table.
    widths : dict of float to float
        By epsilon: expected width of intervals of a released likelihood over the width without privacy, for
        parameters about which all records have information (`expected_width`); empty if it is not known.
    """

    n: int | None
    arrays: list[Array]
    variables: list[VariableReading]
    withheld_dims: list[str]
    refusals: list[ModelRefusedError]
    tables: list[int]
    widths: Mapping[float, float] = field(default_factory=dict)
    no_release: PrivacyError | None = None

    @property
    def accepted(self) -> bool:
        """Whether a step takes the model or, if it has effects of persons, a release does."""
        return not self.refusals

    def __str__(self) -> str:
        lines = [f"{'accepted' if self.accepted else 'REFUSED'}; {self.n} records"]
        if len(self.tables) > 1:
            lines.append(
                f"{len(self.tables)} tables ({', '.join(map(str, self.tables))} rows, each number taken as "
                "public): a record is a row of one of them; steps on the exact likelihood take one table"
            )
        lines += _table("Arrays", list(map(_row, self.arrays)))
        lines += _table("Variables", [(v.name, v.role, v.why) for v in self.variables])
        if self.withheld_dims:
            lines.append(f"Coordinates that are not released: {', '.join(self.withheld_dims)}")
        if self.widths:
            said = ", ".join(
                f"{wider:.1f}{' or more' if wider > 1.4 else ''} with epsilon = {one:g}"
                for one, wider in self.widths.items()
            )
            lines.append(f"Intervals, over those without privacy, about: {said}")
        lines += [f"\nRefused: {refusal}" for refusal in self.refusals]
        if self.no_release is not None:
            lines.append(f"\nRefused where a likelihood is released, taken by steps: {self.no_release}")
        return "\n".join(lines)

    __repr__ = __str__


def _row(array: Array) -> tuple[str, ...]:
    kind = array.kind if array.axis is None else f"{array.kind}, axis {array.axis}"
    return array.label, f"({', '.join(map(str, array.shape))})", array.dtype, kind


def _table(title: str, rows: list[tuple[str, ...]]) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in text_table(rows).splitlines())]


def inspect(
    model: pm.Model | None = None,
    *,
    privacy_unit: object = None,
    exclude_deterministics: Collection[str] = (),
    public: Collection[object] = (),
    trusted_ops: Collection[object] = (),
    neighboring_relation: str = "substitute",
) -> Inspection:
    """Show how a model is read: what is private, what is taken as public, what is released or refused.

    Parameters
    ----------
    model : pymc.Model, optional
        Default: the one of the context.
    privacy_unit, exclude_deterministics, public, trusted_ops, neighboring_relation
        As for a step.

    Returns
    -------
    Inspection

    Notes
    -----
    **Privacy.** Reads names, shapes and types, and no value of a record except the ids in `privacy_unit`,
    from which it takes the number of units.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dp as dp
    >>> with pm.Model() as model:
    ...     m = pm.Normal("m")
    ...     _ = pm.Normal("y", m, 1, observed=np.zeros(1000))
    >>> print(dp.inspect(model))
    accepted; 1000 records
    Arrays:
      y  (1000)  float64  private rows, axis 0
    Variables:
      m  sampled     reads no record
      y  likelihood  one term a record, clipped
    Intervals, over those without privacy, about: 1.2 with epsilon = 1, 1.0 with epsilon = 4
    """
    model = model_of(model)
    settings: ReadingSettings = {
        "exclude_deterministics": exclude_deterministics,
        "public": public,
        "trusted_ops": trusted_ops,
        "neighboring_relation": neighboring_relation,
    }
    refusals: list[ModelRefusedError] = []
    tables: dict[int, list[str]] = {}
    n: int | None = None
    found = []
    try:
        tables = tables_of(model)
        check_tables(tables, privacy_unit, neighboring_relation)
        _, ids = ids_in(model, privacy_unit)
        n = sum(tables) if len(tables) > 1 else units(ids, next(iter(tables)))[1]
        read, effects, _ = Complete(model, [], set())
        if len(tables) == 1:
            read, effects, _ = complete(model, privacy_unit, public, neighboring_relation)
            tables = {rows: [*effects, *names] for rows, names in tables.items()}
        for names in tables.values():
            persons = None if ids is None else n
            found.append(reader.read(read, persons, names, refusals.append, effects, **settings))
    except ModelRefusedError as error:
        return Inspection(n, [], [], [], [*refusals, error], list(tables))
    refusals = list({str(error): error for error in refusals}.values())  # each once for all tables
    read_as = {v.name: v for one in found for v in one.variables}
    variables = [read_as[name] for name in model.named_vars if name in read_as]
    # The axis of an array's records is known only in the table that reads them there.
    arrays = {a.label: a for one in found for a in one.arrays}
    arrays |= {a.label: a for one in found for a in one.arrays if a.axis is not None}
    withheld = sorted({dim for one in found for dim in one.withheld_dims})
    widths: dict[float, float] = {}
    no_release = None
    if not refusals:
        records = read_records(model, privacy_unit=privacy_unit, integrate=True, **settings, verify=False)
        try:
            widths = _widths(records)
        except PrivacyError as error:
            no_release = error
    if isinstance(no_release, ModelRefusedError) and effects:  # no step takes those
        refusals, no_release = [no_release], None
    listed = list(arrays.values())
    return Inspection(n, listed, variables, withheld, refusals, list(tables), widths, no_release)


def _widths(records: RecordModel | Tables) -> dict[float, float]:
    """Compute the expected widths of a released likelihood, by epsilon.

    Raises
    ------
    PrivacyError
        No likelihood can be released.
    """
    twins = TablesTwins(records)
    twins.refuse_without_scores()
    read_public(records, twins)
    relation = records.neighboring_relation
    return {
        epsilon: expected_width(
            records.n, twins.touched, epsilon, predictors=twins.rank, neighboring_relation=relation
        )
        for epsilon in (1.0, 4.0)
    }
