"""What one record can move each released sum by, the noise that hides it, and nothing else."""

import itertools
import threading

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_dp.control_variates import clipped_rows, record_sums, releases
from pymc_dp.control_variates.clipped_rows import GRID
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.releases import Releases, surrogate_events
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.structure import Structure
from pymc_dp.errors import PrivacyError
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.accountants import exact_gaussian
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.mechanisms.randomness import Gaussian, PrivacyRandom
from pymc_dp.records import curvature_kernels as kernels
from pymc_dp.records import curvature_rows
from pymc_dp.records.model import RecordModel
from tests.control_variates.fixed import RELEASES, SENSITIVITY, D, LogisticRecords, release, some_records

# False-alarm rate of each statistical test.
ALPHA = 1e-6


def extremes():
    """Derivatives of one record: adversarial, enormous, tiny, undefined."""
    e = np.eye(D)
    vectors = [
        np.zeros(D),
        e[0],
        -1e9 * e[1],
        1e9 * e[1],
        np.full(D, 1e300),
        -np.full(D, 1e300),
        1e305 * e[2],
    ]
    vectors += [
        np.full(D, 1e155),
        np.full(D, 1e-310),
        np.array([np.nan, 1, 1]),
        np.array([np.inf, -np.inf, 0.0]),
    ]
    vectors += [np.array([1e308, -1e308, 1e308]), np.full(D, np.inf), 1e100 * e[0], -1e99 * e[0]]
    for v in vectors:
        with np.errstate(all="ignore"):
            yield v, np.outer(v, np.sign(v) + 0.5), v[0]


def grid(kind, values):
    """A release without noise as Python integers, in units of 1 / GRID."""
    if kind in ("hessian", "fisher"):  # unpacked by division with sqrt(2), and packed again
        return [round(float(x) * GRID) for x in values]
    scaled = [float(x) * GRID for x in values]
    assert all(x.is_integer() for x in scaled)
    return [int(x) for x in scaled]


def largest_move(kind):
    """Largest squared distance, in units of 1 / GRID, between two data sets that differ in one record."""
    records, found = some_records(), []
    for gradient, hessian, row in extremes():
        neighbour = records.replaced(gradient, hessian, row)
        found.append(grid(kind, release(kind, neighbour, PrivacyRandom(0))))
    return max(
        sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
        for one, other in itertools.combinations(found, 2)
    )


def allowed(kind):
    return round(SENSITIVITY[kind] ** 2) * GRID**2


@pytest.mark.parametrize("kind", RELEASES)
def test_one_record_moves_a_release_by_its_sensitivity_at_most(kind):
    most = largest_move(kind)
    assert most <= allowed(kind)
    assert most >= 0.9 * allowed(kind)  # and the bound is reached: the test looks where it matters


@pytest.mark.parametrize("kind", ["gradient", "hessian"])
def test_an_unclipped_sum_would_be_noticed(kind, monkeypatch):
    """Control."""
    monkeypatch.setattr(clipped_rows, "factors", lambda vectors, bound: np.ones(len(vectors)))
    monkeypatch.setattr(clipped_rows, "_LARGEST", 1e10)
    assert largest_move(kind) > allowed(kind)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_enormous_derivatives_would_be_noticed(monkeypatch):
    """Control: clipping alone is not enough where a square overflows."""
    monkeypatch.setattr(clipped_rows, "_LARGEST", np.inf)
    with pytest.raises((AssertionError, OverflowError, ValueError)):
        assert largest_move("gradient") <= allowed("gradient")


@pytest.mark.slow
def test_a_record_of_a_model_too():
    """The same through a PyMC model: covariates of one record from 0 to 1e200."""
    x = np.random.default_rng(0).normal(size=(30, 2))
    with pm.Model() as model:
        data = pm.Data("x", x)
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("y", logit_p=data @ beta, observed=np.arange(30) % 2)
    records, found = RecordModel(model), []
    for last in (0.0, 1.0, -1e3, 1e60, -1e200):
        x[-1] = last
        pm.set_data({"x": x}, model=model)
        made = Releases(records, ControlVariates(), np.inf, PrivacyRandom(0))
        made._left = [("gradient", 1.0), ("hessian", 1.0)]
        theta, metric = np.array([0.1, -0.2]), np.diag([0.2, 0.3])
        gradient = made.gradient(theta, metric, np.array([0.1, 0.0]), 0.05)[0] * GRID
        hessian = made.hessian(theta, metric, 0.01)[0] * GRID
        found.append((gradient, hessian))
    moves = [
        [np.linalg.norm(np.subtract(a[k], b[k])) for a, b in itertools.combinations(found, 2)] for k in (0, 1)
    ]
    assert np.max(moves) <= 2 * GRID + 1e-6
    assert min(np.max(m) for m in moves) > 0.5 * GRID


# noise


def standardized(kind, scale=1.0):
    """Noise of releases over what it should be: sensitivity / sqrt(share mu^2)."""
    records, random = some_records(), PrivacyRandom(7)
    mu_squared, share = 0.8, 0.25
    exact = release(kind, records, PrivacyRandom(0))
    stated = SENSITIVITY[kind] / np.sqrt(share * mu_squared)
    made = Releases(records, ControlVariates(), mu_squared, random)
    made._left = [(kind, share)] * 400
    noisy = [RELEASES[kind](made) for _ in range(10 if kind == "histogram" else 400)]
    return scale * np.ravel(np.array(noisy) - exact) / stated


@pytest.mark.parametrize("kind", RELEASES)
def test_noise_has_the_stated_scale(kind):
    assert stats.kstest(standardized(kind), "norm").pvalue > ALPHA
    for scale in (2 / 3, 3 / 2):  # controls
        assert stats.kstest(standardized(kind, scale), "norm").pvalue < ALPHA


# the schedule


class Spy(Releases):
    """Notes the noise that is made, and of which kind of sum."""

    def __init__(self, *args):
        super().__init__(*args)
        self.made = []

    def release(self, kind, *arguments):
        values, noise = super().release(kind, *arguments)
        self.made += [(kind, std) for std in DRAWN]
        assert noise == DRAWN
        DRAWN.clear()
        return values, noise


DRAWN: list = []


class Drawn(Gaussian):
    """Notes what is drawn."""

    def release(self, total, random):
        DRAWN.append(self.std)
        return super().release(total, random)


@pytest.fixture
def drawn(monkeypatch):
    DRAWN.clear()
    monkeypatch.setattr(releases, "Gaussian", Drawn)


def test_what_is_released_is_what_was_paid(drawn):
    """The noise that was made, with the sensitivities tested above, against the events of the plan."""
    settings = ControlVariates()
    once = EventSet(surrogate_events(settings, 30.0, 1e-6), "substitute")
    squared = float(gaussian.mu(30.0, 1e-6)) ** 2
    finder = Finder(LogisticRecords(), settings, squared, PrivacyRandom(3), 1.0, 30.0)
    finder.releases = spy = Spy(finder.records, settings, squared, PrivacyRandom(3))
    finder(np.zeros(2))
    sensitivity = {**SENSITIVITY, "line": 2 * np.sqrt(2 * len(settings.line_steps))}
    made = sum((sensitivity[kind] / std) ** 2 for kind, std in spy.made)
    kinds = [kind for kind, _ in settings.schedule()]
    expected = [made for kind in kinds for made in (("hessian", "gradient") if kind == "pair" else (kind,))]
    assert [kind for kind, _ in spy.made] == expected
    assert finder.releases.finished
    assert made == pytest.approx(exact_gaussian(once).mu ** 2, rel=1e-9)
    assert made == pytest.approx((1 - settings.chain) * squared, rel=1e-9)


def test_a_release_out_of_order_is_refused():
    made = Releases(some_records(), ControlVariates(), 1.0, PrivacyRandom(0))
    with pytest.raises(PrivacyError, match="not a gradient"):
        RELEASES["gradient"](made)
    made._left = []
    for kind in RELEASES:
        with pytest.raises(PrivacyError):
            RELEASES[kind](made)


def test_kept_derivatives_change_nothing(monkeypatch):
    records = some_records()
    first = {kind: release(kind, records, PrivacyRandom(0)) for kind in RELEASES}
    monkeypatch.setattr(record_sums, "KEPT", 0)
    for kind, value in first.items():
        np.testing.assert_array_equal(value, release(kind, records, PrivacyRandom(0)))


@pytest.mark.parametrize("settings", [ControlVariates(), ControlVariates(recentre=False, early=(0.5,))])
def test_passes_are_known_beforehand(settings):
    seen = []
    Finder(
        LogisticRecords(), settings, np.inf, PrivacyRandom(3), 1.0, np.inf, progress=lambda *x: seen.append(x)
    )(np.zeros(2))
    total = releases.passes(settings)
    assert [done for done, _ in seen] == list(range(1, total + 1)) and {of for _, of in seen} == {total}


def found_with(records, monkeypatch, threads=1, ahead=True):
    """A surrogate without noise; passes over the data, and which threads there were."""
    passes, seen = [], set()
    rows_at, whitened = record_sums.rows_at, clipped_rows.ByPredictors.whitened

    def counted(*arguments):
        passes.append(1)
        return rows_at(*arguments)

    def watched(self, *arguments):
        seen.add(threading.get_ident())
        return whitened(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(record_sums, "rows_at", counted)
        patch.setattr(clipped_rows.ByPredictors, "whitened", watched)
        patch.setattr(records, "threads", threads, raising=False)
        if not ahead:
            patch.setattr(Releases, "ahead", lambda self, *requests: None)
        finder = Finder(records, ControlVariates(), np.inf, PrivacyRandom(1), 1.0, np.inf)
        return finder(records._start).to_json(), len(passes), len(seen)


def many_chunks(monkeypatch):
    monkeypatch.setattr(curvature_rows, "_ROWS", 64)
    r = np.random.default_rng(0)
    group, x = r.integers(4, size=700), r.normal(size=700)
    with pm.Model() as model:
        level, slope, scale = pm.Normal("level", shape=4), pm.Normal("slope"), pm.HalfNormal("scale", 2)
        pm.Normal("y", level[group] + slope * x, scale, observed=x + r.normal(size=700))
    return RecordModel(model)


def test_sums_of_a_round_are_made_in_one_pass(monkeypatch):
    """Two passes an early round (histograms, all else), three in the last two of these, which ask the Hessian
    where to clip gradients; two a late round, and two each time the centre of the clip is moved."""
    records = many_chunks(monkeypatch)
    surrogate, passes, _ = found_with(records, monkeypatch)
    assert passes == 6 * 2 + 2 * 3 + 3 * 2 + 2 * 2
    alone, more, _ = found_with(records, monkeypatch, ahead=False)  # control: a pass each
    assert more == 8 * 4 + 3 * 5 + 2 * 2 and alone == surrogate


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 4])
def test_threads_change_no_number(monkeypatch, threads):
    records = many_chunks(monkeypatch)
    one, _, alone = found_with(records, monkeypatch)
    several, _, seen = found_with(records, monkeypatch, threads)
    assert one == several and alone == 1 and seen > 1
    # control: a chunk that a thread loses
    whole = record_sums.in_threads
    monkeypatch.setattr(record_sums, "in_threads", lambda f, parts, k: list(whole(f, parts, k))[1:])
    assert found_with(records, monkeypatch, threads)[0] != one


def test_what_a_thread_raises_is_raised():
    def fails(part):
        raise PrivacyError("said")

    with pytest.raises(PrivacyError, match="said"):
        list(record_sums.in_threads(fails, range(9), 2))


def test_only_sums_at_one_point_are_made_together():
    records, point, metric = some_records(), np.zeros(D), np.eye(D)
    sums = record_sums.RecordSums(records, Structure(np.zeros(D)))
    for second in (
        ("hessian", (point.copy(), metric, 1.0)),
        ("line", (point, metric)),
        ("_rows", (point, metric)),
    ):
        with pytest.raises(PrivacyError, match="one point"):
            sums.ahead([("gradient", (point, metric, point, 1.0)), second])


def test_ratios_of_a_line_search_are_clipped_and_truncated():
    r = np.random.default_rng(0)
    new, base = 2 * r.normal(size=(2, 3000))
    new[:8] = [np.nan, np.inf, -np.inf, 1e300, -1e300, base[5], base[6] + 1e-9, base[7] - 1e-9]
    base[8:12] = [np.nan, np.inf, -np.inf, 0.0]
    new[9:11] = base[9:11]  # undefined
    for tempering in (1.0, 0.3):
        with np.errstate(all="ignore"):
            ratio = np.nan_to_num(tempering * (new - base), nan=-1.0)
        each = np.trunc(np.clip(ratio, -1, 1) * GRID).astype(np.int64)
        assert kernels.sum_of_ratios(new, base, tempering, float(GRID)) == each.sum()
        for i in range(20):
            assert kernels.sum_of_ratios(new[i : i + 1], base[i : i + 1], tempering, float(GRID)) == each[i]
