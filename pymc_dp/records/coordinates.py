"""Likelihood coordinates phi: a public function of the parameters, on which alone the likelihood depends.

In ``level = mean + tau * z; y ~ Bernoulli(logit(level[group] + x beta))`` the log-likelihood is a function of
phi = (level, beta), and nearly quadratic in it; in the parameters theta = (mean, log tau, z, beta) it is not.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.transforms import ZeroSumTransform
from pymc.logprob import transformed_conditional_logp
from pymc.logprob.transforms import LogTransform
from pytensor.graph import Variable, ancestors, clone_replace
from pytensor.tensor import TensorVariable

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import gate, graph
from pymc_dp.records.coefficients import bounds_of, find_coefficients
from pymc_dp.records.derivatives import both_near, gradients, is_shear, rank_near
from pymc_dp.records.opaque import OpaqueModel
from pymc_dp.records.outcome_bounds import with_bound
from pymc_dp.records.public_nodes import PublicNode, PublicNodes
from pymc_dp.records.spreads import Spread, find_spreads
from pymc_dp.records.sums import Points


@dataclass(eq=False)
class Coordinates:
    """A public function phi of the parameters, on which alone the likelihood depends.

    Parameters
    ----------
    theta : Variable, vector of length d
    vector : Variable, vector of length p
        phi as an input; `theta` itself if phi is the identity.
    of_theta : Variable, vector of length p
        phi as a function of `theta`; reads no record.
    names : sequence of (str or None, slice)
        Variables of the model (free, or deterministic) that phi consists of, and their parts of phi.
    open_terms : sequence of Variable
        Flattened per-record terms, as functions of a separate variable for each part of phi.
    shapes : mapping of Variable to tuple of int
        Shapes of these separate variables, in the order of their numbers in `vector`.
    sources : sequence of Variable
        For each separate variable: the free random variable whose (transformed) value it is, or the public
        graph of free random variables that it stands for.
    replaced : mapping of Variable to Variable
        Public nodes in the graphs of the random variables, and the functions of separate variables that
        replace them.
    spreads : dict of Variable to Spread
        Sources that are spreads and may be zero: see `spreads`.
    bounds : dict of Variable to (float, float)
        Bounds of the sources that are bounded and not transformed: see `coefficients`.

    Raises
    ------
    ModelRefusedError
        An Op between `theta` and phi has no derivative.
    """

    theta: Variable
    vector: TensorVariable
    of_theta: Variable
    names: Sequence[tuple[str | None, slice]]
    open_terms: list[Variable]
    shapes: dict[Variable, tuple[int, ...]]
    sources: list[Variable]
    replaced: dict[Variable, Variable]
    spreads: dict[Variable, Spread]
    bounds: dict[Variable, tuple[float, float]]

    def __post_init__(self) -> None:
        if not self.identity:
            u = pt.vector("u", shape=(self.size,), dtype="float64")
            (slope,) = gradients((self.of_theta * u).sum(), [self.theta])
            self._value = gate.compile_graph([self.theta], self.of_theta, private=(), mode=gate.CHECK_MODE)
            self._slope = gate.compile_graph([self.theta, u], slope, private=(), mode=gate.CHECK_MODE)

    @property
    def size(self) -> int:
        """Length p of phi."""
        return int(self.vector.type.shape[0])

    @property
    def identity(self) -> bool:
        """Whether phi is theta."""
        return self.vector is self.theta

    @property
    def columns(self) -> dict[Variable, slice]:
        """Parts of phi that belong to each of the separate variables."""
        return graph.columns_of(self.shapes)

    @property
    def of_nodes(self) -> dict[Variable, slice]:
        """Parts of phi that belong to each of the variables that are `replaced`."""
        places = list(self.columns.values())
        return dict(zip(self.replaced, places[len(places) - len(self.replaced) :], strict=True))

    def parts(self, phi: np.ndarray) -> dict[Variable, np.ndarray]:
        """Split a phi into the arrays of the separate variables."""
        return {v: phi[place].reshape(self.shapes[v]) for v, place in self.columns.items()}

    def read_by(self, outputs: Sequence[Variable]) -> list[int]:
        """Return the indices of the coordinates that graphs of the separate variables read."""
        read = set(ancestors(outputs))
        return [k for v, place in self.columns.items() if v in read for k in range(place.start, place.stop)]

    def joined(self, outputs: Sequence[Variable]) -> list[Variable]:
        """Rewrite graphs of the separate variables as graphs of `vector`."""
        return clone_replace(list(outputs), graph.slices(self.vector, self.shapes), rebuild_strict=False)

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        """Evaluate phi, shape (p,)."""
        if self.identity:
            return theta
        with np.errstate(all="ignore"):
            return self._value(theta)

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        """Compute the derivatives of phi by theta, shape (p, d)."""
        if self.identity:
            return np.eye(self.size)
        with np.errstate(all="ignore"):
            return np.stack([self._slope(theta, e) for e in np.eye(self.size)])


def likelihood_coordinates(records: Points) -> Coordinates:
    """Find phi in the graph; the parameters themselves where nothing better is found.

    Starting from the observed variables, phi consists of the nodes that depend on parameters and on no array
    with one entry a record, and that are nearest to the observed variables. A node that is a function of a
    single other node, entry by entry, is replaced by that node; a quotient of two, by its parts.
    ``mean + tau * z[group]`` is read as ``(mean + tau * z)[group]``. A phi is not used if it has more entries
    than there are parameters. With as many entries it is used only if it is a nonlinear map that preserves
    volume, as a shear does: otherwise it is only another scale of the parameters, and no better.

    A node that is positive by construction, a product or quotient of positive variables, is in phi by its
    logarithm.

    Bounded variables that are only added to others are in phi untransformed (`coefficients`).

    All numbers of a variable that sums to zero are in phi, and count as one less: records look them up by
    group. The sampler has one number less, each of them a weighted mean over all groups, from which a look-up
    by group could not be recognised.

    Parameters
    ----------
    records : RecordModel

    Returns
    -------
    Coordinates

    Notes
    -----
    **Privacy.** A function of the graph, of shapes and of the public start: no value of a record is read.
    Any choice is valid: clips and noise do not depend on how well phi is chosen.
    """
    identity, reading = parameters(records), records.reading
    # Where n is private, the choice must not depend on it.
    sizes = {records.n_rows, records.n} if records.neighboring_relation == "substitute" else set()
    observed, free_rvs, types = reading.generative()
    transforms = reading.opaque.transforms
    positive = [rv for rv in reading.opaque.free.values() if isinstance(transforms[rv], LogTransform)]
    sums = {rv for rv in reading.opaque.free.values() if isinstance(transforms[rv], ZeroSumTransform)}
    free = set(reading.opaque.free.values())
    constrained = {rv for rv in free - sums if transforms[rv] is not None and transforms[rv].ndim_supp}
    find = PublicNodes(observed, free_rvs, types, sizes, positive, constrained)
    bounds, closed = _coefficients(records), set[Variable]()
    while True:
        nodes = find(closed)
        if nodes is None:
            return identity
        chosen = _with_nodes(records, nodes, sums, bounds, sizes)
        if chosen is None:
            break
        bound = find.bound_together(
            nodes, chosen.of_nodes, sums, partial(both_near, chosen, chosen.jacobian, records._start)
        )
        if not bound:
            break
        closed |= bound
    if chosen is None and nodes and (sums or bounds or closed):
        chosen = _with_nodes(records, [], sums, bounds, sizes)
    return chosen or identity


def _coefficients(records: Points) -> dict[Variable, tuple[float, float]]:
    """Return the free variables that are coordinates without the sampler's transform, and their bounds."""
    opaque = records.reading.opaque
    start = dict(zip(opaque.free.values(), records.unravel(records._start).values(), strict=True))
    transforms = {rv: opaque.transforms[rv] for rv in start}
    own = start.keys() - _spreads(records, list(start)).keys()
    bounded = {rv: rv.type() for rv in start if rv in own and bounds_of(rv, transforms[rv])}
    if not bounded:
        return {}
    backward = [transforms[rv].backward(start[rv], *rv.owner.inputs) for rv in bounded]
    values = gate.compile_graph([], backward, private=(), mode=gate.PLAIN_MODE)()
    terms = terms_given(opaque, bounded)
    start = dict(zip(bounded, values, strict=True))
    # Effects count as parameters, so that a factor of these is a scale and no coefficient.
    others = [*records.value_vars, *(opaque.values[opaque.observed[name]] for name in records.effects)]
    return find_coefficients(terms, bounded, others, transforms, start)


def _with_nodes(
    records: Points,
    nodes: Sequence[PublicNode],
    sums: Set[Variable],
    bounds: Mapping[Variable, tuple[float, float]],
    sizes: Set[int],
) -> Coordinates | None:
    """Return coordinates of nodes and of all else that is read; None if no better than the parameters.

    Variables in `sums`, which sum to zero, and in `bounds` are additional nodes where they are read.
    """
    theta, reading = records._theta, records.reading
    free = dict(zip(records.value_vars, reading.opaque.free, strict=True))
    terms = reading.terms  # without nodes, phi consists of the parameters that these read
    try:
        if nodes:
            terms = terms_given(reading.opaque, {node.read: node.given(node.public.type()) for node in nodes})
        read = set(ancestors(terms))
        rvs = {v: reading.opaque.free[free[v]] for v in records.value_vars if v in read}
        summed = [v for v, rv in rvs.items() if rv in sums]
        bounded = [v for v, rv in rvs.items() if rv in bounds]
        as_they_are = [*summed, *bounded]
        nodes = [*nodes, *(PublicNode(rvs[v], rvs[v]) for v in as_they_are)]
        inputs = [node.public.type() for node in nodes]
        replaced = {node.read: node.given(v) for node, v in zip(nodes, inputs, strict=True)}
        if nodes:
            terms = terms_given(reading.opaque, replaced)
        publics = reading.opaque.on_values([node.public for node in nodes])
    except Exception:  # PyMC derives no density from the changed graph
        return None
    read = set(ancestors(terms))
    shapes = {v: shape for v, shape in records.shapes_of_values.items() if v in read}
    if not nodes and len(shapes) == len(records.value_vars):
        return None
    parts = records._on_vector([*shapes, *publics])
    sized = gate.compile_graph([theta], parts[len(shapes) :], private=(), mode=gate.PLAIN_MODE)
    found = [np.shape(value) for value in sized(records._start)]
    if any(sizes & set(shape) for shape in found):
        return None
    shapes |= dict(zip(inputs, found, strict=True))
    p = int(sum(np.prod(shape, dtype=int) for shape in shapes.values()))
    own = sum(np.prod(records.shapes_of_values[v], dtype=int) for v in summed)
    places = found[len(found) - len(as_they_are) :][: len(summed)]
    held = int(sum(np.prod(shape, dtype=int) for shape in places) - own)
    if not 0 < p - held <= records.d or (not nodes and p == records.d):
        return None
    if nodes and not reading.are_rows(terms):
        return None
    vector = pt.vector("phi", shape=(p,), dtype="float64")
    of_theta = pt.specify_shape(
        pt.concatenate([pt.atleast_1d(pt.as_tensor(part)).ravel() for part in parts]), (p,)
    )
    kept = [free[v] for v in records.value_vars if v in read]
    # A Deterministic is a view of the variable that it was made of.
    deterministics = reading.opaque.deterministics
    named = {d.owner.inputs[0]: name for name, d in deterministics.items() if d.owner is not None}
    names = [*kept, *(node.public.name or named.get(node.public) for node in nodes)]
    places = list(zip(names, graph.columns_of(shapes).values(), strict=True))
    clones = reading.opaque.free
    sources = [*(clones[name] for name in kept), *(node.public for node in nodes)]
    try:
        spreads = _spreads(records, sources)
        within = {rvs[v]: bounds[rvs[v]] for v in bounded}
        chosen = Coordinates(
            theta, vector, of_theta, places, terms, shapes, sources, replaced, spreads, within
        )
    except ModelRefusedError:  # an Op on the way has no derivative
        return None
    # Zero-sum variables alone are a linear function of the parameters. Products with these sum to zero as
    # well, so that the rank shows whether phi has fewer dimensions than theta. Coefficients are no worse than
    # the sampler's variables, whatever the other nodes are.
    alone = sum(np.prod(records.shapes_of_values[v], dtype=int) for v in bounded)
    better = (
        p - held < records.d
        or len(as_they_are) == len(nodes)
        or (sums and rank_near(chosen.jacobian, records._start) < records.d)
        or is_shear(chosen.jacobian, records._start, int(alone))
    )
    return chosen if better else None


def parameters(records: Points) -> Coordinates:
    """Return the parameters themselves as likelihood coordinates."""
    theta, shapes = records._theta, records.shapes_of_values
    reading = records.reading
    own = list(zip(reading.opaque.free, graph.columns_of(shapes).values(), strict=True))
    sources = list(reading.opaque.free.values())
    spreads = _spreads(records, sources)
    return Coordinates(theta, theta, theta, own, reading.terms, shapes, sources, {}, spreads, {})


def _spreads(records: Points, sources: Sequence[Variable]) -> dict[Variable, Spread]:
    """Return the sources that are spreads: of persons' effects that are integrated, or shapes of outcomes."""
    opaque, names = records.reading.opaque, records.effects
    outcomes = [rv for name, rv in opaque.observed.items() if name not in names]
    effects = [opaque.observed[name] for name in names]
    start = dict(zip(opaque.free.values(), records.unravel(records._start).values(), strict=True))
    found = find_spreads(outcomes, effects, {rv: opaque.transforms.get(rv) for rv in start}, start)
    # A spread on which another coordinate depends is left out: the likelihood may be quadratic in both.
    read = set(ancestors([source for source in sources if source not in found]))
    return {rv: found[rv] for rv in sources if rv in found and rv not in read}


def terms_given(
    opaque: OpaqueModel,
    replaced: Mapping[Variable, Variable],
    outcomes: Mapping[Variable, Variable] | None = None,
    bounds: Mapping[Variable, Variable] | None = None,
) -> list[Variable]:
    """Derive the terms of the records with other variables in the place of public nodes.

    With `outcomes`, only the terms of these observed variables, with other variables in the place of their
    values; with `bounds`, with other variables in the place of their censoring bounds.
    """
    values = opaque.values | dict(outcomes or {})
    rvs = [rv for rv in opaque.rvs.values() if rv not in replaced]
    clones = dict(zip(rvs, clone_replace(rvs, dict(replaced)), strict=True))
    clones |= {rv: with_bound(clones[rv], bound) for rv, bound in (bounds or {}).items()}
    terms = transformed_conditional_logp(
        [clones[rv] for rv in outcomes or opaque.observed.values()],
        rvs_to_values={clone: values[rv] for rv, clone in clones.items()},
        rvs_to_transforms={clone: opaque.transforms.get(rv) for rv, clone in clones.items()},
    )
    return graph.flatten(terms)
