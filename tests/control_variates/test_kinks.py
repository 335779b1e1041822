"""Likelihoods whose second derivative is 0 almost everywhere: curvature is spread around the kink."""

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.control_variates import ControlVariates
from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.records import curvature_rows
from pymc_dp.records.model import RecordModel
from pymc_dp.records.residuals import Residuals

N = 20_000
X = np.column_stack([np.ones(N), np.random.default_rng(0).normal(size=N)])
Y = X @ [0.5, -1.0] + 1.5 * np.random.default_rng(1).laplace(size=N)


def laplace(mean, scale):
    pm.Laplace("y", mean, scale, observed=Y)


def quantile(mean, scale):
    pm.AsymmetricLaplace("y", kappa=1.5, mu=mean, b=1 / scale, observed=Y)


def hinge(mean, scale):
    def logp(value, margin):
        return -pm.math.maximum(0.0, 1.0 - value * margin)

    pm.CustomDist("y", mean / scale, logp=logp, observed=np.sign(Y))


def normal(mean, scale):
    pm.Normal("y", mean, scale, observed=Y)


def robust(mean, scale):
    pm.StudentT("y", nu=4, mu=mean, sigma=scale, observed=Y)


def model_of(likelihood):
    with pm.Model() as model:
        likelihood(X @ pm.Normal("beta", 0, 2, shape=2), pm.HalfNormal("scale", 3))
    return model


@pytest.mark.parametrize("likelihood", [laplace, quantile, hinge])
def test_kinks_are_found(likelihood):
    predictors = RecordModel(model_of(likelihood)).predictors
    (kink,) = predictors.kinks
    (piece,) = [piece for piece in predictors.pieces if piece.kind == "product"]
    assert piece.first == kink
    assert "with a kink" in predictors.describe()


@pytest.mark.parametrize("likelihood", [normal, robust])
def test_other_models_have_none(likelihood):
    predictors = RecordModel(model_of(likelihood)).predictors
    assert predictors.kinks == []
    assert "kink" not in predictors.describe()


@pytest.mark.slow
def test_curvature_is_spread_over_posterior_standard_deviations():
    """As by hand, record by record; more of them where the metric is wider, and each has less."""
    records = RecordModel(model_of(laplace))
    theta = np.array([0.4, -0.9, np.log(1.4)])
    phi = records.coordinates(theta)
    scale = np.exp(theta[2])
    log_scale = records.coordinates.identity
    assert log_scale  # phi is theta
    numbers = []
    for width in (0.01, 0.04):
        metric = np.diag([width, width, width])
        ((a,), k) = records.predictors.kinks, records.predictors.size
        place = a * k - a * (a - 1) // 2
        second = np.concatenate([part.second[:, place] for part in records.curvature(phi, metric)])
        reach = curvature_rows._BEND * width * np.linalg.norm(X, axis=1)
        left = Y - X @ theta[:2]
        np.testing.assert_allclose(second, (np.abs(left) < reach) / (-scale * reach), atol=1e-9)
        numbers.append(np.count_nonzero(second))
    assert 3 < numbers[1] / numbers[0] < 4.1


@pytest.mark.slow
def test_a_record_at_its_kink_leaves_nothing():
    """Of all records and of some; others leave the far side of their kink. Fails where all are compared."""
    records = RecordModel(model_of(laplace))
    theta, width = np.array([0.5, -1.0, np.log(1.5)]), 0.02
    known = Surrogate(
        theta, theta, width * np.eye(3), np.zeros(3), 1e9, 1e9, np.zeros(3), np.eye(3),
        -np.eye(3) / width**2, 0.0, tempering=1.0,
    )  # fmt: skip
    residuals = Residuals(records)
    residuals.expand(known.expansion(records))
    bent = np.abs(Y - X @ theta[:2]) < curvature_rows._BEND * width * np.linalg.norm(X, axis=1)
    for move, others in ((0.05, 0), (0.4, 100)):
        new = theta + np.array([move, 0.0, 0.0])
        left = residuals.full_batch.rows(new) - residuals.full_batch.rows(theta)
        assert np.all(left[bent] == 0) and bent.sum() > 100
        assert others <= np.count_nonzero(np.abs(left[~bent]) > 1e-9) <= 50 * others
        some = np.arange(0, N, 3)
        np.testing.assert_allclose(residuals.ratios(theta, new, some), left[some], atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_dp.sampling.NotPrivateWarning")
@pytest.mark.parametrize("spread", [True, False])
def test_the_posterior_has_its_width(spread, monkeypatch):
    """Fails (is refused) without secants. The same draws each time: no false alarm."""
    model = model_of(laplace)
    step = dp.DPPenaltyMH(
        epsilon=20.0, delta=1e-6, chains=1, control_variates=True, model=model, debug_seed=2
    )
    if not spread:
        monkeypatch.setattr(type(step.records.curvature), "_bend", lambda *_: None)
    run = {"draws": 400, "tune": 0, "cores": 1, "progressbar": False, "quiet": True, "random_seed": 1}
    if not spread:
        with pytest.raises(dp.PrivacyError):
            dp.sample(step, model=model, **run)
        return
    idata = dp.sample(step, model=model, **run)
    scale = np.abs(Y - X @ [0.5, -1.0]).mean()
    exact = scale * np.sqrt(np.diag(np.linalg.inv(X.T @ X)))
    draws = idata.posterior["beta"].to_numpy()[0]
    # 400 draws with an autocorrelation time of about three: 6% (one sd), and noise of the surrogate.
    np.testing.assert_allclose(draws.std(axis=0) / exact, 1.05, atol=0.2)
    assert np.all(np.abs(draws.mean(axis=0) - [0.5, -1.0]) < 6 * exact)


@pytest.mark.parametrize(
    ("settings", "others", "name"),
    [
        (ControlVariates(structure="diagonal"), {}, "structure="),
        (ControlVariates(third_derivative_bound=1.0), {}, "third_derivative_bound="),
        (True, {"privacy_unit": np.arange(N) // 2}, "privacy_unit="),
    ],
)
def test_what_does_not_go_with_a_kink(settings, others, name):
    with pytest.raises(ValueError, match=f"^{name}: not with .* a kink"):
        dp.DPPenaltyMH(
            epsilon=1.0, delta=1e-6, chains=1, control_variates=settings, model=model_of(laplace), **others
        )
