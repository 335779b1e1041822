"""expected_accuracy(): what a budget buys, from simulated or public rows, before anything private is read."""

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
from pymc_dp.likelihood.found import Found
from pymc_dp.likelihood.mixtures import Normal
from pymc_dp.likelihood.public_model import name_numbers
from pymc_dp.likelihood.releases import kept_shares
from pymc_dp.likelihood.report import judge
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.records.gate import draw
from pymc_dp.records.reading import ReadingSettings
from pymc_dp.releasing import choose_delta, open_records

#: Builds a model of rows that hold no private record.
type Build[Rows] = Callable[[Rows], pm.Model]
#: Makes so many rows, from a generator of public randomness.
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
    """What `release_likelihood` will do to each parameter, for budgets and numbers of records.

    Likelihoods are released from simulated rows, as they would be from private ones, and beside them one
    without noise, of the same rows. No private row is at hand, and nothing is paid.

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
    delta : float, optional
        Default: as in `release_likelihood`.
    repeats : int
        Data sets that are simulated for each n.
    random_seed : int
        Of the simulated rows, and of the noise.
    exclude_deterministics, public, trusted_ops, neighboring_relation
        As in `release_likelihood`.

    Returns
    -------
    pandas.DataFrame
        A row for each n, epsilon and likelihood coordinate (of what PyMC transforms, on that scale):

        * wider: its standard deviation over that without privacy; 1 is no loss. The median of all repeats
        * moved: how far its mean is from that without privacy, in standard deviations of the latter (root of
          the mean square)
        * verdict: what the report says of it, most often
        * seconds: of a release without noise, on this machine: compilation included, sampling not

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
    their number: it is looked at with two numbers of rows first. There is no argument for a ledger.

    Prior and model of the simulated rows are what the result is about: data unlike them behave otherwise.
    """
    sizes = [n] if isinstance(n, int | np.integer) else list(n)
    settings: ReadingSettings = {
        "exclude_deterministics": exclude_deterministics,
        "public": public,
        "trusted_ops": trusted_ops,
        "neighboring_relation": neighboring_relation,
    }
    few = 50  # rows of the models that are only looked at
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
        covariates: Callable[[int, np.random.Generator], Mapping[str, ArrayLike]],
        outcome: str = "y",
        observed: str | None = None,
        placeholder: float = 0,
    ):
        self.build, self.covariates, self.outcome = build, covariates, outcome
        self.observed, self.placeholder = observed or outcome, placeholder

    def __call__(self, n: int, rng: np.random.Generator) -> dict[str, ArrayLike]:
        """The rows."""
        rows = dict(self.covariates(n, rng))
        model = self.build(rows | {self.outcome: np.full(n, self.placeholder)})
        drawn = draw(model[self.observed], int(rng.integers(2**31)))
        return rows | {self.outcome: np.asarray(drawn)}


class Releases:
    """Releases from one model of rows that hold nothing private, compiled once.

    Parameters
    ----------
    model : pymc.Model
    rows : int
        That were simulated.
    delta : float, optional
    settings : mapping
        Of `read_records`.

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
        self.prior, self.names = self._opened.prior, name_numbers(self._opened.part.parts)

    def __call__(self, epsilon: float, seed: int) -> Found:
        """What one release finds."""
        spending = Spending(epsilon, self._delta, [1.0], self._relation, debug_seed=seed)
        spending.pay(quiet=True)  # nothing is private here
        mu = float(gaussian.mu(spending.epsilon, spending.delta))
        kept = kept_shares(self._n, mu, self._relation)
        return self._opened.search(self._n, mu, spending, kept, seed, cores=1)[0]

    def compare(self, epsilons: Sequence[float], seeds: Sequence[int]) -> list[pd.DataFrame]:
        """Of each epsilon a release, beside one without noise: a row for each parameter."""
        results = []
        exact, sd = moments(self(math.inf, seeds[-1]), self.prior)
        seconds = time.perf_counter() - self._began
        for epsilon, seed in zip(epsilons, seeds, strict=False):
            found = self(epsilon, seed)
            mean, own = moments(found, self.prior)
            verdicts = [said["verdict"] for said in judge(found, self.prior, self.names).values()]
            shifts = np.abs(mean - exact) / sd
            rows = pd.DataFrame({"parameter": self.names, "wider": own / sd, "moved": shifts})
            results.append(rows.assign(n=int(self._n), epsilon=epsilon, verdict=verdicts, seconds=seconds))
        return results


def moments(found: Found, prior: Normal) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviations of the coordinates, under a normal prior like the model's."""
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
