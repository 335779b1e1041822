"""How the model of some rows is made, where the rows are."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import pymc as pm
from numpy.typing import ArrayLike

from pymc_dp.records.model import RecordModel
from pymc_dp.records.reading import RecordSettings
from pymc_dp.records.units import Ids, ids_in, ids_of, unit_of
from pymc_dp.remote.answers import call_for_user

#: Whose a row is: a function of a part, or the name of the model's data; or either by the unit's name.
Unit = Callable[[object], ArrayLike] | str | Mapping[str, Callable[[object], ArrayLike] | str] | None


@dataclass(frozen=True)
class Recipe:
    """A part of the records and the function that makes its model.

    Attributes
    ----------
    build : callable
        ``build(part)`` returns the `pymc.Model` of the rows of a part.
    part : object
        What `build` takes: a path, an array, ...; a Dask `Delayed` is computed first, where the model is
        made.
    privacy_unit : callable, str or mapping, optional
        ``privacy_unit(part)`` returns the ids of the persons that the rows belong to, shape (n_rows,); or
        the name of the model's `pymc.Data` with them; or either by the name of the unit.
    settings : mapping
        Other arguments of `RecordModel`.
    likelihood : bool
        Whether a likelihood is released: effects of persons are integrated then.
    """

    build: Callable[[object], pm.Model]
    part: Any
    privacy_unit: Unit = None
    settings: RecordSettings = field(default_factory=RecordSettings)
    likelihood: bool = False

    def pickled(self) -> bytes:
        """Serialised, functions that were defined in a notebook included."""
        return cloudpickle.dumps(self)

    def make(self) -> tuple[pm.Model, RecordModel, Ids | None]:
        """Model of the part, the same seen as records, and the ids of its units, each once."""
        part = self.part
        if hasattr(part, "__dask_graph__"):
            part = part.compute(scheduler="synchronous")
        # PyMC's open models are a stack of the thread: a step is made inside of its own model, which would
        # become the parent of this one.
        with ThreadPoolExecutor(1) as thread:
            model = thread.submit(call_for_user, self.build, part).result()
        if not isinstance(model, pm.Model):
            raise TypeError("build(part) must return a pymc.Model")
        _, ids = unit_of(self.privacy_unit)
        if callable(ids):
            ids = call_for_user(ids, part)
        records = RecordModel(model, privacy_unit=ids, integrate=self.likelihood, **self.settings)
        _, ids = ids_in(model, ids)
        if ids is None:
            return model, records, None
        kind, keys = ids_of(ids, records.n_rows)
        return model, records, Ids(kind, list(dict.fromkeys(keys)))


def load(recipe: Recipe | bytes) -> Recipe:
    """Undo `Recipe.pickled`."""
    return cloudpickle.loads(recipe) if isinstance(recipe, bytes) else recipe
