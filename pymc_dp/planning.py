"""expected_accuracy(): the accuracy that a budget buys, from simulated rows, before private ones are read."""

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import pandas as pd
import pymc as pm
from numpy.typing import ArrayLike

from pymc_dp.bounds import check_count, check_target
from pymc_dp.errors import ModelRefusedError
from pymc_dp.inspection import inspect
from pymc_dp.likelihood.mixtures import Normal
from pymc_dp.likelihood.public_model import name_numbers
from pymc_dp.likelihood.releases import kept_shares
from pymc_dp.likelihood.report import judge
from pymc_dp.likelihood.rounds import Found
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.known import AccuracyFacts
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.records.gate import draw
from pymc_dp.records.reading import ReadingSettings
from pymc_dp.releasing import choose_delta, open_records

#: Builds the model of rows that contain no private record.
type Build[Rows] = Callable[[Rows], pm.Model]
#: Makes a number of rows, with a generator of public randomness.
type Simulate[Rows] = Callable[[int, np.random.Generator], Rows]


def expected_accuracy[Rows](
    build: Build[Rows],
    simulate: Simulate[Rows],
    *,
    n: int | Sequence[int],
    epsilons: Sequence[float] = (0.5, 1.0, 2.0, 4.0),
    delta: float | None = None,
    repeats: int = 3,
    random_seed: int = 0,
    exclude_deterministics: Collection[str] = (),
    public: Collection[object] = (),
    trusted_ops: Collection[object] = (),
    neighboring_relation: str = "substitute",
) -> pd.DataFrame:
    """Estimate each parameter's accuracy after `release_likelihood`, for budgets and numbers of records.

    For each simulated data set, likelihoods are released as they would be from private rows, and compared
    with one that is released without noise from the same rows. No private row is read, and nothing is paid.

    Parameters
    ----------
    build : callable
        ``build(rows)`` returns the `pymc.Model` of some rows. It must take all records from `rows`.
    simulate : callable
        ``simulate(n, rng)`` returns n rows: simulated, or drawn from public ones. `FromPrior` simulates them
        from the model's own prior.
    n : int or sequence of int
        Numbers of records.
    epsilons : sequence of float
        Budgets, all finite.
    delta : float, optional
        Default: as in `release_likelihood`.
    repeats : int
        Number of data sets that are simulated for each n.
    random_seed : int
        Seed of the simulated rows, and of the noise.
    exclude_deterministics, public, trusted_ops, neighboring_relation
        As in `release_likelihood`.

    Returns
    -------
    pandas.DataFrame
        One row for each n, epsilon and likelihood coordinate (on the unconstrained scale, for variables that
        PyMC transforms):

        * wider: the standard deviation of the coordinate, divided by the one without privacy; 1 is no loss.
          The median over the repeats
        * moved: the distance of its mean from the one without privacy, in standard deviations of the latter
          (root mean square over the repeats)
        * verdict: the verdict on the coordinate in the report; the most frequent one
        * seconds: time of a release without noise, on this machine, with compilation and without sampling;
          the median over the repeats

    Raises
    ------
    ModelRefusedError
        The model is refused, or its number of records is not the number of rows that `simulate` made: it
        takes records from elsewhere.
    TypeError, ValueError
        An argument has the wrong type or is out of range.

    Notes
    -----
    **Privacy.** Reads what `build` and `simulate` are given and made of: they must contain no private row,
    and no number that was computed from one. Rows that do not come from `simulate` are detected where they
    change the model's number of records: it is checked first, with two numbers of rows. There is no argument
    for a ledger.

    The result is for data like the simulated ones, of that model and prior: accuracy on other data will
    differ.
    """
    sizes = [n] if isinstance(n, int | np.integer) else list(n)
    settings: ReadingSettings = {
        "exclude_deterministics": exclude_deterministics,
        "public": public,
        "trusted_ops": trusted_ops,
        "neighboring_relation": neighboring_relation,
    }
    few = 50  # rows of the models that are only inspected
    if not (callable(build) and callable(simulate)):
        raise TypeError("expected_accuracy takes two functions: build(rows) and simulate(n, rng).")
    for epsilon in epsilons:
        check_target(epsilon, 0.5 if delta is None else delta)
        if math.isinf(epsilon):
            raise ValueError("epsilons are finite.")
    for size in sizes:
        check_count("n", size, few + 1)
    check_count("repeats", repeats)
    if not (sizes and len(epsilons)):
        raise ValueError("n and epsilons are not empty.")
    for rows in (few, few + 1):
        model = build(simulate(rows, np.random.default_rng(random_seed)))
        if not isinstance(model, pm.Model):
            raise TypeError(f"build(rows) must return a pymc.Model, got {type(model).__name__}.")
        looked_at = inspect(model, **settings)
        if looked_at.refusals:
            raise looked_at.refusals[0]
        _check_rows(rows, looked_at.n)
    found = []
    for size in sizes:
        for k in range(repeats):
            rng = np.random.default_rng([random_seed, int(size), k])
            releases = Releases(build(simulate(int(size), rng)), int(size), delta, settings)
            seeds = rng.integers(2**31, size=len(epsilons) + 1).tolist()
            found += releases.compare(list(map(float, epsilons)), seeds)
    groups = pd.concat(found).groupby(["n", "epsilon", "parameter"], sort=False)
    rules: dict[str, Callable[[pd.Series], object]] = {
        "wider": np.median,
        "moved": lambda shifts: np.sqrt(np.mean(shifts**2)),
        "verdict": lambda verdicts: verdicts.mode()[0],
        "seconds": np.median,
    }
    return groups.agg(rules).reset_index()


class FromPrior:
    """Simulated rows whose outcome is drawn from the model's prior predictive, at public covariates.

    Parameters
    ----------
    build : callable
        As in `expected_accuracy`; it takes rows as a mapping.
    covariates : callable
        ``covariates(n, rng)`` returns a mapping of names to arrays with n entries, without the outcome. They
        are public or simulated.
    outcome : str
        Key of the outcome in the rows that `build` takes.
    observed : str, optional
        Name of the observed variable. Default: that of `outcome`.
    placeholder : float
        A possible value of the outcome: with it the model is made whose prior predictive is drawn from.

    Notes
    -----
    **Privacy.** Reads no private row. Each call draws one set of parameters from the prior, so a very wide
    prior gives unrealistic data.
    """

    def __init__(
        self,
        build: Build,
        covariates: Callable[[int, np.random.Generator], Mapping[str, ArrayLike]],
        outcome: str = "y",
        observed: str | None = None,
        placeholder: float = 0,
    ):
        self.build, self.covariates, self.outcome = build, covariates, outcome
        self.observed, self.placeholder = observed or outcome, placeholder

    def __call__(self, n: int, rng: np.random.Generator) -> dict[str, ArrayLike]:
        """Return n simulated rows."""
        rows = dict(self.covariates(n, rng))
        model = self.build(rows | {self.outcome: np.full(n, self.placeholder)})
        drawn = draw(model[self.observed], int(rng.integers(2**31)))
        return rows | {self.outcome: np.asarray(drawn)}


class Releases:
    """Releases from the model of rows that contain nothing private, compiled once.

    Parameters
    ----------
    model : pymc.Model
    rows : int
        Number of rows that were simulated.
    delta : float, optional
    settings : mapping
        Settings of `open_records`.

    Raises
    ------
    ModelRefusedError
        See `expected_accuracy`.
    """

    def __init__(self, model: pm.Model, rows: int, delta: float | None, settings: ReadingSettings):
        self._began = time.perf_counter()
        self._opened = open_records(model, None, {**settings})
        records = self._opened.records
        _check_rows(rows, records.n)
        self._n, self._relation = float(records.n), settings["neighboring_relation"]
        self._delta = choose_delta(delta, records)
        self.prior, self.names = self._opened.public.prior, name_numbers(self._opened.part.parts)

    def __call__(self, epsilon: float, seed: int) -> tuple[Found, AccuracyFacts]:
        """Make one release, and return its result, with facts from its other sums."""
        spending = Spending(epsilon, self._delta, [1.0], self._relation, debug_seed=seed)
        spending.pay(quiet=True)  # nothing is private here
        mu = float(gaussian.mu(spending.epsilon, spending.delta))
        kept = kept_shares(self._n, mu, self._relation)
        return self._opened.search(self._n, mu, spending, kept, seed, cores=1)

    def compare(self, epsilons: Sequence[float], seeds: Sequence[int]) -> list[pd.DataFrame]:
        """Compare a release of each epsilon with one without noise; return a row for each parameter."""
        results = []
        exact, sd = moments(self(math.inf, seeds[-1])[0], self.prior)
        seconds = time.perf_counter() - self._began
        for epsilon, seed in zip(epsilons, seeds, strict=False):
            found, beside = self(epsilon, seed)
            mean, own = moments(found, self.prior)
            judged = judge(found, self.prior, self.names, beside, self._opened.part.support)
            verdicts = [said["verdict"] for said in judged.values()]
            shifts = np.abs(mean - exact) / sd
            rows = pd.DataFrame({"parameter": self.names, "wider": own / sd, "moved": shifts})
            results.append(rows.assign(n=int(self._n), epsilon=epsilon, verdict=verdicts, seconds=seconds))
        return results


def moments(found: Found, prior: Normal) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of the coordinates, under a normal approximation of the prior."""
    covariance = np.linalg.inv(found.message.information + prior.precision)
    mean = covariance @ (found.message.vector + prior.precision @ prior.mean)
    return mean, np.sqrt(np.diag(covariance))


def _check_rows(rows: int, n: int | None) -> None:
    if n != rows:
        raise ModelRefusedError(
            f"simulate made {rows} rows, and the model has {n} records.",
            "records that do not come from simulate may be private ones.",
            "build(rows) takes all arrays of records from rows, and simulate(n, rng) makes n of them.",
        )
