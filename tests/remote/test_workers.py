"""Records on the workers of a Dask cluster: the draws of one machine, also when a worker is killed."""

import os
import re
import signal
import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import pymc_dp as dp
from pymc_dp.errors import NotPrivateWarning, PrivacyError
from pymc_dp.records.model import RecordModel
from pymc_dp.remote.answers import UnavailableError
from pymc_dp.remote.shards import SumsOfParts
from tests.conftest import simple_data
from tests.remote import processes
from tests.remote.parts import SECRET, build, build_that_fails, made_up, make_step, split, walk

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow
DATA = simple_data(n=61)
ITERATIONS = 80


@pytest.fixture(scope="module")
def client():
    """Two workers, each a process of one thread."""
    with (
        mock.patch("distributed.nanny.get_mp_context", lambda: processes.CONTEXT),
        mock.patch("distributed.process.get_mp_context", lambda: processes.CONTEXT),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def on_one_machine():
    return walk(make_step(build(DATA), debug_seed=7), made_up(), ITERATIONS)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_decisions_are_those_of_one_machine(client, on_one_machine, k):
    data = dp.Shards(build, split(DATA, k), client=client)
    draws, accepted = walk(make_step(made_up(), data=data, debug_seed=7), made_up(), ITERATIONS)
    np.testing.assert_array_equal(draws, on_one_machine[0])
    np.testing.assert_array_equal(accepted, on_one_machine[1])
    assert 5 < accepted.sum() < ITERATIONS - 5


def released(model, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        return dp.release_likelihood(model, epsilon=2, delta=1e-6, debug_seed=7, **kwargs)


@pytest.mark.parametrize("k", [1, 3])
def test_likelihoods_are_those_of_one_machine(client, k, monkeypatch):
    """Of records on workers, one of which is killed between two sums."""
    part, asked = simple_data(n=200), []
    compare = SumsOfParts.compare

    def kill(*arguments):
        asked.append(arguments)
        if k == 3 and len(asked) == 2:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        return compare(*arguments)

    monkeypatch.setattr(SumsOfParts, "compare", kill)
    one = released(build(part))
    many = released(made_up(), data=dp.Shards(build, split(part, k), client=client))
    for name in ("point", "gradient", "information"):
        np.testing.assert_array_equal(getattr(many, name), getattr(one, name))
    assert len(asked) > 2 and np.linalg.norm(one.information) > 0


def read_parquet(path):
    import pandas as pd

    table = pd.read_parquet(path)
    return build((table[["x0", "x1"]].to_numpy(), table["y"].to_numpy()))


def test_parquet_files(client, tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    paths = []
    for i, (x, y) in enumerate(split(DATA, 3)):
        paths.append(str(tmp_path / f"part-{i}.parquet"))
        pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "y": y}).to_parquet(paths[-1])
    records = dp.Shards(read_parquet, paths, client=client).records(made_up())
    whole = RecordModel(build(DATA))
    question = np.zeros(2), np.array([0.2, -0.1]), 0.01
    one = whole.full_batch(question[1], whole.full_batch.rows(question[0]), 0.01)
    assert records.totals(*question) == (one.total, one.clipped)


def test_the_documented_programs_run(client, tmp_path, monkeypatch):
    """docs/cluster, with this cluster for theirs."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for i in range(5):
        x, y = simple_data(n=20, seed=i)
        path = tmp_path / ("made-up.parquet" if i == 4 else f"visits-{i}.parquet")
        pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "y": y}).to_parquet(path)
    dask_distributed = pytest.importorskip("dask.distributed")
    monkeypatch.setattr(dask_distributed, "LocalCluster", lambda **kwargs: nullcontext(client.cluster))
    monkeypatch.setattr(dask_distributed, "Client", lambda address: nullcontext(client))
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
    first, local, files, _mapped = re.findall(r"^```py(?:thon)?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    namespace = {"__name__": "__main__"}
    for code in (first, local, files):
        exec(code.replace("/data/", f"{tmp_path}/"), namespace)
    assert namespace["idata"].posterior.sizes["draw"] == 100
    assert namespace["likelihood"].facts["n"] == 80


def test_errors_on_workers_show_no_values(client, capfd):
    with pytest.raises(PrivacyError, match="ValueError") as caught:
        dp.Shards(build_that_fails, [DATA], client=client).records(made_up())
    assert str(SECRET) not in repr(caught.getrepr())
    written = capfd.readouterr()
    assert str(SECRET) not in written.out + written.err
    logs = [*client.get_worker_logs().values(), client.get_scheduler_logs()]
    assert str(SECRET) not in repr(logs)


def on_workers(client, workers):
    """A step whose owners are on these workers."""
    owners = [
        dp.Owner(str(j), build, part, epsilon=20.0, delta=1e-6, lipschitz=1.0, client=client, worker=worker)
        for j, (part, worker) in enumerate(zip(split(DATA, 2), workers, strict=True))
    ]
    return make_step(made_up(), owners=owners)


def test_owners_on_workers_of_their_own(client):
    workers = sorted(client.scheduler_info()["workers"])
    step = on_workers(client, workers)
    assert [home._actor._address for home in step.records._homes] == workers
    walk(step, made_up(), 20)
    assert step.records.sizes == [31, 30]


def test_a_worker_killed_in_mid_run(client, on_one_machine):
    """Without warning, between two answers: its part is loaded elsewhere, and the question asked again."""
    data = dp.Shards(build, split(DATA, 2), client=client)
    step = make_step(made_up(), data=data, debug_seed=7)
    normals, drawn = step._chain.random.normals, []
    step._chain.random.normals = lambda size=None: drawn.append(1) or normals(size)

    def kill(i):
        if i == 20:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    draws, _ = walk(step, made_up(), ITERATIONS, before=kill)
    np.testing.assert_array_equal(draws, on_one_machine[0])
    assert len(drawn) == ITERATIONS + 1  # one an iteration, none twice; and one for the clip fraction


def test_a_cluster_without_workers_stops_the_run(client, tmp_path):
    """Last in this file: the cluster is empty after it. Of owners, nothing is asked twice."""
    (worker, *_) = client.scheduler_info()["workers"]
    ledger = dp.Ledger(tmp_path / "a.db", epsilon=60.0, delta=1e-6)
    step = make_step(made_up(), data=dp.Shards(build, split(DATA, 2), client=client), ledger=ledger)
    with_owners = on_workers(client, [worker, worker])
    walk(with_owners, made_up(), 5)
    for home in step.records._homes:
        home.patience = 1.0

    def remove(i):
        if i == 5:
            client.cluster.scale(0)
            while client.scheduler_info()["workers"]:
                time.sleep(0.05)

    with pytest.raises(UnavailableError, match="stays spent"):
        walk(step, made_up(), ITERATIONS, before=remove)
    assert [entry.status for entry in ledger.entries()] == ["reserved"]
    with pytest.raises(UnavailableError, match="Owner '0': the process ended"):
        with_owners.step(with_owners.records.unravel(with_owners._chain.state.theta))
