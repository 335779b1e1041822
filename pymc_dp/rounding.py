"""To the safe side: prices are rounded up; as they are printed, too, and what is left is rounded down."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context

#: Factor of what is rounded up: more than the relative rounding error of some thousand operations.
UP = 1 + 1e-9


def round_up(value: float, digits: int = 4) -> str:
    """Decimal string of at least `value`: a printed epsilon is never below the computed one."""
    nearest = f"{value:.{digits}g}"
    return _beside(value, digits, ROUND_CEILING) if float(nearest) < value else nearest


def round_down(value: float, digits: int = 4) -> str:
    """Decimal string of at most `value`: what is left, or is advised, is never too large."""
    nearest = f"{value:.{digits}g}"
    return _beside(value, digits, ROUND_FLOOR) if float(nearest) > value else nearest


def _beside(value: float, digits: int, rounding: str) -> str:
    """The decimal string of so many digits that is next to a number, on one side of it."""
    return f"{float(Context(digits, rounding).create_decimal_from_float(float(value))):.{digits}g}"
