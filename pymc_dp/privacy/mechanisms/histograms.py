"""What one record moves a histogram by."""

import math


def histogram_sensitivity(neighboring_relation: str) -> float:
    """Most that one record moves counts by, in Euclidean norm, if its own are of norm 1 and not negative.

    Parameters
    ----------
    neighboring_relation : {"substitute", "add_remove"}

    Returns
    -------
    float
        A record that is replaced takes 1 from one cell to another: ``sqrt(2)``.
    """
    return math.sqrt(2.0) if neighboring_relation == "substitute" else 1.0
