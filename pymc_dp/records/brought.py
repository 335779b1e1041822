"""What users' functions do while a density is derived: arrays that they bring, records that they read."""

from collections.abc import Callable, Collection, Iterable, Iterator, Set
from contextlib import contextmanager
from threading import RLock, get_ident
from typing import Any, cast

from pytensor.compile import Function, SharedVariable
from pytensor.graph import Apply, Constant, Variable, ancestors
from pytensor.graph.type import HasShape
from pytensor.tensor.rewriting.basic import unconditional_constant_folding

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records.row_types.ops import inner_constants

# `noting` replaces methods of PyTensor for the whole process: only one thread may derive at a time.
_DERIVING = RLock()


@contextmanager
def noting(brought: list[Constant], known: Collection[Variable], private: Set[Variable]) -> Iterator[None]:
    """Note constant arrays that enter a graph in a block, except those that PyTensor computes.

    Records cannot be read in the block as numbers: by `eval`, `get_value` or a compiled function.

    Parameters
    ----------
    brought : list of Constant
        The arrays that are found are appended to it.
    known : collection of Variable
        Graphs whose constants are not noted. Arrays of records are no constants there, but behind shared
        variables: a function that reads such an array as a constant has it from the surrounding code.
    private : set of Variable
        Leaves that hold records, of the model and of its copy.

    Raises
    ------
    ModelRefusedError
        In the block, where a function evaluates what depends on records.

    Notes
    -----
    **Privacy.** A density may call `pymc.logp`, which simplifies the graph that it is given: the mean of an
    array becomes a number, an array of ones disappears. Afterwards the graph does not show that there was an
    array, and whether it disappears depends on its entries. Arrays inside of an operation count too, since a
    function that was compiled to one operation before creates no node. What a function does with a record's
    numbers outside of the graph could not be followed at all.
    """
    me = get_ident()  # other threads create nodes as well
    nodes, folds = cast(Any, Apply), cast(Any, unconditional_constant_folding)
    variables, arrays_behind, functions = cast(Any, Variable), cast(Any, SharedVariable), cast(Any, Function)
    containers = {id(v.container) for v in private if isinstance(v, SharedVariable)}
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

    def holds(variable) -> bool:
        return variable in private or id(getattr(variable, "container", None)) in containers

    def unless_private(method: Any, read: Callable[[Any], Iterable[Variable]]) -> Callable[..., object]:
        """Make a method that gives numbers refuse what reads records."""

        def giving(of, *args, **options):
            if get_ident() == me and any(map(holds, read(of))):
                raise _refusal()
            return method(of, *args, **options)

        return giving

    with _DERIVING:
        create, fold = nodes.__init__, folds.fn
        evaluate, get, call = variables.eval, arrays_behind.get_value, functions.__call__
        nodes.__init__, folds.fn = creating, folding
        variables.eval = unless_private(evaluate, lambda variable: ancestors([variable]))
        arrays_behind.get_value = unless_private(get, lambda variable: [variable])
        functions.__call__ = unless_private(call, lambda function: function.get_shared())
        try:
            yield
        finally:
            nodes.__init__, folds.fn = create, fold
            variables.eval, arrays_behind.get_value, functions.__call__ = evaluate, get, call


def _refusal() -> ModelRefusedError:
    """Build the error for a function that a distribution was given, and that reads records as numbers."""
    return ModelRefusedError(
        "A function that a distribution was given reads records as numbers (`eval`, `get_value`, or a "
        "function that it compiles).",
        "what it does with these numbers, outside of the graph, cannot be followed.",
        "write the function with operations of PyTensor on its arguments; a length is value.shape[0].",
    )
