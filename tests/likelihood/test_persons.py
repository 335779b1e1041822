"""Released likelihoods of models with an effect for each person, from one end to the other."""

from operator import call

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.likelihood.comparisons import Bounds
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from tests.records import persons


def simulated(n=400, rows=6, seed=1):
    """Counts of persons, whose effects are gamma; and what they were made with."""
    r = np.random.default_rng(seed)
    ids, x = np.repeat(np.arange(n), rows), r.normal(size=n * rows)
    y = r.poisson(np.exp(0.5 + 0.4 * x) * r.gamma(2.0, 0.5, size=n)[ids])
    with pm.Model() as model:
        person = pm.Data("person", ids)
        beta, alpha = pm.Normal("beta", 0, 1, shape=2), pm.LogNormal("alpha", 0.5, 0.5)
        rate = pm.Gamma("rate", alpha=alpha, beta=alpha, shape=n)
        pm.Poisson("y", pm.math.exp(beta[0] + beta[1] * x) * rate[person], observed=y)
    return model


@pytest.mark.slow
def test_a_release_with_noise_is_near_and_holds_nothing_of_persons(tmp_path):
    with pytest.warns(dp.errors.NotPrivateWarning):
        released = dp.release_likelihood(
            simulated(), epsilon=4, delta=1e-6, privacy_unit="person", debug_seed=1
        )
    assert released.facts["integrated"] == ["rate"] and released.facts["unit"] == "person"
    public = released.model()
    assert [rv.name for rv in public.free_RVs] == ["beta", "alpha"]
    covariance = np.linalg.inv(released.information)
    mean = released.point + covariance @ released.gradient
    assert released.labels[2] == "log(alpha ** -1 + 1)"
    truth = [0.5, 0.4, np.log(1 / 2 + 1)]
    assert np.all(np.abs(mean - truth) < 6 * np.sqrt(np.diag(covariance)))
    released.save(tmp_path / "file.json")
    assert dp.Likelihood.load(tmp_path / "file.json").facts == released.facts


@pytest.mark.exhaustive
def test_without_noise_it_is_the_posterior_of_all_effects():
    """NUTS on all parameters; 1,024 twins move a centre by .03 standard deviations, draws by .06."""
    model = simulated(n=100)
    with pytest.warns(dp.errors.NotPrivateWarning):
        released = dp.release_likelihood(
            model, epsilon=np.inf, delta=1e-6, privacy_unit="person", debug_seed=1, fit_test=False
        )
    quiet = {"random_seed": 1, "progressbar": False, "quiet": True}
    ours = pm.sample(500, tune=500, chains=2, cores=1, model=released.model(), **quiet).posterior
    exact = pm.sample(800, tune=600, chains=2, cores=1, model=model, **quiet).posterior
    for name in ("beta", "alpha"):
        a, b = np.log(ours[name]) if name == "alpha" else ours[name], exact[name]
        b = np.log(b) if name == "alpha" else b
        sd = b.std(("chain", "draw"))
        assert np.all(np.abs(a.mean(("chain", "draw")) - b.mean(("chain", "draw"))) < 0.25 * sd)
        assert np.all(np.abs(a.std(("chain", "draw")) / sd - 1) < 0.15)


def test_one_person_adds_no_more_than_its_bound():
    """Of any number of rows, with outcomes of any size."""
    ids = np.repeat(np.arange(40), [1] * 20 + [30] * 20)
    with pm.Model() as model:
        person, tau = pm.Data("person", ids), pm.HalfNormal("tau", 1)
        mean, own = pm.Normal("mean"), pm.Normal("own", 0, tau, shape=40)
        y = np.where(ids == 39, 1e12, np.where(ids == 38, np.inf, np.sin(np.arange(len(ids)))))
        pm.Normal("y", mean + own[person], 1, observed=y)
    records = RecordModel(model, privacy_unit="person", integrate=True)
    bounds = Bounds(1.5, 2.0)
    totals = RecordsHere(records.twins, PrivacyRandom(1)).compare(np.zeros(2), np.eye(2), bounds, 4)
    assert np.linalg.norm(totals.score) <= 39 * 2**20 and np.isfinite(totals.slope).all()
    own = next(iter(map(call, records.twins(np.zeros(2), 0, PrivacyRandom(1))))).terms[0].own
    assert np.abs(own[39]).max() > 1e6 and np.isnan(own[38]).all()  # what a clip, and a zero, are for


def test_cells_of_a_spread_are_of_persons():
    records = RecordModel(persons.counts(), integrate=True)
    spread = RecordsHere(records.twins, PrivacyRandom(1)).spread(np.zeros(3), np.eye(3))
    assert spread.sum() == records.n
