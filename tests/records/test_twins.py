"""Twins: outcomes from the law of the model, scores with mean zero, and records that touch no other."""

import gc
import warnings
from itertools import product
from operator import call

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.tensor.variable import TensorConstant

from pymc_dp.errors import ModelRefusedError
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from pymc_dp.records.refusals import check_generative
from pymc_dp.records.scores_at import ScoresAt, pull_back
from tests.own_process import printed
from tests.records.generative import models
from tests.records.small_shapes import KINDS

# Standard errors that 1e-9 of normal draws exceed, for each of some hundred comparisons; seeds are fixed.
FAR = 6.0


def build(name, n=200, **kwargs):
    """A model of the list, as records, and the likelihood coordinates at its parameters."""
    with pm.Model() as model:
        values = models(n)[name]()
    records = RecordModel(model, verify=False, **kwargs)
    return model, values, records, records.coordinates(theta_of(model, values, records))


def theta_of(model, values, records):
    point = {}
    for rv in model.free_RVs:
        transform, value = model.rvs_to_transforms[rv], np.asarray(values[rv.name], dtype=float)
        forward = value if transform is None else transform.forward(value, *rv.owner.inputs).eval()
        point[model.rvs_to_values[rv].name] = forward
    return records.ravel(point)


def scores_in_phi(term, p):
    """Scores of the group in the likelihood coordinates, shape (G, m, p)."""
    rows = np.broadcast_to(term.rows(np.eye(p)), (term.own.shape[1], term.own.shape[0], p))
    return np.einsum("gmk,kmp->gmp", term.group, rows)


def collected(records, phi, twins=3, seed=1):
    found = records.twins.with_known_bounds
    chunks = list(map(call, found(phi, twins, PrivacyRandom(debug_seed=seed))))
    assert [c.units.start for c in chunks] == [0, *(c.units.stop for c in chunks[:-1])]
    return [
        np.concatenate([scores_in_phi(c.terms[j], found.size) for c in chunks], axis=1)
        for j in range(len(chunks[0].terms))
    ]


def zero_mean(scores):
    """Most standard errors that a mean over units is away from zero."""
    spread = scores.std(axis=0) / np.sqrt(len(scores))
    return np.max(np.abs(scores.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


SWEEP = sorted(models(10))


@pytest.mark.slow
@pytest.mark.parametrize("name", SWEEP)
def test_law_and_scores(name):
    """By another route: PyMC's own draws, and differences of log-likelihoods."""
    model, values, records, phi = build(name, 2000)
    twins = records.twins.with_known_bounds
    assert not twins.unlike
    groups = collected(records, phi, 6)
    if twins.finite:
        chunks = list(map(call, twins(phi, 0, PrivacyRandom(debug_seed=1))))
        weights = np.concatenate([c.terms[0].weights for c in chunks], axis=1)
        np.testing.assert_allclose(weights.sum(axis=0), 1.0, atol=1e-12)
        mean = np.einsum("gm,gmp->mp", weights, groups[0])
        assert np.abs(mean).max() < 1e-10 * np.abs(groups[0]).max()
        return
    fixed = pm.do(model, {name: np.asarray(value) for name, value in values.items()})
    drawn, fit = twins.outcomes._drawn(phi[None], 6, PrivacyRandom(debug_seed=1))
    for variable in drawn:
        assert fit[variable].all()
        ours = np.stack(drawn[variable]).astype(float)
        theirs = pm.draw(fixed[variable], draws=6, random_seed=1).astype(float)
        x = np.linspace(-1, 1, ours.shape[1]).reshape(-1, *[1] * (ours.ndim - 2))
        for statistic in (np.tanh, lambda y: np.minimum(y**2, 50), lambda y: y <= 0, lambda y: y <= 1):
            a, b = statistic(ours).mean(axis=0), statistic(theirs).mean(axis=0)
            assert zero_mean(a - b) < FAR
            assert zero_mean(x * (a - b)) < FAR
    for scores in groups:
        assert scores[1:].std() > 1e-3
        assert zero_mean(scores[1:].mean(axis=0)) < FAR
        # A control: what is no draw from the model has another mean.
        assert zero_mean(scores[1:].mean(axis=0) + 0.5 * scores[1:].std()) > FAR


@pytest.mark.slow
@pytest.mark.parametrize("name", SWEEP)
def test_own_scores_are_derivatives(name):
    with pm.Model() as model:
        models(30, seed=3)[name]()
    records = RecordModel(model)
    rng = np.random.default_rng(2)
    theta = records._start + 0.2 * rng.standard_normal(records.d)
    seen = records.coordinates
    expected, h = [], 1e-5
    for e in h * np.eye(records.d):
        expected.append((records.full_batch.rows(theta + e) - records.full_batch.rows(theta - e)) / (2 * h))
    twins = records.twins
    found = np.zeros((records.n, twins.size))
    for chunk in map(call, twins(seen(theta), 0, PrivacyRandom(debug_seed=1))):
        for term in chunk.terms:
            own = term._replace(group=term.own[None])
            found[chunk.units] += scores_in_phi(own, twins.size)[0]
    np.testing.assert_allclose(found @ seen.jacobian(theta), np.transpose(expected), rtol=1e-4, atol=1e-4)


def test_a_linear_model():
    """Twins of rows with a mean and a scale, by hand."""
    _, values, records, phi = build("normal")
    (scores,) = collected(records, phi, 400)
    assert scores.shape == (401, 200, 3)
    x = np.stack([np.ones(200), np.random.default_rng(0).uniform(-1, 1, 200)], axis=1)
    b, s = values["b"], values["s"]
    residual = -x @ b
    by_hand = np.column_stack([x * (residual / s**2)[:, None], residual**2 / s**2 - 1])
    order = [i for _, place in records.coordinates.names for i in range(place.start, place.stop)]
    assert order == [0, 1, 2]
    # The scale is a coordinate by itself, or by its logarithm.
    factor = by_hand[:, 2] / scores[0, :, 2]
    np.testing.assert_allclose(scores[0, :, :2], by_hand[:, :2])
    np.testing.assert_allclose(factor, factor[0])
    assert zero_mean(scores[1:].mean(axis=0)) < FAR
    spread = scores[1:, :, :2].std(axis=(0, 1))
    np.testing.assert_allclose(spread, np.sqrt((x**2).mean(axis=0)) / s, rtol=0.03)


def test_draws_are_secret_and_each_its_own():
    _, _, records, phi = build("normal")
    first, second = collected(records, phi)[0], collected(records, phi)[0]
    np.testing.assert_array_equal(first, second)
    other = collected(records, phi, seed=2)[0]
    np.testing.assert_array_equal(first[0], other[0])
    assert np.all(first[1:] != other[1:])
    assert np.all(first[1] != first[2])


def test_all_outcomes_of_a_logistic_regression():
    _, values, records, phi = build("bernoulli")
    assert records.twins.finite == {"y": 2}
    (chunk,) = map(call, records.twins(phi, 5, PrivacyRandom(debug_seed=1)))
    (term,) = chunk.terms
    x = np.stack([np.ones(200), np.random.default_rng(0).uniform(-1, 1, 200)], axis=1)
    p = 1 / (1 + np.exp(-x @ values["b"]))
    np.testing.assert_allclose(term.weights, [1 - p, p])
    np.testing.assert_allclose(term.group[:, :, 0], [-p, 1 - p])
    np.testing.assert_allclose(term.rows(np.eye(2))[0], x)


def test_rows_of_a_person_stand_together_in_their_order():
    ids = np.random.default_rng(1).integers(0, 40, 200)
    _, _, records, phi = build("normal", privacy_unit=ids)
    _, _, rows, _ = build("normal")
    order = np.concatenate([np.flatnonzero(ids == person) for person in dict.fromkeys(ids)])
    (persons,), (apart,) = collected(records, phi, 1), collected(rows, phi, 1)
    np.testing.assert_array_equal(persons[0], apart[0, order])
    (chunk,) = map(call, records.twins(phi, 1, PrivacyRandom(debug_seed=1)))
    np.testing.assert_array_equal(
        np.diff(np.append(chunk.first, 200)), [np.sum(ids == one) for one in dict.fromkeys(ids)]
    )
    # A person may see anything: no coordinates apart, all of them, as many numbers.
    twins = records.twins
    assert (twins.rank, twins.touched, twins.lookups) == (3, 3, [])


def test_lookups_are_told():
    _, _, records, phi = build("levels")
    twins = records.twins
    (places,) = twins.lookups
    names = {name: place for name, place in records.coordinates.names}
    places = places[:, 0]
    np.testing.assert_array_equal(places, np.arange(names["l"].start, names["l"].stop))
    (chunk,) = map(call, twins(phi, 1, PrivacyRandom(debug_seed=1)))
    levels = np.random.default_rng(0)
    levels.uniform(-1, 1, 200)
    rows = chunk.terms[0].rows(np.eye(twins.size))[:, :, places].sum(axis=0)
    np.testing.assert_array_equal(np.argmax(rows, axis=1), levels.integers(0, 4, 200))


BAD = {
    "negative_binomial": lambda mu: pm.NegativeBinomial("y", mu=mu, alpha=2.0, observed=np.ones(60, int)),
    "gamma": lambda mu: pm.Gamma("y", alpha=mu, beta=1.0, observed=np.ones(60)),
    "categorical": lambda mu: pm.Categorical(
        "y", p=pm.math.stack([mu / 2, 1 - mu / 2], axis=1), observed=np.ones(60, int)
    ),
    "poisson": lambda mu: pm.Poisson("y", mu, observed=np.ones(60, int)),
    "beta_binomial": lambda mu: pm.BetaBinomial("y", n=9, alpha=mu, beta=1.0, observed=np.ones(60, int)),
    "skewed": lambda mu: pm.SkewNormal("y", mu=0.0, sigma=mu, alpha=1.0, observed=np.ones(60)),
    "truncated": lambda mu: pm.Truncated(
        "y", pm.Normal.dist(0.0, mu), lower=-1.0, upper=1.0, observed=np.zeros(60)
    ),
    "several": lambda mu: pm.MvNormal(
        "y", np.zeros(2), cov=mu[:, None, None] * np.eye(2), observed=np.ones((60, 2))
    ),
    "hypergeometric": lambda mu: pm.HyperGeometric(
        "y", N=10 + 10 * mu.astype(int), k=5, n=4, observed=np.ones(60, int)
    ),
    "von_mises": lambda mu: pm.VonMises("y", mu=0.0, kappa=mu, observed=np.zeros(60)),
    "multinomial": lambda mu: pm.Multinomial(
        "y", n=3, p=pm.math.stack([mu / 2, 1 - mu / 2], axis=1), observed=np.tile([1, 2], (60, 1))
    ),
}


# A cast to whole numbers makes some number of NaN, another one on each machine.
CAST = ("hypergeometric",)
HELD = np.array([np.nan, np.inf, -np.inf, -1.0, 1e300, 0.0, 3.0, 1e-300])
BAD_ROWS = 7 + np.arange(len(HELD))


def with_records_of(kind, values):
    x = np.ones(60)
    x[BAD_ROWS] = values
    with pm.Model() as model:
        a = pm.Normal("a")
        BAD[kind](pm.math.exp(a) * x)
    return RecordModel(model, verify=False)


@pytest.mark.parametrize(
    "kind", ["gamma", *(pytest.param(k, marks=pytest.mark.slow) for k in BAD if k != "gamma")]
)
def test_what_a_record_holds_stops_no_draw(kind):
    """A draw with bad parameters neither raises nor takes for ever, and the others are as they were."""
    good = with_records_of(kind, 1.0)
    phi = good.coordinates(np.zeros(1))
    expected = collected(good, phi, 50)[0]
    records = with_records_of(kind, HELD)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = collected(records, phi, 50)[0]
    others = np.delete(np.arange(60), BAD_ROWS)
    np.testing.assert_allclose(scores[0, others], expected[0, others])
    same = scores[:, others].mean() - expected[:, others].mean()
    assert abs(same) <= FAR * expected.std() / np.sqrt(25 * len(others))
    assert np.isfinite(scores[:, others]).all()
    if kind not in CAST:
        assert not np.isfinite(scores[1:, BAD_ROWS[np.isnan(HELD)]]).any()


@pytest.mark.slow
def test_divisors_that_underflow_stop_no_draw():
    """A gamma variable of tiny shape is 0, and what divides by it raised; a beta one was tried for ever."""
    assert printed("tests.records.small_shapes") == [f"{kind} True" for kind in KINDS]


def test_what_does_not_say_how_it_is_drawn():
    def model(**kwargs):
        with pm.Model() as found:
            m = pm.Normal("m")
            pm.CustomDist("y", m, logp=lambda y, m: -0.5 * (y - m) ** 2, observed=np.ones(60), **kwargs)
        return found

    def own(m, rng=None, size=None):
        return rng.normal(m, 1.0, size=size)

    for given in ({}, {"random": own}):
        records = RecordModel(model(**given), verify=False)
        assert "random=" in records.twins.unlike["y"]
        (chunk,) = map(call, records.twins(np.zeros(1), 3, PrivacyRandom(debug_seed=1)))
        assert chunk.terms[0].group.shape == (0, 60, 1)
        np.testing.assert_allclose(chunk.terms[0].own, 1.0)
    trusted = RecordModel(model(random=own), verify=False, trusted_ops=["CustomDist_y"])
    assert not trusted.twins.unlike
    scores = collected(trusted, np.zeros(1), 200)[0]
    assert zero_mean(scores[1:].reshape(-1, 1)) < FAR


@pytest.mark.parametrize(
    "law, params, moves",
    [
        (pm.Uniform, lambda m: (0, m), True),
        (pm.DiscreteUniform, lambda m: (0, pt.cast(10 * m, "int64")), True),
        (pm.Triangular, lambda m: (0, m, 0.5), True),
        (pm.Pareto, lambda m: (2.0, m), True),
        (pm.Pareto, lambda m: (m, 0.5), False),
        (pm.Uniform, lambda m: (0, 2.0), False),
    ],
)
def test_a_bound_that_depends_on_a_parameter_is_refused(law, params, moves):
    """No score tells of it: a maximum of 3.25 was said to be 8.6."""
    with pm.Model() as model:
        m = pm.LogNormal("m", 1, 0.1)
        pm.Normal("other", m, 1, observed=np.ones(60))
        law("y", *params(m), observed=np.ones(60, dtype=int if law is pm.DiscreteUniform else float))
    unlike = RecordModel(model, verify=False).twins.unlike
    assert list(unlike) == ["y"] * moves
    if moves:
        with pytest.raises(ModelRefusedError, match="a bound of its distribution depends on a parameter"):
            check_generative(unlike)


def test_a_trusted_draw_by_covariates_of_its_record():
    """The generator that it returns beside its draws has no axis of records."""

    def logp(y, mean):
        return -0.5 * (y - mean) ** 2

    def own(mean, rng=None, size=None):
        return rng.normal(mean, 1.0, size=size)

    x = np.linspace(-1, 1, 60)
    with pm.Model() as model:
        pm.CustomDist("y", pm.Normal("b") * x, logp=logp, random=own, observed=x)
    trusted = RecordModel(model, verify=False, trusted_ops=["CustomDist_y"])
    assert not trusted.twins.unlike
    assert zero_mean(collected(trusted, np.zeros(1), 200)[0][1:].reshape(-1, 1)) < FAR


@pytest.mark.slow
def test_notes_of_constants_do_not_grow_from_call_to_call():
    """PyTensor notes at a constant that outlives a model which lines read it: 27 times as many with each."""
    for _ in range(3):
        with pytensor.config.change_flags(traceback__limit=8), pm.Model() as model:
            chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=1, sd_dist=pm.HalfNormal.dist(1.0))
            mean = pm.Data("x", np.ones((60, 2))) @ pm.Normal("slopes", shape=(2, 2))
            pm.MvNormal("y", mean, chol=chol, observed=np.ones((60, 2)))
            assert not RecordModel(model, verify=False).twins.unlike
    constants = [one for one in gc.get_objects() if type(one) is TensorConstant]
    assert max(len(getattr(one.tag, "trace", [])) for one in constants) < 1000


OTHER_WAYS = {
    "add_remove": {"neighboring_relation": "add_remove"},
    "units of two rows": {"privacy_unit": np.repeat(np.arange(30), 2)},
}


@pytest.mark.parametrize("way", OTHER_WAYS)
@pytest.mark.parametrize("name", ["zero_inflated", "hurdle", "mixture", "normal_mixture"])
def test_where_the_number_of_rows_is_private_parts_are_drawn_as_well(name, way):
    """Weights of parts are repeated for each row, in the shape of what is mixed."""
    with pm.Model() as model:
        models(60)[name]()
    assert not RecordModel(model, verify=False, **OTHER_WAYS[way]).twins.unlike


def test_a_draw_that_records_share_is_none():
    def dist(m, size):
        return pm.Normal.dist(m, 1.0, size=size) + pm.Normal.dist(0.0, 1.0)

    with pm.Model() as model:
        m = pm.Normal("m")
        pm.CustomDist("y", m, dist=dist, logp=lambda y, m: -0.25 * (y - m) ** 2, observed=np.ones(60))
    assert "records share" in RecordModel(model, verify=False).twins.unlike["y"]


def test_positions_beyond_a_table():
    """Compiled code would read what lies there in memory: such a record has no score, and moves no other."""

    def own(last):
        group = np.tile([0, 1, last], 20)
        with pm.Model() as model:
            level = pm.Deterministic("level", pm.Normal("m") + pm.HalfNormal("t") * pm.Normal("z", shape=3))
            pm.Normal("y", level[group], pm.HalfNormal("s"), observed=np.ones(60))
        records = RecordModel(model, verify=False)
        assert not records.coordinates.identity
        phi = records.coordinates(records._start + np.arange(records.d) / 10)
        return collected(records, phi)[0]

    far, near, bad = own(10**6), own(2), np.tile([False, False, True], 20)
    np.testing.assert_array_equal(far[:, ~bad], near[:, ~bad])
    assert not np.any(np.nan_to_num(far[:, bad])) and np.any(near[:, bad])


def test_outcomes_that_nothing_else_is_read_with_are_compared_together():
    with pm.Model() as model:
        m, s = pm.Normal("m"), pm.HalfNormal("s")
        pm.Normal("y", m, s, observed=np.zeros(60))
        pm.Normal("z", 2 * m, s, observed=np.ones(60))
    records = RecordModel(model, verify=False)
    assert records.twins.names == [["y", "z"]]
    (scores,) = collected(records, records.coordinates(np.zeros(2)))
    assert scores.shape == (4, 60, 2)
    np.testing.assert_allclose(scores[0, :, 0], 2.0)
    with pm.Model() as model:
        m = pm.Normal("m")
        y = pm.Normal("y", m, 1.0, observed=np.full(60, 100.0))
        pm.Normal("z", m + y, 1.0, observed=np.ones(60))
    records = RecordModel(model, verify=False)
    assert records.twins.names == [["y"], ["z"]]
    for own, scores in zip((100.0, -99.0), collected(records, np.zeros(1), 100), strict=True):
        np.testing.assert_allclose(scores[0], own)
        assert zero_mean(scores[1:].reshape(-1, 1)) < FAR, "twins of z at the recorded y"


@pytest.mark.parametrize("persons", [False, True])
def test_outcomes_that_have_no_coordinate_in_common_are_apart(persons):
    x, group = np.random.default_rng(0).normal(size=60), np.arange(60) % 3
    with pm.Model() as model:
        a, b, c = pm.Normal("a"), pm.Normal("b", shape=3), pm.Normal("c")
        s = pm.HalfNormal("s")
        pm.Normal("u", a * x, 1.0, observed=x)
        pm.Bernoulli("v", logit_p=b[group], observed=group % 2)
        pm.Poisson("w", pm.math.exp(c * x), observed=group)
        pm.Normal("z", b[group] + s * x, 1.0, observed=x)
    records = RecordModel(model, verify=False, privacy_unit=np.arange(60) // 2 if persons else None)
    whole, phi = records.twins, records.coordinates(np.zeros(6))
    assert whole.names == [["u"], ["v"], ["w"], ["z"]]
    parts = sorted(whole.apart, key=lambda part: part.names)
    assert [part.names for part in parts] == [[["u"]], [["v"], ["z"]], [["w"]]]
    seen = {k for part in parts for one in part.sums for _, places in one for k in places}
    assert seen == set(range(6)) and all(part.size == 6 and part.apart == [part] for part in parts)
    wanted = collected(records, phi)
    for part, numbers in zip(parts, ([0], [1, 3], [2]), strict=True):
        chunks = list(map(call, part(phi, 3, PrivacyRandom(debug_seed=1))))
        for term, k in zip(chunks[0].terms, numbers, strict=True):
            np.testing.assert_array_equal(scores_in_phi(term, 6)[0], wanted[k][0])
    assert [part.touched for part in parts] == ([1, 4, 1] if persons else [1, 3, 1])


def test_outcomes_with_rows_of_one_matrix_are_apart():
    """What an outcome reads is told number by number, and not by variables, where there are predictors."""
    x = np.random.default_rng(0).normal(size=(60, 3))
    with pm.Model() as model:
        b, s = pm.Normal("b", shape=(3, 3)), pm.HalfNormal("s", shape=2)
        pm.Normal("u", x @ b[0], s[0], observed=x[:, 0])
        pm.Bernoulli("v", logit_p=x @ b[1], observed=x[:, 1] > 0)
        pm.Normal("w", x @ b[2], s[1], observed=x[:, 2])
        pm.Normal("z", x @ b[2], s[1], observed=x[:, 0])
    twins = RecordModel(model, verify=False).twins
    assert [part.names for part in twins.apart] == [[["u"]], [["v"]], [["w"], ["z"]]]
    read = [sorted({k for one in part._scores for k in one.reads}) for part in twins.apart]
    assert read == [[0, 1, 2, 9], [3, 4, 5], [6, 7, 8, 10]]


def log_mean(records, points, y):
    """Logarithm of the mean likelihood of rows with these outcomes, at points: by hand, for `normal`."""
    x = np.stack([np.ones(len(y)), np.random.default_rng(0).uniform(-1, 1, len(y))], axis=1)
    scale = records.scale_of
    each = [-0.5 * ((y - x @ q[:2]) / scale(q[2])) ** 2 - np.log(scale(q[2])) for q in points]
    return np.logaddexp.reduce(each, axis=0)


def test_scores_around_are_derivatives_of_the_mean_likelihood():
    """Against differences of its logarithm, where all points move; and one point is as before."""
    _, values, records, phi = build("normal", 50)
    s = values["s"]
    # The scale is a coordinate by itself, or by its logarithm.
    records.scale_of = np.exp if np.isclose(phi[2], np.log(s)) else np.asarray
    points = phi + 0.3 * np.random.default_rng(5).normal(size=(4, 3)) * [1, 1, 0.3]
    twins = records.twins
    (chunk,) = map(call, twins(points, 2, PrivacyRandom(debug_seed=1)))
    (term,) = chunk.terms
    found = scores_in_phi(term._replace(group=term.own[None]), 3)[0]
    y, h = twins.outcomes._own()[0], 1e-6
    for k, step in enumerate(h * np.eye(3)):
        up, down = log_mean(records, points + step, y), log_mean(records, points - step, y)
        np.testing.assert_allclose(found[:, k], (up - down) / (2 * h), rtol=1e-5, atol=1e-6)
    (one,) = map(call, twins(phi[None], 2, PrivacyRandom(debug_seed=1)))
    (same,) = map(call, twins(phi, 2, PrivacyRandom(debug_seed=1)))
    np.testing.assert_array_equal(one.terms[0].group, same.terms[0].group)
    # A control: scores at the centre are others.
    assert (
        np.abs(found - scores_in_phi(same.terms[0]._replace(group=same.terms[0].own[None]), 3)[0]).max() > 0.1
    )


def test_twins_around_have_mean_zero_scores():
    """Drawn at all of the points, as many at each; those of the centre alone have not."""
    _, _, records, phi = build("normal", 4000)
    steps = 0.8 * np.random.default_rng(6).normal(size=(2, 3)) * [1, 1, 0]
    points = phi + np.concatenate([steps, -steps])
    twins = records.twins
    (scores,) = collected(records, points, 12)
    assert zero_mean(scores[1:].mean(axis=0)) < FAR
    drawn, _ = twins.outcomes._drawn(phi[None], 12, PrivacyRandom(debug_seed=1))
    twins.outcomes._drawn = lambda *args: (drawn, {name: np.ones(4000, dtype=bool) for name in drawn})
    (of_centre,) = collected(records, points, 12)
    assert zero_mean(of_centre[1:].mean(axis=0)) > FAR


def test_all_outcomes_around():
    """Probabilities are the mean over the points, and scores add up to zero with them."""
    _, _, records, phi = build("bernoulli")
    points = phi + np.random.default_rng(7).normal(size=(4, 2))
    (chunk,) = map(call, records.twins(points, 0, PrivacyRandom(debug_seed=1)))
    (term,) = chunk.terms
    x = np.stack([np.ones(200), np.random.default_rng(0).uniform(-1, 1, 200)], axis=1)
    p = (1 / (1 + np.exp(-x @ points.T))).mean(axis=1)
    np.testing.assert_allclose(term.weights, [1 - p, p])
    np.testing.assert_allclose(np.einsum("gm,gmk->mk", term.weights, term.group), 0, atol=1e-14)


def test_a_point_where_there_is_no_density_counts_nothing():
    _, _, records, phi = build("normal", 50)
    bad = np.array([np.nan, 0.0, 0.0])
    (chunk,) = map(call, records.twins(np.array([phi, phi + bad]), 0, PrivacyRandom(debug_seed=1)))
    (alone,) = map(call, records.twins(phi, 0, PrivacyRandom(debug_seed=1)))
    np.testing.assert_allclose(chunk.terms[0].own, alone.terms[0].own)
    (none,) = map(call, records.twins(np.array([phi + bad, phi + bad]), 0, PrivacyRandom(debug_seed=1)))
    assert np.isnan(none.terms[0].own).all()


@pytest.mark.parametrize("warned", ["ignore", "warn"])
def test_densities_that_are_none_at_some_points_stop_nothing(warned):
    """Whatever they are at each of several points, no warning tells of it; and others are as they were."""
    odd = [0.0, 1.0, -np.inf, np.inf, np.nan, -1e308, 1e308]
    values = np.array(list(product(odd, odd, odd, odd)))
    mean = ScoresAt(lambda copies: [given(0), given(1)], None, len(values), 2, np.float64)
    with warnings.catch_warnings(), np.errstate(all=warned):
        warnings.simplefilter("error")
        (score,), (density,) = mean([[values]], len(values))
        mean.all_outcomes(len(values))
    both = np.isfinite(values[:, 1]) & np.isfinite(values[:, 3])
    known = np.isfinite(values).all(axis=1)
    assert np.isfinite(score[known]).all() and np.isfinite(density[both]).all()
    none = np.isin(values[:, [1, 3]], [-np.inf, np.nan]).all(axis=1) | np.isnan(values[:, [1, 3]]).all(axis=1)
    assert np.isnan(score[none]).all()


def given(point):
    """Scores and log-densities at one of two points: the outcomes' own numbers."""

    def scores(outcome):
        own = (np.resize(outcome, (len(outcome), 4)) if outcome.ndim == 1 else outcome)[:, 2 * point :]
        return [own[:, :1], own[:, 1]]

    return scores


def below(mu, t, size):
    return t + pm.LogNormal.dist(mu, 0.5, size=size)


def test_a_record_that_cannot_be_has_the_score_of_the_nearest_twin():
    """Beyond a bound that moves; else its score would be zero, as a usual one's."""
    y = 0.2 + np.exp(0.5 * np.random.default_rng(0).normal(size=50))
    y[:5] = np.linspace(0.25, 0.6, 5)
    with pm.Model() as model:
        pm.CustomDist("y", pm.Normal("mu"), pm.HalfNormal("t"), dist=below, observed=y)
    records = RecordModel(model, verify=False)
    phi = np.array([0.0, 0.7])  # whoever is below .7 cannot be
    twins = records.twins
    (chunk,) = map(call, twins(phi, 4, PrivacyRandom(debug_seed=1)))
    (term,) = chunk.terms
    drawn = twins.outcomes._drawn(phi[None], 4, PrivacyRandom(debug_seed=1))[0]["y"]
    nearest = 1 + np.argmin(np.abs(np.asarray(drawn) - y), axis=0)
    off = y < 0.7
    assert 5 <= off.sum() < 40
    np.testing.assert_array_equal(term.own[off], term.group[nearest, np.arange(50)][off])
    np.testing.assert_array_equal(term.own, term.group[0])
    assert (term.own[off, 1] != 0).all() and not np.isin(term.own[~off, 1], term.group[1:, ~off, 1]).any()
    # What no parameters allow is no reason to move them: a lognormal outcome of zero.
    with pm.Model() as model:
        pm.LogNormal("y", pm.Normal("mu"), 1, observed=np.where(np.arange(50) < 5, 0.0, y))
    (chunk,) = map(call, RecordModel(model, verify=False).twins(phi[:1], 4, PrivacyRandom(debug_seed=1)))
    (term,) = chunk.terms
    assert not np.isin(term.own[:5], term.group[1:, :5]).any()
    # No outcome is nearest to one that is missing.
    group, missing = np.arange(6.0).reshape(3, 2, 1), np.array([np.nan, 0.0])
    pull_back(group, np.full(2, -np.inf), [[missing], [np.array([5, 7])], [np.array([-4, 6])]])
    np.testing.assert_array_equal(group[0, :, 0], [0.0, 5.0])


def test_an_outcome_comes_before_those_whose_densities_read_it():
    """In whatever order they were defined, as far as the graph shows; a copy of its values it does not."""
    x = np.random.default_rng(0).normal(size=60)
    with pm.Model() as model:
        later, b, s = pm.Data("later", x**2), pm.Normal("b", shape=2), pm.HalfNormal("s")
        pm.Normal("second", b[0] * later, s, observed=x)
        pm.Normal("first", b[1] * x, s, observed=later)
    assert RecordModel(model, verify=False).twins.names == [["first"], ["second"]]
