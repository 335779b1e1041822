"""Every Op that is admitted, on numbers at which something may stop; a script, for a process of its own."""

import itertools
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.scalar.basic
import pytensor.scalar.math
import pytensor.tensor as pt
from pymc.distributions import dist_math
from pytensor.tensor.elemwise import Elemwise

from pymc_dp.records.gate import compile_graph
from pymc_dp.records.row_types.admitted import SCALARS

FLOATS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e308, -1e308, 1.0, -1.0, 0.5, 2.5])
WHOLE = np.array([0, 1, -1, 2, 64, -(2**63), 2**63 - 1])


def scalar_ops() -> dict[str, Any]:
    """An instance of each class, by name."""
    found = {}
    for module in (pytensor.scalar.basic, pytensor.scalar.math, dist_math):
        for op in vars(module).values():
            name = type(op).__name__
            if isinstance(op, pytensor.scalar.basic.ScalarOp) and name in SCALARS:
                found.setdefault(name, op)
    return found


def grid(values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """All combinations of the values of each argument, one array an argument."""
    return [np.array(a) for a in zip(*itertools.product(*values), strict=True)]


def arity(op: Any) -> int:
    """How many arguments: what says none takes two."""
    return (op.impl.__code__.co_argcount - 1 if op.nin < 0 else op.nin) or 2


def applied(name: str, op: Any, inputs: list[Any]) -> list[Any]:
    """An Op of numbers with the derivatives that it has; nothing where it is not for such numbers."""
    numbers = [v for v in inputs if v.type.dtype == "float64"]
    if name == "Cast":
        op = pytensor.scalar.basic.convert_to_int64
    if name == "PolyGamma":  # of a public order
        inputs = [pt.constant(2), inputs[1]]
    try:
        out = Elemwise(op)(*inputs)
    except (NotImplementedError, TypeError):  # of truth values, or of real numbers only
        return []
    if not numbers or not out.type.dtype.startswith("float"):
        return [out]
    try:
        slopes = pytensor.grad(out.sum(), numbers, disconnected_inputs="ignore", null_gradients="return")
    except Exception:  # it has no derivative
        return [out]
    return [out, *(s for s in slopes if hasattr(s.type, "dtype"))]


def run(inputs: list[Any], outputs: list[Any], given: list[np.ndarray]) -> str | None:
    """Compile and call; what is raised."""
    try:
        compiled = compile_graph(inputs, outputs, private=inputs)
        compiled(*given)
        compiled(*[a[:0] for a in given])
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def of_numbers(ops: dict[str, Any]) -> None:
    """Each Op with its derivatives in one function: several Ops in one take longer, not less.

    Of floats, of whole numbers, and of every mixture of these: compiled code is another for each.
    """
    for name, op in ops.items():
        for types in itertools.product(("float64", "int64"), repeat=arity(op)):
            inputs = [pt.vector(dtype=dtype) for dtype in types]
            outputs = applied(name, op, inputs)
            given = grid([FLOATS if dtype == "float64" else WHOLE for dtype in types])
            error = run(inputs, outputs, given) if outputs else None
            if error:
                print(f"{name} of {', '.join(types)} raises {error}")


GOOD = np.array([[2.0, 0.5], [0.5, 1.0]])
MATRICES = {
    "not a number": np.full((2, 2), np.nan),
    "infinite": np.full((2, 2), np.inf),
    "one infinite": np.array([[1.0, 0.0], [-np.inf, 1.0]]),
    "one not a number": np.array([[1.0, np.nan], [0.0, 1.0]]),
    "zero": np.zeros((2, 2)),
    "singular": np.ones((2, 2)),
    "subnormal": np.full((2, 2), 5e-324),
    "huge": np.full((2, 2), 1e308),
    "not symmetric": np.array([[1.0, 2.0], [-3.0, 1.0]]),
}
LINEAR: dict[str, Callable[[Any], Any]] = {
    "cholesky": pt.linalg.cholesky,
    "qr": lambda a: pt.linalg.qr(a)[0] + pt.linalg.qr(a)[1],
    "solve_triangular": lambda a: pt.linalg.solve_triangular(a, pt.constant([1.0, 2.0]), lower=True),
    "cho_solve": lambda a: pt.linalg.cho_solve((a, True), pt.constant([1.0, 2.0])),
}


def of_matrices(name: str, function: Callable[[Any], Any]) -> None:
    """With a bad matrix in the middle: neither an error, nor another value for the others."""
    a = pt.tensor("a", shape=(None, 2, 2), dtype="float64")
    out = function(a)
    compiled = compile_graph([a], [out, pytensor.grad(out.sum(), a)], private=[a])
    expected = compiled(np.stack([GOOD, GOOD, GOOD]))
    for kind, matrix in MATRICES.items():
        for one, other in zip(expected, compiled(np.stack([GOOD, matrix, GOOD])), strict=True):
            if not np.array_equal(one[[0, 2]], other[[0, 2]], equal_nan=True):
                print(f"{name}: {kind} moves other matrices")


def of_tensors() -> None:
    """Sums, orders, look-ups and shapes."""
    x, g = pt.matrix("x", dtype="float64"), pt.lvector("g")
    table = pt.constant(np.arange(3.0))
    outputs = {
        "sum": x.sum(axis=1),
        "prod": x.prod(axis=1),
        "max": x.max(axis=1),
        "argmax": pt.argmax(x, axis=1),
        "any": pt.any(x, axis=1),
        "cumsum": pt.cumsum(x, axis=1),
        "cumprod": pt.cumprod(x, axis=1),
        "sort": pt.sort(x, axis=1),
        "argsort": pt.argsort(x, axis=1),
        "searchsorted": pt.searchsorted(table, x[:, 0]),
        "dot": x @ pt.ones((x.shape[1], 2)),
        "softmax": pt.special.softmax(x, axis=1),
        "log_softmax": pt.special.log_softmax(x, axis=1),
        "logsumexp": pt.logsumexp(x, axis=1),
        "look-up": table[g],
        "write": pt.zeros((g.shape[0], 3))[pt.arange(g.shape[0]), g].set(1.0),
        "repeat": pt.repeat(x, 2, axis=1),
        "split": pt.concatenate(pt.split(x, [1, 1], axis=1), axis=1),
        "diagonal": pt.diagonal(x),
        "tril": pt.tril(x),
    }
    columns = np.stack(grid([FLOATS] * 2), axis=1)
    codes = np.resize(WHOLE, len(columns))
    for name, output in outputs.items():
        compiled = compile_graph([x, g], output, private=[x, g])
        for a, b in ((columns, codes), (columns[:0], codes[:0])):
            try:
                compiled(a, b)
            except Exception as error:
                print(f"{name} of {len(a)} raises {type(error).__name__}: {str(error)[:100]}")
        if output.type.dtype.startswith("float"):
            slope = pytensor.grad(output.sum(), x, disconnected_inputs="ignore", null_gradients="return")
            if hasattr(slope.type, "dtype"):
                compile_graph([x, g], slope, private=[x, g])(columns, codes)


def main(parts: list[str]) -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    found = scalar_ops()
    if "matrices" in parts:
        for name, function in LINEAR.items():
            of_matrices(name, function)
    elif "tensors" in parts:
        of_tensors()
    elif "numbers" in parts:
        for name in sorted(SCALARS - set(found) - {"Deg2Rad", "Rad2Deg"}):
            print(f"{name} was not tried")
        for name in (name for name, op in found.items() if arity(op) > 3):
            print(f"{name} has more arguments than are tried")
        of_numbers(found)
    else:
        of_numbers({name: found[name] for name in parts})
    print("to the end")


if __name__ == "__main__":
    main(sys.argv[1:])
