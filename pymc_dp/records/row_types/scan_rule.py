"""When a scan leaves one entry a record: over another axis than theirs. See docs/proofs/rows."""

from collections.abc import Sequence

from pytensor.graph.basic import Apply
from pytensor.scan.op import Scan

from pymc_dp.records.row_types.rules import no_rule, over_records, public_arguments
from pymc_dp.records.row_types.types import LENGTH, PUBLIC, Mixed, Rows, RowType, Typing, rule


@rule(Scan)
def _scan(typing: Typing, node: Apply, types: Sequence[RowType]) -> list[RowType]:
    """Type the step, and iterate the types of its states until they stay."""
    op, count = node.op, len(node.outputs)
    private = any(isinstance(t, Rows) for t in types)
    if LENGTH in types or not public_arguments(types[:1]) or (private and op.info.n_mit_mot):
        return [no_rule(op)] * count
    maps = op.get_oinp_iinp_iout_oout_mappings()
    # These have no axis of steps.
    whole = {*op.outer_untraced_sit_sot(node.inputs), *op.outer_non_seqs(node.inputs)}
    if any(t == Rows(0) and v not in whole for v, t in zip(node.inputs, types, strict=True)):
        return [over_records(op)] * count
    step = [
        Rows(t.axis - 1) if isinstance(t, Rows) and v not in whole else t
        for v, t in zip(node.inputs, types, strict=True)
    ]
    results: list[RowType] = []
    settled = False
    while not settled:
        sources = {
            op.inner_inputs[k]: step[outer]
            for outer, inner in maps["inner_inp_from_outer_inp"].items()
            for k in inner
        }
        found = typing.again()(op.inner_outputs, sources)
        if op.info.as_while and found[op.inner_outputs[-1]] is not PUBLIC:
            return [Mixed("`scan` for as long as the records say")] * count
        results, settled = [], True
        for k in range(count):
            result: RowType = PUBLIC
            for inner in maps["inner_out_from_outer_out"][k]:
                result = _either(result, found[op.inner_outputs[inner]])
            outer = maps["outer_inp_from_outer_out"].get(k, -1)
            if outer >= 0:  # a state: what the step makes of it is what the next step reads
                result = _either(step[outer], result)
                settled, step[outer] = settled and result == step[outer], result
            results.append(result)
    untraced = set(op.outer_untraced_sit_sot_outs(node.outputs))
    return [
        Rows(t.axis + 1) if isinstance(t, Rows) and out not in untraced else t
        for out, t in zip(node.outputs, results, strict=True)
    ]


def _either(a: RowType, b: RowType) -> RowType:
    """Type of something that is sometimes the one, sometimes the other; goes up only, so that it settles."""
    if b is PUBLIC or isinstance(a, Mixed) or a == b:
        return a
    return b if a is PUBLIC or isinstance(b, Mixed) else Mixed("`scan`, whose state has records on two axes")
