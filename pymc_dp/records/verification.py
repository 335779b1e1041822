"""Numerical checks, at construction, that a log-likelihood is a sum over records."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace

from pymc_dp.records import checks, graph

# Below this many records an axis may have length n by coincidence: which one holds the records is tried out.
AMBIGUOUS_BELOW = 200
# Records that are compared at each of a few points.
COMPARED = 64
POINTS = 3


def _compiled(inputs: Sequence[Variable], rows: Variable) -> Callable[..., np.ndarray]:
    function = pytensor.function(inputs, rows, mode=checks.CHECK_MODE, on_unused_input="ignore")

    def quiet(*values: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return function(*values)

    return quiet


def record_roots(
    terms: Sequence[Variable], theta: Variable, start: np.ndarray, n_rows: int
) -> dict[Variable, int]:
    """Find the data leaves that hold one entry a record, and the axis the records are on.

    A leaf with an axis of length n is one, unless n is so small that this may be a coincidence: then
    exchanging two entries must move no other row.
    """
    candidates = [
        (leaf, axis) for leaf in graph.data_leaves(terms) for axis in graph.axes_of_length(leaf, n_rows)
    ]
    leaves = [leaf for leaf, _ in candidates]
    if n_rows >= AMBIGUOUS_BELOW and len(set(leaves)) == len(leaves):
        return dict(candidates)
    stand_ins = {leaf: leaf.type() for leaf in dict.fromkeys(leaves)}
    function = _compiled([theta, *stand_ins.values()], graph.rows(clone_replace(list(terms), stand_ins)))
    values = {leaf: graph.leaf_value(leaf) for leaf in stand_ins}
    rng = np.random.default_rng(0)
    point = start + rng.normal(scale=0.5, size=start.size)
    before = function(point, *values.values())
    roots: dict[Variable, int] = {}
    for leaf, axis in candidates:
        record, other = rng.choice(n_rows, size=2, replace=False)
        changed = np.array(values[leaf])
        changed[(slice(None),) * axis + (record,)] = np.take(values[leaf], other, axis=axis)
        after = function(point, *(values | {leaf: changed}).values())
        if not np.any(np.delete(checks.differ(before, after), record)):
            roots.setdefault(leaf, axis)
    return roots


def separable(
    terms: Sequence[Variable],
    theta: Variable,
    start: np.ndarray,
    n_rows: int,
    roots: Mapping[Variable, int],
    full_rows: Callable[[np.ndarray], np.ndarray],
) -> None:
    """Check that some rows, computed from those records alone, are the rows of the full vector.

    And that replacing one of the records, also by far-out values, leaves the other rows alone.

    Raises
    ------
    ModelRefusedError
    """
    rng = np.random.default_rng(0)
    size = min(n_rows // 2, COMPARED)
    try:
        function = _rows_of_few(terms, theta, n_rows, roots)
    except Exception:
        raise checks.refuse_coupled("its graph cannot be rebuilt for a few records") from None
    here = np.arange(size)
    exchanged = np.concatenate([[size], here[1:]])
    any_finite = False
    for _ in range(POINTS):
        point = start + rng.normal(scale=0.5, size=start.size)
        records = rng.choice(n_rows, size=size + 1, replace=False)
        values = [np.take(graph.leaf_value(root), records, axis=axis) for root, axis in roots.items()]
        full = full_rows(point)[records[:-1]]
        try:
            part = function(point, here, *values)
            changed = [function(point, exchanged, *values)]
            changed += [
                function(point, here, *_extreme(values, roots.values(), sign)) for sign in (1.0, -1.0)
            ]
        except Exception:
            raise checks.refuse_coupled("it cannot be evaluated for a few records") from None
        wrong = checks.coupling(full, part, changed, 0)
        if wrong:
            raise checks.refuse_coupled(wrong)
        any_finite |= bool(np.any(np.isfinite(full)))
    if not any_finite:
        raise checks.refuse_nowhere_finite()


def _rows_of_few(
    terms: Sequence[Variable], theta: Variable, n_rows: int, roots: Mapping[Variable, int]
) -> Callable[..., np.ndarray]:
    """Compile rows of (theta, index, *roots); a few rows stand in for the data, it never sees the rest."""
    index = pt.lvector("index")
    stand_ins = {
        root: root.type.clone(shape=tuple(None if i == axis else s for i, s in enumerate(root.type.shape)))()
        for root, axis in roots.items()
    }
    taken = {root: graph.take(stand_ins[root], axis, index) for root, axis in roots.items()}
    few = graph.replace_records(terms, taken, n_rows, index.shape[0])
    return _compiled([theta, index, *stand_ins.values()], graph.rows(few))


def _extreme(values: Sequence[np.ndarray], axes: Iterable[int], sign: float) -> list[np.ndarray]:
    """Copy `values` with the first record's real numbers far outside the others'."""
    out = []
    for value, axis in zip(values, axes, strict=True):
        value = np.array(value)
        if value.dtype.kind == "f":
            largest = np.max(np.abs(value), initial=0.0, where=np.isfinite(value))
            value[(slice(None),) * axis + (0,)] = sign * 1e3 * (1.0 + largest)
        out.append(value)
    return out
