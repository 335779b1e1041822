"""Observed variables of different lengths: a release of several tables of records."""

import math
import threading
import warnings

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.errors import ModelRefusedError, NotPrivateWarning, PrivacyError
from pymc_dp.likelihood.comparisons import Bounds
from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.public_model import PublicModel
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records import gate, graph, outcomes, sums
from pymc_dp.records.several_tables import TablesTwins, read_records
from tests.likelihood.test_public_model import Secrets, quadratic

N, M = 60, 45
HORRORS = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e154, 5e-324, 0.0)


def a_b_test(n, m, seed=0):
    """Conversions as two arrays."""
    random = np.random.default_rng(seed)
    a, b = (random.random(n) < 0.3).astype(int), (random.random(m) < 0.35).astype(int)
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1, shape=2)
        pm.Bernoulli("a", p[0], observed=a)
        pm.Bernoulli("b", p[1], observed=b)
        pm.Deterministic("lift", p[1] - p[0])
    return model, a, b


def two_groups(a, b, xa, xb, **kwargs):
    """A mean of each group, and a slope and a scale of both."""
    with pm.Model(**kwargs) as model:
        mean, slope, scale = pm.Normal("mean", shape=2), pm.Normal("slope"), pm.HalfNormal("scale")
        mu_a = pm.Deterministic("mu_a", mean[0] + slope * pm.Data("xa", xa))
        pm.Normal("a", mu_a, scale, observed=pm.Data("ya", a))
        mu_b = pm.Deterministic("mu_b", mean[1] + slope * pt.constant(xb))
        pm.StudentT("b", nu=4, mu=mu_b, sigma=scale, observed=b)
        pm.Deterministic("difference", mean[1] - mean[0])
    return model


def arrays(seed=0):
    random = np.random.default_rng(seed)
    return {
        "a": random.normal(size=N),
        "b": random.normal(1.0, 2.0, size=M),
        "xa": random.normal(size=N),
        "xb": random.normal(size=M),
    }


def released(model, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        return dp.release_likelihood(model, **kwargs)


def test_a_release_agrees_with_the_posterior():
    """Without noise; of conversions all outcomes are taken, so that nothing is drawn."""
    model, a, b = a_b_test(3000, 2000)
    likelihood = released(model, epsilon=math.inf, delta=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = likelihood.model()
    logits = np.linspace(-1.3, -0.2, 91)
    both = np.stack(np.meshgrid(logits, logits, indexing="ij"), axis=-1).reshape(-1, 2)
    (value,), log_density = made.value_vars, made.compile_logp()
    density = np.array([log_density({value.name: one}) for one in both])
    density = np.exp(density - density.max()).reshape(len(logits), -1)
    p = 1 / (1 + np.exp(-logits))
    for axis, y in ((1, a), (0, b)):
        weights = density.sum(axis=axis) / density.sum()
        mean = weights @ p
        sd = math.sqrt(weights @ (p - mean) ** 2)
        exact = stats.beta(1 + y.sum(), 1 + len(y) - y.sum())
        assert abs(mean - exact.mean()) < 0.15 * exact.std()
        assert 0.85 < sd / exact.std() < 1.15
    facts = likelihood.facts
    assert (facts["n"], facts["tables"]) == (5000, [3000, 2000])
    assert "in 2 tables of 3000, 2000: each length is taken as public" in " ".join(
        likelihood.report().split()
    )


class Kept:
    """Random numbers that are the same at each call: twins do not move when a record does."""

    def __init__(self, source, seed=1):
        self._source, self._seed = source, seed
        self.size, self.touched, self.doubtful = source.size, source.touched, source.doubtful
        self.lookups, self.sums, self.rank = source.lookups, source.sums, source.rank

    def __call__(self, phi, twins, random, each):
        return self._source(phi, twins, PrivacyRandom(debug_seed=self._seed), each)


def test_threads_compile_nothing(monkeypatch):
    """PyTensor is not made for it: the first chunk of each table is computed before the others."""
    random, found = np.random.default_rng(0), []
    model = two_groups(**{name: random.normal(size=300) for name in ("a", "b", "xa", "xb")})
    compile_graph = gate.compile_graph

    def noted(*args, **kwargs):
        found.append(threading.current_thread())
        return compile_graph(*args, **kwargs)

    for module in (outcomes, sums):
        monkeypatch.setattr(module, "compile_graph", noted)
    monkeypatch.setattr("pymc_dp.records.twins._ROWS", 64)
    twins = TablesTwins(read_records(model, verify=False))
    found.clear()
    RecordsHere(twins, PrivacyRandom(debug_seed=1), 2).compare(
        np.zeros(twins.size), np.eye(twins.size), Bounds(1.0, 1.0), 3
    )
    assert len(found) > 5 and set(found) == {threading.current_thread()}


def test_one_record_of_either_table_moves_sums_within_their_bounds():
    """Without noise; a record of the first table, then one of the second, replaced by horrors."""
    records = read_records(two_groups(**arrays()), verify=False)
    source = TablesTwins(records)
    phi, metric = np.array([0.1, 0.9, 0.2, 0.3]), 0.5 * np.eye(4)
    bounds = Bounds(0.8, 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        spending = Spending(math.inf, 1e-6, [1.0], "substitute")
        spending.pay()
    made = Measurements(RecordsHere(Kept(source), spending.random), spending)

    def sums():
        one = made.compare(phi, metric, bounds, 3, (1e-3, 1e-3))
        return one.score, one.slope, made.scales(phi, 3, 1e-3).counts

    before = sums()
    held = [(k, graph.leaf_value(root)) for k, table in enumerate(records.tables) for root in table._roots]
    assert [(k, values.size) for k, values in held] == [(0, N), (0, N), (1, M), (1, M)]
    for k, values in held:
        changes = []
        for horror in HORRORS:
            kept, values[7] = values[7], horror
            changes.append([now - old for now, old in zip(sums(), before, strict=True)])
            values[7] = kept
        for score, slope, counts in changes:
            assert np.linalg.norm(score) <= 2 * bounds.score * (1 + 1e-9)
            assert np.linalg.norm(slope) <= math.sqrt(2) * bounds.slope * (1 + 1e-9)
            assert np.square(counts).sum() <= 2 * source.touched
        assert max(np.linalg.norm(score) for score, _, _ in changes) > 0
        # What only the other table tells, of its mean, does not move.
        assert all(score[1 - k] == 0 and not counts[1 - k].any() for score, _, counts in changes)
    assert all(np.array_equal(now, old) for now, old in zip(sums(), before, strict=True))


def test_nothing_private_of_any_table_is_in_the_public_model():
    coords = {"first": [f"Secretperson{k}" for k in range(N)], "second": [f"Other{k}" for k in range(M)]}
    held = arrays(3)
    records = read_records(two_groups(**held, coords=coords), verify=False)
    public, secrets = PublicModel(records), Secrets(**held)
    made = public.model(quadratic)
    for one in (public, made):
        assert not secrets.in_objects(one)
        assert not secrets.in_bytes(cloudpickle.dumps(one))
    assert not made.coords
    assert secrets.in_objects(records)  # control
    assert [v.name for v in made.free_RVs] == ["mean", "slope", "scale"]
    assert [v.name for v in made.deterministics] == ["difference"] and not made.data_vars


@pytest.mark.parametrize("name", ["a", "b"])
def test_an_array_of_any_table_is_refused_in_the_public_model(name):
    """Were the reader to take it for public."""
    held = arrays(4)
    records = read_records(two_groups(**held), verify=False)
    free = records.reading.opaque.free["mean"]
    records.coordinates.sources[0] = free + pt.constant(held[name]).sum()
    with pytest.raises(PrivacyError, match="as long as there are records"):
        PublicModel(records)


def test_what_is_refused_is_refused_before_it_is_paid(tmp_path):
    model, _, _ = a_b_test(N, M)
    ledger = dp.Ledger(tmp_path / "ledger.json", epsilon=5, delta=1e-5)
    for given, match in (
        ({"privacy_unit": np.arange(N)}, "2 tables, with 60, 45 rows"),
        ({"neighboring_relation": "add_remove", "public_n": 100}, "different lengths"),
    ):
        with pytest.raises(ModelRefusedError, match=match):
            dp.release_likelihood(model, epsilon=1, delta=1e-6, ledger=ledger, **given)
    assert not ledger.entries()


def test_draws_are_reported_and_checked_table_by_table(tmp_path):
    """A check is of one variable: of its table. What needs all records of one table is refused, unpaid."""
    model, _, _ = a_b_test(3000, 2000, seed=5)
    quiet = {"progressbar": False, "quiet": True, "cores": 1, "chains": 1}
    idata = dp.sample(50, tune=100, model=model, epsilon=1, delta=1e-6, random_seed=1, **quiet)
    said = " ".join(str(dp.privacy_report(idata)).split())
    assert "n = 5000 (public), in 2 tables of 3000, 2000: each length is taken as public" in said
    ledger = dp.Ledger(tmp_path / "ledger.json", epsilon=5, delta=1e-5)
    with pytest.raises(ModelRefusedError, match="different lengths"):
        dp.compare({"one": (idata, model), "same": (idata, model)}, epsilon=1, delta=1e-6, ledger=ledger)
    with pytest.raises(ModelRefusedError, match="different lengths"):
        dp.predict(idata, model)
    assert not ledger.entries()
    found = dp.check(idata, model, epsilon=1, delta=1e-6, var_name="b", cells=2, ledger=ledger)
    assert (found.n, found.variable, len(ledger.entries())) == (2000, "b", 1)
    assert abs(found.counts.sum() - 2000) < 8 * found.noise
