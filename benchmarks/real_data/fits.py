"""One data set, with privacy and without: intervals of its effects on one scale."""

import math
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

import pymc_dp as dp
from benchmarks.real_data.cases import Case, lifetimes, lifetimes_as_potential

# Part of epsilon that is for the constants of columns.
FOR_COLUMNS = 0.2
SAMPLING = {"chains": 2, "cores": 1, "progressbar": False, "quiet": True}


def delta_of(n: int) -> float:
    """The largest power of ten below 1 / (10 n), which is the default of a release."""
    return 10.0 ** -(math.floor(math.log10(10 * n)) + 1)


def ids(case: Case, table: pd.DataFrame) -> dict[str, np.ndarray] | None:
    """Whose rows are whose."""
    return None if case.person is None else {case.person: table[case.person].to_numpy()}


def standardized(case: Case, table: pd.DataFrame) -> pd.DataFrame:
    """By the table's own constants, as without privacy."""
    rows = table.copy()
    for name in case.numbers:
        rows[name] = (table[name] - table[name].mean()) / table[name].std()
    return rows


def prepared(case: Case, table: pd.DataFrame, epsilon: float) -> tuple[pd.DataFrame, dict, float]:
    """Rows, the scale of each column of numbers, and what is left of epsilon for the model."""
    delta = delta_of(len(table))
    with tempfile.TemporaryDirectory() as folder:
        whose = {"privacy_unit": "row" if case.person is None else case.person}
        ledger = dp.Ledger(Path(folder) / "budget.db", epsilon=epsilon, delta=delta, **whose)
        prepare = dp.Prepare(case.numbers, epsilon=FOR_COLUMNS * epsilon, ledger=ledger)
        scaled = prepare.fit_transform(table, privacy_unit=ids(case, table))
        left = ledger.remaining()
    rows = table.copy()
    for name in case.numbers:
        rows[name] = np.asarray(scaled[name])
    return rows, {name: prepare.constants_[name].scale for name in case.numbers}, left


def unit(case: Case, table: pd.DataFrame, scales: dict[str, float]) -> np.ndarray:
    """What coefficients of prepared columns are to be multiplied with, to be those of standardized ones."""
    relative = {name: table[name].std() / scale for name, scale in scales.items()}
    whole = 1.0 if case.measured is None else relative[case.measured]
    return np.array([relative.get(name, 1.0) / whole for name in case.effects])


def intervals(draws: np.ndarray, case: Case) -> list[dict[str, Any]]:
    """A row for each effect, from draws (draws, effects)."""
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    numbers = zip(case.effects, draws.mean(0), draws.std(0), low, high, strict=True)
    return [{"effect": name, "mean": mean, "sd": sd, "low": a, "high": b} for name, mean, sd, a, b in numbers]


def draws_of(idata: Any) -> np.ndarray:
    """Shape (draws, effects)."""
    beta = idata["posterior"]["beta"]
    return beta.stack(draw_of_all=("chain", "draw")).transpose("draw_of_all", "effect").to_numpy()


def without_privacy(case: Case, seed: int) -> list[dict[str, Any]]:
    """NUTS on the records; rows that are the same as others are counted, which is quicker."""
    table = case.table()
    start = time.perf_counter()
    rows = standardized(case, table)
    if case.outcome is lifetimes:
        case = case._replace(outcome=lifetimes_as_potential)
        with case.model(rows):
            return _found(case, table, start, seed)
    alike = rows.groupby(list(rows.columns), as_index=False).size()
    with case.model(alike) as model:
        again = np.flatnonzero(alike["size"] > 1)
        once = pm.logp(model["y"], model.rvs_to_values[model["y"]])[again]
        pm.Potential("others like these", once @ (alike["size"].to_numpy()[again] - 1.0))
        return _found(case, table, start, seed)


def _found(case: Case, table: pd.DataFrame, start: float, seed: int) -> list[dict[str, Any]]:
    """Sample the model of the context."""
    idata = pm.sample(500, tune=500, random_seed=seed, compute_convergence_checks=False, **SAMPLING)
    seconds = time.perf_counter() - start
    found = {"epsilon": math.inf, "delta": 0.0, "for the model": math.inf, "fit": "", "seconds": seconds}
    return [{"n": len(table), **found, **row} for row in intervals(draws_of(idata), case)]


def with_privacy(case: Case, epsilon: float, seed: int) -> list[dict[str, Any]]:
    """Constants and model on one budget; NUTS on what was released."""
    table = case.table()
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.errors.NotPrivateWarning)
        warnings.simplefilter("ignore", dp.errors.NoisySummaryWarning)
        rows, scales, left = prepared(case, table, epsilon)
        released = dp.release_likelihood(
            case.model(rows),
            epsilon=left,
            delta=delta_of(len(table)),
            privacy_unit=ids(case, table),
            debug_seed=seed,
        )
        idata = pm.sample(
            500,
            tune=500,
            model=released.model(),
            random_seed=seed,
            compute_convergence_checks=False,
            **SAMPLING,
        )
    seconds = time.perf_counter() - start
    found = {
        "epsilon": epsilon,
        "delta": delta_of(len(table)),
        "for the model": left,
        "fit": released.facts["fit"]["said"],
        "seconds": seconds,
    }
    draws = draws_of(idata) * unit(case, table, scales)
    return [{"n": len(table), **found, **row} for row in intervals(draws, case)]
