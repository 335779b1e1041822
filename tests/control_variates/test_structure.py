"""Hessians with fewer entries: what is released, what it is sensitive to, and that the chain subtracts it."""

import itertools

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.finder import Point as Place
from pymc_dp.control_variates.releases import GRID, Releases
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.structure import Structure, structure_of
from pymc_dp.control_variates.sums import Sums, combined
from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from pymc_dp.records.residuals import Residuals
from tests.conftest import NUMBA
from tests.control_variates.fixed import LogisticRecords, packed, some_records
from tests.control_variates.test_releases import extremes

ALPHA = 1e-6
LABELS = {"diagonal": [0, 1, 2], (("a", "b"),): [0, 0, 2], (("a", "c"),): [0, 1, 0]}
STRUCTURES = list(LABELS)
METRICS = {
    "diagonal": np.diag([0.5, 1.5, 2.0]),
    (("a", "b"),): np.array([[0.5, 0.2, 0.0], [0.2, 1.5, 0.0], [0.0, 0.0, 2.0]]),
    (("a", "c"),): np.array([[0.5, 0.0, 0.2], [0.0, 1.5, 0.0], [0.2, 0.0, 2.0]]),
}
CENTRE = np.array([0.3, -0.2, 0.5])


def mask_of(wanted):
    return np.equal.outer(LABELS[wanted], LABELS[wanted]).astype(float)


def made(wanted, kind, records, mu_squared=np.inf, seed=0, count=1, share=0.25, bound=1.3):
    releases = Releases(records, ControlVariates(structure=wanted), mu_squared, PrivacyRandom(seed))
    releases._left = [(kind, share)] * count
    metric, zero = METRICS[wanted], np.zeros(3)
    if kind == "histogram":
        releases._left = [(kind, share)] * 2 * count
        return [releases.norms(zero, metric, CENTRE, (4, 4))[1].counts for _ in range(count)]
    if kind == "hessian":
        return [releases.hessian(zero, metric, bound)[0] for _ in range(count)]
    return [releases.fisher(zero, metric, 0.7)[0] for _ in range(count)]


# what is released


@pytest.mark.parametrize("wanted", STRUCTURES)
def test_entries_are_those_of_the_clipped_matrices(wanted):
    records, metric = some_records(), METRICS[wanted]
    mask = mask_of(wanted)
    seen = mask * (metric @ records.hessians @ metric.T)
    norms = np.linalg.norm(seen, axis=(1, 2))
    assert 0.1 < np.mean(norms > 6) < 0.9
    expected = (seen * np.minimum(1, 6 / norms)[:, None, None]).sum(axis=0) / 6
    found = made(wanted, "hessian", records, bound=6.0)[0]
    np.testing.assert_allclose(found, expected, atol=records.n * 2.0**-23)
    v = records.gradients @ metric.T / 0.7
    v = v / np.maximum(1, np.linalg.norm(v, axis=1))[:, None]
    np.testing.assert_allclose(
        made(wanted, "fisher", records)[0], mask * (v.T @ v), atol=records.n * 2.0**-13
    )


@pytest.mark.parametrize("wanted", STRUCTURES)
@pytest.mark.parametrize("kind", ["hessian", "fisher", "histogram"])
def test_one_record_moves_them_by_the_sensitivity_at_most(kind, wanted):
    sensitivity = 2.0 if kind == "hessian" else np.sqrt(2.0)
    records, found = some_records(), []
    rows = list(extremes())
    with np.errstate(all="ignore"):
        rows += [(g, sign * np.outer(g, g), 0.0) for g, _, _ in extremes() for sign in (1, -1)]
    for gradient, hessian, row in rows:
        values = made(wanted, kind, records.replaced(gradient, hessian, row))[0]
        values = values if kind == "histogram" else packed(values)
        # Sums of integers; those off the diagonal went through a division by sqrt(2).
        found.append([round(float(x) * GRID) for x in values])
    most = max(
        sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x, y in itertools.combinations(found, 2)
    )
    assert most <= round(sensitivity**2) * GRID**2
    # The bound is reached, or nearly: no two of these gradients are orthogonal in every metric.
    assert most >= (0.7 if kind == "fisher" else 0.9) * round(sensitivity**2) * GRID**2


@pytest.mark.parametrize("wanted", STRUCTURES)
@pytest.mark.parametrize("kind", ["hessian", "fisher"])
def test_noise_is_in_these_entries_and_of_the_stated_scale(kind, wanted):
    records, count, mu_squared = some_records(), 400, 0.8
    exact = made(wanted, kind, records)[0]
    noisy = made(wanted, kind, records, mu_squared, seed=7, count=count)
    stated = (2.0 if kind == "hessian" else np.sqrt(2.0)) / np.sqrt(0.25 * mu_squared)
    structure = Structure(LABELS[wanted])
    noise = np.array(noisy) - exact
    assert not noise[:, ~structure.mask].any()
    values = structure.packed(noise[:, structure.rows, structure.columns]) / stated
    assert stats.kstest(values.ravel(), "norm").pvalue > ALPHA
    assert stats.kstest(1.5 * values.ravel(), "norm").pvalue < ALPHA  # control


@pytest.mark.parametrize("labels", [np.zeros(30), np.arange(30), np.arange(30) // 10])
def test_norm_of_the_noise(labels):
    structure, r = Structure(labels), np.random.default_rng(0)
    norms = [
        np.abs(np.linalg.eigvalsh(structure.unpacked(r.normal(size=structure.rows.size)))).max()
        for _ in range(50)
    ]
    assert 0.65 < np.mean(norms) / structure.noise_norm < 1.05


def test_two_gradients_are_averaged_with_the_noise_of_these_entries():
    """Simulated noise of the moved gradient against its covariance: the gain depends on it."""
    r = np.random.default_rng(1)
    structure = Structure([0, 0, 1])
    metric = np.array([[0.5, 0.1, 0], [0.1, 0.8, 0], [0, 0, 2.0]])
    inverse, delta = np.linalg.inv(metric), np.array([0.4, -0.3, 1.0])

    def sums(phi, gradient_std, hessian_noise):
        at = Place(7 * phi + 1, phi, metric, np.zeros(3))  # parameters are not the coordinates
        none, noise = np.zeros((3, 3)), gradient_std**2 * own_noise
        return Sums(at, np.zeros(3), noise, none, np.zeros(3), none, hessian_noise, 1.0, 1.0)

    own_noise = inverse @ inverse.T
    # Hardly any noise of the first gradient: what is left is that of the Hessians.
    found, _ = combined([sums(np.zeros(3), 1e-6, 0.3), sums(delta, 1.0, 0.3)], structure.mask)
    covariance = found.gradient_noise
    noises = [
        0.5 * (inverse @ structure.unpacked(0.3 * e) @ inverse.T) @ delta
        for e in r.normal(size=(40_000, structure.rows.size))
    ]
    other = 2 * np.cov(np.transpose(noises))
    expected = np.linalg.inv(np.linalg.inv(other) + np.linalg.inv(own_noise))
    np.testing.assert_allclose(covariance, expected, atol=0.03 * np.abs(expected).max())


# what the chain subtracts

POINT = np.array([0.4, -0.3, 0.2])
THETA, NEW = np.array([1.3, 0.9, -0.5]), np.array([-0.7, 0.2, 0.3])


def data(n=60):
    r = np.random.default_rng(3)
    x = r.uniform(-1, 1, size=(n, 3)) + 0.5
    return x, (r.random(n) < 0.5).astype(int)


def logistic(x, y):
    with pm.Model() as model:
        a, b, c = (pm.Normal(name, 0, 2) for name in "abc")
        pm.Bernoulli("y", logit_p=x.T[0].copy() * a + x.T[1].copy() * b + x.T[2].copy() * c, observed=y)
    return model


def surrogate(wanted, hessian_bound=0.25):
    mask = mask_of(wanted)
    return Surrogate(
        point=POINT, phi=POINT, metric=METRICS[wanted], centre=CENTRE, gradient_bound=0.8,
        hessian_bound=hessian_bound,
        gradient=np.array([1.0, -2.0, 0.5]), gradient_noise=0.3 * np.eye(3),
        hessian=-mask * (8 * np.eye(3) + 1.0), hessian_noise=0.1, tempering=0.7,
        blocks=np.array(LABELS[wanted]),
    )  # fmt: skip


def surrogates(x, y, theta, units, wanted, hessian_bound):
    """From the formulas of the logistic model."""
    mask, metric = mask_of(wanted), METRICS[wanted]
    p = 1 / (1 + np.exp(-x @ POINT))
    gradients, hessians = np.zeros((units.max() + 1, 3)), np.zeros((units.max() + 1, 3, 3))
    np.add.at(gradients, units, (y - p)[:, None] * x)
    np.add.at(hessians, units, -(p * (1 - p))[:, None, None] * x[:, :, None] * x[:, None, :])
    f = np.minimum(1, 0.8 / np.linalg.norm((gradients - CENTRE) @ metric.T, axis=1))
    k = np.minimum(1, hessian_bound / np.linalg.norm(mask * (metric @ hessians @ metric.T), axis=(1, 2)))
    assert 0.1 < np.mean(f < 1) < 0.95 and 0.1 < np.mean(k < 1) < 0.95
    delta = theta - POINT
    linear = (CENTRE + f[:, None] * (gradients - CENTRE)) @ delta
    return linear + 0.5 * k * np.einsum("i,nij,j", delta, mask * hessians, delta)


@pytest.mark.slow
@pytest.mark.parametrize("people", [False, True])
@pytest.mark.parametrize("wanted", STRUCTURES)
def test_residuals_and_surrogates_are_the_log_likelihood(wanted, people):
    x, y = data()
    units = np.arange(60) % 25 if people else np.arange(60)
    records = RecordModel(logistic(x, y), privacy_unit=units if people else None)
    bound = 0.8 if people else 0.25
    released = Surrogate.from_json(surrogate(wanted, bound).to_json())
    residuals = Residuals(records, released.structure)
    residuals.expand(released.expansion(records))
    left = {}
    for name, at in (("theta", THETA), ("new", NEW)):
        exact = np.bincount(units, y * (x @ at) - np.logaddexp(0, x @ at))
        left[name] = exact - surrogates(x, y, at, units, wanted, bound)
        np.testing.assert_allclose(residuals.full_batch.rows(at), left[name], rtol=0, atol=1e-12)
    drawn = np.array([3, 7, 7, 0, 24])
    ratios = residuals.ratios(THETA, NEW, drawn)
    np.testing.assert_allclose(ratios, (left["new"] - left["theta"])[drawn], rtol=0, atol=1e-12)
    residuals.forget()
    assert residuals._entries.get_value().size == 0


@pytest.mark.slow
def test_an_entry_that_is_not_finite_counts_as_none():
    """As in the released sum: the record keeps its surrogate's first order, or nothing."""
    x, y = data()
    x[5] = 1e200
    records = RecordModel(logistic(x, y))
    residuals = Residuals(records, surrogate("diagonal").structure)
    residuals.expand(surrogate("diagonal").expansion(records))
    rows = residuals.full_batch.rows(NEW)
    assert np.all(np.isfinite(np.delete(rows, 5)))
    assert residuals._factors[1].get_value()[5] == 0


@pytest.mark.parametrize("wanted", ["diagonal", (("c",), ("a",))])
def test_entries_of_a_model(wanted):
    records = RecordModel(logistic(*data()))
    structure = structure_of(wanted, records.coordinates)
    (whole,) = records.derivatives(POINT, hessians=True)
    (some,) = records.derivatives(POINT, hessians=(structure.rows, structure.columns))
    np.testing.assert_array_equal(some.hessian, whole.hessian[:, structure.rows, structure.columns])
    np.testing.assert_array_equal(some.gradient, whole.gradient)


# the search


class Dependent(LogisticRecords):
    """Parameters that the prior, too, makes dependent."""

    precision = 0.25 * np.eye(5) + 2.0

    def log_prior(self, theta):
        return -0.5 * float(theta @ self.precision @ theta)

    def log_prior_gradient(self, theta):
        return -self.precision @ theta


@pytest.mark.parametrize("wanted", ["diagonal", (("a", "c"), ("b", "e"))])
def test_the_centre_is_found(wanted):
    """And everything is zero between blocks; with little noise the mode, to a tenth of a posterior sd."""
    records = Dependent(n=4000, d=5)
    found = Finder(records, ControlVariates(structure=wanted), 1e4, PrivacyRandom(0), 1.0, 100.0)(np.zeros(5))
    mask = found.structure.mask
    np.testing.assert_array_equal(mask, structure_of(wanted, records.coordinates).mask)
    for matrix in (found.metric, found.hessian, found.gradient_noise, found.public()[1]):
        assert np.allclose(matrix[~mask], 0, atol=1e-9 * np.abs(matrix).max()) and not mask.all()
    mode = np.zeros(5)
    for _ in range(30):
        (part,) = records.derivatives(mode)
        precision = records.precision - part.hessian.sum(axis=0)
        mode = mode + np.linalg.solve(precision, part.gradient.sum(axis=0) - records.precision @ mode)
    (part,) = records.derivatives(found.point)
    exact = mask * part.hessian.sum(axis=0)
    np.testing.assert_allclose(found.hessian, exact, atol=0.1 * np.abs(exact).max())
    # Score of prior and surrogate at the mode, in posterior standard deviations.
    slope = found.gradient + part.hessian.sum(axis=0) @ (mode - found.point)
    slope = slope - records.precision @ mode
    assert np.linalg.norm(np.linalg.solve(np.linalg.cholesky(precision), slope)) < 0.1 * np.sqrt(5)


# the law of a chain


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_dp.sampling.NotPrivateWarning")
def test_the_chain_has_the_exact_law():
    """What is left out of the surrogate is in the test; two parameters that are strongly dependent."""
    r = np.random.default_rng(2)
    x = r.normal(size=(300, 1)) + 0.5 * r.normal(size=(300, 2))
    y = (r.random(300) < 1 / (1 + np.exp(-x @ [0.6, -0.4]))).astype(int)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2)
        pm.Bernoulli("y", logit_p=x[:, 0] * a + x[:, 1] * b, observed=y)
    step = dp.DPPenaltyMH(
        epsilon=np.inf, delta=1e-6, chains=1, clip_fraction=False, model=model, debug_seed=5,
        control_variates=ControlVariates(structure="diagonal"), compile_kwargs=NUMBA,
    )  # fmt: skip
    idata = dp.sample(
        step, draws=5_000, tune=0, random_seed=3, cores=1, model=model, progressbar=False, quiet=True,
        compute_convergence_checks=False,
    )  # fmt: skip
    one, two = np.linspace(-0.9, 2.1, 201), np.linspace(-1.9, 1.1, 201)  # six standard deviations each side
    t = one[:, None, None] * x[:, 0] + two[None, :, None] * x[:, 1]
    log = (y * t - np.logaddexp(0, t)).sum(axis=2) - (one[:, None] ** 2 + two**2) / 8
    density = np.exp(log - log.max())
    assert max(density[0].max(), density[-1].max(), density[:, 0].max(), density[:, -1].max()) < 1e-6
    sum_of = (one[:, None] + two).ravel()
    order = np.argsort(sum_of)
    cumulative = np.cumsum(density.ravel()[order]) / density.sum()
    draws = (idata.posterior["a"] + idata.posterior["b"]).to_numpy().ravel()[100::12]
    assert stats.kstest(draws, lambda s: np.interp(s, sum_of[order], cumulative)).pvalue > ALPHA
    # Control: as if the two were independent, which is what prior and surrogate say.
    a, b = (idata.posterior[name].to_numpy().ravel()[100::12] for name in "ab")
    apart = r.permutation(a) + b
    assert stats.kstest(apart, lambda s: np.interp(s, sum_of[order], cumulative)).pvalue < ALPHA


# settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"structure": "block"}, "structure must be"),
        ({"structure": ("a", "b")}, "structure must be"),
        ({"structure": ()}, "structure must be"),
        ({"structure": "diagonal", "third_derivative_bound": 1.0}, "whole Hessians"),
    ],
)
def test_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        ControlVariates(**settings)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [([("a", "x")], "no likelihood coordinates are called x.*a, b, c"), ([("a",), ("a",)], "rep")],
)
def test_unknown_names(blocks, message):
    with pytest.raises(ValueError, match=message):
        dp.DPPenaltyMH(
            epsilon=1.0,
            delta=1e-6,
            control_variates=ControlVariates(structure=blocks),
            model=logistic(*data()),
        )


@pytest.mark.slow
def test_names_of_likelihood_coordinates():
    """Free and deterministic variables, also where the likelihood sees fewer coordinates than parameters."""
    x, y = data()
    with pm.Model() as model:
        mean, tau = pm.Normal("mean", 0, 2), pm.HalfNormal("tau", 1)
        z, beta = pm.Normal("z", shape=4), pm.Normal("beta", 0, 2, shape=2)
        level = pm.Deterministic("level", mean + tau * z)
        pm.Bernoulli("y", logit_p=level[np.arange(60) % 4] + x[:, :2] @ beta, observed=y)
    coordinates = RecordModel(model).coordinates
    assert not coordinates.identity
    assert dict(coordinates.names) == {"beta": slice(0, 2), "level": slice(2, 6)}
    structure = structure_of([("beta",)], coordinates)
    assert sorted(block.size for block in structure.blocks) == [1, 1, 1, 1, 2]


@pytest.mark.slow
def test_a_copy_has_no_entries():
    step = dp.DPPenaltyMH(
        epsilon=1000.0, delta=1e-6, chains=1, control_variates=ControlVariates(structure="diagonal"),
        model=logistic(*data()),
    )  # fmt: skip
    step.residuals.target.expand(surrogate("diagonal").expansion(step.records))
    assert step.residuals.target._entries.get_value().any()
    copy = cloudpickle.loads(cloudpickle.dumps(step))
    assert copy.residuals.target._entries.get_value().size == 0


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"chain": True}, "chain must be a number"),
        ({"early_line": False}, "early_line must be a number"),
        ({"noise_aware": 1.0}, "noise_aware must be True or False"),
        ({"structure": None}, "structure must be"),
        ({"structure": 3}, "structure must be"),
        ({"least_shown": 1.5}, "least_shown"),
    ],
)
def test_settings_of_another_kind_are_refused(arguments, match):
    with pytest.raises(ValueError, match=match):
        ControlVariates(**arguments)


def test_shares_add_up_whatever_numbers_they_are():
    settings = ControlVariates(chain=np.float64(0.02), late=(np.float64(0.3), 0.7), early=(np.int8(1),))
    assert all(type(share) is float for _, share in settings.schedule())
    assert sum(share for _, share in settings.schedule()) <= 1 - settings.chain + 1e-15


@pytest.mark.parametrize(
    "name, value", [("chain", np.float16(0.02)), ("late", (np.float32(0.3), np.float32(0.7)))]
)
def test_shares_in_half_precision_are_refused(name, value):
    """The shares of a pair were rounded apart, by a thousandth."""
    with pytest.raises(ValueError, match="in double precision"):
        ControlVariates(**{name: value})
