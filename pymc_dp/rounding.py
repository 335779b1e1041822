"""Numbers as they are printed: what was spent is rounded up, what is left is rounded down."""

import math


def round_up(value: float, digits: int = 4) -> str:
    """Decimal string of at least `value`: a printed epsilon is never below the computed one."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
    steps = math.ceil(value / unit)
    while float(f"{steps * unit:.{digits}g}") < value:
        steps += 1
    return f"{steps * unit:.{digits}g}"


def round_down(value: float, digits: int = 4) -> str:
    """Decimal string of at most `value`: what is left, or is advised, is never too large."""
    if value <= 0 or not math.isfinite(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    steps = math.floor(value / unit)
    while float(f"{steps * unit:.{digits}g}") > value:
        steps -= 1
    return f"{steps * unit:.{digits}g}"
