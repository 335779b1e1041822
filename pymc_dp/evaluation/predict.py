"""predict(): draw new records at public inputs."""

from collections.abc import Mapping, Sequence

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike
from pymc.model.fgraph import clone_model
from pytensor.compile import SharedVariable
from pytensor.graph import Variable
from xarray import Dataset, DataTree

from pymc_dp.errors import ModelRefusedError
from pymc_dp.evaluation.fitted import check_same, declared_in, settings_of
from pymc_dp.privacy.budget.known import Facts, Predictions
from pymc_dp.privacy.budget.plan import PrivacyPlan
from pymc_dp.records import gate, graph
from pymc_dp.records.arrays import Arrays
from pymc_dp.records.opaque import graphs_of
from pymc_dp.records.reader import read, why
from pymc_dp.records.reading import Reading
from pymc_dp.records.row_types import PUBLIC, Rows, RowType, Typing
from pymc_dp.results import facts_of, stamp
from pymc_dp.sampling import release


def predict(
    idata: DataTree,
    model: pm.Model,
    *,
    inputs: Mapping[str, ArrayLike] | None = None,
    coords: Mapping[str, Sequence[object]] | None = None,
    var_names: Sequence[str] | None = None,
    random_seed: object = None,
) -> DataTree:
    """Draw new records, and Deterministics, at public inputs.

    Parameters
    ----------
    idata : DataTree
        Result of private sampling.
    model : pymc.Model
        The model that it was made with. It is not changed.
    inputs : mapping of str to array_like, optional
        New values of ``pm.Data`` variables: public numbers, such as a grid that you choose. Needed for each
        variable that holds records and that an output reads.
    coords : mapping of str to sequence, optional
        New coordinates of the dimensions of `inputs`. Default: counted from 0.
    var_names : sequence of str, optional
        Observed variables and Deterministics. Default: all observed variables.
    random_seed : int, optional
        Seed of the draws. It may be public, because the draws depend on released numbers alone.

    Returns
    -------
    DataTree
        Group `predictions`, one draw for each released draw, with dims and coordinates; group
        `predictions_constant_data` with the inputs. Its attributes contain the guarantee of the posterior.

    Raises
    ------
    ModelRefusedError
        An output would read a private row. Nothing is computed then.
    PrivacyError
        The result is not complete, or is of another model.
    ValueError
        `inputs` or `var_names` has a name that the model does not have, or `inputs` has whole numbers that
        PyMC cannot store.
    IndexError
        `inputs` has an index beyond the end of the array that it indexes.

    Notes
    -----
    If effects of persons were integrated out, each draw has new effects, from their prior: the ids in
    `inputs` are those of new persons.

    **Privacy.** Which outputs read a row is decided from the graph, with `inputs` in place of the model's
    data. Every other output is a function of released draws and public inputs: post-processing, at no cost.
    You state that the inputs are public; the model's own arrays of records are refused.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dp as dp
    >>> rng = np.random.default_rng(1)
    >>> age = rng.uniform(-1, 1, size=20_000)
    >>> with pm.Model() as model:
    ...     x = pm.Data("x", age)
    ...     slope = pm.Normal("slope", 0, 2)
    ...     _ = pm.Normal("y", slope * x, 1, observed=2 * age + rng.normal(size=20_000), shape=x.shape)
    ...     idata = dp.sample(draws=100, epsilon=1, delta=1e-6, chains=1, quiet=True)
    >>> dp.predict(idata, model, inputs={"x": [-1.0, 0.0, 1.0]}).predictions["y"].shape
    (1, 100, 3)
    """
    known = facts_of(idata)
    posterior = release(idata)["posterior"].to_dataset()
    check_same(known, posterior, model)
    given = {name: np.asarray(graph.unmasked(value)) for name, value in (inputs or {}).items()}
    names = [rv.name for rv in model.observed_RVs] if var_names is None else list(var_names)
    _check_names(model, given, names)
    reads, reading = _reading(model, names, given, known)
    if reads:
        raise _refusal(reads)
    found = _draws(posterior, model, given, coords, names, random_seed)
    counted = [] if _counts_are_public(known) else _of_rows(found, reading.n_rows)
    if counted:
        raise _refusal(counted)
    of_persons = {
        dim for name in known.get("integrated", []) for dim in model.named_vars_to_dims.get(name) or ()
    }
    withheld = of_persons.union(reading.withheld_dims, known["withheld_dims"])
    _withhold(found, model, given, withheld)
    made: Predictions = {
        "variables": names,
        "inputs": {name: list(value.shape) for name, value in given.items()},
    }
    plan = PrivacyPlan.from_dict(known["plan"])
    notice = (
        f"{plan.promise}: predictions at public inputs, from released draws alone"
        if known["is_private"]
        else "NOT PRIVATE: made from a run without a guarantee"
    )
    return stamp(found, {**known, "predictions": made}, notice)


def _check_names(model: pm.Model, given: Mapping[str, np.ndarray], names: Sequence[str]) -> None:
    data = {variable.name for variable in model.data_vars}
    if unknown := sorted(set(given) - data):
        raise ValueError(
            f"inputs names {unknown}, and the model's pm.Data are {sorted(data)}: declare arrays that you "
            "want to replace with pm.Data."
        )
    known = {v.name for v in (*model.observed_RVs, *model.deterministics)}
    if unknown := sorted(set(names) - known):
        raise ValueError(f"var_names has {unknown}; the model's outputs are {sorted(known)}.")


def _refusal(reads: Sequence[str]) -> ModelRefusedError:
    return ModelRefusedError(
        f"A prediction would be at private rows: {'; '.join(reads)}.",
        "a draw at a record's own covariates shows them, and their number.",
        "declare arrays of records as pm.Data, and give public values of each: inputs={'x': grid}. Give the "
        "observed variable a shape that follows them, shape=x.shape[0] or dims=.",
    )


def _counts_are_public(known: Facts) -> bool:
    """Return whether the number of rows is public: whether neighbouring data sets have equally many."""
    return known["plan"]["neighboring_relation"] == "substitute" and known["unit"] == "row"


def _of_rows(found: DataTree, n_rows: int) -> list[str]:
    """Describe outputs with as many entries as there are rows, such as by the length of a dimension."""
    return [
        f"{name!r} has as many entries as there are rows, whose number is private"
        for name, array in found["predictions"].data_vars.items()
        if n_rows in array.shape[2:]
    ]


def _withhold(found: DataTree, model: pm.Model, given: Mapping[str, np.ndarray], withheld: set[str]) -> None:
    """Replace coordinates of dimensions of records by numbers: the model's may be names of persons."""
    replaced = {dim for name in given for dim in model.named_vars_to_dims.get(name) or ()}
    for group in found.children:
        dataset = found[group].to_dataset()
        hidden = withheld.intersection(map(str, dataset.dims)) - replaced
        found[group] = dataset.assign_coords({dim: np.arange(dataset.sizes[dim]) for dim in hidden})


def _reading(
    model: pm.Model, names: Sequence[str], given: Mapping[str, np.ndarray], known: Facts
) -> tuple[list[str], Reading]:
    """Describe what outputs read of private rows, with `given` in place of data; return the reading too."""
    units = None if known["unit"] == "row" else known.get("n")
    reading = read(model, units=units, **settings_of(known, model))
    fixed = _counts_are_public(known)
    opaque, n_rows = reading.opaque, reading.n_rows
    arrays = Arrays(model, n_rows, n_rows, declared_in(known))
    replaced = {variable for variable in model.data_vars if variable.name in given}
    known_outputs = {**opaque.observed, **opaque.deterministics}
    outputs = [known_outputs[name] for name in names]
    sources: dict[Variable, RowType] = {leaf: Rows(axis) for leaf, axis in reading.roots.items()}
    sources |= arrays.others(outputs)
    sources |= dict.fromkeys([*replaced, *opaque.free.values()], PUBLIC)
    types = Typing(n_rows, "substitute" if fixed else "add_remove", known["trusted_ops"])(outputs, sources)
    found = []
    for name, output in zip(names, outputs, strict=True):
        if types[output] is not PUBLIC:
            found.append(f"{name!r} reads private rows: {why(types[output])}")
        elif not fixed and n_rows in output.type.shape:
            found.append(f"{name!r} has as many entries as there are rows, whose number is private")
    leaves = [graph.leaf_value(leaf) for leaf in arrays.leaves.values() if arrays.is_private(leaf)]
    for name, value in given.items():
        if n_rows in np.shape(value):
            found.append(
                f"inputs[{name!r}] has as many entries as there are rows: take another number of points"
            )
        elif any(isinstance(leaf, np.ndarray) and np.may_share_memory(value, leaf) for leaf in leaves):
            found.append(f"inputs[{name!r}] are rows of the model")
    return found, reading


def _check_held(model: pm.Model, given: Mapping[str, np.ndarray]) -> None:
    """Refuse whole numbers that overflowed: PyMC stores those of 64 bits in 32, where 2**63 - 1 is -1."""
    for name, value in given.items():
        if value.dtype.kind in "iu" and not np.array_equal(graph.leaf_value(model[name]), value):
            raise ValueError(f"inputs: {name!r} has whole numbers that PyMC does not hold, in 32 bits.")


def _draws(
    posterior: Dataset,
    model: pm.Model,
    given: Mapping[str, np.ndarray],
    coords: Mapping[str, Sequence[object]] | None,
    names: Sequence[str],
    random_seed: object,
) -> DataTree:
    """Draw predictions with PyMC, from a copy of the model whose data are the inputs."""
    copy = clone_model(model)
    with copy:
        if given:
            new = {
                dim: np.arange(size)
                for name, value in given.items()
                for dim, size in zip(copy.named_vars_to_dims.get(name) or (), value.shape, strict=False)
                if dim is not None
            }
            pm.set_data(given, coords={**new, **(coords or {})})
            _check_held(copy, given)
        for leaf in graph.data_leaves(graphs_of(copy)):
            if isinstance(leaf, SharedVariable) and graph.is_masked(leaf):
                leaf.set_value(graph.storage(leaf)[0], borrow=True)
        made = pm.sample_posterior_predictive(
            DataTree.from_dict({"posterior": posterior}),
            var_names=list(names),
            predictions=True,
            random_seed=random_seed,
            progressbar=False,
            compile_kwargs={"mode": gate.predictive_mode()},
        )
    groups = {"predictions": made["predictions"].to_dataset()}
    if given:
        stored = made["predictions_constant_data"].to_dataset()
        groups["predictions_constant_data"] = stored[[name for name in stored.data_vars if name in given]]
    for dataset in groups.values():
        dataset.attrs = {}
    return DataTree.from_dict(groups)
