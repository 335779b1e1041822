"""Likelihoods of records in parts: the sums of one place, and what a part may say."""

import warnings
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.errors import NotPrivateWarning
from pymc_dp.likelihood.comparisons import Bounds, Totals
from pymc_dp.likelihood.priors import approximate_prior
from pymc_dp.likelihood.public_model import PublicModel
from pymc_dp.likelihood.score_sizes import OCTAVES
from pymc_dp.likelihood.search import Search
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records import graph
from pymc_dp.records.model import RecordModel
from pymc_dp.remote.answers import UnavailableError, value
from pymc_dp.remote.shard import Shard
from tests.conftest import simple_data
from tests.likelihood.test_public_model import Secrets
from tests.likelihood.test_replay import Replayed
from tests.remote.parts import build, made_up, split
from tests.remote.test_shards import Given, by_person, leaky

DATA = simple_data(n=61)
PHI, METRIC, BOUNDS = np.array([0.3, -0.2]), np.array([[3.0, 0.0], [0.5, 2.0]]), Bounds(0.4, 0.1)
QUESTION = PHI, METRIC, BOUNDS
HORRORS = (np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 0.0)


def random(seed=1):
    return PrivacyRandom(debug_seed=seed)


@cache
def in_parts(k):
    return dp.Shards(build, split(DATA, k)).records(made_up(), likelihood=True)


@cache
def in_one_piece():
    return RecordsHere(RecordModel(build(DATA)).twins, random())


def numbers(totals):
    return np.concatenate([totals.score, totals.slope.ravel(), totals.variances])


def censored(part):
    """Times of which the bound is unknown where the event was seen: an array says so."""
    x, y = part
    time = np.exp(x[:, 0])
    with pm.Model() as model:
        law = pm.Exponential.dist(pm.math.exp(pm.Normal("a") + pm.Normal("b") * pm.Data("x", x[:, 1])))
        pm.Censored("y", law, lower=None, upper=np.where(y, np.inf, time), observed=time)
    return model


def test_parts_count_unknown_bounds_and_compare_as_they_are_asked():
    """Sums with known bounds differ from others: control. Twins differ; seeds are fixed."""
    data = simple_data(n=600)
    parts = dp.Shards(censored, split(data, 2)).records(censored(split(data, 2)[0]), likelihood=True)
    source, one = parts.source(random(2)), RecordsHere(RecordModel(censored(data)).twins, random())
    assert source.units.doubtful and one.units.doubtful
    assert source.count_unknown_bounds() == one.count_unknown_bounds() == data[1].sum()
    known = source.with_known_bounds
    assert not known.units.doubtful
    sources = source, one, known, one.with_known_bounds
    found = [each.compare(*QUESTION, 400).score / 2**20 for each in sources]
    apart = [np.abs(found[k] - found[j]).max() for k, j in ((0, 1), (2, 3), (1, 3))]
    assert apart[2] > 2 * max(apart[:2]), apart


@pytest.mark.parametrize("k", [1, 2, 4])
def test_sums_of_parts_are_those_of_one_place(k):
    """To the last bit: all outcomes are taken, so that nothing is drawn. Integers, and not zero."""
    source, one = in_parts(k).source(random(k)), in_one_piece()
    for name in ("size", "touched", "rank"):
        assert getattr(source.units, name) == getattr(one.units, name)
    np.testing.assert_array_equal(source.scales(PHI, 3), one.scales(PHI, 3))
    ours, theirs = numbers(source.compare(*QUESTION, 3)), numbers(one.compare(*QUESTION, 3))
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(ours, np.rint(ours))
    assert np.abs(ours).min() > 0


def build_two(part):
    """Two outcomes of a record, with parameters of their own."""
    x, y = part
    with pm.Model() as model:
        beta, gamma = pm.Normal("beta", 0, 2, shape=2), pm.Normal("gamma", 0, 2)
        pm.Bernoulli("y", logit_p=x @ beta, observed=y)
        pm.Bernoulli("z", logit_p=gamma * x[:, 0], observed=1 - y)
    return model


@pytest.mark.parametrize("k", [1, 3])
def test_outcomes_that_have_nothing_in_common_are_apart_in_parts_too(k):
    template = build_two((np.zeros((4, 2)), np.array([0, 1, 0, 1])))
    source = dp.Shards(build_two, split(DATA, k)).records(template, likelihood=True).source(random(k))
    one = RecordsHere(RecordModel(build_two(DATA)).twins, random())
    phi, metric = np.array([0.3, -0.2, 0.1]), np.eye(3)
    assert len(source.apart) == len(one.apart) == 2
    for ours, theirs, own in zip(source.apart, one.apart, ([0, 1], [2]), strict=True):
        assert ours.units.touched == theirs.units.touched == len(own)
        np.testing.assert_array_equal(ours.scales(phi, 3), theirs.scales(phi, 3))
        found = ours.compare(phi, metric, BOUNDS, 3)
        np.testing.assert_array_equal(numbers(found), numbers(theirs.compare(phi, metric, BOUNDS, 3)))
        assert np.flatnonzero(found.score).tolist() == own
    assert source.compare(phi, metric, BOUNDS, 3).score.all()


def released(model, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        return dp.release_likelihood(model, **{"epsilon": 2, "delta": 1e-6, "debug_seed": 3} | kwargs)


def same(one, other):
    for name in ("point", "gradient", "information"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
def test_a_release_is_that_of_one_place(relation):
    """And costs the same, and says the same."""
    data = simple_data(n=3000)
    kwargs = {"neighboring_relation": relation, "public_n": 3000}
    one = released(build(data), **kwargs)
    many = released(made_up(), data=dp.Shards(build, split(data, 3)), **kwargs)
    same(one, many)
    for facts in (many.facts, one.facts):
        del facts["fit"]  # of outcomes that are tied one is drawn
    assert many.facts == one.facts
    assert np.linalg.norm(one.information) > 0


def build_of_three(part):
    return build(part[:2])


@pytest.mark.slow
def test_persons_are_those_of_one_place():
    """Their rows are compared one by one, with all outcomes that there are: to the last bit."""
    x, y = simple_data(n=150)
    ids = np.sort(np.random.default_rng(0).integers(60, size=len(y)))
    cut = np.searchsorted(ids, 25)
    parts = [(x[:cut], y[:cut], ids[:cut]), (x[cut:], y[cut:], ids[cut:])]
    data = dp.Shards(build_of_three, parts, privacy_unit=by_person)
    records = data.records(made_up(), likelihood=True)
    one = RecordsHere(RecordModel(build((x, y)), privacy_unit=ids).twins, random())
    source = records.source(random())
    here, there = one.units, source.units
    assert (there.rank, there.touched, there.lookups) == (here.rank, here.touched, here.lookups)
    assert records.n == len(set(ids)) and records.unit_of_row is not None
    assert source.scales(PHI, 8).sum() == 2 * records.n
    np.testing.assert_array_equal(source.scales(PHI, 8), one.scales(PHI, 8))
    np.testing.assert_array_equal(numbers(source.compare(*QUESTION, 4)), numbers(one.compare(*QUESTION, 4)))


def agree(first, second, times=40):
    """Whether two random sums have the same mean: false alarms below 1e-6 together."""
    one, other = (np.array([numbers(made()) for _ in range(times)]) for made in (first, second))
    assert np.all(one.std(axis=0) > 0)
    found = [stats.ttest_ind(a, b, equal_var=False).pvalue for a, b in zip(one.T, other.T, strict=True)]
    assert min(found) > 1e-6 / len(found)


def build_normal(part):
    x, y = part
    with pm.Model() as model:
        beta, sigma = pm.Normal("beta", 0, 2), pm.HalfNormal("sigma")
        pm.Normal("y", x * beta, sigma, observed=y)
    return model


@cache
def normal():
    rng = np.random.default_rng(3)
    x = rng.normal(size=80)
    return x, 0.5 * x + rng.normal(size=80)


@pytest.mark.slow
def test_twins_of_parts_are_drawn_there():
    """Sums have the law of one place; of equal parts the twins are not equal; a key gives the same answer."""
    x, y = normal()
    parts = [(x[:40], y[:40]), (x[:40], y[:40]), (x[40:], y[40:])]
    records = dp.Shards(build_normal, parts).records(build_normal((x[:5], y[:5])), likelihood=True)
    whole = tuple(np.concatenate([array[:40], array]) for array in (x, y))
    one = RecordsHere(RecordModel(build_normal(whole)).twins, random())
    source = records.source(random(5))
    question = PHI, METRIC, Bounds(3.0, 4.0), 3
    agree(lambda: source.compare(*question), lambda: one.compare(*question))
    seen, ask = [], source._ask
    source._ask = lambda *asked: seen.append(ask(*asked)) or seen[-1]
    source.compare(*question)
    first, second, _ = map(numbers, seen[0])
    assert not np.array_equal(first, second)
    again, other = (records.source(random(seed)).compare(*question) for seed in (9, 9))
    np.testing.assert_array_equal(numbers(again), numbers(other))
    assert not np.array_equal(numbers(again), numbers(records.source(random(10)).compare(*question)))


@pytest.mark.slow
def test_a_lost_part_is_loaded_again_and_answers_as_before():
    """Opening fails; then a sum, twice; and of the next one, opening again."""
    records, home = leaky(split(DATA, 2), lost=(0, 3, 4), likelihood=True)
    source, one = records.source(random()), in_one_piece()
    np.testing.assert_array_equal(source.scales(PHI, 3), one.scales(PHI, 3))
    np.testing.assert_array_equal(numbers(source.compare(*QUESTION, 3)), numbers(one.compare(*QUESTION, 3)))
    assert home.restarts == 3


def test_a_part_that_cannot_be_had_stops_the_call_and_stays_paid(tmp_path):
    records, _ = leaky(split(DATA, 2), lost=range(2, 100), likelihood=True)
    ledger = dp.Ledger(tmp_path / "a.db", epsilon=60.0, delta=1e-6)
    with pytest.raises(UnavailableError, match="stays spent"):
        released(made_up(), data=Given(records), ledger=ledger, debug_seed=None)
    assert [entry.status for entry in ledger.entries()] == ["reserved"]


def test_a_part_says_sums_and_nothing_else():
    """Integers, as many as there are coordinates ask for, whatever the number of records."""
    answers = []
    records = in_parts(2)
    shard = records._homes[0].servant
    for n_twins in (0, 3):
        key = random().keys(1)[0]
        for asked in (RecordsHere.scales, PHI), (RecordsHere.compare, *QUESTION):
            answers.append(value(shard.answer((Shard.sums, key, asked[0], False, None, *asked[1:], n_twins))))
    for counts, totals in zip(answers[::2], answers[1::2], strict=True):
        assert type(counts) is np.ndarray and counts.shape == (2, OCTAVES)
        assert type(totals) is Totals and set(vars(totals)) == {"score", "slope", "variances"}
        assert [np.shape(v) for v in vars(totals).values()] == [(2,), (2, 2), (2,)]
        for array in (counts, numbers(totals)):
            np.testing.assert_array_equal(array, np.rint(array))


def build_with_dims(part):
    x, y = part
    with pm.Model(coords={"person": [f"Secretperson{k}" for k in range(len(y))]}) as model:
        beta = pm.Normal("beta", 0, 2)
        pm.Bernoulli("y", logit_p=pm.Data("x", x, dims="person") * beta, observed=y)
    return model


def test_nothing_of_any_part_or_of_the_template_is_released():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=60), rng.integers(2, size=60)
    parts = split((x, y), 2)
    made = released(build_with_dims(parts[0]), data=dp.Shards(build_with_dims, parts))
    secrets = Secrets(x=x, first=x[:31], y=y.astype(float))
    assert not secrets.in_objects(made) and not secrets.in_objects(made.model())
    assert secrets.in_objects(build_with_dims(parts[0]))  # control
    assert not made.model().coords and "Secretperson" not in str(vars(made))


def test_one_record_moves_sums_within_their_bounds():
    """Of either part, replaced by horrors in place; the other records' keys are the same."""
    records = dp.Shards(build, [tuple(map(np.copy, part)) for part in split(DATA, 2)]).records(
        made_up(), likelihood=True
    )

    def sums():
        source = records.source(random())
        totals = source.compare(*QUESTION, 3)
        return totals.score, np.append(totals.slope, totals.variances), source.scales(PHI, 3)

    before, moved = sums(), []
    for home in records._homes:
        for root in home.servant.records._roots:
            values = graph.leaf_value(root)
            if values.dtype.kind != "f":
                continue
            for horror in HORRORS:
                kept = values[7].copy()
                values[7] = horror
                moved.append([now - old for now, old in zip(sums(), before, strict=True)])
                values[7] = kept
    for score, slope, counts in moved:
        assert np.linalg.norm(score) <= 2 * 2**20 and np.linalg.norm(slope) <= np.sqrt(2) * 2**24
        assert np.square(counts).sum() <= 2 * records.twins.touched
    assert len(moved) >= 2 * len(HORRORS) and max(np.linalg.norm(score) for score, _, _ in moved) > 1e4
    assert all(np.array_equal(now, old) for now, old in zip(sums(), before, strict=True))


@pytest.mark.slow
def test_a_replaced_record_changes_nothing_but_sums_within_their_sensitivity():
    """Replay of a whole release with its noisy answers: see `tests.likelihood.test_replay`."""
    parts = [tuple(map(np.copy, part)) for part in split(simple_data(n=300), 2)]
    records = dp.Shards(build, parts).records(made_up(), likelihood=True)
    start = np.asarray(records.coordinates(records.ravel(records.reading.start)))
    prior = approximate_prior(PublicModel(records), start)

    def run(answers=None):
        spending = Spending(4.0, 1e-6, [1.0], "substitute", debug_seed=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            spending.pay()
        measure = Replayed(records.source(random()), spending, answers)
        return measure, Search(measure, 300, 1.0, prior)(start).message

    first, message = run()
    multiplier, moved = Spending(4.0, 1e-6, [1.0], "substitute").multipliers[0], 0.0
    stds = [one[1] for one in first.asked if one[0] == "release"]
    for home in records._homes:
        (values,) = (v for root in home.servant.records._roots if (v := graph.leaf_value(root)).ndim == 2)
        for horror in HORRORS:
            kept = values[7].copy()
            values[7] = horror
            again, other = run(first.said)
            values[7] = kept
            assert again.asked == first.asked
            np.testing.assert_array_equal(other.information, message.information)
            np.testing.assert_array_equal(other.vector, message.vector)
            each = zip(first.exact, again.exact, stds, strict=True)
            spent = sum(float(((a - b) ** 2).sum()) / std**2 for a, b, std in each)
            assert spent <= multiplier**-2 * (1 + 1e-9)
            moved = max(moved, spent)
    assert moved > 0  # control: a record does move them


# refusals, before anything is paid


def build_other(part):
    """As `build` has it for few rows; else another likelihood of the same parameters."""
    x, y = part
    if len(y) < 10:
        return build(part)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Poisson("y", pm.math.exp(x @ beta), observed=y)
    return model


def build_two_tables(part):
    _, y = part
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1, shape=2)
        pm.Bernoulli("a", p[0], observed=y)
        pm.Bernoulli("b", p[1], observed=y[1:])
    return model


def build_bare(part):
    _, y = part
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.CustomDist("y", beta, logp=lambda value, b: -((value - b[0]) ** 2), observed=y.astype(float))
    return model


@pytest.mark.parametrize(
    ("function", "kwargs", "error", "match"),
    [
        (build_other, {}, dp.errors.ModelRefusedError, "another form"),
        (build_two_tables, {}, dp.errors.ModelRefusedError, "different lengths"),
        (build_bare, {}, dp.errors.ModelRefusedError, "No outcomes can be drawn"),
        (build, {"privacy_unit": np.arange(6)}, ValueError, "where the rows are"),
        (build, {"neighboring_relation": "add_remove", "ledger": None}, TypeError, "public_n"),
        (build, {"epsilon": None}, TypeError, "epsilon= is missing"),
    ],
)
def test_what_is_refused_is_refused_before_it_is_paid(function, kwargs, error, match, tmp_path):
    ledger = dp.Ledger(tmp_path / "l.db", epsilon=5, delta=1e-5)
    given = {"ledger": ledger, "data": dp.Shards(function, split(DATA, 2))} | kwargs
    with function(simple_data(n=6)), pytest.raises(error, match=match):
        released(None, **given)
    assert not ledger.entries()


def test_a_person_in_two_parts_is_refused_before_anything_is_paid(tmp_path):
    x, y = DATA
    ids = np.arange(61) // 2
    parts = [(x[:31], y[:31], ids[:31]), (x[31:], y[31:], ids[31:])]
    data = dp.Shards(build_of_three, parts, privacy_unit={"patient": by_person})
    ledger = dp.Ledger(tmp_path / "l.db", epsilon=5, delta=1e-5, privacy_unit="patient")
    with pytest.raises(dp.errors.ModelRefusedError, match="rows in more than one part"):
        released(made_up(), data=data, ledger=ledger)
    assert not ledger.entries()


def build_groups(part, size=4):
    """Likelihood coordinates that are not the parameters."""
    group, y = part
    with pm.Model() as model:
        mean, tau = pm.Normal("mean"), pm.HalfNormal("tau")
        z = pm.Normal("z", shape=size)
        pm.Bernoulli("y", logit_p=(mean + tau * z)[group], observed=y)
    return model


def grouped(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(4, size=n), rng.integers(2, size=n)


@pytest.mark.slow
@pytest.mark.parametrize(("template", "part"), [(4, 9), (9, 4)])
def test_parts_in_other_coordinates_are_refused(template, part):
    """A vector as long as there are rows is taken for one with an entry a row."""
    data = dp.Shards(build_groups, [grouped(12, 1), grouped(part, 2)])
    with pytest.raises(dp.errors.ModelRefusedError, match="other functions"):
        data.records(build_groups(grouped(template)), likelihood=True)
    with build_groups(grouped(template)):  # control: a step does not need them
        dp.DPPenaltyMH(epsilon=2, delta=1e-6, chains=1, lipschitz=1.0, data=data)


@pytest.mark.slow
def test_sample_and_report(quiet, tmp_path):
    """The posterior of these data: mode and scale by Newton's steps."""
    ledger = dp.Ledger(tmp_path / "l.db", epsilon=5, delta=1e-5)
    x, y = simple_data(n=8000)
    data = dp.Shards(build, split((x, y), 3))
    idata = dp.sample(200, model=made_up(), epsilon=4, data=data, ledger=ledger, chains=2, cores=1, **quiet)
    assert [entry.status for entry in ledger.entries()] == ["confirmed"]
    report = dp.privacy_report(idata)
    assert report.facts["is_private"] and report.facts["n"] == 8000 and report.plan.delta == 1e-5
    assert report.not_released == []
    beta = np.zeros(2)
    for _ in range(20):
        p = 1 / (1 + np.exp(-x @ beta))
        precision = (x * (p * (1 - p))[:, None]).T @ x + np.eye(2) / 4
        beta = beta + np.linalg.solve(precision, x.T @ (y - p) - beta / 4)
    draws = idata.posterior["beta"].stack(sample=("chain", "draw"))
    assert np.all(np.abs(draws.mean("sample").to_numpy() - beta) < 5 * draws.std("sample").to_numpy())
    assert np.all(draws.std("sample").to_numpy() < 1.5 * np.sqrt(np.diag(np.linalg.inv(precision))))
