"""No fact of a likelihood is forgotten: draws have it, or a report, or it is listed here with a reason."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.likelihood.draws import facts_of_draws, plan_of
from pymc_dp.likelihood.report import write_report
from pymc_dp.privacy.budget.known import AccuracyFacts, LikelihoodFacts, OwnersGuarantee

#: Facts that only a saved likelihood has, and why.
ELSEWHERE = {"rounds": "for those who study the search; what it cost is in `events`"}


class Noted(dict):
    """Facts that note which of them are read."""

    def __init__(self, facts):
        super().__init__(facts)
        self.read = set()

    def __getitem__(self, name):
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name, default=None):
        self.read.add(name)
        return super().get(name, default)


@pytest.fixture(scope="module")
def facts():
    outcome = np.random.default_rng(0).normal(size=200)
    with pm.Model() as model:
        law = pm.Normal.dist(pm.Normal("mean"), 1)
        pm.Censored("y", law, lower=None, upper=outcome + 1, observed=outcome)
    made = dp.release_likelihood(model, epsilon=2, delta=1e-6).facts
    owner = {name: made.get(name) for name in OwnersGuarantee.__annotations__}
    return made | {"owners": [owner | {"name": "north", "ledger": True}]}


def forgotten(facts):
    """Facts, and facts of owners, that neither draws nor a report have; other releases are in the report."""
    (owner,) = facts["owners"]
    owner = Noted(owner)
    known, shown = (Noted(facts | {"owners": [owner]}) for _ in range(2))
    released = {"variables": [], "coords": {}, "left_out_deterministics": []}
    facts_of_draws(SimpleNamespace(facts=known), plan_of(known, 4, 0, 1000), "call", released, {})
    write_report(shown, "numbers")
    carried = known.read - AccuracyFacts.__annotations__.keys()
    return {*known} - carried - shown.read - ELSEWHERE.keys(), {*owner} - owner.read


def test_every_fact_is_shown_or_travels(facts):
    assert facts.keys() == LikelihoodFacts.__annotations__.keys()
    assert forgotten(facts) == (set(), set())
    assert ELSEWHERE.keys() <= facts.keys()
    for release in ("censoring", "fit"):
        assert facts[release]["said"] in " ".join(write_report(facts, "numbers").split())


def test_a_new_fact_that_nobody_reads_is_noticed(facts):
    """Control."""
    owner = facts["owners"][0] | {"colour": "red"}
    assert forgotten(facts | {"norm": 1.0, "owners": [owner]}) == ({"norm"}, {"colour"})


def test_a_release_that_no_report_shows_is_noticed(facts, monkeypatch):
    """Control: it goes along with draws, which is not enough."""
    monkeypatch.setattr("pymc_dp.likelihood.report.accuracy_rows", lambda facts: [])
    assert forgotten(facts) == ({"censoring", "fit"}, set())
