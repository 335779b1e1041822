"""The complete model: each row has its person's effect as if that had been observed.

In ``ability = Normal(0, tau, shape=persons); Bernoulli(logit_p=x @ beta + ability[person])`` a person's
likelihood is an integral over one entry of `ability`. The rows of the integrand are those of another model,
in which `ability` is no parameter but an observed variable beside the outcomes, with the person's entry in
each row. That model is read like any other; what is decided of its graph holds for every value of the effect.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.shape_utils import change_dist_size
from pytensor.compile import SharedVariable
from pytensor.graph import Apply, Variable
from pytensor.graph.traversal import toposort

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import graph, refusals
from pymc_dp.records.effects import Effects, find_effects, shape_of, taken
from pymc_dp.records.lengths import number_of_rows


class Complete(NamedTuple):
    """A model with its effects as observed variables.

    Attributes
    ----------
    model : pymc.Model
        The original model, if it has no effects.
    effects : list of str
        Names of the effects.
    dims : set of str
        Dimensions of persons, whose coordinates may be names of persons.
    """

    model: pm.Model
    effects: list[str]
    dims: set[str]


class _Observed(NamedTuple):
    """An effect with an entry for each row, and the shared variable for its values."""

    rv: Variable
    place: SharedVariable


def complete(
    model: pm.Model,
    privacy_unit: object,
    public: Collection[object] = (),
    neighboring_relation: str = "substitute",
) -> Complete:
    """Make the model in which effects of persons are observed.

    Parameters
    ----------
    model, privacy_unit, public, neighboring_relation
        See `find_effects`.

    Returns
    -------
    Complete

    Raises
    ------
    ModelRefusedError
        As `find_effects`; or an effect is read by more than its own person's rows.

    Notes
    -----
    **Privacy.** Decided from the graph, from names and shapes. Data are not copied. Which person a row
    belongs to is decided by the ids alone: in the complete model the effect is not looked up. A row whose id
    is beyond the effect's entries is NaN, and so are then the sums of its person.
    """
    found = find_effects(model, privacy_unit, public, neighboring_relation)
    if not found.axes:
        return Complete(model, [], set())
    if set(model.free_RVs) <= set(found.axes):
        raise ModelRefusedError(
            "All free variables have an entry for each record or person.",
            "these are integrated, and nothing is left that could be released.",
            "give what they have in common parameters of its own: a mean, a standard deviation.",
        )
    n_rows = number_of_rows(model)
    observed = {rv: _observed(model, rv, axis, n_rows, found.ids) for rv, axis in found.axes.items()}
    memo = _rewritten(model, found, observed)
    dims = {model.named_vars_to_dims.get(rv.name, {axis: None})[axis] for rv, axis in found.axes.items()}
    return Complete(_model_of(model, memo, observed), [rv.name or "" for rv in observed], dims - {None})


def _observed(model: pm.Model, rv: Variable, axis: int, n_rows: int, ids: Variable | None) -> _Observed:
    """Make the effect's prior with an entry for each row, on the first axis; its values are transformed."""
    transform, node = model.rvs_to_transforms[rv], rv.owner
    like = rv if transform is None else transform.forward(rv, *node.inputs)
    shape = [n_rows, *(size or 0 for k, size in enumerate(shape_of(like)) if k != axis)]
    place = pytensor.shared(np.zeros(shape), borrow=True, shape=tuple(shape), name=rv.name)
    if ids is None and axis == 0:
        return _Observed(rv, place)
    sizes = shape_of(rv)[: node.op.batch_ndim(node)]
    others = [size for k, size in enumerate(sizes) if k != axis]
    return _Observed(change_dist_size(rv, (place.shape[0], *others)), place)


def _rewritten(
    model: pm.Model, found: Effects, observed: Mapping[Variable, _Observed]
) -> dict[Variable, Variable]:
    """Return replacements of all variables that depend on effects."""
    memo: dict[Variable, Variable] = {}
    for rv, axis in found.axes.items():
        new = observed[rv].rv
        memo[rv] = pt.moveaxis(pt.as_tensor(new), 0, axis) if axis else new
    whole: set[Variable] = set(observed)  # variables with an entry for each person
    initial = [v for v in model.rvs_to_initial_values.values() if isinstance(v, Variable)]
    for node in toposort([*model.basic_RVs, *model.deterministics, *model.potentials, *initial]):
        if not whole.isdisjoint(node.outputs):
            continue
        inputs = [memo.get(v, v) for v in node.inputs]
        if node in found.tables:
            if inputs[0] is not node.inputs[0]:
                memo[node.outputs[0]] = _own(node, inputs[0], found)
            continue
        if found.ids is not None and not whole.isdisjoint(node.inputs):
            whole.update(node.outputs)
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            memo.update(zip(node.outputs, graph.rebuilt(node, inputs), strict=True))
    for one in [*model.basic_RVs, *model.potentials]:
        if one in whole and one not in observed:
            name = next(iter(observed)).name
            raise refusals.refuse_effect(name, f"is read by {one.name!r} other than by the ids of persons")
    return memo


def _own(node: Apply, table: Variable, found: Effects) -> Variable:
    """Replace a look-up by ids: each row's own entry, or NaN for an id that the table does not have."""
    axis, size = found.tables[node]
    known = pt.ge(found.ids, 0) & pt.lt(found.ids, size)
    rows = pt.moveaxis(pt.as_tensor(table), axis, 0)
    rows = pt.switch(pt.shape_padright(known, rows.type.ndim - 1), rows, float("nan"))
    others = [index for k, index in enumerate(taken(node)) if k != axis]
    if any(not isinstance(index, slice) for index in others):
        return rows[(slice(None), *others)]
    return pt.moveaxis(rows, 0, axis) if axis else rows


def _model_of(
    old: pm.Model, memo: Mapping[Variable, Variable], observed: Mapping[Variable, _Observed]
) -> pm.Model:
    """Make a model of new graphs, with names, dimensions, transforms and initial values of the old one."""
    model = pm.Model(model=None)
    model._coords, model._dim_lengths = dict(old._coords), dict(old._dim_lengths)
    kinds: list[tuple[Sequence[Variable], list[Variable]]] = [
        (old.data_vars, model.data_vars),
        (old.potentials, model.potentials),
        (old.deterministics, model.deterministics),
        (list(observed), model.observed_RVs),
        (old.observed_RVs, model.observed_RVs),
        (old.free_RVs, model.free_RVs),
    ]
    for name, variable in old.named_vars.items():
        new = observed[variable].rv if variable in observed else memo.get(variable, variable)
        same = new is variable or variable in old.observed_RVs
        new.name = name
        next(new_ones for old_ones, new_ones in kinds if variable in old_ones).append(new)
        if variable in old.basic_RVs:
            place = observed[variable].place if variable in observed else old.rvs_to_values[variable]
            transform = old.rvs_to_transforms[variable]
            model.create_value_var(new, transform=transform, default_transform=None, value_var=place)
            start = None if variable in observed else old.rvs_to_initial_values.get(variable)
            known = memo.get(start, start) if isinstance(start, Variable) else start
            model.rvs_to_initial_values[new] = known
        model.add_named_variable(new, dims=old.named_vars_to_dims.get(name) if same else None)
    return model
