"""Exact sums over all records, and log-likelihoods of some; errors and warnings show nothing of a record."""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from threading import Lock, get_ident
from typing import Any, NamedTuple, cast

import numba
import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile import Function
from pytensor.graph import Variable, clone_replace, rewrite_graph
from pytensor.tensor import TensorVariable

from pymc_dp.errors import PrivacyError, kept, kind
from pymc_dp.records import graph, other_records
from pymc_dp.records.gate import compile_graph
from pymc_dp.records.reading import Reading

# Suppression of warnings: a lock, the threads that need it at the moment, and what restores the filters.
_LOCK, _INSIDE, _CHANGED = Lock(), list[int](), ExitStack()


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings in all threads, and those of NumPy in this one.

    Notes
    -----
    **Privacy.** A warning would reveal that some record is NaN, overflows or is missing. Python has one list
    of filters for all threads: if each thread changed and restored it, one would show what another
    suppresses. Therefore the first thread that enters changes the list, and the last that leaves restores it.
    """
    with _LOCK:
        if not _INSIDE:
            _CHANGED.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
        _INSIDE.append(get_ident())
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        with _LOCK:
            _INSIDE.remove(get_ident())
            if not _INSIDE:
                _CHANGED.close()


def guarded[R](
    function: Callable[..., R], *args: object, what: str = "The log-likelihood could not be evaluated"
) -> R:
    """Call a function of private data without warnings, and hide the content of errors.

    Warnings would reveal that some record is NaN, overflows or is missing; PyTensor's errors print inputs.

    Parameters
    ----------
    function : callable
    *args : object
    what : str
        Beginning of the message if the function fails.

    Raises
    ------
    PrivacyError
        The function failed; the message has the kind of error only, and no cause attached.
    """
    try:
        with quiet():
            return function(*args)
    except Exception as error:
        name, where = kind(error), kept(error)
    raise PrivacyError(f"{what} ({name}). Nothing more is said: its inputs are private. {where}")


# A clipped ratio is rounded to a multiple of clip_bound / GRID: an integer of absolute value at most GRID.
GRID = float(2**20)
# Most records: sums of this many such integers are exact in float64, in any order, so that one record moves
# the sum by at most what `FullBatch` states.
LARGEST_N = 2**33


class SumOfRatios(NamedTuple):
    """Results of one pass over the data. All of them are private.

    Attributes
    ----------
    total : float
        Sum over records of the clipped ratio, an integer in units of ``clip_bound / GRID``.
    clipped : float
        Number of records whose ratio was clipped or was not a number.
    rows : ndarray, shape (n,)
        Log-likelihood of each record at the new point.
    log_prior : float
        Log-prior at the new point, with Jacobians (data-free).
    """

    total: float
    clipped: float
    rows: np.ndarray
    log_prior: float


class FullBatch:
    """Sums of clipped log-likelihood ratios: compiled function of a point and of another point's rows.

    Parameters
    ----------
    records : Points

    Notes
    -----
    **Privacy.** With ``r = new - old`` a record contributes ``round(clip(r / B, -1, 1) * GRID)``: an odd
    function of r with values in [-GRID, GRID]; NaN gives 0, infinities give the bound. The integer total
    therefore moves by at most ``2 * GRID`` when a record is replaced and by ``GRID`` when one is added or
    removed, in floating point as in theory (see docs/proofs/penalty).
    """

    def __init__(self, records: "Points"):
        self._records, self.n = records, records.n
        if self.n > LARGEST_N:
            raise ValueError(f"more than 2**33 records ({self.n}): their grid sum would not be exact.")
        rows = other_records.rows(records._terms)  # here: a chain makes this before it pays
        if records.unit_of_row is not None:
            rows = pt.zeros(self.n)[records.unit_of_row].inc(rows)
        self._rows = rows

    @cached_property
    def _function(self) -> Callable[..., list[np.ndarray]]:
        records, rows = self._records, self._rows
        old = pt.vector("old", shape=(self.n,), dtype="float64")
        scale = pt.scalar("scale", dtype="float64")
        ratio = (rows - old) * scale
        inside = pt.le(pt.abs(ratio), GRID)  # False for NaN as well
        step = pt.round(pt.switch(pt.isnan(ratio), 0.0, pt.clip(ratio, -GRID, GRID)), mode="half_to_even")
        # The sum is taken outside: a loop that adds in a fixed order could not be vectorised over records.
        inputs, outputs = [records._theta, old, scale], [step, inside, rows, records._log_prior]
        return compiled(inputs, outputs, records.compile_kwargs, private=[old, *records._roots])

    def __call__(self, theta: np.ndarray, old: np.ndarray, clip_bound: float) -> SumOfRatios:
        """Sum the clipped ratios between `theta` and the point whose rows are `old`.

        Parameters
        ----------
        theta : ndarray, shape (d,)
        old : ndarray, shape (n,)
            Rows at the other point.
        clip_bound : float
            B > 0, finite.

        Returns
        -------
        SumOfRatios
        """
        steps, inside, rows, log_prior = guarded(self._function, theta, old, np.float64(GRID / clip_bound))
        return SumOfRatios(float(steps.sum()), float(self.n - inside.sum()), rows, float(log_prior))

    def at(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Compute rows and log-prior at one point."""
        _, _, rows, log_prior = guarded(self._function, theta, np.zeros(self.n), np.float64(1.0))
        return rows, float(log_prior)

    def rows(self, theta: np.ndarray) -> np.ndarray:
        """Compute the log-likelihood of each record, shape (n,), at `theta`."""
        return self.at(theta)[0]


def compiled(
    inputs: Sequence[Variable],
    outputs: Variable | Sequence[Variable],
    compile_kwargs: Mapping[str, Any],
    private: Collection[Variable],
) -> Function:
    """Compile a graph; inputs must have the right type and may be unused. See `gate.compile_graph`."""
    return compile_graph(inputs, outputs, private=private, trust_input=True, **compile_kwargs)


def compiled_rows(records: "Points", **kwargs: object) -> Function:
    """Compile rows as a function of (theta, *roots), where the roots hold any number of records."""
    stand_ins, rows = other_records.symbolic_rows(records._terms, records._roots, records.n_rows)
    given = list(stand_ins.values())
    # Stabilised, so that rows are stable in every mode; and canonical: a parameter that by coincidence has as
    # many entries as there are records would else be reshaped to the number of records in the call.
    (rows,) = cast(list[Variable], rewrite_graph([rows], include=("canonicalize", "stabilize"), clone=True))
    return compiled([records._theta, *given], rows, kwargs, private=given)


def part_of(values: np.ndarray, rows: slice | np.ndarray, axis: int) -> np.ndarray:
    """Return some rows, in the memory layout that functions are compiled for."""
    if not isinstance(rows, slice):
        return np.take(values, rows, axis=axis)
    part = values[(slice(None),) * axis + (rows,)]
    return part if part.flags.c_contiguous and part.flags.writeable else np.array(part, order="C")


def sums(rows: np.ndarray, first: np.ndarray | None) -> np.ndarray:
    """Sum the rows of each unit, from the first to the last.

    Parameters
    ----------
    rows : ndarray, shape (b, ...)
        Sorted by unit.
    first : ndarray of int, shape (k,), or None
        Position of each unit's first row, increasing; None when each row is a unit.

    Returns
    -------
    ndarray, shape (k, ...)
        NaN and infinities are left in, without a warning.
    """
    if first is None or not first.size:
        return rows
    flat = np.ascontiguousarray(rows, dtype=np.float64).reshape(len(rows), -1)
    return _sums(flat, first).reshape(first.size, *rows.shape[1:])


@numba.njit(cache=True)
def _sums(rows, first):
    out = np.zeros((first.size, rows.shape[1]))
    for unit in range(first.size):
        for i in range(first[unit], first[unit + 1] if unit + 1 < first.size else rows.shape[0]):
            for j in range(rows.shape[1]):
                out[unit, j] += rows[i, j]
    return out


class Points:
    """The part of `RecordModel` that computes at parameter points, once the model has been read.

    Attributes
    ----------
    shapes : dict of str to tuple
        Shapes of the value variables, in the order of the flat vector.
    n : int
        Number of privacy units.
    unit_of_row : ndarray of int, shape (n_rows,), or None
        None: each row is a unit.
    effects : list of str
        Observed variables that are effects of persons.
    """

    n: int
    n_rows: int
    shapes: dict[str, tuple[int, ...]]
    value_vars: list[Variable]
    unit_of_row: np.ndarray | None
    _theta: TensorVariable
    _start: np.ndarray
    _terms: Sequence[Variable]
    _terms_of_values: Sequence[Variable]
    _roots: Mapping[Variable, int]
    _log_prior: Variable
    compile_kwargs: dict[str, Any]
    reading: Reading
    effects: list[str]

    @cached_property
    def columns(self) -> dict[str, slice]:
        """Parts of the flat vector that belong to each value variable, by name."""
        return graph.columns_of(self.shapes)

    @property
    def shapes_of_values(self) -> dict[Variable, tuple[int, ...]]:
        """Shapes by value variable."""
        return dict(zip(self.value_vars, self.shapes.values(), strict=True))

    def _on_vector(self, outputs: Sequence[Variable]) -> list[Variable]:
        """Rewrite graphs of the value variables as graphs of the flat vector."""
        parts = graph.slices(self._theta, self.shapes_of_values)
        return clone_replace(list(outputs), parts)

    def ravel(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """Convert a PyMC point to the flat unconstrained vector, shape (d,)."""
        return np.concatenate([np.ravel(point[name]) for name in self.shapes])

    def unravel(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Convert a flat vector to a PyMC point (dict of arrays in value space); a copy."""
        return {name: theta[place].reshape(self.shapes[name]).copy() for name, place in self.columns.items()}

    def ratios(self, theta: np.ndarray, new: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Compute log-likelihood ratios of some privacy units, at a cost that does not depend on n.

        Parameters
        ----------
        theta, new : ndarray, shape (d,)
        units : ndarray of int, shape (b,)
            Positions in 0..n-1; repeats are allowed.

        Returns
        -------
        ndarray, shape (b,)
            Log-likelihood at `new` minus that at `theta`; not clipped, may hold NaN and infinities.

        Raises
        ------
        IndexError
            A position outside 0..n-1 (compiled code would not notice).
        """
        rows, starts = self.rows_of(units)
        parts = self.data_of(rows)
        found = guarded(lambda: self._some_rows(new, *parts) - self._some_rows(theta, *parts))
        return found if starts is None else sums(found, starts[:-1])

    def data_of(self, rows: slice | np.ndarray) -> list[np.ndarray]:
        """Return some rows of each array with an entry a record, in the order of the model's arrays."""
        return [part_of(table[0], rows, axis) for table, axis in self._tables]

    def rows_of(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the rows of some units, sorted by unit, and the positions where each unit's rows begin.

        The last position is the end. None instead of positions: each row is a unit.

        Raises
        ------
        IndexError
            A position outside 0..n-1 (compiled code would not notice).
        """
        units = np.asarray(units, dtype=np.int64)
        if units.size and (units.min() < 0 or units.max() >= self.n):
            raise IndexError(f"privacy units are 0..{self.n - 1}")
        order, first = self._rows_of_unit
        if order is None or first is None:
            return units, None
        lengths = first[units + 1] - first[units]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
        return order[np.repeat(first[units], lengths) + within], starts

    def log_prior(self, theta: np.ndarray) -> float:
        """Compute the log-prior at `theta`, Jacobians included; reads no record."""
        return float(self._log_prior_function(theta))

    def log_prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        """Compute the gradient of the log-prior, Jacobians included, shape (d,); reads no record."""
        return self._log_prior_gradient_function(theta)

    @cached_property
    def _tables(self) -> list[tuple[list[np.ndarray], int]]:
        """Storage of each array with an entry a record, which follows new data; and its axis of records."""
        return [(graph.storage(root), axis) for root, axis in self._roots.items()]

    @cached_property
    def _some_rows(self) -> Callable[..., np.ndarray]:
        return compiled_rows(self, **self.compile_kwargs)

    @cached_property
    def _rows_of_unit(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Rows sorted by unit; where each unit's rows begin, and the last end. None: each row is a unit."""
        if self.unit_of_row is None:
            return None, None
        order = np.argsort(self.unit_of_row, kind="stable")
        return order, np.searchsorted(self.unit_of_row[order], np.arange(self.n + 1))

    @cached_property
    def _log_prior_gradient_function(self) -> Callable[[np.ndarray], np.ndarray]:
        gradient = pytensor.grad(self._log_prior, self._theta, disconnected_inputs="ignore")
        return compiled([self._theta], cast(Variable, gradient), self.compile_kwargs, private=())

    @cached_property
    def _log_prior_function(self) -> Callable[[np.ndarray], np.ndarray]:
        return compiled([self._theta], self._log_prior, self.compile_kwargs, private=())
