"""Integrals over a person's effect beside sums over a fine grid, whatever its prior and its unit are."""

import numpy as np
import pytest
from scipy import stats

from pymc_dp.records import quadrature

M = 300
RNG = np.random.default_rng(0)

# Priors of an effect with scale b, as frozen distributions of SciPy; whether their density has a kink.
PRIORS = {
    "normal": (lambda b: stats.norm(0, b), False),
    "far": (lambda b: stats.norm(50 * b, b), False),
    "student": (lambda b: stats.t(3, 0, b), False),
    "cauchy": (lambda b: stats.cauchy(0, b), False),
    "skewed": (lambda b: stats.skewnorm(4, 0, b), False),
    "laplace": (lambda b: stats.laplace(0, b), True),
}


def joint_of(logpdf, unit):
    """Log-densities of one effect a person, and their slopes by differences."""

    @np.errstate(all="ignore")
    def joint(z):
        h = 1e-6 * unit
        u = z[:, 0]
        return logpdf(u), ((logpdf(u + h) - logpdf(u - h)) / (2 * h))[:, None]

    return joint


def mean_error(prior, b, kinked):
    """Means of M persons' effects, with one normal outcome each: errors in units of the outcome's noise."""
    law, noise = prior(b), b / 4
    y = law.rvs(M, random_state=1) + noise * RNG.normal(size=M)
    both = joint_of(lambda u: law.logpdf(u) - 0.5 * ((y - u) / noise) ** 2, b)
    places, logs = quadrature.nodes_at(both, quadrature.prior_scale(joint_of(law.logpdf, b), 1), M, kinked)
    densities = np.array([both(z)[0] for z in places]) + logs
    found = quadrature.average(densities, places)[:, 0]
    grid = y + noise * np.linspace(-8, 8, 4001)[:, None]
    weights = law.logpdf(grid) - 0.5 * ((y - grid) / noise) ** 2
    weights = np.exp(weights - weights.max(axis=0))
    return np.abs(found - (weights * grid).sum(axis=0) / weights.sum(axis=0)) / noise


@pytest.mark.parametrize("b", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("name", PRIORS)
def test_a_mean_is_that_of_a_fine_grid(name, b):
    assert mean_error(PRIORS[name][0], b, PRIORS[name][1]).max() < 0.01


def test_differences_over_little_are_noticed_at_a_kink():
    """Control: where the density is taken for one without kinks."""
    assert mean_error(PRIORS["laplace"][0], 1.0, False).max() > 0.05


def test_steps_that_stay_short_are_noticed(monkeypatch):
    """Control: with the steps that there were, some persons' effects are too far out to be found."""
    monkeypatch.setattr(quadrature, "_STEPS", 4)
    assert mean_error(PRIORS["cauchy"][0], 1.0, False).max() > 1.0


def test_a_prior_in_one_unit_alone_is_noticed(monkeypatch):
    """Control: dollars, for instance."""
    monkeypatch.setattr(quadrature, "_PASSES", 1)
    assert mean_error(PRIORS["normal"][0], 1e4, False).max() > 1.0


@pytest.mark.parametrize("b", [1e-3, 1.0, 1e4])
def test_two_effects_in_units_of_their_own(b):
    """The prior's scale is its root, up to a rotation: correlated, each in a unit of its own."""
    root = np.diag([b, 1.0]) @ np.array([[1.0, 0.0], [0.6, 0.8]])
    inverse = np.linalg.inv(root @ root.T)
    found = quadrature.prior_scale(lambda z: (-0.5 * np.sum((z @ inverse) * z, axis=1), -z @ inverse), 2)
    whitened = np.linalg.solve(root, found.spread)
    np.testing.assert_allclose(whitened @ whitened.T, np.eye(2), atol=0.15)
