"""The gate: the only place where PyTensor's compiler is called.

A graph that is compiled here reads and writes only its own memory, whatever numbers it is given
(`safe_rewriter`). Where it reads records, all its Ops are known not to raise (`admitted`): an error would be
about one record, and would be visible. Both hold for the graph as it is compiled, with derivatives and with
the graphs inside of Ops.
"""

import warnings
from collections.abc import Collection, Mapping, Sequence
from threading import RLock
from typing import Any, cast

import numpy as np
import pymc as pm
import pytensor
from pymc.initial_point import make_initial_point_expression
from pymc.pytensorf import replace_rng_nodes
from pytensor import config
from pytensor.compile import Function, In, Mode
from pytensor.graph import Apply, FunctionGraph, Variable, node_rewriter
from pytensor.graph.rewriting.basic import WalkingGraphRewriter
from pytensor.link.basic import PerformLinker
from pytensor.link.vm import VMLinker
from pytensor.scalar import Add, Mul
from pytensor.tensor.elemwise import Elemwise

from pymc_dp.records import graph, refusals
from pymc_dp.records.fast_forms import NUMBA, vectorised
from pymc_dp.records.opaque import behind_shared
from pymc_dp.records.row_types.admitted import admit
from pymc_dp.records.safe_rewriter import Safe

# Python thunks: no C compiler, no JIT. These functions are called a few times, on a few rows.
CHECK_MODE = Mode(linker="py", optimizer="fast_compile")
# For graphs that are simple already, or run once or twice: rewriting them would take longer than running.
PLAIN_MODE = Mode(linker="py", optimizer="merge")
# PyTensor's flags are global to the process: only one thread may compile at a time.
_COMPILING = RLock()
# Position of `Safe` among PyTensor's rewrites: after those that put a graph into its final form, and before
# the fusion of Ops into one loop (49).
_LAST = 48.95
# Flags against fast mathematics. Compilers reorder sums and fuse products with sums differently at the end of
# a loop than within it, so that a record's result would depend on its position.
_AS_WRITTEN = {"numba__fastmath": False, "gcc__cxxflags": f"{config.gcc__cxxflags} -ffp-contract=off".strip()}


def settings(compile_kwargs: Mapping[str, object] | None) -> dict[str, Any]:
    """Check the user's settings for the compilation of graphs.

    Raises
    ------
    ValueError
        There is another setting than `mode`, or the mode is not a plain one: see `_safe`.
    """
    given = dict(compile_kwargs or {})
    if unknown := given.keys() - {"mode"}:
        raise ValueError(f"compile_kwargs has {sorted(unknown)}; what it may have is 'mode'.")
    _safe(cast(Mode | str | None, given.get("mode")))
    return given


def compile_graph(
    inputs: Sequence[Variable | In],
    outputs: Variable | Sequence[Variable],
    *,
    private: Collection[Variable],
    mode: Mode | str | None = None,
    as_pymc: bool = False,
    random: bool = False,
    raising: bool = False,
    trusted: Collection[object] = (),
    **options: object,
) -> Function:
    """Compile a graph.

    Parameters
    ----------
    inputs : sequence of Variable
        Not all need be used.
    outputs : Variable or sequence of Variable
    private : collection of Variable
        Those of `inputs`, of shared variables and of constants that hold records.
    mode : Mode, str or None
        As in `pytensor.function`.
    as_pymc : bool
        Compile like `pymc.compile`: a parameter check that fails gives minus infinity, and random streams
        continue from call to call.
    random : bool
        Whether random draws that depend on records are admitted; such draws are private.
    raising : bool
        Whether an index in public data that is beyond its table raises `IndexError`.
    trusted : collection of str or type
        Ops that the user vouches for.
    **options
        Arguments of `pytensor.function`.

    Returns
    -------
    callable

    Raises
    ------
    ModelRefusedError
        An Op that reads records may raise; or a shared variable has a `default_update`.
    ValueError
        The mode may raise because of a record.

    Notes
    -----
    **Privacy.** Where a record has an index beyond its table, what it reads there is NaN; neither the results
    of other records nor whether there is a result depend on it. A masked array is replaced by one at which no
    compiled function stops (`graph.unmasked`).
    """
    graphs = [outputs] if isinstance(outputs, Variable) else outputs
    if changing := graph.changing(graphs):
        raise refusals.refuse_changing([v.name for v in changing])
    admit(graphs, private, random, trusted)
    safe = _safe(mode, raising)
    masked = {v: behind_shared(v) for v in graph.data_leaves(graphs) if graph.is_masked(v)}
    compiler: Any = pm.compile if as_pymc or random else pytensor.function
    # Even where all else runs in Python, PyTensor would compile scalar functions by C++, which takes seconds.
    flags = {"cxx": ""} if isinstance(safe.linker, PerformLinker) else {}
    with _COMPILING, config.change_flags(**flags, **_AS_WRITTEN), warnings.catch_warnings():
        # These warnings are about the speed of Ops (as in draws of mixtures), which users cannot change.
        warnings.filterwarnings("ignore", "Numba will use object mode|Loop fusion failed", UserWarning)
        given = {"mode": safe, "on_unused_input": "ignore", "givens": masked, **options}
        return compiler(list(inputs), outputs, **given)


def _safe(mode: Mode | str | None, raising: bool = False) -> Mode:
    """Return a mode that does nothing but compute; refuse modes that may stop at a number, or show it."""
    plain = vectorised(mode)
    linker = plain.linker
    if (
        type(plain) is not Mode
        or type(linker) not in (PerformLinker, VMLinker, NUMBA)
        or vars(linker).get("callback")
    ):
        raise ValueError(
            f"The mode {type(plain).__name__} with {type(linker).__name__} is not taken: what looks at "
            "numbers while they are computed stops at a record, or shows it, and other compilers may round "
            "a record by its place. Take a plain pytensor.compile.mode.Mode with the linker 'numba', 'cvm', "
            "'vm' or 'py'."
        )
    if type(linker) is PerformLinker:
        # Fused Ops would compute with Python's numbers: an int8 beside a length of 128 raises.
        plain = plain.excluding("fusion")
    return plain.excluding("BlasOpt").register((Safe(raising), _LAST), (_SPLIT, _LAST + 0.01))


@node_rewriter([Elemwise])
def _split(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Split sums and products of many operands: NumPy takes at most 32 arrays, and PyTensor merges them."""
    # Operands of a sum or a product, at most: the same for all compilers, so that they round alike.
    most_operands = 16
    if not isinstance(node.op.scalar_op, Add | Mul) or len(node.inputs) <= most_operands:
        return None
    parts = node.inputs
    while len(parts) > most_operands:
        some = (parts[k : k + most_operands] for k in range(0, len(parts), most_operands))
        parts = [node.op(*one) if len(one) > 1 else one[0] for one in some]
    return [node.op(*parts)]


_SPLIT = WalkingGraphRewriter(_split)


def evaluate(variable: Variable) -> np.ndarray:
    """Compute the value of a graph without inputs."""
    return np.asarray(compile_graph([], variable, private=(), mode=CHECK_MODE)())


def draw(variable: Variable, seed: int) -> np.ndarray:
    """Draw a random variable that reads no record, as `pymc.draw` does."""
    return np.asarray(compile_graph([], variable, private=(), random=True, random_seed=seed)())


def initial_point(model: pm.Model) -> dict[str, np.ndarray]:
    """Compute the initial point of a model, as `pymc.Model.initial_point` does."""
    values = make_initial_point_expression(
        free_rvs=model.free_RVs,
        rvs_to_transforms=model.rvs_to_transforms,
        initval_strategies=model.rvs_to_initial_values,
        return_transformed=True,
    )
    function = compile_graph(
        [], replace_rng_nodes(values), private=(), mode=CHECK_MODE, random=True, random_seed=0
    )
    return dict(zip([v.name for v in model.value_vars], function(), strict=True))


def predictive_mode() -> Mode:
    """Return a mode for what PyMC itself compiles on public inputs: an index beyond its table raises."""
    return _safe(None, raising=True)
