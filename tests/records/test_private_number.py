"""Where the number of records is private, no density knows it: neither by a type nor by what is computed."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.model.transform.optimization import freeze_dims_and_data

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records.model import RecordModel

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
Y = RNG.normal(size=N)
FLAGS = (X > 0).astype(int)
PERSONS = np.repeat(np.arange(N // 3), 3)
REFUSED = "not factorise|number of records|inside of an op|length is known"
PRIVATE = [{"neighboring_relation": "add_remove"}, {"privacy_unit": PERSONS}]


def by_covariate(x):
    """A bandwidth."""
    pm.Normal("y", pm.Normal("a") * x, pm.HalfNormal("s") * x.shape[0] ** -0.2, observed=Y)


def in_logit(x):
    pm.Bernoulli("y", logit_p=pm.Normal("a") * x.shape[0] ** 0.2 - 2.0, observed=FLAGS)


def in_probability(x):
    """A check of it is about parameters and that number alone."""
    pm.Bernoulli("y", p=pm.Beta("p", 1, 1) * x.shape[0] / 400, observed=FLAGS)


def of_another_outcome(x):
    y = pm.Normal("y", pm.Normal("a"), 1, observed=Y)
    pm.Normal("z", pm.Normal("b") * pt.sqrt(y.shape[0]), 1, observed=X)


def in_weights(x):
    weight = 1 / pt.sqrt(x.shape[0])
    parts = [pm.Normal.dist(pm.Normal("a"), 1), pm.Normal.dist(x, 5)]
    pm.Mixture("y", pt.stack([weight, 1 - weight]), parts, observed=Y)


def in_component(x):
    parts = [pm.Normal.dist(pm.Normal("a"), 1 / pt.sqrt(x.shape[0])), pm.Normal.dist(x, 5)]
    pm.Mixture("y", [0.5, 0.5], parts, observed=Y)


def in_censored(x):
    pm.Censored("y", pm.Normal.dist(x, pt.sqrt(x.shape[0])), -3, pm.Normal("a") + 3, observed=Y)


def in_function_of_value(x):
    def logp(value, mean):
        law = pm.Normal.dist(mean, 1 / pt.sqrt(value.shape[0]), shape=N)
        return pm.logp(pt.exp(law), value)

    pm.CustomDist("y", pm.Normal("a"), logp=logp, observed=np.exp(Y))


def in_function_with_an_array_of_its_own(x):
    """That has a row for each record, and a length in its type."""
    own = pytensor.shared(X, shape=(N,))

    def logp(value, mean):
        return pm.logp(pm.Normal.dist(mean + own, 1 / pt.sqrt(own.shape[0])), value)

    pm.CustomDist("y", pm.Normal("a"), logp=logp, observed=Y)


def in_function_of_draws(x):
    def dist(mean, covariate, size):
        return pm.Normal.dist(mean * covariate, 1 / pt.sqrt(covariate.shape[0]), size=size)

    pm.CustomDist("y", pm.Normal("a"), x, dist=dist, observed=Y)


def in_nested_function_of_draws(x):
    """Of a law that is made of another one."""

    def inner(mean, covariate, size):
        return pm.Normal.dist(mean * covariate, 1 / pt.sqrt(covariate.shape[0]), size=size)

    def dist(mean, covariate, size):
        return pm.CustomDist.dist(mean, covariate, dist=inner, size=size) + 1

    pm.CustomDist("y", pm.Normal("a"), x, dist=dist, observed=Y)


def in_places(x):
    pm.Normal("y", pm.Normal("b", shape=2)[pt.arange(x.shape[0]) % 2], 1, observed=Y)


def in_places_by_number(x):
    pm.Normal("y", pm.Normal("b", shape=2)[pt.arange(N) % 2], 1, observed=Y)


def in_size_of_sum(x):
    pm.Normal("y", pm.Normal("a") * pt.ones(x.shape[0]).sum() / 50 + x, 1, observed=Y)


def of_component(x):
    """That has a length in its own graph, whatever it was made of."""
    z = pm.ZeroSumNormal.dist(1.0, shape=(x.shape[0], 3))
    pm.Normal("y", pm.Normal("a") * x, pt.sqrt(z.shape[0]), observed=Y)


def of_another_component(x):
    z = pm.Normal.dist(0.0, 1.0, shape=x.shape[0])
    pm.Normal("y", pm.Normal("a") * x, pt.sqrt(z.shape[0]), observed=Y)


NUMBERS = [
    of_component,
    of_another_component,
    by_covariate,
    in_logit,
    in_probability,
    of_another_outcome,
    in_weights,
    in_component,
    in_censored,
    in_function_of_value,
    in_function_with_an_array_of_its_own,
    in_function_of_draws,
    in_nested_function_of_draws,
    in_places,
    in_places_by_number,
    in_size_of_sum,
]


def constant():
    return pt.as_tensor(X)


def with_length_in_its_type():
    return pm.Data("x", X, shape=(N,))


def model(write, x):
    with pm.Model() as made:
        write(x())
    return made


@pytest.mark.parametrize("settings", PRIVATE)
@pytest.mark.parametrize("write", NUMBERS)
def test_what_reads_a_private_number_of_records_is_refused(write, settings):
    """Whether covariates are constants, which PyTensor looks at, or data."""
    for x in (constant, with_length_in_its_type, lambda: pm.Data("x", X)):
        with pytest.raises(ModelRefusedError, match=REFUSED):
            RecordModel(model(write, x), verify=False, **settings)


@pytest.mark.parametrize("write", [by_covariate, in_logit, in_weights, in_censored, of_another_outcome])
def test_a_public_number_of_records_may_be_read(write):
    """Control: where one record is replaced, their number is known."""
    assert RecordModel(model(write, constant), verify=False).n == N


def plain(x):
    pm.Normal("y", pm.Normal("a") * x, pm.HalfNormal("s"), observed=Y)


def filled(x):
    """Numbers that are all the same have no place."""
    pm.Normal("y", pm.Normal("a") * pt.ones(N) + x, pt.full(N, 2.0), observed=Y)


def mixture(x):
    weights = pm.Dirichlet("w", [1.0, 1.0])
    pm.Mixture("y", weights, [pm.Normal.dist(pm.Normal("a") * x, 1), pm.Normal.dist(x, 5)], observed=Y)


def mixture_of_many(x):
    law = pm.Normal.dist(pm.Normal("a", shape=3) * x[:, None], 1)
    pm.Mixture("y", pm.Dirichlet("w", np.ones(3)), law, observed=Y)


def zeros(x):
    mean = pt.exp(pm.Normal("a") * x)
    pm.ZeroInflatedPoisson("y", pm.Beta("p", 1, 1), mean, observed=FLAGS)


def hurdle(x):
    pm.HurdlePoisson("y", pm.Beta("p", 1, 1), pt.exp(pm.Normal("a") * x), observed=FLAGS)


def censored(x):
    pm.Censored("y", pm.Normal.dist(pm.Normal("a") * x, 1), -3, np.abs(X) + 3, observed=np.abs(Y))


def truncated(x):
    pm.Truncated("y", pm.Normal.dist(pm.Normal("a") * x, 1), lower=-5, observed=Y)


def half_cauchy(x):
    pm.HalfCauchy("y", pt.exp(pm.Normal("a") * x), observed=np.abs(Y))


def of_draws(x):
    def dist(mean, covariate, size):
        return pm.math.exp(pm.Normal.dist(mean * covariate, 1, size=size))

    pm.CustomDist("y", pm.Normal("a"), x, dist=dist, observed=np.exp(Y))


def of_nested_draws(x):
    def dist(mean, covariate, size):
        return pm.Truncated.dist(pm.Normal.dist(mean * covariate, 1, size=size), lower=-5)

    pm.CustomDist("y", pm.Normal("a"), x, dist=dist, observed=Y)


def two_outcomes(x):
    a = pm.Normal("a")
    y = pm.Normal("y", a * x, 1, observed=Y)
    pm.Normal("z", a * y, 1, observed=X)


def vectors(x):
    mean = pm.Normal("a", shape=2) * x[:, None]
    pm.MvNormal("y", mean, np.eye(2), observed=np.c_[X, Y])


def vectors_of_one_covariance(x):
    covariance = np.eye(2) * pt.exp(pm.Normal("a")) * pt.ones((N, 1, 1))
    pm.MvNormal("y", x[:, None] * np.ones(2), covariance, observed=np.c_[X, Y])


LAWS = [
    vectors_of_one_covariance,
    plain,
    filled,
    mixture,
    mixture_of_many,
    zeros,
    hurdle,
    censored,
    truncated,
    half_cauchy,
    of_draws,
    of_nested_draws,
    two_outcomes,
    vectors,
]


@pytest.mark.parametrize("settings", PRIVATE)
@pytest.mark.parametrize("write", LAWS)
def test_what_does_not_read_it_is_as_before(write, settings):
    """Rows are those of the model whose number of records is public."""
    private = RecordModel(model(write, constant), verify=False, **settings)
    public = RecordModel(model(write, constant), verify=False)
    point = public._start + np.linspace(0.1, 0.3, len(public._start))
    expected = public.full_batch.rows(point)
    if "privacy_unit" in settings:
        expected = expected.reshape(-1, 3).sum(axis=1)
    np.testing.assert_allclose(private.full_batch.rows(point), expected, rtol=1e-9)


def items(x):
    """As many as there happen to be rows, which is said to be public."""
    pm.Normal("y", pm.Normal("b", shape=N)[np.arange(N) % 7] + pm.Normal("a") * x, 1, observed=Y)


@pytest.mark.parametrize("settings", [{}, *PRIVATE])
def test_a_variable_that_is_as_long_may_be_public(settings):
    assert RecordModel(model(items, constant), verify=False, public=["b"], **settings).n


def flattened(x):
    pm.Normal("y", pt.dot(x[:, None], pm.Normal("b", shape=(1, 1))).flatten(), 1, observed=Y)


def reshaped(x):
    pm.Normal("y", (pm.Normal("b") * x).reshape((-1, 1)), 1, observed=Y[:, None])


def in_threes(x):
    terms = pm.Normal("b") * (x[:, None] * np.arange(6.0))
    pm.Normal("y", terms.reshape((-1, 3, 2)).sum((1, 2)), 1, observed=Y)


@pytest.mark.parametrize("settings", [{}, *PRIVATE])
@pytest.mark.parametrize("write", [flattened, reshaped, in_threes])
def test_one_axis_may_be_what_is_left(write, settings):
    """A size of -1 is the number of records if all others are what one record has."""
    assert RecordModel(model(write, constant), verify=False, **settings).n


def test_a_size_that_is_left_may_be_others():
    """Control: two records beside each other."""
    with pm.Model() as made:
        pairs = (pm.Normal("b") * pt.as_tensor(X)).reshape((-1, 2)).sum(axis=1)
        pm.Normal("y", pt.repeat(pairs, 2), 1, observed=Y)
    with pytest.raises(ModelRefusedError, match="`reshape` over the records"):
        RecordModel(made, verify=False, neighboring_relation="add_remove")


@pytest.mark.parametrize("settings", PRIVATE)
@pytest.mark.parametrize("frozen", [False, True])
def test_the_length_of_a_dimension_is_such_a_number(frozen, settings):
    """Also where it was made a constant."""
    with pm.Model(coords={"obs": np.arange(N)}) as made:
        x, number = pm.Data("x", X, dims="obs"), pt.cast(made.dim_lengths["obs"], "float64")
        pm.Normal("y", pm.Normal("a") * x, pm.HalfNormal("s") * number**-0.2, observed=Y, dims="obs")
    with pytest.raises(ModelRefusedError, match="not factorise"):
        RecordModel(freeze_dims_and_data(made) if frozen else made, verify=False, **settings)
    with pm.Model(coords={"obs": np.arange(N)}) as other:
        x = pm.Data("x", X, dims="obs")
        pm.Normal("y", pm.Normal("a") * x, pm.HalfNormal("s"), observed=Y, dims="obs")
    assert RecordModel(freeze_dims_and_data(other) if frozen else other, verify=False, **settings).n


@pytest.mark.parametrize("settings", [{}, *PRIVATE])
def test_an_intervention_by_place_is_refused(settings):
    """A part of the records would be before it, whatever they are. Control: as data."""
    places = (np.arange(N) >= 30).astype(float)
    for after, fine in [(pt.zeros(N)[30:].set(1.0), False), (places, True), (pm.math.exp(pt.zeros(N)), True)]:
        with pm.Model() as made:
            pm.Normal("y", pm.Normal("level") + pm.Normal("jump") * after, 1, observed=Y)
        if fine:
            assert RecordModel(made, verify=False, **settings).n
        else:
            with pytest.raises(ModelRefusedError, match="by the place of a record"):
                RecordModel(made, verify=False, **settings)
