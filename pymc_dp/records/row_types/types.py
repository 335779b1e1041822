"""Row types: which variables of a graph are public, which hold one entry a record, and which mix records.

Every variable gets one of a few types, from the Op that computes it and the types of its inputs; no value is
looked at. The files of rules have one rule for each Op; docs/proofs/rows proves them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pytensor.compile.builders import OpFromGraph
from pytensor.graph import Apply, Constant, Op, Variable
from pytensor.graph.traversal import toposort
from pytensor.graph.type import HasShape
from pytensor.scan.op import Scan
from pytensor.tensor.basic import AllocEmpty
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.subtensor import IncSubtensor

from pymc_dp.records.row_types.ops import (
    allocates,
    inner_constants,
    inner_graphs,
    is_written_before,
    known,
    known_shape,
    name_of,
    trusted_name,
    written_part,
)
from pymc_dp.records.row_types.places import Along, OneValue

RELATIONS = ("substitute", "add_remove")


@dataclass(frozen=True)
class Public:
    """A variable that depends on parameters and public data only."""


@dataclass(frozen=True)
class Length:
    """A variable that also depends on the number of records, where that number is private."""


@dataclass(frozen=True)
class Rows:
    """A variable whose entry i along `axis` depends on record i, parameters and public data only."""

    axis: int


@dataclass(frozen=True, eq=False)
class Mixed:
    """Any other variable: records are mixed, or it is not known what an Op does or which data it holds.

    Attributes
    ----------
    why : str
        What the first node that mixed records does, in words for the user.
    """

    why: str


@dataclass(frozen=True, eq=False)
class ByPlace(Mixed):
    """Rows combined with numbers that differ by a record's position: perhaps those of a free variable."""


@dataclass(frozen=True, eq=False)
class Empty(Mixed):
    """Memory that was not written, or only in part: it may hold anything, but its size is public.

    Attributes
    ----------
    sized : RowType
        The type that memory of this size has when it is filled with one public number.
    written : RowType or None
        Type of what was written into a part of it.
    parts : frozenset of str
        Which of the parts "0" and "1:" of its last axis were written.
    """

    sized: "RowType" = Public()
    written: "RowType | None" = None
    parts: frozenset[str] = frozenset()


RowType = Public | Length | Rows | Mixed
PUBLIC, LENGTH = Public(), Length()

#: Reason why a variable is mixed: unwritten memory may be read.
NOT_WRITTEN = "memory that was not written (`pt.empty`), in which records may be left"
#: A rule: from a node and the types of its inputs to the types of its outputs, or to one type for all.
Rule = Callable[["Typing", Apply, Sequence[RowType]], "RowType | list[RowType]"]
#: From the class of an Op to its rule.
RULES: dict[type, Rule] = {}


def rule(*ops: type) -> Callable[[Rule], Rule]:
    """Register the rule of some classes of Ops."""

    def register(function: Rule) -> Rule:
        for op in ops:
            RULES[op] = function
        return function

    return register


class Typing:
    """The types of the variables of one graph, and properties of the graph that rules need.

    Parameters
    ----------
    n_rows : int
        Number of records: the length of a `Rows` axis.
    relation : {"substitute", "add_remove"}
        With "substitute" that number is public.
    trusted : collection of str or type
        Ops without a rule that act on each record by itself, by class or by name.
    lengths : collection of Variable
        Variables of the model that equal the number of records, where that is private.
    stands_for : mapping of Variable to callable
        For a graph within an Op: see `OneValue`.

    Attributes
    ----------
    one_value : OneValue
        Whether public variables are the same for every record.
    """

    def __init__(
        self,
        n_rows: int,
        relation: str = "substitute",
        trusted: Collection[object] = (),
        lengths: Collection[Variable] = (),
        stands_for: Mapping[Variable, Along] | None = None,
    ):
        if relation not in RELATIONS:
            raise ValueError(f"relation must be one of {RELATIONS}, got {relation!r}.")
        self.n_rows, self.relation, self.trusted, self.lengths = n_rows, relation, trusted, lengths
        self.one_value = OneValue(stands_for)
        self.types: dict[Variable, RowType] = {}
        self.trusted_used: set[str] = set()

    def __call__(
        self, outputs: Sequence[Variable], sources: Mapping[Variable, RowType]
    ) -> dict[Variable, RowType]:
        """Type all variables that `outputs` depend on; one without owner that is no source is public."""
        self.types.update(sources)
        for node in toposort(list(outputs), blockers=list(sources)):
            found = self._found(node)
            each = found if isinstance(found, list) else [found] * len(node.outputs)
            self.types.update((v, t) for v, t in zip(node.outputs, each, strict=True) if v not in sources)
        return self.types | {v: self.of(v) for v in outputs if v not in self.types}

    def again(self, stands_for: Mapping[Variable, Along] | None = None) -> "Typing":
        """Make a `Typing` with the same settings, for another graph or for one inside of an Op."""
        inner = Typing(self.n_rows, self.relation, self.trusted, self.lengths, stands_for)
        inner.trusted_used = self.trusted_used
        return inner

    def of(self, variable: Variable) -> RowType:
        """Return the type of a variable."""
        return self.types.get(variable, LENGTH if variable in self.lengths else PUBLIC)

    def _found(self, node: Apply) -> RowType | list[RowType]:
        inputs = [self.of(v) for v in node.inputs]
        op = node.op
        if any(self._may_be_records(v) for v in inner_constants(op)):
            return Mixed(f"`{name_of(op)}` holds an array of its own that is as long as there are records")
        if not isinstance(op, AllocEmpty | OpFromGraph | Scan) and allocates(op):  # these have rules for it
            return Mixed(NOT_WRITTEN)
        found = self._rule(op)
        if found is None:
            return self._without_rule(node, inputs)
        if all(t is PUBLIC for t in inputs) and not (inner_graphs(op) or isinstance(op, AllocEmpty)):
            return PUBLIC
        buffers = buffers_of(node)
        empty = next((t for k, t in enumerate(inputs) if k in buffers and isinstance(t, Empty)), None)
        if empty is not None:
            inputs = [_as_buffer(node, k, t) if k in buffers else t for k, t in enumerate(inputs)]
        mixed = next((t for t in inputs if isinstance(t, Mixed)), None)
        if mixed is not None:
            return whole(mixed)
        result = found(self, node, inputs)
        if empty is not None and isinstance(op, IncSubtensor) and not isinstance(result, Mixed | list):
            parts = empty.parts | written_part(node)
            return result if parts == {"0", "1:"} else Empty(empty.why, empty.sized, result, parts)
        return result

    def is_trusted(self, op: Op) -> str | None:
        """Return the name by which the user vouched for an Op, or None."""
        return trusted_name(op, self.trusted)

    def _rule(self, op: Op) -> Rule | None:
        if not known(op):
            return None
        return next((RULES[c] for c in type(op).__mro__ if c in RULES), None)

    def _without_rule(self, node: Apply, inputs: Sequence[RowType]) -> RowType:
        name = self.is_trusted(node.op)
        if name is not None:
            self.trusted_used.add(name)
            return aligned(self, inputs, node)
        if not known(node.op):
            return Mixed(f"`{name_of(node.op)}`, an Op whose code may hold data of its own")
        private = next((t for t in inputs if t is not PUBLIC), None)
        if private is None:
            return PUBLIC
        if isinstance(private, Mixed):
            return whole(private)
        return Mixed(f"`{name_of(node.op)}` of the records, an Op that has no rule")

    def _may_be_records(self, constant: Constant) -> bool:
        return any(size is None or size >= self.n_rows for size in known_shape(constant))


def whole(t: RowType) -> RowType:
    """Turn the type of partly unwritten memory into `Mixed`, for Ops that read it; keep other types."""
    return Mixed(t.why) if isinstance(t, Empty) else t


def _as_buffer(node: Apply, k: int, t: RowType) -> RowType:
    """Return the type of a buffer that an Op writes to; a scan writes all entries but the initial ones."""
    if not isinstance(t, Empty):
        return t
    if isinstance(node.op, IncSubtensor):
        return t.written or t.sized
    return t.written if t.written is not None and is_written_before(node, k) else whole(t)


def buffers_of(node: Apply) -> set[int]:
    """Return the inputs that an Op writes to: states of a scan, or the first input of an indexed write."""
    op = node.op
    if isinstance(op, IncSubtensor):
        return {0}
    if isinstance(op, Scan):
        places = list(range(len(node.inputs)))
        return {*op.outer_mitmot(places), *op.outer_mitsot(places), *op.outer_sitsot(places)}
    return set()


def aligned(
    typing: Typing, inputs: Sequence[RowType], node: Apply, of: Sequence[Variable] | None = None
) -> RowType:
    """Return the type of an entrywise function: inputs must be public, or rows along one common axis.

    `inputs` has the types of the variables `of`, by default of the node's inputs.
    """
    axes = {t.axis for t in inputs if isinstance(t, Rows)}
    mixed = next((t for t in inputs if isinstance(t, Mixed)), None)
    if mixed is not None:
        return mixed
    if not axes:
        return LENGTH if LENGTH in inputs else PUBLIC
    if LENGTH in inputs:
        return Mixed(f"`{name_of(node.op)}` of records and their number, which is private")
    if len(axes) > 1:
        return Mixed(f"`{name_of(node.op)}` of records on two axes: every one with every other")
    (axis,) = axes
    made = [out.type for out in node.outputs if not isinstance(out.type, RandomType)]
    if not all(isinstance(t, HasShape) and t.ndim > axis and t.shape[axis] != 1 for t in made):
        return Mixed(f"`{name_of(node.op)}`, whose result has no axis of records")
    beside = zip(node.inputs if of is None else of, inputs, strict=True)
    if not all(typing.one_value(v, axis) for v, t in beside if t is PUBLIC):
        return by_place(node.op)
    return Rows(axis)


def by_place(op: Op) -> ByPlace:
    """Return the type of records combined with numbers that differ by position and are no record's."""
    return ByPlace(f"`{name_of(op)}` of records and of numbers that may differ by the place of a record")
