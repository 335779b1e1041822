"""Effects with an entry for each person: what is integrated, what is refused; scores against integrals."""

from operator import call

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import expit, logsumexp

import pymc_dp as dp
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records import effect_scores
from pymc_dp.records.model import RecordModel
from pymc_dp.records.several_tables import read_records
from tests.records import persons
from tests.records.persons import MODELS, ROWS, N, ids_of, random_intercept


def read(model, unit="person", **settings):
    return RecordModel(model, privacy_unit=unit, integrate=True, **settings)


def scores(records, phi, twins=0, seed=1):
    """Of the persons, shape (n, p), and of their groups."""
    chunks = list(map(call, records.twins(np.asarray(phi, dtype=float), twins, PrivacyRandom(seed))))
    own = np.concatenate([chunk.terms[0].own for chunk in chunks])
    return own, np.concatenate([chunk.terms[0].group for chunk in chunks], axis=1)


def derivative(function, phi, h=1e-5):
    """Of a vector, by central differences, shape (n, p)."""
    steps = h * np.eye(len(phi))
    return np.stack([(function(phi + e) - function(phi - e)) / (2 * h) for e in steps], axis=1)


@pytest.mark.parametrize("name", MODELS)
def test_what_must_work_is_read(name):
    make, unit, effect = MODELS[name]
    records = read(make(), unit)
    assert records.effects == [effect] and effect not in records.released_variables
    assert {v.name: v.role for v in records.reading.variables}[effect] == "integrated"
    assert effect not in {array.label for array in records.reading.arrays}
    assert records.n == (N if unit else records.n_rows) or name == "growth"


SLOW = [pytest.param("intercept and slope, not centred", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", ["random intercept", "negative binomial", "item response", *SLOW])
def test_inspect_says_what_is_integrated(name):
    make, unit, effect = MODELS[name]
    seen = dp.inspect(make(), privacy_unit=unit)
    assert seen.accepted and seen.widths
    line = next(line for line in str(seen).splitlines() if line.startswith(f"  {effect} "))
    assert "integrated  one entry a person; not released" in line


def test_effects_are_not_among_what_is_released():
    records = read(random_intercept(noncentred=True))
    assert records.effects == ["z"] and set(records.released_variables) == {"beta", "tau"}
    assert set(records.reading.left_out) == {"ability"}
    assert "who" in records.withheld_dims and records.d == 3


@pytest.mark.parametrize("noncentred", [False, True])
def test_scores_are_those_of_the_integral(noncentred):
    """A random intercept in logistic regression, against sums over a fine grid."""
    model, ids = random_intercept(noncentred), ids_of()
    records, phi = read(model), np.array([0.4, -0.3, np.log(0.8)])
    y = model.rvs_to_values[model["y"]].eval()
    x = np.random.default_rng(1).normal(size=(len(ids), 2))
    grid, weights = np.polynomial.hermite_e.hermegauss(80)

    def marginal(phi):
        eta = x @ phi[:2] + np.exp(phi[2]) * grid[:, None]
        rows = np.log(np.where(y == 1, expit(eta), expit(-eta)))
        sums = np.array([rows[:, ids == k].sum(axis=1) for k in records_in_order])
        return np.log(np.exp(sums) @ weights)

    records_in_order = list(dict.fromkeys(ids.tolist()))
    np.testing.assert_allclose(scores(records, phi)[0], derivative(marginal, phi), rtol=2e-3, atol=2e-4)


def test_poisson_with_a_gamma_effect_is_negative_binomial():
    model = persons.counts()
    records, phi = read(model, None), np.array([0.4, 0.3, np.log(1.7)])
    y = model.rvs_to_values[model["y"]].eval()
    x = np.random.default_rng(5).normal(size=len(y))

    def marginal(phi):
        alpha, mean = np.exp(phi[2]), np.exp(phi[0] + phi[1] * x)
        return stats.nbinom.logpmf(y, alpha, alpha / (alpha + mean))

    np.testing.assert_allclose(scores(records, phi)[0], derivative(marginal, phi), rtol=5e-3, atol=1e-3)


def error_in_dollars():
    """Of scores, where the effect's density has a kink: from sums over a grid, in deviations of a score."""
    random, n = np.random.default_rng(3), 40
    ids, kilo = np.repeat(np.arange(n), 4), 1000.0
    y = 50 * kilo + random.laplace(0, 3 * kilo, n)[:, None] + random.normal(0, 2 * kilo, (n, 4))
    with pm.Model() as model:
        person, m = pm.Data("person", ids), pm.Normal("m", 50 * kilo, 10 * kilo)
        own = pm.Laplace("own", 0, pm.LogNormal("b", 8, 1), shape=n)
        pm.Normal("y", m + own[person], pm.LogNormal("s", 8, 1), observed=y.ravel())
    grid = np.arange(-40 * kilo, 40 * kilo, 4.0)[:, None]

    def marginal(phi):
        m, b, s = kilo * phi[0], np.exp(phi[1]), np.exp(phi[2])
        squares = (y**2).sum(axis=1) - 2 * (m + grid) * y.sum(axis=1) + 4 * (m + grid) ** 2
        return logsumexp(-squares / (2 * s**2) - np.abs(grid) / b, axis=0) - 4 * np.log(s) - np.log(b)

    phi, unit = np.array([50.0, 8.0, 7.6]), np.array([kilo, 1.0, 1.0])
    exact = derivative(marginal, phi) / unit
    return np.max(np.abs(scores(read(model), phi * unit)[0] - exact) / exact.std(axis=0))


def test_an_effect_in_dollars_with_a_kink():
    assert error_in_dollars() < 0.03


def test_a_kink_that_is_not_seen_is_noticed(monkeypatch):
    """Control."""
    monkeypatch.setattr(effect_scores, "have_kinks", lambda terms, variables: False)
    assert error_in_dollars() > 0.1


@pytest.mark.slow
def test_all_writings_of_a_slope_give_the_same():
    """And that is the normal density of a person's rows."""
    phi = np.array([0.2, -0.1, np.log(0.7), np.log(0.9), 0.3, np.log(0.6)])
    found = []
    for writing in ("centred", "first", "last"):
        records = read(persons.slopes(writing))
        assert [name for name, _ in records.coordinates.names] in (
            ["sigma", "mean", "chol"],
            ["mean", "sigma", "chol"],
        )
        order = np.concatenate([
            np.arange(6)[places] for _, places in sorted(records.coordinates.names, key=lambda one: one[0])
        ])  # fmt: skip
        values = np.empty(6)
        values[order] = np.concatenate([phi[3:], phi[:2], phi[2:3]])  # chol, mean, sigma
        found.append(scores(records, values)[0][:, order])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-6, atol=1e-8)
    r, ids = np.random.default_rng(2), ids_of()
    t, y = r.normal(size=len(ids)), r.normal(size=len(ids))

    def marginal(phi):  # chol, mean, sigma
        lower = np.array([[np.exp(phi[0]), 0.0], [phi[1], np.exp(phi[2])]])
        out = []
        for k in dict.fromkeys(ids.tolist()):
            z = np.column_stack([np.ones(ROWS), t[ids == k]])
            covariance = z @ lower @ lower.T @ z.T + np.exp(2 * phi[5]) * np.eye(ROWS)
            out.append(stats.multivariate_normal.logpdf(y[ids == k], z @ phi[3:5], covariance))
        return np.array(out)

    start = np.concatenate([phi[3:], phi[:2], phi[2:3]])
    np.testing.assert_allclose(found[0], derivative(marginal, start), rtol=1e-4, atol=1e-5)


def test_twins_are_whole_persons():
    """All rows of a person's twin have one effect: with a large one they are all alike."""
    records = read(random_intercept())
    phi = np.array([0.0, 0.0, np.log(50.0)])
    drawn, fit = records.twins.outcomes._drawn(phi[None], 1, PrivacyRandom(1))
    assert all(good.all() for good in fit.values())
    share = np.array([drawn["y"][0][ids_of() == k].mean() for k in range(N)])
    assert np.mean((share == 0) | (share == 1)) > 0.8  # of rows apart: 1/8


def test_twins_of_rows_have_effects_of_their_own():
    records = read(persons.counts(), None)
    drawn, _ = records.twins.outcomes._drawn(np.array([[1.0, 0.0, np.log(0.5)]]), 1, PrivacyRandom(1))
    (y,) = drawn["y"]
    assert 2 < y.var() / y.mean() < 20  # a Poisson variable has 1, this one 1 + e / .5 = 6.4


@pytest.mark.slow
def test_scores_are_zero_on_average_at_the_truth():
    """Of twins, drawn at phi; and, as a control, not of those that were drawn elsewhere."""
    records = read(random_intercept(n=500, ids=np.repeat(np.arange(500), 4)))
    phi = np.array([0.5, -0.5, np.log(0.8)])
    _, group = scores(records, phi, twins=40)
    flat = group[1:].reshape(-1, 3)
    z = flat.mean(axis=0) / (flat.std(axis=0) / np.sqrt(len(flat)))
    assert np.all(np.abs(z) < 5.5)
    _, other = scores(records, phi + np.array([0.0, 0.0, 0.5]), twins=40)
    assert np.all(np.abs(group[1:].std(axis=(0, 1)) / other[1:].std(axis=(0, 1)) - 1).max() > 0.02)


# What may leak


def changed(ids, x_last=None):
    """Scores of a model with other rows of the last person."""
    return scores(read(random_intercept(n=N, ids=ids)), [0.4, -0.3, 0.0])[0]


def test_a_code_out_of_range_makes_that_person_nothing():
    ids = np.repeat(np.arange(N), ROWS)
    usual = changed(ids)
    for code in (-1, N, 2**31 - 1):
        other = ids.copy()
        other[-ROWS:] = code
        found = changed(other)
        assert np.isnan(found[-1]).all()
        np.testing.assert_array_equal(found[:-1], usual[:-1])


def test_numbers_of_rows_are_of_their_person_alone():
    """Of 10,000 rows as well; what others add is the same to the last bit, wherever chunks are cut."""
    ids = np.repeat(np.arange(N), ROWS)
    with_many = np.concatenate([ids[:-ROWS], np.full(10_000, N - 1)])

    def own(ids):
        with pm.Model() as model:
            person, tau = pm.Data("person", ids), pm.HalfNormal("tau", 1)
            mean, ability = pm.Normal("mean"), pm.Normal("ability", 0, tau, shape=N)
            pm.Poisson("y", pm.math.exp(mean + ability[person]), observed=np.arange(len(ids)) % 3)
        return scores(read(model), [0.4, -0.3])[0]

    usual, found = own(ids), own(with_many)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[:-1], usual[:-1])


def test_persons_without_rows_are_nothing():
    """The effect may have more entries than there are persons: how many is the model's."""
    ids = np.repeat(np.arange(0, 2 * N, 2), ROWS)
    records = read(random_intercept(n=3 * N, ids=ids))
    own, _ = scores(records, [0.4, -0.3, 0.0])
    assert records.n == N and own.shape == (N, 3)
    np.testing.assert_array_equal(own, changed(np.repeat(np.arange(N), ROWS)))


def test_a_record_that_is_not_finite_is_its_persons_alone():
    ids = np.repeat(np.arange(N), ROWS)
    model = random_intercept(ids=ids)
    records = read(model)
    usual, _ = scores(records, [0.4, -0.3, 0.0])
    matrix = next(
        root.get_value(borrow=True) for root in records._roots if root.get_value(borrow=True).ndim == 2
    )
    matrix[0, 0] = np.nan
    found, group = scores(records, [0.4, -0.3, 0.0], twins=2)
    assert np.isnan(found[0]).all() and np.isnan(group[:, 0]).all()
    np.testing.assert_array_equal(found[1:], usual[1:])
    assert np.isfinite(group[:, 1:]).all()


# What is refused


def model_with(effect, reads=lambda own, person: own[person], n=N, more=None):
    ids = np.repeat(np.arange(n), ROWS)
    with pm.Model() as model:
        person, tau = pm.Data("person", ids), pm.HalfNormal("tau", 1)
        own = effect(tau, n)
        if more is not None:
            more(own)
        pm.Normal("y", reads(own, person), 1, observed=np.zeros(len(ids)))
    return model


def normal(tau, n):
    return pm.Normal("own", 0, tau, shape=n)


def smooth(tau, n):
    gp = pm.gp.Latent(cov_func=tau**2 * pm.gp.cov.ExpQuad(1, 1.0))
    return gp.prior("own", X=np.linspace(0, 1, n)[:, None])


def neighbours(tau, n):
    w = np.eye(n, k=1) + np.eye(n, k=-1)
    return pm.CAR("own", np.zeros(n), W=w, alpha=0.5, tau=tau, shape=n)


FRIENDS = np.roll(np.repeat(np.arange(N), ROWS), ROWS)

REFUSED = {
    "a Gaussian process": (model_with, smooth, {}, "couples persons"),
    "neighbours": (model_with, neighbours, {"public": ["own.array_1", "own.array_2"]}, "couples persons"),
    "a random walk": (
        model_with,
        lambda tau, n: pm.GaussianRandomWalk("own", sigma=tau, init_dist=pm.Normal.dist(), steps=n - 1),
        {},
        "couples persons",
    ),
    "effects that add up to zero": (
        model_with,
        lambda tau, n: pm.ZeroSumNormal("own", tau, shape=n),
        {},
        "couples persons",
    ),
    "pairs of persons": (
        lambda effect: model_with(effect, lambda own, person: own[person] + own[FRIENDS]),
        normal,
        {},
        "other than by the ids",
    ),
    "the mean of all": (
        lambda effect: model_with(effect, lambda own, person: own[person] - own.mean()),
        normal,
        {},
        "other than by the ids",
    ),
    "a Potential": (
        lambda effect: model_with(effect, more=lambda own: pm.Potential("sum", -(own.sum() ** 2))),
        normal,
        {},
        "other than by the ids",
    ),
    "another prior": (
        lambda effect: model_with(effect, more=lambda own: pm.Normal("next", own[0], 1)),
        normal,
        {},
        "other than by the ids",
    ),
    "a prior of each person": (
        model_with,
        lambda tau, n: pm.Normal("own", np.linspace(0, 1, n), tau),
        {},
        "other parameters for each person",
    ),
    "a density that is no distribution": (
        model_with,
        lambda tau, n: pm.Flat("own", shape=n),
        {},
        "no distribution",
    ),
    "too many numbers": (
        lambda effect: model_with(effect, lambda own, person: own[person].sum(axis=1)),
        lambda tau, n: pm.Normal("own", 0, tau, shape=(n, 4)),
        {},
        "more than 3 effects",
    ),
    "a part of a table": (
        lambda effect: model_with(effect, lambda own, person: own[person, :2].sum(axis=1)),
        lambda tau, n: pm.Normal("own", 0, tau, shape=(n, 3)),
        {},
        "in a way that is not followed",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    make, effect, settings, said = REFUSED[name]
    with pytest.raises(dp.errors.ModelRefusedError, match=said):
        read_records(make(effect), privacy_unit="person", integrate=True, **settings)


@pytest.mark.parametrize("n", [40, 4])
def test_a_matrix_of_persons_is_a_look_up(n):
    """Effects would be parameters, one a person. Few coefficients may be as many as there are persons."""
    ids = np.repeat(np.arange(n), ROWS)
    with pm.Model() as model:
        pm.Data("person", ids)
        pm.Normal("y", np.eye(n)[ids] @ pm.Normal("own", 0, 1, shape=n), 1, observed=np.zeros(len(ids)))
    found = dp.inspect(model, privacy_unit="person")
    assert found.accepted == (n == 4)
    assert n == 4 or "'own' has an entry for each record" in str(found.refusals[0])


def test_effects_alone_leave_nothing_to_release():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("own", 0, 1, shape=50), 1, observed=np.zeros(50))
    with pytest.raises(dp.errors.ModelRefusedError, match="All free variables have an entry for each record"):
        RecordModel(model, integrate=True, verify=False)


def test_a_deterministic_that_reads_an_effect_is_left_out():
    model = model_with(normal, more=lambda own: pm.Deterministic("largest", own.max()))
    records = read(model)
    assert set(records.reading.left_out) == {"largest"}
    assert records.released_variables == ["tau"]


def test_ids_that_are_not_the_array_of_the_look_up():
    """Who belongs to whom would be two things: the effect stays a parameter, and is refused."""
    model = model_with(normal)
    with pytest.raises(dp.errors.ModelRefusedError, match=r"(?s)own.*privacy_unit"):
        read(model, np.repeat(np.arange(N), ROWS))
    with model:
        pm.Data("other", np.repeat(np.arange(N)[::-1], ROWS))
    with pytest.raises(dp.errors.ModelRefusedError, match="own"):
        read(model, "other")
    with pytest.raises(ValueError, match=r"the model's pm.Data are \['other', 'person'\]"):
        read(model, "somebody")


def test_an_outcome_that_another_one_reads():
    ids = np.repeat(np.arange(N), ROWS)
    with pm.Model() as model:
        person, own = pm.Data("person", ids), pm.Normal("own", 0, 1, shape=N)
        b = pm.Normal("b")
        first = pm.Normal("first", own[person], 1, observed=np.zeros(len(ids)))
        pm.Normal("second", b * first + own[person], 1, observed=np.ones(len(ids)))
    with pytest.raises(dp.errors.ModelRefusedError, match="'second' reads another observed variable"):
        read(model).twins  # noqa: B018


def test_other_ways_refuse_effects():
    """Steps on the exact likelihood, and comparisons, know no integral."""
    with (
        random_intercept(),
        pytest.raises(dp.errors.ModelRefusedError, match="'ability' has an entry for each"),
    ):
        dp.DPPenaltyMH(epsilon=1.0, delta=1e-6, lipschitz=5.0, chains=1, privacy_unit="person")
    with (
        random_intercept(),
        pytest.raises(dp.errors.ModelRefusedError, match="'ability' has an entry for each"),
    ):
        dp.DPNUTS(epsilon=1.0, delta=1e-6, privacy_unit="person")
    with pytest.raises(dp.errors.ModelRefusedError, match="which is private"):
        read(random_intercept(), neighboring_relation="add_remove")
    with persons.counts(), pytest.raises(dp.errors.ModelRefusedError, match="'own' has an entry for each"):
        dp.DPPenaltyMH(epsilon=1.0, delta=1e-6, lipschitz=5.0, chains=1)


OTHER_ORDER = np.arange(N)[::-1].copy()  # as many rows as persons, in another order


@pytest.mark.parametrize("ids", [OTHER_ORDER, np.repeat(np.arange(N), ROWS)], ids=["a row each", "more"])
@pytest.mark.parametrize(
    "table",
    [
        lambda own, b, u: own + b * u,
        lambda own, b, u: own * u,
        lambda own, b, u: pt.switch(u > 0.5, own, b),
        lambda own, b, u: pm.Deterministic("ability", own + pt.exp(b * u)),
        lambda own, b, u: pt.stack([own, u], axis=1)[:, 0],
        lambda own, b, u: own + b * pt.concatenate([u[:1], u[1:]]),
    ],
)
def test_a_number_for_each_person_beside_an_effect_is_refused(ids, table):
    """In the place of the effect each row has its own person's: row i would read the number of person i."""
    for kind in (pm.Data, lambda name, value: pt.as_tensor(value)):
        with pm.Model() as model:
            person = pm.Data("person", ids)
            b, own = pm.Normal("b"), pm.Normal("own", shape=len(ids))
            u = kind("u", np.linspace(0, 1, len(ids)))
            pm.Normal("y", table(own, b, u)[person], 1, observed=np.zeros(len(ids)))
        with pytest.raises(dp.errors.ModelRefusedError):
            read(model)


def test_effects_beside_each_other_and_beside_few_numbers_are_read():
    with pm.Model() as model:
        person = pm.Data("person", OTHER_ORDER)
        first, second = pm.Normal("first", shape=N), pm.Normal("second", shape=(N, 2))
        table = first + pt.exp(second) @ np.array([0.5, 1.0])
        pm.Normal("y", table[person] + pm.Normal("mean"), 1, observed=np.zeros(N))
    assert sorted(read(model).effects) == ["first", "second"]


def test_an_effect_of_which_a_part_is_looked_up_too_is_refused():
    with pm.Model() as model:
        person, own = pm.Data("person", np.repeat(np.arange(N), ROWS)), pm.Normal("own", shape=N)
        pm.Normal("y", own[person] + own[: N - 1][person], 1, observed=np.zeros(N * ROWS))
    with pytest.raises(dp.errors.ModelRefusedError, match="'own'"):
        read(model)


def test_ids_in_a_type_that_does_not_hold_them_are_others():
    with pm.Model() as model:
        person, own = pm.Data("person", np.repeat(np.arange(N), ROWS)), pm.Normal("own", shape=N)
        pm.Normal("y", own[person.astype("int8")], 1, observed=np.zeros(N * ROWS))
    with pytest.raises(dp.errors.ModelRefusedError):
        read(model)


@pytest.mark.parametrize("ids", [OTHER_ORDER, np.repeat(np.arange(N), ROWS)], ids=["a row each", "more"])
@pytest.mark.parametrize("by_name", [True, False])
def test_how_many_rows_persons_have_reaches_nothing(ids, by_name):
    """Also where it is as many as persons: a person may have one row more."""
    kinds = {
        "the prior": lambda x: pm.Normal("b", 0, x.shape[0]),
        "the start": lambda x: pm.Normal("b", initval=1.0 * x.shape[0]),
        "a Potential": lambda x: pm.Potential("factor", -1.0 * x.shape[0] * pm.Normal("b") ** 2),
        "a Deterministic": lambda x: pm.Deterministic("d", x.shape[0] * pm.Normal("b")),
        "its shape": lambda x: pm.Deterministic("d", pt.zeros(x.shape[0]) + pm.Normal("b")),
    }
    for kind, add in kinds.items():
        with pm.Model() as model:
            pm.Data("person", ids)
            x = pm.Data("x", np.linspace(0, 1, len(ids)))
            add(x)
            pm.Normal("y", model["b"] * x, 1, observed=np.zeros(len(ids)))
        unit = "person" if by_name else {"person": ids}
        if "d" in model.named_vars:
            assert "d" not in read(model, unit).released_variables, kind
            continue
        with pytest.raises(dp.errors.ModelRefusedError, match="number of records, which is private"):
            read(model, unit)


def test_a_row_of_several_outcomes_is_read_where_the_number_of_rows_is_private():
    """The density of a vector reads how long the vector is, which is not how many rows there are."""
    for settings in ({"privacy_unit": np.repeat(np.arange(N), ROWS)}, {"neighboring_relation": "add_remove"}):
        with pm.Model() as model:
            mean = pm.Normal("mean", shape=2)
            pm.MvNormal("y", mean, np.eye(2), observed=np.zeros((N * ROWS, 2)))
        assert RecordModel(model, **settings).d == 2


def test_names_of_persons_stay_where_some_have_no_row():
    """The dimension of an effect is one of persons, whatever its length."""
    names = [f"person {k}" for k in range(3 * N)]
    with pm.Model(coords={"who": names}) as model:
        person, b = pm.Data("person", np.repeat(np.arange(N), ROWS)), pm.Normal("b")
        own = pm.Normal("own", dims="who")
        pm.Deterministic("d", pt.zeros(3 * N) + b, dims="who")
        pm.Normal("y", b + own[person], 1, observed=np.zeros(N * ROWS))
    assert "who" in read(model).withheld_dims
