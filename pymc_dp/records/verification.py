"""A numerical check, on made-up records, of what row typing has accepted: a bug in a rule would show here."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from pytensor.graph import Variable

from pymc_dp.errors import PrivacyError
from pymc_dp.records import gate, graph, refusals
from pymc_dp.records.sums import Points, compiled_rows, guarded

# Sets of numbers for made-up records: the least and the largest real number, and the value of integers. There
# are several, since some distributions do not allow the first.
MADE_UP_NUMBERS = ((0.2, 0.8, 0), (1.2, 5.0, 1), (-3.0, 3.0, 2))


def separable(records: Points) -> None:
    """Replace one of many made-up records by one that is far away, and check that no other row changes.

    For each set of numbers, records and a point are drawn with fresh entropy. The real numbers of the first
    record become +-1,000 times the largest, whole numbers and truth values those of another record. No record
    of the data is used.

    Raises
    ------
    ModelRefusedError
        Rows depend on the position of a record; found on made-up records.
    PrivacyError
        Another row changed: a bug in this package, which says nothing about the model or the data.
    """
    rng, start, roots = np.random.default_rng(), records._start, records._roots
    function = compiled_rows(records, mode=gate.PLAIN_MODE)
    _by_position(function, start, roots)
    # Number of made-up records of which one is moved.
    records_to_move = 64
    for numbers in MADE_UP_NUMBERS:
        point = start + rng.normal(scale=0.5, size=start.size)
        few, other = (made_up(roots, roots, size, rng=rng, numbers=numbers) for size in (records_to_move, 1))
        moved = [_moved(few, other, roots.values(), sign) for sign in (0.0, 1.0, -1.0)]
        try:
            rows, *changed = (guarded(function, point, *values) for values in (few, *moved))
        except PrivacyError:
            continue  # rows cannot be evaluated with these numbers, which is no error
        if any(np.any(differ(rows, new)[1:]) for new in changed):
            raise PrivacyError(
                "A rule of row typing is wrong: replacing one record moved another's row. This is a bug in "
                "pymc_dp, and says nothing about your data: please report the model (without data)."
            )


def _by_position(
    function: Callable[..., np.ndarray], start: np.ndarray, roots: Mapping[Variable, int]
) -> None:
    """Refuse rows that depend on a record's position or on the number of records, tried on made-up records.

    Raises
    ------
    ModelRefusedError
    """
    # Entries of a variable must differ, or it would not show which of them a record reads.
    point = start + np.random.default_rng(0).uniform(0.05, 0.2, start.size)
    # Number of made-up records of which the first is removed, to see whether rows depend on their position:
    # more than in a block of records that a model may treat by position.
    records_by_place = 1_000
    for numbers in MADE_UP_NUMBERS:
        many = made_up(roots, roots, records_by_place, numbers=numbers)
        fewer = [np.delete(values, 0, axis) for values, axis in zip(many, roots.values(), strict=True)]
        try:
            rows, alone = (guarded(function, point, *values) for values in (many, fewer))
        except PrivacyError:
            if numbers == MADE_UP_NUMBERS[0]:
                raise refusals.refuse_position() from None
            continue  # shapes are right, since the first numbers worked: these ones cannot be computed with
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
    """Make up a few records with the shapes and types of the model's arrays.

    Parameters
    ----------
    records : mapping of Variable to int
        A variable of the type of each array, and the axis of the records.
    roots : mapping of Variable to int
        The arrays themselves, and the axis.
    size : int
        Number of records.
    first : float, optional
        Value of all real numbers of the first record.
    numbers : tuple of float, float, int
        Least and largest real number, and the value of all integers; with `rng`, their largest value.
    rng : Generator, optional
        Source of the numbers; default: the same numbers each time.
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
    """Return where entries differ; NaN equals NaN."""
    return ~((a == b) | (np.isnan(a) & np.isnan(b)))


def _moved(
    few: Sequence[np.ndarray], other: Sequence[np.ndarray], axes: Iterable[int], sign: float
) -> list[np.ndarray]:
    """Copy records with the first one replaced; unless `sign` is 0, its real numbers are far outside."""
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
