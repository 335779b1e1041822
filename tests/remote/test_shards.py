"""Records in parts, in this process: the same sums, decisions and refusals as in one piece."""

import os
import pickle
import traceback
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.sparse import as_sparse, structured_dot
from scipy.sparse import csr_matrix

import pymc_dp as dp
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import GRID
from pymc_dp.records.units import ids_of
from pymc_dp.remote.answers import UnavailableError, value
from pymc_dp.remote.homes import Here, LostError, OnWorker
from pymc_dp.remote.shard import Recipe, Shard
from pymc_dp.remote.shards import ShardedRecords, no_person_twice
from pymc_dp.steps.base import DPStep
from tests.conftest import simple_data
from tests.remote.parts import SECRET, SECRETIVE, build, build_that_raises, made_up, make_step, split, walk

DATA = simple_data(n=61)


class Given:
    """Records made before, as the data of a step."""

    privacy_unit = None

    def __init__(self, records):
        self.records = lambda model, **settings: records


def sharded(parts, **kwargs):
    return dp.Shards(build, parts, **kwargs).records(made_up())


@cache
def in_one_piece():
    return RecordModel(build(DATA))


@cache
def in_parts(k):
    return sharded(split(DATA, k))


def draws_of(records, **kwargs):
    step = make_step(made_up(), data=Given(records), debug_seed=7, **kwargs)
    return (*walk(step, made_up(), 80), step)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "kwargs"), [(1, {}), (2, {}), (4, {}), (4, {"batch_size": 20, "tempering": 0.2})]
)
def test_draws_are_those_of_one_piece(k, kwargs):
    one, accepted, _ = draws_of(in_one_piece(), **kwargs)
    many, same, step = draws_of(in_parts(k), **kwargs)
    np.testing.assert_array_equal(many, one)
    np.testing.assert_array_equal(same, accepted)
    assert 5 < accepted.sum() < 75
    assert step.facts()["n"] == 61


OTHERS = [
    (dp.DPBarker, {"lipschitz": 1.0}),
    (dp.DPFastMH, {"lipschitz": 1.0, "batch_size": 40}),
    (dp.DPFastMH, {"lipschitz": 1.0, "batch_size": 40, "test": "penalty"}),
]


def test_every_step_that_takes_parts_is_tried_and_named():
    public = [one for one in map(vars(dp).get, dp.__all__) if isinstance(one, type)]
    taking = {one for one in public if issubclass(one, DPStep) and one.takes_data}
    assert taking == {dp.DPPenaltyMH, *(kind for kind, _ in OTHERS)}
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
    assert all(f"`{one.__name__}`" in page.split("```")[0] for one in taking)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "kwargs"), OTHERS)
def test_other_steps_that_take_parts(kind, kwargs):
    chains = []
    for records in (in_one_piece(), in_parts(4)):
        with made_up():
            step = kind(epsilon=50.0, delta=1e-6, chains=1, data=Given(records), debug_seed=7, **kwargs)
        step.setup_chain(np.random.default_rng(0), 0, 80)
        chains.append(walk(step, made_up(), 80))
    np.testing.assert_array_equal(chains[0][0], chains[1][0])
    assert 5 < chains[0][1].sum() < 80


def test_steps_that_need_all_records_refuse_parts():
    with made_up(), pytest.raises(ValueError, match="DPHMC does not take data="):
        dp.DPHMC(epsilon=1.0, delta=1e-6, lipschitz=1.0, chains=1, data=dp.Shards(build, [DATA]))


@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
def test_no_fact_tells_the_number_of_parts(relation):
    """Which may follow from the number of rows, where parts have a length."""
    found = []
    for k in (1, 4):
        data = dp.Shards(build, split(DATA, k))
        step = make_step(made_up(), data=data, neighboring_relation=relation)
        found.append({name: fact for name, fact in step.facts().items() if name != "call"})
    assert found[0] == found[1]
    assert found[0]["n"] == (61 if relation == "substitute" else None)  # control


@pytest.mark.slow
def test_other_records_make_another_chain():
    """Control: the comparison above can fail."""
    x, y = DATA
    y = np.concatenate([1 - y[:8], y[8:]])
    assert not np.array_equal(draws_of(in_one_piece())[0], draws_of(sharded(split((x, y), 2)))[0])


def poisoned():
    x, y = simple_data(n=40)
    x[3], x[11], x[25, 0], x[38] = np.nan, np.inf, -1e300, 1e300
    return x, y


@pytest.mark.slow
def test_sums_are_exact_also_of_poisoned_records():
    whole, parts = RecordModel(build(poisoned())), sharded(split(poisoned(), 3))
    rng = np.random.default_rng(0)
    for bound in (1e-3, 0.1, 10.0):
        theta, new = rng.normal(size=(2, 2))
        rows, prior = whole.full_batch.at(theta)
        kept, same_prior = parts.full_batch.at(theta)
        one, many = whole.full_batch(new, rows, bound), parts.full_batch(new, kept, bound)
        assert (many.total, many.clipped, many.log_prior) == (one.total, one.clipped, one.log_prior)
        assert prior == same_prior and many.total == round(many.total)


@pytest.mark.slow
def test_a_record_moves_the_sum_by_at_most_the_sensitivity():
    question = np.zeros(2), np.full(2, 0.4), 0.05
    before, moved = in_parts(2).totals(*question)[0], []
    for record, poison in ((0, np.nan), (40, -1e300)):
        x = DATA[0].copy()
        x[record] = poison
        moved.append(sharded(split((x, DATA[1]), 2)).totals(*question)[0] - before)
    assert np.all(np.abs(moved) <= 2 * GRID)
    assert np.all(np.abs(moved) > 0)


@pytest.mark.slow
def test_batches_of_positions_run_over_the_parts():
    whole, parts = in_one_piece(), in_parts(4)
    rng = np.random.default_rng(1)
    theta, new = rng.normal(size=(2, 2))
    for units in (rng.integers(61, size=30), np.array([60, 0, 60]), np.array([], dtype=int)):
        np.testing.assert_array_equal(parts.ratios(theta, new, units), whole.ratios(theta, new, units))
    for bad in (61, -1):
        with pytest.raises(IndexError, match=r"0\.\.60"):
            parts.ratios(theta, new, np.array([bad]))


def by_person(part):
    return part[2]


def build_of_three(part):
    return build(part[:2])


@pytest.mark.slow
def test_a_persons_rows_are_added_before_they_are_clipped():
    x, y = simple_data(n=60)
    ids = np.repeat(np.arange(20), 3)
    whole = RecordModel(build((x, y)), privacy_unit=ids)
    cuts = [0, 21, 33, 60]
    parts = [(x[a:b], y[a:b], ids[a:b]) for a, b in pairwise(cuts)]
    records = dp.Shards(build_of_three, parts, privacy_unit=by_person).records(made_up())
    assert records.n == 20 and records.n_rows == 60 and records.unit_of_row is not None
    theta, new = np.zeros(2), np.array([0.3, -0.2])
    one = whole.full_batch(new, whole.full_batch.rows(theta), 0.05)
    assert records.totals(theta, new, 0.05) == (one.total, one.clipped)


def test_a_person_in_two_parts_is_refused():
    parts = [(*simple_data(n=4), np.array(ids)) for ids in ([1, 2, 3, 3], [4, 5, 3, 6])]
    with pytest.raises(dp.errors.ModelRefusedError, match="rows in more than one part"):
        dp.Shards(build_of_three, parts, privacy_unit=by_person).records(made_up())
    for units, why in (
        ([[1, 2], [3, 1]], "rows in more than one part"),
        ([["a"], ["b"], ["a"]], "rows in more than one part"),
        ([[1, 2], ["3", "4"]], "of different types"),
        ([[1.0, 2.0], [3, 4]], "of different types"),
        ([np.array([0.5]), np.array([0.25], dtype=np.float32)], "of different types"),
    ):
        with pytest.raises(dp.errors.ModelRefusedError, match=why):
            no_person_twice([ids_of(one, len(one)) for one in units])
    no_person_twice([ids_of([1, 2], 2), ids_of(np.array([3, 4], dtype=np.uint8), 2)])


def with_prior_from_data(part):
    x, y = part
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2 * np.std(y) + 1, shape=2)
        pm.Bernoulli("y", logit_p=x @ beta, observed=y)
    return model


def with_more_parameters(part):
    x, y = part
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("y", logit_p=x @ beta + pm.Normal("a"), observed=y)
    return model


def with_coupled_rows(part):
    x, y = part
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        mu = pm.math.dot(pm.Data("x", x), beta)
        pm.Bernoulli("y", logit_p=mu - mu.mean(), observed=y)
    return model


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (with_prior_from_data, "another prior"),
        (with_more_parameters, "other free variables"),
        pytest.param(with_coupled_rows, "does not factorise", marks=pytest.mark.slow),
    ],
)
def test_every_part_is_checked(bad, message):
    """The last of the parts alone is bad."""
    parts = split(DATA, 2)

    def sometimes(part):
        return bad(part) if len(part[1]) == len(parts[-1][1]) else build(part)

    with made_up(), pytest.raises(dp.errors.ModelRefusedError, match=message):
        dp.DPPenaltyMH(epsilon=1, delta=1e-6, lipschitz=1, chains=1, data=dp.Shards(sometimes, parts))


def test_arguments():
    with pytest.raises(ValueError, match="at least one part"):
        dp.Shards(build, [])
    with made_up(), pytest.raises(ValueError, match="where the rows are"):
        dp.DPPenaltyMH(
            epsilon=1, delta=1e-6, lipschitz=1, chains=1, data=dp.Shards(build, [DATA]), privacy_unit=[1] * 6
        )
    with pytest.raises(dp.errors.ModelRefusedError, match="has one record"):
        sharded([DATA, (DATA[0][:1], DATA[1][:1])])
    with pytest.raises(dp.errors.PrivacyError, match="TypeError"):
        dp.Shards(lambda part: None, [DATA]).records(made_up())


@cache
def one_part(part):
    return build(DATA)


@pytest.mark.parametrize("error", SECRETIVE, ids=SECRETIVE)
@pytest.mark.parametrize("where", ["build", "privacy_unit"])
def test_errors_show_no_values(error, where):
    """Nor their classes, notes and causes, nor what is pickled on the way from a worker."""
    raises = where == "build"
    recipe = Recipe(build_that_raises if raises else one_part, error, None if raises else build_that_raises)
    answer = Shard(recipe).answer((Shard.open, {}))
    assert str(SECRET).encode() not in pickle.dumps(answer)
    with pytest.raises(dp.errors.PrivacyError, match="could not be read or their model not built") as caught:
        value(answer)
    for shown in (
        "".join(traceback.format_exception(caught.value)),
        repr((caught.value.__context__, caught.value.__cause__, vars(caught.value))),
    ):
        assert str(SECRET) not in shown
    with pytest.raises(BaseException) as control:
        build_that_raises(error)
    assert control.value is not None


def test_an_interrupt_of_ones_own_process_is_no_failure():
    def interrupted(part):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dp.Shards(interrupted, [DATA]).records(made_up())


class Leaky(Here):
    """Loses its servant at some requests, counted from 0 (opening)."""

    def __init__(self, servant, lost=(), remake=None):
        super().__init__(servant)
        self.lost, self.asked, self.restarts = set(lost), -1, 0
        self.remake = remake or (lambda: type(servant)(servant._recipe))

    def ask(self, request):
        self.asked += 1
        if self.asked in self.lost:
            return self.fail
        return super().ask(request)

    def fail(self):
        raise LostError

    def restart(self):
        self.restarts += 1
        self.servant = self.remake()


def leaky(parts, likelihood=False, **kwargs):
    """Records whose first part is lost at some requests."""
    first, second = (Shard(Recipe(build, part)) for part in parts)
    home = Leaky(first, **kwargs)
    records = ShardedRecords(made_up(), [home, Here(second)], likelihood=likelihood)
    return records, home


@pytest.mark.slow
def test_a_lost_part_is_loaded_again_and_the_draws_are_the_same():
    # Opening fails, then some iterations, one of them twice, then opening it again.
    records, home = leaky(split(DATA, 2), lost=(0, 5, 6))
    np.testing.assert_array_equal(draws_of(records)[0], draws_of(in_one_piece())[0])
    assert home.restarts == 3


def test_a_part_that_cannot_be_had_stops_the_run_and_stays_paid(tmp_path):
    ledger = dp.Ledger(tmp_path / "a.db", epsilon=60.0, delta=1e-6)
    records, _ = leaky(split(DATA, 2), lost=range(6, 100))
    step = make_step(made_up(), data=Given(records), ledger=ledger)
    reads = step._chain.random.normals
    noise = []
    step._chain.random.normals = lambda size=None: noise.append(reads(size)) or noise[-1]
    with pytest.raises(UnavailableError, match="cannot be had"):
        walk(step, made_up(), 60)
    assert len(noise) == 5  # none for the iteration that has no sum
    (entry,) = ledger.entries()
    assert entry.status == "reserved"
    assert entry.events.counts == step.plan.events.counts


@pytest.mark.slow
def test_a_part_that_changed_is_not_taken_for_the_lost_one():
    x, y = split(DATA, 2)[0]
    records, home = leaky(split(DATA, 2), lost=(3,))
    recipe = type(home.servant._recipe)(build, (x, 1 - y))
    home.remake = lambda: type(home.servant)(recipe)
    step = make_step(made_up(), data=Given(records))
    with pytest.raises(dp.errors.PrivacyError, match="not the same"):
        walk(step, made_up(), 60)


def test_whose_rows_are_whose_and_sparse_rows_tell_a_part_from_another():
    """Neither is an array that the model's observed variables hold."""

    def sparse_rows(part):
        with pm.Model() as model:
            beta = pm.Normal("beta", 0, 2, shape=(2, 1))
            rows = structured_dot(as_sparse(csr_matrix(part[0])), beta)[:, 0]
            pm.Bernoulli("y", logit_p=rows, observed=part[1])
        return model

    def digest(x, persons=None, made=build):
        unit = None if persons is None else lambda part: persons
        return Shard(Recipe(made, (x, DATA[1]), unit)).read().digest

    x, persons, names = DATA[0], np.arange(61) // 2, np.arange(61).astype(str)
    several = [
        digest(x),
        digest(x, persons),
        digest(x, persons[::-1]),
        digest(x, persons + 1),
        digest(x, names),
    ]
    several += [digest(-x), digest(x, made=sparse_rows), digest(-x, made=sparse_rows)]
    assert len(set(several)) == len(several)
    assert digest(x, persons.copy()) == several[1] and digest(x.copy(), made=sparse_rows) == several[6]


def test_what_is_masked_tells_a_part_from_another():
    """Of the same numbers: a masked one is no number of the model's."""

    def masked(part):
        x, y = part
        with pm.Model() as model:
            data = pm.Data("x", np.zeros(x.shape))
            pm.Bernoulli("y", logit_p=data @ pm.Normal("beta", 0, 2, shape=2), observed=y)
            pm.set_data({"x": x})
        return model

    def digest(mask):
        return Shard(Recipe(masked, (np.ma.array(DATA[0], mask=mask), DATA[1]))).read().digest

    first, second = np.zeros((2, 61, 2), dtype=bool)
    first[3], second[4] = True, True
    assert len({digest(first), digest(second), digest(False)}) == 3
    assert digest(first.copy()) == digest(first)


TWICE = {
    "object": [DATA, DATA],
    "path": ["a.npy", "b.npy", "a.npy"],
    "kind of path": ["a.npy", Path("a.npy")],
    "way to a file": ["a.npy", "./a.npy"],
    "absolute": ["a.npy", Path("a.npy").absolute()],
    "slice": [slice(0, 100), slice(100, 200), slice(0, 100)],
    "tuple": [("a.npy", 3), ("a.npy", 3)],
}


@pytest.mark.parametrize("parts", TWICE.values(), ids=TWICE)
def test_a_part_that_is_given_twice_is_refused(parts):
    with pytest.raises(ValueError, match="one part twice"):
        dp.Shards(build, parts)


def test_a_link_to_a_part_is_that_part(tmp_path):
    os.symlink(tmp_path / "a.npy", tmp_path / "b.npy")
    with pytest.raises(ValueError, match="one part twice"):
        dp.Shards(build, [tmp_path / "a.npy", tmp_path / "b.npy"])
    # Elsewhere a path may lead to another file: only its text is known.
    dp.Shards(build, [tmp_path / "a.npy", tmp_path / "b.npy"], client=object())


def test_other_parts_are_not_refused():
    """Arrays of equal numbers among them: who reads two tables of one number each has two tables."""
    x = np.zeros(3)
    for parts in (
        [x, x.copy()],
        [(x, x), (x, x.copy())],
        [slice(0, 100), slice(100, 200)],
        [("a.npy", 3), ("a.npy", 4)],
        [{"rows": 1}, {"rows": 1}],
    ):
        assert len(dp.Shards(build, parts).parts) == 2


def test_rows_are_evaluated_once_an_iteration(monkeypatch):
    step = make_step(made_up(), data=Given(in_parts(2)))
    servant = in_parts(2)._homes[1].servant
    function, calls = servant.records.full_batch._function, []
    monkeypatch.setattr(
        servant.records.full_batch, "_function", lambda *args: calls.append(1) or function(*args)
    )
    servant._rows.clear()
    walk(step, made_up(), 30)
    assert len(calls) == 31  # and the starting point
    assert len(servant._rows) == 2


def test_asking_again_gives_the_same_answer():
    rng = np.random.default_rng(0)
    questions = [(*rng.normal(size=(2, 2)), 0.1) for _ in range(6)]
    answers = [in_parts(2).totals(*q) for q in questions]
    assert [in_parts(2).totals(*q) for q in reversed(questions)] == answers[::-1]


def test_a_process_without_the_connections_is_refused(monkeypatch):
    records = in_parts(2)
    monkeypatch.setattr(records, "one_process", True)  # as on a cluster
    records.check_data()
    process = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    with pytest.raises(dp.errors.PrivacyError, match="cores=1"):
        records.check_data()


@pytest.mark.slow
def test_sample_and_report(quiet):
    with made_up():
        data = dp.Shards(build, split(DATA, 2))
        step = dp.DPPenaltyMH(epsilon=1, delta=1e-6, lipschitz=1, chains=2, data=data)
    idata = dp.sample(step, 20, tune=10, cores=1, **quiet)
    report = dp.privacy_report(idata)
    assert report.facts["n"] == 61 and report.facts["is_private"] and report.not_released == []
    assert idata.posterior["beta"].shape == (2, 20, 2)


@pytest.mark.slow
def test_dimensions_as_long_as_a_part_are_withheld():
    def with_coords(part):
        x, y = part[:2]
        with pm.Model(coords={"feature": ["a", "b"], "group": list("abcde")}) as model:
            beta = pm.Normal("beta", 0, 2, dims="feature")
            pm.Bernoulli("y", logit_p=x @ beta, observed=y)
        return model

    parts = [simple_data(n=5), simple_data(n=7)]
    template = with_coords(simple_data(n=4))
    assert dp.Shards(with_coords, parts).records(template).withheld_dims == ["group"]
    for persons, withheld in ((3, []), (5, ["group"])):  # not of rows, whose number is private then
        ids = [np.arange(5) % persons, 5 + np.arange(7) % 6]
        of_persons = [(*part, own) for part, own in zip(parts, ids, strict=True)]
        records = dp.Shards(with_coords, of_persons, privacy_unit=by_person).records(template)
        assert records.withheld_dims == withheld and 5 in records.lengths


def test_dask_collections_are_computed_where_the_model_is_made():
    dask = pytest.importorskip("dask")
    array = pytest.importorskip("dask.array")
    made = []

    @dask.delayed
    def load(part):
        made.append(len(part[1]))
        return part

    shards = dp.Shards(build, [load(part) for part in split(DATA, 2)])
    assert made == []
    _, records, _ = Recipe(build, shards.parts[1]).make()
    assert made == [records.n]
    table = np.column_stack(DATA)
    blocks = dp.Shards(build, array.from_array(table, chunks=(31, 3))).parts
    np.testing.assert_array_equal(np.concatenate([block.compute() for block in blocks]), table)
    with pytest.raises(ValueError, match="first axis only"):
        dp.Shards(build, array.from_array(table, chunks=(31, 2)))
    for twice in ([load(1)] * 2, [dask.delayed(split, pure=True)(DATA, 2) for _ in range(2)]):
        with pytest.raises(ValueError, match="one part twice"):
            dp.Shards(build, twice)


@pytest.mark.slow
def test_mapped_arrays_are_not_copied(tmp_path):
    """What the compiled likelihood reads is the files."""
    x, y = DATA
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y.astype(np.int8))
    places = [slice(0, 30), slice(30, 61)]

    def from_file(rows):
        one, other = (np.load(tmp_path / name, mmap_mode="r")[rows] for name in ("x.npy", "y.npy"))
        return build((one, pt.as_tensor(other)))

    records = dp.Shards(from_file, places).records(made_up())
    question = np.zeros(2), np.array([0.3, 0.1]), 0.05
    assert records.totals(*question) == in_parts(2).totals(*question)
    for home, rows in zip(records._homes, places, strict=True):
        read = [v.get_value(borrow=True) for v in home.servant.records.full_batch._function.get_shared()]
        tables = [value for value in read if np.size(value) in (x[rows].size, y[rows].size)]
        assert len(tables) == 2
        for table, name in zip(sorted(tables, key=np.ndim), ("y.npy", "x.npy"), strict=True):
            while not isinstance(table, np.memmap):
                table = table.base
            assert table.filename.name == name


class Busy:
    """A future, or an answer, of Dask: what `result` does each time; statuses change after each."""

    def __init__(self, *events):
        self.events, self.status = list(events), events[0][0]

    def result(self, timeout):
        status, outcome = self.events.pop(0)
        self.status = self.events[0][0] if self.events else status
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def done(self):
        return self.status != "pending"


LATE = TimeoutError()


def on_worker(*events, patience=0.0):
    return OnWorker(SimpleNamespace(submit=lambda *_, **__: Busy(*events)), Shard, patience=patience)


def answering(*events):
    return SimpleNamespace(answer=lambda request: Busy(*events))


@pytest.mark.parametrize("times", [1, 5])
def test_a_worker_that_took_a_part_may_be_busy(times):
    """Whatever the patience: that is for workers that are not there."""
    actor = answering(("finished", "the answer"))
    home = on_worker(*[("finished", LATE)] * times, ("finished", actor))
    assert home.ask("question")() == "the answer"
    # taken just now: by the time that the wait is over, it is known
    home = on_worker(("pending", LATE), ("finished", LATE), ("finished", actor))
    assert home.ask("question")() == "the answer"


def test_a_part_that_no_worker_takes():
    with pytest.raises(UnavailableError, match="within 0 seconds"):
        on_worker(("pending", LATE), ("pending", LATE)).ask("question")
    for status in ("error", "lost", "cancelled"):
        with pytest.raises(LostError, match="TimeoutError"):
            on_worker(("finished", LATE), (status, LATE)).ask("question")()


def test_an_answer_that_comes_when_the_wait_is_over():
    answers = ("pending", LATE), ("pending", LATE), ("finished", "the answer")
    home = on_worker(("finished", answering(*answers)))
    assert home.ask("question")() == "the answer"
    home = on_worker(("finished", answering(("pending", LATE), ("finished", LATE))))
    with pytest.raises(LostError, match="TimeoutError"):
        home.ask("question")()
    home = on_worker(("finished", answering(*answers)))
    wait = home.ask("question")
    home._future.status = "lost"
    with pytest.raises(LostError, match="TimeoutError"):
        wait()


@pytest.mark.parametrize("likelihood", [False, True])
def test_a_part_of_a_likelihood_with_more_records_than_sums_are_exact_for_is_refused(likelihood, monkeypatch):
    monkeypatch.setattr(RecordModel, "lengths", {2**29 + 1})
    shard = Shard(Recipe(build, DATA, likelihood=likelihood))
    if likelihood:
        with pytest.raises(ValueError, match=r"more than 2\*\*29 records"):
            shard.read()
    else:
        assert shard.read().n == 61
