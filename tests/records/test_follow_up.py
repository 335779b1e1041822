"""Censored times are compared interval by interval: right with bounds that were not reached, known or not."""

import math
import warnings
from operator import call
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

from pymc_dp.errors import ModelRefusedError, NotPrivateWarning
from pymc_dp.likelihood.comparisons import Bounds, Totals, compare
from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.releases import _settle_bounds
from pymc_dp.likelihood.score_sizes import count_octaves
from pymc_dp.likelihood.sources import RecordsHere, one_after_the_other
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records import twins as twins_module
from pymc_dp.records.follow_up import _HAZARDS, FOR_INTERVALS, in_intervals, is_unknown
from pymc_dp.records.model import RecordModel
from pymc_dp.records.opaque import OpaqueModel
from pymc_dp.records.refusals import check_generative
from pymc_dp.records.twins import Chunk, TermScores
from tests.conftest import NUMBA

# Standard errors: P < 1e-9 for one normal number; seeds are fixed.
FAR = 6.0
TWINS = 12


def exponential(outcomes, most):
    """Scores of an exponential law by the logarithm of its rate, at 1, and log-densities."""
    times, bounds = (np.array(each) for each in zip(*outcomes, strict=True))
    scores = np.where(times < bounds, 1 - times, -times)
    return [scores[:, :, None], np.where(times <= bounds, -times, -np.inf)]


def weibull(outcomes, most):
    """The same of a Weibull law by its shape, at 1."""
    times, bounds = (np.array(each) for each in zip(*outcomes, strict=True))
    with np.errstate(all="ignore"):
        scores = np.where(times < bounds, 1 + np.log(times), 0.0) - times * np.log(times)
    return [scores[:, :, None], exponential(outcomes, most)[1]]


def follow_up(n, latest, seed=0):
    """Times, bounds and twins of records; a second array of bounds is infinite where the event was seen."""
    rng = np.random.default_rng(seed)
    time, bound = rng.exponential(size=n), rng.uniform(0.05, latest, size=n)
    twins = rng.exponential(size=(FOR_INTERVALS + TWINS, n))
    return np.minimum(time, bound), bound, np.where(time < bound, np.inf, bound), twins


def chunk_of(outcome, bound, twins, law=exponential):
    terms = [
        TermScores(own[:, :1], group[:, :, :1], weights, None, at_risk=True)
        for own, group, weights in in_intervals(law, outcome, bound, twins, 4096)
    ]
    return Chunk(slice(None), terms)


def scores(chunk, clip):
    """What each record adds, in units of the clip bound."""
    made, found, each = one_after_the_other(chunk, np.eye(1)), [], len(chunk.terms)
    for i in range(len(chunk.terms[0].own)):
        total, some = Totals(1), slice(each * i, each * (i + 1))
        weights = None if made.weights is None else made.weights[:, some]
        leaves = None if made.leaves is None else made.leaves[some]
        parts = (
            made.own[some],
            made.group[:, some],
            weights,
            made.rows[:, : each if made.leaves is not None else 1],
        )
        compare(*parts, Bounds(clip, 1.0), total, np.array([0]), leaves)
        found.append(total.score[0] / 2**20)
    return np.array(found)


def away(values):
    return abs(values.mean()) / values.std() * np.sqrt(len(values))


@pytest.mark.parametrize("clip", [0.4, 1.0])
def test_what_a_record_adds_is_zero_on_average(clip):
    """With bounds that are known and that are not; compared as a whole it is not zero."""
    outcome, bound, unknown, twins = follow_up(12_000, 3.0)
    for given in (bound, unknown):
        assert away(scores(chunk_of(outcome, given, twins, weibull), clip)) < FAR
    whole, _ = weibull([[t, unknown] for t in np.minimum([outcome, *twins[FOR_INTERVALS:]], unknown)], 4096)
    control = Chunk(slice(None), [TermScores(whole[0], whole, None, None)])
    assert away(scores(control, clip)) > FAR


def test_what_an_unknown_bound_can_move_is_what_the_proof_says():
    """At risk at the beginning of an interval of hazard d: an event and a later bound in it, d**3 / 6."""
    begins = np.array([0.0, *_HAZARDS[:-1]])
    moved = np.sum(np.exp(-begins) * (np.array(_HAZARDS) - begins) ** 3) / 6
    assert 0.05 < moved <= 0.054


def test_intervals_add_up_to_the_whole():
    """But for twins that are not at risk, and for what is after the last interval."""
    outcome, bound, unknown, twins = follow_up(500, 2.0)
    for given in (bound, unknown):
        own = sum(own for own, _, _ in in_intervals(exponential, outcome, given, twins, 4096))
        (expected,), _ = exponential([[outcome, given]], 4096)
        early = outcome < 1.5
        np.testing.assert_allclose(own[early], expected[early], atol=1e-12)
        for _, group, weights in in_intervals(exponential, outcome, given, twins, 4096):
            np.testing.assert_allclose(weights.sum(axis=0), 1.0)
            assert np.isfinite(group).all()


def test_twins_are_censored_where_their_record_was():
    """Of a twin that is later than the bound of a censored record nothing else is seen than of the record."""
    outcome, bound, _, twins = follow_up(500, 2.0)
    later = (outcome == bound) & (twins[FOR_INTERVALS:] > bound)
    assert later.sum() > 500
    for own, group, _ in in_intervals(exponential, outcome, bound, twins, 4096):
        np.testing.assert_array_equal(group[1:][later], np.broadcast_to(own, group[1:].shape)[later])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1.0, 0.0, 5e-324])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_record_changes_nothing_of_others(value, which):
    """To the last bit, without warnings (errors here); what is not a number adds zero."""
    parts = (*follow_up(60, 2.0)[:2], follow_up(60, 2.0)[3])
    before = chunk_of(*parts)
    changed = [part.copy() for part in parts]
    changed[which][..., 7] = value
    after = chunk_of(*changed)
    others = np.arange(60) != 7
    for one, two in zip(before.terms, after.terms, strict=True):
        np.testing.assert_array_equal(one.own[others], two.own[others])
        np.testing.assert_array_equal(one.group[:, others], two.group[:, others])
        np.testing.assert_array_equal(one.weights[:, others], two.weights[:, others])
    added = scores(after, 0.6)
    assert np.isfinite(added).all() and abs(added[7]) <= 1
    counts = count_octaves(after, 1, 1)
    assert counts.sum() <= 60


def model_of(make, n=30, **kwargs):
    rng = np.random.default_rng(1)
    y, bound = rng.exponential(size=n), rng.uniform(1, 2, size=n)
    with pm.Model() as model:
        make(pm.HalfNormal("rate"), np.minimum(y, bound), bound)
    return RecordModel(model, verify=False, **kwargs)


def censored(rate, y, **bounds):
    return pm.Censored("y", pm.Exponential.dist(rate), **{"lower": None, "upper": None} | bounds, observed=y)


def unknown(y, bound):
    return pm.math.switch(y < bound, np.inf, bound)


# Whether records are compared in intervals, by the graph or if an array's numbers say so ("array"). They are
# not if these are only "counted". None: refused.
MODELS = {
    "unknown": (True, lambda rate, y, bound: censored(rate, y, upper=unknown(y, bound))),
    "containers": (
        True,
        lambda rate, y, bound: censored(
            rate, y, upper=pt.where(pm.Data("seen", y < bound), np.inf, pm.Data("end", y))
        ),
    ),
    "no longer than a study": (
        True,
        lambda rate, y, bound: censored(rate, y, upper=pm.math.minimum(unknown(y, bound), 1.5)),
    ),
    "float32": (True, lambda rate, y, bound: censored(rate, y, upper=unknown(y, bound).astype("float32"))),
    "known": ("array", lambda rate, y, bound: censored(rate, y, upper=bound)),
    "an array": ("array", lambda rate, y, bound: censored(rate, y, upper=np.where(y < bound, np.inf, y))),
    "infinite": ("array", lambda rate, y, bound: censored(rate, y, upper=np.full(len(y), np.inf))),
    "computed": (
        "array",
        lambda rate, y, bound: censored(rate, y, upper=pm.math.switch(y < bound, bound, y)),
    ),
    "public": (False, lambda rate, y, bound: censored(rate, y, upper=2.0)),
    "from below": ("counted", lambda rate, y, bound: censored(rate, y, lower=bound)),
    "from zero": ("array", lambda rate, y, bound: censored(rate, y, lower=0.0, upper=bound)),
    "from one": ("counted", lambda rate, y, bound: censored(rate, y, lower=1.0, upper=bound)),
    "an array in a column": (
        "counted",
        lambda rate, y, bound: pm.Censored(
            "y", pm.Exponential.dist(rate), lower=None, upper=bound[:, None], observed=y[:, None]
        ),
    ),
    "an array of counts": (
        "counted",
        lambda rate, y, bound: pm.Censored(
            "y", pm.Poisson.dist(rate), lower=None, upper=pm.Data("end", bound), observed=np.ones(len(y))
        ),
    ),
    "not censored": (False, lambda rate, y, bound: pm.Exponential("y", rate, observed=y)),
    "from both sides": (
        None,
        lambda rate, y, bound: censored(rate, y, lower=0.0 * bound, upper=unknown(y, bound)),
    ),
    "unknown from below": (
        None,
        lambda rate, y, bound: censored(rate, y, lower=pm.math.switch(y < 1, -np.inf, y)),
    ),
    "counts": (
        None,
        lambda rate, y, bound: pm.Censored(
            "y", pm.Poisson.dist(rate), lower=None, upper=unknown(y, bound), observed=np.ones(len(y), int)
        ),
    ),
    "a column": (
        None,
        lambda rate, y, bound: pm.Censored(
            "y", pm.Exponential.dist(rate), lower=None, upper=unknown(y, bound)[:, None], observed=y[:, None]
        ),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_which_outcomes_are_compared_in_intervals(name):
    """By the graph: what numbers arrays have makes no difference."""
    expected, make = MODELS[name]
    twins = model_of(make).twins
    assert set(twins.bounds) == ({"y"} if expected in (True, "array") else set())
    doubtful = {"array": {"y": True}, "counted": {"y": False}}
    assert twins.doubtful == doubtful.get(expected, {})
    assert set(twins.with_known_bounds.bounds) == ({"y"} if expected is True else set())
    if expected is None:
        with pytest.raises(
            ModelRefusedError, match="a bound that censors it may be infinite for some records"
        ):
            check_generative(twins.unlike)
    else:
        check_generative(twins.unlike)


def test_what_the_other_way_cannot_be_compared_with_is_refused_too(monkeypatch):
    """Before anything is paid, when it is not known which way it will be."""
    monkeypatch.setattr(
        twins_module, "say_unlike", lambda opaque, bounds: {} if bounds else {"y": "so it is"}
    )
    assert model_of(MODELS["an array"][1]).twins.unlike == {"y": "so it is"}
    assert model_of(MODELS["unknown"][1]).twins.unlike == {}


@pytest.mark.parametrize("name", ["unknown", "containers"])
def test_twins_of_a_model(name):
    """By the scores of an exponential law: the twins are not censored, and intervals are of their own law."""
    records = model_of(MODELS[name][1], 400, compile_kwargs=NUMBA)
    phi = records.coordinates(records._start)
    (chunk,) = map(call, records.twins(phi, TWINS, PrivacyRandom(debug_seed=1)))
    rate = float(np.exp(phi[0]))
    found = records.twins.outcomes(phi[None], TWINS, PrivacyRandom(debug_seed=1))
    drawn = found.drawn["y"]
    assert len(drawn) == TWINS + FOR_INTERVALS
    assert abs(rate * np.mean(drawn) - 1) < FAR / np.sqrt(np.size(drawn))
    outcome, bound = rate * found.own["y"], rate * found.bounds["y"]
    expected = in_intervals(exponential, outcome, bound, [rate * y for y in drawn], 4096)
    for term, (own, group, weights) in zip(chunk.terms, expected, strict=True):
        np.testing.assert_allclose(term.own, own, atol=1e-8)
        np.testing.assert_allclose(term.group, group, atol=1e-8)
        np.testing.assert_array_equal(term.weights, weights)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("write", [lambda seen, y: pm.math.switch(seen, np.inf, y), None])
def test_one_record_that_was_censored_moves_sums_as_one_record_does(write, known):
    """Beside others whose events were all seen: also where PyMC leaves out an array of infinite bounds."""
    y = np.random.default_rng(2).exponential(size=200)

    def sums(seen):
        def make(rate, *_):
            censored(rate, y, upper=np.where(seen, np.inf, y) if write is None else write(seen, y))

        records = model_of(make)
        twins = records.twins.with_known_bounds if known else records.twins
        source = RecordsHere(twins, PrivacyRandom(debug_seed=5))
        phi = records.coordinates(records._start)
        found = source.compare(phi, np.eye(1), Bounds(0.4, 0.1), TWINS)
        return found.score / 2**20, found.slope / 2**24, source.scales(phi, TWINS)

    all_seen, but_one = (sums(np.arange(200) != number) for number in (-1, 7))
    moved = [np.linalg.norm(one - two) for one, two in zip(all_seen, but_one, strict=True)]
    assert 0 < moved[0] <= 2 and moved[1] <= np.sqrt(2) and moved[2] <= np.sqrt(2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1.0, 0.0, 5e-324])
def test_one_record_moves_the_count_of_unknown_bounds_by_one(value):
    """Whatever its outcome and its bound are, and without a warning (errors here)."""
    y = np.random.default_rng(2).exponential(size=50)

    def count(outcome, bound):
        records = model_of(lambda rate, *_: censored(rate, outcome, upper=bound))
        return records.twins.count_unknown_bounds()

    before = count(y, np.where(y < 1, np.inf, y))
    assert before == np.sum(y < 1)
    for which in (1,) if np.isnan(value) else (0, 1):
        changed = [y.copy(), np.where(y < 1, np.inf, y)]
        changed[which][int(np.argmin(y))] = value
        assert abs(count(*changed) - before) <= 1


def test_a_person_counts_once():
    """With rows of several tables or of one: control, rows are more."""
    y, person = np.ones(12), np.repeat(np.arange(4), 3)
    bound = np.where(person < 2, np.inf, 2.0)

    def make(rate, *_):
        censored(rate, y, upper=bound)

    assert model_of(make, privacy_unit=person).twins.count_unknown_bounds() == 2
    assert model_of(make).twins.count_unknown_bounds() == 6


class Doubtful:
    """Sums of records of which so many have an unknown bound."""

    with_known_bounds = SimpleNamespace(units="known")

    def __init__(self, unknown, in_intervals=True):
        self._unknown, self.units = unknown, SimpleNamespace(doubtful={"y": in_intervals})

    def count_unknown_bounds(self):
        return np.array([float(self._unknown)])


def settled(unknown, n, relation="substitute", epsilon=1.0, times=1):
    """Counts with noise, and whether records are then compared in intervals."""
    found = []
    for seed in range(times):
        spending = Spending(epsilon, 1e-6, [1.0], relation, debug_seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            spending.pay()
        made, facts = _settle_bounds(Measurements(Doubtful(unknown), spending), n)
        assert spending.unspent == pytest.approx(0.97)
        said = facts["censoring"]
        assert (made.source == "known") is not said["in_intervals"]
        found.append((said["unknown"], said["noise"], said["in_intervals"]))
    return np.array(found).T


@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
def test_noise_of_the_count_is_that_of_its_share(relation):
    """One record moves it by one. A tenth less noise would be noticed: false alarms below 1e-8."""
    counts, noise, _ = settled(500, 1_000, relation, times=1_500)
    expected = 1 / (float(gaussian.mu(1.0, 1e-6)) * math.sqrt(0.03))
    assert noise == pytest.approx(expected)
    squares = np.sum((counts - 500) ** 2) / expected**2
    low, high = stats.chi2.isf([1 - 1e-8, 1e-8], 1_500)
    assert low < squares < high
    assert not low < 0.81 * squares


def test_when_bounds_are_taken_for_known():
    """Unknown where the event was seen: of a thousand records nearly always noticed. In doubt, intervals."""
    for unknown, n, least, most in [
        (0, 1_000, 0.05, 0.25),  # by chance, 13%
        (150, 1_000, 0.98, 1.0),
        (0, 100_000, 0.0, 0.0),
        (1_000, 100_000, 1.0, 1.0),
        (0, 100, 0.25, 0.75),
    ]:
        part = settled(unknown, n, times=100)[2].mean()
        assert least <= part <= most, (unknown, n)


def test_without_noise_it_is_counted_exactly():
    (count, noise, unknown) = settled(7, 100, epsilon=math.inf)
    assert (count, noise, unknown) == (7, 0, 1)
    assert not settled(0, 100, epsilon=math.inf)[2]


def test_where_intervals_are_not_possible_it_is_said_that_the_posterior_is_wrong():
    """Of outcomes of which an array's numbers say that their bounds are unknown."""
    spending = Spending(math.inf, 1e-6, [1.0], "substitute")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        spending.pay()
    for unknown, fit in [(90, False), (90, True), (0, False)]:
        _, facts = _settle_bounds(Measurements(Doubtful(unknown, fit), spending), 100)
        wrong = bool(unknown and not fit)
        assert ("WRONG: outcomes of y cannot" in facts["censoring"]["said"]) is wrong
        assert facts["censoring"]["in_doubt"] is wrong


def test_a_missing_bound_is_as_good_as_an_infinite_one():
    """As PyMC's density has it."""
    outcome, bound, unknown, twins = follow_up(200, 2.0)
    missing = np.where(np.isinf(unknown), np.nan, unknown)
    for one, other in zip(
        in_intervals(exponential, outcome, unknown, twins, 4096),
        in_intervals(exponential, outcome, missing, twins, 4096),
        strict=True,
    ):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(is_unknown(outcome, missing), np.isinf(unknown))
    assert (
        is_unknown(outcome, np.full(200, 9999.0)).mean() > 0.99 and is_unknown(outcome, bound).mean() < 0.01
    )


# An array of bounds by which records of a law of positive numbers are censored.
ARRAYS = {
    "from above": lambda law, y, b: pm.Censored("y", law, lower=None, upper=b, observed=y),
    "from below": lambda law, y, b: pm.Censored("y", law, lower=-b, upper=None, observed=y),
    "a column": lambda law, y, b: pm.Censored("y", law, lower=None, upper=b[:, None], observed=y[:, None]),
}


def how_far_one_bound_moves(make):
    """Score and slope of records of which many are impossible; one bound is infinite, or not."""
    y = np.random.default_rng(3).lognormal(size=80)
    y[20:50] = -1.0
    sums = []
    for number in (-1, 7):
        bound = np.where(np.arange(80) == number, y, np.inf)
        with pm.Model() as model:
            make(pm.LogNormal.dist(pm.Normal("a"), pm.HalfNormal("s")), y, bound)
        records = RecordModel(model, verify=False)
        source = RecordsHere(records.twins.with_known_bounds, PrivacyRandom(debug_seed=5))
        phi = np.asarray(records.coordinates(records._start)) + 0.3
        found = source.compare(phi, np.eye(2), Bounds(0.5, 0.2), TWINS)
        sums.append((found.score / 2**20, found.slope / 2**24))
    return [np.linalg.norm(one - other) for one, other in zip(*sums, strict=True)]


@pytest.mark.parametrize("name", ARRAYS)
def test_one_bound_does_not_decide_how_others_are_compared(name):
    """PyMC leaves out an array of bounds that are infinite everywhere when a model is written."""
    score, slope = how_far_one_bound_moves(ARRAYS[name])
    assert score <= 2 and slope <= np.sqrt(2)


def test_it_would_be_noticed(monkeypatch):
    """With what PyMC made."""
    monkeypatch.setattr(OpaqueModel, "_whatever_numbers", lambda self, node, inputs: None)
    score, slope = how_far_one_bound_moves(ARRAYS["from above"])
    assert score > 2 and slope > np.sqrt(2)


def test_an_array_by_which_pymc_chooses_the_type_of_counts_is_refused():
    """With any numbers; as data or whole numbers it is not."""
    y = np.arange(40) % 5

    def read(bound):
        with pm.Model() as model:
            law = pm.Poisson.dist(pm.HalfNormal("rate"))
            pm.Censored("y", law, lower=None, upper=bound() if callable(bound) else bound, observed=y)
        return RecordModel(model, verify=False)

    for numbers in (np.full(40, np.inf), np.where(y == 1, 1.0, np.inf), np.full(40, 4.0)):
        with pytest.raises(ModelRefusedError, match="Counts are censored by an array of real numbers"):
            read(numbers)
        assert read(lambda numbers=numbers: pm.Data("end", numbers)).twins.doubtful == {"y": False}
    assert read(np.full(40, 4)).twins.doubtful == {"y": False}
