"""What a model must not contain; errors name it, the reason and the fix."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records.model import RecordModel

N = 40
RNG = np.random.default_rng(0)
Y, X, G = RNG.normal(size=N), RNG.normal(size=(N, 3)), RNG.integers(0, 4, N)
SERIES = {"observed": Y}


def autoregression():
    rho = pm.Normal("rho", 0, 1, shape=1)
    pm.AR("y", rho=rho, sigma=1.0, init_dist=pm.Normal.dist(0, 1), **SERIES)


def random_walk():
    sigma = pm.HalfNormal("sigma")
    pm.GaussianRandomWalk("y", sigma=sigma, init_dist=pm.Normal.dist(0, 1), **SERIES)


def gaussian_process():
    length = pm.HalfNormal("length")
    gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, length))
    gp.marginal_likelihood("y", X=X[:, :1], y=Y, sigma=0.1)


def missing_value():
    y = Y.copy()
    y[3] = np.nan
    pm.Normal("y", pm.Normal("m"), 1, observed=y)


def masked_value():
    pm.Normal("y", pm.Normal("m"), 1, observed=np.ma.masked_array(Y, np.arange(N) == 3))


def per_record_latent():
    z = pm.Normal("z", 0, 1, shape=N)
    pm.Normal("y", z, 1, observed=Y)


def latent_class():
    k = pm.Categorical("k", p=[0.5, 0.5], shape=N)
    pm.Normal("y", pm.Normal("m", shape=2)[k], 1, observed=Y)


def discrete_parameter():
    pm.Normal("y", pm.Poisson("k", 3), 1, observed=Y)


def potential_on_data():
    m = pm.Normal("m")
    pm.Potential("extra", pm.logp(pm.Normal.dist(m, 1), Y).sum())
    pm.Normal("y", m, 1, observed=Y)


def prior_from_data():
    y = pm.Data("data", Y)
    pm.Normal("y", pm.Normal("m", y.mean(), 1), 1, observed=y)


def minibatch():
    xb, yb = pm.Minibatch(X, Y, batch_size=10)
    pm.Normal("y", xb @ pm.Normal("b", shape=3), 1, observed=yb, total_size=N)


def simulator():
    pm.Simulator("y", lambda rng, m, size: rng.normal(m, size=size), pm.Normal("m"), observed=Y)


def nothing_observed():
    pm.Normal("m")


def deterministic_mean():
    mu = pm.Deterministic("mu", X @ pm.Normal("b", shape=3))
    pm.Normal("y", mu, 1, observed=Y)


def deterministic_statistic():
    x = pm.Data("x", X)
    b = pm.Normal("b", shape=3)
    pm.Deterministic("level", (x @ b).mean())
    pm.Normal("y", x @ b, 1, observed=Y)


def ordered_probabilities():
    c = pm.Normal("c", shape=2, transform=pm.distributions.transforms.ordered, initval=[-1, 1])
    pm.OrderedLogistic("y", eta=pm.Normal("b") * X[:, 0], cutpoints=c, observed=RNG.integers(0, 3, N))


def centred_in_graph():
    x = pm.Data("x", X)
    pm.Normal("y", (x - x.mean(0)) @ pm.Normal("b", shape=3), 1, observed=Y)


def scaled_by_maximum():
    x = pm.Data("x", X)
    pm.Normal("y", (x / x.max(0)) @ pm.Normal("b", shape=3), 1, observed=Y)


def lagged_by_hand():
    y = pm.Data("data", Y)
    pm.Normal("y", pt.concatenate([[0.0], pm.Normal("rho") * y[:-1]]), 1, observed=y)


def empty():
    pm.Normal("y", pm.Normal("m"), 1, observed=Y[:0])


def one_record():
    pm.Normal("y", pm.Normal("m"), 1, observed=Y[:1])


def scalar_observation():
    pm.Normal("y", pm.Normal("m"), 1, observed=1.0)


def different_lengths():
    m = pm.Normal("m")
    pm.Normal("y", m, 1, observed=Y)
    pm.Normal("z", m, 1, observed=Y[:7])


REFUSED = {
    autoregression: "'y'.*single number",
    random_walk: "'y'.*single number",
    gaussian_process: "'y' does not factorise.*records with records",
    missing_value: "'y'.*missing",
    masked_value: "'y'.*missing",
    per_record_latent: "'z'.*each record",
    latent_class: "'k'.*int64",
    discrete_parameter: "'k'.*int64",
    potential_on_data: "Potential 'extra'",
    prior_from_data: "prior of 'm'",
    minibatch: "'y'.*Minibatch",
    simulator: "'y'.*Simulator",
    nothing_observed: "no observed",
    centred_in_graph: "does not factorise.*`sum` over the records",
    scaled_by_maximum: "does not factorise.*`max` over the records",
    lagged_by_hand: "does not factorise.*a part of the records",
    empty: "'y' is empty",
    one_record: "'y' has one record",
    scalar_observation: "'y'.*single number",
    different_lengths: "'y': 40, 'z': 7",
}


@pytest.mark.filterwarnings("ignore:.*imputed.*", "ignore:.*rng.*:DeprecationWarning")
@pytest.mark.parametrize("declare", REFUSED, ids=lambda f: f.__name__)
def test_refused(declare):
    with pm.Model() as model:
        declare()
    with pytest.raises(ModelRefusedError, match=f"(?s){REFUSED[declare]}") as caught:
        RecordModel(model)
    message = str(caught.value)
    assert "Why this is refused:" in message and "How to fix it:" in message
    assert not any(f"{value:.3f}" in message for value in np.concatenate([Y, X.ravel()]))


def test_a_coupling_among_many_records_is_found():
    """With more records than the check looks at, too."""
    y = np.random.default_rng(1).normal(size=3000)
    with pm.Model() as model:
        data = pm.Data("data", y)
        pm.Normal("y", pm.Normal("m") * data.std(), 1, observed=data)
    with pytest.raises(ModelRefusedError, match="factorise"):
        RecordModel(model)


@pytest.mark.parametrize(
    ("declare", "name", "free"),
    [
        (deterministic_mean, "mu", ["b"]),
        (deterministic_statistic, "level", ["b"]),
        (ordered_probabilities, "y_probs", ["c", "b"]),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_a_deterministic_that_reads_rows_is_left_out_and_named(declare, name, free):
    with pm.Model() as model:
        declare()
    records = RecordModel(model)
    assert records.released_variables == free and list(records.reading.left_out) == [name]
    (reading,) = (v for v in records.reading.variables if v.name == name)
    assert reading.role == "left out" and reading.why.startswith("reads rows: not released")


def test_dims_of_what_is_left_out_keep_their_coordinates():
    """Of persons by the rows of a Deterministic alone, with several rows each."""
    with pm.Model(coords={"row": np.arange(N) + 1000, "k": ["a", "b", "c"]}) as model:
        b = pm.Normal("b", dims="k")
        pm.Deterministic("mu", X @ b, dims="row")
        pm.Normal("y", X @ b, 1, observed=Y)
    assert RecordModel(model, privacy_unit=IDS).withheld_dims == ["row"]


def test_excluded_deterministics_are_not_released():
    with pm.Model() as model:
        deterministic_mean()
        pm.Deterministic("total", model["b"].sum())
    assert RecordModel(model).released_variables == ["b", "total"]
    assert RecordModel(model, exclude_deterministics=["mu", "total"]).released_variables == ["b"]
    with pytest.raises(ValueError, match="nonsense"):
        RecordModel(model, exclude_deterministics=["mu", "nonsense"])


def test_as_many_groups_as_records_must_be_named():
    """Whether each group is a record is in the values of an index, at which nobody looks."""
    y, group = RNG.normal(size=30), np.repeat(np.arange(15), 2)
    with pm.Model() as model:
        z = pm.Normal("z", shape=30)
        pm.Normal("y", z[group] + z.sum(), 1, observed=y)
    with pytest.raises(ModelRefusedError, match=r"'z'.*each record(?s:.*)public=\['z'\]"):
        RecordModel(model)
    assert RecordModel(model, public=["z"]).n == 30


IDS = np.repeat(np.arange(10), 4)
PER_PERSON = RNG.normal(size=(10, 2))


def person_array_in_likelihood():
    b = pm.Normal("b", shape=2)
    pm.Normal("y", ((PER_PERSON - PER_PERSON.mean(0)) @ b)[IDS], 1, observed=Y)


def person_array_in_deterministic():
    b = pm.Normal("b", shape=2)
    pm.Deterministic("mu", PER_PERSON @ b)
    pm.Normal("y", X[:, :2] @ b, 1, observed=Y)


def person_array_in_prior():
    m = pm.Normal("m", pm.Data("u", PER_PERSON[:, 0]).mean(), 1)
    pm.Normal("y", m, 1, observed=Y)


def person_effect():
    pm.Normal("y", pm.Normal("effect", shape=10)[IDS], 1, observed=Y)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (person_array_in_likelihood, "10 entries, one for each privacy unit"),
        (person_array_in_deterministic, "'mu.array_1' with 10 entries, one for each"),
        (person_array_in_prior, "'u' with 10 entries, one for each"),
        (person_effect, "'effect'.*each record"),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_arrays_and_effects_of_persons_are_private_too(declare, message):
    with pm.Model() as model:
        declare()
    with pytest.raises(ModelRefusedError, match=message):
        RecordModel(model, privacy_unit=IDS)


def test_the_same_person_covariates_by_row_are_accepted():
    with pm.Model() as model:
        pm.Normal("y", PER_PERSON[IDS] @ pm.Normal("b", shape=2), 1, observed=Y)
    assert RecordModel(model, privacy_unit=IDS).n == 10


LONG = RNG.normal(size=(N + 15, 2))


def rows_of_a_longer_table():
    b = pm.Normal("b", shape=2)
    pm.Deterministic("prediction", pm.math.dot(LONG, b))
    pm.Normal("y", LONG[:N] @ b, 1, observed=Y)


def rows_selected_in_the_graph():
    table = pm.Data("table", LONG)
    pm.Normal("y", table[np.arange(N)] @ pm.Normal("b", shape=2), 1, observed=Y)


def some_rows_in_a_deterministic():
    b = pm.Normal("b", shape=3)
    pm.Deterministic("first", pm.math.dot(X[:5], b))
    pm.Normal("y", X @ b, 1, observed=Y)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (rows_of_a_longer_table, "'prediction.array_1', longer than the 40"),
        (rows_selected_in_the_graph, "'table'.*longer than the 40 records"),
        (some_rows_in_a_deterministic, "'first.array_1' is a part of an array of records"),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_records_inside_other_arrays_are_found(declare, message):
    with pm.Model() as model:
        declare()
    with pytest.raises(ModelRefusedError, match=message):
        RecordModel(model)


def test_a_small_public_table_may_be_read():
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        pm.Deterministic("prediction", np.eye(3) @ b)
        pm.Normal("y", X @ b, 1, observed=Y)
    assert "prediction" in RecordModel(model).released_variables
