"""Draws of outcomes from a model for each record, as graphs of public parameters and of the records."""

from collections.abc import Mapping, Sequence
from functools import reduce
from types import FunctionType
from typing import NamedTuple

import pytensor.tensor as pt
from pymc.distributions.custom import CustomDistRV
from pymc.distributions.simulator import SimulatorRV
from pymc.distributions.truncated import TruncatedRV
from pymc.logprob.utils import replace_rvs_by_values
from pytensor.graph import Apply, Constant, Op, Variable, ancestors, clone_replace
from pytensor.scan.op import Scan
from pytensor.tensor.random.basic import PoissonRV
from pytensor.tensor.random.op import RandomVariable, RNGConsumerOp
from pytensor.tensor.random.type import RandomType, random_generator_type
from pytensor.tensor.type_other import NoneTypeT

from pymc_dp.records import graph
from pymc_dp.records.harmless import IMPROPER, harmless, missing, present
from pymc_dp.records.opaque import OpaqueModel
from pymc_dp.records.outcome_bounds import never_censored
from pymc_dp.records.reading import Reading
from pymc_dp.records.row_types import LENGTH, PUBLIC, Mixed, Rows, RowType, Typing
from pymc_dp.records.row_types.ops import inner_graphs, known, length_along
from pymc_dp.records.row_types.record_axes import is_length


class NotGenerativeError(Exception):
    """Outcomes cannot be drawn row by row; the message gives the reason, from the graph alone."""


class Draw(NamedTuple):
    """Graphs of a draw.

    Attributes
    ----------
    outcome : Variable
        Outcomes of all records, on the first axis; of the type of the observed variable, and transformed as
        its values are.
    fit : Variable
        Booleans, one a record: whether its outcome was drawn, from its own parameters.
    generators : list of Variable
        Inputs: a generator for each random variable.
    """

    outcome: Variable
    fit: Variable
    generators: list[Variable]


def draw_of(
    reading: Reading, rv: Variable, replaced: Mapping[Variable, Variable], uncensored: bool = False
) -> Draw:
    """Build the graphs of a draw of one observed variable.

    Parameters
    ----------
    reading : Reading
    rv : Variable
        One of `reading.opaque.observed`. Other observed variables keep their values.
    replaced : mapping of Variable to Variable
        Public nodes, and what is put in their place (`Coordinates.replaced`).
    uncensored : bool
        Whether to draw without the bound by which records are censored.

    Raises
    ------
    NotGenerativeError

    Notes
    -----
    **Privacy.** Decided from the graph. Each random variable inside has a generator of its own, whatever
    generators the model has; it is drawn entry by entry, so that with parameters of one record on each row
    each draw belongs to one record as well. A draw that records share is refused. So is one whose code is the
    user's (``random=``), unless it is trusted, since it may read other records than its own. Parameters for
    which samplers raise or do not end are replaced (`pymc_dp.records.harmless`).
    """
    made = _Made(reading)
    drawn = given(reading, rv, replaced, uncensored)
    (outcome,) = made(graph.flatten([drawn], first=_without_loop))
    if outcome.type.dtype != rv.type.dtype:
        outcome = outcome.astype(rv.type.dtype)
    if outcome.type.ndim != rv.type.ndim:
        raise NotGenerativeError("a draw of it has another shape")
    fit = _each_record([*made.fit, present(outcome)], made)
    types = made.typing([outcome, fit], made.sources)
    for t in (types[outcome], types[fit]):
        if t != Rows(0):
            raise NotGenerativeError(t.why if isinstance(t, Mixed) else "a draw of it is not one a record")
    if reading.reads_others([outcome, fit], reading.roots):
        raise NotGenerativeError("its draw reads another array of records than its density")
    return Draw(outcome, fit, made.generators)


def given(
    reading: Reading, rv: Variable, replaced: Mapping[Variable, Variable], uncensored: bool = False
) -> Variable:
    """Rebuild an observed variable given the values of all others; without its bound if `uncensored`."""
    try:
        return _on_values(reading.opaque, rv, replaced, uncensored)
    except Exception as error:
        raise NotGenerativeError(f"its draw cannot be written down ({type(error).__name__})") from None


def _on_values(
    opaque: OpaqueModel, rv: Variable, replaced: Mapping[Variable, Variable], uncensored: bool
) -> Variable:
    rvs = [rv for rv in opaque.rvs.values() if rv not in replaced]
    clones = dict(zip(rvs, clone_replace(rvs, dict(replaced)), strict=True))
    node = clones[rv].owner
    tensors = [v for v in node.inputs if not isinstance(v.type, RandomType)]
    values = replace_rvs_by_values(
        tensors,
        rvs_to_values={clones[v]: opaque.values[v] for v in rvs},
        rvs_to_transforms={clones[v]: opaque.transforms.get(v) for v in rvs},
    )
    given = dict(zip(tensors, values, strict=True))
    inputs = [given.get(v, v) for v in node.inputs]
    if uncensored:
        inputs = never_censored(inputs)
    drawn = node.clone_with_new_inputs(inputs, strict=False).outputs[node.outputs.index(clones[rv])]
    transform = opaque.transforms[rv]
    return drawn if transform is None else transform.forward(drawn, *inputs)


def _without_loop(node: Apply, inputs: list[Variable]) -> Sequence[Variable] | None:
    """Replace truncated draws that are made in a loop."""
    op = node.op
    looped = isinstance(op, TruncatedRV) and any(isinstance(n.op, Scan) for n in op.fgraph.apply_nodes)
    return [_truncated(op.base_rv_op, inputs), *node.outputs[1:]] if looped else None


def _truncated(base: Op, inputs: Sequence[Variable]) -> Variable:
    """Draw within bounds without a loop, whose length would depend on records."""
    *given, lower, upper = inputs
    if not isinstance(base, RandomVariable):
        raise NotGenerativeError("a truncated draw of it needs a loop")
    generator, size, *parameters = given
    whole = base.make_node(generator, size, *parameters).outputs[1]
    if isinstance(base, PoissonRV) and _is(lower, 1) and _is(upper, float("inf")):
        # The first event of a Poisson process before time 1, given that there is one; and those after it.
        (rate,) = parameters
        _, uniform = pt.random.uniform(size=whole.shape, rng=generator, return_next_rng=True)
        first = -pt.log1p(uniform * pt.expm1(pt.neg(rate)))
        return 1 + base.make_node(generator, size, pt.maximum(rate - first, 0.0)).outputs[1]
    # Take the first of 32 draws that is within the bounds. If one draw is outside with probability .5, all
    # are with probability 2e-10.
    many = pt.concatenate([pt.constant([32], dtype="int64"), whole.shape])
    draws = base.make_node(generator, many, *parameters).outputs[1]
    inside = pt.ge(draws, lower) & pt.le(draws, upper)
    first = inside & pt.eq(pt.cumsum(inside.astype("int64"), axis=0), 1)
    chosen = pt.switch(first, draws, 0).sum(axis=0).astype(draws.type.dtype)
    bad = pt.constant(missing(draws.type.dtype), dtype=draws.type.dtype)
    return pt.switch(inside.any(axis=0), chosen, bad)


def _is(bound: Variable, number: float) -> bool:
    return isinstance(bound, Constant) and bound.data.size == 1 and bool((bound.data == number).all())


def _has_no_draw(op: object) -> bool:
    """Return whether no function draws a distribution: PyMC then has one that raises."""
    drawn = vars(type(op)).get("_random_fn") if isinstance(op, CustomDistRV) else None
    return isinstance(drawn, FunctionType) and "default_not_implemented" in drawn.__qualname__


class _Made:
    """Rebuilds a graph: random variables get generators of their own, and harmless parameters."""

    def __init__(self, reading: Reading):
        self._reading = reading
        self.typing: Typing = reading.typing.again()
        self.sources: dict[Variable, RowType] = {leaf: Rows(axis) for leaf, axis in reading.roots.items()}
        self.generators: list[Variable] = []
        self.fit: list[Variable] = []

    def __call__(self, outputs: Sequence[Variable]) -> list[Variable]:
        read = graph.read_as_values(outputs)

        def change(node: Apply, inputs: list[Variable]) -> Sequence[Variable] | None:
            if isinstance(node.op, RandomVariable):
                make = self._drawn if node.outputs[1] in read else _as_large
                return [node.outputs[0], make(node, inputs)]
            if isinstance(node.op, RNGConsumerOp) or _draws_inside(node.op):
                raise NotGenerativeError("it is drawn in a loop or in a function")
            return None

        found = graph.rewritten(outputs, change)
        if any(isinstance(v.type, RandomType) and v not in self.generators for v in ancestors(found)):
            raise NotGenerativeError("it passes a generator on")
        return found

    def _drawn(self, node: Apply, inputs: list[Variable]) -> Variable:
        op = node.op
        users = isinstance(op, CustomDistRV | SimulatorRV) or not known(op)
        name = self.typing.is_trusted(op)
        if _has_no_draw(op):
            raise NotGenerativeError("it has a density, and nothing that draws it (dist= or random=)")
        if name is not None:
            self.typing.trusted_used.add(name)
        elif users:
            raise NotGenerativeError(
                "what draws it is a function of yours (random=), which may look at more than its own record; "
                "write it as dist=, or vouch for it in trusted_ops="
            )
        _, size, *parameters = inputs
        if isinstance(op, IMPROPER):
            raise NotGenerativeError(f"nothing can be drawn from {op.name}, which is no distribution")
        parameters, fit, op = harmless(op, parameters)
        generator = random_generator_type()
        new = op.make_node(generator, size, *parameters)
        t = self._type(new)
        if isinstance(t, Mixed):
            raise NotGenerativeError(t.why)
        self.sources[new.outputs[1]] = t
        self.generators.append(generator)
        self.fit.append(fit)
        return new.outputs[1]

    def _type(self, node: Apply) -> RowType:
        """Return the row type of independent draws, each with its own parameters."""
        op, out = node.op, node.outputs[1]
        size, batch, axes = op.size_param(node), op.batch_ndim(node), set()
        types = self.typing([size, *op.dist_params(node)], self.sources)
        if types[size] not in (PUBLIC, LENGTH):
            return Mixed("a number of draws that depends on the records")
        for parameter, core in zip(op.dist_params(node), op.ndims_params, strict=True):
            t = types[parameter]
            if isinstance(t, Mixed):
                return t
            if isinstance(t, Rows):
                own = parameter.type.ndim - core
                if t.axis >= own:
                    return Mixed("a draw of several records together")
                axes.add(t.axis + batch - own)
            elif t is not PUBLIC:
                return Mixed("a draw that depends on the number of records, which is private")
        if len(axes) > 1:
            return Mixed("draws for every record with every other")
        if axes:
            return Rows(axes.pop())
        # Draws with public parameters are independent of each other along any axis.
        for axis in range(batch):
            if out.type.shape[axis] == self._reading.n_rows or self._has_records(out, axis):
                return Rows(axis)
        return Mixed("a draw that records share")

    def _has_records(self, draws: Variable, axis: int) -> bool:
        """Return whether an axis is as long as there are records, by the sizes that draws are made from."""
        length = length_along(draws, axis)
        self.typing([length], self.sources)
        return is_length(self.typing, length)


def _as_large(node: Apply, inputs: Sequence[Variable]) -> Variable:
    """Return something of the shape of draws, in the place of draws of which only the shape is read."""
    _, size, *parameters = inputs
    if node.op.ndim_supp or any(node.op.ndims_params):
        raise NotGenerativeError("the shape of a vector of draws is computed")
    whole = reduce(pt.add, parameters)
    return whole if isinstance(size.type, NoneTypeT) else pt.broadcast_to(whole, size)


def _draws_inside(op: Op) -> bool:
    return any(
        isinstance(node.op, RNGConsumerOp) or _draws_inside(node.op)
        for inner in inner_graphs(op)
        for node in inner.apply_nodes
    )


def _each_record(conditions: Sequence[Variable], made: _Made) -> Variable:
    """Combine conditions to one boolean a record: whether all of them hold for it."""
    types = made.typing(conditions, made.sources)
    found = []
    for condition in conditions:
        t = types[condition]
        if isinstance(t, Mixed):
            raise NotGenerativeError(t.why)
        if isinstance(t, Rows):
            others = [axis for axis in range(condition.type.ndim) if axis != t.axis]
            condition = condition.all(axis=others) if others else condition
        else:
            condition = condition.all()
        found.append(condition)
    return reduce(pt.and_, found)
