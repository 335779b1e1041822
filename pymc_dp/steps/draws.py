"""What each draw carries: the values that the private step left, and the names they may have."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
from pymc.blocking import PointType

from pymc_dp.privacy.budget import facts


class Released:
    """The variables that may leave, at the points of a chain.

    A release is made from these values, not from those that PyMC stores: between a step and the trace there
    may be another sampler, and after it whoever holds the object.

    Parameters
    ----------
    model : pymc.Model
    records : RecordModel
        Or its interface: which variables are released, and which dimensions keep their coordinates here.
    compile_kwargs : mapping

    Notes
    -----
    **Privacy.** Functions of the point, which is released; names, dims and coordinates as the model declares
    them.
    """

    def __init__(
        self,
        model: pm.Model,
        records: Any,
        compile_kwargs: Mapping[str, Any] | None,
    ):
        self._model, self._compile_kwargs = model, dict(compile_kwargs or {})
        self._names, self._withheld = list(records.released_variables), set(records.withheld_dims)

    def __call__(self, point: PointType) -> bytes:
        """Values of all variables, one after another."""
        pairs = zip(self._values(point), self._start, strict=True)
        return b"".join(value.astype(start.dtype, copy=False).tobytes() for value, start in pairs)

    def facts(self) -> dict[str, Any]:
        """How `__call__` is read, and the names of dimensions and coordinates; JSON-able."""
        free = {rv.name for rv in self._model.free_RVs}
        dims = {name: self._model.named_vars_to_dims.get(name, ()) for name in self._names}
        public = {dim for of_one in dims.values() for dim in of_one} - self._withheld
        return {
            "variables": [
                {
                    "name": name,
                    "free": name in free,
                    "dtype": value.dtype.str,
                    "shape": list(value.shape),
                    "dims": list(dims[name]) or [None] * value.ndim,
                }
                for name, value in zip(self._names, self._start, strict=True)
            ],
            "coords": {
                dim: facts.encode_coordinate(values)
                for dim, values in self._model.coords.items()
                if dim in public and values is not None
            },
        }

    def _values(self, point: PointType) -> list[np.ndarray]:
        known = {**point, **self._computed(point)}
        return [np.asarray(known[name]) for name in self._names]

    @cached_property
    def _start(self) -> list[np.ndarray]:
        """Values at the model's initial point: dtypes and shapes."""
        return self._values(self._model.initial_point(0))

    @cached_property
    def _computed(self) -> Callable[[PointType], dict[str, Any]]:
        """The variables that are not their own values."""
        model = self._model
        missing = set(self._names) - {v.name for v in model.value_vars}
        variables = [v for v in model.unobserved_value_vars if v.name in missing]
        if not variables:
            return lambda point: {}
        inputs, names = [v.name for v in model.value_vars], [v.name for v in variables]
        function = pm.compile(model.value_vars, variables, on_unused_input="ignore", **self._compile_kwargs)

        def computed(point: PointType) -> dict[str, Any]:
            return dict(zip(names, function(*[point[name] for name in inputs]), strict=True))

        return computed

    def __getstate__(self):  # a copy compiles again
        return {name: value for name, value in self.__dict__.items() if name != "_computed"}
