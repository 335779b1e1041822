"""Effects of persons: free variables with an entry for each person, which only that person's rows read."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import pymc as pm
from pymc.distributions import SymbolicRandomVariable
from pytensor.graph import Apply, Variable, ancestors
from pytensor.graph.traversal import toposort
from pytensor.scalar import Cast, Identity
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, indices_from_subtensor

from pymc_dp.records import checks, graph, refusals
from pymc_dp.records.arrays import FEW
from pymc_dp.records.harmless import IMPROPER
from pymc_dp.records.lengths import number_of_rows
from pymc_dp.records.row_types import PUBLIC, Rows, RowType, Typing
from pymc_dp.records.row_types.ops import length_along, public_number
from pymc_dp.records.units import ids_in

#: Most numbers of a person's effects: the number of nodes of the integral grows exponentially with it.
MOST_NUMBERS = 3


class Table(NamedTuple):
    """An array that the ids of persons look up.

    Attributes
    ----------
    axis : int
        Axis of the persons.
    size : int
        Its length.
    """

    axis: int
    size: int


class Effects(NamedTuple):
    """Effects of persons.

    Attributes
    ----------
    axes : dict of Variable to int
        The free variables that are effects, and their axis of persons.
    ids : Variable or None
        The person that each row belongs to; None where each row is a person.
    tables : dict of Apply to Table
        The nodes at which ids look something up.
    """

    axes: dict[Variable, int]
    ids: Variable | None
    tables: dict[Apply, Table]


def find_effects(
    model: pm.Model,
    privacy_unit: object,
    public: Collection[object] = (),
    neighboring_relation: str = "substitute",
) -> Effects:
    """Find effects of persons: where each row is a person, or `privacy_unit` is the name of a `pymc.Data`.

    Parameters
    ----------
    model : pymc.Model
        A model with one table of records.
    privacy_unit
        See `RecordModel`.
    public : collection
        As for `reader.read`: free variables that it names are no effects, though they have as many entries as
        there are persons.
    neighboring_relation : {"substitute", "add_remove"}

    Returns
    -------
    Effects

    Raises
    ------
    ModelRefusedError
        An effect couples persons, has a prior that is not the same for all, or has too many numbers; or the
        number of persons is private.

    Notes
    -----
    **Privacy.** Decided from the graph, from names and shapes.
    """
    checks.supported(model)
    unit, ids = ids_in(model, privacy_unit)
    if checks.OBSERVATIONS in model.coords or not (ids is None or unit):
        return Effects({}, None, {})
    named = {one for one in public if isinstance(one, str)}
    free = [rv for rv in model.free_RVs if rv.name not in named]
    graphs = [*model.basic_RVs, *model.deterministics, *model.potentials]
    if unit is None:
        found = _beside_their_own(free, graphs, number_of_rows(model))
    else:
        found = _looked_up(free, graphs, model[unit])
    if found.axes and neighboring_relation != "substitute":
        name = next(iter(found.axes)).name
        raise refusals.refuse_effect(name, "has as many entries as there are persons, which is private")
    numbers = 0
    for rv, axis in found.axes.items():
        _check_prior(rv, axis, set(found.axes))
        sizes = [size for k, size in enumerate(shape_of(rv)) if k != axis]
        numbers += MOST_NUMBERS + 1 if None in sizes else math.prod(cast(list[int], sizes))
    if numbers > MOST_NUMBERS:
        raise refusals.refuse_many_effects(next(iter(found.axes)).name, MOST_NUMBERS)
    return found


def _beside_their_own(free: Sequence[Variable], graphs: Sequence[Variable], n_rows: int) -> Effects:
    """Find effects where each row is a person: variables as long as the rows, which are never looked up."""
    axes, everything = {}, set(ancestors(list(graphs)))
    for rv in free:
        own = [axis for axis, size in enumerate(shape_of(rv)) if size == n_rows]
        if n_rows > FEW and len(own) == 1 and not graph.looked_up(rv, graphs, everything):
            axes[rv] = own[0]
    return Effects(axes, None, {})


def _looked_up(free: Sequence[Variable], graphs: Sequence[Variable], ids: Variable) -> Effects:
    """Find effects that are looked up by the ids of persons."""
    axes: dict[Variable, int] = {}
    tables: dict[Apply, Table] = {}
    read: dict[Apply, list[Variable]] = {}
    for node in toposort(list(graphs)):
        if not isinstance(node.op, AdvancedSubtensor) or not any(_is(v, ids) for v in node.inputs[1:]):
            continue
        looked_up = node.inputs[0]
        above = set(ancestors([looked_up]))
        parameters = [rv for rv in free if rv in above]
        if not parameters:
            continue
        axis = _axis_of(node, ids)
        size = None if axis is None else shape_of(looked_up)[axis]
        if axis is None or size is None:
            # The table also depends on parameters of the effect's prior: mostly scalars, unlike the effect.
            name = max(parameters, key=lambda rv: rv.type.ndim).name
            raise refusals.refuse_effect(name, "is looked up in a way that is not followed")
        tables[node] = Table(axis, size)
        read[node] = parameters
        every = {rv: [k for k, n in enumerate(shape_of(rv)) if n == size and size > 1] for rv in parameters}
        single = {rv: sides[0] for rv, sides in every.items() if len(sides) == 1}
        for rv, sides in every.items():
            types = {k: _types(looked_up, free, single | {rv: k}, size) for k in sides}
            own = [k for k in sides if types[k].get(looked_up) == Rows(axis)]
            if sides and (len(own) != 1 or axes.setdefault(rv, own[0]) != own[0]):
                raise refusals.refuse_effect(rv.name, "couples persons")
    for node, parameters in read.items():
        found = {rv: axes[rv] for rv in parameters if rv in axes}
        for rv in found:
            if tables[node].size not in shape_of(rv):
                raise refusals.refuse_effect(rv.name, "is looked up in a way that is not followed")
            if _beside(node.inputs[0], free, found, tables[node].size):
                raise refusals.refuse_effect(
                    rv.name, "is looked up together with an array that has an entry for each person"
                )
    return Effects({rv: axes[rv] for rv in free if rv in axes}, ids, tables)


def _types(
    table: Variable, free: Sequence[Variable], axes: Mapping[Variable, int], size: int
) -> dict[Variable, RowType]:
    """Return the row types in a table's graph, given the axes along which variables have persons."""
    sources: dict[Variable, RowType] = dict.fromkeys(free, PUBLIC)
    return Typing(size)([table], {**sources, **{rv: Rows(axis) for rv, axis in axes.items()}})


def _beside(table: Variable, free: Sequence[Variable], axes: Mapping[Variable, int], size: int) -> bool:
    """Return whether a table combines effects with anything else that is, or may be, as long as the table.

    In the integrand the table is replaced by each row's own effects. An array with an entry for each person
    would not be replaced, and row i would read the entry of person i instead of its own person's.
    """
    types = _types(table, free, axes, size)
    rows = {v for v, t in types.items() if isinstance(t, Rows)}
    return any(
        not {size, None}.isdisjoint(shape_of(v))
        for node in toposort([table], blockers=free)
        if not rows.isdisjoint([*node.inputs, *node.outputs])
        for v in node.inputs
        if v not in rows
    )


def _check_prior(rv: Variable, axis: int, effects: set[Variable]) -> None:
    """Refuse a prior in which persons are not independent and identically distributed."""
    op, node = rv.owner.op, rv.owner
    if not isinstance(op, RandomVariable | SymbolicRandomVariable) or rv.type.dtype != "float64":
        raise refusals.refuse_effect(rv.name, "has a prior that is not followed")
    if isinstance(op, IMPROPER):
        raise refusals.refuse_effect(rv.name, "has a prior that is no distribution")
    batch = op.batch_ndim(node)
    if axis >= batch:
        raise refusals.refuse_effect(rv.name, "couples persons")
    # Without its core axes, a parameter is broadcast against the draws' batch axes from the right.
    given = list(zip(op.dist_params(node), op.ndims_params, strict=True))
    places = [(p, p.type.ndim - core - (batch - axis)) for p, core in given]
    if any(place >= 0 and not p.type.broadcastable[place] for p, place in places):
        raise refusals.refuse_effect(rv.name, "has a prior with other parameters for each person")
    if axis and not all(all(p.type.broadcastable[: p.type.ndim - core]) for p, core in given):
        raise refusals.refuse_effect(rv.name, "has persons on another axis than the first")
    if not effects.isdisjoint(ancestors(node.inputs)):
        raise refusals.refuse_effect(rv.name, "has a prior that reads another effect")


def shape_of(variable: Variable) -> list[int | None]:
    """Return the lengths of a variable's axes that are public numbers of the model; None for others."""
    found: list[int | None] = []
    for axis, size in enumerate(variable.type.shape):
        if size is None:
            size = public_number(length_along(variable, axis))
        found.append(size)
    return found


def taken(node: Apply) -> list[Variable | slice]:
    """Return the index of a look-up along each axis."""
    indices = list(indices_from_subtensor(node.inputs[1:], node.op.idx_list))
    return [*indices, *[slice(None)] * (node.inputs[0].type.ndim - len(indices))]


def _is(index: Variable, ids: Variable) -> bool:
    """Return whether an index is the ids, perhaps cast to another integer type that holds them all."""
    while index.owner is not None and index is not ids:
        op, given = index.owner.op, index.owner.inputs[0]
        changes = isinstance(op, Elemwise) and isinstance(op.scalar_op, Cast | Identity)
        same = (changes or isinstance(op, SpecifyShape)) and given.type.dtype.startswith(("int", "uint"))
        if not same or not np.can_cast(given.type.dtype, index.type.dtype):
            return False
        index = given
    return index is ids


def _axis_of(node: Apply, ids: Variable) -> int | None:
    """Return the axis that the ids index, if all other axes are taken whole, or all at one number each."""
    axes, numbers = [], 0
    for axis, index in enumerate(taken(node)):
        if isinstance(index, slice):
            if index != slice(None):
                return None
        elif _is(index, ids):
            axes.append(axis)
        elif index.type.ndim or index.type.dtype == "bool":
            return None
        else:
            numbers += 1
    # With both numbers and whole axes, indexing may move the axis of rows to the front: not followed.
    if len(axes) != 1 or numbers not in (0, node.inputs[0].type.ndim - 1):
        return None
    return axes[0]
