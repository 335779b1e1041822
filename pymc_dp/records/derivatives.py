"""Gradients and Hessians of each record's log-likelihood, a chunk of records at a time.

For what is done once or a few times: one pass over the data costs about d (gradients) or d (d + 1) / 2
(Hessians) evaluations of the log-likelihood. `gradients.py` has the fast clipped sum.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import NullTypeGradError, pushforward
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.utils import MethodNotDefined

from pymc_dp.records import graph
from pymc_dp.records.refusals import refuse_derivative
from pymc_dp.records.sums import compiled, gather, guarded, sums

# Rows of a chunk: its derivatives stay in the cache.
_ROWS = 4096


class Derivatives(NamedTuple):
    """Derivatives of the log-likelihood of some privacy units, at one point. All of it is private.

    Attributes
    ----------
    units : slice
        Which units.
    gradient : ndarray, shape (k, d)
    hessian : ndarray, shape (k, d, d) or (k, m), or None
        Whole, or the m entries asked for.
    """

    units: slice
    gradient: np.ndarray
    hessian: np.ndarray | None


def along(rows: Variable, theta: Variable, point: Variable, directions: Sequence[Variable]) -> list[Variable]:
    """Directional derivatives of `rows` at `point`: the first along each prefix of `directions`.

    ``[D_u rows, D_u D_v rows, ...]`` for directions u, v, ...; the graph evaluates them in forward mode.

    Raises
    ------
    ModelRefusedError
        An Op has no derivative.
    """
    steps = [pt.scalar(dtype="float64") for _ in directions]
    moved = point
    for step, direction in zip(steps, directions, strict=True):
        moved = moved + step * direction
    (value,) = clone_replace([rows], {theta: moved})
    derivatives = []
    for step in steps:
        try:
            value = cast(Variable, pushforward(value, step, pt.constant(np.float64(1.0))))
        except (MethodNotDefined, NullTypeGradError) as error:
            raise refuse_derivative(error.args[-1] if error.args else "an Op") from None
        except TypeError as error:
            if "NullType" not in str(error):
                raise
            raise refuse_derivative("an Op whose derivative has none itself") from None
        derivatives.append(value)
    zeros: dict[Variable, Variable] = {step: pt.constant(np.float64(0.0)) for step in steps}
    return list(clone_replace(derivatives, zeros))


class RecordDerivatives:
    """Compiled derivatives of any model of the record layer.

    Parameters
    ----------
    theta : Variable, vector of length d
    terms : sequence of Variable
        Flattened per-record terms (see `graph.flatten`).
    roots : mapping of Variable to int
        Data leaves with one entry a record, and the axis of the records.
    n_rows : int
    rows_of_unit : tuple of ndarray, or None
        Rows sorted by unit, and the position of each unit's first; None when each row is a unit.
    compile_kwargs : mapping
        Passed to `pytensor.function`.
    """

    def __init__(
        self,
        theta: Variable,
        terms: Sequence[Variable],
        roots: Mapping[Variable, int],
        n_rows: int,
        rows_of_unit: tuple[np.ndarray, np.ndarray] | None,
        compile_kwargs: Mapping[str, Any],
    ):
        self._roots, self._n_rows, self._rows_of_unit = dict(roots), n_rows, rows_of_unit
        self.d = theta.type.shape[0]
        stand_ins, rows = graph.symbolic_rows(terms, roots, n_rows)
        u, v = (pt.vector(name, shape=(self.d,), dtype="float64") for name in ("u", "v"))
        point = pt.vector("point", shape=(self.d,), dtype="float64")

        def along_these(directions: list[Variable]) -> Callable[..., np.ndarray]:
            output = graph.simplify([along(rows, theta, point, directions)[-1]])[0]
            given = list(stand_ins.values())
            return compiled([point, *directions, *given], output, compile_kwargs, private=given)

        self._first, self._second = along_these([u]), along_these([u, v])

    def __call__(
        self, theta: np.ndarray, hessians: bool | tuple[np.ndarray, np.ndarray] = False
    ) -> Iterator[Derivatives]:
        """Go through all privacy units in chunks.

        Parameters
        ----------
        theta : ndarray, shape (d,)
        hessians : bool, or pair of ndarray of int, shape (m,)
            Whether to compute second derivatives as well; or rows and columns of those that are wanted.

        Yields
        ------
        Derivatives
            NaN and infinities are left in: what to make of them is for the caller.
        """
        basis = np.eye(self.d)
        for units, parts, first in self._chunks():
            gradient = np.stack([sums(guarded(self._first, theta, e, *parts), first) for e in basis], axis=1)
            hessian = None
            if isinstance(hessians, tuple):
                hessian = np.stack(
                    [
                        sums(guarded(self._second, theta, basis[i], basis[j], *parts), first)
                        for i, j in zip(*hessians, strict=True)
                    ],
                    axis=1,
                )
            elif hessians:
                hessian = np.empty((*gradient.shape, self.d))
                for i in range(self.d):
                    for j in range(i + 1):
                        second = sums(guarded(self._second, theta, basis[i], basis[j], *parts), first)
                        hessian[:, i, j] = hessian[:, j, i] = second
            yield Derivatives(units, gradient, hessian)

    def _chunks(self) -> Iterator[tuple[slice, list[np.ndarray], np.ndarray | None]]:
        if self._rows_of_unit is None:
            for start in range(0, self._n_rows, _ROWS):
                stop = min(start + _ROWS, self._n_rows)
                cut = [
                    np.ascontiguousarray(
                        graph.leaf_value(root)[(slice(None),) * axis + (slice(start, stop),)]
                    )
                    for root, axis in self._roots.items()
                ]
                yield slice(start, stop), cut, None
            return
        order, first = self._rows_of_unit
        unit = 0
        while unit < first.size - 1:
            last = max(int(np.searchsorted(first, first[unit] + _ROWS, side="right")) - 1, unit + 1)
            index = order[first[unit] : first[last]]
            cut = [gather(graph.leaf_value(root), index, axis) for root, axis in self._roots.items()]
            yield slice(unit, last), cut, first[unit:last] - first[unit]
            unit = last
