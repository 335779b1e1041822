"""V_corr: the shipped parameters have the stated error, no others would do much better, draws follow them."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.ratios import barker_correction as correction
from tests import barker_law

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "fit_barker_correction.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("fit_barker_correction", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def largest_difference(cdf):
    """Upper bound of sup |cdf - logistic| over the reals, for a CDF that is symmetric about 0.

    Between points of a grid of spacing h the error exceeds its ends by at most h^2 / 8 times its largest
    second derivative: phi(1) / 2 for a mixture of normals of variance 2, below .1 for the logistic. Beyond
    the grid both CDFs are above their values there.
    """
    h = 1e-3
    x = np.arange(0.0, 60.0, h)
    return max(np.max(np.abs(cdf(x) - expit(x))) + h**2 / 8 * 0.23, 1 - min(cdf(x[-1]), expit(x[-1])))


def test_largest_error_is_as_stated():
    assert 0.999 * correction.LARGEST_ERROR < largest_difference(barker_law.cdf) <= correction.LARGEST_ERROR


def test_symmetric():
    x = np.linspace(0, 15, 100)
    np.testing.assert_allclose(barker_law.cdf(-x), 1 - barker_law.cdf(x), atol=1e-15)
    assert sum(correction.WEIGHTS) == pytest.approx(1.0, abs=1e-15)


def test_without_the_correction_or_with_another_the_error_is_larger():
    """Control."""
    normal = stats.norm(0, np.sqrt(2)).cdf
    assert largest_difference(normal) > 50 * correction.LARGEST_ERROR
    moment_matched = stats.norm(0, np.pi / np.sqrt(3)).cdf
    assert largest_difference(moment_matched) > 30 * correction.LARGEST_ERROR


def test_no_distribution_has_a_much_smaller_error(script):
    """In particular none below 1e-4; the certificate holds for every V."""
    bound = script.lower_bound(np.array(correction.POINTS), np.array(correction.WEIGHTS), 2.0)
    assert 0.999 * correction.LARGEST_ERROR < bound < correction.LARGEST_ERROR


@pytest.mark.slow
def test_the_script_finds_the_shipped_parameters(script):
    points, weights = script.fit()
    assert tuple(points) == correction.POINTS
    assert tuple(weights) == correction.WEIGHTS


def test_draws_follow_the_weights():
    """Chi-square, false-alarm rate 1e-6; without the outermost pair it fails."""
    random = PrivacyRandom(debug_seed=3)
    draws = np.array([correction.draw(random) for _ in range(100_000)])
    values = np.array([0.0, *correction.POINTS[1:], *(-p for p in correction.POINTS[1:])])
    mass = np.array([correction.WEIGHTS[0], *(w / 2 for w in correction.WEIGHTS[1:] * 2)])
    counts = np.array([(draws == value).sum() for value in values])
    assert counts.sum() == draws.size
    assert stats.chisquare(counts, draws.size * mass).pvalue > 1e-6
    without = mass - np.array([0, 0, 1, 0, 1]) * 0.9 * mass
    assert stats.chisquare(counts, draws.size * without / without.sum()).pvalue < 1e-6
