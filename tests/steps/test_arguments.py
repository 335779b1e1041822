"""What a step says of arguments that it cannot use, before anything is read or charged."""

import importlib
import inspect
import pkgutil
import warnings

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from benchmarks import published_fast_mh as published
from benchmarks import visited_files
from pymc_dp import steps
from tests import test_architecture, test_runs
from tests.conftest import logistic_model

STEPS = [cls for cls, _ in visited_files.SAMPLERS.values()]
ARGS = {"epsilon": 2.0, "delta": 1e-6, "lipschitz": 1.0, "chains": 1}
QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
every_step = pytest.mark.parametrize("kind", STEPS, ids=lambda kind: kind.__name__)


def test_every_public_step_is_in_every_list_of_steps():
    """One that is added to the package is added to the lists from which tests and benchmarks take them."""
    steps = {one.__name__ for one in STEPS}
    assert steps == {name for name, _ in test_runs.ANY} == set(test_architecture.MOST)


def test_every_step_is_public():
    """One that has a price, and is in a file of `steps`: no list would have it otherwise."""
    assert priced(steps) == set(STEPS)
    assert priced(published) == {published.PublishedFastMH}  # control


def priced(where):
    """Classes of a module, or of those of a package, that have a price and can be made."""
    names = [
        where.__name__,
        *(m.name for m in pkgutil.iter_modules(getattr(where, "__path__", ()), f"{where.__name__}.")),
    ]
    found = (one for name in names for one in vars(importlib.import_module(name)).values())
    return {
        one
        for one in found
        if isinstance(one, type)
        and hasattr(one, "_price")
        and not inspect.isabstract(one)
        and one.__module__ in names
    }


@pytest.fixture(scope="module")
def model():
    return logistic_model()


@pytest.fixture(scope="module", params=STEPS, ids=lambda kind: kind.__name__)
def made(request, model):
    """One step of each kind, that makes no call."""
    return request.param(model=model, **ARGS)


# names


@every_step
@pytest.mark.parametrize("name", ["eps", "lipschit", "xyz"])
def test_an_argument_that_it_does_not_have(kind, model, name):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        kind(model=model, **{**ARGS, name: 1})


# values


@every_step
@pytest.mark.parametrize(
    "name, values, error",
    [
        ("debug_seed", ["a", 1.5, -1, True], ValueError),
        ("tempering", ["a", 0, 1.5, np.nan, True, None], ValueError),
        ("chains", [-1, 0, 1.5, "3", True], ValueError),
        ("lipschitz", [1e308, 1e-310, 0.0, -1.0, np.nan, np.inf, "a", True], ValueError),
        ("exclude_deterministics", ["mu"], TypeError),
    ],
)
def test_values_out_of_range(kind, model, name, values, error):
    for value in values:
        with pytest.raises(error, match=name):
            kind(model=model, **{**ARGS, name: value})


@pytest.mark.parametrize("value", [1e308, 1e-310, 0.0, np.nan, "a"])
@pytest.mark.parametrize(
    "kind, name, others",
    [
        (dp.DPPenaltyMH, "clip_bound", {}),
        (dp.DPBarker, "clip_bound", {}),
        (dp.DPFastMH, "clip_bound", {"step_size": 0.1}),
        (dp.DPHMC, "gradient_clip_bound", {"lipschitz": 1.0}),
    ],
    ids=str,
)
def test_bounds_of_unusable_size(kind, name, others, value, model):
    """1e308 overflows in the noise's scale; at 1e-310 the noise loses its digits."""
    with pytest.raises(ValueError, match=rf"{name} must be .*positive.* finite.*, between 1e-100"):
        kind(epsilon=2.0, delta=1e-6, model=model, **{name: value}, **others)


WRONG_COUNTS = [{"draws": d} for d in (-1, 0, 1.5, "3", True)] + [{"tune": t} for t in (-1, 1.5, "3", True)]


@pytest.mark.parametrize("counts", WRONG_COUNTS, ids=str)
def test_counts_that_are_none(made, counts):
    (name,) = counts
    with pytest.raises(ValueError, match=f"{name} must be an integer"):
        made.cost(**counts)
    with pytest.raises(ValueError, match=f"{name} must be an integer"):
        dp.sample(made, **counts, **QUIET)


@pytest.mark.parametrize("chains", [-1, 0, 1.5, "3", True])
def test_numbers_of_chains_that_are_none(made, chains):
    for function in (made.cost, lambda **kwargs: dp.sample(made, draws=2, **kwargs, **QUIET)):
        with pytest.raises(ValueError, match="chains must be an integer"):
            function(chains=chains)


# the start


@every_step
def test_a_start_that_is_not_finite_costs_nothing(kind, model, tmp_path):
    ledger = dp.Ledger(tmp_path / "study.db", epsilon=10.0, delta=1e-5)
    for value in (np.nan, np.inf):
        step = kind(model=model, ledger=ledger, **ARGS)
        with pytest.raises(ValueError, match=r"starting value of beta is not finite(?s:.*)no ledger charged"):
            dp.sample(step, draws=2, tune=0, cores=1, initvals={"beta": [0.0, value]}, **QUIET)
    assert not ledger.entries()
    dp.sample(kind(model=model, ledger=ledger, **ARGS), draws=2, tune=0, cores=1, **QUIET)  # control
    assert len(ledger.entries()) == 1


def test_a_start_outside_the_support_is_named():
    x = np.random.default_rng(0).normal(size=60)
    with pm.Model():
        sigma = pm.HalfNormal("sigma")
        pm.Normal("y", 0, sigma, observed=x)
        step = dp.DPPenaltyMH(**ARGS)
    with warnings.catch_warnings(), pytest.raises(ValueError, match="sigma_log__ is not finite"):
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of log(-1)
        dp.sample(step, draws=2, tune=0, cores=1, initvals={"sigma": -1.0}, **QUIET)


# weak guarantees


def warned(model, kind=dp.DPPenaltyMH, **kwargs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind(**{**ARGS, "model": model, **kwargs})
    return [str(w.message) for w in caught if w.category is dp.errors.WeakGuaranteeWarning]


@every_step
def test_weak_guarantees_are_warned_of(kind, model):
    (epsilon,) = warned(model, kind, epsilon=20.1)
    assert "above 20" in epsilon
    (delta,) = warned(model, kind, delta=1 / 60)
    assert "not below 1 / n = 0.0167" in delta and "whole record" in delta
    assert len(warned(model, kind, epsilon=30.0, delta=0.1)) == 2


def test_usual_guarantees_are_not_warned_of(model):
    assert not warned(model, epsilon=20.0, delta=0.99 / 60)
    assert not warned(model, epsilon=np.inf, delta=0.1)  # not private: said by another warning
    # n counts persons, and where it is private nothing is said that depends on it.
    assert warned(model, delta=0.02, privacy_unit=np.arange(60) % 30) == []
    assert warned(model, delta=0.5, neighboring_relation="add_remove") == []


def test_the_report_says_it_too(model):
    with pytest.warns(dp.errors.WeakGuaranteeWarning):
        step = dp.DPPenaltyMH(model=model, **{**ARGS, "epsilon": 25.0, "delta": 0.1})
    report = str(dp.privacy_report(dp.sample(step, draws=2, tune=0, cores=1, **QUIET)))
    assert report.count("Weak:") == 2 and "above 20" in report
