"""`Prepare` as its users see it."""

import json
import sys
import threading
import time
import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.prepare import fitting, transformer
from pymc_dp.prepare.grid import Cells
from pymc_dp.prepare.transformer import OTHER

N = 4000
COLUMNS = {
    "dollars": dp.Numeric(indicator=True),
    "year": "numeric",
    "share": dp.Numeric(bounds=(0, 1)),
    "region": "category",
    "sex": dp.Category(levels=("f", "m")),
    "smoker": "boolean",
}


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "dollars": np.exp(rng.normal(11, 0.5, n)),
            "year": rng.integers(1950, 2021, n),
            "share": rng.beta(2, 5, n),
            "region": rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2]),
            "sex": rng.choice(["f", "m"], n),
            "smoker": rng.random(n) < 0.2,
            "not declared": 1.0,
        }
    )
    frame.loc[rng.random(n) < 0.1, "dollars"] = np.nan
    frame.loc[:4, "region"] = [f"person {k}" for k in range(5)]  # would identify somebody
    return frame


@pytest.fixture(scope="module")
def fitted():
    return dp.Prepare(COLUMNS, epsilon=4.0, delta=1e-6).fit(table())


def test_scales_that_nobody_knew(fitted):
    """The median of five fits: one in about 1,000 is off, as noise in an empty cell moves a bound."""
    frame, rows = table(), fitted.transform(table())
    assert list(rows.columns) == [
        "dollars", "dollars_missing", "year", "share", "region", "sex", "smoker"
    ]  # fmt: skip
    fits = [fitted, *(dp.Prepare(COLUMNS, epsilon=4.0, delta=1e-6).fit(table()) for _ in range(4))]
    for name in ("dollars", "year"):
        found = [made.constants_[name] for made in fits]
        assert np.median([c.centre for c in found]) == pytest.approx(frame[name].mean(), rel=0.1)
        assert np.median([c.scale for c in found]) == pytest.approx(frame[name].std(), rel=0.15)
        scaled = [made.transform(frame)[name] for made in fits]
        assert abs(np.median([x.mean() for x in scaled])) < 0.2
        assert 0.8 < np.median([x.std() for x in scaled]) < 1.2
    assert (rows["dollars_missing"] == frame["dollars"].isna()).all()
    assert (rows.loc[frame["dollars"].isna(), "dollars"] == 0).all()
    assert fitted.coords["region"] == [OTHER, "north", "south", "west"]
    assert (rows["region"][:5] == 0).all() and (rows["region"][5:] > 0).all()
    assert (rows["sex"] == 1 + (frame["sex"] == "m")).all() and (rows["smoker"] == frame["smoker"]).all()


def test_intervals_cover(fitted):
    """21 statistics, 6 deviations of the noise each: one is missed once in 10**7 runs."""
    frame, z = table(), 6.0
    for name in ("dollars", "year", "share"):
        c, values = fitted.constants_[name], frame[name].dropna()
        clipped = values.clip(c.lower, c.upper)
        assert abs(c.mean - clipped.mean()) < z * c.mean_noise
        assert abs(c.std - clipped.std()) < z * c.std_noise
        assert abs(c.count - len(values)) < z * c.count_noise
        for share in (0.05, 0.5, 0.9):
            value, lower, upper = c.cells.quantile(share, z)
            assert lower <= values.quantile(share) <= upper and lower <= value <= upper
    counts = frame["region"].value_counts()
    c = fitted.constants_["region"]
    assert all(abs(a - counts[k]) < z * c.count_noise for k, a in zip(c.levels, c.counts, strict=True))


@pytest.mark.slow
def test_noise_that_is_stated_is_the_noise():
    """Mean squared z-scores of 300 releases: outside of the range once in 10**6; noise a half off, never."""
    rng = np.random.default_rng(3)
    data = {"x": rng.normal(10, 3, 500), "l": rng.choice(["a", "b"], 500)}
    data["x"][:50] = np.nan
    known = data["x"][50:].clip(0, 20)
    scores, runs = [], 300
    for _ in range(runs):
        made = dp.Prepare(
            {"x": dp.Numeric(bounds=(0, 20)), "l": dp.Category(levels=("a", "b"))}, epsilon=8.0, delta=1e-6
        ).fit(data)
        x, levels = made.constants_["x"], made.constants_["l"]
        scores.append(
            [
                (x.mean - known.mean()) / x.mean_noise,
                (x.std - known.std()) / x.std_noise,
                (x.count - 450) / x.count_noise,
                (levels.counts[0] - (data["l"] == "a").sum()) / levels.count_noise,
            ]
        )
    low, high = stats.chi2(runs).ppf([1.25e-7, 1 - 1.25e-7]) / runs
    spread = np.mean(np.square(scores), axis=0)
    assert (low < spread).all() and (spread < high).all()
    assert not ((low < spread * 1.5**2) & (spread * 1.5**2 < high)).any()


def test_quantile_of_cells_covers():
    """Noise of the cells alone: 2000 tables, 95 per cent; fewer than 92 per cent once in 10**7."""
    rng = np.random.default_rng(5)
    values, edges = rng.normal(size=1000), np.linspace(-4, 4, 41)
    exact = np.histogram(values, np.r_[-np.inf, edges, np.inf])[0]
    truth, covered, narrow = np.quantile(values, 0.3), 0, 0
    for _ in range(2000):
        noisy = Cells(tuple(edges), tuple(exact + rng.normal(0, 8, len(exact))), 8.0)
        value, lower, upper = noisy.quantile(0.3, 1.959964)
        covered += lower <= truth <= upper
        narrow += lower <= value <= upper
    assert covered > 0.92 * 2000 and narrow == 2000


def test_rows_are_transformed_one_by_one(fitted):
    frame = table(40, seed=2).astype(object)
    frame.iloc[3] = ["junk", "1999", np.inf, 3.0, "x" * 1000, "maybe", None]
    whole = fitted.transform(frame)
    single = pd.concat([fitted.transform(frame.iloc[[k]]) for k in range(40)])
    pd.testing.assert_frame_equal(whole, single)
    others = frame.copy()
    others.iloc[4:] = object()
    pd.testing.assert_frame_equal(fitted.transform(others).iloc[:4], whole.iloc[:4])
    assert np.isfinite(whole.to_numpy(dtype=float)).all()


@pytest.mark.parametrize("kind", ["dict", "strings"])
def test_tables_of_all_kinds(fitted, kind):
    frame = table(60, seed=4)
    expected = fitted.transform(frame)
    if kind == "dict":
        given = {name: frame[name].to_numpy() for name in frame} | {"region": list(frame["region"])}
    else:
        given = frame.astype(str)
    rows = fitted.transform(given)
    for name in expected:
        np.testing.assert_allclose(np.asarray(rows[name]), expected[name], rtol=1e-12)


def test_charged_before_anything_is_read(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(fitting.read, "numbers_of", lambda c: read.append(len(ledger.entries())) or c)
    ledger = dp.Ledger(tmp_path / "study.db", epsilon=1.0, delta=1e-6)
    made = dp.Prepare({"year": "numeric"}, epsilon=0.2, ledger=ledger)
    made.fit(table(50))
    (entry,) = ledger.entries()
    assert read == [1] and entry.events == made.events and entry.status == "confirmed"
    with pytest.raises(dp.errors.BudgetError, match="is paid for"):
        made.fit(table(50))
    with pytest.raises(dp.errors.PrivacyBudgetExceeded):
        dp.Prepare({"year": "numeric"}, epsilon=1.0, ledger=ledger).fit(table(50))
    assert len(read) == 1 and len(ledger.entries()) == 1


@pytest.mark.parametrize("alone", [True, False], ids=["locked", "control"])
def test_two_threads_do_not_release_twice_for_one_price(alone, tmp_path, monkeypatch):
    """Both ask before either has paid: one is refused. Without the lock both are charged and release."""
    asked, refused, reserve = threading.Barrier(2), [], dp.Ledger.reserve

    def slow(*arguments, **kwargs):
        time.sleep(0.2)
        return reserve(*arguments, **kwargs)

    def fit():
        asked.wait()
        try:
            made.fit(table(50))
        except dp.errors.BudgetError as error:
            refused.append(str(error))

    monkeypatch.setattr(dp.Ledger, "reserve", slow)
    if not alone:
        monkeypatch.setattr(transformer, "_PAYING", nullcontext())
    ledger = dp.Ledger(tmp_path / "study.db", epsilon=1.0, delta=1e-6)
    made = dp.Prepare({"smoker": "boolean"}, epsilon=0.2, ledger=ledger)
    threads = [threading.Thread(target=fit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(ledger.entries()), len(refused)) == ((1, 1) if alone else (2, 0))
    assert all("is paid for" in said for said in refused)


def test_a_refusal_of_the_ledger_leaves_it_unpaid(tmp_path):
    ledger = dp.Ledger(tmp_path / "study.db", epsilon=0.1, delta=1e-6)
    made = dp.Prepare({"smoker": "boolean"}, epsilon=0.2, ledger=ledger)
    for _ in range(2):
        with pytest.raises(dp.errors.PrivacyBudgetExceeded):
            made.fit(table(50))


def test_a_failure_after_the_charge_says_nothing(tmp_path, monkeypatch):
    def broken(values):
        raise ValueError(f"secret {values[0]}")

    monkeypatch.setattr(fitting.read, "numbers_of", broken)
    ledger = dp.Ledger(tmp_path / "study.db", epsilon=1.0, delta=1e-6)
    with pytest.raises(dp.errors.PrivacyError) as found:
        dp.Prepare({"year": "numeric"}, epsilon=0.2, ledger=ledger).fit(table(50))
    assert "secret" not in str(found.value) and found.value.__cause__ is None
    assert len(ledger.entries()) == 1


def test_public_form(fitted):
    again = dp.Prepare.from_json(fitted.to_json())
    pd.testing.assert_frame_equal(again.transform(table(30)), fitted.transform(table(30)))
    assert again.events == fitted.events and again.to_json() == fitted.to_json()
    pd.testing.assert_frame_equal(again.summary(), fitted.summary())
    with pytest.raises(dp.errors.BudgetError):
        again.fit(table(30))
    broken = json.loads(fitted.to_json())
    broken["constants"]["year"]["class"] = "os.system"
    for text in ("{}", "[]", json.dumps(broken), "no json"):
        with pytest.raises(ValueError):
            dp.Prepare.from_json(text)


@pytest.mark.parametrize(("relation", "warns"), [("substitute", True), ("add_remove", False)])
def test_a_delta_that_may_publish_a_row_is_warned_of(relation, warns):
    """Where n is public; before anything is paid."""
    prepare = dp.Prepare(
        {"a": dp.Category(levels=["x", "y"])}, epsilon=1.0, delta=0.2, neighboring_relation=relation
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prepare.fit({"a": ["x", "y"] * 5})
    assert any("not below 1 / n" in str(one.message) for one in caught) is warns


def test_persons():
    """With ids, a person's first row counts; other rows of hers change nothing that is summed."""
    frame = {"x": [1.0, 9.0, 2.0, 9.0, 3.0]}
    made = dp.Prepare({"x": dp.Numeric(bounds=(0, 10))}, epsilon=1e4, delta=1e-6)
    made.fit(frame, privacy_unit=["a", "a", "b", "b", "c"])
    seen = made.constants_["x"]
    assert seen.mean == pytest.approx(2.0, abs=0.5) and seen.count == pytest.approx(3, abs=0.5)


def test_n_is_not_used_where_it_is_private():
    frame = {"x": np.zeros(100)}
    made = dp.Prepare(
        {"x": dp.Numeric(bounds=(-1, 1))}, epsilon=100.0, delta=1e-6, neighboring_relation="add_remove"
    )
    constants = made.fit(frame).constants_["x"]
    assert constants.count != 100 - constants.missing and str(100) not in json.loads(made.to_json())


def test_a_scaled_model_has_the_posterior_of_the_unscaled_one(fitted):
    """Normal regression, in closed form: beta = scale-back of gamma, priors transformed with it."""
    frame = table(500).dropna()
    names = ("year", "share")
    c = [fitted.constants_[name] for name in names]
    rows = fitted.transform(frame)
    raw = np.column_stack(
        [
            np.ones(len(frame)),
            *(frame[n].clip(k.lower, k.upper) for n, k in zip(("year", "share"), c, strict=True)),
        ]
    )
    scaled = np.column_stack([np.ones(len(frame)), rows["year"], rows["share"]])
    y = frame["dollars"] / 1e4
    back = np.array([[1, *(-k.centre / k.scale for k in c)], [0, 1 / c[0].scale, 0], [0, 0, 1 / c[1].scale]])

    def posterior(X, mean, cov):
        precision = np.linalg.inv(cov) + X.T @ X
        return np.linalg.solve(precision, np.linalg.solve(cov, mean) + X.T @ y), np.linalg.inv(precision)

    mean, cov = np.array([1.0, 0.5, -0.5]), np.diag([4.0, 1.0, 2.0])
    m, v = posterior(scaled, mean, cov)
    m_raw, v_raw = posterior(raw, back @ mean, back @ cov @ back.T)
    np.testing.assert_allclose(back @ m, m_raw, rtol=1e-6)
    np.testing.assert_allclose(back @ v @ back.T, v_raw, rtol=1e-5, atol=1e-12)
    restored = fitted.inverse_transform(
        {"share": rows["share"].to_numpy(), "region": rows["region"].to_numpy()}
    )
    np.testing.assert_allclose(restored["share"], raw[:, 2], rtol=1e-9)
    assert set(restored["region"]) <= set(fitted.coords["region"])


def test_too_little_is_said():
    with pytest.warns(dp.errors.NoisySummaryWarning, match="'x'"):
        made = dp.Prepare({"x": "numeric"}, epsilon=0.01, delta=1e-6).fit({"x": np.arange(20.0)})
    assert not made.constants_["x"].reliable and made.constants_["x"].scale > 0
    assert np.isfinite(made.transform({"x": [5.0, None]})["x"]).all()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"columns": {}}, TypeError),
        ({"columns": {"x": "number"}}, TypeError),
        ({"columns": {3: "numeric"}}, TypeError),
        ({"epsilon": None}, TypeError),
        ({"epsilon": np.inf}, ValueError),
        ({"epsilon": -1}, ValueError),
        ({"delta": None}, TypeError),
        ({"neighboring_relation": "both"}, ValueError),
        ({"ledger": "study.db"}, TypeError),
    ],
)
def test_arguments(arguments, error):
    with pytest.raises(error):
        dp.Prepare(**({"columns": {"x": "numeric"}, "epsilon": 1.0, "delta": 1e-6} | arguments))


def test_declarations():
    for bad in ((1, 0), (0, np.nan), 3, (1e9, 1e9 + 0.1), "ab"):
        with pytest.raises(ValueError):
            dp.Numeric(bounds=bad)
    for bad in ("ab", [], [1, "1"], [None]):
        with pytest.raises(ValueError):
            dp.Category(levels=bad)
    assert dp.Category(levels=[1, 2.0]).levels == ("1", "2")


def test_tables_that_are_none():
    made = dp.Prepare({"x": "numeric"}, epsilon=1.0, delta=1e-6)
    for bad in (np.zeros((3, 1)), None, [1, 2]):
        with pytest.raises(TypeError):
            made.fit(bad)
    for bad in ({"y": [1]}, {"x": np.zeros((2, 2))}, pd.DataFrame([[1, 2]], columns=["x", "x"])):
        with pytest.raises(ValueError):
            made.fit(bad)
    assert not hasattr(made, "constants_")
    with pytest.raises(TypeError, match="A column is"):
        made.fit({"x": "abc"})
    with pytest.raises(dp.errors.PrivacyError, match="not fitted"):
        made.transform({"x": [1.0]})


def test_ledgers_that_do_not_fit(tmp_path):
    other = dp.Ledger(tmp_path / "a.db", epsilon=1.0, delta=1e-6, neighboring_relation="add_remove")
    with pytest.raises(ValueError, match="add_remove"):
        dp.Prepare({"x": "numeric"}, epsilon=0.5, ledger=other, neighboring_relation="substitute")
    assert dp.Prepare({"x": "numeric"}, epsilon=0.5, ledger=other).events.neighboring_relation == "add_remove"
    gaussian = dp.Ledger(tmp_path / "b.db", epsilon=1.0, delta=1e-6, accounting="gaussian")
    with pytest.raises(ValueError, match="discrete"):
        dp.Prepare({"x": "numeric"}, epsilon=0.5, ledger=gaussian)


def test_without_opendp(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(ImportError, match=r"pymc-dp\[prepare\]"):
        dp.Prepare({"x": "numeric"}, epsilon=1.0, delta=1e-6).fit({"x": [1.0, 2.0]})


def test_columns_of_levels_leave_the_rest_of_a_ledger_to_others(tmp_path):
    """Five columns took all excluded probability: the ledger was locked, and said that .9 remained."""
    columns = {f"c{k}": np.arange(200) % 3 for k in range(8)}
    ledger = dp.Ledger(tmp_path / "study.db", epsilon=1.0, delta=1e-6)
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dp.errors.NoisySummaryWarning)
            dp.Prepare(dict.fromkeys(columns, "category"), epsilon=0.1, ledger=ledger).fit(columns)
    assert len(ledger.entries()) == 3 and 0.5 < ledger.remaining() < 0.95
