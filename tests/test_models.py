"""Reference models: stated posteriors against the PyMC model's log density, draws against posteriors.

Log densities are compared exactly. Draws are tested with a false-alarm rate of 1e-6 or lower (seeds are
fixed), each with a control that must fail.
"""

import math

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from benchmarks import models
from pymc_dp import inspect

CURVED = {"a": 2.0, "b": 0.3, "m": 0.5}
COV = np.array([[1.0, 0.5, 0.0], [0.5, 2.0, 0.1], [0.0, 0.1, 0.3]])
Z_LIMIT = (
    5.5  # two-sided normal tail 4e-8: with fewer than 25 comparisons a test's false-alarm rate is below 1e-6
)


def log_posterior(reference, tempering=None):
    """Log prior + T log-likelihood, from the PyMC model alone."""
    model = reference.model
    (name,) = (variable.name for variable in model.free_RVs)
    compiled = [
        model.compile_fn(model.logp(vars=variables), mode="FAST_COMPILE")
        for variables in (model.free_RVs, model.observed_RVs)
    ]
    power = reference.tempering if tempering is None else tempering
    return lambda point: compiled[0]({name: point}) + power * compiled[1]({name: point})


def spread(log_density, reference, points):
    differences = np.array([log_density(point) for point in points]) - reference.log_density(points)
    return np.ptp(differences)


BUILDERS = {
    "banana": lambda **kwargs: models.banana(2, 30, **CURVED, **kwargs),
    "banana in five dimensions": lambda **kwargs: models.banana(
        5, 30, **CURVED, prior_variance=2.0, theta=np.arange(5) / 5, **kwargs
    ),
    "gaussian mean": lambda **kwargs: models.gaussian_mean(
        3, 30, cov=COV, prior_variance=2.0, theta=[1, 2, 3], **kwargs
    ),
}


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("tempering", [1.0, 0.1])
def test_posterior_is_that_of_the_model(name, tempering):
    reference = BUILDERS[name](tempering=tempering)
    points = reference.posterior_draws(15, np.random.default_rng(1)) * 1.5 + 0.2
    assert reference.exact
    assert spread(log_posterior(reference), reference, points) < 1e-9
    assert spread(log_posterior(reference, tempering / 2), reference, points) > 0.1  # control


@pytest.mark.slow
@pytest.mark.parametrize("normalized", [True, False])
def test_mixture_posterior_is_that_of_the_model(normalized):
    reference = models.truncated_mixture(400, temperature=4.0, normalized=normalized)
    points = reference.posterior_draws(15, np.random.default_rng(1))
    assert spread(log_posterior(reference), reference, points) < 1e-9
    assert spread(log_posterior(reference, 1 / 8), reference, points) > 0.1  # control


def test_records_are_the_rows():
    for reference, rows in [
        (BUILDERS["banana in five dimensions"](), (30, 5)),
        (BUILDERS["gaussian mean"](), (30, 3)),
    ]:
        (name,) = (variable.name for variable in reference.model.free_RVs)
        point = {name: reference.mean}
        function = reference.model.compile_fn(
            reference.model.logp(vars=reference.model.observed_RVs, sum=False), mode="FAST_COMPILE"
        )
        assert function(point)[0].shape[0] == rows[0]
        assert reference.data["x"].shape == rows


@pytest.mark.slow
def test_banana_prior_is_the_banana_distribution():
    # By hand: theta = (1.5, 2) with a = 2, b = .3, m = .5 straightens to (1.5, 2 + 2 + .3) = (1.5, 4.3).
    reference = models.banana(2, 5, **CURVED, prior_variance=9.0)
    log_prior = reference.model.compile_fn(
        reference.model.logp(vars=reference.model.free_RVs), mode="FAST_COMPILE"
    )
    expected = stats.norm(0, 3).logpdf([1.5, 4.3]).sum()
    assert log_prior({"theta": np.array([1.5, 2.0])}) == pytest.approx(expected, rel=1e-12)
    rv = reference.model["theta"]
    draws = pm.draw(rv, 4000, random_seed=3, mode="FAST_COMPILE")
    straight = draws.copy()
    straight[:, 1] += 2 * (straight[:, 0] - 0.5) ** 2 + 0.3
    for column in straight.T:
        assert stats.kstest(column, stats.norm(0, 3).cdf).pvalue > 1e-7
    assert stats.kstest(draws[:, 1], stats.norm(0, 3).cdf).pvalue < 1e-7  # control: not straightened
    np.testing.assert_allclose(reference.model.initial_point()["theta"], [0, -(2 * 0.25 + 0.3)])


def test_banana_at_the_size_of_the_thesis():
    # Theorem 5 written out for two coordinates: the precision n T / σ² + 1 / σ0².
    reference = models.banana(tempering=0.5)
    x = reference.data["x"]
    assert x.shape == (100_000, 2)
    precision = 0.5 * 1e5 / np.array([20, 2.5]) + 1e-3
    np.testing.assert_allclose(reference.posterior.variances, 1 / precision)
    np.testing.assert_allclose(
        reference.posterior.location, 0.5 * x.sum(axis=0) / np.array([20, 2.5]) / precision
    )
    assert np.abs((x.mean(axis=0) - [0, 0]) / np.sqrt(np.array([20, 2.5]) / 1e5)).max() < Z_LIMIT


def test_data_are_simulated_from_theta():
    theta = np.array([0.7, -0.4, 2.0])
    x = models.banana(3, 20_000, **CURVED, theta=theta, seed=4).data["x"]
    expected = np.array([0.7, -0.4 + 2 * 0.2**2 + 0.3, 2.0])
    sd = np.sqrt([20, 2.5, 1])
    assert np.abs((x.mean(axis=0) - expected) / (sd / math.sqrt(20_000))).max() < Z_LIMIT
    np.testing.assert_allclose(x.std(axis=0), sd, rtol=Z_LIMIT / math.sqrt(2 * 20_000))
    y = models.gaussian_mean(3, 20_000, cov=COV, theta=theta, seed=4).data["x"]
    assert np.abs((y.mean(axis=0) - theta) / np.sqrt(np.diag(COV) / 20_000)).max() < Z_LIMIT
    # Var of a sample covariance: (C_ii C_jj + C_ij²) / n.
    error = (np.cov(y.T) - COV) / np.sqrt((np.outer(np.diag(COV), np.diag(COV)) + COV**2) / 20_000)
    assert np.abs(error).max() < Z_LIMIT


def moments_agree(reference, draws):
    """Standardised errors of means and second moments stay below Z_LIMIT (sds taken from the draws)."""
    centred = draws - reference.mean
    products = centred[:, :, None] * centred[:, None, :] - reference.cov
    statistics = np.column_stack([centred, products.reshape(len(draws), -1)])
    z = statistics.mean(axis=0) / (statistics.std(axis=0) / math.sqrt(len(draws)))
    return np.abs(z).max() < Z_LIMIT


@pytest.mark.parametrize(
    "build",
    [
        BUILDERS["banana"],
        BUILDERS["banana in five dimensions"],
        BUILDERS["gaussian mean"],
        lambda: models.logistic(200, 3),
        lambda: models.truncated_mixture(2000, temperature=20.0),
    ],
)
def test_draws_have_the_stated_moments(build):
    reference = build()
    draws = reference.posterior_draws(40_000, np.random.default_rng(7))
    assert draws.shape == (40_000, len(reference.mean))
    assert moments_agree(reference, draws)
    assert not moments_agree(reference, draws + 0.06 * reference.sd)  # controls: a shift and a stretch of 6%
    assert not moments_agree(reference, reference.mean + 1.06 * (draws - reference.mean))
    np.testing.assert_allclose(reference.sd, np.sqrt(np.diag(reference.cov)))
    again = reference.posterior_draws(5, np.random.default_rng(7))
    assert again.shape == (5, len(reference.mean))


@pytest.mark.parametrize("name", BUILDERS)
def test_densities_are_normalized_and_match_the_draws(name):
    # E_p[q / p] = 1 for any normalized q. Here q is a normal with half the covariance (in straight
    # coordinates), so that the ratio is bounded.
    reference = BUILDERS[name]()
    straighten = getattr(reference.posterior, "straighten", lambda theta: theta)
    draws = reference.posterior_draws(40_000, np.random.default_rng(8))
    straight = straighten(draws)
    narrow = stats.multivariate_normal(straight.mean(axis=0), 0.5 * np.cov(straight.T))
    ratio = np.exp(narrow.logpdf(straight) - reference.log_density(draws))
    z = (ratio.mean() - 1) / (ratio.std() / math.sqrt(len(ratio)))
    assert abs(z) < Z_LIMIT
    assert (
        abs(ratio.mean() * 1.1 - 1) / (ratio.std() / math.sqrt(len(ratio))) > Z_LIMIT
    )  # control: constant off by 10%


@pytest.mark.slow
def test_mixture_cdf_of_the_draws():
    reference = models.truncated_mixture(2000, temperature=20.0)
    draws = reference.posterior_draws(20_000, np.random.default_rng(9))
    # Marginal of theta_2 by another route: the likelihood written out, on binned data.
    x, (low, high) = reference.data["x"], (-3, 3)
    counts, edges = np.histogram(x, bins=1000, range=(low, high))
    centres = (edges[1:] + edges[:-1]) / 2
    axis = np.linspace(-3, 3, 121)
    log_density = np.empty((121, 121))
    for i, first in enumerate(axis):
        second = first + axis
        density = stats.norm(first, math.sqrt(2)).pdf(centres) + stats.norm(
            second[:, None], math.sqrt(2)
        ).pdf(centres)
        mass = (
            np.diff(stats.norm(first, math.sqrt(2)).cdf([low, high]))
            + np.diff(stats.norm(second[:, None], math.sqrt(2)).cdf([low, high])).ravel()
        )
        log_density[i] = (np.log(density) @ counts - len(x) * np.log(mass)) / 20
    density = np.exp(log_density - log_density.max())
    marginal = density.sum(axis=0)
    cdf = np.cumsum((marginal[1:] + marginal[:-1]) / 2)
    cdf = np.append(0, cdf) / cdf[-1]
    assert stats.kstest(draws[:, 1], lambda t: np.interp(t, axis, cdf)).pvalue > 1e-7
    assert stats.kstest(draws[:, 1] * 1.06, lambda t: np.interp(t, axis, cdf)).pvalue < 1e-7  # control


def test_grid_posterior_of_a_known_density():
    normal = stats.multivariate_normal([0.3, -0.2], [[0.02, 0.01], [0.01, 0.03]])
    grid = models.GridPosterior(lambda theta: normal.logpdf(theta) + 5.0, 2.0)
    points = normal.rvs(10, random_state=1)
    np.testing.assert_allclose(grid.log_density(points), normal.logpdf(points), atol=1e-9)
    np.testing.assert_allclose(grid.mean, normal.mean, atol=1e-9)
    np.testing.assert_allclose(grid.cov, normal.cov, atol=1e-9)
    narrow = stats.multivariate_normal([0.3, -0.2], 1e-4)
    with pytest.raises(ValueError, match="too narrow"):
        models.GridPosterior(narrow.logpdf, 2.0)


@pytest.mark.slow
def test_mixture_modes():
    # Normalized density: modes near (0, 1) and (1, -1). The energy of appendix E.1: one mode, theta_2 = 0.
    two = models.truncated_mixture()
    points = np.array([[0.0, 1.0], [1.0, -1.0], [0.5, 0.0]])
    log_density = two.log_density(points)
    assert log_density[0] == pytest.approx(log_density[1], abs=0.05)
    assert log_density[0] > log_density[2] + 0.1
    one = models.truncated_mixture(normalized=False)
    log_density = one.log_density(np.array([[0.38, 0.0], [0.0, 1.0], [1.0, -1.0]]))
    assert log_density[0] > log_density[1:].max() + 0.1
    assert np.isneginf(two.log_density(np.array([3.1, 0.0])))
    assert np.abs(two.data["x"]).max() <= 3


@pytest.mark.slow
@pytest.mark.parametrize("normalized", [True, False])
def test_mixture_lipschitz_bound(normalized):
    # Central differences of the model's own log density over random and extreme points.
    bound = models.truncated_mixture(10, temperature=1.0, normalized=normalized).lipschitz
    x = np.linspace(-3, 3, 61)
    reference = models.truncated_mixture(data=x, temperature=1.0, normalized=normalized)
    rows = reference.model.compile_fn(
        reference.model.logp(vars=reference.model.observed_RVs, sum=False), mode="FAST_COMPILE"
    )
    rng = np.random.default_rng(0)
    points = rng.uniform(-3, 3, size=(300, 2))
    points[:150, 0] = np.sign(points[:150, 0]) * 3
    largest, h = 0.0, 1e-5
    for point in points:
        gradient = [
            (rows({"theta": point + h * e})[0] - rows({"theta": point - h * e})[0]) / (2 * h)
            for e in np.eye(2)
        ]
        largest = max(largest, np.hypot(*gradient).max())
    assert largest < bound
    assert largest > 0.6 * bound  # the bound is not idle, and the search reaches the steep region


def test_logistic_data_and_lipschitz():
    reference = models.logistic(500, 4, seed=3)
    x, y = reference.data["X"], reference.data["y"]
    assert reference.lipschitz == 1.0 and not reference.exact
    assert np.linalg.norm(x, axis=1).max() <= 1
    np.testing.assert_array_equal(x[:, 0], 0.7)
    assert reference.theta[0] == -1
    assert set(np.unique(y)) == {0, 1}
    rows = reference.model.compile_fn(
        reference.model.logp(vars=reference.model.observed_RVs, sum=False), mode="FAST_COMPILE"
    )
    rng = np.random.default_rng(0)
    for _ in range(50):
        one, two = rng.normal(scale=4, size=(2, 4))  # beyond, FAST_COMPILE leaves log(sigmoid) unstable
        change = np.abs(rows({"beta": one})[0] - rows({"beta": two})[0])
        assert change.max() <= np.linalg.norm(one - two) * (1 + 1e-12)


def test_laplace_is_the_mode_and_the_curvature():
    reference = models.logistic(300, 3, tempering=0.5)
    density = log_posterior(reference)
    h = 1e-3 * reference.sd
    mode, e = reference.mean, np.eye(3)
    gradient = [(density(mode + h * e[j]) - density(mode - h * e[j])) / (2 * h[j]) for j in range(3)]
    assert np.abs(gradient * reference.sd).max() < 1e-5
    hessian = np.array(
        [
            [
                sum(s * t * density(mode + h * (s * e[i] + t * e[j])) for s in (-1, 1) for t in (-1, 1))
                / (4 * h[i] * h[j])
                for j in range(3)
            ]
            for i in range(3)
        ]
    )
    np.testing.assert_allclose(-hessian @ reference.cov, np.eye(3), atol=2e-3)


def test_laplace_survives_separable_data():
    x = np.column_stack([np.full(50, 0.7), np.linspace(-0.7, 0.7, 50)])
    reference = models.logistic(data=(x, x[:, 1] > 0))
    assert np.isfinite(reference.mean).all() and reference.theta is None


def test_supplied_data_are_used():
    x = np.random.default_rng(0).normal(size=(17, 2))
    for reference in (models.banana(data=x), models.gaussian_mean(data=x)):
        np.testing.assert_array_equal(reference.data["x"], x)
        assert reference.theta is None
    same = models.banana(data=models.banana(n=17, seed=5).data["x"])
    np.testing.assert_array_equal(same.mean, models.banana(n=17, seed=5).mean)
    assert not np.array_equal(same.mean, models.banana(n=17, seed=6).mean)


NAN_ROWS = np.array([[0.0, np.nan]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: models.banana(1, 10), "d must be"),
        (lambda: models.banana(2, 0), "n at least"),
        (lambda: models.banana(2, 10, variances=[1.0]), "variances"),
        (lambda: models.banana(2, 10, variances=[1.0, 0.0]), "variances"),
        (lambda: models.banana(2, 10, prior_variance=np.inf), "prior_variance"),
        (lambda: models.banana(2, 10, a=np.nan), "a, b, m"),
        (lambda: models.banana(2, 10, tempering=0.0), "tempering"),
        (lambda: models.banana(2, 10, tempering=1.1), "tempering"),
        (lambda: models.banana(2, 10, tempering=np.nan), "tempering"),
        (lambda: models.banana(2, 10, theta=[0.0]), "theta"),
        (lambda: models.banana(data=NAN_ROWS), "data"),
        (lambda: models.banana(3, data=np.zeros((4, 2))), "data"),
        (lambda: models.gaussian_mean(0, 10), "d must be"),
        (lambda: models.gaussian_mean(2, 10, cov=np.ones((2, 2))), "positive definite"),
        (lambda: models.gaussian_mean(2, 10, cov=[[1, 0.5], [0, 1]]), "symmetric"),
        (lambda: models.gaussian_mean(2, 10, cov=[1.0, 1.0]), "cov"),
        (lambda: models.gaussian_mean(data=NAN_ROWS), "data"),
        (lambda: models.logistic(10, 1), "d must be"),
        (lambda: models.logistic(data=(np.full((3, 2), 0.9), [0, 1, 1])), "norm at most 1"),
        (lambda: models.logistic(data=(np.full((3, 2), 0.1), [0, 1, 2])), "labels"),
        (lambda: models.logistic(data=(np.full((3, 2), 0.1), [0, 1])), "labels"),
        (lambda: models.logistic(data=(NAN_ROWS, [0])), "finite"),
        (lambda: models.logistic(data=([0.1, 0.2], [0, 1])), "shape"),
        (lambda: models.truncated_mixture(0), "n at least"),
        (lambda: models.truncated_mixture(10, theta=(4, 0)), "theta"),
        (lambda: models.truncated_mixture(10, variance=-1), "variance"),
        (lambda: models.truncated_mixture(10, variance=1e-3), "variance is too small"),
        (lambda: models.truncated_mixture(10, truncation=0), "truncation"),
        (lambda: models.truncated_mixture(10, temperature=0.5), "temperature"),
        (lambda: models.truncated_mixture(10, temperature=np.nan), "temperature"),
        (lambda: models.truncated_mixture(data=[0.0, 3.1]), "data"),
        (lambda: models.truncated_mixture(data=[np.nan]), "data"),
        (lambda: models.truncated_mixture(50_000, temperature=1.0), "too narrow"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_constants_of_many_dimensions_are_named():
    """More than 30 entries, which a step asks for."""
    for reference in (models.banana(40, 50), models.gaussian_mean(9, 50)):
        assert not inspect(reference.model).accepted
        assert inspect(reference.model, public=reference.public).accepted
