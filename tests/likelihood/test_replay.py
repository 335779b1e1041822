"""Replay of a whole release on neighbouring data: what is asked does not change, sums move within bounds."""

import warnings
from contextlib import contextmanager

import numpy as np
import pymc as pm
import pytest

from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.near_zero import NO_SPREADS
from pymc_dp.likelihood.priors import approximate_prior
from pymc_dp.likelihood.public_model import PublicModel
from pymc_dp.likelihood.releases import Public, kept_shares, search_from
from pymc_dp.likelihood.search import Search
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.records.model import RecordModel
from pymc_dp.records.twins import Twins
from tests.conftest import NUMBA

N, GROUPS = 300, 4
# Of a covariate, an outcome and a group: each horror once at least, what is not finite in both of the first.
REPLACED = {
    "x": [0.0, 1e300, np.inf, np.nan],
    "y_seen": [-1e300, 5e-324, -np.inf, np.nan],
    "g": [0, GROUPS, -10, 2**31 - 1],
    "bound": [-1e300, 0.0, np.inf, np.nan],
}


def model(kind):
    """Of one outcome, also censored by bounds that are known or not; or with another one of its own."""
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(N, 2)), rng.integers(GROUPS, size=N)
    with pm.Model() as made:
        level = pm.Normal("level", 0, 1, shape=GROUPS)
        beta = pm.Normal("beta", 0, 1, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        mean = level[pm.Data("g", g)] + pm.Data("x", x) @ beta
        seen = pm.Data("y_seen", rng.normal(size=N))
        if kind.startswith("censored"):
            bound = np.where(rng.random(N) < 0.7, np.inf if "unknown" in kind else 5.0, seen.get_value())
            bound = pm.Data("bound", bound)
            pm.Censored("y", pm.Normal.dist(mean, sigma), lower=None, upper=bound, observed=seen)
        else:
            pm.Normal("y", mean, sigma, observed=seen)
        if kind == "two searches":
            pm.Bernoulli("z", logit_p=made["x"] @ pm.Normal("gamma", 0, 1, shape=2), observed=g > 1)
    return made


def questions(cls):
    """The methods of `Measurements`: each is a release."""
    return {name for name, what in vars(cls).items() if callable(what) and not name.startswith("_")}


def frozen(arguments):
    """What compares by value: arrays with their bytes, and NaN like itself."""
    return [(one.shape, one.tobytes()) if isinstance(one, np.ndarray) else repr(one) for one in arguments]


class Replayed(Measurements):
    """Records what is asked, by any method, and answers what was answered before."""

    def __init__(self, source, spending, answers=None):
        super().__init__(source, spending, kept_shares(N, 1.0, "substitute"))
        self.asked, self.exact, self.answers, self.said = [], [], answers, []

    @property
    def apart(self):
        """All that is asked of any of them is recorded in one place."""
        sources = self._sums.apart
        parts = (
            [Replayed(one, self._spending, self.answers) for one in sources] if len(sources) > 1 else [self]
        )
        for one in parts:
            one.kept, one.asked, one.exact, one.said = self.kept, self.asked, self.exact, self.said
        return parts

    @property
    def with_known_bounds(self):
        """As `apart`."""
        one = Replayed(self._sums.with_known_bounds, self._spending, self.answers)
        one.kept, one.asked, one.exact, one.said = self.kept, self.asked, self.exact, self.said
        self.asked.append(("with_known_bounds",))
        return one

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name not in questions(Measurements):
            return found

        def ask(*arguments, **named):
            self.asked.append((name, frozen([*arguments, *named, *named.values()])))
            return found(*arguments, **named)

        return ask

    def _release(self, total, std):
        self.exact.append(np.array(total, dtype=float))
        self.asked.append(("release", std, np.shape(total)))
        noisy = super()._release(total, std)
        said = noisy if self.answers is None else self.answers[len(self.said)]
        self.said.append(said)
        return said


@pytest.fixture(scope="module", params=["one search", "two searches", "censored", "censored, unknown"])
def parts(request):
    made = model(request.param)
    records = RecordModel(made, compile_kwargs=NUMBA)  # compiled: thousands of calls a run
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
        found = search_from(measure, N, 1.0, Public(prior, start, NO_SPREADS))
        assert len(caught) == told
    asked = {name for name, *_ in measure.asked} - {"release", "with_known_bounds"}
    asked |= set() if twins.doubtful else {"count_unknown_bounds"}
    assert questions(Measurements) == asked, "not replayed (what is off by default, `Replayed` switches on)"
    assert not measure.kept, "a share was kept, and is lost: nothing spent it"
    return measure, found


def check(first, again):
    """What is asked is the same; all releases together move by at most mu noise standard deviations."""
    assert again.asked == first.asked, "something else was asked"
    stds = [one[1] for one in first.asked if one[0] == "release"]
    spent = sum(
        float(((a - b) ** 2).sum()) / std**2 for a, b, std in zip(first.exact, again.exact, stds, strict=True)
    )
    most = Spending(4.0, 1e-6, [1.0], "substitute").multipliers[0] ** -2
    assert spent <= most * (1 + 1e-9), "sums moved further than noise covers"
    return spent


@contextmanager
def replaced(made, name, rows, value):
    """With other values in some rows of a model's data."""
    original = made[name].get_value()
    other = original.copy()
    other[rows] = value
    made[name].set_value(other)
    try:
        yield
    finally:
        made[name].set_value(original)


@pytest.mark.slow
def test_a_replaced_record_changes_nothing_but_sums_within_their_sensitivity(parts):
    made = parts[0]
    first, (found, last) = run(parts)
    moved = 0.0
    for name, value in [
        (name, value) for name, values in REPLACED.items() for value in values if name in made
    ]:
        with replaced(made, name, 3, value):
            again, (other, again_last) = run(parts, first.said)
        assert again_last == last
        np.testing.assert_array_equal(other.message.information, found.message.information)
        np.testing.assert_array_equal(other.message.vector, found.message.vector)
        moved = max(moved, check(first, again))
    assert moved > 0  # control: a record does move them


@pytest.mark.slow
def test_a_bound_that_is_not_kept_is_noticed(parts):
    """Control: sixty records are not one."""
    first, _ = run(parts)
    with replaced(parts[0], "y_seen", slice(60), 50.0):
        again, _ = run(parts, first.said)
    with pytest.raises(AssertionError, match="further than noise"):
        check(first, again)


@pytest.mark.slow
def test_a_question_that_a_record_decides_is_noticed(parts, monkeypatch):
    """Control: points that go by exact sums."""
    usual = Search._points

    def moved(self, last, twins):
        exact = int(sum(one.sum() for one in self._measure._measure.exact))
        return usual(self, last, twins) + 1e-3 * (exact % 5)

    monkeypatch.setattr(Search, "_points", moved)
    first, _ = run(parts)
    with replaced(parts[0], "y_seen", 3, 50.0):
        again, _ = run(parts, first.said)
    with pytest.raises(AssertionError, match="something else"):
        check(first, again)


@pytest.mark.slow
def test_a_release_that_is_not_replayed_is_noticed(parts, monkeypatch):
    """Control: a new method that no run asks for."""
    monkeypatch.setattr(Measurements, "norm", lambda self, phi: None, raising=False)
    with pytest.raises(AssertionError, match="not replayed"):
        run(parts)
