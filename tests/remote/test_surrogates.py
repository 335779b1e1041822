"""Control variates on records in parts: the surrogate, the draws and the refusals of one piece."""

from functools import cache
from itertools import pairwise

import cloudpickle
import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.record_sums import KINDS, RecordSums
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.structure import Structure
from pymc_dp.errors import PrivacyError
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from pymc_dp.remote.homes import Here
from pymc_dp.remote.recipe import Recipe
from pymc_dp.remote.shard import Shard
from pymc_dp.remote.shards import ShardedRecords
from tests.conftest import simple_data
from tests.control_variates.fixed import CENTRE, METRIC, POINT, FixedRecords, some_records
from tests.control_variates.test_releases import extremes
from tests.remote.parts import build, made_up, split
from tests.remote.test_shards import Given, by_person, leaky

pytestmark = pytest.mark.usefixtures("little_tuning")

DATA = simple_data(n=200)
ITERATIONS = 25
BUDGET = {"epsilon": 200.0, "delta": 1e-6, "chains": 1, "debug_seed": 7}


# sums, of numpy records


def rows_of(records):
    return records.full_batch.rows(np.ones(records.d))


def in_parts_of(records, cuts):
    """The same records in several shards, without a model."""
    homes = []
    for a, b in pairwise(cuts):
        shard = Shard(b"")
        shard.records = FixedRecords(records.gradients[a:b], records.hessians[a:b], rows_of(records)[a:b])
        homes.append(Here(shard))
    parts = ShardedRecords.__new__(ShardedRecords)
    parts._homes = homes
    return parts


def poisoned():
    records = some_records()
    gradients, hessians, rows = records.gradients, records.hessians, rows_of(records).copy()
    for k, (gradient, hessian, row) in enumerate(extremes()):
        gradients[2 * k], hessians[2 * k], rows[2 * k] = gradient, hessian, row
    return FixedRecords(gradients, hessians, rows)


ARGUMENTS = {
    "gradient": (POINT, METRIC, CENTRE, 0.7),
    "hessian": (POINT, METRIC, 1.3),
    "fisher": (POINT, METRIC, 0.7),
    "histogram": (POINT, METRIC, CENTRE, (3, 4)),
    "direction": (POINT, METRIC, CENTRE, 0.5),
    "cut": (POINT, METRIC, CENTRE, 0.5, 0.2),
    "line": (POINT, [np.full(3, 2.0), np.full(3, -0.1)], 0.8),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", [np.zeros(3), np.arange(3)], ids=["whole", "diagonal"])
def test_sums_of_parts_are_the_sum(kind, labels):
    records, structure = poisoned(), Structure(labels)
    arguments = list(ARGUMENTS[kind])
    if not structure.full and kind != "line":
        arguments[1] = np.diag(np.diag(METRIC))
    whole = RecordSums(records, structure)(kind, *arguments)
    assert whole.dtype == np.int64 and np.any(whole)
    for cuts in ([0, 40], [0, 2, 40], [0, 7, 13, 31, 40]):
        parts = in_parts_of(records, cuts).surrogate_sums(structure)(kind, *arguments)
        assert parts.dtype == np.int64
        np.testing.assert_array_equal(parts, whole)
    other = in_parts_of(records, [0, 7, 39]).surrogate_sums(structure)(kind, *arguments)
    assert not np.array_equal(other, whole)  # control: without one record


def test_another_question_is_no_sum():
    parts = in_parts_of(some_records(), [0, 20, 40]).surrogate_sums(Structure(np.zeros(3)))
    with pytest.raises(PrivacyError, match="no such sum"):
        parts("_rows", POINT)


# whole steps


def walk_of(step, model):
    point, draws, accepted = model.initial_point(0), [], 0
    for _ in range(ITERATIONS):
        point, (stats,) = step.step(point)
        draws.append(step.records.ravel(point))
        accepted += stats["accepted"]
    return np.array(draws), accepted


def run(model, cls=dp.DPPenaltyMH, control_variates=True, **kwargs):
    """Draws, decisions and surrogate of a chain."""
    with model:
        step = cls(control_variates=control_variates, **{**BUDGET, **kwargs})
    step.setup_chain(np.random.default_rng(0), 0, ITERATIONS)
    return (*walk_of(step, model), step.surrogate.to_json())


def same(one, many):
    np.testing.assert_array_equal(many[0], one[0])
    assert many[1:] == one[1:]
    assert 0 < one[1] < ITERATIONS  # decisions are not all alike


@cache
def one_piece():
    return RecordModel(build(DATA))


@cache
def pieces(k):
    return dp.Shards(build, split(DATA, k)).records(made_up())


def of_one_piece(**kwargs):
    return run(made_up(), data=Given(one_piece()), **kwargs)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 4])
def test_draws_are_those_of_one_piece(k):
    one = of_one_piece()
    same(one, run(made_up(), data=Given(pieces(k))))
    assert one[2] != of_one_piece(tempering=0.5)[2]  # control


@pytest.mark.slow
@pytest.mark.parametrize("cls", [dp.DPBarker, dp.DPFastMH, dp.DPHMC])
def test_other_steps(cls):
    same(of_one_piece(cls=cls, tempering=0.7), run(made_up(), cls, data=Given(pieces(3)), tempering=0.7))


@pytest.mark.slow
def test_blocks_of_hessians():
    settings = ControlVariates(structure="diagonal")
    same(
        of_one_piece(control_variates=settings),
        run(made_up(), data=Given(pieces(3)), control_variates=settings),
    )


@pytest.mark.slow
def test_add_remove():
    kwargs = {"neighboring_relation": "add_remove"}
    same(run(build(DATA), **kwargs), run(made_up(), data=dp.Shards(build, split(DATA, 3)), **kwargs))


def build_of_three(part):
    return build(part[:2])


def persons():
    x, y = DATA
    ids = np.sort(np.random.default_rng(0).integers(60, size=len(y)))
    cuts = [0, *np.searchsorted(ids, [11, 40]), len(y)]
    return (x, y, ids), [(x[a:b], y[a:b], ids[a:b]) for a, b in pairwise(cuts)]


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
def test_persons(relation):
    """Their rows are added before they are clipped, in all sums and in the residuals."""
    (x, y, ids), parts = persons()
    kwargs = {"neighboring_relation": relation}
    one = run(build((x, y)), privacy_unit=ids, **kwargs)
    data = dp.Shards(build_of_three, parts, privacy_unit=by_person)
    same(one, run(made_up(), data=data, **kwargs))
    assert one[2] != run(build((x, y)), **kwargs)[2]  # control: rows


def test_a_person_in_two_parts_is_refused_before_anything_is_paid(tmp_path):
    (x, y, ids), _ = persons()
    ledger = dp.Ledger(tmp_path / "l.db", epsilon=1000.0, delta=1e-5, privacy_unit="id")
    parts = [(x[:90], y[:90], ids[:90]), (x[90:], y[90:], np.r_[ids[0], ids[91:]])]
    with made_up(), pytest.raises(dp.ModelRefusedError, match="rows in more than one part"):
        data = dp.Shards(build_of_three, parts, privacy_unit=by_person)
        dp.DPPenaltyMH(epsilon=1, delta=1e-6, chains=1, control_variates=True, data=data, ledger=ledger)
    assert ledger.entries() == ()


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
@pytest.mark.filterwarnings("ignore:The released surrogate says next to nothing about. tau")
def test_curved_coordinates():
    data = grouped(150)
    one = run(build_groups(data), epsilon=1000.0)
    data = dp.Shards(build_groups, split(data, 3))
    same(one, run(build_groups(grouped(9, 1)), epsilon=1000.0, data=data))


@pytest.mark.slow
@pytest.mark.parametrize(("template", "part"), [(4, 9), (9, 4)])
def test_parts_in_other_coordinates_are_refused(template, part):
    """A vector as long as there are rows is taken for one with an entry a row."""
    data = dp.Shards(build_groups, [grouped(12, 1), grouped(part, 2)])
    with build_groups(grouped(template)), pytest.raises(dp.ModelRefusedError, match="other functions"):
        dp.DPPenaltyMH(**BUDGET, control_variates=True, data=data)
    with build_groups(grouped(template)):  # control: nothing else needs them
        dp.DPPenaltyMH(**BUDGET, lipschitz=1.0, data=data)


@pytest.mark.slow
def test_a_lost_part_is_loaded_again_and_the_draws_are_the_same():
    """While the surrogate is made, and between decisions."""
    records, home = leaky(split(DATA, 2), lost=(0, 9, 30, 31, 75, 80))
    same(of_one_piece(), run(made_up(), data=Given(records)))
    assert home.restarts == 6 and home.asked > 85


@pytest.mark.slow
def test_a_copy_holds_nothing_private():
    with made_up():
        step = dp.DPPenaltyMH(**BUDGET, control_variates=True, data=dp.Shards(build, split(DATA, 2)))
    step.setup_chain(np.random.default_rng(0), 0, 4)
    point = step.model.initial_point(0)
    point, _ = step.step(point)
    servants = [home.servant for home in step.records._homes]
    assert all(s._residuals is not None and s._rows for s in servants)
    before = step.records.ravel(point)
    copy = cloudpickle.loads(cloudpickle.dumps(step))
    for servant in [*servants, *(home.servant for home in copy.records._homes)]:
        assert servant._residuals is None and servant._sums is None and not servant._rows
    point, _ = step.step(point)  # and the chain goes on
    assert before.shape == step.records.ravel(point).shape


@pytest.mark.slow
def test_sample_and_report(quiet):
    with made_up():
        step = dp.DPPenaltyMH(
            epsilon=4, delta=1e-6, chains=1, control_variates=True,
            data=dp.Shards(build, split(simple_data(n=8000), 3)),
        )  # fmt: skip
    idata = dp.sample(step, 60, tune=0, cores=1, **quiet)
    report = dp.privacy_report(idata)
    assert report.facts["is_private"] and report.facts["shards"] == 3 and report.facts["n"] == 8000
    assert "surrogate" in str(report) and report.not_released == []
    surrogate = dp.surrogate_of(idata)
    # The posterior of these data: mode and scale by Newton's steps.
    x, y = simple_data(n=8000)
    beta = np.zeros(2)
    for _ in range(20):
        p = 1 / (1 + np.exp(-x @ beta))
        precision = (x * (p * (1 - p))[:, None]).T @ x + np.eye(2) / 4
        beta = beta + np.linalg.solve(precision, x.T @ (y - p) - beta / 4)
    wide = np.sqrt(np.diag(np.linalg.inv(surrogate.precision(np.eye(2) / 4, np.eye(2)))))
    mean = idata.posterior["beta"].mean(("chain", "draw")).to_numpy()
    assert np.all(np.abs(mean - beta) < 4.9 * wide)
    assert dp.surrogate_draws(idata, made_up(), 10)["beta"].shape == (1, 10, 2)


@pytest.mark.slow
def test_a_shard_without_its_question_is_as_before():
    """Ratios of the likelihood, after ratios of residuals."""
    shard = Shard(Recipe(build, DATA))
    shard.read()
    theta, new = np.zeros(2), np.array([0.3, 0.1])
    before = shard.compare(theta, new, 0.05)
    surrogate = made_surrogate()
    left = shard.compare(theta, new, 0.05, surrogate)
    assert left != before and shard.compare(theta, new, 0.05, surrogate) == left
    fresh = Shard(Recipe(build, DATA))
    fresh.read()
    assert fresh.compare(theta, new, 0.05, surrogate) == left  # no row of the other was kept
    assert shard.compare(theta, new, 0.05) == before


@cache
def made_surrogate():
    return Finder(one_piece(), ControlVariates(), np.inf, PrivacyRandom(0), 1.0, np.inf)(
        np.zeros(2)
    ).to_json()


def build_laplace(part):
    """A likelihood with a kink, whose curvature goes by the metric."""
    x, y = part
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Laplace("y", x @ beta, 0.5, observed=y)
    return model


@pytest.mark.slow
def test_likelihoods_with_a_kink():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(2000, 2))
    data = x, x @ [1.0, -1.0] + rng.laplace(scale=0.5, size=2000)
    one = run(build_laplace(data), epsilon=30.0)
    template = build_laplace((x[:6], np.zeros(6)))
    same(one, run(template, epsilon=30.0, data=dp.Shards(build_laplace, split(data, 3))))
