"""Arrays that users' functions bring along while a density is derived: noted before they are simplified."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from threading import RLock, get_ident
from typing import Any, cast

from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.graph.type import HasShape
from pytensor.tensor.rewriting.basic import unconditional_constant_folding

from pymc_dp.records.row_types.ops import inner_constants

# What is replaced here is the whole process's: one thread derives at a time.
_DERIVING = RLock()


@contextmanager
def noting(brought: list[Constant], known: Collection[Variable]) -> Iterator[None]:
    """Note constant arrays that enter a graph, but for those that PyTensor computes.

    Parameters
    ----------
    brought : list of Constant
        What is found is appended.
    known : collection of Variable
        Graphs whose constants are known: they are not noted. Without those that hold records, which stand
        behind shared variables there: a function that reads one has taken it from the surrounding code.

    Notes
    -----
    **Privacy.** A density may call `pymc.logp`, which simplifies the graph that it is given: a mean of an
    array becomes a number, an array of ones disappears. Afterwards nobody sees that there was one, and
    whether it disappears is decided by its entries. Arrays inside of an operation count, since a function
    that was compiled of it before creates no node.
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
