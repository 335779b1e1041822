"""The gate: the one place where PyTensor's compiler is called.

What passes reads and writes no memory but its own, whatever numbers it is given (`safe_rewriter`), and where
it reads records it is made of Ops that are known not to raise (`admitted`): an error would be about one
record, and would be shown. Both look at the graph as it is compiled, with derivatives in it and graphs inside
of Ops.
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
from pytensor.compile.executor import Function
from pytensor.compile.io import In
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.link.basic import PerformLinker
from pytensor.link.vm import VMLinker

from pymc_dp.records import graph, refusals
from pymc_dp.records.fast_forms import NUMBA, vectorised
from pymc_dp.records.opaque import behind_shared
from pymc_dp.records.row_types.admitted import admit
from pymc_dp.records.safe_rewriter import Safe

# Python thunks: no C compiler, no JIT. These functions are called a few times, on a few rows.
CHECK_MODE = Mode(linker="py", optimizer="fast_compile")
# For graphs that are simple already, or run once or twice: rewriting them takes longer than they run.
PLAIN_MODE = Mode(linker="py", optimizer="merge")
# PyTensor's flags are those of the process: one thread compiles at a time.
_COMPILING = RLock()
# After PyTensor has put a graph into its final form, and before it makes one loop of many Ops (49).
_LAST = 48.95
# Compilers reorder sums, and fuse products with them, otherwise at the end of a loop than within: what a
# record gets would depend on where it stands.
_AS_WRITTEN = {"numba__fastmath": False, "gcc__cxxflags": f"{config.gcc__cxxflags} -ffp-contract=off".strip()}


def settings(compile_kwargs: Mapping[str, object] | None) -> dict[str, Any]:
    """What users may say of how graphs are compiled.

    Raises
    ------
    ValueError
        Another name than `mode`, or a mode that is not a plain one: see `_safe`.
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
        What of `inputs`, shared variables and constants has records.
    mode : Mode, str or None
        As in `pytensor.function`.
    as_pymc : bool
        As PyMC compiles what users wrote: a check of a parameter that fails gives minus infinity, and random
        streams go on from call to call.
    random : bool
        Whether random draws that depend on records are admitted: they are private.
    raising : bool
        Whether public data with a position that their table does not have raise `IndexError`.
    trusted : collection of str or type
        Ops that the user vouches for.
    **options
        Of `pytensor.function`.

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
    **Privacy.** Of a record with a position that its table does not have, what is read there counts as not a
    number; what other records have, and whether there is a result, does not depend on it. In the place of
    a masked array stands one that no compiler stops at (`graph.unmasked`).
    """
    graphs = [outputs] if isinstance(outputs, Variable) else outputs
    if changing := graph.changing(graphs):
        raise refusals.refuse_changing([v.name for v in changing])
    admit(graphs, private, random, trusted)
    safe = _safe(mode, raising)
    masked = {v: behind_shared(v) for v in graph.data_leaves(graphs) if graph.is_masked(v)}
    compiler: Any = pm.compile if as_pymc or random else pytensor.function
    # Where all else is Python, PyTensor still compiles functions within an Op by C++: for seconds.
    flags = {"cxx": ""} if isinstance(safe.linker, PerformLinker) else {}
    with _COMPILING, config.change_flags(**flags, **_AS_WRITTEN), warnings.catch_warnings():
        # How fast an Op is (mixtures that are drawn have one) is nothing that a user can mend.
        warnings.filterwarnings("ignore", "Numba will use object mode|Loop fusion failed", UserWarning)
        given = {"mode": safe, "on_unused_input": "ignore", "givens": masked, **options}
        return compiler(list(inputs), outputs, **given)


def _safe(mode: Mode | str | None, raising: bool = False) -> Mode:
    """A mode that computes and does nothing else: others stop at a number, or show it."""
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
    return plain.excluding("BlasOpt").register((Safe(raising), _LAST))


def evaluate(variable: Variable) -> np.ndarray:
    """Value of a graph without inputs."""
    return np.asarray(compile_graph([], variable, private=(), mode=CHECK_MODE)())


def draw(variable: Variable, seed: int) -> np.ndarray:
    """A random variable of a model that reads no record, as `pymc.draw` has it."""
    return np.asarray(compile_graph([], variable, private=(), random=True, random_seed=seed)())


def initial_point(model: pm.Model) -> dict[str, np.ndarray]:
    """Where chains of a model start, as `pymc.Model.initial_point` has it."""
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
    """A mode for what PyMC compiles itself at public inputs, of which none may be beyond its table."""
    return _safe(None, raising=True)
