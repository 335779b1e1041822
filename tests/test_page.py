"""The page about a result: what it says, and what it must not show; files that results survive."""

import re
import warnings
from html.parser import HTMLParser

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_dp as dp
from tests.evaluation.fits import data, fit, line, pair


class Balanced(HTMLParser):
    """Every element is closed, in order."""

    VOID = ("meta", "img", "br")

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def text_of(page):
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    return " ".join(" ".join(parser.text).split())


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    ledger = dp.Ledger(folder / "study.db", 60, 1e-6)
    idata, model = pair()["slope"]
    found = dp.check(idata, model, epsilon=5.0, ledger=ledger, cells=4, label="<check>")
    compared = dp.compare(pair(), epsilon=20.0, ledger=ledger, reference="none")
    file = folder / "report.html"
    text = dp.report(idata, file, title="A <study>", ledger=ledger, also=[found, compared])
    assert file.read_text(encoding="utf-8") == text
    return text


def test_the_page_says_what_it_must(page):
    text = text_of(page)
    for part in (
        "A <study>",
        "May be published",
        "each single row",
        "δ = 1e-06",
        "of cases an attacker detects at most",
        "<check>",
        "2 entries",
        "Does the model fit? (y)",
        "Which model predicts better?",
        "Bias and noise",
        "What was assumed and taken as public",
        "All terms of the guarantee",
    ):
        assert part in text, part
    assert page.count("<img") == 4  # spending, profile, posterior, check
    for name in ("b", "sd"):
        assert f"<th>{name}</th>" in page
    # Nothing from elsewhere.
    assert not re.findall(r"(?:src|href)=[\"'](?!data:)", page)
    assert "<script" not in page and "@import" not in page


def test_what_the_attacker_detects_is_bounded_by_both_curves(page):
    share = float(re.search(r"<b>([\d.]+) %</b>", page)[1])
    assert 5 < share <= 100


def test_a_page_of_what_must_not_be_published_shows_no_draw():
    idata, model = pair()["slope"]
    private = idata.copy()
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pm.compute_log_likelihood(private, progressbar=False)
    found = dp.report(private)
    assert "Do not publish this object" in text_of(found) and "log_likelihood" in found
    assert "What was found" not in found
    with pytest.warns(dp.errors.NotPrivateWarning):
        debug = fit(line(*data()), debug_seed=1)
    found = dp.report(debug)
    assert "this run has no guarantee" in text_of(found)
    assert "What was found" not in found and "What is promised" not in found
    changed = idata.isel(draw=slice(10))
    assert "as it stands" in dp.report(changed) and "What was found" not in dp.report(changed)


def test_a_page_about_predictions():
    idata, model = pair()["slope"]
    predicted = dp.predict(idata, model, inputs={"x": [0.0, 0.5]}, random_seed=1)
    found = dp.report(predicted)
    assert "May be published" in found and "<th>y[1]</th>" in found
    text_of(found)


def test_names_are_escaped():
    import pymc as pm

    _, y = data()
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("<b>&", 0, 2), 1, observed=y)
    found = dp.report(fit(model))
    assert "&lt;b&gt;&amp;" in found and "<th><b>&" not in found


@pytest.mark.parametrize("kind", ["netcdf4", "h5netcdf", "zarr"])
def test_results_survive_files(kind, tmp_path):
    idata, _ = pair()["slope"]
    if kind != "netcdf4":
        pytest.importorskip(kind)
    path = tmp_path / "result"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "zarr":
            idata.to_zarr(path)
        else:
            idata.to_netcdf(path, engine=kind)
        read = xr.open_datatree(path, engine=kind)
    assert read.attrs == idata.attrs
    report = dp.privacy_report(read)
    assert report.not_released == [] and not report.changed
    np.testing.assert_array_equal(read.posterior["b"], idata.posterior["b"])
    assert "May be published" in dp.report(read)


def test_arviz_takes_results():
    idata, _ = pair()["slope"]
    assert list(az.summary(idata).index) == ["b", "sd"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("plot_trace", "plot_forest", "plot_dist", "plot_ess", "plot_autocorr", "plot_pair"):
            getattr(az, name)(idata, backend="none")
    assert set(az.extract(idata).data_vars) == {"b", "sd"}
