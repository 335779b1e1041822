"""Names of parameters."""

from typing import Any

import numpy as np


def names_of(step: Any) -> list[str]:
    """Of the parameters of a step's model, as `arviz.summary` writes them."""
    names, of_values = [], {value.name: rv.name for value, rv in step.model.values_to_rvs.items()}
    for value, shape in step.records.shapes.items():
        name = of_values[value]
        names += [f"{name}[{', '.join(map(str, k))}]" if k else name for k in np.ndindex(*shape)]
    return names
