"""Bambi's example models: refused, with every number that comes from the data, or built with public ones."""

import bambi as bmb
import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.records.reader import read

N = 120
SPECIES = ["adelie", "chinstrap", "gentoo"]


def table(ordered=True):
    """Columns like those of Bambi's examples: penguins, voters, counts by group."""
    rng = np.random.default_rng(1)
    species = rng.choice(SPECIES[:2], N)  # one level that is public has no record
    frame = pd.DataFrame(
        {
            "mass": rng.normal(4200, 800, N),
            "length": rng.normal(200, 14, N),
            "vote": rng.integers(0, 2, N),
            "count": rng.poisson(3, N),
            "trials": 12,
            "group": rng.choice(list("abcd"), N),
        }
    )
    frame["species"] = pd.Categorical(species, categories=SPECIES, ordered=True) if ordered else species
    frame["group"] = pd.Categorical(frame["group"], categories=list("abcd"), ordered=True)
    return frame


LEVELS = {"species": SPECIES, "group": list("abcd")}
#: Formula, family, what is refused by default.
EXAMPLES = [
    ("mass ~ length", "gaussian", ["Intercept ~", "length ~", "sigma ~", "means of length"]),
    ("mass ~ length + species", "gaussian", ["species ~", "means of length, species"]),
    ("vote ~ length", "bernoulli", ["length ~", "Intercept ~", "means"]),
    ("vote ~ 0 + species", "bernoulli", ["species ~"]),
    ("count ~ length + (1|group)", "poisson", ["1|group ~", "length ~"]),
    ("count ~ length + (length|group)", "negativebinomial", ["length|group ~", "1|group ~"]),
    ("p(count, trials) ~ length", "binomial", ["length ~"]),
    ("mass ~ length:species", "t", ["length:species ~", "sigma ~"]),
    ("mass ~ scale(length)", "gaussian", ["scale(length)"]),
    ("mass ~ bs(length, df=4)", "gaussian", ["bs(length"]),
    ("mass ~ np.log(length)", "gaussian", ["np.log(length)"]),
    ("mass ~ hsgp(length, m=4, c=1.5)", "gaussian", ["hsgp"]),
    ("species ~ length", "categorical", ["levels of the outcome", "length ~"]),
]
PRIORS = {
    "common": bmb.Prior("Normal", mu=0, sigma=1),
    "group_specific": bmb.Prior("Normal", mu=0, sigma=bmb.Prior("HalfNormal", sigma=1)),
    "Intercept": bmb.Prior("Normal", mu=0, sigma=2),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("formula", "family", "named"), EXAMPLES, ids=lambda x: x if isinstance(x, str) else ""
)
def test_numbers_from_the_data_are_named(formula, family, named):
    model = bmb.Model(formula, table(), family=family)
    with pytest.raises(dp.errors.ModelRefusedError) as refused:
        dp.from_bambi(model, levels=LEVELS)
    for part in named:
        assert part in str(refused.value)
    assert not model.built  # nothing was made


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("formula", "family"), [e[:2] for e in EXAMPLES[:8]], ids=lambda x: x if isinstance(x, str) else ""
)
def test_public_ones_are_built(formula, family):
    own = {"sigma": bmb.Prior("HalfNormal", sigma=1)} if family in ("gaussian", "t") else {}
    own |= {"alpha": bmb.Prior("HalfNormal", sigma=1)} if family == "negativebinomial" else {}
    own |= {"nu": bmb.Prior("Gamma", alpha=2, beta=0.1)} if family == "t" else {}
    used = {k: p for k, p in PRIORS.items() if k != "Intercept" or "0 +" not in formula}
    model = bmb.Model(
        formula, table(), family=family, priors=used | own, auto_scale=False, center_predictors=False
    )
    built = dp.from_bambi(model, levels=LEVELS)
    assert not {"mu", "p"} & set(built.named_vars)
    reading = read(built)
    assert reading.n_rows == N and "__obs__" in reading.withheld_dims
    if "species" in formula and "0 +" in formula:
        assert len(built.coords["species_dim"]) == 3  # the level that nobody has, too


def test_a_model_of_bambis_is_refused_however_it_is_passed():
    """The advice of before, exclude_deterministics=["p"], let data-derived priors through."""
    model = bmb.Model("vote ~ length", table(), family="bernoulli")
    model.build()
    for exclude in ([], ["p"]):
        with pytest.raises(dp.errors.ModelRefusedError, match="from_bambi"):
            read(model.backend.model, exclude_deterministics=exclude)
        with model.backend.model, pytest.raises(dp.errors.ModelRefusedError, match="made by Bambi"):
            dp.DPPenaltyMH(epsilon=1.0, delta=1e-6, lipschitz=1.0, exclude_deterministics=exclude, chains=1)
    shown = str(dp.inspect(model.backend.model))
    assert "made by Bambi" in shown


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("frame", "levels", "said"),
    [
        (table(), {}, "give those that are public"),
        (table(ordered=False), LEVELS, "takes those that occur"),
        (table(), {"species": SPECIES[:2]}, "are not those of levels="),
    ],
)
def test_levels(frame, levels, said):
    model = bmb.Model(
        "vote ~ 0 + species",
        frame,
        family="bernoulli",
        priors={"common": PRIORS["common"]},
        auto_scale=False,
        center_predictors=False,
    )
    with pytest.raises(dp.errors.ModelRefusedError, match=said):
        dp.from_bambi(model, levels=levels)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("later", [{"sigma": bmb.Prior("HalfNormal", sigma=1)}, {**PRIORS}])
def test_scaled_priors_do_not_become_ones_own(later):
    """`set_priors` takes Bambi's marks off priors that it scaled before; mean and spread of y stay."""
    model = bmb.Model("mass ~ length + (1|group)", table(), center_predictors=False)
    model.set_priors(later)
    for auto_scale in (True, False):
        model.auto_scale = auto_scale
        with pytest.raises(dp.errors.ModelRefusedError, match="auto_scale=False to bambi"):
            dp.from_bambi(model, levels=LEVELS)


def test_rows_are_not_left_out():
    frame = table()
    frame.loc[3, "length"] = np.nan
    model = bmb.Model("vote ~ length", frame, family="bernoulli", dropna=True)
    with pytest.raises(dp.errors.ModelRefusedError, match="dropna"):
        dp.from_bambi(model)


def test_what_is_no_bambi_model():
    with pytest.raises(TypeError, match="takes a bambi"):
        dp.from_bambi(pm.Model())


def test_it_is_the_model_that_was_written():
    """Same log-density as PyMC's own, at a point."""
    frame = table().assign(length=lambda f: (f["length"] - 200) / 14)
    priors = {"Intercept": PRIORS["Intercept"], "length": PRIORS["common"]}
    model = bmb.Model(
        "vote ~ length", frame, family="bernoulli", priors=priors, auto_scale=False, center_predictors=False
    )
    built = dp.from_bambi(model)
    with pm.Model() as own:
        a, b = pm.Normal("Intercept", 0, 2), pm.Normal("length", 0, 1)
        pm.Bernoulli("vote", logit_p=a + b * frame["length"].to_numpy(), observed=frame["vote"].to_numpy())
    point = {"Intercept": np.array(0.3), "length": np.array(-0.4)}
    assert built.compile_logp()(point) == pytest.approx(float(own.compile_logp()(point)), rel=1e-9)
