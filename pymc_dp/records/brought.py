"""Arrays that users' functions put into a graph while a density is derived: noted before a simplification."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from threading import RLock, get_ident
from typing import Any, cast

from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.graph.type import HasShape
from pytensor.tensor.rewriting.basic import unconditional_constant_folding

from pymc_dp.records.row_types.ops import inner_constants

# `noting` replaces methods of PyTensor for the whole process: only one thread may derive at a time.
_DERIVING = RLock()


@contextmanager
def noting(brought: list[Constant], known: Collection[Variable]) -> Iterator[None]:
    """Note constant arrays that enter a graph in a block, except those that PyTensor computes.

    Parameters
    ----------
    brought : list of Constant
        The arrays that are found are appended to it.
    known : collection of Variable
        Graphs whose constants are not noted. Arrays of records are no constants there, but behind shared
        variables: a function that reads such an array as a constant has it from the surrounding code.

    Notes
    -----
    **Privacy.** A density may call `pymc.logp`, which simplifies the graph that it is given: the mean of an
    array becomes a number, an array of ones disappears. Afterwards the graph does not show that there was an
    array, and whether it disappears depends on its entries. Arrays inside of an operation count too, since a
    function that was compiled to one operation before creates no node.
    """
    me = get_ident()  # other threads create nodes as well
    nodes, folds = cast(Any, Apply), cast(Any, unconditional_constant_folding)
    create: Any = None
    fold: Any = None
    seen = set(ancestors(list(known)))
    numbers = {id(v.data) for v in seen if isinstance(v, Constant)}

    def note(new: Iterable[Variable]) -> None:
        arrays = [v for v in new if isinstance(v, Constant) and isinstance(v.type, HasShape)]
        brought.extend(v for v in arrays if v.type.ndim and id(v.data) not in numbers)

    def creating(node: Apply, op, inputs, outputs) -> None:
        create(node, op, inputs, outputs)
        if get_ident() != me:
            return
        for given in node.inputs:
            if given not in seen:
                new = [v for v in ancestors([given], blockers=seen) if v not in seen]
                seen.update(new)
                note(new)
                for v in new:
                    note(() if v.owner is None else inner_constants(v.owner.op))
        note(inner_constants(op))
        seen.update(node.outputs)

    def folding(fgraph, node):
        computed = fold(fgraph, node)
        seen.update(computed or ())
        return computed

    with _DERIVING:
        create, nodes.__init__ = nodes.__init__, creating
        fold, folds.fn = folds.fn, folding
        try:
            yield
        finally:
            nodes.__init__, folds.fn = create, fold
