"""To the safe side: prices are rounded up; as they are printed, too, and what is left is rounded down."""

import math

#: Factor of what is rounded up: more than the relative rounding error of some thousand operations.
UP = 1 + 1e-9


def round_up(value: float, digits: int = 4) -> str:
    """Decimal string of at least `value`: a printed epsilon is never below the computed one."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return _rounded(value, digits, 1)


def round_down(value: float, digits: int = 4) -> str:
    """Decimal string of at most `value`: what is left, or is advised, is never too large."""
    if value <= 0 or not math.isfinite(value):
        return f"{value:g}"
    return _rounded(value, digits, -1)


def _rounded(value: float, digits: int, side: int) -> str:
    """The next decimal string above (side 1) or below (side -1), or what the number is itself."""
    nearest = f"{value:.{digits}g}"
    if side * float(nearest) >= side * value:
        return nearest
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
    steps = side * math.ceil(side * value / unit)
    while side * float(f"{steps * unit:.{digits}g}") < side * value:
        steps += side
    return f"{steps * unit:.{digits}g}"
