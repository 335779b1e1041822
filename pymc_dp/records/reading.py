"""Reads a model, before anything is derived or compiled: what is private, what may leave, what is refused.

All of it is decided from the graph (`row_types`); no value of an array is looked at, only names, shapes and
types.
"""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import checks, graph, memory
from pymc_dp.records.opaque import OpaqueModel, graphs_of, hide_new
from pymc_dp.records.row_types import PUBLIC, Mixed, Rows, RowType, Typing

# Among so few records, one parameter less than there are records is a coincidence.
FEW = 50
PRIVATE, TAKEN, DECLARED = "private rows", "taken as public", "public, as declared"


@dataclass(frozen=True)
class Array:
    """How an array of a model is read.

    Attributes
    ----------
    label : str
        Its name, or the variable that reads it and a number; what `public=` takes.
    shape : tuple of int
    dtype : str
    kind : {"private rows", "taken as public", "public, as declared"}
    axis : int or None
        Axis of the records.
    """

    label: str
    shape: tuple[int, ...]
    dtype: str
    kind: str
    axis: int | None = None


@dataclass(frozen=True)
class VariableReading:
    """How a variable of a model is read.

    Attributes
    ----------
    name : str
    role : {"sampled", "likelihood", "released", "withheld", "Potential", "refused"}
    why : str
    """

    name: str
    role: str
    why: str = ""


@dataclass
class Reading:
    """A model that was read. Graphs are functions of value variables and of what holds the records.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    start : dict of str to ndarray
        PyMC's initial point, by value variable.
    terms : list of Variable
        Of each observed variable: log-densities, records on the first axis, without checks.
    log_priors : list of Variable
        Of free variables and Potentials; read no record.
    conditions, stripped : list of Variable
        Checks about parameters alone: where one is false there is no density; and checks that are left out.
    roots : dict of Variable to int
        What holds the records, shared variables, and their axis of records.
    declared : set of Variable
        What `public=` names.
    watched : list of SharedVariable
        Of the model: when one is set to another array, the model must be read again.
    released, withheld_dims : list of str
    arrays, variables : list
    refusals : list of ModelRefusedError
        Empty unless `inspect` collects them.
    """

    n_rows: int
    opaque: Any
    typing: Typing
    start: dict[str, np.ndarray] = field(default_factory=dict)
    terms: list[Variable] = field(default_factory=list)
    log_priors: list[Variable] = field(default_factory=list)
    conditions: list[Variable] = field(default_factory=list)
    stripped: list[Variable] = field(default_factory=list)
    roots: dict[Variable, int] = field(default_factory=dict)
    declared: set[Variable] = field(default_factory=set)
    watched: list[SharedVariable] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    withheld_dims: list[str] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    variables: list[VariableReading] = field(default_factory=list)
    trusted: list[str] = field(default_factory=list)
    refusals: list[ModelRefusedError] = field(default_factory=list)

    def types_of(self, outputs: Sequence[Variable]) -> list[RowType]:
        """Types of graphs of the same arrays; one that reads another array of records is mixed."""
        typing = self.typing.again()
        types = typing(outputs, {leaf: Rows(axis) for leaf, axis in self.roots.items()})
        new = [
            leaf
            for leaf in graph.data_leaves(outputs)
            if leaf not in self.roots and leaf not in self.declared
            if self.n_rows in np.shape(graph.leaf_value(leaf))
        ]
        return [Mixed("another array of records") if new else types[v] for v in outputs]

    def generative(self) -> tuple[list[Variable], list[Variable], dict[Variable, RowType]]:
        """Observed and free random variables, and types of all that is between them."""
        observed, free = list(self.opaque.observed.values()), list(self.opaque.free.values())
        sources: dict[Variable, RowType] = dict.fromkeys(free, PUBLIC)
        sources |= {leaf: Rows(axis) for leaf, axis in self.roots.items()}
        return observed, free, self.typing.again()(observed, sources)

    @property
    def public_arrays(self) -> list[Array]:
        """Arrays that are taken, or were declared, as public."""
        return [a for a in self.arrays if a.kind != PRIVATE]


def read(
    model: pm.Model,
    *,
    units: int | None = None,
    exclude_deterministics: Collection[str] = (),
    public: Collection[Any] = (),
    trusted_ops: Collection[Any] = (),
    neighboring_relation: str = "substitute",
    refuse: Callable[[ModelRefusedError], None] | None = None,
) -> Reading:
    """Read a model.

    Parameters
    ----------
    model : pymc.Model
    units : int, optional
        Number of privacy units, if that is not the number of rows.
    exclude_deterministics : collection of str
        Deterministics that are not released.
    public : collection of str or array
        Arrays, by label or as objects, that hold no record though their shape says so; free variables with
        as many entries as records by coincidence.
    trusted_ops : collection of str or type
        Ops without a rule that act on each record by itself.
    neighboring_relation : {"substitute", "add_remove"}
    refuse : callable, optional
        Gets every refusal; by default the first is raised.

    Returns
    -------
    Reading

    Raises
    ------
    ModelRefusedError
    ValueError
        `public` or `exclude_deterministics` has a name that the model does not have.
    """
    reader = _Reader(model, units, exclude_deterministics, public, trusted_ops, neighboring_relation, refuse)
    return reader.read()


def number_of_rows(model: pm.Model) -> int:
    """Length of the first axis of the observed variables.

    Raises
    ------
    ModelRefusedError
        They do not share it, or the model has no observed or no free variables that can be read.
    """
    checks.supported(model)
    return checks.same_records({rv.name: _records_of(model, rv) for rv in model.observed_RVs})


def _raise(error: ModelRefusedError) -> None:
    raise error


class _Reader:
    def __init__(
        self,
        model: pm.Model,
        units: int | None,
        exclude: Collection[str],
        public: Collection[Any],
        trusted: Collection[Any],
        relation: str,
        refuse: Callable[[ModelRefusedError], None] | None,
    ):
        checks.known_names(model, exclude)
        self.model, self.exclude = model, set(exclude)
        self.public = [public] if isinstance(public, str) else list(public)
        self.refuse = refuse or _raise
        self.n_rows = number_of_rows(model)
        self.units = self.n_rows if units is None else units
        self.leaves = _labelled(model)
        self.declared = self._declared()
        private = [v for v in self.leaves.values() if self._is_private(v)]
        self.opaque = OpaqueModel(model, private)
        self.typing = Typing(self.n_rows, relation, trusted)
        self.found = Reading(self.n_rows, self.opaque, self.typing, declared=self.declared)

    # arrays

    def _declared(self) -> set[Variable]:
        """Leaves that `public=` names."""
        free = {rv.name for rv in self.model.free_RVs}
        declared: set[Variable] = set()
        for given in self.public:
            if isinstance(given, str):
                found = [v for label, v in self.leaves.items() if label == given]
                if not found and given not in free:
                    raise ValueError(
                        f"public= names {given!r}; the model's arrays are {sorted(self.leaves)} (dp.inspect)."
                    )
            else:
                array = graph.leaf_value(given) if isinstance(given, Variable) else given
                found = [v for v in self.leaves.values() if memory.same(graph.leaf_value(v), array)]
                if not found:
                    raise ValueError(
                        "public= has an array that the model does not read: name it (dp.inspect)."
                    )
            declared.update(found)
        return declared

    def _is_private(self, leaf: Variable) -> bool:
        return leaf not in self.declared and self.n_rows in np.shape(graph.leaf_value(leaf))

    def _check_public_arrays(self, densities: Sequence[Variable]) -> None:
        """Refuse arrays that may hold records, but not one entry a record."""
        read = graph.read_as_values([*graphs_of(self.model), *densities])
        rows = [graph.leaf_value(v) for v in self.leaves.values() if self._is_private(v)]
        observed = {self.model.rvs_to_values[rv] for rv in self.model.observed_RVs}
        for label, leaf in self.leaves.items():
            value = graph.leaf_value(leaf)
            if leaf in self.declared:
                if leaf in observed:
                    self.refuse(checks.refuse_public_observed(label))
            elif not self._is_private(leaf) and leaf in read:
                checks.public_array(label, np.shape(value), self.n_rows, self.units, self.refuse)
                if any(memory.shared(value, row) for row in rows):
                    self.refuse(checks.refuse_view(label))
        labels = [label for label, v in self.leaves.items() if self._is_private(v)]
        for (label, a), (other, b) in itertools.combinations(zip(labels, rows, strict=True), 2):
            axes = [np.shape(v).index(self.n_rows) for v in (a, b)]
            if memory.shifted(a, b, *axes):
                self.refuse(checks.refuse_shifted(label, other))

    def _assign_axes(self, outputs: Mapping[str, Variable]) -> dict[Variable, RowType]:
        """Which axis of each array holds the records: those with which the likelihood types."""
        sources = {
            new: graph.axes_of_length(old, self.n_rows)
            for new, old in self.opaque.original.items()
            if self._is_private(old)
        }
        open_ = [leaf for leaf, axes in sources.items() if len(axes) > 1]
        fixed: dict[Variable, RowType] = {leaf: Rows(axes[0]) for leaf, axes in sources.items()}
        if not open_:
            return fixed
        choices = list(itertools.islice(itertools.product(*(sources[leaf] for leaf in open_)), 257))
        right = []
        for axes in choices[:256]:
            types: dict[Variable, RowType] = fixed | {v: Rows(a) for v, a in zip(open_, axes, strict=True)}
            typed = self.typing.again()(list(outputs.values()), types)
            if all(typed[term] == Rows(0) for term in outputs.values()):
                right.append(types)
        if len(right) > 1 or len(choices) > 256:
            labels = [self._label(self.opaque.original[leaf]) for leaf in open_]
            self.refuse(checks.refuse_two_axes(labels, self.n_rows))
        return right[0] if right else fixed

    def _label(self, leaf: Variable) -> str:
        return next((label for label, v in self.leaves.items() if v is leaf), "an array")

    # the model

    def read(self) -> Reading:
        model, found = self.model, self.found
        densities = self.opaque.log_densities()
        names = [rv.name for rv in model.observed_RVs]
        for name in names:
            checks.deterministic_likelihood(name, *graph.flatten([densities[name]]))
            checks.observed_term(name, densities[name].type.ndim, self.n_rows)
        factors = self.opaque.on_values(list(self.opaque.potentials.values()))
        potentials = dict(zip(self.opaque.potentials, factors, strict=True))
        densities, potentials = self._hide_new(densities, potentials)
        self._check_public_arrays([*densities.values(), *potentials.values()])
        conditions: list[Variable] = []
        terms = dict(zip(names, graph.flatten([densities[name] for name in names], conditions), strict=True))
        sources = self._assign_axes(terms)
        self.typing([*terms.values(), *conditions], sources)
        for name, term in terms.items():
            self._likelihood(name, term)
        found.terms = list(terms.values())
        axes = {leaf: t.axis for leaf, t in sources.items() if isinstance(t, Rows)}
        found.roots = {leaf: axes[leaf] for leaf in graph.data_leaves(found.terms) if leaf in axes}
        for name, term in {rv.name: densities[rv.name] for rv in model.free_RVs}.items():
            self._prior(name, term, "The prior of", conditions)
        for name, term in potentials.items():
            self._prior(name, term, "Potential", conditions)
        for condition in conditions:
            kept = self.typing.of(condition) is PUBLIC
            (found.conditions if kept else found.stripped).append(condition)
        self._start(sources)
        self._deterministics(sources)
        self._dims(sources)
        self._arrays({self.opaque.original[leaf]: axis for leaf, axis in axes.items()})
        found.watched = [v for v in self.leaves.values() if isinstance(v, SharedVariable)]
        found.trusted = sorted(self.typing.trusted_used)
        order = list(model.named_vars)
        found.variables.sort(key=lambda v: order.index(v.name))
        return found

    def _hide_new(self, *groups: Mapping[str, Variable]) -> list[dict[str, Variable]]:
        """Arrays that a density brings along (a closure's) are data like all others."""
        graphs = [v for group in groups for v in group.values()]
        known = {*self.opaque.original, *self.leaves.values()}
        new = [v for v in graph.data_leaves(graphs) if v not in known and np.shape(graph.leaf_value(v))]
        for k, leaf in enumerate(v for v in new if _has_data(v)):
            self.leaves[leaf.name or f"density.array_{k + 1}"] = leaf
        hidden = hide_new(graphs, self.n_rows, {*self.declared, *self.opaque.original})
        self.opaque.original |= {shared: leaf for leaf, shared in hidden.items()}
        replaced = iter(clone_replace(graphs, hidden, rebuild_strict=False) if hidden else graphs)
        return [{name: next(replaced) for name in group} for group in groups]

    def _likelihood(self, name: str, term: Variable) -> None:
        t = self.typing.of(term)
        if t == Rows(0):
            self._add(name, "likelihood", "one term a record, clipped")
        else:
            self._add(name, "refused", _why(t))
            self.refuse(checks.refuse_coupled(name, _why(t)))

    def _prior(self, name: str, term: Variable, kind: str, conditions: list[Variable]) -> None:
        own: list[Variable] = []
        (flat,) = graph.flatten([term], own)
        self.typing([flat, *own], {})
        t = next((t for t in map(self.typing.of, [flat, *own]) if t is not PUBLIC), PUBLIC)
        role = "sampled" if kind != "Potential" else "Potential"
        if t is PUBLIC:
            self.found.log_priors.append(flat)
            conditions.extend(own)
            self._add(name, role, "reads no record")
        else:
            self._add(name, "refused", _why(t))
            self.refuse(checks.refuse_prior(kind, name, _why(t)))

    def _start(self, sources: Mapping[Variable, RowType]) -> None:
        """Initial values and support points are shown, and decide where a chain begins."""
        try:
            start = self.opaque.start()
        except Exception as error:
            self.refuse(
                checks.refuse_start("the model", f"its graph cannot be made ({type(error).__name__})")
            )
            return
        typing = self.typing.again()
        typing(start, {**sources, **self._others(start)})
        private = {
            rv.name: t
            for rv, value in zip(self.model.free_RVs, start, strict=True)
            if (t := typing.of(value)) is not PUBLIC
        }
        for name, t in private.items():
            self._add(name, "refused", f"initial value: {_why(t)}")
            self.refuse(checks.refuse_start(repr(name), _why(t)))
        if private:
            return
        self.found.start = self.model.initial_point(0)
        for rv in self.model.free_RVs:
            value = self.model.rvs_to_values[rv]
            shape = np.shape(self.found.start[value.name])
            if rv.name not in self.public and self._is_latent(value, shape, sources):
                self._add(rv.name, "refused", "an entry for each record")
                self.refuse(checks.refuse_latent(rv.name, shape))

    def _is_latent(
        self, value: Variable, shape: tuple[int, ...], sources: Mapping[Variable, RowType]
    ) -> bool:
        """Whether a free variable has an entry for each record or unit: beside its own, or looked up.

        One entry less counts as well, unless there are few: differences, or effects that add up to zero.
        """
        sizes = {self.n_rows, self.units}
        if any(size - 1 in shape for size in sizes if size > FEW):
            return True
        for axis in (axis for axis, length in enumerate(shape) if length in sizes):
            typed = self.typing.again()(self.found.terms, {**sources, value: Rows(axis)})
            if all(typed[term] == Rows(0) for term in self.found.terms):
                return True
        return bool(sizes & set(shape)) and graph.looked_up(
            value, self.found.terms, {v for v, t in self.typing.types.items() if isinstance(t, Rows)}
        )

    def _others(self, outputs: Sequence[Variable]) -> dict[Variable, RowType]:
        """Arrays with an axis of records that a graph brings along."""
        return {
            leaf: Rows(graph.axes_of_length(leaf, self.n_rows)[0])
            for leaf in graph.data_leaves(outputs)
            if leaf not in self.declared and graph.axes_of_length(leaf, self.n_rows)
        }

    def _deterministics(self, sources: Mapping[Variable, RowType]) -> None:
        found, names = self.found, [d.name for d in self.model.deterministics]
        graphs = self.opaque.with_observed([self.opaque.deterministics[name] for name in names])
        typing = self.typing.again()
        free: dict[Variable, RowType] = dict.fromkeys(self.opaque.free.values(), PUBLIC)
        typing(graphs, {**sources, **self._others(graphs), **free})
        found.released = [rv.name for rv in self.model.free_RVs]
        for name, output in zip(names, graphs, strict=True):
            t = typing.of(output)
            if name in self.exclude:
                self._add(name, "withheld", "excluded")
            elif t is PUBLIC:
                found.released.append(name)
                self._add(name, "released", "reads no record")
            else:
                self._add(name, "refused", _why(t))
                self.refuse(checks.refuse_deterministic(name, _why(t)))
        self.typing.trusted_used |= typing.trusted_used

    def _dims(self, sources: Mapping[Variable, RowType]) -> None:
        """Dimensions of records, by what has them; and those that are as long, whatever has them."""
        model, typing = self.model, self.typing.again()
        lengths = dict(self.opaque.lengths)
        typing(list(lengths.values()), sources)
        for name, length in lengths.items():
            if isinstance(t := typing.of(length), Mixed | Rows):
                self.refuse(checks.refuse_dim(name, _why(t)))
        withheld = set()
        of_rows = {
            self.opaque.original[leaf].name: t.axis for leaf, t in sources.items() if isinstance(t, Rows)
        }
        of_rows |= {rv.name: 0 for rv in model.observed_RVs}
        for name, axis in of_rows.items():
            dims = model.named_vars_to_dims.get(name or "")
            if dims is not None and axis < len(dims):
                withheld.add(dims[axis])
        # The number of rows is private where a unit has several.
        sizes = {self.units}
        withheld |= {name for name, length in lengths.items() if checks.constant_length(length) in sizes}
        self.found.withheld_dims = sorted(name for name in withheld if name is not None)

    def _arrays(self, axes: Mapping[Variable, int]) -> None:
        read = graph.read_as_values([*graphs_of(self.model), *self.found.terms, *self.found.log_priors])
        for label, leaf in self.leaves.items():
            if leaf not in axes and (leaf not in read or np.size(graph.leaf_value(leaf)) == 1):
                continue  # a size, or a number
            kind = DECLARED if leaf in self.declared else PRIVATE if self._is_private(leaf) else TAKEN
            value = graph.leaf_value(leaf)
            self.found.arrays.append(
                Array(label, tuple(np.shape(value)), str(value.dtype), kind, axes.get(leaf))
            )

    def _add(self, name: str, role: str, why: str) -> None:
        self.found.variables.append(VariableReading(name, role, why))


def _why(t: RowType) -> str:
    if isinstance(t, Mixed):
        return t.why
    if isinstance(t, Rows):
        return "one value for each record"
    return "the number of records, which is private"


def _has_data(leaf: Any) -> bool:
    return bool(getattr(leaf.type, "ndim", 0))


def _labelled(model: pm.Model) -> dict[str, Variable]:
    """Data leaves with a dimension: their names, or the first variable that reads them and a number."""
    labels: dict[str, Variable] = {}
    seen: set[Variable] = set()
    named = {rv: (model.rvs_to_values[rv], rv.name) for rv in model.observed_RVs}
    for value, name in named.values():
        if value.owner is None:
            labels[name] = value
            seen.add(value)
    readers = [*model.basic_RVs, *model.deterministics, *model.potentials]
    graphs = [*zip((r.name for r in readers), readers, strict=True)]
    graphs += [(name, value) for value, name in named.values()]
    graphs += [("model", v) for v in graphs_of(model)]
    for name, output in graphs:
        count = 0
        for leaf in graph.data_leaves([output]):
            if leaf in seen or not _has_data(leaf) or not np.shape(graph.leaf_value(leaf)):
                continue
            seen.add(leaf)
            count += 1
            label = leaf.name or f"{name}.array_{count}"
            while label in labels:
                label += "'"
            labels[label] = leaf
    return labels


def _records_of(model: pm.Model, rv: Any) -> int | None:
    """Length of the first axis of an observed variable, from shapes alone; None if it is a single number."""
    value = model.rvs_to_values[rv]
    if value.type.ndim == 0:
        return None
    if value.owner is None:
        return int(np.shape(graph.leaf_value(value))[0])
    return checks.length_from_shapes(rv.name, value)
