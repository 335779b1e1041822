"""The public part of a model: the model without everything that reads a record."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import product
from typing import NamedTuple

import numpy as np
import pymc as pm
from pymc.logprob.transforms import Transform
from pytensor import config
from pytensor.compile import SharedVariable
from pytensor.graph import Variable, ancestors, clone_replace
from pytensor.graph.type import HasShape

from pymc_dp.likelihood import left_out
from pymc_dp.likelihood.near_zero import NearZero
from pymc_dp.likelihood.parametrization import Estimates, centring_of
from pymc_dp.likelihood.step_length import longest_step
from pymc_dp.likelihood.words import in_words, make_unique
from pymc_dp.records.arrays import with_entries
from pymc_dp.records.coefficients import bounds_of
from pymc_dp.records.derivatives import check_slopes
from pymc_dp.records.refusals import check_generative, check_seen
from pymc_dp.records.several_tables import Records, TablesTwins
from pymc_dp.records.twins import Twins


class PublicGraphs(NamedTuple):
    """Graphs of a public model, by name.

    Attributes
    ----------
    free, potentials, deterministics, data, lengths : dict of str to Variable
        `lengths` has the lengths of dimensions.
    initial : dict of str to Variable
        Initial values of free variables, where these are graphs.
    phi : dict of str to Variable
        Parts of the likelihood coordinates, by their numbers.
    """

    free: dict[str, Variable]
    initial: dict[str, Variable]
    phi: dict[str, Variable]
    potentials: dict[str, Variable]
    deterministics: dict[str, Variable]
    data: dict[str, Variable]
    lengths: dict[str, Variable]

    @property
    def named(self) -> dict[str, Variable]:
        """All variables that a model lists by name."""
        return {**self.data, **self.free, **self.deterministics, **self.potentials}

    @property
    def outputs(self) -> list[Variable]:
        """All graphs, in order."""
        return [graph for graphs in self for graph in graphs.values()]

    def cloned(self, replaced: dict[Variable, Variable] | None = None, own: bool = False) -> "PublicGraphs":
        """Clone the graphs, with copies of shared variables, and of constants if `own` is true."""
        outputs = self.outputs
        if replaced:
            outputs = clone_replace(outputs, replaced, rebuild_strict=False)
        leaves = [v for v in dict.fromkeys(ancestors(outputs)) if v.owner is None]
        copies = {v: left_out.copied(v) for v in leaves if isinstance(v, SharedVariable) or own}
        outputs = clone_replace(outputs, {old: new for old, new in copies.items() if new is not old})
        for v in ancestors(outputs) if own else ():
            v.name = left_out.plain(v.name)
        clones = iter(outputs)
        return PublicGraphs(*({left_out.plain(name): next(clones) for name in graphs} for graphs in self))


class Part(NamedTuple):
    """A part of the likelihood coordinates.

    Attributes
    ----------
    name : str
        Name of a variable, if the part is one; else its expression in words.
    shape : tuple of int
    expression : str
        The part as a function of the free variables, in words.
    """

    name: str
    shape: tuple[int, ...]
    expression: str

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return int(np.prod(self.shape, dtype=int))


def name_numbers(parts: Sequence[Part]) -> list[str]:
    """Name each number of the coordinates: ``beta[0]``."""
    return [
        part.name + (f"[{', '.join(map(str, index))}]" if index else "")
        for part in parts
        for index in product(*map(range, part.shape))
    ]


class PublicModel:
    """The public part of a model: graphs that have nothing private in them.

    Parameters
    ----------
    records : RecordModel or Tables

    Attributes
    ----------
    parts : list of Part
        The likelihood coordinates.
    bounds : ndarray, shape (2, p)
        Limits within which the search keeps the likelihood coordinates.
    support : ndarray, shape (2, p)
        Bounds of the prior, for coordinates that are variables on their original scale with constant bounds.
    near_zero : NearZero
        The released coordinates as functions of the ones that the search uses.
    longest_step : float
        Longest step of a search, in units in which one record has Fisher information 1.

    Raises
    ------
    PrivacyError
        A graph that was read as public has an array of records.

    Notes
    -----
    **Privacy.** Made of the graphs that `records.reader` typed as public, and of public arrays. A public
    graph can read the shape of a private array. Zeros of that shape replace the array, so that no value is
    there even if typing is wrong. No row is read.
    """

    def __init__(self, records: Records):
        reading, model = records.reading, records._model
        opaque, hidden, plain = reading.opaque, set(records.withheld_dims), left_out.plain
        released = [name for name in opaque.deterministics if name in records.released_variables]
        deterministics, potentials = (
            dict(zip(names, opaque.with_observed([group[name] for name in names]), strict=True))
            for names, group in ((released, opaque.deterministics), (opaque.potentials, opaque.potentials))
        )
        free: dict[str, Variable] = opaque.free
        initial = {
            name: opaque.initial_values.get(rv, model.rvs_to_initial_values[rv])
            for rv, name in zip(model.free_RVs, free, strict=True)
        }
        given = {name: v for name, v in initial.items() if isinstance(v, Variable)}
        self._transforms = {plain(name): opaque.transforms[clone] for name, clone in free.items()}
        self._initial = {plain(k): plain(deepcopy(v)) for k, v in initial.items() if k not in given}
        sources = records.coordinates.sources
        public = (free, given, potentials, deterministics)
        graphs = [*(v for group in public for v in group.values()), *sources]
        data = _public_data(records, graphs)
        dims = {
            name: tuple(None if dim in hidden else dim for dim in model.named_vars_to_dims.get(name, ()))
            for name in [*free, *data, *potentials, *deterministics]
        }
        used = {dim for of_one in dims.values() for dim in of_one}
        lengths = {name: length for name, length in opaque.lengths.items() if name in used}
        self.longest_step = longest_step(model.observed_RVs)
        self._dims = {plain(name): tuple(map(plain, one)) for name, one in dims.items() if any(one)}
        self._coords = {plain(name): left_out.labels_of(name, model.coords[name]) for name in lengths}
        self._order = [*map(plain, model.named_vars)]
        self.parts = _parts(records, deterministics)
        left_out.check_public(records, [*graphs, *lengths.values()])
        spreads = records.coordinates.spreads
        whole = records.coordinates.replaced
        phi = [source if source in whole else _on_its_scale(source, opaque.transforms) for source in sources]
        phi = [spreads[v].coordinate(x) if v in spreads else x for v, x in zip(sources, phi, strict=True)]
        pairs = zip(self.parts, sources, strict=True)
        each = [(spreads.get(source), k) for part, source in pairs for k in range(part.size)]
        self.near_zero = NearZero({i: one for i, (one, k) in enumerate(each) if one and one.holds(k)})
        own, anywhere = records.coordinates.bounds, (-np.inf, np.inf)
        within = [own.get(v, anywhere) for v in sources]
        priors = [(v in own and bounds_of(v, opaque.transforms[v])) or anywhere for v in sources]
        sizes = [part.size for part in self.parts]
        self.bounds, self.support = (np.repeat(np.array(one).T, sizes, axis=1) for one in (within, priors))
        numbered = {str(k): one for k, one in enumerate(phi)}
        found = PublicGraphs(free, given, numbered, potentials, deterministics, data, lengths)
        instead = left_out.read_by_shape(found.outputs) | left_out.stand_ins(records)
        self.graphs = found.cloned(instead, own=True)

    def model(
        self,
        log_likelihood: Callable[[Sequence[Variable]], Variable],
        estimates: Mapping[str, Estimates] | None = None,
    ) -> pm.Model:
        """Make a PyMC model of the public part, with the likelihood as a Potential.

        Parameters
        ----------
        log_likelihood : callable
            Function of the likelihood coordinates, one graph for each part; returns a scalar.
        estimates : dict of str to Estimates, optional
            Mode and information of the likelihood for each part. The parametrisation of levels of groups is
            chosen by them (`centring_of`).
        """
        # New nodes keep no traceback. The model is independent of any context that is open.
        with config.change_flags(traceback__limit=0), pm.Model(model=None) as model:
            graphs = self.graphs.cloned()
            for name, length in graphs.lengths.items():
                model.add_coord(name, deepcopy(self._coords[name]), length=length)
            for name in sorted(graphs.named, key=self._order.index):
                variable = graphs.named[name]
                variable.name = name
                if name in graphs.free:
                    model.free_RVs.append(variable)
                    transform = self._transforms[name]
                    if (
                        transform is None
                        and estimates is not None
                        and f"{name}_centring__" not in graphs.named
                    ):
                        transform = centring_of(variable, {*graphs.free.values()}, estimates.get(name))
                    model.create_value_var(variable, transform=transform, default_transform=None)
                    model.set_initval(variable, graphs.initial.get(name, deepcopy(self._initial.get(name))))
                elif name in graphs.data:
                    model.data_vars.append(variable)
                elif name in graphs.potentials:
                    model.potentials.append(variable)
                else:
                    model.deterministics.append(variable)
                model.add_named_variable(variable, dims=self._dims.get(name))
            add_potential(log_likelihood([*graphs.phi.values()]))
        return model


def read_public(records: Records, twins: Twins | TablesTwins) -> PublicModel:
    """Read the public part of a model, and check that a likelihood of it can be released.

    Raises
    ------
    PrivacyError
        No likelihood can be released.
    """
    part = PublicModel(records)
    check_generative(twins.unlike)
    check_seen(twins.touched)
    for table in records.tables:
        check_slopes(table.reading)
    return part


def add_potential(log_likelihood: Variable, name: str | None = None) -> Variable:
    """Add a Potential to the model of the context; by default with a name that is not taken.

    Parameters
    ----------
    log_likelihood : Variable, scalar
    name : str, optional
    """
    model = pm.modelcontext(None)
    taken = [*model.named_vars, *model.coords]
    names = [f"likelihood_{k}" for k in range(2, len(taken) + 3)]
    free = (one for one in ["likelihood", *names] if model.name_for(one) not in taken)
    return pm.Potential(name or next(free), log_likelihood)


def _public_data(records: Records, graphs: Sequence[Variable]) -> dict[str, Variable]:
    """Return public `pymc.Data` that a public graph reads, or that was taken as public when it was read."""
    arrays, known = left_out.arrays_of_records(records), left_out.known_to_be_public(records)
    known |= {v for v in with_entries(graphs) if isinstance(v.type, HasShape)}
    private = set(arrays) | set(arrays.values())
    return {data.name: data for data in records._model.data_vars if data in known - private}


def _parts(records: Records, deterministics: Mapping[str, Variable]) -> list[Part]:
    """Return the parts of the likelihood coordinates: names, shapes and expressions in words."""
    seen, opaque = records.coordinates, records.reading.opaque
    known = {variable: name for name, variable in opaque.free.items()}
    names, expressions = [], []
    for source, (name, _) in zip(seen.sources, seen.names, strict=True):
        said, own = in_words(source, known), name if name in deterministics else None
        if source in seen.spreads:
            own = said = seen.spreads[source].in_words(known[source])
        elif source in known:
            transform = None if source in seen.replaced else opaque.transforms[source]
            own = known[source] if transform is None else f"{known[source]}_{transform.name}__"
            said = known[source] if transform is None else f"{transform.name}({known[source]})"
        names.append(left_out.plain(own or said))
        expressions.append(left_out.plain(said))
    # `potential` has an argument of that name.
    unique = make_unique(names, taken=["name"])
    return [Part(*one) for one in zip(unique, seen.shapes.values(), expressions, strict=True)]


def _on_its_scale(source: Variable, transforms: Mapping[Variable, Transform | None]) -> Variable:
    """Return the transformed value of a free variable, which the likelihood reads; others unchanged."""
    transform = transforms.get(source)
    return source if transform is None else transform.forward(source, *source.owner.inputs)
