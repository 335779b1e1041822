"""Rounding to the safe side: prices are rounded up, in print as well, and remaining budgets down."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context

#: Factor by which a computed price is rounded up: more than the rounding error of some thousand operations.
UP = 1 + 1e-9


def round_up(value: float, digits: int = 4) -> str:
    """Return a decimal string of at least `value`: a printed epsilon is never below the computed one."""
    nearest = f"{value:.{digits}g}"
    return _beside(value, digits, ROUND_CEILING) if float(nearest) < value else nearest


def round_down(value: float, digits: int = 4) -> str:
    """Return a decimal string of at most `value`: a remaining budget, or advice, is never too large."""
    nearest = f"{value:.{digits}g}"
    return _beside(value, digits, ROUND_FLOOR) if float(nearest) > value else nearest


def _beside(value: float, digits: int, rounding: str) -> str:
    """Return the decimal string with that many digits that is next to a number, on one side of it."""
    return f"{float(Context(digits, rounding).create_decimal_from_float(float(value))):.{digits}g}"
