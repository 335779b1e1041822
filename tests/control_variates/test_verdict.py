"""What is said of what clips cut, what is refused, and that it is refused for a reason."""

import dataclasses
import functools
import json
import re
import warnings
from types import SimpleNamespace

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.control_variates import verdict
from pymc_dp.control_variates.by_parameter import ByParameter
from pymc_dp.control_variates.curvature import prior_curvature
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.control_variates.verdict import (
    _ROOM,
    Cut,
    judge_acceptance,
    judge_cut,
    judge_gradients,
    judge_price,
    judge_shown,
    records_needed,
)
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from tests.control_variates.fixed import Identity, LogisticRecords
from tests.control_variates.hard_models import make

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
N, EPSILON = 50_000, 1.0


@functools.cache
def linear(seed):
    """Records of a linear model, and its exact posterior's mode and standard deviations."""
    records, truth = make("linear", N, seed)
    return records, *records.laplace(truth)


def found(seed):
    """Of a linear model's surrogate the mode's error by parameter in posterior sd, and what was cut."""
    records, mode, sd = linear(seed)
    squared = float(gaussian.mu(EPSILON, 1e-6)) ** 2
    surrogate = Finder(records, ControlVariates(), squared, PrivacyRandom(seed), 1.0, EPSILON)(records.start)
    prior, jacobian = prior_curvature(records, surrogate.point), np.eye(records.d)
    slope, curvature = surrogate.public()
    gradient = slope + records.log_prior_gradient(surrogate.point)
    own = surrogate.point + np.linalg.solve(prior - curvature, gradient)
    widened = np.sqrt(np.diag(np.linalg.inv(prior - curvature))) / sd
    return (own - mode) / sd, widened, ByParameter(surrogate, prior, jacobian).cut()


@pytest.mark.slow
def test_scales_are_where_the_widened_target_says():
    """Linear models, epsilon 1: log sigma was -4 sd off, with records of a noisy tail taken as absent."""
    errors, widened, cuts = zip(*[found(seed) for seed in range(8)], strict=True)
    # Of the private posterior's mean about the exact one, the excess variance is what it was widened by.
    expected = np.sqrt(np.square(widened) - 1)
    z = np.array(errors) / expected
    assert stats.chi2.sf(np.sum(z**2), z.size) > 1e-6
    assert abs(np.mean(z[:, -1])) < 4.9 / np.sqrt(8)  # log sigma: 1e-6
    assert np.max(widened) < 1.6
    left = np.array([c[1] for c in cuts])
    assert 0.02 < left.min() and left.max() < 1


@pytest.mark.slow
def test_a_tail_taken_as_absent_would_be_noticed(monkeypatch):
    """Control: bounds at the last visible cell, nothing put back."""
    from pymc_dp.control_variates import finder
    from pymc_dp.control_variates.tails import Cut as Put

    def visible(self, noise, size, layer=0.0):
        return self._histogram.edge(self._top + 1) / 1.5

    monkeypatch.setattr(finder.Tail, "best_bound", visible)
    monkeypatch.setattr(
        finder, "put_back", lambda layer, *rest: Put(0 * layer, np.zeros((layer.size, layer.size)), 0.0)
    )
    monkeypatch.setattr(finder, "judge_gradients", lambda disagreement, size: None)
    errors, widened, _ = zip(*[found(seed) for seed in range(8)], strict=True)
    z = np.array(errors) / np.sqrt(np.square(widened) - 1 + 1e-3)
    assert stats.chi2.sf(np.sum(z**2), z.size) < 1e-6


# refusals


def cut(*left):
    none, names = [0.0] * len(left), [f"b[{k}]" for k in range(len(left))]
    return Cut(names, none, list(left), [1.0] * len(left), none, none, [1.0] * len(left))


def test_what_is_said_and_what_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge_cut(cut(0.1, 0.29))
        judge_cut(cut())
    with pytest.warns(dp.ClippedRecordsWarning, match=r"deviation\): b\[2\] \(0\.9 sd\), b\[1\]") as caught:
        judge_cut(cut(0.1, 0.4, 0.9))
    assert "b[0]" not in str(caught[0].message)
    with pytest.raises(dp.ClippedRecordsError, match=r"b\[1\] \(1\.2 sd\)"):
        judge_cut(cut(0.4, 1.2))
    with pytest.raises(dp.ClippedRecordsError, match="and 3 more"):
        judge_cut(cut(*[2.0] * 8))
    with pytest.raises(dp.PrivacyError):
        judge_cut(cut(*[2.0] * 8))


def shown(*shares):
    return cut(*[0.0] * len(shares))._replace(shown=list(shares))


def test_information_that_gradients_do_not_show():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge_shown(shown(1.0, 0.76), 0.5)
        judge_shown(shown(0.2), 0.1)
        judge_shown(shown(), 0.5)
    with pytest.warns(dp.ClippedRecordsWarning, match=r"about: b\[1\] \(60%\)\. Either") as caught:
        judge_shown(shown(0.9, 0.6, 1.0), 0.5)
    assert "b[0]" not in str(caught[0].message)
    with pytest.raises(dp.ClippedRecordsError, match=r"b\[1\] \(2%\), b\[0\] \(60%\)"):
        judge_shown(shown(0.6, 0.02, 1.0), 0.5)


def surrogate_that_shows(shares, noise=0.0):
    """Three entries with an information of .9, .9 and .05, of which clipped gradients show these shares."""
    information = np.array([0.9, 0.9, 0.05])
    metric = np.diag([0.1, 0.2, 1.0])
    root = np.linalg.inv(metric)
    none = np.zeros(3)
    curvature = -root @ np.diag(information) @ root
    known = Surrogate(none, none, metric, none, 1.0, 1.0, none, np.eye(3), curvature, noise, tempering=1.0)
    return dataclasses.replace(known, seen=np.diag(information * shares), seen_noise=noise)


def test_what_is_shown_is_by_parameter_and_beyond_doubt():
    prior = np.diag([10.0, 2.5, 0.95])
    few = np.array([0.3, 1.2, 0.0])
    # The last one's prior says nearly all of it: nothing is asked for.
    np.testing.assert_allclose(shown_of(few, prior, np.eye(3)), [0.3, 1.0, 1.0])
    # Parameters in another order, and a sum.
    jacobian = np.array([[0, 1.0, 0], [1.0, 0, 0], [0, 0, 1.0]])
    np.testing.assert_allclose(shown_of(few, np.eye(3), jacobian), [1.0, 0.3, 1.0])
    noisy = ByParameter(surrogate_that_shows(few, 0.05), prior, np.eye(3)).shown()
    assert noisy[0] == pytest.approx((0.27 + 0.125) / (0.9 - 0.125)) and noisy[1] == 1
    # So much noise that nothing could be told: that is said, and not "all".
    assert np.isnan(ByParameter(surrogate_that_shows(few, 0.15), prior, np.eye(3)).shown()[0])


def test_what_noise_hides_is_said_where_records_are_missing():
    unknown = shown(1.0, np.nan)
    surrogate = surrogate_that_shows(np.ones(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge_shown(unknown, 0.5)
        verdict.judge_missing(surrogate, unknown)
        verdict.judge_missing(dataclasses.replace(surrogate, missing=1.0), shown(1.0, 0.9))
    with pytest.warns(dp.ClippedRecordsWarning, match=r"for: b\[1\]\. More"):
        verdict.judge_missing(dataclasses.replace(surrogate, missing=1.0), unknown)


def test_a_direction_that_is_spread_over_parameters_is_asked_for():
    """A rare reference class: what is missing is in the sum of all, and each entry shows nearly all."""
    p = 8
    v = np.ones(p) / np.sqrt(p)
    metric, none = 0.1 * np.eye(p), np.zeros(p)
    curvature = -0.98 * np.linalg.inv(metric) @ np.linalg.inv(metric)
    known = Surrogate(none, none, metric, none, 1.0, 1.0, none, np.eye(p), curvature, 0.01, tempering=1.0)
    seen = 0.98 * (np.eye(p) - np.outer(v, v))
    known = dataclasses.replace(known, seen=seen, seen_noise=0.01)
    shown = ByParameter(known, 2 * np.eye(p), np.eye(p)).shown()
    assert np.diag(seen).min() > 0.85 and shown.min() < 0.15


def shown_of(few, prior, jacobian):
    return ByParameter(surrogate_that_shows(few), prior, jacobian).shown()


def test_how_much_wider_a_posterior_may_be_for_clipped_hessians():
    p, left, prior = 4, 0.3, 0.4 * np.eye(4)
    root, metric = np.random.default_rng(0).normal(size=(2, p, p))
    information, inverse = root @ root.T, np.linalg.inv(metric)
    known = Surrogate(
        np.zeros(p), np.zeros(p), metric, np.zeros(p), 1.0, 1.0, np.zeros(p), np.eye(p),
        -information, 0.0, tempering=1.0, hessian_left=left,
    )  # fmt: skip
    most = ByParameter(known, prior, np.eye(p)).wider()
    sd = np.sqrt(np.diag(np.linalg.inv(information + prior)))
    directions = np.random.default_rng(1).normal(size=(20_000, p))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    cuts = left * np.einsum("ia,na,nb,bj->nij", inverse, directions, directions, inverse.T)
    exact = np.sqrt(np.diagonal(np.linalg.inv(information + prior + cuts), axis1=1, axis2=2))
    ratios = (sd / exact - 1).max(axis=0)
    assert np.all(ratios <= most)
    assert np.all(ratios > 0.9 * most)


def test_what_the_surrogate_does_not_tell_is_said():
    """Information 0, of a tenth and of nine times the prior's; and a prior that is not log-concave."""
    prior, none = np.array([4.0, 4.0, 4.0]), np.zeros(3)
    information = np.array([1e-9, 0.4, 36.0])
    metric = np.diag(1 / np.sqrt(prior + information))
    known = Surrogate(
        none, none, metric, none, 1.0, 1.0, none, np.eye(3), np.diag(-information), 0.0, tempering=1.0
    )  # fmt: skip
    told = ByParameter(known, np.diag(prior), np.eye(3)).told()
    np.testing.assert_allclose(told, [0.0, 0.4 / 4.4, 0.9], atol=1e-6)
    assert ByParameter(known, np.diag([-1.0, 4.0, 4.0]), np.eye(3)).told()[0] > 0.9
    with pytest.warns(dp.SurrogateWarning, match=r"next to nothing about: b\[0\], b\[1\]\. Their"):
        verdict.judge_told(cut(0.0, 0.0, 0.0)._replace(told=told.tolist()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verdict.judge_told(cut(0.0, 0.0, 0.0)._replace(told=[0.11, 0.5, 1.0]))


def leaning(prior_sd, noise):
    """Two parameters, N(3, 0.1^2) by the likelihood of a prior N(0, prior_sd^2), with a noisy gradient."""
    metric, none, here = 0.1 * np.eye(2), np.zeros(2), np.full(2, 3.0)
    noisy, curvature = noise * 100.0 * np.eye(2), -100.0 * np.eye(2)
    known = Surrogate(here, here, metric, none, 1.0, 1.0, none, noisy, curvature, 0.0, tempering=1.0)
    prior = np.eye(2) / prior_sd**2
    return known, ByParameter(known, prior, np.eye(2)).towards_prior(-prior @ here), prior


def test_a_prior_that_the_widened_likelihood_gives_way_to():
    known, moved, prior = leaning(0.05, 0.2)
    exact = 3.0 - np.linalg.solve(100 * np.eye(2) + prior, prior @ np.full(2, 3.0))
    slope, curvature = known.public()
    widened = 3.0 + np.linalg.solve(prior - curvature, slope - prior @ np.full(2, 3.0))
    own = np.sqrt(np.diag(np.linalg.inv(prior - curvature)))
    np.testing.assert_allclose(moved, (widened - exact) / own, rtol=1e-6)
    assert np.all(moved < -1)
    assert np.all(np.abs(leaning(2.0, 0.2)[1]) < 0.02)
    assert np.all(np.abs(leaning(0.05, 1e-9)[1]) < 1e-6)
    with pytest.warns(dp.SurrogateWarning, match=r"b\[1\] \(-1\.2 sd\)\. Check"):
        verdict.judge_prior(cut(0.0, 0.0)._replace(towards_prior=[0.1, -1.2]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verdict.judge_prior(cut(0.0, 0.0)._replace(towards_prior=[0.1, -0.2]))


def test_a_curvature_that_was_another_before_is_refused():
    here = surrogate_that_shows(np.ones(3))
    arguments = (np.eye(3), np.zeros(3), np.eye(3), 1000, 1.0)
    assert "curvature" not in (here.problem(*arguments) or "")
    there = dataclasses.replace(here, hessian=3 * here.hessian, gradient_noise=5.0 * np.eye(3))
    assert "curvature at the last point is 2.7 times" in there.problem(*arguments)
    # With little noise the surrogate is used where it was made.
    exact = dataclasses.replace(there, gradient_noise=1e-6 * np.eye(3))
    assert "curvature" not in (exact.problem(*arguments) or "")


def test_a_surrogate_that_is_used_far_from_where_it_was_made():
    here = dataclasses.replace(surrogate_that_shows(np.ones(3)), gradient_noise=1e-2 * np.eye(3))
    curvature, sd = np.diag([90.0 + 10, 22.5 + 2.5, 1.0]), np.array([0.1, 0.2, 1.0])
    prior = curvature + here.hessian
    for moved, warned in ((0.9, False), (1.5, True)):
        there = dataclasses.replace(here, gradient=np.array([moved / sd[0], 0.0, 0.0]))
        distance, spread = there.place(prior, np.zeros(3), np.eye(3))
        assert distance == pytest.approx(moved) and 0 < spread < 0.2
        records = SimpleNamespace(coordinates=Identity(3), log_prior_gradient=lambda theta: -prior @ theta)
        if warned:
            with pytest.warns(dp.SurrogateWarning, match="1.5 posterior standard deviations"):
                verdict.judge_place(there, records)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                verdict.judge_place(there, records)


def test_gradients_that_contradict_each_other():
    judge_gradients(5.0, 6)
    judge_gradients(_ROOM * stats.chi2.isf(1e-9, 6) - 1, 6)
    for bad in (_ROOM * stats.chi2.isf(1e-9, 6) + 1, np.nan, np.inf):
        with pytest.raises(dp.ContradictionError, match="contradict"):
            judge_gradients(bad, 6)


def test_an_acceptance_that_no_noise_explains():
    judge_acceptance(300, 500, 0.617)
    judge_acceptance(0, 10, 0.617)  # ten moves say nothing
    judge_acceptance(31, 500, 0.617)  # a tenth
    for accepted in (0, 2, 14):
        with pytest.raises(dp.ContradictionError, match=f"accepted {accepted} of 500"):
            judge_acceptance(accepted, 500, 0.617)


def test_gradients_of_nothing_are_refused():
    """Gradients that are not those of a log-likelihood near a quadratic: released numbers say so."""
    records, _ = make("linear", 4000, 0)
    exact = records.first_and_second

    def wrong(phi, some):
        gradient, hessian = exact(phi, some)
        return gradient + 0.5 * np.sign(np.sin(1e4 * phi.sum())), hessian

    records.first_and_second = wrong
    with pytest.raises(dp.PrivacyError):
        Finder(records, ControlVariates(), 1e4, PrivacyRandom(0), 1.0, 100.0)(records.start)


# calls that cannot succeed

SETTINGS = ControlVariates()


def goes_through(n, epsilon, seed):
    records, squared = LogisticRecords(n=n, d=4, seed=seed), float(gaussian.mu(epsilon, 1e-6)) ** 2
    try:
        Finder(records, SETTINGS, squared, PrivacyRandom(seed), 1.0, epsilon)(np.zeros(4))
    except dp.TooFewRecordsError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_number_that_would_do_does(epsilon):
    """Within a factor of 1.5; and what the price refuses fails."""
    least, enough = records_needed(SETTINGS, float(gaussian.mu(epsilon, 1e-6)) ** 2)
    assert sum(goes_through(int(1.5 * enough), epsilon, seed) for seed in range(8)) >= 6
    assert sum(goes_through(int(enough / 2.25), epsilon, seed) for seed in range(8)) <= 2
    assert not any(goes_through(int(least), epsilon, seed) for seed in range(8))


def test_few_records_have_a_schedule_of_their_own():
    """From public numbers; what the user gave is kept, and so is a schedule for many records."""
    few = SETTINGS.suited(3000, 0.2)
    assert len(few.early) < len(SETTINGS.early) and few.early_histogram > SETTINGS.early_histogram
    assert sum(share for _, share in few.schedule()) == pytest.approx(1 - few.chain)
    assert few.suited(3000, 0.2) == few
    assert SETTINGS.suited(50_000, 0.05) is SETTINGS and SETTINGS.suited(3000, np.inf) is SETTINGS
    own = ControlVariates(early_line=0.004)
    assert own.suited(3000, 0.2) is own
    assert ControlVariates(hessian_bound=0.25).suited(3000, 0.2).hessian_bound == 0.25


@pytest.mark.slow
def test_few_records_are_not_refused():
    """3,000 records at epsilon 2: few of the calls were not refused; posteriors are wide, and right."""
    squared, z = float(gaussian.mu(2.0, 1e-6)) ** 2, []
    for seed in range(8):
        records, truth = make("linear", 3000, seed)
        settings = SETTINGS.suited(3000, squared)
        try:
            surrogate = Finder(records, settings, squared, PrivacyRandom(seed), 1.0, 2.0)(records.start)
        except dp.TooFewRecordsError:
            continue
        mode, sd = records.laplace(truth)
        prior = prior_curvature(records, surrogate.point)
        slope, curvature = surrogate.public()
        gradient = slope + records.log_prior_gradient(surrogate.point)
        own = np.sqrt(np.diag(np.linalg.inv(prior - curvature)))
        z.append((surrogate.point + np.linalg.solve(prior - curvature, gradient) - mode) / own)
        assert np.all(own < 4 * sd)
    assert len(z) >= 3
    # Each is about N(0, 1) and smaller, by what is the exact posterior's own: 4.9 is 1e-6.
    assert np.abs(z).max() < 4.9


def test_advice_does_not_contradict_itself():
    """With the epsilon that would do, the number that would do is the number there is; and the other way."""
    for epsilon, n in ((0.5, 900), (1.0, 1000), (4.0, 300)):
        with pytest.raises(dp.TooFewRecordsError, match="would do") as refused:
            judge_price(SETTINGS, epsilon, 1e-6, n)
        enough, better = re.findall(r"About ([\d,]+) records, or epsilon = ([\d.e+]+),", str(refused.value))[
            0
        ]
        judge_price(SETTINGS, float(better), 1e-6, n)
        judge_price(SETTINGS, epsilon, 1e-6, int(enough.replace(",", "")))
        squared = float(gaussian.mu(float(better), 1e-6)) ** 2
        assert records_needed(SETTINGS, squared)[1] == pytest.approx(n, rel=0.02)


def test_a_futile_call_is_refused_before_it_is_paid(logistic):
    step = dp.DPPenaltyMH(epsilon=0.5, delta=1e-6, chains=1, control_variates=True, model=logistic)
    with pytest.raises(dp.TooFewRecordsError, match="records, or epsilon"):
        step.cost(draws=10)


# where it is said


def sampled(epsilon, **changes):
    r = np.random.default_rng(0)
    x = r.normal(size=(3000, 2))
    with pm.Model():
        beta, sigma = pm.Normal("beta", 0, 2, shape=2), pm.HalfNormal("sigma", 2)
        pm.Normal("y", x @ beta, sigma, observed=x @ [1.0, -1.0] + r.normal(size=3000))
        step = dp.DPPenaltyMH(epsilon=epsilon, delta=1e-6, chains=1, control_variates=True, **changes)
        return dp.sample(step, draws=20, random_seed=1, cores=1, **QUIET)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_dp.errors.ClippedRecordsWarning")
@pytest.mark.usefixtures("little_tuning")
def test_it_is_in_the_result():
    idata = sampled(40.0)
    report = dp.privacy_report(idata)
    assert list(report.cut["parameter"].values) == ["beta[0]", "beta[1]", "sigma"]
    assert "Cut by clips" in str(report) and "sigma" in str(report)
    json.dumps(report.to_dict())
    left = report.cut["left"].to_numpy()
    assert np.all(left > 0) and np.all(left < 1)
    stat = idata.sample_stats["clip_uncertainty"].to_numpy()
    np.testing.assert_array_equal(stat, left.max())
    joined = az.summary(idata).join(report.cut.to_dataframe())
    assert np.all(np.isfinite(joined["left"]))
    assert dp.surrogate_of(idata).put_back is not None


@pytest.mark.slow
@pytest.mark.usefixtures("little_tuning")
def test_it_is_said_and_refused_in_sampling(monkeypatch):
    monkeypatch.setattr(verdict, "NOTABLE", 1e-6)
    with pytest.warns(dp.ClippedRecordsWarning):
        sampled(40.0)
    monkeypatch.setattr(verdict, "LARGEST", 1e-6)
    with pytest.raises(dp.ClippedRecordsError):
        sampled(40.0)


def test_a_surrogate_of_an_earlier_version_is_read():
    values = {key: [0.0] for key in ("point", "phi", "centre", "gradient")}
    values |= {key: [[1.0]] for key in ("metric", "gradient_noise", "hessian")}
    values |= dict.fromkeys(["gradient_bound", "hessian_bound", "hessian_noise", "tempering"], 1.0)
    old = Surrogate.from_json(json.dumps(values | {"noise_aware": True, "blocks": None}))
    assert old.put_back is None
    np.testing.assert_array_equal(ByParameter(old, np.eye(1), np.eye(1)).cut(), np.zeros((2, 1)))
