"""Reads a model: decides what is private, what may be released and what is refused; see `reading`.

Everything is decided from the graph (`row_types`), before anything that reads records is compiled; no value
of an array is looked at, only names, shapes and types.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Unpack

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.compile import SharedVariable
from pytensor.graph import Variable, ancestors
from pytensor.graph.type import HasShape

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import checks, gate, graph, refusals, written_numbers
from pymc_dp.records.arrays import FEW, Arrays
from pymc_dp.records.lengths import dims_of_records, number_of_rows, tables_of
from pymc_dp.records.opaque import OpaqueModel, graphs_of
from pymc_dp.records.public_positions import public_positions
from pymc_dp.records.reading import Reading, ReadingSettings, VariableReading
from pymc_dp.records.row_types import PUBLIC, ByPlace, Mixed, Rows, RowType, Typing
from pymc_dp.records.row_types.ops import public_number


def _raise(error: ModelRefusedError) -> None:
    raise error


def read(
    model: pm.Model,
    units: int | None = None,
    observed: Collection[str] | None = None,
    refuse: checks.Refuse = _raise,
    effects: Collection[str] = (),
    **settings: Unpack[ReadingSettings],
) -> Reading:
    """Read a model.

    Parameters
    ----------
    model : pymc.Model
    units : int, optional
        Number of privacy units, if units are not the rows. A unit may then have several rows, and the number
        of rows is private, even if it equals the number of units.
    exclude_deterministics : collection of str
        Deterministics that are not released although they read no record; those that do are never released.
    public : collection of str or array
        Arrays, by label or as objects, that hold no record despite their shape; free variables that have as
        many entries as there are records by coincidence; and free variables, Potentials and Deterministics
        that are written with more numbers than others (`written_numbers`), and with none of a record.
    trusted_ops : collection of str or type
        Ops without a rule that act on each record by itself.
    neighboring_relation : {"substitute", "add_remove"}
    observed : collection of str, optional
        Observed variables whose rows are the records: one table of several (`tables_of`). Default: all.
    refuse : callable, optional
        Called with every refusal; by default the first one is raised.
    effects : collection of str
        Observed variables that stand for effects of persons (`records.effects`).

    Returns
    -------
    Reading

    Raises
    ------
    ModelRefusedError
    ValueError
        `public` or `exclude_deterministics` has a name that the model does not have.
    """
    return _Reader(model, units, observed, refuse, **settings).read().integrated(effects)


class _Reader:
    def __init__(
        self,
        model: pm.Model,
        units: int | None,
        observed: Collection[str] | None,
        refuse: checks.Refuse,
        exclude_deterministics: Collection[str] = (),
        public: Collection[object] = (),
        trusted_ops: Collection[object] = (),
        neighboring_relation: str = "substitute",
    ):
        relation = neighboring_relation
        checks.known_names(model, exclude_deterministics)
        self.model, self.exclude, self.refuse = model, set(exclude_deterministics), refuse
        self.n_rows = number_of_rows(model, observed)
        self.units = self.n_rows if units is None else units
        other_tables = set() if observed is None else set(tables_of(model)) - {self.n_rows}
        self.data = Arrays(model, self.n_rows, self.units, public, other_tables)
        # If a person may have several rows, replacing one changes the number of rows.
        of_rows = relation if units is None else "add_remove"
        # The numbers, of rows and of units, that are private: no length of a dimension may reveal them.
        private = {self.n_rows} if of_rows == "add_remove" else set()
        private |= {self.units} if relation == "add_remove" else set()
        number = self.n_rows if self.n_rows in private else None
        self.opaque = OpaqueModel(model, self.data.private(), observed, number, private)
        lengths = [v for v in self.opaque.lengths.values() if public_number(v) in private]
        self.typing = Typing(self.n_rows, of_rows, trusted_ops, lengths)
        self.found = Reading(self.n_rows, self.data, self.opaque, self.typing)

    def read(self) -> Reading:
        model, found = self.model, self.found
        names = list(self.opaque.observed)
        if not self._given():  # before anything is derived: a rewrite may hide what made a value
            return found
        densities, start = self._derived()
        for name in names:
            checks.deterministic_likelihood(name, *graph.flatten([densities[name]]))
            checks.observed_term(name, densities[name].type.ndim, self.n_rows)
        factors = self.opaque.on_values(list(self.opaque.potentials.values()))
        potentials = dict(zip(self.opaque.potentials, factors, strict=True))
        # Constants in initial values were chosen by the user: only shared variables are looked at.
        shared = [v for v in graph.data_leaves(start) if isinstance(v, SharedVariable)]
        derived = [*densities.values(), *potentials.values(), *shared]
        if not self._same_always(derived):
            return found
        self.data.label_new(self.opaque, derived)
        self.data.check(derived, self.refuse)
        conditions: list[Variable] = []
        terms = dict(zip(names, graph.flatten([densities[name] for name in names], conditions), strict=True))
        sources = self.data.sources(self.opaque)
        self.data.check_memory(self.opaque, sources, self.refuse)
        self.typing([*terms.values(), *conditions], sources)
        terms = {name: self._records_first(term, sources) for name, term in terms.items()}
        found.terms = list(terms.values())
        axes = {leaf: t.axis for leaf, t in sources.items() if isinstance(t, Rows)}
        found.roots = {leaf: axes[leaf] for leaf in graph.data_leaves(found.terms) if leaf in axes}
        for name, term in {rv.name: densities[rv.name] for rv in model.free_RVs}.items():
            self._prior(name, term, "The prior of", conditions)
        for name, term in potentials.items():
            self._prior(name, term, "Potential", conditions)
        self._start(start, sources)
        for condition in conditions:
            (found.conditions if self.typing.of(condition) is PUBLIC else found.stripped).append(condition)
        for name, term in terms.items():
            self._likelihood(name, term)
        self._deterministics(sources)
        written_numbers.check(found, densities, self.refuse)
        self._dims(sources)
        found.arrays = self.data.read(
            [*found.terms, *found.log_priors],
            {self.opaque.original[leaf]: axis for leaf, axis in axes.items()},
        )
        found.watched = [
            v
            for v in graph.data_leaves(graphs_of(model))
            if isinstance(v, SharedVariable) and isinstance(v.type, HasShape)  # numbers may be sizes
        ]
        # After everything is typed; positions are checked in the model as it was written.
        shapes = {v: np.shape(found.start[v.name]) for v in model.value_vars if v.name in found.start}
        positions = [*found.terms, *found.log_priors]
        found.conditions += public_positions(positions, self.typing.types | sources, shapes)
        found.trusted = sorted(self.typing.trusted_used)
        order = list(model.named_vars)
        found.variables.sort(key=lambda v: order.index(v.name))
        return found

    def _derived(self) -> tuple[dict[str, Variable], list[Variable]]:
        """Derive elementwise log-densities, and initial values.

        If PyMC fails, arrays that a function of the user's put into the graph are refused first.
        """
        try:
            return self.opaque.log_densities(), self.opaque.start()
        except ModelRefusedError:
            self.data.label_new(self.opaque, [])
            self.data.check([], self.refuse)
            raise

    def _given(self) -> bool:
        """Type the inputs of random variables as the user wrote them.

        Returns whether a density may be derived from them.
        """
        if not self._same_always(graphs_of(self.model)):
            return False
        for label, leaf in self.data.leaves.items():
            if self.data.is_hidden(leaf):
                self.refuse(refusals.refuse_inner(label))
                return False
        if not self.data.one_axis(self.refuse):
            return False
        fit = True
        for rv, clone in self.opaque.rvs.items():
            observed = rv in self.model.observed_RVs
            if observed and rv.name not in self.opaque.observed:
                continue  # it belongs to another table
            if self.opaque.number_stays_in(clone):
                self.refuse(refusals.refuse_shape_by_numbers())
                fit = False
            given, typing = self.found.inputs_of(clone)
            types = [t for t in map(typing.of, given) if t is not PUBLIC]
            mixed = (t for t in types if isinstance(t, Mixed) and not isinstance(t, ByPlace))
            t = next(mixed, types[0] if types else PUBLIC)
            # A free variable with an entry for each record is refused in `_start`.
            if (isinstance(t, Mixed) and not isinstance(t, ByPlace)) or (t is not PUBLIC and not observed):
                error = refusals.refuse_coupled if observed else refusals.refuse_prior
                self._refuse(rv.name, why(t), error(rv.name, why(t)))
                fit = False
        return fit

    def _same_always(self, graphs: Sequence[Variable]) -> bool:
        """Refuse shared variables that change when they are read."""
        if changing := graph.changing(graphs):
            self.refuse(refusals.refuse_changing([v.name for v in changing]))
        return not changing

    def _records_first(self, term: Variable, sources: Mapping[Variable, RowType]) -> Variable:
        """Move a term's axis of records to the front: other axes may be before it."""
        t = self.typing.of(term)
        if not isinstance(t, Rows) or t.axis == 0:
            return term
        moved = pt.moveaxis(pt.as_tensor(term), t.axis, 0)
        self.typing([moved], sources)
        return moved

    def _likelihood(self, name: str, term: Variable) -> None:
        t = self.typing.of(term)
        if t == Rows(0):
            self._add(name, "likelihood", "one term a record, clipped")
        else:
            self._refuse(name, why(t), refusals.refuse_coupled(name, why(t)))

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
            self._refuse(name, why(t), refusals.refuse_prior(name, why(t), kind))

    def _start(self, start: Sequence[Variable], sources: Mapping[Variable, RowType]) -> None:
        """Refuse initial values and support points that read records: they are shown, and begin a chain."""
        typing = self.typing.again()
        typing(start, {**sources, **self.data.others(start)})
        private = {
            rv.name: t
            for rv, value in zip(self.model.free_RVs, start, strict=True)
            if (t := typing.of(value)) is not PUBLIC
        }
        for name, t in private.items():
            self._refuse(name, f"initial value: {why(t)}", refusals.refuse_start(repr(name), why(t)))
        if private:
            return
        self.found.start = gate.initial_point(self.model)
        for rv in self.model.free_RVs:
            value = self.model.rvs_to_values[rv]
            shape = np.shape(self.found.start[value.name])
            if rv.name not in self.data.names and self._is_latent(value, shape, sources):
                self._refuse(rv.name, "an entry for each record", refusals.refuse_latent(rv.name, shape))

    def _is_latent(
        self, value: Variable, shape: tuple[int, ...], sources: Mapping[Variable, RowType]
    ) -> bool:
        """Return whether a free variable has an entry for each record or unit.

        The entry stands beside its own record, or is looked up. One entry less counts as well, unless there
        are few records: such variables are differences, or effects that sum to zero. So do multiples.
        """
        sizes = {self.n_rows, self.units}
        if value not in set(ancestors(self.found.terms)):
            return False
        for size in sizes:
            if size > FEW and any(n == size - 1 or (n > size and n % size == 0) for n in shape):
                return True
        for axis in (axis for axis, length in enumerate(shape) if length in sizes):
            typed = self.typing.again()(self.found.terms, {**sources, value: Rows(axis)})
            if all(typed[term] == Rows(0) for term in self.found.terms):
                return True
        rows = {v for v, t in self.typing.types.items() if isinstance(t, Rows)}
        counted = {size for size in sizes if size > FEW or size != self.n_rows}
        many = self.units > FEW and self.units in shape  # few coefficients may be as many by coincidence
        return bool(counted & set(shape)) and graph.looked_up(value, self.found.terms, rows, products=many)

    def _deterministics(self, sources: Mapping[Variable, RowType]) -> None:
        found, names = self.found, [d.name for d in self.model.deterministics]
        graphs = self.opaque.with_observed([self.opaque.deterministics[name] for name in names])
        typing = self.typing.again()
        free: dict[Variable, RowType] = dict.fromkeys(self.opaque.free.values(), PUBLIC)
        typing(graphs, {**sources, **self.data.others(graphs), **free})
        found.released = [rv.name for rv in self.model.free_RVs]
        released = [out for name, out in zip(names, graphs, strict=True) if name not in self.exclude]
        public_positions(released, typing.types, {})
        for name, output in zip(names, graphs, strict=True):
            t = typing.of(output)
            if name in self.exclude:
                self._add(name, "withheld", "excluded")
            elif t is PUBLIC:
                found.released.append(name)
                self._add(name, "released", "reads no record")
            else:
                found.left_out[name] = t
                self._add(name, "left out", f"reads rows: not released ({why(t)})")
        self.typing.trusted_used |= typing.trusted_used

    def _dims(self, sources: Mapping[Variable, RowType]) -> None:
        """Find dimensions of records: those of variables with a row a record, and all of the same length."""
        model, typing = self.model, self.typing.again()
        lengths = self.opaque.lengths
        typing(list(lengths.values()), sources)
        for name, length in lengths.items():
            if isinstance(t := typing.of(length), Mixed | Rows):
                self.refuse(refusals.refuse_dim(name, why(t)))
        axes = {self.opaque.original[leaf].name: t.axis for leaf, t in sources.items() if isinstance(t, Rows)}
        axes |= dict.fromkeys(self.opaque.observed, 0)
        axes |= {name: t.axis for name, t in self.found.left_out.items() if isinstance(t, Rows)}
        # Lengths of units and of other tables. If units are not rows, the number of rows is private.
        sizes = {self.units, *self.data.other_tables}
        self.found.withheld_dims = dims_of_records(model, axes, lengths, sizes)

    def _refuse(self, name: str, why: str, error: ModelRefusedError) -> None:
        self._add(name, "refused", why)
        self.refuse(error)

    def _add(self, name: str, role: str, why: str) -> None:
        self.found.variables.append(VariableReading(name, role, why))


def why(t: RowType) -> str:
    """Describe why a type is not public."""
    if isinstance(t, Mixed):
        return t.why
    if isinstance(t, Rows):
        return "one value for each record"
    return "the number of records, which is private"
