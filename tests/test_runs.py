"""Runs with `debug_seed`, draw for draw and stat for stat, as they were: moving code must not change them.

`runs.json` has, of every sampler x relation x source of records and of every setting, a total of each
stat and of the points over a short run, and a digest of where its random stream ends. After a change that is
meant to change draws, write it anew, and say so in the commit:

    PYTENSOR_FLAGS=linker=py,optimizer=fast_compile,cxx= python -m tests.test_runs

Processors round otherwise in the last digits, in prices as well: totals are compared up to these.
"""

import hashlib
import importlib.metadata
import json
import warnings
from pathlib import Path

import numpy as np
import pytensor
import pytest

import pymc_dp as dp
from benchmarks.published_fast_mh import PublishedFastMH
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.remote import owner as owner_module
from pymc_dp.remote.homes import Here
from pymc_dp.remote.owner import DataOwner
from tests.conftest import logistic_model, simple_data
from tests.remote.parts import build, made_up, split

FILE = Path(__file__).with_name("runs.json")
TUNE, DRAWS = 5, 8
LAST_DIGITS = 1e-9
BUDGET = {"epsilon": 20.0, "delta": 1e-6, "chains": 1, "debug_seed": 5}
RELATIONS = ("substitute", "add_remove")
UNITS = np.repeat(np.arange(30), 2)


def model():
    return logistic_model(n=60)


def owners(k):
    parts = split(simple_data(n=61), k)
    budgets = (20.0, 40.0, 30.0)
    return [dp.Owner(f"o{j}", build, p, budgets[j], 1e-6, lipschitz=1.0) for j, p in enumerate(parts)]


def shards():
    return dp.Shards(build, split(simple_data(n=61), 3))


L = {"lipschitz": 1.0}
PENALTY = {
    "one place": L,
    "no privacy": {**L, "epsilon": np.inf},
    "gaussian": {**L, "proposal": "gaussian", "tempering": 0.5},
    "one at a time": {"lipschitz": np.array([0.7, 0.8]), "proposal": "one_at_a_time"},
    "guided": {"lipschitz": {"beta": 1.0}, "proposal": "guided"},
    "constant clip": {"clip_bound": 0.05, "step_size": 0.2},
    "one length": {**L, "adapt_step_size": False},
    "one length given": {**L, "adapt_step_size": False, "step_size": 0.3},
    "noisy ratio": {**L, "release": "noisy_ratio"},
    "persons": {**L, "privacy_unit": UNITS},
}
ANY = {
    **{("DPPenaltyMH", name): kwargs for name, kwargs in PENALTY.items()},
    ("DPPenaltyMH", "shards"): {**L, "data": shards},
    ("DPPenaltyMH", "two owners"): {"owners": lambda: owners(2)},
    ("DPPenaltyMH", "three owners, noisy ratio"): {"owners": lambda: owners(3), "release": "noisy_ratio"},
    ("DPBarker", "one place"): L,
    ("DPBarker", "constant clip"): {"clip_bound": 0.05},
    ("DPBarker", "no privacy"): {**L, "epsilon": np.inf, "step_size": 0.3},
    ("DPBarker", "persons"): {**L, "privacy_unit": UNITS, "tempering": 0.5},
    ("DPBarker", "shards"): {**L, "data": shards},
    ("DPFastMH", "all records"): {**L, "public_n": 60},
    ("DPFastMH", "all records, penalty"): {**L, "public_n": 60, "test": "penalty"},
    ("DPFastMH", "batches"): {**L, "public_n": 60, "batch_size": 20.0},
    ("DPFastMH", "batches, penalty"): {**L, "public_n": 60, "batch_size": 20.0, "test": "penalty"},
    ("DPFastMH", "constant clip"): {"clip_bound": 0.05, "step_size": 0.3, "public_n": 60, "tempering": 0.5},
    ("DPFastMH", "no privacy"): {**L, "public_n": 60, "batch_size": 20.0, "epsilon": np.inf},
    ("DPFastMH", "shards"): {**L, "public_n": 60, "batch_size": 20.0, "data": shards},
    ("DPFastMH", "published"): {**L, "public_n": 60, "largest_batch": 40},
    ("DPHMC", "one place"): L,
    ("DPHMC", "tempered"): {**L, "tempering": 0.5, "n_leapfrog": 2},
    ("DPHMC", "no privacy"): {**L, "epsilon": np.inf},
    ("DPHMC", "persons"): {**L, "privacy_unit": UNITS},
    ("DPSGHMC", "full batch"): {**L, "sampling_probability": 1.0},
    ("DPSGHMC", "batches"): {**L, "sampling_probability": 0.3, "tempering": 0.5},
    ("DPSGHMC", "no privacy"): {**L, "sampling_probability": 0.3, "epsilon": np.inf},
}
SUBSTITUTE = {
    ("DPPenaltyMH", "batches"): {**L, "batch_size": 20, "tempering": 0.2},
    ("DPPenaltyMH", "batches, shards"): {**L, "batch_size": 20, "tempering": 0.2, "data": shards},
    ("DPBarker", "batches"): {**L, "batch_size": 30, "tempering": 0.2},
    ("DPBarker", "batches, shards"): {**L, "batch_size": 30, "tempering": 0.2, "data": shards},
}
# Settings meet the relation in one place: each source of records has both, each setting the usual one.
BOTH = {"one place", "shards", "two owners", "persons", "all records", "batches", "full batch"}
CASES = {
    f"{cls}, {source}, {relation}": (cls, {**kwargs, "neighboring_relation": relation})
    for relation in RELATIONS
    for (cls, source), kwargs in (ANY | SUBSTITUTE).items()
    if relation == "substitute" or (source in BOTH and (cls, source) not in SUBSTITUTE)
}


def run_of(case):
    """Totals of points and stats of a short run, later iterations with more weight; and its stream."""
    cls, kwargs = CASES[case]
    if kwargs["neighboring_relation"] == "substitute" and "published" not in case:
        kwargs = {name: value for name, value in kwargs.items() if name != "public_n"}
    kwargs = {name: value() if callable(value) else value for name, value in (BUDGET | kwargs).items()}
    if "owners" in kwargs:
        kwargs = {name: value for name, value in kwargs.items() if name not in ("epsilon", "delta")}
    made = kwargs.pop("model", None) or (made_up() if {"data", "owners"} & set(kwargs) else model())
    with made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = (PublishedFastMH if "published" in case else getattr(dp, cls))(**kwargs)
    step.setup_chain(np.random.default_rng(7), TUNE, DRAWS)
    totals, point = {}, made.initial_point(0)
    for i in range(TUNE + DRAWS):
        step.tune = i < TUNE
        point, (stats,) = step.step(point)
        numbers = {f"point {k}": value for k, value in enumerate(step.records.ravel(point))}
        numbers |= {
            k: value for k, value in stats.items() if isinstance(value, int | float | np.number | np.bool_)
        }
        for name, value in numbers.items():
            totals[name] = totals.get(name, 0.0) + (i + 1) * float(value)
    stream = repr(step._chain.random.generator.bit_generator.state).encode()
    return {"totals": totals, "stream": hashlib.sha256(stream).hexdigest()[:16]}


def made_with():
    """Libraries that runs depend on."""
    names = ("numpy", "scipy", "pymc", "pytensor", "dp-accounting", "randomgen")
    return {name: importlib.metadata.version(name) for name in names}


@pytest.fixture
def _owners_here(monkeypatch):
    prepare(monkeypatch)


def prepare(patch):
    """Owners in this process, with reproducible noise."""
    patch.setattr(dp.Owner, "home", lambda owner, recipe, terms: Here(DataOwner(recipe, terms, owner.ledger)))
    seeds = iter(range(100))
    patch.setattr(owner_module, "PrivacyRandom", lambda: PrivacyRandom(debug_seed=next(seeds)))


@pytest.mark.slow
@pytest.mark.usefixtures("_owners_here")
@pytest.mark.parametrize("case", CASES)
def test_draws_are_as_they_were(case):
    stored = json.loads(FILE.read_text())
    if stored["made with"] != made_with():
        pytest.skip("the runs were made with other libraries")
    found, then = run_of(case), stored["runs"][case]
    assert found["stream"] == then["stream"]
    assert found["totals"] == pytest.approx(then["totals"], rel=LAST_DIGITS, abs=LAST_DIGITS, nan_ok=True)


def test_every_case_has_a_run_of_its_own():
    stored = json.loads(FILE.read_text())["runs"]
    assert set(stored) == set(CASES)
    # Without noise both relations give the same run.
    assert len({str(one) for one in stored.values()}) > 0.9 * len(stored)


def main():
    """Write the file."""
    if pytensor.config.linker != "py":
        raise SystemExit("run it with the PYTENSOR_FLAGS that the tests have: see the docstring")
    found = {}
    for case in CASES:
        with pytest.MonkeyPatch.context() as patch:
            prepare(patch)
            found[case] = run_of(case)
    FILE.write_text(json.dumps({"made with": made_with(), "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
