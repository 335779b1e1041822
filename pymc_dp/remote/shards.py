"""A data set in parts: the interface of `RecordModel`, and exact sums, for rows that are elsewhere.

A part is the user's object; a `Shard` is the model of its rows; a `Home` is the place where a shard lives.
"""

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pymc as pm

from pymc_dp.errors import ModelRefusedError, PrivacyError
from pymc_dp.likelihood.comparisons import Bounds, Totals
from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.sources import RecordsHere, Units
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.reading import RecordSettings
from pymc_dp.records.sums import LARGEST_N, SumOfRatios
from pymc_dp.records.units import Ids
from pymc_dp.remote.answers import UnavailableError, value
from pymc_dp.remote.homes import Here, Home, LostError, OnWorker
from pymc_dp.remote.shard import Recipe, Shard, ShardFacts
from pymc_dp.remote.template import Template, TemplateSettings, Unit

if TYPE_CHECKING:
    from distributed import Client


class SumsOfParts:
    """The `Source` of records in parts.

    Parameters
    ----------
    units : Units
        Public properties of the likelihood, on which all parts agree.
    ask : callable
        Takes a method of `RecordsHere`, `known`, `which` and the method's arguments; returns the answers of
        all parts.
    known : bool
        Whether to use the sums `with_known_bounds`.
    which : int, optional
        Index in `apart`; None: all together.

    Notes
    -----
    **Privacy.** Each part adds integers, in floating point but exactly: the sum over parts is the sum over
    all records in one place, however they are divided.
    """

    def __init__(
        self, units: Units, ask: Callable[..., list[Any]], known: bool = False, which: int | None = None
    ):
        self.units, self._ask, self._own = units, ask, (known, which)

    @property
    def apart(self) -> Sequence["SumsOfParts"]:
        """See `Source.apart`."""
        known, _ = self._own
        return [SumsOfParts(one, self._ask, known, k) for k, one in enumerate(self.units.apart)]

    @property
    def with_known_bounds(self) -> "SumsOfParts":
        """See `Source.with_known_bounds`."""
        return SumsOfParts(self.units.with_known_bounds, self._ask, known=True)

    def count_unknown_bounds(self) -> np.ndarray:
        """Add up the parts' counts: see `Source.count_unknown_bounds`."""
        return np.sum(self._ask(RecordsHere.count_unknown_bounds, *self._own), axis=0)

    def scales(self, phi: np.ndarray, twins: int) -> np.ndarray:
        """Add up the parts' counts: see `Source.scales`."""
        return np.sum(self._ask(RecordsHere.scales, *self._own, phi, twins), axis=0)

    def compare(self, phi: np.ndarray, metric: np.ndarray, bounds: Bounds, twins: int) -> Totals:
        """Add up the parts' sums: see `Source.compare`."""
        total = Totals(self.units.size)
        for part in self._ask(RecordsHere.compare, *self._own, phi, metric, bounds, twins):
            total.add(part)
        return total

    def spread(self, phi: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """Add up the parts' counts: see `Source.spread`."""
        return np.sum(self._ask(RecordsHere.spread, *self._own, phi, metric), axis=0)


#: A method of `Shard` and its arguments; the answer is the method's result.
type Request[T] = tuple[Callable[..., T], *tuple[object, ...]]
type PartHome = Home[Request[Any], Any]


@dataclass(frozen=True, eq=False)
class Shards:
    """Records in several parts, on the workers of a Dask cluster or in this process.

    Pass it to `release_likelihood`, to `sample` or to a step as ``data=``, in the context of a model that
    `build` makes of a few rows (made up, or of one part): parameters and prior are taken from that model, and
    the records from the parts.

    Parameters
    ----------
    build : callable
        ``build(part)`` returns the `pymc.Model` of a part's rows. It has to treat each row by itself: nothing
        that it computes from the rows of a part (a mean, a number of groups) may enter the model. No NaN may
        reach ``observed=``: PyMC turns it into a parameter, and the refusal of such a model reveals that
        record. Nor may an error or a warning depend on a row: casts, divisions, logarithms.
    parts : iterable or Dask collection
        Arguments of `build`, one a part: paths of files, arrays, ...; or `dask.delayed` objects, or a Dask
        DataFrame, Bag or Array in partitions along the rows, which are computed on the workers. A part has at
        least two records, and many more than a group-level variable has entries (docs/limits, "The number of
        records"). Each record is in one part, and all are of one moment: files and tables must not change
        during the call. The same path (or object, or equal slices or tuples) given twice is refused; that two
        other parts have a row in common is not noticed, and each such record then moves sums by twice what
        the noise is for.
    client : distributed.Client, optional
        Cluster of the parts; each goes to the worker with the fewest. Default: all are in this process, and
        are worked on one after the other.
    privacy_unit : callable, str or mapping, optional
        ``privacy_unit(part)`` returns the id of the person each row belongs to, shape (n_rows,). All rows of
        a person must be in one part. By name, as ``{"patient": function}``, for a ledger of that unit. Or the
        name of the `pymc.Data` with the ids in the models that `build` makes: effects that these ids look up
        are integrated if a likelihood is released (docs/records).
    patience : float
        Seconds to wait for a worker that takes a part, before the run stops.

    Raises
    ------
    ValueError
        There are no parts, a part is found to be given twice, or an array is divided along another axis too.

    Notes
    -----
    **Privacy.** The guarantee is that of the same step on one machine: exact integer sums come back, are
    added exactly, and the noise is added once, in the chain's process (docs/cluster). A part that is lost
    with its worker is loaded again and asked the same question, before any noise is drawn. Exact sums cross
    the cluster's network, and whoever may use the cluster may read its memory: the cluster is trusted with
    the data.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dp as dp
    >>> def build(part):
    ...     x, y = part
    ...     with pm.Model() as model:
    ...         beta = pm.Normal("beta", 0, 2, shape=2)
    ...         _ = pm.Bernoulli("y", logit_p=x @ beta, observed=y)
    ...     return model
    >>> rng = np.random.default_rng(1)
    >>> parts = [(rng.uniform(-1, 1, (100, 2)) / np.sqrt(2), rng.integers(0, 2, 100)) for _ in range(3)]
    >>> with build(parts[0]):
    ...     step = dp.DPPenaltyMH(epsilon=2, delta=1e-6, lipschitz=1, chains=1, data=dp.Shards(build, parts))
    >>> step.records.n
    300
    """

    build: Callable[[object], pm.Model]
    parts: Iterable[object]
    client: "Client | None" = None
    privacy_unit: Unit = None
    patience: float = 300.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _parts(self.parts, here=self.client is None))

    def records(
        self, model: pm.Model, *, likelihood: bool = False, **settings: Unpack[RecordSettings]
    ) -> "ShardedRecords":
        """Build and check the model of every part; see `ShardedRecords`."""
        homes: list[PartHome] = []
        for part in self.parts:
            recipe = Recipe(self.build, part, self.privacy_unit, settings, likelihood)
            if self.client is None:
                homes.append(Here(Shard(recipe)))
            else:
                homes.append(OnWorker(self.client, Shard, recipe.pickled(), patience=self.patience))
        return ShardedRecords(model, homes, likelihood=likelihood, unit=self.privacy_unit, **settings)


class ShardedRecords(Template):
    """Records in several parts, with the interface of `RecordModel`.

    Parameters
    ----------
    model : pymc.Model
        See `Template`.
    homes : sequence of Home
        The home of each `Shard`, or of another object that answers in the same way.
    **settings
        Arguments of `Template`.

    Attributes
    ----------
    n, n_rows : int
        Privacy units and rows, of all parts.

    Raises
    ------
    ModelRefusedError
        The model of a part would leak or differs from the template, or a person has rows in two parts.
    """

    # Number of times that a lost part is loaded again before the run stops.
    reloads = 3

    def __init__(self, model: pm.Model, homes: Sequence[PartHome], **settings: Unpack[TemplateSettings]):
        super().__init__(model, **settings)
        self._homes = homes
        self.one_process = not all(isinstance(home, Here) for home in homes)  # this one has the connections
        facts = self._ask(enumerate([(Shard.open, self.agreement())] * len(homes)))
        self._digests = [one.digest for one in facts]
        no_person_twice([one.units for one in facts if one.units is not None])
        self.n, self.n_rows = sum(one.n for one in facts), sum(one.n_rows for one in facts)
        if self.n > LARGEST_N:
            raise ValueError("more than 2**33 records: their grid sum would not be exact.")
        self.unit_of_row = None if facts[0].units is None else "known where the rows are"
        self._set_lengths([self.n, *(one.n for one in facts)], [self.n_rows, *(one.n_rows for one in facts)])
        self._first = np.cumsum([0, *(one.n for one in facts)])

    @property
    def full_batch(self) -> "ShardedRecords":
        """The object itself, which acts as `FullBatch`; a point stands for its rows, which stay elsewhere."""
        return self

    def __call__(self, theta: np.ndarray, old: np.ndarray, clip_bound: float) -> SumOfRatios:
        """Sum the clipped ratios between `theta` and `old`.

        Parameters
        ----------
        theta, old : ndarray, shape (d,)
        clip_bound : float
            B > 0, finite.

        Returns
        -------
        SumOfRatios
            Instead of rows it has a copy of `theta`.
        """
        return SumOfRatios(*self.totals(old, theta, clip_bound), *self.at(theta))

    def totals(self, theta: np.ndarray, new: np.ndarray, clip_bound: float) -> tuple[float, float]:
        """Add up `Shard.compare` over all parts: integers, exact in any order."""
        each = self._ask(enumerate([(Shard.compare, theta, new, clip_bound)] * len(self._homes)))
        return sum(total for total, _ in each), sum(clipped for _, clipped in each)

    def at(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the point itself, which stands for its rows, and the log-prior."""
        return theta.copy(), self.log_prior(theta)

    def ratios(self, theta: np.ndarray, new: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Compute ratios, see `RecordModel.ratios`; positions run over the parts in their order."""
        units = np.asarray(units, dtype=np.int64)
        if units.size and (units.min() < 0 or units.max() >= self.n):
            raise IndexError(f"privacy units are 0..{self.n - 1}")
        shard_of = np.searchsorted(self._first, units, side="right") - 1
        wanted = {int(k): np.flatnonzero(shard_of == k) for k in np.unique(shard_of)}
        own = ((k, (Shard.ratios, theta, new, units[here] - self._first[k])) for k, here in wanted.items())
        out = np.empty(units.size)
        for here, values in zip(wanted.values(), self._ask(own), strict=True):
            out[here] = values
        return out

    def measurements(self, spending: Spending, seed: int | None, kept: Mapping[str, float]) -> Measurements:
        """Open the noisy sums of a likelihood; twins have a stream of their own, for any number of parts."""
        return Measurements(self.source(PrivacyRandom(seed, stream=1)), spending, kept)

    def source(self, random: PrivacyRandom) -> SumsOfParts:
        """Open the exact sums for a likelihood; `random` gives the keys of the twins' streams."""

        def ask[T](method: Callable[..., T], *arguments: object) -> list[T]:
            keys = enumerate(random.keys(len(self._homes)))
            return self._ask((k, (Shard.sums, key, method, *arguments)) for k, key in keys)

        return SumsOfParts(self.twins, ask)

    def _ask[T](self, requests: Iterable[tuple[int, Request[T]]]) -> list[T]:
        """Send requests to parts, given by their numbers, all at once; wait for the answers."""
        waiting = [(k, self._homes[k].ask(request), request) for k, request in requests]
        return [self._answer(*one) for one in waiting]

    def _answer[T](self, k: int, wait: Callable[[], T | PrivacyError], request: Request[T]) -> T:
        """Return the answer of part `k`; a part that was lost is loaded again, and its answer is the same."""
        for reload in range(self.reloads + 1):
            try:
                if reload:
                    wait = self._asked_again(k, request)
                return value(wait())
            except LostError as lost:
                kind = str(lost)
        raise UnavailableError(
            f"Part {k} of the records was lost {self.reloads + 1} times and cannot be had ({kind}). What the "
            "run reserved stays spent."
        )

    def _asked_again[T](self, k: int, request: Request[T]) -> Callable[[], T | PrivacyError]:
        self._homes[k].restart()
        if request[0] is not Shard.open:
            again: ShardFacts = value(self._homes[k].ask((Shard.open, self.agreement()))())
            if again.digest != self._digests[k]:
                raise PrivacyError(
                    f"Part {k} of the records was lost, and what was loaded in its place is not the same: "
                    "the chain, and its budget, are about other records. Make a new step."
                )
        return self._homes[k].ask(request)


def _parts(parts: Iterable[object], here: bool) -> list[object]:
    if hasattr(parts, "to_delayed"):
        if hasattr(parts, "numblocks") and any(blocks > 1 for blocks in parts.numblocks[1:]):
            raise ValueError("a Dask array of records is divided into chunks along its first axis only.")
        parts = parts.to_delayed()
        if isinstance(parts, np.ndarray):
            parts = parts.ravel()
    listed = list(parts)
    if not listed:
        raise ValueError("parts must hold at least one part of the records.")
    if len({_name(one, here) for one in listed}) < len(listed):
        raise ValueError(
            "parts holds one part twice: each of its records would move sums by twice what the noise is for."
        )
    return listed


def _name(part: Any, here: bool) -> Hashable:
    """Return a key that is equal for equal parts; for files in reach of this process, the real path."""
    if isinstance(part, str | os.PathLike):
        return os.path.realpath(part) if here else os.fspath(part)
    if hasattr(part, "__dask_graph__"):
        return part.key
    try:
        hash(part)
    except TypeError:  # an array, and what holds one
        return id(part)
    return part


def no_person_twice(units: Sequence[Ids]) -> None:
    """Refuse ids that occur in more than one part; within a part each id is listed once.

    Raises
    ------
    ModelRefusedError
    """
    if len({one.kind for one in units}) > 1:
        raise ModelRefusedError(
            "The ids of persons are of different types in different parts.",
            "1, 1.0 and '1' may be one person's, whose rows would be taken for those of several.",
            "have privacy_unit(part) return ids of one type, as text or whole numbers, for every part.",
        )
    if len({key for one in units for key in one.keys}) < sum(len(one.keys) for one in units):
        raise ModelRefusedError(
            "A person has rows in more than one part.",
            "the rows of a person are added before they are clipped, which takes all of them in one place.",
            "divide the records by person.",
        )
