"""Linear predictors of records: which are found, and scores by them against whole gradients."""

from operator import call

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.tensor.blockwise import Blockwise

import pymc_dp as dp
from pymc_dp.errors import ModelRefusedError
from pymc_dp.likelihood.identified import unseen
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.derivatives import by_record, read_in_steps
from pymc_dp.records.model import RecordModel
from tests.records.derivatives import gradients_of, predictors_of
from tests.records.families import families

N, P = 70, 4
QUICK = ("logit",)
SLOW = ("hier", "bern_p", "columns", "poisson", "studentt", "gamma", "negbin", "censored", "weibull")
ORDERED = pm.distributions.transforms.ordered
X, GROUP, Y = np.random.default_rng(0).normal(size=(N, P)), np.arange(N) % 3, np.arange(N) % 2


def scores(records, phi):
    """By the likelihood coordinates, shape (n, p), as `Twins` gives them: numbers times rows."""
    found = np.zeros((records.n, phi.size))
    for chunk in map(call, records.twins(phi, 0, PrivacyRandom(debug_seed=0))):
        for term in chunk.terms:
            rows = np.broadcast_to(term.rows(np.eye(phi.size)), (*term.own.T.shape, phi.size))
            found[chunk.units] += np.einsum("mk,kmp->mp", term.own, rows)
    return found


def summary(predictors):
    """What can be compared with ``==``."""
    return [(q.kind, q.first, q.numbers, np.ravel(q.columns).tolist()) for q in predictors.pieces]


def compare(model):
    """Scores by predictors, and whole gradients."""
    records = RecordModel(model)
    phi = records.coordinates(records._start) + 0.3 * np.random.default_rng(0).normal(
        size=records.coordinates.size
    )
    expected = gradients_of(records, phi)
    np.testing.assert_allclose(scores(records, phi), expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())
    assert np.abs(expected).max() > 1e-3
    return records


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_as_by_whole_gradients(name):
    with pm.Model() as model:
        families(n=150)[name]()
    assert predictors_of(compare(model)) is not None


def test_cutpoints_that_are_functions_of_coordinates():
    """Derivatives by what they are functions of; and their shift is one of the groups the other way round."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, P))
    with pm.Model() as model:
        ordered = pm.distributions.transforms.ordered
        cuts = pm.Normal("cuts", 0, 2, shape=3, transform=ordered, initval=[-1, 0, 1])
        mean = pm.Normal("level", shape=5)[rng.integers(5, size=150)] + x @ pm.Normal("beta", shape=P)
        pm.OrderedLogistic("y", mean, cuts, observed=rng.integers(4, size=150))
    found = predictors_of(compare(model))
    assert found.size == 4
    kinds = {(q.kind, tuple(np.ravel(q.columns))): (q.first, q.sign) for q in found.pieces}
    (first, sign), (mean, other) = kinds["values", (0, 1, 2)], kinds["lookup", (3, 4, 5, 6, 7)]
    assert sorted([found.alike[first], found.alike[mean]]) == sorted([(0, 1), (0, -sign * other)])
    assert [found.alike[first + k] for k in (1, 2)] == [(first + k, 1) for k in (1, 2)]


def _ordered(mean, cuts=lambda raw: raw, **transform):
    raw = pm.Normal("cuts", shape=3, initval=[-1, 0, 1], **transform or {"transform": ORDERED})
    a, b = pm.Normal("a", shape=5), pm.Normal("b", shape=4)
    g, h = np.arange(150) % 5, np.arange(150) % 4
    pm.OrderedLogistic("y", mean(a[g], b[h]), cuts(raw), observed=np.arange(150) % 3)


def _sums_of_axes():
    a, b, c = pm.Normal("a", shape=5), pm.Normal("b", shape=4), pm.Normal("c", shape=3)
    one, other = a[np.arange(150) % 5][:, None] + c[:2], b[np.arange(150) % 4][:, None] + c
    pm.Normal("y", one.sum(axis=1) + other.sum(axis=1), 1.0, observed=np.zeros(150))


def _transposed():
    a, b = pm.Normal("a", shape=(5, 2, 3)), pm.Normal("b", shape=(4, 3, 2))
    mean = a[np.arange(150) % 5] + b[np.arange(150) % 4].transpose(0, 2, 1)
    pm.Normal("y", mean, 1.0, observed=np.random.default_rng(0).normal(size=(150, 2, 3)))


@pytest.mark.parametrize(
    ("make", "number"),
    [
        (lambda: _ordered(lambda a, b: a - b), 2),
        (lambda: _ordered(lambda a, b: b - a), 2),
        # Kinks on one side of zero; and far from it.
        (
            lambda: _ordered(lambda a, b: a - b, cuts=lambda v: pt.cumsum(pt.abs(v)), default_transform=None),
            1,
        ),
        (lambda: _ordered(lambda a, b: a - b, cuts=lambda v: pt.sort(pt.minimum(v, 500.0))), 1),
        (_sums_of_axes, None),
        (_transposed, None),
    ],
    ids=["difference", "other way", "absolute", "far", "sums of axes", "transposed"],
)
def test_no_record_sees_what_is_left_out(make, number):
    with pm.Model() as model:
        make()
    records = compare(model)
    size, rng = records.coordinates.size, np.random.default_rng(1)
    directions = unseen(records.twins.sums, size)
    assert number is None or directions.shape[1] == number
    slopes = gradients_of(records, rng.normal(size=size))
    np.testing.assert_allclose(slopes @ directions, 0.0, atol=1e-9 * np.abs(slopes).max())


@pytest.mark.parametrize("number", [24, 39, 47, 48])
def test_kinks_of_parameters_are_seen_whatever_numbers_are_tried(number):
    """With so many coordinates the first five that were tried had one sign."""
    with pm.Model() as model:
        cuts = pt.cumsum(pt.abs(pm.Normal("cuts", shape=2, initval=[-1, 1])))
        a, beta = pm.Normal("a", shape=5), pm.Normal("beta", shape=number - 7)
        mean = a[np.arange(60) % 5] + np.zeros((60, number - 7)) @ beta
        pm.OrderedLogistic("y", mean, cuts, observed=np.arange(60) % 3)
    found = predictors_of(RecordModel(model, verify=False))
    assert found.alike == [(k, 1) for k in range(found.size)]


def test_weights_that_are_functions_of_coordinates():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, P))
    with pm.Model() as model:
        parts = [pm.Poisson.dist(pm.math.exp(x @ pm.Normal("beta", shape=P))), pm.Poisson.dist(9.0)]
        pm.Mixture("y", pm.Dirichlet("w", np.ones(2)), parts, observed=rng.poisson(3, size=150))
    found = predictors_of(compare(model))
    assert {tuple(np.ravel(q.columns)) for q in found.pieces} == {(0, 1, 2, 3), (4,)}


@pytest.mark.parametrize("bound", [65, 2000, None])
def test_what_only_some_records_are_added_to_is_no_sum(bound):
    """Whether there is such a record is not known: with no bound they are added to all."""
    rng, year = np.random.default_rng(0), np.arange(60) + 1980
    with pm.Model() as model:
        ordered = pm.distributions.transforms.ordered
        cuts = pm.Normal("cuts", 0, 2, shape=2, transform=ordered, initval=[-1, 1])
        b = pm.Normal("b") + np.zeros(60)
        inside = b if bound is None else b * pt.lt(pm.Data("year", year), bound)
        pm.OrderedLogistic("y", inside, cuts, observed=rng.integers(3, size=60))
    found = predictors_of(RecordModel(model, verify=False))
    assert (len({first for first, _ in found.alike}) < found.size) == (bound is None)


@pytest.mark.parametrize("kind", ["factors", "largest", "occupancy", "year", "sum"])
def test_what_is_alike_for_some_records_or_parameters_is_no_sum(kind):
    """The last one is, and is added up in the graph."""
    g, h, year = np.arange(60) % 5, np.arange(60) % 3, np.arange(60) + 1980
    with pm.Model() as model:
        a, b = pm.Normal("a", shape=5), pm.Normal("b", shape=3)
        mean = {
            "factors": lambda: a[g] * b[h],
            "largest": lambda: a[g] + pt.maximum(b[h], -3.0),
            "occupancy": lambda: pm.math.invlogit(a[g]) * pm.math.invlogit(b[h]),
            "year": lambda: a[g] + pt.switch(pt.lt(pm.Data("year", year), 2008), b[h], 0.0),
            "sum": lambda: a[g] + b[h],
        }[kind]()
        pm.Normal("y", mean, 1.0, observed=np.zeros(60))
    found = predictors_of(RecordModel(model, verify=False))
    assert found.size == (1 if kind == "sum" else 2)
    assert found.alike == [(k, 1) for k in range(found.size)]


def test_what_is_added_up_is_one_predictor():
    with pm.Model() as model:
        level, beta = pm.Normal("level", shape=3), pm.Normal("beta", shape=P)
        pm.Bernoulli("y", logit_p=level[GROUP] + X @ beta, observed=Y)
    found = predictors_of(RecordModel(model))
    assert found.size == 1 and [piece.kind for piece in found.pieces] == ["product", "lookup"]
    with pm.Model() as model:  # control: the same parts, not added
        level, beta = pm.Normal("level", shape=3), pm.Normal("beta", shape=P)
        pm.Bernoulli("y", logit_p=level[GROUP] * (X @ beta), observed=Y)
    assert predictors_of(RecordModel(model)).size == 2


@pytest.mark.parametrize(
    "mean, number",
    [
        (lambda a, b, m, beta: a[GROUP] - b[Y], 1),
        (lambda a, b, m, beta: m - a[GROUP] - (b[Y] - X @ beta), 1),
        (lambda a, b, m, beta: -(X @ beta) + a[GROUP] - m, 2),
        (lambda a, b, m, beta: -(a[GROUP] - b[Y]) - X @ beta, 2),
        (lambda a, b, m, beta: a[GROUP] - a[Y], 1),
        (lambda a, b, m, beta: (a[GROUP] - b[Y]) ** 2 + b[Y], 2),  # not in one sum alone
        (lambda a, b, m, beta: a[GROUP] - m * b[Y], 1),
    ],
)
def test_differences_are_sums_with_signs(mean, number):
    with pm.Model() as model:
        a, b, m = pm.Normal("a", shape=3), pm.Normal("b", shape=2), pm.Normal("m")
        pm.Normal("y", mean(a, b, m, pm.Normal("beta", shape=P)), 1.3, observed=X[:, 0])
    assert predictors_of(compare(model)).size == number


@pytest.mark.parametrize("zeros", [1, 2])
def test_a_reference_level_of_zero_is_a_place_of_no_coordinate(zeros):
    """Levels behind constants are looked up as others; records of a constant touch none of them."""
    with pm.Model() as model:
        level, beta = pm.Normal("level", shape=3 - zeros), pm.Normal("beta")
        table = pt.concatenate([np.zeros(zeros), level])
        pm.Bernoulli("y", logit_p=table[GROUP] + beta, observed=Y)
    records = compare(model)
    pieces = {piece.kind: piece.columns.tolist() for piece in predictors_of(records).pieces}
    assert pieces["lookup"] == [-1] * zeros + list(range(3 - zeros))
    found = [rows.tolist() for rows in records.twins.lookups]
    assert found == ([[[0], [1]]] if zeros == 1 else [])


def test_numbers_on_other_axes_are_other_predictors():
    """One for each row of a record's outcomes, and one for each column: not added to the same numbers."""
    with pm.Model() as model:
        a, b = pm.Normal("a", shape=(3, 2)), pm.Normal("b", shape=(2, 2))
        outcomes = np.random.default_rng(1).normal(size=(N, 2, 2))
        pm.Normal("y", a[GROUP][:, :, None] + b[Y][:, None, :], 1.0, observed=outcomes)
    compare(model)


def test_a_constant_that_is_no_number_is_no_place():
    with pm.Model() as model:
        table = pt.concatenate([[np.inf], pm.Normal("a", shape=2)])
        pm.Normal("y", pm.math.sigmoid(table[GROUP]), 1.0, observed=X[:, 0])
    compare(model)


def test_numbers_times_parameters_are_a_product():
    with pm.Model() as model:
        level, slope, beta = pm.Normal("level", shape=3), pm.Normal("slope"), pm.Normal("beta", shape=P)
        logit = level[GROUP] + slope * X[:, 0] ** 2 / 3 + (beta * X).sum(axis=1)
        pm.Bernoulli("y", logit_p=logit, observed=Y)
    found = predictors_of(compare(model))
    assert found.size == 1
    assert [(q.kind, q.columns.shape) for q in found.pieces] == [
        ("product", (P, 1)), ("product", (1, 1)), ("lookup", (3,))
    ]  # fmt: skip


@pytest.mark.parametrize(
    "mean",
    [
        lambda a, b, x: a * x * pm.math.exp(b * x),  # not linear
        lambda a, b, x: a * x + pm.math.exp(b * x),  # not added to each other
        lambda a, b, x: a * x + b / (1 + a**2 * x**2),  # met twice
    ],
)
def test_what_is_no_product(mean):
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=mean(pm.Normal("a"), pm.Normal("b"), X[:, 0]), observed=Y)
    assert predictors_of(compare(model)).size == 2


@pytest.mark.parametrize(
    "numbers",
    [np.arange(40, 80, dtype=np.int8), np.arange(40, dtype=np.int32) + 10**5, np.full(40, 1e25, np.float32)],
    ids=lambda numbers: str(numbers.dtype),
)
def test_products_of_narrow_numbers_do_not_overflow(numbers):
    """Beside a parameter they are multiplied in its type."""
    data = pytensor.shared(numbers)
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=pm.Normal("b") * data * data + pm.Normal("a"), observed=np.arange(40) % 2)
    records, phi = RecordModel(model), np.zeros(2)
    expected = gradients_of(records, phi)
    np.testing.assert_allclose(scores(records, phi), expected, rtol=1e-9)
    assert np.abs(expected).max() > 500


def test_one_parameter_times_several_numbers():
    """A length of one is no length: it goes with any."""
    with pm.Model() as model:
        mean = (pm.Normal("b", shape=1) * pm.Data("x", X)).sum(axis=1)
        pm.Bernoulli("y", logit_p=mean, observed=Y)
    compare(model)


def test_what_is_found_does_not_depend_on_values():
    found = []
    for seed in (0, 1):
        with pm.Model() as model:
            families(seed=seed)["hier"]()
        found.append(summary(predictors_of(RecordModel(model))))
    assert found[0] == found[1]


def test_derivatives_by_record_are_no_loop_in_python():
    """Vectorized, `LogSumExp` and what goes with a gradient's shape were called record by record."""
    theta, y = pt.vector("theta", shape=(3,)), pt.matrix("y", shape=(None, 1))
    parts = pt.stack([-((y[:, 0] - theta[0]) ** 2), -((y[:, 0] - theta[1]) ** 2) + theta[2]], axis=1)
    rows = pt.logsumexp(parts, axis=1)
    found = by_record(rows, [theta], {y: 0})
    function = pytensor.function([theta, y], found)
    assert not any(isinstance(node.op, Blockwise) for node in function.maker.fgraph.apply_nodes)
    data, at = np.linspace(-2, 2, 5)[:, None], np.array([-1.0, 1.0, 0.3])
    first, second = -((data[:, 0] + 1) ** 2), -((data[:, 0] - 1) ** 2) + 0.3
    share = 1 / (1 + np.exp(second - first))
    expected = np.stack([2 * (data[:, 0] + 1) * share, 2 * (data[:, 0] - 1) * (1 - share), 1 - share], axis=1)
    np.testing.assert_allclose(function(at, data), expected, rtol=1e-10)


def drawn(like):
    """With a generator in its graph, which has no type of number."""
    return pt.random.normal(
        size=like.shape, rng=pytensor.shared(np.random.default_rng(1)), return_next_rng=True
    )[1]


@pytest.mark.parametrize(
    ("read", "steps"),
    [
        (lambda tau, t: pt.switch(tau >= t, 1.0, 2.0), True),
        (lambda tau, t: 1.0 * (t > pt.exp(tau)), True),
        (lambda tau, t: pt.floor(tau * t), True),
        (lambda tau, t: t[(tau > 0).astype("int64")] + t, True),
        (lambda tau, t: pt.switch(tau >= t, tau, 2.0), False),
        (lambda tau, t: pt.maximum(t - tau, 0.0), False),
        (lambda tau, t: (t > tau) * (t - tau), False),
        (lambda tau, t: t, False),
        (lambda tau, t: tau * t + drawn(t), False),
        (lambda tau, t: pt.real(pt.cast(tau * t, "complex128")), False),
    ],
)
def test_what_is_only_compared_has_no_slope(read, steps):
    tau, t = pt.scalar("tau"), pt.vector("t")
    assert read_in_steps([read(tau, t)], [tau]) == ({tau} if steps else set())


def test_a_change_point_in_a_comparison_is_refused_before_it_is_paid():
    """The rates on both sides were "usable", up to 31 standard deviations off."""
    t = np.arange(40.0)

    def model(step):
        with pm.Model() as model:
            tau, rates = pm.Uniform("tau", 0, 40), pm.Exponential("rates", 1, shape=2)
            pm.Poisson("y", rates[0] + (rates[1] - rates[0]) * step(t - tau), observed=np.ones(40, dtype=int))
        return model

    with pytest.raises(ModelRefusedError, match="depends on 'tau' through comparisons alone"):
        dp.release_likelihood(model(lambda apart: apart > 0), epsilon=1, delta=1e-6)
    assert dp.inspect(model(lambda apart: apart > 0)).no_release is not None
    assert dp.inspect(model(pm.math.sigmoid)).no_release is None
