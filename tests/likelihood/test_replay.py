"""Replay of a whole release on neighbouring data: what is asked does not change, sums move within bounds."""

import warnings

import numpy as np
import pymc as pm
import pytest

from pymc_dp.likelihood.fit import share_of_fit
from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.priors import approximate_prior
from pymc_dp.likelihood.public_model import PublicModel
from pymc_dp.likelihood.search import Search
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.records.model import RecordModel
from pymc_dp.records.twins import Twins
from pymc_dp.releasing import look_at_fit

N, GROUPS = 300, 4
HORRORS = [0.0, 1e300, -1e300, np.inf, np.nan, 5e-324]


def model():
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(N, 2)), rng.integers(GROUPS, size=N)
    with pm.Model() as made:
        level = pm.Normal("level", 0, 1, shape=GROUPS)
        beta = pm.Normal("beta", 0, 1, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        mean = level[pm.Data("g", g)] + pm.Data("x", x) @ beta
        pm.Normal("y", mean, sigma, observed=pm.Data("y_seen", rng.normal(size=N)))
    return made


class Replayed(Measurements):
    """Records what is asked, and answers what was answered before."""

    def __init__(self, source, spending, answers=None):
        super().__init__(source, spending, share_of_fit(N, 1.0, "substitute"))
        self.asked, self.exact, self.answers, self.said = [], [], answers, []

    def _release(self, total, std):
        self.exact.append(np.array(total, dtype=float))
        self.asked.append(("release", std, np.shape(total)))
        noisy = super()._release(total, std)
        said = noisy if self.answers is None else self.answers[len(self.said)]
        self.said.append(said)
        return said

    def scales(self, phi, twins, share):
        self.asked.append(("scales", phi.tobytes(), twins, share))
        return super().scales(phi, twins, share)

    def compare(self, phi, metric, bounds, twins, shares):
        self.asked.append(("compare", phi.tobytes(), metric.tobytes(), bounds, twins, shares))
        return super().compare(phi, metric, bounds, twins, shares)

    def spread(self, phi, metric):
        self.asked.append(("spread", phi.tobytes(), metric.tobytes()))
        return super().spread(phi, metric)


@pytest.fixture(scope="module")
def parts():
    made = model()
    records = RecordModel(made)
    start = np.asarray(records.coordinates(records.ravel(records.reading.start)))
    prior = approximate_prior(PublicModel(records), start)
    return made, Twins(records), start, prior


def run(parts, answers=None):
    _, twins, start, prior = parts
    spending = Spending(4.0, 1e-6, [1.0], "substitute", debug_seed=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        spending.pay()
        told = len(caught)  # that a debug seed is not private
        measure = Replayed(RecordsHere(twins, spending.random), spending, answers)
        found = Search(measure, N, 1.0, prior)(start)
        fit = look_at_fit(measure, found, prior)
        assert fit["p_value"] is not None  # it was counted
        assert len(caught) == told
    return measure, (found, fit)


@pytest.mark.slow
def test_a_replaced_record_changes_nothing_but_sums_within_their_sensitivity(parts):
    made = parts[0]
    original = {name: made[name].get_value() for name in ("x", "g", "y_seen")}
    first, (found, fit) = run(parts)
    multiplier = Spending(4.0, 1e-6, [1.0], "substitute").multipliers[0]
    cases = [("x", value) for value in HORRORS] + [("y_seen", value) for value in HORRORS]
    cases += [("g", code) for code in (0, GROUPS, -10, 2**31 - 1)]
    moved = 0.0
    for name, value in cases:
        changed = original[name].copy()
        changed[3] = value
        made[name].set_value(changed)
        try:
            again, (other, again_fit) = run(parts, first.said)
        finally:
            made[name].set_value(original[name])
        assert again.asked == first.asked and again_fit == fit
        np.testing.assert_array_equal(other.message.information, found.message.information)
        np.testing.assert_array_equal(other.message.vector, found.message.vector)
        spent = 0.0
        for before, after, (_, std, _) in zip(
            first.exact, again.exact, [one for one in first.asked if one[0] == "release"], strict=True
        ):
            spent += float(((before - after) ** 2).sum()) / std**2
        # All releases together move by at most mu noise standard deviations.
        assert spent <= multiplier**-2 * (1 + 1e-9)
        moved = max(moved, spent)
    assert moved > 0  # control: a record does move them


@pytest.mark.slow
def test_a_bound_that_is_not_kept_is_noticed(parts, monkeypatch):
    """Control: noise that is half of what it should be."""
    made, (first, _) = parts[0], run(parts)
    original = made["y_seen"].get_value()
    changed = original.copy()
    changed[:60] = 50.0  # sixty records, not one
    made["y_seen"].set_value(changed)
    try:
        again, _ = run(parts, first.said)
    finally:
        made["y_seen"].set_value(original)
    stds = [one[1] for one in first.asked if one[0] == "release"]
    spent = sum(
        float(((a - b) ** 2).sum()) / std**2 for a, b, std in zip(first.exact, again.exact, stds, strict=True)
    )
    assert spent > Spending(4.0, 1e-6, [1.0], "substitute").multipliers[0] ** -2
