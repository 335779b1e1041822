"""expected_accuracy(): what a budget buys, from simulated or public rows, before anything private is read."""

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

from pymc_dp.control_variates.curvature import prior_curvature
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.control_variates.verdict import judge, what_was_cut
from pymc_dp.errors import ModelRefusedError, PrivacyError
from pymc_dp.inspection import inspect
from pymc_dp.privacy.accounting.values import check_target
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.gate import draw
from pymc_dp.sampling import sample
from pymc_dp.steps.on_residuals import names_of
from pymc_dp.steps.penalty import DPPenaltyMH

#: Builds a model of rows that hold no private record.
Build = Callable[[Any], pm.Model]
#: Makes so many rows, from a generator of public randomness.
Simulate = Callable[[int, np.random.Generator], Any]

# Draws of the call that is timed; what an iteration takes is the median of their distances.
_TIMED = 40
# Rows of the models that are only looked at.
_LOOKED_AT = 50


def expected_accuracy(
    build: Build,
    simulate: Simulate,
    *,
    n: int | Sequence[int],
    epsilons: Sequence[float] = (0.5, 1.0, 2.0, 4.0),
    delta: float = 1e-6,
    draws: int = 1000,
    chains: int = 2,
    repeats: int = 3,
    random_seed: int = 0,
    **settings: Any,
) -> pd.DataFrame:
    """What a call with control variates will do to each parameter, for budgets and numbers of records.

    The surrogate is released from simulated rows, as it would be from private ones, and its own formulas say
    what its noise does to the posterior. No private row is at hand.

    Parameters
    ----------
    build : callable
        ``build(rows)`` returns the `pymc.Model` of some rows. It must take all records from `rows`.
    simulate : callable
        ``simulate(n, rng)`` returns n rows: simulated, or drawn from public ones. `FromPrior` makes them from
        the model's own prior.
    n : int or sequence of int
        Numbers of records.
    epsilons : sequence of float
    delta : float
    draws, chains : int
        Of the call that is planned, for its seconds.
    repeats : int
        Data sets that are simulated for each n; results are averaged over them.
    random_seed : int
        Of the simulated rows.
    **settings
        Of the step: control_variates, tempering, neighboring_relation, exclude_deterministics, public, ...

    Returns
    -------
    pandas.DataFrame
        A row for each n, epsilon and parameter:

        * wider: its standard deviation over that of the posterior without privacy; 1 is no loss
        * moved: how far its mean moves, in standard deviations of that posterior (root of the mean square)
        * seconds: of the whole call, on this machine, one chain after another
        * refused: share of the repeats in which the call would be refused for too few records, or what else
        * why: the first refusal's first sentence

        Where all are refused, numbers are NaN.

    Raises
    ------
    ModelRefusedError
        The model is refused, or does not have the rows that `simulate` made: it takes others from elsewhere.
    TypeError, ValueError
        An argument is not what it should be.

    Notes
    -----
    **Privacy.** Reads what `build` and `simulate` are given and made of: they must know no private row, nor a
    number that was computed from one. Rows that do not come from `simulate` are noticed, where the model has
    their number: it is looked at with two numbers of rows first. There is no argument for a step, a ledger or
    data.

    Near the posterior's mode; of parameters with a bound, on the scale without one. Prior and model of the
    simulated rows are what the result is about: data unlike them behave otherwise.
    """
    sizes = [n] if isinstance(n, int | np.integer) else list(n)
    _check(build, simulate, sizes, epsilons, delta, repeats, settings)
    for rows in (_LOOKED_AT, _LOOKED_AT + 1):
        _look(build(simulate(rows, np.random.default_rng(random_seed))), rows, settings)
    found = []
    for size in sizes:
        seconds = math.nan
        results: dict[float, list[_Result]] = {float(epsilon): [] for epsilon in epsilons}
        for k in range(repeats):
            model = build(simulate(int(size), np.random.default_rng([random_seed, int(size), k])))
            for epsilon, result in _of_rows(model, int(size), sorted(results), delta, k, settings).items():
                results[epsilon].append(result)
            if math.isnan(seconds) and not results[max(results)][-1].why:
                seconds = _seconds(model, max(results), delta, draws, chains, settings)
        for epsilon, several in results.items():
            found += _rows_of(int(size), epsilon, several, seconds)
    return pd.DataFrame(found, columns=["n", "epsilon", "parameter", *_COLUMNS])


_COLUMNS = ("wider", "moved", "seconds", "refused", "why")


class FromPrior:
    """Simulated rows whose outcome is drawn from the model's prior predictive, at public covariates.

    Parameters
    ----------
    build : callable
        As of `expected_accuracy`; it takes rows as a mapping.
    covariates : callable
        ``covariates(n, rng)`` returns a mapping of names to arrays of n entries, without the outcome: public
        ones, or simulated.
    outcome : str
        Under which `build` finds the observed values.
    observed : str, optional
        Name of the observed variable; default: that of `outcome`.
    placeholder : float
        A value that the outcome may have: a model is made of it, and its prior asked.

    Notes
    -----
    **Privacy.** Reads no private row. Each call draws one set of parameters from the prior: a prior that
    allows everything makes data that nobody has.
    """

    def __init__(
        self,
        build: Build,
        covariates: Callable[[int, np.random.Generator], Mapping[str, Any]],
        outcome: str = "y",
        observed: str | None = None,
        placeholder: float = 0,
    ):
        self.build, self.covariates, self.outcome = build, covariates, outcome
        self.observed, self.placeholder = observed or outcome, placeholder

    def __call__(self, n: int, rng: np.random.Generator) -> dict[str, Any]:
        """The rows."""
        rows = dict(self.covariates(n, rng))
        model = self.build(rows | {self.outcome: np.full(n, self.placeholder)})
        drawn = draw(model[self.observed], int(rng.integers(2**31)))
        return rows | {self.outcome: np.asarray(drawn)}


class _Result:
    """Of one simulated data set: arrays of shape (d,), or why it is refused."""

    def __init__(self, names: list[str], wider: Any = None, moved: Any = None, why: str = ""):
        self.names, self.wider, self.moved, self.why = names, wider, moved, why


def _check(
    build: Any, simulate: Any, sizes: list[Any], epsilons: Any, delta: Any, repeats: Any, settings: Any
) -> None:
    if not (callable(build) and callable(simulate)):
        raise TypeError("expected_accuracy takes two functions: build(rows) and simulate(n, rng).")
    for epsilon in epsilons:
        check_target(epsilon, delta)
        if math.isinf(epsilon):
            raise ValueError("epsilons are finite.")
    whole = [isinstance(x, int | np.integer) and not isinstance(x, bool) for x in [*sizes, repeats]]
    if not (all(whole) and sizes and len(epsilons) and min(sizes) > _LOOKED_AT and repeats >= 1):
        raise ValueError(f"n are integers above {_LOOKED_AT}, repeats is at least 1, epsilons are not empty.")
    for name in ("ledger", "data", "model", "privacy_unit", "vars", "debug_seed", "label"):
        if name in settings:
            raise TypeError(
                f"expected_accuracy has no {name}=: it is about simulated rows, and pays nothing."
            )


def _look(model: Any, rows: int, settings: Mapping[str, Any]) -> None:
    """Raise unless the model has so many records."""
    if not isinstance(model, pm.Model):
        raise TypeError(f"build(rows) must return a pymc.Model, got {type(model).__name__}.")
    names = ("exclude_deterministics", "public", "trusted_ops", "neighboring_relation")
    found = inspect(model, **{name: settings[name] for name in names if name in settings})
    if found.refusals:
        raise found.refusals[0]
    if found.n != rows:
        raise ModelRefusedError(
            f"simulate made {rows} rows, and the model has {found.n} records.",
            "records that do not come from simulate may be private ones.",
            "build(rows) takes all arrays of records from rows, and simulate(n, rng) makes n of them.",
        )


def _step(model: pm.Model, epsilon: float, delta: float, chains: int, settings: Mapping[str, Any]) -> Any:
    with model:
        return DPPenaltyMH(
            epsilon=epsilon, delta=delta, chains=chains, **({"control_variates": True} | dict(settings))
        )


def _of_rows(
    model: pm.Model, n: int, epsilons: list[float], delta: float, seed: int, settings: Mapping[str, Any]
) -> dict[float, _Result]:
    """Release surrogates of simulated rows, one an epsilon, and ask their formulas."""
    step = _step(model, max(epsilons), delta, 1, settings)
    if step.records.n != n:
        raise ModelRefusedError(
            f"simulate made {n} rows, and the model has {step.records.n} records.",
            "records that do not come from simulate may be private ones.",
            "build(rows) takes all arrays of records from rows.",
        )
    names, out = names_of(step), {}
    for epsilon in epsilons:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wider, moved, _ = of_records(step, epsilon, delta, seed)
            out[epsilon] = _Result(names, wider, moved)
        except PrivacyError as error:
            out[epsilon] = _Result(names, why=str(error).split(". ")[0])
    return out


def of_records(
    step: Any, epsilon: float, delta: float, seed: int
) -> tuple[np.ndarray, np.ndarray, Surrogate]:
    """Release a surrogate from a step's records, which hold nothing private; its effects, and itself.

    Parameters
    ----------
    step : DPPenaltyMH
        With control variates, on simulated rows.
    epsilon, delta : float
    seed : int
        Of the noise, which is not secret here.

    Raises
    ------
    PrivacyError
        The call would be refused.
    """
    records, on = step.records, step.residuals
    step.epsilon = epsilon
    step.cost(draws=1, tune=0, chains=1)  # refuses what cannot succeed
    settings = on.budget.suited(epsilon, delta)
    squared, random = on.budget.mu_squared(epsilon, delta), PrivacyRandom(seed)
    finder = Finder(
        records, settings, squared, random, step.tempering, epsilon, on.lipschitz, None, on.relation
    )
    surrogate = finder(records.ravel(records.reading.start))
    judge(surrogate, records, what_was_cut(surrogate, records, names_of(step)), on.settings)
    return *effects(surrogate, records), surrogate


def effects(surrogate: Surrogate, records: Any) -> tuple[np.ndarray, np.ndarray]:
    """What the noise of a surrogate does to each parameter, near its centre.

    Parameters
    ----------
    surrogate : Surrogate
    records : RecordModel
        For prior and coordinates, which are public.

    Returns
    -------
    wider, moved : ndarray, shape (d,)
        Standard deviation over the exact posterior's; expected distance of the mean from the exact one's, in
        those.

    Notes
    -----
    **Privacy.** Functions of released numbers and the prior.

    The target's mean is ``P^-1 J' W g`` plus what does not depend on the noisy gradient g, for the
    precision P of the widened target and ``W`` as in `Surrogate.public`: its noise has the covariance
    ``P^-1 J' W G W' J P^-1``. What clips may have cut is left out of G: it is a bound.
    """
    point = surrogate.point
    curvature = prior_curvature(records, point)
    jacobian = np.nan_to_num(records.coordinates.jacobian(point))
    exact, _ = surrogate.posterior(curvature, jacobian)
    covariance = np.linalg.inv(surrogate.precision(curvature, jacobian))
    unit = np.eye(len(surrogate.phi))
    slopes = np.column_stack([replace(surrogate, gradient=column).public()[0] for column in unit])
    mean = covariance @ jacobian.T @ slopes
    scale = np.sqrt(np.maximum(np.diag(exact), 1e-300))
    # What clips may have cut widens the target, and is not what happens: docs/planning.
    noisy = surrogate.gradient_noise - (0.0 if surrogate.cut_left is None else surrogate.cut_left)
    noise = np.diag(mean @ noisy @ mean.T)
    return np.sqrt(np.diag(covariance)) / scale, np.sqrt(np.maximum(noise, 0.0)) / scale


def _seconds(
    model: pm.Model, epsilon: float, delta: float, draws: int, chains: int, settings: Mapping[str, Any]
) -> float:
    """Of a call, from a short one on simulated rows."""
    times: list[float] = []
    start = time.perf_counter()
    try:
        step = _step(model, epsilon, delta, 1, settings)
        sample(
            step,
            draws=_TIMED,
            tune=0,
            cores=1,
            quiet=True,
            progressbar=False,
            compute_convergence_checks=False,
            callback=lambda trace, draw: times.append(time.perf_counter()),
        )
    except PrivacyError:
        return math.nan
    one = float(np.median(np.diff(times)))
    return times[-1] - start + one * max(draws * chains - _TIMED, 0)


def _rows_of(n: int, epsilon: float, results: list[_Result], seconds: float) -> list[tuple[Any, ...]]:
    good = [result for result in results if not result.why]
    why = next((result.why for result in results if result.why), "")
    refused = 1 - len(good) / len(results)
    rows = []
    for k, name in enumerate(results[0].names):
        wider = float(np.mean([r.wider[k] for r in good])) if good else math.nan
        moved = float(np.sqrt(np.mean([r.moved[k] ** 2 for r in good]))) if good else math.nan
        rows.append((n, epsilon, name, wider, moved, seconds if good else math.nan, refused, why))
    return rows
