"""Effects of persons whose rows are in parts, or with owners: the sums of one place, and what is refused."""

import warnings
from functools import cache

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.errors import ModelRefusedError, NotPrivateWarning
from pymc_dp.likelihood.comparisons import Bounds
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from tests.remote.parts import PERSONS, build_persons, persons, split_persons
from tests.remote.test_likelihoods import agree, numbers
from tests.remote.test_owners import here

__all__ = ["here"]  # a fixture

PHI, METRIC, BOUNDS = np.array([0.3, -0.2]), np.array([[0.5, 0.0], [0.1, 0.4]]), Bounds(1.0, 1.0)
QUESTION = PHI, METRIC, BOUNDS


def template():
    """Three rows that are nobody's."""
    return build_persons((np.zeros(3), np.array([0, 1, 2]), np.arange(3)))


def shards(k=3, parts=None, build=build_persons, unit="person"):
    return dp.Shards(build, parts or split_persons(persons(), k), privacy_unit=unit)


@cache
def in_one_place():
    return RecordsHere(
        RecordModel(build_persons(persons()), privacy_unit="person", integrate=True).twins, PrivacyRandom(1)
    )


@pytest.mark.parametrize("k", [1, 3])
def test_sums_of_parts_are_those_of_one_place(k):
    """Without twins: nothing is drawn."""
    records = shards(k).records(template(), likelihood=True)
    assert records.n == PERSONS and records.tables[0].effects == ["own"]
    assert set(records.released_variables) == {"beta", "tau"}
    source, one = records.source(PrivacyRandom(k)), in_one_place()
    for name in ("size", "touched", "rank"):
        assert getattr(source.units, name) == getattr(one.units, name)
    np.testing.assert_array_equal(source.scales(PHI, 0), one.scales(PHI, 0))
    ours, theirs = numbers(source.compare(*QUESTION, 0)), numbers(one.compare(*QUESTION, 0))
    # A row's last bit may be another at another place in memory, and an integer then by one.
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=4)
    assert np.abs(ours).min() > 1e3


@pytest.mark.slow
def test_twins_in_parts_are_those_of_one_place():
    source = shards(2).records(template(), likelihood=True).source(PrivacyRandom(1))
    agree(lambda: source.compare(*QUESTION, 3), lambda: in_one_place().compare(*QUESTION, 3))


@pytest.mark.slow
def test_a_release_of_parts():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        released = dp.release_likelihood(template(), epsilon=100, delta=1e-6, data=shards(2), debug_seed=1)
    assert released.facts["integrated"] == ["own"] and released.facts["unit"] == "person"
    assert released.facts["n"] == PERSONS and np.any(released.information)
    assert [part.name for part in released.coordinates] == ["beta", "log(tau ** 2 + 1)"]
    assert {rv.name for rv in released.model().free_RVs} == {"beta", "tau"}


def halves():
    """Rows of every person in both."""
    part = persons()
    return [tuple(array[k::2] for array in part) for k in (0, 1)]


def build_without(part):
    x, y, ids = part
    with pm.Model() as model:
        pm.Data("person", ids)
        beta, tau = pm.Normal("beta", 0, 1), pm.HalfNormal("tau", 1)
        pm.Poisson("y", pm.math.exp(beta * x + tau), observed=y)
    return model


def build_by_others(part):
    """Looked up by ids that are not the unit's."""
    x, y, ids = part
    with pm.Model() as model:
        pm.Data("person", ids)
        other, beta, tau = pm.Data("other", ids), pm.Normal("beta", 0, 1), pm.HalfNormal("tau", 1)
        own = pm.Normal("own", 0, tau, shape=PERSONS)
        pm.Poisson("y", pm.math.exp(beta * x + own[other]), observed=y)
    return model


REFUSED = {
    "a person in two parts": (lambda: shards(parts=halves()), "rows in more than one part"),
    "an effect here alone": (lambda: shards(build=build_without), "another form than|other functions of"),
    "another array of persons": (lambda: shards(build=build_by_others), "other free variables"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_before_it_is_paid(name, tmp_path):
    make, said = REFUSED[name]
    ledger = dp.Ledger(tmp_path / "ledger", epsilon=2, delta=1e-5, privacy_unit="person")
    with pytest.raises(ModelRefusedError, match=said):
        dp.release_likelihood(template(), epsilon=1, delta=1e-6, data=make(), ledger=ledger)
    assert not ledger.entries()


def test_steps_on_parts_refuse_effects():
    for step in (dp.DPNUTS, dp.DPPenaltyMH):
        own = {"lipschitz": 1.0, "chains": 1} if step is dp.DPPenaltyMH else {}
        with template(), pytest.raises(ModelRefusedError, match="own"):
            step(epsilon=1.0, delta=1e-6, data=shards(2), **own)


@pytest.mark.slow
def test_owners_integrate_their_persons_effects(here):
    owners = [
        dp.Owner(f"clinic {k}", build_persons, part, epsilon=2.0, delta=1e-6, privacy_unit="person")
        for k, part in enumerate(split_persons(persons(), 2))
    ]
    released = dp.release_likelihood(template(), owners=owners)
    assert released.facts["integrated"] == ["own"] and released.facts["n"] == PERSONS
    assert {rv.name for rv in released.model().free_RVs} == {"beta", "tau"}
    with pytest.raises(ValueError, match="all the same"):
        other = dp.Owner("other", build_persons, persons(), epsilon=2.0, delta=1e-6, privacy_unit="ids")
        dp.release_likelihood(template(), owners=[owners[0], other])


def build_rows(part):
    """Each row is a person, with an effect of its own."""
    (y,) = part
    with pm.Model() as model:
        mean, alpha = pm.Normal("mean", 0, 1), pm.LogNormal("alpha", 0, 0.5)
        own = pm.Gamma("own", alpha=alpha, beta=alpha, shape=len(y))
        pm.Poisson("y", pm.math.exp(mean) * own, observed=y)
    return model


def test_rows_that_are_persons_are_integrated_in_parts():
    """Where the model of the call has more than thirty rows, as an axis of persons has to have."""
    y = np.random.default_rng(1).negative_binomial(2, 0.5, size=90)
    data = dp.Shards(build_rows, [(y[:40],), (y[40:],)])
    source = data.records(build_rows((np.zeros(35, dtype=int),)), likelihood=True).source(PrivacyRandom(1))
    one = RecordsHere(RecordModel(build_rows((y,)), integrate=True).twins, PrivacyRandom(1))
    ours, theirs = numbers(source.compare(*QUESTION, 0)), numbers(one.compare(*QUESTION, 0))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=4)
    with pytest.raises(ModelRefusedError, match="own"):
        data.records(build_rows((np.zeros(3, dtype=int),)), likelihood=True)
