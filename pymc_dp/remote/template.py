"""The template: a model without its records, for parameters, prior, names and the form of the likelihood."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import Any, Protocol, Unpack

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike

from pymc_dp.errors import ModelRefusedError, PrivacyError
from pymc_dp.likelihood.measurements import AllSums
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.records import gate
from pymc_dp.records.checks import check_start
from pymc_dp.records.coordinates import Coordinates
from pymc_dp.records.effects import find_effects
from pymc_dp.records.lengths import number_of_rows
from pymc_dp.records.model import RecordModel
from pymc_dp.records.reading import RecordSettings
from pymc_dp.records.refusals import refuse_integrated
from pymc_dp.records.twins import Twins
from pymc_dp.records.units import unit_of

#: Ids of the units: a function of a part, or the name of the model's data; or either by the unit's name.
Unit = Callable[[object], ArrayLike] | str | Mapping[str, Callable[[object], ArrayLike] | str] | None
# Tolerance, relative and absolute, for equal priors and coordinates: models are compiled where their rows
# are, perhaps on another processor.
TOLERANCE = 1e-9


#: Properties that the models of all parts must share with the template: JSON, by name.
type Agreement = Mapping[str, Any]


class TemplateSettings(RecordSettings, total=False):
    """Arguments of a `Template`."""

    likelihood: bool
    unit: Unit


class Elsewhere(Protocol):
    """Interface of `data=`: records that are not in the model, such as `Shards`.

    Notes
    -----
    **Privacy.** An implementation has to ensure, and to document: that all rows are of one moment, and each
    is in one part; that no value of a row is refused, and what replaces a missing value; that rows are the
    same for every sum. `release_likelihood` and steps call `records` before anything is paid.
    """

    @property
    def privacy_unit(self) -> object:
        """Ids of the units that rows belong to, in the form that `Shards` takes, or None."""

    def records(
        self, model: pm.Model, *, likelihood: bool = False, **settings: Unpack[RecordSettings]
    ) -> "Template":
        """Open the records and check their models, for a likelihood or (default) for a step.

        If steps are not supported, this is where to refuse one.
        """


class Template(ABC):
    """The model in whose context a step is made, or a likelihood released, when its rows are not the records.

    Its rows may be made up, or those of one part; the likelihood that they give is never used.

    Parameters
    ----------
    model : pymc.Model
        A model like those of the parts.
    likelihood : bool
        Whether a likelihood is released.
    unit : callable, str, mapping or None
        Ids of the parts' rows, see `Shards`. If it is the name of the model's data, the template has such
        data as well; for a function, each of the template's rows counts as one person.
    **settings
        Arguments of `RecordModel`.

    Attributes
    ----------
    n, unit_of_row : object
        As of a `RecordModel`, for all parts together; set by subclasses.
    tables : list of RecordModel
        The template's records alone.
    lengths, withheld_dims : set of int, list of str
        As of a `RecordModel`, for the template and all parts.
    twins : Twins
        Twins of the template: their public properties are those of the parts' twins.
    d : int
        Number of unconstrained parameters.
    shapes : dict of str to tuple
        Shapes of the value variables.
    released_variables : list of str
    ravel, unravel, log_prior : callable
        As in `Points`.
    coordinates : Coordinates
        Likelihood coordinates.
    """

    one_process: bool = True
    n: Any
    unit_of_row: object

    def __init__(
        self,
        model: pm.Model,
        *,
        likelihood: bool = False,
        unit: Unit = None,
        **settings: Unpack[RecordSettings],
    ):
        _, ids = unit_of(unit)
        if not likelihood:
            for rv in find_effects(model, ids).axes if isinstance(ids, str) else ():
                raise refuse_integrated(rv.name)
            ids = None
        elif callable(ids):
            ids = np.arange(number_of_rows(model))
        self._records = RecordModel(model, privacy_unit=ids, integrate=likelihood, **settings)
        self._model, self._likelihood, self._process = self._records._model, likelihood, os.getpid()
        self.tables, self.neighboring_relation = [self._records], self._records.neighboring_relation
        self.reading = self._records.reading
        if likelihood:  # before parts are opened, and asked at points around it
            check_start(self.reading.start)
        self.ravel, self.unravel = self._records.ravel, self._records.unravel
        self.log_prior = self._records.log_prior
        self._start = self._records.ravel(self.reading.start)
        self._dims = {name: int(gate.evaluate(size)) for name, size in model.dim_lengths.items()}
        self.d, self.shapes = self._records.d, self._records.shapes
        self.released_variables = self._records.released_variables

    @property
    def coordinates(self) -> Coordinates:
        """See `RecordModel.coordinates`."""
        return self._records.coordinates

    @cached_property
    def twins(self) -> Twins:
        """See `RecordModel.twins`."""
        return self._records.twins

    def end(self) -> None:  # noqa: B027 (nothing is open in most)
        """Release resources after a likelihood was released: no further question follows."""

    @abstractmethod
    def measurements(self, spending: Spending, seed: int | None, kept: Mapping[str, float]) -> AllSums:
        """Open the noisy sums for a likelihood.

        `seed` makes twins reproducible; `kept` has shares of the budget that are reserved for later releases.
        """

    def check_data(self) -> None:
        """Refuse a process that cannot reach the records.

        A change of records is noticed only if a part is lost and loaded again: the files of the records must
        not change during the call.
        """
        if self.one_process and self._process != os.getpid():
            raise PrivacyError(
                "Chains on remote records run in the process that opened them, where their connections are: "
                "pass cores=1 to pm.sample (dp.sample does). What runs in parallel is where the records are."
            )

    def _set_lengths(self, units: Collection[int], rows: Collection[int] = ()) -> None:
        """Set `lengths` and `withheld_dims` for all parts.

        Dimensions that are as long as a part has units are withheld, not those as long as it has rows.
        """
        self.lengths = self._records.lengths.union(units, rows)
        of_parts = {name for name, length in self._dims.items() if length in units}
        self.withheld_dims = sorted(of_parts.union(self._records.withheld_dims))

    def agreement(self) -> Agreement:
        """Return the properties that the models of all parts must share; fit for JSON, and data-free."""
        rng = np.random.default_rng(0)
        # Points at which functions are compared: the initial point, and eight around it.
        points = self._start + np.vstack([np.zeros(self.d), rng.normal(scale=0.5, size=(8, self.d))])
        shared = _shared(self._records, points, self._likelihood)
        found = {name: own.tolist() if isinstance(own, np.ndarray) else own for name, own, _ in shared}
        return found | {"points": points.tolist()}


def check_agreement(records: RecordModel, agreement: Agreement) -> None:
    """Refuse a part whose model has other parameters or another prior than the template.

    Raises
    ------
    ModelRefusedError
        The message names what differs, without values.
    """
    points = np.asarray(agreement["points"])
    for name, own, refusal in _shared(records, points, likelihood="twins" in agreement):
        wanted = agreement[name]
        if isinstance(own, np.ndarray):
            same = np.allclose(own, wanted, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        else:
            same = own == wanted
        if not same:
            raise ModelRefusedError(*refusal)


def _properties_of_twins(records: RecordModel) -> dict[str, object]:
    """Return the public properties of records' scores: see `Twins`."""
    twins = records.twins
    return {
        "size": twins.size,
        "names": twins.names,
        "apart": [one.names for one in twins.apart],
        "touched": twins.touched,
        "rank": twins.rank,
        "finite": twins.finite,
        "bounds": sorted(twins.bounds),
        "doubtful": twins.doubtful,
        "drawn": sorted(set(records.reading.opaque.observed) - set(twins.finite) - set(twins.unlike)),
        "lookups": [place.tolist() for place in twins.lookups],
        "sums": [[[sign, places.tolist()] for sign, places in one] for one in twins.sums],
    }


_OTHER_PARAMETERS = (
    "The model of a part has other free variables or Deterministics than the step's model.",
    "the parts are one data set only if they share all parameters.",
    "make both by the same function; shapes must not depend on which rows are in a part (as the "
    "number of groups that happen to occur there).",
)
_OTHER_PRIOR = (
    "The model of a part has another prior than the step's model.",
    "a prior that differs from part to part was computed from their rows, which would leak.",
    "write the prior with constants chosen without the data.",
)
_OTHER_COORDINATES = (
    "The likelihood of a part depends on other functions of the parameters than that of the step's model.",
    "it is released in coordinates that all parts share, and a vector of parameters that is as long "
    "as there are rows is taken for one with an entry for each row.",
    "make the step in a model with another number of rows, or divide the records differently: no "
    "part may have as many rows (or persons) as a group-level variable has entries.",
)
_OTHER_FORM = (
    "The likelihood of a part has another form than that of the step's model.",
    "a record's outcome has to be compared with the same kind of outcomes in all parts, and to "
    "depend on the same parameters.",
    "make both models with the same function; rows belong to persons in all parts or in none.",
)


def _shared(
    records: RecordModel, points: np.ndarray, likelihood: bool
) -> Iterator[tuple[str, object, tuple[str, str, str]]]:
    """Yield what the models of all parts share, and what is said of a part in which it differs.

    Arrays may differ by `TOLERANCE`. Each is defined where the ones before it are the same.
    """
    variables = {name: list(shape) for name, shape in records.shapes.items()}
    yield "variables", variables, _OTHER_PARAMETERS
    yield "released", records.released_variables, _OTHER_PARAMETERS
    yield "log_priors", np.array([records.log_prior(point) for point in points]), _OTHER_PRIOR
    if likelihood:
        seen = records.coordinates
        names = [[name, where.start, where.stop] for name, where in seen.names]
        yield "coordinates", names, _OTHER_COORDINATES
        yield "values", np.array([seen(point) for point in points]), _OTHER_COORDINATES
        yield "slopes", np.array([seen.jacobian(point) for point in points]), _OTHER_COORDINATES
        yield "twins", _properties_of_twins(records), _OTHER_FORM
