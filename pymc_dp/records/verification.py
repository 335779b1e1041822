"""Numerical checks, at construction, that a log-likelihood is a sum over records."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pytensor
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace

from pymc_dp.records import checks, graph
from pymc_dp.records.batches import compiled_rows

# Below this many records an axis may have length n by coincidence: which one holds the records is tried out.
AMBIGUOUS_BELOW = 200
# Records that are compared at each of a few points.
COMPARED = 64
POINTS = 3


def _quiet(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
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
    rows = graph.rows(clone_replace(list(terms), stand_ins))
    function = _quiet(
        pytensor.function(
            [theta, *stand_ins.values()], rows, mode=checks.CHECK_MODE, on_unused_input="ignore"
        )
    )
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
        function = _quiet(compiled_rows(theta, terms, roots, n_rows, mode=checks.CHECK_MODE))
    except Exception:
        raise checks.refuse_coupled("its graph cannot be rebuilt for a few records") from None
    any_finite = False
    for _ in range(POINTS):
        point = start + rng.normal(scale=0.5, size=start.size)
        records = rng.choice(n_rows, size=size + 1, replace=False)
        few, exchanged = (
            [np.take(graph.leaf_value(root), which, axis=axis) for root, axis in roots.items()]
            for which in (records[:-1], np.concatenate([records[-1:], records[1:-1]]))
        )
        full = full_rows(point)[records[:-1]]
        try:
            part = function(point, *few)
            changed = [
                function(point, *values)
                for values in (
                    exchanged,
                    _extreme(few, roots.values(), 1.0),
                    _extreme(few, roots.values(), -1.0),
                )
            ]
        except Exception:
            raise checks.refuse_coupled("it cannot be evaluated for a few records") from None
        wrong = checks.coupling(full, part, changed, 0)
        if wrong:
            raise checks.refuse_coupled(wrong)
        any_finite |= bool(np.any(np.isfinite(full)))
    if not any_finite:
        raise checks.refuse_nowhere_finite()


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
