"""Comparisons: sensitivities, noise, what is paid before what is read, what is refused; which model wins."""

import json
import math
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from dp_accounting import GaussianDpEvent
from scipy import stats

import pymc_dp as dp
from pymc_dp.evaluation import compare as module
from pymc_dp.evaluation import differences
from pymc_dp.evaluation.compare import differing, log_scores, shares
from pymc_dp.evaluation.differences import CELLS, EDGES, cells_of, choose_bound, clipped_sums, total_of
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import ExactSum
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import GRID
from tests.evaluation.fits import N, data, fit, line, pair

ANYTHING = [
    0.0, 1e-300, -1e-9, 0.3, -0.3, 1.0, -1.0, 7.5, -7.5, 1e9, -1e9, 1e308, -1e308, np.inf, -np.inf, np.nan,
]  # fmt: skip
OTHERS = np.random.default_rng(0).standard_t(2, size=50)
RELATIONS = ["substitute", "add_remove"]


def sums(values, bound, void):
    """Integers of one number: counts, sum, squares."""
    first, second = clipped_sums(values, void, bound)
    return cells_of(values, void), first, second


def moves(relation, bound, clip=sums):
    """Largest moves of counts (squared), sum and squares by one record that is anything, or void."""
    found = []
    for value in ANYTHING:
        for void in (False, True):
            one = clip(np.r_[value, OTHERS], bound, np.r_[void, np.zeros(50, dtype=bool)])
            found.append(one)
    base = [clip(OTHERS, bound, np.zeros(50, dtype=bool))] if relation == "add_remove" else found
    pairs = [(a, b) for a in found for b in base]
    return [
        max(int(np.sum((a[0] - b[0]) ** 2)) for a, b in pairs),
        max(abs(a[1] - b[1]) for a, b in pairs),
        max(abs(a[2] - b[2]) for a, b in pairs),
    ]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bound", [EDGES[0], 0.5, EDGES[-1]])
def test_one_record_moves_each_sum_by_its_sensitivity_at_most(relation, bound):
    counts, first, second = moves(relation, bound)
    assert counts == round(differences.histogram_sensitivity(relation) ** 2)
    assert first == ExactSum.sensitivity(relation) * GRID  # reached, and not passed
    assert second == GRID


def test_a_sum_that_is_not_clipped_would_be_noticed():
    """Control."""

    def unclipped(values, bound, void):
        finite = np.where(np.isfinite(values), np.clip(values, -1e6, 1e6), 0.0)
        return cells_of(values, void), int((finite / bound * GRID).sum()), 0

    assert moves("substitute", 0.5, unclipped)[1] > 2 * GRID


@pytest.fixture(scope="module")
def records():
    """A model whose arrays can be written into."""
    x, y = data()
    with pm.Model() as model:
        inputs, outputs = pm.Data("x", x), pm.Data("y_data", y)
        b, sd = pm.Normal("b", 0, 2), pm.HalfNormal("sd", 2)
        pm.StudentT("y", nu=4, mu=b * inputs, sigma=sd, observed=outputs)
    ids = np.arange(N) // 2
    return model, {None: RecordModel(model), "person": RecordModel(model, privacy_unit=ids)}


@pytest.mark.parametrize("unit", [None, "person"])
def test_a_record_moves_its_own_score_alone(records, unit):
    model, found = records
    one = found[unit]
    points = np.random.default_rng(1).normal(size=(5, 2)) * 0.3
    x, y = data()
    own = 7 if unit is None else 3
    base = log_scores(one, points)
    try:
        for values in [(np.nan, 0), (np.inf, 1), (0.1, np.nan), (1e300, -1e300), (0.0, np.inf), (1e8, 3)]:
            for name, array, value in zip(("x", "y_data"), (x, y), values, strict=True):
                changed = array.copy()
                changed[7] = value
                model[name].set_value(changed)
            scores = log_scores(one, points)
            np.testing.assert_array_equal(np.delete(scores, own), np.delete(base, own))
            assert not scores[own] == base[own]
    finally:
        model["x"].set_value(x)
        model["y_data"].set_value(y)


def fake(rows):
    """Records with these log-likelihoods, shape (S, n); a point is the number of a draw."""
    return SimpleNamespace(n=rows.shape[1], full_batch=SimpleNamespace(rows=lambda s: rows[int(s[0])]))


def test_scores_are_those_of_waic():
    rows = np.random.default_rng(2).normal(-2, 0.5, size=(40, 30))
    expected = np.log(np.mean(np.exp(rows), axis=0)) - np.var(rows, axis=0, ddof=1)
    np.testing.assert_allclose(log_scores(fake(rows), np.arange(40)[:, None]), expected, rtol=1e-12)


def test_scores_of_impossible_records():
    rows = np.full((3, 5), -1.0)
    rows[1, 0], rows[2, 1], rows[0, 2], rows[0, 3], rows[1, 3] = -np.inf, np.inf, np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(
        log_scores(fake(rows), np.arange(3)[:, None]), [-np.inf, np.inf, np.nan, np.nan, -1.0]
    )


@pytest.mark.parametrize("relation", RELATIONS)
def test_noise_has_the_stated_scale(relation):
    """Of counts, sum and squares; chi-squared, two-sided, error probability 1e-6 together."""
    runs, zero = 4000, np.zeros(8)
    squares = np.zeros(3)
    spending = Spending(1.0, 1e-5, shares(1), relation, debug_seed=0)
    spending._paid = True
    for _ in range(runs):
        spending._left = list(spending.multipliers)
        released = [
            spending.release(ExactSum(zero if k == 0 else 0.0, 3.0), s) for k, s in enumerate((1.0, 2.0, 1.0))
        ]
        squares += [np.square(np.ravel(value)[0] / std) for value, std in released]
    low, high = stats.chi2.ppf([1e-6 / 6, 1 - 1e-6 / 6], runs) / runs
    assert np.all((squares / runs > low) & (squares / runs < high))
    assert not low < 1.2**2 < high and not low < 0.85**2 < high  # controls


@pytest.mark.parametrize("models", [1, 2, 5])
def test_shares_add_up_to_the_budget(models):
    spending = Spending(1.0, 1e-5, shares(models), "substitute", debug_seed=0)
    squared = sum(nm**-2 for nm in spending.multipliers)
    assert 1 - 3e-9 < squared / gaussian.mu(1.0, 1e-5) ** 2 <= 1 + 1e-12
    assert 0.999 < spending.guarantee.epsilon(1e-5) <= 1.0
    assert len(spending.multipliers) == 3 * models


def test_nothing_is_released_unpaid_or_twice():
    spending = Spending(1.0, 1e-5, [0.5, 0.5], "substitute", debug_seed=0)
    with pytest.raises(RuntimeError, match="not paid"):
        spending.release(ExactSum(0.0), 1.0)
    with pytest.warns(dp.errors.NotPrivateWarning):
        spending.pay()
    spending.release(ExactSum(0.0), 1.0)
    spending.release(ExactSum(0.0), 1.0)
    with pytest.raises(RuntimeError, match="not paid"):
        spending.release(ExactSum(0.0), 1.0)


# what is chosen, and said


def counts_at(sizes):
    counts = np.zeros(CELLS)
    for size, number in sizes.items():
        counts += number * cells_of(np.array([size]), np.zeros(1, dtype=bool))
    return counts


def test_bound_is_where_noise_and_cut_cost_least():
    many = counts_at({0.3: 5000, -0.3: 5000, 0.15: 3000, 0.6: 10})
    bound, cut = choose_bound(many, 5.0, 10.0)
    assert 0.5 <= bound <= 2.0 and 0 < cut < 20
    # Records that show far away are cut where noise is large, which is said, and not where it is small.
    heavy = many + counts_at({6.0: 100})
    assert choose_bound(heavy, 5.0, 1.0)[0] >= 8.0
    bound, cut = choose_bound(heavy, 5.0, 1000.0)
    assert bound <= 0.5 and cut > 500
    with pytest.raises(dp.errors.TooFewRecordsError, match="noise"):
        choose_bound(np.full(CELLS, 3.0), 5.0, 1.0)


def heavy(n, seed=6):
    """Differences of t and normal log densities, of errors with a t distribution: few records decide."""
    errors = np.random.default_rng(seed).standard_t(5, size=n)
    return stats.t.logpdf(errors, 5) - stats.norm.logpdf(errors, 0, errors.std())


def errors_of(values, epsilon, runs=40):
    """Standardised errors, with what clips may have cut and without."""
    found = []
    for seed in range(runs):
        spending = Spending(epsilon, 1e-6, shares(1), "substitute", debug_seed=seed)
        spending._paid = True
        one = total_of(values, np.zeros(values.size, dtype=bool), spending, values.size)
        error = one.sum - values.sum()
        found.append((error / math.hypot(one.noise, one.cut), error / one.noise))
    return np.abs(found).T


HARD = [(0.5, 2000), (1.0, 2000), (1.0, 20_000), (4.0, 20_000)]


@pytest.mark.parametrize("epsilon, n", HARD)
def test_tails_that_hide_in_noise_are_reckoned_with(epsilon, n):
    """Half of the records or more are a little worse, few are far better."""
    with_cut, _ = errors_of(heavy(n), epsilon)
    assert np.quantile(with_cut, 0.9) < 2.5 and with_cut.max() < 5


def test_what_hides_is_not_left_out(monkeypatch):
    """Control: with what shows alone, errors are far beyond what is stated."""
    magnitudes = differences._magnitudes

    def seen_alone(*args):
        seen, unseen = magnitudes(*args)
        return seen, 0 * unseen

    monkeypatch.setattr(differences, "_magnitudes", seen_alone)
    assert max(errors_of(heavy(n), epsilon)[0].max() for epsilon, n in HARD[1:3]) > 8


def total(values, epsilon=20.0, n=None):
    spending = Spending(epsilon, 1e-6, shares(1), "substitute", debug_seed=1)
    spending._paid = True
    return total_of(values, np.zeros(values.size, dtype=bool), spending, n)


def test_what_is_cut_is_said():
    values = np.r_[np.full(20_000, -0.2), np.full(300, 900.0)]
    found = total(values, epsilon=0.5)
    if found.bound < 900:
        assert found.above == pytest.approx(300, abs=6 * found.hidden)
    result = module.Comparison("a", {"a": found, "b": found}, None, {})
    assert any("lie above" in sentence for sentence in result.warnings) == (found.above > found.hidden)


def test_sampling_error_is_that_of_the_sum():
    values = np.random.default_rng(4).normal(0.1, 0.4, size=50_000)
    found = total(values, n=50_000)
    assert found.sampling == pytest.approx(0.4 * math.sqrt(50_000), rel=0.03)
    assert found.sum == pytest.approx(values.sum(), abs=6 * found.noise)


# through models


@pytest.mark.slow
def test_the_right_model_wins():
    result = dp.compare(pair(), epsilon=20.0, delta=1e-6, reference="none")
    assert list(result.table.index) == ["slope", "none"] and result.probability_better("slope") > 0.9
    assert result.n == N and json.loads(json.dumps(asdict(result)))["reference"] == "none"
    for part in ("slope", "-differential privacy by itself", "in no ledger"):
        assert part in str(result)
    assert "<table" in result._repr_html_()
    # Close to the exact difference.
    with pytest.warns(dp.errors.NotPrivateWarning):
        exact = dp.compare(pair(), epsilon=math.inf, delta=1e-6, reference="none")
    difference = result.totals["slope"].sum - exact.totals["slope"].sum
    assert abs(difference) < 6 * result.totals["slope"].noise
    assert "NOT PRIVATE" in str(exact)


def test_the_ledger_is_charged_before_a_row_is_read(tmp_path, monkeypatch):
    ledger, seen = dp.Ledger(tmp_path / "study.db", 20, 1e-6), []

    def spy(*args):
        seen.append([entry.status for entry in ledger.entries()])
        return log_scores(*args)

    monkeypatch.setattr(module, "log_scores", spy)
    dp.compare(pair(), epsilon=19.9, ledger=ledger, label="slopes")
    assert seen == [["reserved"], ["reserved"]]
    (entry,) = ledger.entries()
    assert entry.status == "confirmed" and entry.label == "slopes"
    assert dp.privacy.compose(entry.events).epsilon(1e-6) <= 19.9
    with pytest.raises(dp.errors.PrivacyBudgetExceeded):
        dp.compare(pair(), epsilon=19.9, ledger=ledger)
    assert len(seen) == 2  # nothing was read


def test_rows_in_another_order_are_refused():
    x, y = data()
    turned = line(x[::-1].copy(), y[::-1].copy(), slope=False)
    models = {"slope": pair()["slope"], "turned": (fit(turned), turned)}
    with pytest.raises(dp.errors.PrivacyError, match="same records in the same order"):
        dp.compare(models, epsilon=20.0, delta=1e-6)


def test_persons_whose_values_differ_are_void():
    rows = SimpleNamespace(n_rows=4, n=2, unit_of_row=np.array([0, 0, 1, 1]))
    first, second = {"y": np.array([1.0, np.nan, 3, 4])}, {"z": np.array([1.0, np.nan, 3, 5])}
    assert differing(rows, first, second).tolist() == [False, True]


def test_what_cannot_be_compared_is_refused():
    fits, (x, y) = pair(), data()
    other = line(x[:-1], y[:-1])
    with pytest.raises(ValueError, match="number of records"):
        dp.compare({**fits, "other": (fits["slope"][0], other)}, epsilon=1.0, delta=1e-6)
    with pytest.raises(dp.errors.PrivacyError, match="another model"):
        dp.compare({"a": (fits["slope"][0], fits["none"][1])}, epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="nothing to compare"):
        dp.compare({}, epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="reference"):
        dp.compare(fits, epsilon=1.0, delta=1e-6, reference="nobody")
    with pytest.raises(TypeError, match="delta"):
        dp.compare(fits, epsilon=1.0)
    with pytest.raises(dp.errors.TooFewRecordsError, match="Nothing was spent"):
        dp.compare(fits, epsilon=0.1, delta=1e-6)
    with pytest.raises(dp.errors.PrivacyError, match="for rows"):
        dp.compare(fits, epsilon=1.0, delta=1e-6, privacy_unit=np.arange(N) // 2)
    with pytest.raises(dp.errors.PrivacyError, match="was changed after it was made"):
        changed = fits["slope"][0].isel(draw=slice(5))
        dp.compare({"a": (changed, fits["slope"][1])}, epsilon=1.0, delta=1e-6)


def test_draws_that_are_not_private_are_refused():
    x, y = data()
    model = line(x, y)
    with pytest.warns(dp.errors.NotPrivateWarning):
        idata = fit(model, debug_seed=3)
    with pytest.raises(dp.errors.PrivacyError, match="not private"):
        dp.compare({"a": (idata, model)}, epsilon=1.0, delta=1e-6)


def test_a_ledger_of_another_relation_is_refused(tmp_path):
    ledger = dp.Ledger(tmp_path / "study.db", 20, 1e-6, "add_remove")
    with pytest.raises(ValueError, match="ledger is for"):
        dp.compare(pair(), epsilon=1.0, ledger=ledger)
    ledger = dp.Ledger(tmp_path / "other.db", 20, 1e-6)
    ledger.record(GaussianDpEvent(0.5))
    with pytest.raises(dp.errors.PrivacyBudgetExceeded):
        dp.compare(pair(), epsilon=15.0, ledger=ledger)


def test_refusals_do_not_say_how_many_records_there_are():
    """Under add_remove that is private, and the exact numbers were in the message."""
    with pytest.raises(ValueError, match="a different number of records") as refused:
        module._same({"a": 1001, "b": 1000}, "number of records")
    assert "100" not in str(refused.value)
    models = []
    for width in (1, 2):
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("b"), 1, observed=np.zeros((77, width)))
        models.append(model)
    with pytest.raises(ValueError, match=r"\(1,\) and \(2,\)") as refused:
        module._comparable(*models)
    assert "77" not in str(refused.value)
