"""`Prepare`: constants of a table's columns that a model needs, released once and then applied row by row."""

import json
import math
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

import numpy as np
import pandas as pd

from pymc_dp.errors import BudgetError, NoisySummaryWarning, PrivacyError
from pymc_dp.prepare.constants import (
    OTHER,
    BooleanConstants,
    Constants,
    LevelConstants,
    NumericConstants,
    restored,
    summarised,
    transformed,
)
from pymc_dp.prepare.fitting import READ, constants_of
from pymc_dp.prepare.grid import Cells
from pymc_dp.prepare.kinds import NAMES, Kind, kinds_of
from pymc_dp.prepare.releases import GRID, Target, measurement, rho_of, schedule
from pymc_dp.prepare.tables import Table, columns_of, table_of
from pymc_dp.privacy.accounting.event_sets import EventSet, decode, encode
from pymc_dp.privacy.budget.call import check_ledger
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.budget.words import warn_weak
from pymc_dp.privacy.mechanisms.summaries import IntegerSums, ThresholdedCounts
from pymc_dp.records.sums import guarded
from pymc_dp.records.units import unit_of, units

# Version of the format of `to_json`.
_FORMAT = 3
# Lock for charges. It is no attribute of `Prepare`, which could then not be pickled.
_PAYING = threading.Lock()
#: Classes that JSON may name.
_CLASSES = [*NAMES.values(), Cells, NumericConstants, LevelConstants, BooleanConstants]


class Prepare:
    """Scale, clip, number and fill the columns of a private table, with public constants that are paid for.

    `fit` is charged, once; `transform` reads one row at a time.

    Parameters
    ----------
    columns : mapping of str to kind
        The kind of each column that is wanted: "numeric", "category" or "boolean", or `dp.Numeric`,
        `dp.Category`, `dp.Boolean` with what is known about it. Public: chosen without looking at the table.
    epsilon, delta : float
        Price of `fit`, for all columns together. With a ledger, `delta` is the ledger's by default.
    ledger : Ledger, optional
        Ledger that is charged before a cell is read.
    neighboring_relation : {"substitute", "add_remove"}, optional
        Default: the ledger's, or without one "substitute", where the number of rows is public.
    label : str
        Label of the ledger's entry.

    Attributes
    ----------
    constants_ : dict of str to constants
        After `fit`: `NumericConstants`, `LevelConstants` or `BooleanConstants` of each column. Public.
    events : EventSet
        Privacy events of `fit`, from which accountants compute its cost; known before.

    Raises
    ------
    ImportError
        OpenDP is not installed.
    TypeError, ValueError
        An argument is of a wrong type, or out of range.

    Notes
    -----
    **Privacy.** Event: zCDP releases of OpenDP (docs/proofs/prepare). Released are noisy counts in cells,
    noisy sums of clipped numbers and of their squares, and names of levels that enough records have.
    Everything in `constants_` is a function of these, of the declarations and, under "substitute", of the
    number of rows. The result of `transform` is private: rows are for a model, not for a reader.

    Examples
    --------
    >>> import numpy as np, pymc_dp as dp
    >>> rng = np.random.default_rng(1)
    >>> table = {"income": np.exp(rng.normal(11, 0.5, 20_000)), "region": rng.choice(["n", "s"], 20_000)}
    >>> prepare = dp.Prepare({"income": "numeric", "region": "category"}, epsilon=0.5, delta=1e-6)
    >>> rows = prepare.fit_transform(table)
    >>> prepare.constants_["region"].levels
    ('n', 's')
    >>> bool(abs(rows["income"].std() - 1) < 0.3)
    True
    """

    def __init__(
        self,
        columns: Mapping[str, str | Kind],
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        ledger: Ledger | None = None,
        neighboring_relation: str | None = None,
        label: str = "Prepare",
    ):
        self.ledger, self.label = ledger, label
        self._kinds = kinds_of(columns)
        self._target = Target.of(epsilon, delta, ledger, neighboring_relation)
        self._rho = rho_of(tuple(release for _, release in self._releases), self._target)
        self._paid = False

    def __repr__(self) -> str:
        state = "fitted" if hasattr(self, "constants_") else "not fitted"
        return f"Prepare({len(self._kinds)} columns, {self._target}, {state})"

    # paying

    @property
    def _releases(self) -> list[tuple[str, str]]:
        return [(name, release) for name, kind in self._kinds.items() for release in schedule(kind)]

    @property
    def events(self) -> EventSet:
        """Privacy events of `fit`."""
        made = [self._measurement(release).event for _, release in self._releases]
        return EventSet(made, self._target.relation)

    def _measurement(self, release: str) -> IntegerSums | ThresholdedCounts:
        return measurement(release, self._rho, self._target.level_delta, self._target.relation)

    def cost(self) -> pd.DataFrame:
        """Return the price and the noise of each release, before anything is paid.

        Returns
        -------
        pandas.DataFrame
            One row a release: column, release, rho (zCDP), the standard deviation of its noise in records
            (for "moments": of a sum of numbers in [-1, 1]), and the count below which no level is released.
        """
        rows = []
        for name, release in self._releases:
            made = self._measurement(release)
            std = made.std / (GRID if release == "moments" else 1)
            threshold = made.threshold if isinstance(made, ThresholdedCounts) else math.nan
            rows.append((name, release, made.event.rho, std, threshold))
        return pd.DataFrame(rows, columns=["column", "release", "rho", "noise", "threshold"])

    def fit(self, X: Table, *, privacy_unit: object = None) -> "Prepare":
        """Charge the ledger, then release the constants of all columns; a second call is refused.

        Parameters
        ----------
        X : pandas.DataFrame, or mapping of str to ndarray, Series or list, shape (n,)
            A table with the columns that were declared; others are not read.
        privacy_unit : array_like, shape (n,), or mapping, optional
            Ids of persons, as for steps: only the first row of each person is used.

        Raises
        ------
        BudgetError
            It is already fitted, in any thread, or the ledger has no room; nothing is released.
        TypeError, ValueError
            `X` is no table, a column is missing, or the ledger is for another privacy unit.

        Warns
        -----
        WeakGuaranteeWarning
            Epsilon is large; or delta is not below 1 / n, where n is public.
        NoisySummaryWarning
            A column's constants are too noisy; this is decided from the released constants.

        Notes
        -----
        **Privacy.** As of the class. An exception after the charge carries no value.
        """
        check_ledger(self.ledger, unit=unit_of(privacy_unit)[0])
        columns, n_rows = columns_of(X, list(self._kinds))
        codes, n = units(privacy_unit, n_rows)
        made = {release: self._measurement(release) for _, release in self._releases}
        for one in made.values():
            _ = one.measurement  # OpenDP's own price, before anything is charged
        public_n = n if self._target.relation == "substitute" else None
        warn_weak(self._target.epsilon, self._target.delta, public_n)
        reservation = self._pay()
        first = slice(None) if codes is None else np.unique(codes, return_index=True)[1]
        self.constants_ = {
            name: constants_of(kind, columns[name][first], made, public_n)
            for name, kind in self._kinds.items()
        }
        if reservation is not None and self.ledger is not None:
            self.ledger.confirm(reservation)
        self._warn()
        return self

    def _pay(self) -> int | None:
        """Charge the ledger and return the number of its entry; under a lock, so that it happens once."""
        with _PAYING:
            if self._paid:
                raise BudgetError(
                    "This Prepare is paid for: transform() uses it again at no cost, to_json() keeps it. "
                    "Make a new one to pay for another."
                )
            reservation = None
            if self.ledger is not None:
                reservation = self.ledger.reserve(self.events, label=self.label)
            self._paid = True
        return reservation

    def _warn(self) -> None:
        poor = [n for n, c in self.constants_.items() if isinstance(c, NumericConstants) and not c.reliable]
        bare = [n for n, c in self.constants_.items() if isinstance(c, LevelConstants) and not c.levels]
        if poor or bare:
            warnings.warn(
                f"The noise has left too little of {', '.join(map(repr, [*poor, *bare]))}: numbers are "
                "scaled by rough quantiles, levels are all in one. Declare fewer columns, give bounds= or "
                "levels= that are known without the data, or take a larger epsilon.",
                NoisySummaryWarning,
                stacklevel=3,
            )

    # row by row

    def transform(self, X: Table) -> Table:
        """Apply the public constants to a table, one row at a time.

        Parameters
        ----------
        X : pandas.DataFrame, or mapping of str to ndarray, Series or list, shape (m,)

        Returns
        -------
        table of the same kind
            Numbers are clipped, less `centre`, divided by `scale`; 0 where missing. Levels become their
            number from 1 on; 0 for others and missing cells. Yes and no become 1 and 0; the more frequent one
            where missing.

        Notes
        -----
        **Privacy.** Free: constants are public, and a row of the result is a function of that row. It is as
        private as the row was.
        """
        columns, _ = columns_of(X, list(self._fitted()))
        out: dict[str, np.ndarray] = {}
        for name, kind in self._kinds.items():
            out |= guarded(transformed, name, kind, self.constants_[name], columns[name], what=READ)
        return table_of(out, X)

    def fit_transform(self, X: Table, *, privacy_unit: object = None) -> Table:
        """Call `fit`, then `transform`."""
        return self.fit(X, privacy_unit=privacy_unit).transform(X)

    def inverse_transform(self, X: Table) -> Table:
        """Transform columns back to their own scale: draws of an outcome, a grid of inputs.

        Parameters
        ----------
        X : table
            A table with some of the columns that `transform` returns; numbers of levels become their names.

        Returns
        -------
        table of the same kind
        """
        fitted = self._fitted()
        return table_of({n: restored(c, np.asarray(X[n])) for n, c in fitted.items() if n in X}, X)

    # what is public

    @property
    def coords(self) -> dict[str, list[str]]:
        """Coordinates for ``pm.Model(coords=...)``: names of the levels of each column, "(other)" first."""
        levels = {n: c.levels for n, c in self._fitted().items() if isinstance(c, LevelConstants)}
        return {name: [OTHER, *found] for name, found in levels.items()}

    def summary(self, quantiles: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)) -> pd.DataFrame:
        """Summarise what was released.

        Parameters
        ----------
        quantiles : sequence of float
            Probabilities of the quantiles of numeric columns.

        Returns
        -------
        pandas.DataFrame
            One row a statistic: column, statistic, value, noise (the standard deviation of its noise; NaN for
            what is computed from other noisy numbers), lower and upper (95 per cent, of the noise alone).
        """
        rows: list[tuple[object, ...]] = []
        for name, c in self._fitted().items():
            rows += [(name, *row) for row in summarised(c, quantiles)]
        return pd.DataFrame(rows, columns=["column", "statistic", "value", "noise", "lower", "upper"])

    def to_json(self) -> str:
        """Return declarations, constants and price as text for `from_json`: public, and free to use again."""
        content = {
            "format": _FORMAT,
            "kinds": {name: encode(kind, _CLASSES) for name, kind in self._kinds.items()},
            "constants": {name: encode(constants, _CLASSES) for name, constants in self._fitted().items()},
            "rho": self._rho,
            **asdict(self._target),
        }
        return json.dumps(content, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Prepare":
        """Make a `Prepare` from the text of `to_json`; it is fitted, and paid for.

        Raises
        ------
        ValueError
            The text is something else.
        """
        try:
            content = json.loads(text)
            if content["format"] != _FORMAT:
                raise ValueError(f"format {content['format']!r} is not {_FORMAT}")
            kinds = {name: decode(plain, _CLASSES) for name, plain in content["kinds"].items()}
            constants = {name: decode(plain, _CLASSES) for name, plain in content["constants"].items()}
            target = Target(**{field.name: content[field.name] for field in fields(Target)})
            new = cls(kinds, epsilon=target.epsilon, delta=target.delta, neighboring_relation=target.relation)
            new._target, new._rho = target, float(content["rho"])
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise ValueError(f"not a Prepare: {error!r}.") from error
        if set(constants) != set(kinds):
            raise ValueError("not a Prepare: it has constants of other columns than it declares.")
        new.constants_, new._paid = {name: constants[name] for name in kinds}, True
        return new

    def _fitted(self) -> dict[str, Constants]:
        if not hasattr(self, "constants_"):
            raise PrivacyError("This Prepare is not fitted: call fit, which is paid for, or from_json.")
        return self.constants_
