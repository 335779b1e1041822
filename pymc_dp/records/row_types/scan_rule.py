"""Rule of scans: one entry a record is left if the scan is over another axis. See docs/proofs/rows."""

from collections.abc import Collection, Sequence
from functools import partial

from pytensor.graph.basic import Apply, Variable
from pytensor.scan.op import Scan

from pymc_dp.records.row_types.places import Along
from pymc_dp.records.row_types.record_axes import is_as_long
from pymc_dp.records.row_types.rules import no_rule, over_records, public_arguments
from pymc_dp.records.row_types.types import (
    LENGTH,
    PUBLIC,
    Mixed,
    Rows,
    RowType,
    Typing,
    by_place,
    rule,
    whole,
)


@rule(Scan)
def _scan(typing: Typing, node: Apply, types: Sequence[RowType]) -> list[RowType]:
    """Type the step, and iterate the types of its states until they do not change."""
    op, count = node.op, len(node.outputs)
    private = any(isinstance(t, Rows) for t in types)
    if LENGTH in types or not public_arguments(types[:1]) or (private and op.info.n_mit_mot):
        return [no_rule(op)] * count
    maps = op.get_oinp_iinp_iout_oout_mappings()
    places = list(range(len(types)))
    # Inputs without an axis of steps, by position: a variable may be a sequence as well.
    entire = {*op.outer_untraced_sit_sot(places), *op.outer_non_seqs(places)}
    if any(t == Rows(0) and k not in entire for k, t in enumerate(types)):
        return [over_records(op)] * count
    step = [Rows(t.axis - 1) if isinstance(t, Rows) and k not in entire else t for k, t in enumerate(types)]
    results: list[RowType] = []
    settled = looked = False
    while not (looked and settled):
        looked = settled  # once types have settled, public states can be checked for one number
        sources = {
            op.inner_inputs[k]: step[outer]
            for outer, within in maps["inner_inp_from_outer_inp"].items()
            for k in within
        }
        inner = _within(typing, node, entire, looked)
        found = inner(op.inner_outputs, sources)
        if op.info.as_while and found[op.inner_outputs[-1]] is not PUBLIC:
            return [Mixed("`scan` for as long as the records say")] * count
        results, settled = [], True
        for k in range(count):
            result: RowType = PUBLIC
            made = [op.inner_outputs[one] for one in maps["inner_out_from_outer_out"][k]]
            for one in made:
                result = _either(result, whole(found[one]))
            outer = maps["outer_inp_from_outer_out"].get(k, -1)
            if outer >= 0:  # a state: what the step makes of it is what the next step reads
                result = _either(step[outer], result)
                if looked and isinstance(result, Rows):  # an initial state or a step's result may be public
                    public = [(inner, one, result.axis) for one in made if found[one] is PUBLIC]
                    if types[outer] is PUBLIC and maps["inner_inp_from_outer_inp"][outer]:  # it is no length
                        public.append((typing, node.inputs[outer], result.axis + int(outer not in entire)))
                    if not all(within.one_value(v, axis) for within, v, axis in public):
                        result = by_place(op)
                    elif not all(is_as_long(*one) for one in public):
                        result = no_rule(op)
                settled, step[outer] = settled and result == step[outer], result
            results.append(result)
    untraced = set(op.outer_untraced_sit_sot_outs(node.outputs))
    return [
        Rows(t.axis + 1) if isinstance(t, Rows) and out not in untraced else t
        for out, t in zip(node.outputs, results, strict=True)
    ]


def _within(typing: Typing, node: Apply, entire: Collection[int], states: bool) -> Typing:
    """Make the typing of the step: an input is one number along an axis if the outer variable is.

    With `states`, a state also has to stay so in each step.
    """
    op, stands_for = node.op, dict[Variable, Along]()
    inner, maps = typing.again(stands_for), op.get_oinp_iinp_iout_oout_mappings()

    def along(within: Variable, outside: Variable, first: int, made: Sequence[Variable], axis: int) -> bool:
        start, throughout = typing.one_value(outside, axis + first), inner.one_value.throughout
        return start and all(throughout(within, axis, one) for one in made)

    for k, outer in maps["outer_inp_from_inner_inp"].items():
        made = [op.inner_outputs[one] for one in maps["inner_out_from_inner_inp"][k]] if states else []
        within, first = op.inner_inputs[k], int(outer not in entire)
        stands_for[within] = partial(along, within, node.inputs[outer], first, made)
    return inner


def _either(a: RowType, b: RowType) -> RowType:
    """Return the type of a variable with either type: never below `a`, so that the iteration ends."""
    if b is PUBLIC or isinstance(a, Mixed) or a == b:
        return a
    return b if a is PUBLIC or isinstance(b, Mixed) else Mixed("`scan`, whose state has records on two axes")
