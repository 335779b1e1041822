"""The truth about row types: one record is changed, and what moves is looked at, at every node of a graph.

`Oracle` evaluates a graph node by node: nothing is compiled or rewritten, and every variable in between is
compared, too. No tolerance: what moves at all has moved, NaN being equal to NaN.
"""

import warnings
from collections.abc import Callable, Mapping

import numpy as np
import pytensor.tensor as pt
import scipy.sparse
from pytensor.compile.builders import OpFromGraph
from pytensor.conditional import IfElse
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.tensor.basic import AllocEmpty

from pymc_dp.records.row_types import PUBLIC, Rows, Typing

N = 5  # records
K = 3  # what index sources point into


class Oracle:
    """Evaluates variables node by node, and again for other values of the sources."""

    def __init__(self, values: Mapping[Variable, np.ndarray]):
        self.storage = {v: [value] for v, value in values.items()}
        self.nodes: list[tuple[Apply, Callable[[], object]]] = []

    def add(self, outputs) -> list[Variable]:
        """Evaluate more variables; raises what their Ops raise, and then knows none of them."""
        cells, nodes = self.storage.copy(), []
        for node in toposort(outputs, blockers=set(self.storage)):
            if node.outputs[0] in self.storage:
                continue
            for v in node.inputs:
                if v not in cells:
                    assert isinstance(v, Constant), v
                    cells[v] = [v.data]
            for v in node.outputs:
                cells[v] = [None]
            thunk = _thunk(node, cells)
            thunk()
            nodes.append((node, thunk))
        self.storage = cells
        self.nodes += nodes
        return [v for node, _ in nodes for v in node.outputs]

    def rerun(self, sources: Mapping[Variable, np.ndarray]) -> None:
        """Evaluate everything again; raises what the Ops raise."""
        for v, value in sources.items():
            self.storage[v][0] = value
        for node, thunk in self.nodes:
            for v in node.outputs:
                self.storage[v][0] = None
            thunk()

    def value(self, variable):
        return self.storage[variable][0]

    def run(self, sources: Mapping[Variable, np.ndarray]) -> dict[Variable, np.ndarray | None]:
        """Values of everything when the sources have these.

        None is what cannot be computed for them. What reads an index out of its table is left out: no such
        record is valid.
        """
        for v, value in sources.items():
            self.storage[v][0] = value
        for node, _ in self.nodes:
            for v in node.outputs:
                self.storage[v][0] = None
        found: dict[Variable, np.ndarray | None] = {}
        invalid: set[Variable] = set()
        for node, thunk in self.nodes:
            try:
                if invalid.intersection(node.inputs):
                    raise IndexError
                if any(v in found and found[v] is None for v in node.inputs):
                    raise ValueError
                thunk()
                found |= {v: _dense(self.storage[v][0]) for v in node.outputs}
            except IndexError:
                invalid.update(node.outputs)
            except Exception:
                found |= dict.fromkeys(node.outputs)
        return {v: np.array(a) if a is not None else None for v, a in found.items() if a is not _OTHER}


def _thunk(node, cells):
    if isinstance(node.op, AllocEmpty):  # whatever was in memory
        return lambda: cells[node.outputs[0]].__setitem__(
            0, np.zeros([int(cells[v][0]) for v in node.inputs], dtype=node.op.dtype)
        )
    if isinstance(node.op, IfElse):
        first, k = node.inputs[0], len(node.outputs)

        def choose():
            chosen = node.inputs[1 : 1 + k] if cells[first][0] else node.inputs[1 + k :]
            for out, v in zip(node.outputs, chosen, strict=True):
                cells[out][0] = cells[v][0]

        return choose
    if isinstance(node.op, OpFromGraph):  # not compiled: that would take longer than all the rest
        graph = node.op.fgraph
        inside = Oracle({v: cells[outer][0] for v, outer in zip(graph.inputs, node.inputs, strict=True)})

        def go_in():
            values = {v: cells[outer][0] for v, outer in zip(graph.inputs, node.inputs, strict=True)}
            if not inside.nodes:
                inside.storage |= {v: [value] for v, value in values.items()}
                inside.add(graph.outputs)
            else:
                inside.rerun(values)
            for out, v in zip(node.outputs, graph.outputs, strict=True):
                cells[out][0] = inside.value(v)

        return go_in
    compute = {v: [False] for v in (*node.inputs, *node.outputs)}
    return node.op.make_thunk(node, cells, compute, [], impl="py")


_OTHER = object()  # slices, types, random states


def _dense(value):
    if scipy.sparse.issparse(value):
        return value.toarray()
    return np.asarray(value) if isinstance(value, np.ndarray | np.generic | int | float) else _OTHER


def moved(before, after) -> np.ndarray | None:
    """Entries that differ, or None when the shapes do."""
    if before.shape != after.shape or before.dtype != after.dtype:
        return None
    with np.errstate(all="ignore"):
        same = (before == after) | ((before != before) & (after != after))
    return ~np.asarray(same)


def is_rows(changes, axis) -> bool:
    """Whether changing record r moved nothing but entry r along an axis."""
    return all(
        m is not None and axis < m.ndim and m.shape[axis] == N and not np.delete(m, r, axis=axis).any()
        for r, m in changes
    )


def is_public(changes) -> bool:
    return all(m is not None and not m.any() for _, m in changes)


SPECIAL = [np.nan, np.inf, -np.inf, 1e300, -1e300, 0.0, 1.0]


class Persons:
    """Sources with records, their values, and their values when one record is another's."""

    def __init__(self, seed=0, static=True):
        self.seed, self.rng = seed, np.random.default_rng(seed)
        rng = self.rng

        def tensor(shape, dtype="float64", records=None):
            known = tuple(s if static else None for s in shape)
            return pt.tensor(f"s{len(self.axes)}", dtype=dtype, shape=known)

        self.axes: dict[Variable, int] = {}
        self.values: dict[Variable, np.ndarray] = {}
        self.valid: dict[Variable, int] = {}
        for shape, axis, kind in (
            ((N,), 0, "f"),
            ((N, 3), 0, "f"),
            ((3, N), 1, "f"),
            ((N, 2, 4), 0, "f"),
            ((N,), 0, "i"),
            ((N, 2), 0, "i"),
            ((N,), 0, "b"),
            ((N, 3), 0, "b"),
        ):
            v = tensor(shape, {"f": "float64", "i": "int64", "b": "bool"}[kind])
            self.axes[v] = axis
            self.values[v] = self.draw(kind, shape)
        self.public: dict[Variable, np.ndarray] = {
            pt.tensor("theta", dtype="float64", shape=()): np.array(0.7),
            pt.tensor("b", dtype="float64", shape=(3,)): rng.normal(size=3),
            pt.tensor("c", dtype="float64", shape=(4,)): rng.normal(size=4),
            pt.tensor("W", dtype="float64", shape=(3, 4)): rng.normal(size=(3, 4)),
            pt.tensor("A", dtype="float64", shape=(3, 3)): rng.normal(size=(3, 3)) + 4 * np.eye(3),
            pt.tensor("calendar", dtype="float64", shape=(N,)): rng.normal(size=N),
            pt.tensor("square", dtype="float64", shape=(N, N)): rng.normal(size=(N, N)),
            pt.tensor("j", dtype="int64", shape=()): np.array(1),
            pt.tensor("js", dtype="int64", shape=(2,)): np.array([2, 0]),
            pt.tensor("order", dtype="int64", shape=(N,)): rng.permutation(N) % K,
            pt.tensor("mask", dtype="bool", shape=(3,)): np.array([True, False, True]),
        }

    def draw(self, kind, shape):
        if kind == "i":
            return self.rng.integers(0, K, shape)
        return self.rng.random(shape) < 0.5 if kind == "b" else self.rng.normal(size=shape)

    @property
    def sources(self):
        return {v: Rows(axis) for v, axis in self.axes.items()} | {v: PUBLIC for v in self.public}

    def changes(self):
        """Yield records and what the sources are when that record is another's; the same at each call."""
        self.rng = np.random.default_rng([self.seed, 1])
        for record in range(N):
            for special in (False, True):
                values = {}
                for v, axis in self.axes.items():
                    value = self.values[v].copy()
                    place = (slice(None),) * axis + (record,)
                    new = self.draw(value.dtype.kind, value[place].shape)
                    if special and value.dtype.kind == "f":
                        new = np.full_like(value[place], SPECIAL[record % len(SPECIAL)])
                    elif special:
                        new = ~value[place] if value.dtype.kind == "b" else (value[place] + 1) % K
                    value[place] = new
                    values[v] = value
                yield record, values


def truth(oracle: Oracle, persons: Persons) -> dict[Variable, list]:
    """For every variable: what moved, when which record was changed."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        before = oracle.run(persons.values)
        found: dict[Variable, list] = {v: [] for v in before}
        for record, values in persons.changes():
            after = oracle.run(values)
            for v, value in before.items():
                if v in after:
                    new = after[v]
                    # That a record can make it fail is something that moves.
                    found[v].append((record, None if new is None or value is None else moved(value, new)))
    return found


def wrong(types, changes: Mapping[Variable, list]) -> list[Variable]:
    """Variables that moved where their type says that they do not."""
    return [
        v
        for v, moves in changes.items()
        if (isinstance(types[v], Rows) and not is_rows(moves, types[v].axis))
        or (types[v] is PUBLIC and not is_public(moves))
    ]


def judged(outputs, persons: Persons):
    """Types of a graph, what moved, and which of its variables moved against their type."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        oracle = Oracle(persons.values | persons.public)
        oracle.add(outputs)
    types = Typing(N)(outputs, persons.sources)
    changes = truth(oracle, persons)
    return types, changes, wrong(types, changes)
