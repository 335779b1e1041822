"""Sums by linear predictors: the same as by whole derivatives, and what one record may add to them."""

import functools

import numpy as np
import pymc as pm
import pytensor
import pytest

from pymc_dp.control_variates import clipped_rows
from pymc_dp.control_variates.clipped_rows import GRID, OUTER_GRID, ByDerivatives, ByPredictors, rows_at
from pymc_dp.control_variates.releases import Releases
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.structure import Structure
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records import curvature_rows
from pymc_dp.records.model import RecordModel
from tests.records.families import families

QUICK = ("logit", "hier", "negbin")
SLOW = ("bern_p", "columns", "poisson", "studentt", "gamma", "softmax", "mvn", "two_obs", "matrix_obs",
        "transposed", "beta_reg", "censored", "weibull")  # fmt: skip
NOT_FOUND = ("mixture", "multinomial")


def structures(p):
    """Whole, diagonal, blocks of two."""
    return [Structure(labels) for labels in (np.zeros(p), np.arange(p), np.arange(p) // 2)]


def joined(parts, function):
    return np.concatenate([function(part) for part in parts])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_as_by_whole_derivatives(name, monkeypatch):
    monkeypatch.setattr(curvature_rows, "_ROWS", 8)  # chunks have 64 rows at least: see below
    with pm.Model() as model:
        families(n=150)[name]()
    records = RecordModel(model)
    assert records.curvature is not None
    p, r = records.coordinates.size, np.random.default_rng(0)
    phi = records.coordinates(records._start) + 0.3 * r.normal(size=p)
    whole, centre = r.normal(size=(p, p)), r.normal(size=p)
    for structure in structures(p):
        compare(records, structure, phi, np.where(structure.mask, whole, 0.0), centre)


def compare(records, structure, phi, metric, centre):
    new = list(rows_at(records, phi, np.eye(structure.p), structure, True))
    assert all(isinstance(part, ByPredictors) for part in new) and len(new) > 1
    wanted = True if structure.full else (structure.rows, structure.columns)
    old = [ByDerivatives(part, structure) for part in records.derivatives(phi, wanted)]
    looks = [lambda part: part.whitened(metric, centre), lambda part: part.hessian_norms(metric)]
    if not structure.full:
        looks.append(lambda part: part.entries())
    for look in looks:
        found, expected = joined(new, look), joined(old, look)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())
        assert np.abs(expected).max() > 1e-3
    bound = float(np.median(joined(old, looks[1])))
    totals = [np.zeros(structure.rows.size, dtype=np.int64) for _ in range(2)]
    for total, parts in zip(totals, (new, old), strict=True):
        for part in parts:
            part.add_hessians(metric, bound, total)
    assert np.abs(totals[0] - totals[1]).max() <= 2 * records.n
    assert np.abs(totals[1]).max() > GRID
    for grid in (GRID, OUTER_GRID):
        integers = [np.concatenate([q.integers(metric, centre, 0.5, grid) for q in x]) for x in (new, old)]
        assert np.abs(integers[0] - integers[1]).max() <= 1


@pytest.mark.parametrize("name", NOT_FOUND)
def test_where_nothing_is_found(name):
    with pm.Model() as model:
        families()[name]()
    assert RecordModel(model).curvature is None


def test_an_op_without_second_derivatives():
    with pm.Model() as model:
        pm.VonMises("y", pm.Normal("m"), pm.HalfNormal("kappa"), observed=np.linspace(-1, 1, 30))
    records = RecordModel(model)
    assert records.predictors is None and records.form == "whole gradients and Hessians"


def test_rows_of_persons_are_added_as_before():
    with pm.Model() as model:
        families()["logit"]()
    assert RecordModel(model, privacy_unit=np.arange(40) // 2).curvature is None


# what one record may add

N, P = 70, 4
EXTREMES = [0.0, 1.0, -1e3, 1e60, -1e99, 1e150, -1e200, 1e300, 1e-300, 1e-160, np.nan, np.inf, -np.inf]


def one_predictor(x, group):
    beta = pm.Normal("beta", 0, 2, shape=P)
    pm.Bernoulli("y", logit_p=x @ beta, observed=np.arange(N) % 2)


def looked_up(x, group):
    level, beta = pm.Normal("level", shape=3), pm.Normal("beta", shape=P)
    pm.Poisson("y", pm.math.exp(level[group] + x @ beta), observed=np.arange(N) % 5)


def multiplied(x, group):
    """Numbers of the record times parameters: one predictor, as of a matrix product."""
    level, slope, beta = pm.Normal("level", shape=3), pm.Normal("slope"), pm.Normal("beta", shape=P)
    logit = level[group] + slope * x[:, 0] ** 2 / 3 + (beta * x).sum(axis=1)
    pm.Bernoulli("y", logit_p=logit, observed=np.arange(N) % 2)


def several(x, group):
    beta, sigma = pm.Normal("beta", shape=P), pm.HalfNormal("sigma")
    pm.Normal("y", x @ beta, sigma, observed=x[:, 0])


def with_a_kink(x, group):
    beta, scale = pm.Normal("beta", shape=P), pm.HalfNormal("scale")
    pm.Laplace("y", x @ beta, scale, observed=x[:, 0])


MODELS = [one_predictor, looked_up, several, with_a_kink]


@functools.cache
def of_model(build):
    """Model and records, whose covariates a test sets: the same functions for all of them."""
    with pm.Model() as model:
        build(pm.Data("x", np.random.default_rng(0).normal(size=(N, P))), pm.Data("group", np.arange(N) % 3))
    return model, RecordModel(model)


def total_of(records, structure, kind):
    p = structure.p
    metric = np.where(structure.mask, np.eye(p) * 0.2 + 0.05, 0.0)
    parts = rows_at(records, 0.1 * np.arange(p) - 0.2, np.eye(structure.p), structure, True)
    if kind == "gradient":
        integers = joined(parts, lambda part: part.integers(metric, np.full(p, 0.1), 0.02, GRID))
        return [int(v) for v in integers.sum(axis=0)]
    total = np.zeros(structure.rows.size, dtype=np.int64)
    for part in parts:
        part.add_hessians(metric, 1e-3, total)
    return [int(v) for v in total]


def added(build, kind, which):
    """Squared norms of what the last record adds, at extreme values of its covariates, in exact integers.

    A record that is not a number adds nothing: it is the control that others stay what they are.
    """
    x = np.random.default_rng(0).normal(size=(N, P))
    model, records = of_model(build)
    structure = structures(records.coordinates.size)[which]
    assert isinstance(
        next(iter(rows_at(records, np.zeros(structure.p), np.eye(structure.p), structure, True))),
        ByPredictors,
    )
    x[-1] = np.nan
    pm.set_data({"x": x}, model=model)
    others = total_of(records, structure, kind)
    squares = []
    for value in EXTREMES:
        for where in (slice(None), slice(0, 1), slice(1, 3)):
            x[-1] = 0.3
            x[-1, where] = value
            pm.set_data({"x": x}, model=model)
            total = total_of(records, structure, kind)
            squares.append(sum((a - b) ** 2 for a, b in zip(total, others, strict=True)))
    return squares


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("kind", ["gradient", "hessian"])
@pytest.mark.parametrize("build", [one_predictor, looked_up, multiplied, several])
def test_a_record_adds_a_vector_of_at_most_one_bound(build, kind, which):
    squares = added(build, kind, which)
    assert max(squares) <= GRID**2
    assert max(squares) >= (0.9 * GRID) ** 2  # the test looks where it matters


@pytest.mark.parametrize("kind", ["gradient", "hessian"])
def test_a_longer_vector_would_be_noticed(kind, monkeypatch):
    """Control."""
    monkeypatch.setattr(clipped_rows, "_ROOM", 1.0 + 2.0**-20)
    assert max(added(one_predictor, kind, 0)) > GRID**2


@pytest.mark.parametrize("bound", [0.0, 1e-310, 1e-210, 1e-90, 1e90, 1e250])
@pytest.mark.parametrize("build", [one_predictor, several])
def test_bounds_at_the_edge_of_what_is_a_number(build, bound):
    x = np.random.default_rng(0).normal(size=(N, P))
    x[::3] *= 1e60
    model, records = of_model(build)
    pm.set_data({"x": x}, model=model)
    structure = structures(records.coordinates.size)[0]
    total, rows = np.zeros(structure.rows.size, dtype=np.int64), []
    for part in rows_at(records, np.zeros(structure.p), np.eye(structure.p), structure, True):
        part.add_hessians(np.eye(structure.p), bound, total)
        rows.append(part.integers(np.eye(structure.p), np.zeros(structure.p), bound, GRID))
    assert sum(int(v) ** 2 for v in total) <= (N * GRID) ** 2
    assert max(sum(int(v) ** 2 for v in row) for row in np.concatenate(rows)) <= GRID**2


def test_neighbours_in_memory_are_no_neighbours_in_the_sum():
    """What a record adds does not depend on the records next to it."""
    x, kept = np.random.default_rng(0).normal(size=(N, P)), []
    model, records = of_model(one_predictor)
    structure = structures(P)[0]
    for others in (1.0, 1e-3, 1e170, np.nan):
        x[1:] = others
        pm.set_data({"x": x}, model=model)
        (part,) = [q for q in rows_at(records, np.zeros(P), np.eye(P), structure, True) if q.units.start == 0]
        first = part.whitened(0.3 * np.eye(P) + 0.01, np.full(P, 0.1))[0]
        kept.append((first.tobytes(), part.hessian_norms(0.3 * np.eye(P) + 0.01)[0]))
    assert len(set(kept)) == 1


def test_what_is_added_up_is_one_predictor():
    x, group, y = np.ones((N, P)), np.arange(N) % 3, np.arange(N) % 2
    with pm.Model() as model:
        level, beta = pm.Normal("level", shape=3), pm.Normal("beta", shape=P)
        pm.Bernoulli("y", logit_p=level[group] + x @ beta, observed=y)
    found = RecordModel(model).predictors
    assert found.size == 1 and found.describe() == "one linear predictor, of a matrix product, a look-up"
    with pm.Model() as model:  # control: the same parts, not added
        level, beta = pm.Normal("level", shape=3), pm.Normal("beta", shape=P)
        pm.Bernoulli("y", logit_p=level[group] * (x @ beta), observed=y)
    assert RecordModel(model).predictors.size == 2


def test_numbers_times_parameters_are_a_product(monkeypatch):
    monkeypatch.setattr(curvature_rows, "_ROWS", 8)
    _, records = of_model.__wrapped__(multiplied)  # other chunks, and data that no other test has changed
    assert records.predictors.size == 1
    assert [(q.kind, q.columns.shape) for q in records.predictors.pieces] == [
        ("product", (P, 1)), ("product", (1, 1)), ("lookup", (3,))
    ]  # fmt: skip
    p, r = records.coordinates.size, np.random.default_rng(0)
    compare(records, structures(p)[0], r.normal(size=p), r.normal(size=(p, p)), r.normal(size=p))


@pytest.mark.parametrize(
    "mean",
    [
        lambda a, b, x: a * x * pm.math.exp(b * x),  # not linear
        lambda a, b, x: a * x + pm.math.exp(b * x),  # not added to each other
        lambda a, b, x: a * x + b / (1 + a**2 * x**2),  # met twice
    ],
)
def test_what_is_no_product(mean):
    x = np.random.default_rng(0).normal(size=40)
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=mean(pm.Normal("a"), pm.Normal("b"), x), observed=np.arange(40) % 2)
    records = RecordModel(model)
    assert records.predictors.size == 2
    compare_values(records)


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
    records = RecordModel(model)
    assert [q.kind for q in records.predictors.pieces] == [
        "product",
        "values",
    ] or records.predictors.size == 1
    (part,) = rows_at(records, np.zeros(2), np.eye(2), structures(2)[0], True)
    (old,) = records.derivatives(np.zeros(2), True)
    expected = ByDerivatives(old, structures(2)[0]).whitened(np.eye(2), np.zeros(2))
    np.testing.assert_allclose(part.whitened(np.eye(2), np.zeros(2)), expected, rtol=1e-9)
    assert np.abs(expected).max() > 1000


def test_one_parameter_times_several_numbers():
    """A length of one is no length: it goes with any."""
    x = np.random.default_rng(0).normal(size=(40, 3))
    with pm.Model() as model:
        mean = (pm.Normal("b", shape=1) * pm.Data("x", x)).sum(axis=1)
        pm.Bernoulli("y", logit_p=mean, observed=np.arange(40) % 2)
    records = RecordModel(model)
    (part,) = rows_at(records, np.zeros(1), np.eye(1), structures(1)[0], True)
    (old,) = records.derivatives(np.zeros(1), True)
    expected = ByDerivatives(old, structures(1)[0]).whitened(np.eye(1), np.zeros(1))
    np.testing.assert_allclose(part.whitened(np.eye(1), np.zeros(1)), expected, rtol=1e-9)


def compare_values(records):
    p, structure = records.coordinates.size, structures(records.coordinates.size)[0]
    phi, metric = np.array([0.3, -0.6]), np.array([[1.0, 0.2], [0.1, 0.7]])
    new, old = (
        [ByPredictors(q, structure) for q in records.curvature(phi, metric)],
        [ByDerivatives(q, structure) for q in records.derivatives(phi, True)],
    )
    for look in (lambda q: q.whitened(metric, np.zeros(p)), lambda q: q.hessian_norms(metric)):
        np.testing.assert_allclose(joined(new, look), joined(old, look), rtol=1e-9, atol=1e-12)


def test_what_is_found_does_not_depend_on_values():
    found = []
    for seed in (0, 1):
        with pm.Model() as model:
            families(seed=seed)["hier"]()
        found.append(RecordModel(model).predictors.summary())
    assert found[0] == found[1]


@pytest.mark.slow
def test_releases_by_predictors_are_those_by_derivatives():
    """Whole releases, without noise."""
    with pm.Model() as model:
        families()["negbin"]()
    records = RecordModel(model)
    p, made = records.coordinates.size, []
    for source in (records.curvature, None):
        records.__dict__["curvature"] = source
        releases = Releases(records, ControlVariates(), np.inf, PrivacyRandom(0))
        releases._left = [
            (k, 1.0) for k in ("gradient", "hessian", "fisher", "histogram", "histogram", "cut")
        ]
        phi, metric, centre = np.full(p, 0.1), 0.3 * np.eye(p), np.zeros(p)
        made.append([
            releases.gradient(phi, metric, centre, 0.5)[0],
            releases.hessian(phi, metric, 0.1)[0],
            releases.fisher(phi, metric, 0.5)[0],
            *[h.counts for h in releases.norms(phi, metric, centre, (3, 4))],
            releases.cut(phi, metric, centre, 0.2, 0.1)[0],
        ])  # fmt: skip
    for new, old in zip(*made, strict=True):
        np.testing.assert_allclose(new, old, atol=1e-3)
        assert np.abs(old).max() > 0.1
