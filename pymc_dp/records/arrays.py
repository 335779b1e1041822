"""The arrays of a model: their labels, which of them hold records, and along which axis."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm
from pytensor.compile import SharedVariable
from pytensor.graph import Variable
from pytensor.graph.type import HasShape
from pytensor.tensor.shape import Shape, Shape_i

from pymc_dp.records import checks, graph, memory, refusals
from pymc_dp.records.opaque import OpaqueModel, graphs_of
from pymc_dp.records.row_types import Mixed, Rows, RowType
from pymc_dp.records.row_types.ops import known_shape

PRIVATE, TAKEN, DECLARED = "private rows", "taken as public", "public, as declared"
# With at most this many records, a parameter as long as the records, or one shorter, may be a coincidence.
FEW = 20


@dataclass(frozen=True)
class Array:
    """How an array of a model is read.

    Attributes
    ----------
    label : str
        Its name, or the variable that reads it and a number; `public=` takes labels.
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


class Arrays:
    """Data leaves of a model, by label.

    Parameters
    ----------
    model : pymc.Model
    n_rows, units : int
    public : collection of str or array
        See `pymc_dp.records.reader.read`.
    other_tables : collection of int
        Numbers of records of other tables: arrays of such a length are private, but hold no record of this
        table.

    Attributes
    ----------
    leaves : dict of str to Variable
    declared : set of Variable
        Leaves that `public` names.
    names : set of str
        All names in `public`: of arrays, and of free variables.
    inside : set of Variable
        Constants within Ops, and arrays that functions of users put into a graph: they cannot be put behind
        shared variables.
    computed : set of Variable
        Arrays as long as there are records that PyTensor computed, where that number is private.

    Raises
    ------
    ValueError
        `public` has a name or an array that the model does not have.
    """

    def __init__(
        self,
        model: pm.Model,
        n_rows: int,
        units: int,
        public: Collection[object],
        other_tables: Collection[int] = (),
    ):
        self.model, self.n_rows, self.units, self.other_tables = model, n_rows, units, set(other_tables)
        public = [public] if isinstance(public, str) else list(public)
        self.names = {given for given in public if isinstance(given, str)}
        self.leaves: dict[str, Variable] = {}
        self._label_all()
        self.inside = set(graph.inner_leaves(graphs_of(model)))
        self.declared: set[Variable] = set()
        self.computed: set[Variable] = set()
        # Arrays that enter when a density is derived have labels only then.
        self._pending = [given for given in public if not self._declare(given)]

    def _declare(self, given: object) -> bool:
        """Declare the leaves that an entry of `public` refers to; return whether there is such a thing."""
        if isinstance(given, str):
            found = [v for label, v in self.leaves.items() if label == given]
            known = bool(found) or given in self._variables()
        else:
            array = graph.leaf_value(given) if isinstance(given, Variable) else given
            found = [v for v in self.leaves.values() if memory.same(graph.leaf_value(v), array)]
            known = bool(found)
        self.declared.update(found)
        return known

    def _variables(self) -> set[str]:
        """Names of what may be declared as public beside arrays: it holds no record."""
        model = self.model
        return {v.name for v in (*model.free_RVs, *model.potentials, *model.deterministics)}

    def is_private(self, leaf: Variable) -> bool:
        """Return whether a leaf has an axis of records, of this table or another."""
        sizes = {self.n_rows, *self.other_tables}
        return leaf not in self.declared and not sizes.isdisjoint(np.shape(graph.leaf_value(leaf)))

    def is_of_another(self, leaf: Variable) -> bool:
        """Return whether a leaf has an axis of records of another table."""
        return self.is_private(leaf) and not self.other_tables.isdisjoint(np.shape(graph.leaf_value(leaf)))

    def _type(self, leaf: Variable) -> RowType:
        """Return the type of a leaf that holds records: `Rows`, or `Mixed` if these are another table's."""
        if self.is_of_another(leaf):
            return Mixed("an array with a row for each record of another table")
        return Rows(graph.axes_of_length(leaf, self.n_rows)[0])

    def is_hidden(self, leaf: Variable) -> bool:
        """Return whether a leaf holds records but cannot be put behind a shared variable: see `inside`."""
        return leaf in self.inside and self.is_private(leaf)

    def private(self) -> list[Variable]:
        """Return the leaves that hold records and can be put behind shared variables."""
        return [v for v in self.leaves.values() if self.is_private(v) and v not in self.inside]

    def others(self, outputs: Sequence[Variable]) -> dict[Variable, RowType]:
        """Return types of the arrays with an axis of records that graphs read."""
        return {leaf: self._type(leaf) for leaf in graph.data_leaves(outputs) if self.is_private(leaf)}

    def label_new(self, opaque: OpaqueModel, graphs: Sequence[Variable]) -> None:
        """Label arrays that functions of users put into derived graphs, such as those of a closure.

        Those that are constants and hold records are refused later (`inside`).

        Parameters
        ----------
        graphs : sequence of Variable
            All derived graphs.
        """
        known = {*opaque.original, *self.leaves.values()}
        brought = self._asked_about(opaque.brought)
        left = [*graph.data_leaves(graphs), *graph.inner_leaves(graphs)]
        new = [v for v in dict.fromkeys([*brought, *left]) if v not in known and _has_data(v)]
        self.inside.update(graph.inner_leaves(graphs), brought)
        if opaque.number is not None:
            shared = [v for v in new if isinstance(v, SharedVariable)]
            self.inside.update(v for v in shared if opaque.number in known_shape(v))
            self.computed = {v for v in new if v not in [*brought, *shared] and self.is_private(v)}
        for k, leaf in enumerate(new):
            self._label(leaf.name or f"density.array_{k + 1}", leaf)
        named = [graph.leaf_value(leaf) for leaf in self.declared]
        self.declared.update(leaf for leaf in new if self._is_view(leaf, named))
        for given in self._pending:
            if not self._declare(given):
                what = repr(given) if isinstance(given, str) else "an array"
                raise ValueError(f"public= has {what}; the model reads {sorted(self.leaves)} (dp.inspect).")
        opaque.original |= {leaf: leaf for leaf in new if self.is_private(leaf)}

    def unknown(self, opaque: OpaqueModel, graphs: Sequence[Variable]) -> list[Variable]:
        """Return arrays of users' functions, in graphs derived later, that are new and may hold records."""
        shared = [v for v in graph.data_leaves(graphs) if isinstance(v, SharedVariable)]
        known = {*opaque.original, *self.leaves.values()}
        named = [graph.leaf_value(leaf) for leaf in self.declared]
        asked = self._asked_about([*opaque.brought, *shared])
        return [v for v in asked if v not in known and not self._is_view(v, named)]

    def _asked_about(self, arrays: Sequence[Variable]) -> list[Variable]:
        """Return arrays that may hold records: by their shape, or by sharing memory with such an array."""
        rows = [graph.leaf_value(v) for v in self.leaves.values() if self.is_private(v)]
        sizes = {int(np.prod(np.shape(row))) for row in rows}
        found = []
        for v in dict.fromkeys(arrays):
            value, refused = graph.leaf_value(v), list[object]()
            checks.public_arrays({"": np.shape(value)}, self.n_rows, self.units, sizes, refused.append)
            if refused or self.is_private(v) or any(memory.shared(value, row) for row in rows):
                found.append(v)
        return found

    def _is_view(self, leaf: Variable, named: Sequence[np.ndarray]) -> bool:
        """Return whether a leaf is one of these arrays in another shape: derivations add axes."""
        value = graph.leaf_value(leaf)
        return any(np.size(value) == np.size(one) and memory.shared(value, one) for one in named)

    def _label_all(self) -> None:
        """Label leaves with a dimension: their names, or the first variable that reads them and a number."""
        model, seen = self.model, set()
        observed = [(rv.name, model.rvs_to_values[rv]) for rv in model.observed_RVs]
        for name, value in observed:
            if value.owner is None and value not in seen:
                self.leaves[value.name or name] = value
                seen.add(value)
        readers = [*model.basic_RVs, *model.deterministics, *model.potentials]
        graphs = [*((reader.name, reader) for reader in readers), *observed]
        for name, output in [*graphs, *(("model", v) for v in graphs_of(model))]:
            leaves = [*graph.data_leaves([output]), *graph.inner_leaves([output])]
            new = [v for v in dict.fromkeys(leaves) if v not in seen and _has_data(v)]
            for k, leaf in enumerate(new):
                self._label(leaf.name or f"{name}.array_{k + 1}", leaf)
            seen.update(new)

    def _label(self, label: str, leaf: Variable) -> None:
        while label in self.leaves:
            label += "'"
        self.leaves[label] = leaf

    def check(self, densities: Sequence[Variable], refuse: checks.Refuse) -> None:
        """Refuse arrays that may hold records, but not one entry a record."""
        read = with_entries([*graphs_of(self.model), *densities]) | self.inside
        rows = {label: graph.leaf_value(v) for label, v in self.leaves.items() if self.is_private(v)}
        observed = {self.model.rvs_to_values[rv] for rv in self.model.observed_RVs}
        sizes = {int(np.prod(np.shape(row))) for row in rows.values()}
        shapes: dict[str, tuple[int, ...]] = {}
        for label, leaf in self.leaves.items():
            value = graph.leaf_value(leaf)
            if leaf in self.declared and leaf in observed:
                refuse(refusals.refuse_public_observed(label))
            if self.is_hidden(leaf):
                refuse(refusals.refuse_inner(label))
            if leaf in self.computed and len(np.unique(value)) > 1:
                refuse(refusals.refuse_computed(label))
            if leaf in self.declared or self.is_private(leaf) or leaf not in read:
                continue
            if not any(memory.same(value, graph.leaf_value(self.leaves[other])) for other in shapes):
                shapes[label] = np.shape(value)
        checks.public_arrays(shapes, self.n_rows, self.units, sizes, refuse)
        for label in shapes:
            value = graph.leaf_value(self.leaves[label])
            if any(memory.shared(value, row) for row in rows.values()):
                refuse(refusals.refuse_view(label))
        for rv, value in self.model.rvs_to_initial_values.items():
            if any(memory.shared(value, row) for row in rows.values()):
                refuse(refusals.refuse_start(repr(rv.name), "it is a part of an array of records"))

    def _read(self, densities: Sequence[Variable]) -> set[Variable]:
        """Return the variables that are read as more than a size."""
        graphs = [*graphs_of(self.model), *densities]
        return (graph.read_as_values(graphs) & with_entries(graphs)) | self.inside

    def check_memory(
        self, opaque: OpaqueModel, axes: Mapping[Variable, RowType], refuse: checks.Refuse
    ) -> None:
        """Refuse arrays whose memory overlaps such that one person's values are in several rows."""
        labels = {leaf: label for label, leaf in self.leaves.items()}
        rows = [
            (labels[leaf], graph.leaf_value(leaf), t.axis)
            for new, t in axes.items()
            if isinstance(t, Rows) and (leaf := opaque.original[new]) in labels
        ]
        for label, a, axis in rows:
            if memory.overlapping(a, axis):
                refuse(refusals.refuse_shifted(label, label))
        for (label, a, axis), (other, b, axis_b) in itertools.combinations(rows, 2):
            if memory.shifted(a, b, axis, axis_b):
                refuse(refusals.refuse_shifted(label, other))
        foreign = [(label, graph.leaf_value(v)) for label, v in self.leaves.items() if self.is_of_another(v)]
        for (label, a, _), (other, b) in itertools.product(rows, foreign):
            if memory.shared(a, b):
                refuse(refusals.refuse_shifted(label, other))

    def one_axis(self, refuse: checks.Refuse) -> bool:
        """Refuse tables with two axes of records, which may be about pairs of them."""
        two = [v for v in self.private() if len(graph.axes_of_length(v, self.n_rows)) > 1]
        if two:
            labels = [label for label, v in self.leaves.items() if v in two]
            refuse(refusals.refuse_two_axes(labels, self.n_rows))
        return not two

    def sources(self, opaque: OpaqueModel) -> dict[Variable, RowType]:
        """Return the types of the arrays that hold records."""
        private = [(new, old) for new, old in opaque.original.items() if self.is_private(old)]
        return {new: self._type(old) for new, old in private}

    def read(self, outputs: Sequence[Variable], axes: Mapping[Variable, int]) -> list[Array]:
        """Return all arrays that are read as more than a size or a single number."""
        read = self._read(outputs)
        found = []
        for label, leaf in self.leaves.items():
            value = graph.leaf_value(leaf)
            if leaf in axes or leaf in self.declared or (leaf in read and np.size(value) != 1):
                kind = DECLARED if leaf in self.declared else PRIVATE if self.is_private(leaf) else TAKEN
                found.append(Array(label, tuple(np.shape(value)), str(value.dtype), kind, axes.get(leaf)))
        named = sorted(self.names & self._variables() - self.leaves.keys())
        return [*found, *(Array(name, (), "variable", DECLARED) for name in named)]


def with_entries(outputs: Sequence[Variable]) -> set[Variable]:
    """Return variables whose entries are read, also as a size; not those of which only the shape is read."""
    return graph.read_through(
        outputs, lambda node: [] if isinstance(node.op, Shape | Shape_i) else node.inputs
    )


def _has_data(leaf: Variable) -> bool:
    return isinstance(leaf.type, HasShape) and bool(np.shape(graph.leaf_value(leaf)))
