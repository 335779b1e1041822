"""The twelve models, each as its field fits it: fixed before any private run.

Numbers are scaled by constants that `dp.Prepare` releases on the same budget; what has bounds on the form
that was filled in is declared with these. Priors are those of columns of order one, and the same everywhere.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm

import pymc_dp as dp
from benchmarks.real_data import tables


class Case(NamedTuple):
    """A data set with its model and its question.

    Attributes
    ----------
    name : str
        As pictures say it.
    table : callable
        Without arguments: a table.
    numbers : dict
        Columns that `Prepare` scales, with what is known of them.
    effects : list of str
        Columns whose coefficients are looked at; the first one is the question.
    sign : int
        Of the first effect, as the field knows it.
    outcome : callable
        Adds the observed variable, given the linear predictor and the rows.
    measured : str, optional
        A column of `numbers` that is the outcome.
    person : str, optional
        Column with ids: privacy is for persons.
    """

    name: str
    table: Callable[[], pd.DataFrame]
    numbers: dict[str, Any]
    effects: list[str]
    sign: int
    outcome: Callable[[Any, Any], None]
    measured: str | None = None
    person: str | None = None

    def model(self, rows: pd.DataFrame) -> pm.Model:
        """The model of prepared rows."""
        x = rows[self.effects].to_numpy(float)
        with pm.Model(coords={"effect": self.effects}) as model:
            beta = pm.Normal("beta", 0, 1, dims="effect")
            self.outcome(x @ beta, rows)
        return model


def yes_or_no(column: str) -> Callable:
    def add(predictor, rows):
        level = pm.Normal("level", 0, 1.5)
        pm.Bernoulli("y", logit_p=level + predictor, observed=rows[column].to_numpy())

    return add


def by_district(predictor, rows):
    level, spread = pm.Normal("level", 0, 1.5), pm.HalfNormal("spread", 1)
    district = pm.Normal("district", 0, 1, shape=61)
    where = rows["district"].to_numpy()
    pm.Bernoulli("y", logit_p=(level + spread * district)[where] + predictor, observed=rows["use"].to_numpy())


def counts(predictor, rows):
    level, alpha = pm.Normal("level", 0, 1.5), pm.HalfNormal("alpha", 2)
    pm.NegativeBinomial(
        "y", mu=pm.math.exp(level + predictor), alpha=alpha, observed=rows["visits"].to_numpy()
    )


def lifetimes(predictor, rows):
    level, shape = pm.Normal("level", 3, 1.5), pm.LogNormal("shape", 0, 0.5)
    life = pm.Weibull.dist(alpha=shape, beta=pm.math.exp(level + predictor))
    pm.Censored("y", life, lower=None, upper=rows["until"].to_numpy(), observed=rows["years"].to_numpy())


def lifetimes_as_potential(predictor, rows):
    """The same likelihood, whose gradient PyMC's `Censored` does not have far from the data."""
    level, shape = pm.Normal("level", 3, 1.5), pm.LogNormal("shape", 0, 0.5)
    years, died = rows["years"].to_numpy(), (rows["years"] < rows["until"]).to_numpy(float)
    z = np.log(years) - level - predictor
    hazard = pm.math.log(shape) + (shape - 1) * z - level - predictor
    pm.Potential("y", (died * hazard - pm.math.exp(shape * z)).sum())


def linear(column: str) -> Callable:
    def add(predictor, rows):
        level, sigma = pm.Normal("level", 0, 1.5), pm.LogNormal("sigma", 0, 0.5)
        pm.Normal("y", level + predictor, sigma, observed=rows[column].to_numpy())

    return add


def heavy_tails(predictor, rows):
    level, sigma = pm.Normal("level", 0, 1.5), pm.LogNormal("sigma", 0, 0.5)
    nu = pm.LogNormal("nu", np.log(5), 0.5)
    pm.StudentT("y", nu=nu, mu=level + predictor, sigma=sigma, observed=rows["log wage"].to_numpy())


def ordered(predictor, rows):
    first, gaps = pm.Normal("first", -3, 1.5), pm.LogNormal("gaps", 0, 0.5, shape=3)
    cuts = pm.math.concatenate([pm.math.stack([first]), first + pm.math.cumsum(gaps)])
    pm.OrderedLogistic(
        "y", eta=predictor, cutpoints=cuts, observed=rows["rating"].to_numpy(), compute_p=False
    )


def within(low: float, high: float) -> dp.Numeric:
    return dp.Numeric(bounds=(low, high))


CASES = [
    Case(
        "late flights",
        tables.flights,
        {"hour": within(0, 24), "log distance": within(np.log(50), np.log(6000))},
        ["hour", "log distance", "holidays", "Newark", "LaGuardia"],
        1,
        yes_or_no("late"),
    ),
    Case(
        "wages",
        tables.wages,
        {
            "education": within(0, 18),
            "experience": "numeric",
            "experience squared": "numeric",
            "log wage": within(np.log(50), np.log(20_000)),
        },
        ["black", "education", "experience", "experience squared", "in a city", "part time"],
        -1,
        heavy_tails,
        measured="log wage",
    ),
    Case(
        "doctor visits",
        tables.doctor_visits,
        {"coinsurance": within(0, np.log(96)), "diseases": within(0, 60)},
        ["coinsurance", "limitation", "diseases", "bad health"],
        -1,
        counts,
    ),
    Case(
        "doctor visits of persons",
        tables.german_health,
        {"age": within(25, 64), "education": within(7, 18)},
        ["out of work", "female", "married", "children", "age", "education"],
        1,
        counts,
        person="person",
    ),
    Case(
        "light chains",
        tables.light_chains,
        {"log light chains": "numeric", "age": within(50, 110)},
        ["log light chains", "age", "male"],
        -1,
        lifetimes,
    ),
    Case(
        "ratings of marriages",
        tables.marriages,
        {
            "religious": within(1, 4),
            "years married": within(0, 25),
            "children": within(0, 6),
            "education": within(9, 20),
        },
        ["affair", "religious", "years married", "children", "education"],
        -1,
        ordered,
    ),
    Case(
        "callbacks",
        tables.resumes,
        {"experience": within(0, 50)},
        [
            "black name",
            "female name",
            "better resume",
            "experience",
            "honors",
            "special skills",
            "Chicago",
        ],
        -1,
        yes_or_no("call"),
    ),
    Case(
        "visits of the elderly",
        tables.elderly,
        {"chronic conditions": within(0, 8), "years of school": within(0, 18)},
        [
            "private insurance",
            "chronic conditions",
            "poor health",
            "excellent health",
            "male",
            "years of school",
        ],
        1,
        counts,
    ),
    Case(
        "wells",
        tables.wells,
        {"log arsenic": "numeric", "distance": "numeric", "education": within(0, 17)},
        ["log arsenic", "distance", "education", "association"],
        1,
        yes_or_no("switch"),
    ),
    Case(
        "mortgages",
        tables.mortgages,
        {
            "payments to income": within(0, 1),
            "loan to value": within(0, 2),
            "bad credit": within(1, 6),
        },
        [
            "black",
            "payments to income",
            "loan to value",
            "bad credit",
            "public record",
            "self-employed",
            "single",
        ],
        1,
        yes_or_no("deny"),
    ),
    Case(
        "contraception",
        tables.contraception,
        {"age": within(-15, 20)},
        ["urban", "age", "one child", "two children", "more children"],
        1,
        by_district,
    ),
    Case(
        "weight after smoking",
        tables.weights,
        {
            "age": within(25, 75),
            "cigarettes a day": "numeric",
            "years of smoking": within(0, 65),
            "weight before": within(35, 160),
            "gained": within(-50, 50),
        },
        ["quit smoking", "female", "age", "cigarettes a day", "years of smoking", "weight before"],
        1,
        linear("gained"),
        measured="gained",
    ),
]
