"""DPPenaltyMH on sufficient statistics: families, sensitivity, noise, refusals."""

import math

import numpy as np
import pymc as pm
import pytest
from dp_accounting import dp_event
from scipy import stats

import pymc_dp as dp
from pymc_dp.kernels import metropolis as kernel
from pymc_dp.privacy.accounting.events import PenaltyDecisionDpEvent
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.ratios.on_statistics import OnStatistics, StatisticClip
from pymc_dp.records import statistics as statistics_module
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sufficient import SufficientStatistics

ARGS = {"epsilon": 2.0, "delta": 1e-6, "chains": 1, "sufficient_statistics": "auto"}
N = 50


def data(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.normal(0.5, 1.2, size=N)
    return y, rng.multivariate_normal([0, 1], [[1, 0.5], [0.5, 2]], size=N), rng.integers(0, 3, N)


def covariance():
    return pm.LKJCholeskyCov("c", n=2, eta=2, sd_dist=pm.HalfNormal.dist(shape=2))[0]


def shared():
    m = pm.Normal("m")
    pm.Normal("y", m, 1.5, observed=pm.Data("data", data()[0]))
    pm.Poisson("k", pm.math.exp(m), observed=data()[2])


Y, TWO, K = data()
FAMILIES = {
    "normal mean": (lambda: pm.Normal("y", pm.Normal("m"), 0.7, observed=Y), ["y"]),
    "normal variance": (lambda: pm.Normal("y", 1.0, pm.HalfNormal("s"), observed=Y), ["(y - mu)^2"]),
    "normal": (lambda: pm.Normal("y", pm.Normal("m"), pm.HalfNormal("s"), observed=Y), ["y", "y^2"]),
    "normal columns": (
        lambda: pm.Normal("y", pm.Normal("m", shape=2), pm.HalfNormal("s"), observed=TWO),
        ["y[0]", "y[1]", "y^2[0]", "y^2[1]"],
    ),
    "bernoulli": (lambda: pm.Bernoulli("y", logit_p=pm.Normal("x"), observed=K > 0), ["y"]),
    "bernoulli p": (lambda: pm.Bernoulli("y", p=pm.Beta("p", 1, 1), observed=K > 0), ["y"]),
    "binomial": (lambda: pm.Binomial("y", n=3, p=pm.Beta("p", 1, 1), observed=K), ["y"]),
    "poisson": (lambda: pm.Poisson("y", pm.Gamma("m", 1, 1), observed=K), ["y"]),
    "exponential": (lambda: pm.Exponential("y", pm.Gamma("r", 1, 1), observed=Y**2), ["y"]),
    "gamma": (
        lambda: pm.Gamma("y", alpha=pm.Gamma("a", 2, 1), beta=pm.Gamma("b", 2, 1), observed=Y**2),
        ["log y", "y"],
    ),
    "gamma rate": (lambda: pm.Gamma("y", alpha=2.0, beta=pm.Gamma("b", 2, 1), observed=Y**2), ["y"]),
    "beta": (
        lambda: pm.Beta("y", pm.Gamma("a", 2, 1), pm.Gamma("b", 2, 1), observed=1 / (1 + Y**2)),
        ["log y", "log(1 - y)"],
    ),
    "categorical": (
        lambda: pm.Categorical("y", p=pm.Dirichlet("w", np.ones(3)), observed=K),
        ["y == k[0]", "y == k[1]", "y == k[2]"],
    ),
    "mvnormal mean": (lambda: pm.MvNormal("y", pm.Normal("m", shape=2), np.eye(2), observed=TWO), 2),
    "mvnormal": (lambda: pm.MvNormal("y", pm.Normal("m", shape=2), chol=covariance(), observed=TWO), 5),
    "mvnormal cov": (lambda: pm.MvNormal("y", np.array([0.0, 1.0]), chol=covariance(), observed=TWO), 3),
    "two variables": (shared, ["y", "k"]),
}
QUICK = ("normal", "bernoulli", "two variables")


def model_of(build):
    with pm.Model() as model:
        build()
    return model


def comparison(model, bound, sensitivity=2.0, tempering=1.0, statistics="auto"):
    """Of two points, without noise."""
    records = RecordModel(model)
    clip = StatisticClip(statistics, bound)
    seen = SufficientStatistics(model, records, statistics, clip)
    ratios = OnStatistics(seen, clip, tempering, sensitivity, 0.0)

    def compare(theta, new):
        kept, _ = ratios.at(theta)
        return ratios(theta, new, kept, math.nan, PrivacyRandom())

    return records, ratios, compare


@pytest.mark.parametrize(
    "family", [f if f in QUICK else pytest.param(f, marks=pytest.mark.slow) for f in FAMILIES]
)
def test_recognised_families_give_the_models_log_ratios(family):
    build, names = FAMILIES[family]
    records, ratios, compare = comparison(model_of(build), 1e4, tempering=0.5)
    assert ratios.statistics.names == names or len(ratios.statistics.names) == names
    rng = np.random.default_rng(1)
    for _ in range(5):
        theta, new = rng.normal(scale=0.5, size=(2, records.d))
        found = compare(theta, new)
        exact = 0.5 * np.sum(records.full_batch.rows(new) - records.full_batch.rows(theta))
        # Each record is cut off by at most 2**-29 of its bound.
        assert found.value == pytest.approx(exact, rel=1e-9, abs=N * found.clip_bound * 2.0**-28)
        assert found.log_prior == pytest.approx(records.log_prior(new), rel=1e-12)
        assert found.clipped == 0


def replaceable(bound, sensitivity, tempering):
    """Normal model whose data can be exchanged, and the largest share of the sensitivity that was used."""
    with pm.Model() as model:
        y = pm.Data("data", Y)
        pm.Normal("y", pm.Normal("m"), pm.HalfNormal("s"), observed=y)
    _, ratios, compare = comparison(model, bound, sensitivity, tempering)

    def of(values):
        y.set_value(values)
        ratios._sum = None
        rng = np.random.default_rng(2)
        out = []
        for scale in (1e-6, 0.1, 2.0):
            for _ in range(4):
                theta = rng.normal(scale=0.5, size=2)
                out.append(compare(theta, theta + scale * rng.normal(size=2)))
        return np.array([(c.value, c.clip_bound) for c in out]).T

    return of


def neighbours(relation):
    if relation == "add_remove":
        yield np.delete(Y, 3)
    for value in (1e300, -1e300, np.nan, np.inf, -np.inf, 0.0, 2.0, -2.0, 1e-300):
        one = np.concatenate([Y, [value]]) if relation == "add_remove" else Y.copy()
        one[3 if relation == "substitute" else -1] = value
        yield one


@pytest.mark.slow
@pytest.mark.parametrize("bound", [1.5, [1.0, 0.8]])
@pytest.mark.parametrize(("relation", "sensitivity"), [("substitute", 2.0), ("add_remove", 1.0)])
def test_one_record_moves_the_ratio_by_at_most_the_sensitivity(relation, sensitivity, bound):
    """Between points near and far; and the bound is nearly attained."""
    of = replaceable(bound, sensitivity, tempering=0.3)
    before, bounds = of(Y)
    shares = [np.abs(of(other)[0] - before) / (0.3 * sensitivity * bounds) for other in neighbours(relation)]
    assert 0.5 < np.max(shares) <= 1


def test_without_clipping_it_would_be_moved_further(monkeypatch):
    """Control: statistics that are cut off to the grid of the bound, and not clipped to it."""
    of = replaceable([1.0, 0.8], 2.0, tempering=1.0)
    before, bounds = of(Y)
    monkeypatch.setattr(statistics_module.np, "clip", lambda x, low, high: x)
    changed = Y.copy()
    changed[3] = 1e3
    assert np.max(np.abs(of(changed)[0] - before) / (2 * bounds)) > 100


def started(model, tune=0, draws=100, **kwargs):
    with model:
        step = dp.DPPenaltyMH(**{**ARGS, "clip_bound": 3.0, **kwargs})
    step.setup_chain(np.random.default_rng(0), tune, draws)
    return step


def run(step, iterations):
    point, out = step.model.initial_point(0), []
    for _ in range(iterations):
        point, (stat,) = step.step(point)
        out.append(stat)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("sensitivity", [2.0, 1.0])
def test_noise_has_the_stated_law(sensitivity, monkeypatch):
    """Kolmogorov-Smirnov at a false-alarm rate of 1e-6; controls with the noise 10% off fail."""
    _, ratios, compare = comparison(model_of(FAMILIES["normal"][0]), 3.0, sensitivity, tempering=0.4)
    theta, new = np.array([0.3, -0.2]), np.array([0.1, 0.2])
    exact, natural = (
        compare(theta, new),
        {point: ratios.statistics.natural(np.array(point)) for point in (tuple(theta), tuple(new))},
    )
    monkeypatch.setattr(ratios.statistics, "natural", lambda point: natural[tuple(point)])
    here, there = natural.values()
    widest = 3.0 * np.linalg.norm(there.phi - here.phi)
    widest += 0.0 if sensitivity == 2 else abs(there.log_g - here.log_g)
    random = PrivacyRandom()
    ratios.noise_multiplier = 7.0
    found = [ratios(theta, new, here, math.nan, random) for _ in range(20_000)]
    assert exact.clip_bound == pytest.approx(widest, rel=1e-9)
    std = 0.4 * 7.0 * sensitivity * widest
    assert all(c.noise_std == found[0].noise_std == pytest.approx(std, rel=1e-9) for c in found)
    noise = (np.array([c.value for c in found]) - exact.value) / std
    assert stats.kstest(noise, "norm").pvalue > 1e-6
    for wrong in (0.9, 1.1):
        assert stats.kstest(noise / wrong, "norm").pvalue < 1e-6


@pytest.mark.slow
def test_the_test_corrects_for_the_noise_that_was_added(monkeypatch):
    step = started(model_of(FAMILIES["normal"][0]), draws=30, tempering=0.4)
    seen = []
    monkeypatch.setattr(kernel, "penalty", lambda ratio, v, e: seen.append(v) or False)
    for stat, variance in zip(run(step, 30), seen, strict=True):
        scale = step.plan.noise_multiplier * 2 * 0.4
        assert stat["noise_std"] == pytest.approx(scale * stat["clip_bound"], rel=1e-12)
        assert variance == pytest.approx(stat["noise_std"] ** 2, rel=1e-12)


@pytest.mark.slow
def test_records_are_read_once_and_copies_hold_nothing(monkeypatch):
    step = started(model_of(FAMILIES["normal"][0]), draws=200)
    reads = []
    total = step.statistics.total
    monkeypatch.setattr(step.statistics, "total", lambda: reads.append(1) or total())
    monkeypatch.setattr(step.records, "full_batch", None)
    monkeypatch.setattr(type(step.records), "ratios", None)
    run(step, 200)
    assert len(reads) == 1
    assert step._chain.ratio._sum is not None and step.__getstate__()["_chain"] is None
    event = PenaltyDecisionDpEvent(step.plan.noise_multiplier)
    assert step.plan.iteration[0].counts == {event: 1}
    assert step.plan.epsilon_at(1e-6) <= 2.0


def test_noisy_ratios_that_are_stored_are_charged_as_gaussians():
    step = started(model_of(FAMILIES["poisson"][0]), release="noisy_ratio", draws=20)
    assert step.plan.iteration[0].counts == {dp_event.GaussianDpEvent(step.plan.noise_multiplier): 1}
    assert np.isfinite(run(step, 20)[-1]["noisy_log_ratio"])


@pytest.mark.slow
def test_poison_only_changes_decisions():
    """A chain on data with NaN and infinite records runs like any other, and says nothing."""
    y = Y.copy()
    y[2:5] = np.inf, 1e300, -np.inf

    def build():
        pm.Normal("y", pm.Normal("m"), pm.HalfNormal("s"), observed=pm.Data("data", y))

    found = run(started(model_of(build), draws=50), 50)
    assert all(np.isfinite(s["noise_std"]) and np.isfinite(s["clip_bound"]) for s in found)


def test_a_point_without_a_density_is_never_accepted():
    """A natural parameter that overflows, whatever the noise."""
    compare = comparison(model_of(FAMILIES["normal"][0]), 1.0)[2]
    found = compare(np.zeros(2), np.array([0.0, -400.0]))  # sigma = e^-400
    assert found.value == -math.inf and found.noise_std == 0 and found.clip_bound == 0


@pytest.mark.slow
def test_chains_share_the_sum_and_the_report_names_the_mechanism(quiet):
    with model_of(FAMILIES["bernoulli"][0]):
        step = dp.DPPenaltyMH(**{**ARGS, "clip_bound": 1.0, "chains": 2})
        idata = dp.sample(step, draws=30, tune=10, cores=1, **quiet)
    report = str(dp.privacy_report(idata))
    assert "sufficient statistics" in report and "1 x distance moved by phi" in report
    assert idata.posterior["x"].shape == (2, 30)


class Regression:
    """Normal linear regression."""

    def statistic(self, rows):
        X, y = rows["X"], rows["y"]
        return np.column_stack([X * y[:, None], X**2, X[:, 0] * X[:, 1], y**2])

    def natural_parameter(self, point):
        b, precision = point["b"], point["s"] ** -2
        return precision * np.array([*b, *(-(b**2) / 2), -b[0] * b[1], -0.5])

    def log_g(self, point):
        return -np.log(point["s"])


def regression():
    with pm.Model() as model:
        X = pm.Data("X", TWO)
        pm.Normal("y", X @ pm.Normal("b", shape=2), pm.HalfNormal("s"), observed=Y)
    return model


def test_statistics_of_the_user_with_covariates():
    records, _, compare = comparison(regression(), 1e4, statistics=Regression())
    rng = np.random.default_rng(3)
    theta, new = rng.normal(scale=0.5, size=(2, 3))
    exact = np.sum(records.full_batch.rows(new) - records.full_batch.rows(theta))
    found = compare(theta, new)
    assert found.value == pytest.approx(exact, rel=1e-9, abs=N * found.clip_bound * 2.0**-28)
    assert found.log_prior == pytest.approx(records.log_prior(new), rel=1e-12)


class NoG(Regression):
    def log_g(self, point):
        return 0.0


class Coupled(Regression):
    def statistic(self, rows):
        s = super().statistic(rows)
        s[:, 5] += rows["y"].mean()
        return s


class Shifted(Regression):
    def statistic(self, rows):
        return np.roll(super().statistic(rows), 1, axis=0)


class Short(Regression):
    def statistic(self, rows):
        return super().statistic(rows)[:, :5]


class Flat(Regression):
    def statistic(self, rows):
        return super().statistic(rows)[:, 0]


class Matrix(Regression):
    def natural_parameter(self, point):
        return super().natural_parameter(point)[None]


@pytest.mark.parametrize(
    ("statistics", "error", "message"),
    [
        (NoG(), dp.errors.ModelRefusedError, "changes by another amount than the log-likelihood"),
        (Coupled(), dp.errors.ModelRefusedError, "depends on which other records"),
        (Shifted(), dp.errors.ModelRefusedError, "depends on which other records"),
        (Short(), dp.errors.ModelRefusedError, "S has shape"),
        (Flat(), ValueError, r"statistic must return shape \(b, k\)"),
        (Matrix(), ValueError, "natural_parameter must return a vector"),
        ("auto", dp.errors.ModelRefusedError, "differs from record to record"),
        ("automatic", ValueError, "is 'auto' or an object"),
        (object(), ValueError, r"an object with statistic\(...\)"),
    ],
)
def test_statistics_that_are_refused(statistics, error, message):
    with regression(), pytest.raises(error, match=message):
        dp.DPPenaltyMH(**{**ARGS, "sufficient_statistics": statistics, "clip_bound": 5.0})


def per_record_n():
    pm.Binomial("y", n=K + 2, p=pm.Beta("p", 1, 1), observed=K)


def student():
    pm.StudentT("y", nu=4, mu=pm.Normal("m"), sigma=1, observed=Y)


def several_categories():
    pm.Categorical("y", p=pm.Dirichlet("w", np.ones(3)), observed=np.column_stack([K, K]))


def truncated():
    pm.Truncated("y", pm.Normal.dist(pm.Normal("m"), 1.0), lower=-9.0, upper=9.0, observed=Y)


def nothing_free():
    pm.Normal("m")
    pm.Normal("y", 0.0, 1.0, observed=Y)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (per_record_n, "differs from record to record"),
        (student, "not recognised as an exponential family"),
        (several_categories, "several values a record"),
        (truncated, "not recognised"),
        (nothing_free, "No natural parameter"),
    ],
)
def test_models_that_are_not_recognised(build, message):
    with model_of(build), pytest.raises(dp.errors.ModelRefusedError, match=message):
        dp.DPPenaltyMH(**ARGS, clip_bound=5.0)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({}, "give clip_bound="),
        ({"clip_bound": 1.0, "lipschitz": 1.0}, "leave out lipschitz"),
        ({"clip_bound": 1.0, "batch_size": 10}, "leave out batch_size"),
        ({"clip_bound": 1.0, "privacy_unit": np.arange(N)}, "leave out privacy_unit"),
        ({"clip_bound": 0.0}, "clip_bound must be positive"),
        ({"clip_bound": np.nan}, "clip_bound must be positive"),
        ({"clip_bound": [1.0, 2.0, 3.0]}, "3 entries, the sufficient statistic 2: y, y\\^2"),
    ],
)
def test_bad_arguments(kwargs, message):
    with model_of(FAMILIES["normal"][0]), pytest.raises(ValueError, match=message):
        dp.DPPenaltyMH(**{**ARGS, **kwargs})
