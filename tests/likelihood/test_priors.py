"""What the prior of the likelihood coordinates is like, for the search."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor
import pytest
from pytensor.tensor.random.basic import NormalRV

from pymc_dp.likelihood.mixtures import UNKNOWN, Normal
from pymc_dp.likelihood.priors import approximate_prior
from pymc_dp.likelihood.public_model import Part, PublicModel, name_numbers
from pymc_dp.records.model import RecordModel


@pytest.mark.parametrize(
    ("location", "scale", "spreads"),
    [
        (lambda: pm.Flat("a"), lambda: pm.HalfFlat("s"), [100.0, 5.0]),
        (lambda: pm.Flat("a"), lambda: pm.LogNormal("s", 0, 0.3), [100.0, 0.3]),
        (lambda: pm.Normal("a", 1, 2), lambda: pm.HalfFlat("s"), [2.0, 5.0]),
    ],
)
def test_a_flat_prior_is_as_wide_as_its_kind_and_leaves_the_others(location, scale, spreads):
    """All of a model with one was N(0, 100^2), logarithms of scales too: they went to e^24."""
    with pm.Model() as model:
        pm.StudentT("y", 4, mu=location(), sigma=scale(), observed=np.linspace(-1, 1, 30))
    prior = approximate_prior(PublicModel(RecordModel(model, verify=False)), np.zeros(2))
    np.testing.assert_allclose(np.sqrt(np.diag(np.linalg.inv(prior.precision))), spreads, rtol=0.1)


@pytest.mark.parametrize(
    ("scale", "middle", "spread"),
    [
        (lambda: pm.Gamma("s", 0.001, 0.001), 0.7, 5.0),
        (lambda: pm.InverseGamma("s", 0.001, 0.001), 0.7, 5.0),  # one over zero raised
        (lambda: pm.Gamma("s", 0.5, 0.5), -0.8, 2.5),
    ],
)
def test_a_scale_of_which_nothing_is_known_is_spread_like_a_flat_one(scale, middle, spread):
    """In units of hundreds all data sets said nothing, or that the precision is e^-60."""
    with pm.Model() as model:
        pm.Normal("y", 0, tau=scale(), observed=np.linspace(-1, 1, 30))
    prior = approximate_prior(PublicModel(RecordModel(model, verify=False)), np.array([0.7]))
    np.testing.assert_allclose(1 / np.sqrt(prior.precision[0, 0]), spread, rtol=0.15)
    np.testing.assert_allclose(prior.mean, middle, atol=0.8)


def test_a_reference_level_of_zero_is_a_constant():
    """It had a standard deviation of 100, and with it every level of its look-up; nothing was found."""
    draws = np.column_stack([np.zeros(200), np.full(200, 3.0), np.random.default_rng(0).normal(size=200)])
    prior = Normal.like(draws, np.zeros(3))
    deviations = 1 / np.sqrt(np.diag(prior.precision))
    np.testing.assert_allclose(deviations, [1e-7, 3e-7, 1.0], rtol=0.2)
    np.testing.assert_array_equal(prior.mean[:2], [0.0, 3.0])


Y = np.random.default_rng(0).poisson(1.0, 30)


def test_of_what_cannot_be_drawn_only_its_own_coordinates_are_unknown():
    """Here an ICAR's with two rows, for which there is no stand-in."""
    rows = pm.ICAR.dist(W=np.array([[0, 1], [1, 0]]), shape=(2, 2))
    public = SimpleNamespace(
        model=lambda keep: keep([rows, pm.Normal.dist(0, 2)]),
        parts=[Part("level", (2, 2), "level"), Part("mean", (), "mean")],
    )
    found = approximate_prior(public, np.arange(5.0))
    np.testing.assert_allclose(
        np.sqrt(np.diag(np.linalg.inv(found.precision))), [*[UNKNOWN] * 4, 2], rtol=0.1
    )
    np.testing.assert_allclose(found.mean[:4], np.arange(4), atol=0.5)


class Drawn(NormalRV):
    """A law of the user's own."""

    @classmethod
    def rng_fn(cls, rng, mean, sigma, size):
        return pytest.fail("a function of the user's has drawn")


def of_a_law(mu, size):
    rng = pytensor.shared(np.random.default_rng(0))
    return Drawn()(mu, 1.0, size=size, rng=rng, return_next_rng=True)[1]


@pytest.mark.filterwarnings("ignore:Calling a RandomVariable:DeprecationWarning")  # PyMC, of dist=
@pytest.mark.parametrize(
    "prior",
    [
        lambda: pm.CustomDist("a", logp=lambda v: -(v**2), random=Drawn.rng_fn),
        lambda: pm.CustomDist(
            "a", 0.0, dist=lambda mu, size: Drawn()(mu, 1.0, size=size, return_next_rng=True)[1]
        ),
    ],
    ids=["random", "law"],
)
def test_what_draws_and_is_the_users_is_not_called(prior):
    """It may draw from the records, and what it draws would decide about released numbers.

    The prior of the other parameters is known nevertheless.
    """
    with pm.Model() as model:
        pm.Normal("y", prior(), pm.HalfNormal("s"), observed=np.linspace(-1, 1, 30))
    found = approximate_prior(PublicModel(RecordModel(model, verify=False)), np.array([1.0, 2.0]))
    spreads = np.sqrt(np.diag(np.linalg.inv(found.precision)))
    np.testing.assert_allclose(spreads, [UNKNOWN, 1.2], rtol=0.1)
    np.testing.assert_allclose(found.mean, [1.0, -0.4], atol=0.4)


@pytest.mark.parametrize("island", [False, True])
def test_an_icar_prior_has_the_spread_that_its_density_has(island):
    """PyMC cannot draw from it: the prior of all parameters counted as unknown, and little was found."""
    number, sigma = 6, 0.5
    adjacency = np.zeros((number, number), dtype=int)
    chain = np.arange(number - 1 - island)
    adjacency[chain, chain + 1] = adjacency[chain + 1, chain] = 1
    with pm.Model() as model:
        level = pm.ICAR("level", W=adjacency, sigma=sigma)
        mean = pm.Normal("mean", 0, 2)
        pm.Poisson("y", pm.math.exp(mean * np.linspace(-1, 1, 30) + level[np.arange(30) % 6]), observed=Y)
    records = RecordModel(model, verify=False, public=["level.array_1"])
    public = PublicModel(records)
    order = name_numbers(public.parts)
    found = approximate_prior(public, np.zeros(number + 1))
    levels = [order.index(f"level[{k}]") for k in range(number)]
    covariance = np.linalg.inv(found.precision)
    assert np.isclose(covariance[order.index("mean"), order.index("mean")], 4, rtol=0.2)
    laplacian = (np.diag(adjacency.sum(1)) - adjacency) / sigma**2
    sum_of_all = np.ones((number, number)) / (0.001 * number) ** 2  # PyMC's constraint
    vague = np.eye(number) / (100 * sigma) ** 2
    exact = np.linalg.inv(laplacian + sum_of_all + vague)
    np.testing.assert_allclose(np.diag(covariance[np.ix_(levels, levels)]), np.diag(exact), rtol=0.35)
    np.testing.assert_allclose(found.mean, 0, atol=6 * 1.25 * np.sqrt(np.diag(covariance).max() / 1000))
    deviations = np.sqrt(np.diag(exact))
    correlations = covariance[np.ix_(levels, levels)] / np.outer(deviations, deviations)
    np.testing.assert_allclose(correlations, exact / np.outer(deviations, deviations), atol=0.35)
