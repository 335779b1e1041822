"""A second look, by numbers, at what row typing has accepted: a bug in a rule would show here."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from pytensor.graph.basic import Variable

from pymc_dp.errors import PrivacyError
from pymc_dp.records import gate, graph, refusals
from pymc_dp.records.sums import Points, compiled_rows, guarded

# Made-up records of which the first is taken away: more than a block of them that a model may count by place.
_PLACES = 1_000
# Made-up records of which one moves.
_ROWS = 64
# Least and largest real numbers, and all whole ones, of made-up records: some laws have none of the first.
_MADE_UP = ((0.2, 0.8, 0), (1.2, 5.0, 1), (-3.0, 3.0, 2))


def separable(records: Points) -> None:
    """Move one of many made-up records by far, and see that no other row moves.

    At a point, with numbers from fresh entropy. Real numbers move to +-1,000 times the largest, whole numbers
    and truth values to those of another record. No record of the data is used.

    Raises
    ------
    ModelRefusedError
        Rows depend on the place of a record; seen on made-up records.
    PrivacyError
        A row moved that should not: a bug in this package, and not about the model or the data.
    """
    rng, start, roots = np.random.default_rng(), records._start, records._roots
    function = compiled_rows(records, mode=gate.PLAIN_MODE)
    _by_position(function, start, roots)
    for numbers in _MADE_UP:
        point = start + rng.normal(scale=0.5, size=start.size)
        few, other = (made_up(roots, roots, size, rng=rng, numbers=numbers) for size in (_ROWS, 1))
        moved = [_moved(few, other, roots.values(), sign) for sign in (0.0, 1.0, -1.0)]
        try:
            rows, *changed = (guarded(function, point, *values) for values in (few, *moved))
        except PrivacyError:
            continue  # what cannot be evaluated is not told apart here: that would be about values
        if any(np.any(differ(rows, new)[1:]) for new in changed):
            raise PrivacyError(
                "A rule of row typing is wrong: replacing one record moved another's row. This is a bug in "
                "pymc_dp, and says nothing about your data: please report the model (without data)."
            )


def _by_position(
    function: Callable[..., np.ndarray], start: np.ndarray, roots: Mapping[Variable, int]
) -> None:
    """Refuse rows that depend on where a record stands, or on how many there are: on made-up records.

    Raises
    ------
    ModelRefusedError
    """
    # Entries of a variable differ, or nobody would see which of them a record takes.
    point = start + np.random.default_rng(0).uniform(0.05, 0.2, start.size)
    for numbers in _MADE_UP:
        many = made_up(roots, roots, _PLACES, numbers=numbers)
        fewer = [np.delete(values, 0, axis) for values, axis in zip(many, roots.values(), strict=True)]
        try:
            rows, alone = (guarded(function, point, *values) for values in (many, fewer))
        except PrivacyError:
            if numbers == _MADE_UP[0]:
                raise refusals.refuse_position() from None
            continue  # they fit the shapes: these numbers cannot be computed with
        if alone.shape != rows[1:].shape or not np.allclose(
            alone, rows[1:], rtol=1e-6, atol=1e-8, equal_nan=True
        ):
            raise refusals.refuse_position()


def made_up(
    records: Mapping[Variable, int],
    roots: Mapping[Variable, int],
    size: int = 5,
    first: float | None = None,
    numbers: tuple[float, float, int] = (0.2, 0.8, 0),
    rng: np.random.Generator | None = None,
) -> list[np.ndarray]:
    """A few records in the shapes of arrays.

    Parameters
    ----------
    records : mapping of Variable to int
        What has the type of each array, and the axis of the records.
    roots : mapping of Variable to int
        The arrays themselves, and the axis.
    size : int
    first : float, optional
        All real numbers of the first record.
    numbers : tuple of float, float, int
        Least and largest real numbers, and all whole ones: with `rng` the largest of these.
    rng : Generator, optional
        Where numbers come from; default: the same ones each time.
    """
    made, (low, high, whole), mixed = [], numbers, rng is not None
    rng = rng or np.random.default_rng(0)
    for (record, axis), root in zip(records.items(), roots, strict=True):
        of_one = np.delete(np.shape(graph.leaf_value(root)), axis)
        values = rng.uniform(low, high, (max(size, 5), *of_one))[:size]
        if first is not None:
            values[0] = first
        if not record.type.dtype.startswith("float"):
            values[:] = rng.integers(whole + 1, size=values.shape) if mixed else whole
        made.append(np.ascontiguousarray(np.moveaxis(values, 0, axis), dtype=record.type.dtype))
    return made


def differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Entries that are not the same, NaN being the same as NaN."""
    return ~((a == b) | (np.isnan(a) & np.isnan(b)))


def _moved(
    few: Sequence[np.ndarray], other: Sequence[np.ndarray], axes: Iterable[int], sign: float
) -> list[np.ndarray]:
    """Copies in which the first record is another one, its real numbers far outside if there is a sign."""
    out = []
    for value, new, axis in zip(few, other, axes, strict=True):
        value, first = np.array(value), (slice(None),) * axis + (0,)
        value[first] = np.take(new, 0, axis=axis)
        if sign and value.dtype.kind == "f":
            largest = np.max(np.abs(value), initial=0.0, where=np.isfinite(value))
            with np.errstate(all="ignore"):
                value[first] = sign * 1e3 * (1.0 + largest)
        out.append(value)
    return out
