"""In which range public bounds may be: what is divided by one, and squared, stays an ordinary number."""

import numpy as np
from numpy.typing import ArrayLike

SMALLEST_BOUND, LARGEST_BOUND = 1e-100, 1e100


def check_bound(name: str, value: ArrayLike, *, several: bool = False) -> None:
    """Raise ValueError unless `value` is a public bound.

    Parameters
    ----------
    name : str
        Of the argument.
    value : float or array_like
        Integers or in double precision, from 1e-100 to 1e100.
    several : bool
        Whether it may be an array of them, with at least one.

    Notes
    -----
    **Privacy.** A record's part is divided by the bound before it is clipped. Below about 1e-200 the quotient
    overflows, and infinity times 0 moved a sum by 1e11 times what was stated.
    """
    if isinstance(value, float) and SMALLEST_BOUND <= value <= LARGEST_BOUND:
        return  # at every gradient
    numbers = np.asarray(value)
    if numbers.ndim and not several:
        raise ValueError(f"{name} must be positive and finite: a single number here, not one for each part.")
    # In half precision products with it would be rounded by a thousandth.
    real = (numbers.dtype.kind in "iu" or numbers.dtype == np.float64) and numbers.size
    with np.errstate(all="ignore"):
        wide = numbers.astype(float) if real else numbers
    if not (real and np.all(wide >= SMALLEST_BOUND) and np.all(wide <= LARGEST_BOUND)):
        shown = numbers.tolist() if numbers.size <= 10 else "an array"
        raise ValueError(
            f"{name} must be positive and finite, between 1e-100 and 1e100, got {shown!r}, in double "
            "precision. Beyond that, sums overflow. Give a bound in nats (and in units of the parameters) "
            "that your records could reach."
        )
