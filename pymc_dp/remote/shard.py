"""One part of the records, in the process where it is: its model, and exact sums over its rows."""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pymc as pm

from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records import graph
from pymc_dp.records.lengths import refuse_more_than_exact
from pymc_dp.records.model import RecordModel
from pymc_dp.records.reading import RecordSettings
from pymc_dp.records.units import Ids, ids_in, ids_of, unit_of
from pymc_dp.remote.answers import answer, call_for_user
from pymc_dp.remote.template import Agreement, Unit, check_agreement


@dataclass(frozen=True)
class Recipe:
    """A part of the records and the function that makes its model.

    Attributes
    ----------
    build : callable
        ``build(part)`` returns the `pymc.Model` of the rows of a part.
    part : object
        Argument of `build`: a path, an array, ...; a Dask `Delayed` is computed first, where the model is
        made.
    privacy_unit : callable, str or mapping, optional
        ``privacy_unit(part)`` returns the ids of the persons that the rows belong to, shape (n_rows,); or
        the name of the model's `pymc.Data` with them; or either by the name of the unit.
    settings : mapping
        Other arguments of `RecordModel`.
    likelihood : bool
        Whether a likelihood is released: effects of persons are then integrated.
    """

    build: Callable[[object], pm.Model]
    part: Any
    privacy_unit: Unit = None
    settings: RecordSettings = field(default_factory=RecordSettings)
    likelihood: bool = False

    @property
    def unit(self) -> str:
        """Name of the privacy unit: "row" without ids."""
        return unit_of(self.privacy_unit)[0]

    def pickled(self) -> bytes:
        """Serialise the recipe, including functions that were defined in a notebook."""
        return cloudpickle.dumps(self)

    def make(self) -> tuple[pm.Model, RecordModel, Ids | None]:
        """Make the model of the part; return it, its `RecordModel`, and the ids of its units, each once."""
        part = self.part
        if hasattr(part, "__dask_graph__"):
            part = part.compute(scheduler="synchronous")
        # PyMC has a stack of open models for each thread. A step is made in the context of its own model,
        # which would become the parent of this one in the same thread.
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


class ShardFacts(NamedTuple):
    """Facts about a shard that are sent to the process of the chain.

    Attributes
    ----------
    n, n_rows : int
        Numbers of privacy units and of rows.
    units : Ids or None
        Ids of its privacy units, each once.
    digest : str
        Hash of its data; private.
    """

    n: int
    n_rows: int
    units: Ids | None
    digest: str


class Shard:
    """Model of a part of the records.

    Every method's result is a function of its arguments and of the part alone; rows at a point are stored
    only to save time. So a request can be repeated, here or at a copy elsewhere, with the same result.

    Parameters
    ----------
    recipe : Recipe or bytes
        Pickled for another process.

    Notes
    -----
    **Privacy.** It runs where the part is; results are exact, for a caller who adds the noise. Twins are
    drawn here, from a secret key that is an argument.
    """

    def __init__(self, recipe: Recipe | bytes):
        self._recipe = recipe
        self._rows: dict[bytes, np.ndarray] = {}

    def answer(self, request: tuple) -> object:
        """Call a method of this class, given as ``(method, *arguments)``; return its result or an error."""
        method, *arguments = request
        return answer(method, self, *arguments)

    def open(self, agreement: Agreement) -> ShardFacts:
        """Make the model, check it, and check that it agrees with the step's.

        Raises
        ------
        ModelRefusedError
        """
        facts = self.read()
        check_agreement(self.records, agreement)
        return facts

    def read(self) -> ShardFacts:
        """Make the model and check it."""
        recipe: Recipe = cloudpickle.loads(self._recipe) if isinstance(self._recipe, bytes) else self._recipe
        model, self.records, units = recipe.make()
        self.unit = recipe.unit
        if recipe.likelihood:  # owners add noise to sums of their own
            refuse_more_than_exact(self.records.lengths, len(model.observed_RVs))
        return ShardFacts(self.records.n, self.records.n_rows, units, digest(model, self.records, units))

    def compare(self, theta: np.ndarray, new: np.ndarray, clip_bound: float) -> tuple[float, float]:
        """Compute the sum of clipped ratios between two points.

        Parameters
        ----------
        theta, new : ndarray, shape (d,)
        clip_bound : float

        Returns
        -------
        total, clipped : float
            As in `SumOfRatios`.
        """
        here, there = theta.tobytes(), new.tobytes()
        rows = self._rows[here] if here in self._rows else self.records.full_batch.rows(theta)
        ratios = self.records.full_batch(new, rows, clip_bound)
        self._rows = {here: rows, there: ratios.rows}  # the next point is one of these
        return ratios.total, ratios.clipped

    def ratios(self, theta: np.ndarray, new: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Compute ratios, see `RecordModel.ratios`; positions are those in this shard."""
        return self.records.ratios(theta, new, units)

    def sums[T](
        self, key: np.ndarray, method: Callable[..., T], known: bool, which: int | None, *arguments: object
    ) -> T:
        """Compute sums for a released likelihood.

        Parameters
        ----------
        key : ndarray
            Key of the twins' random stream: see `PrivacyRandom.keys`.
        method : callable
            Method of `RecordsHere`.
        known : bool
            Whether to use the twins `with_known_bounds`.
        which : int or None
            Index in `apart`; None: all together.
        *arguments : object
            Arguments of the method.
        """
        twins = self.records.twins.with_known_bounds if known else self.records.twins
        source = RecordsHere(twins, PrivacyRandom.keyed(key))
        return method(source if which is None else source.apart[which], *arguments)


def digest(model: pm.Model, records: RecordModel, units: Ids | None) -> str:
    """Compute a hash of all data of a part, by which it is checked that they are still the same.

    Data are the arrays of the model's observed variables, all arrays from which records are read (for a
    sparse matrix, which is no array, its parts), and the unit of each row.
    """
    observed = [model.rvs_to_values[rv] for rv in model.observed_RVs]
    own = [graph.leaf_value(leaf) for leaf in graph.data_leaves([*model.observed_RVs, *observed])]
    read = [graph.leaf_value(root) for root in records._roots]
    if units is not None:
        read.append(np.asarray(records.unit_of_row))
    # The order of `read` depends on rewrites of the graph: it is sorted.
    found = [*map(_hash, own), *sorted(map(_hash, read)), repr(units)]
    return hashlib.blake2b(repr(found).encode(), digest_size=16).hexdigest()


def _hash(value: object) -> str:
    if not isinstance(value, np.ndarray):
        return ""
    state = hashlib.blake2b(f"{value.dtype} {value.shape}".encode())
    parts = [value]
    if isinstance(value, np.ma.MaskedArray):  # as `pm.set_data` makes one of an array with a NaN
        parts = [np.ma.getdata(value), np.ma.getmaskarray(value)]
    for part in parts:
        state.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8))
    return state.hexdigest()
