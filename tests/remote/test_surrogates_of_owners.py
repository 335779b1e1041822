"""Control variates with several data owners: noise, price, order, and what an owner does not answer."""

import json
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.control_variates import releases
from pymc_dp.control_variates.clipped_rows import GRID
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.releases import sensitivity
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.mechanisms.randomness import Gaussian, PrivacyRandom
from pymc_dp.ratios.on_owners import OnOwnersResiduals
from pymc_dp.remote import owner as owner_module
from pymc_dp.remote.owner import DataOwner, Terms
from pymc_dp.remote.releases_of_owners import ReleasesOfOwners, joint
from pymc_dp.remote.shard import Shard
from tests.conftest import simple_data
from tests.control_variates.fixed import (
    CENTRE,
    METRIC,
    POINT,
    RELEASES,
    D,
    FixedRecords,
    LogisticRecords,
    some_records,
)
from tests.control_variates.test_releases import extremes
from tests.remote import processes
from tests.remote.parts import build, made_up, split
from tests.remote.test_owners import HOMES, here, said

__all__ = ["here"]  # a fixture
pytestmark = pytest.mark.usefixtures("little_tuning")

ALPHA = 1e-6
DATA = simple_data(n=12_000)
CHECKED = "a text that was found to be a surrogate"
CALL = {"chains": 1, "tune": 0, "draws": 30}


def as_json(settings):
    return json.loads(json.dumps(settings.__dict__))


# owners of numpy records


def owner_of(records, epsilon=5.0, relation="substitute", settings=None, **call):
    """A data owner that has begun a call with control variates."""
    owner = DataOwner(b"", Terms(epsilon, 1e-6, None, None, relation))
    owner._shard = Shard(b"")
    owner._shard.records, owner._d = records, records.d
    owner._surrogate = CHECKED
    settings = ControlVariates(recentre=relation == "substitute") if settings is None else settings
    answer = said(owner, "begin", **{**CALL, **call}, control_variates=as_json(settings))
    assert "answer" in answer, answer
    return owner


class Joint:
    """What `Finder` and `ReleasesOfOwners` take of `RecordsOfOwners`."""

    releases = ReleasesOfOwners

    def __init__(self, owners):
        self.owners, some = owners, owners[0]._shard.records
        self.coordinates, self.d = some.coordinates, some.d
        self.n = sum(owner._shard.records.n for owner in owners)
        self.log_prior = getattr(some, "log_prior", None)
        self.log_prior_gradient = getattr(some, "log_prior_gradient", None)

    def surrogate_sums(self, structure):
        return None

    def ask(self, question, **arguments):
        answers = [said(owner, question, **arguments) for owner in self.owners]
        return [answer["answer"] for answer in answers]


def halves(records):
    rows, k = records.full_batch.rows(np.ones(records.d)), records.n // 3
    return [
        FixedRecords(records.gradients[part], records.hessians[part], rows[part])
        for part in (slice(0, k), slice(k, None))
    ]


BUDGETS = (5.0, 2.0)


def joint_releases(kind, epsilons, relation="substitute", share=0.25, times=1):
    """Releases of two owners, each as if this were the only one of its schedule."""
    owners = [
        owner_of(part, epsilon, relation)
        for part, epsilon in zip(halves(some_records()), epsilons, strict=True)
    ]
    settings = ControlVariates(recentre=relation == "substitute")
    squared = joint([(epsilon, 1e-6) for epsilon in epsilons])
    made = ReleasesOfOwners(Joint(owners), settings, squared, None, None, relation)
    for one in (made, *(owner._releases for owner in owners)):
        one._left = [(kind, share)] * times
    return made, squared, owners


@pytest.mark.parametrize("kind", RELEASES)
def test_without_noise_it_is_the_release_of_all_records(kind):
    made, squared, _ = joint_releases(kind, (np.inf, np.inf))
    assert squared == np.inf
    whole = releases.Releases(some_records(), ControlVariates(), np.inf, PrivacyRandom(0))
    whole._left = [(kind, 0.25)]
    np.testing.assert_allclose(RELEASES[kind](made), RELEASES[kind](whole), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
@pytest.mark.parametrize("kind", RELEASES)
def test_noise_is_that_of_both(kind, relation):
    """Of the joint budget; that of the owner with the larger one, or of the smaller one, is another."""
    times = 10 if kind == "histogram" else 400
    made, squared, owners = joint_releases(kind, BUDGETS, relation, times=times)
    for j, owner in enumerate(owners):
        owner._releases.random = PrivacyRandom(3, j)
    exact = RELEASES[kind](joint_releases(kind, (np.inf, np.inf), relation)[0])
    found = np.ravel(np.array([RELEASES[kind](made) for _ in range(times)]) - exact)
    k = 3 if kind == "line" else 1
    stated = sensitivity(kind, relation, k) / np.sqrt(0.25 * squared)
    assert stats.kstest(found / stated, "norm").pvalue > ALPHA
    for epsilon in BUDGETS:  # controls
        alone = sensitivity(kind, relation, k) / np.sqrt(0.25) / float(gaussian.mu(epsilon, 1e-6))
        off = stats.kstest(found / alone, "norm").pvalue
        assert off < ALPHA or abs(alone / stated - 1) < 0.15


def test_log_ratios_have_the_noise_that_the_test_corrects_for():
    """Of residuals that are 0; all clip at one bound."""
    settings, budgets = ControlVariates(noise_std=1.4), ((0, 9.0), (1, 3.0))
    owners = [owner_of(LogisticRecords(n=50, seed=s), e, settings=settings, draws=2000) for s, e in budgets]
    records = Joint(owners)
    records.owners = SimpleNamespace(terms=[owner._terms for owner in owners])
    records.ask = lambda question, **arguments: Joint.ask(Joint(owners), question, **arguments)
    for j, owner in enumerate(owners):
        owner._shard.compare = lambda *question: (0.0, 0.0)
        owner._random = PrivacyRandom(5, j)
    plan = owners[1]._plan
    target = SimpleNamespace(log_prior=lambda theta: 0.5, surrogate=CHECKED)
    ratio = OnOwnersResiduals(records, 0.7, plan, settings, target)
    found = [ratio(np.zeros(2), np.ones(2), None, np.inf, None) for _ in range(2000)]
    assert {one.log_prior for one in found} == {0.5} and ratio.at(np.zeros(2)) == (None, 0.5)
    (bound,), (std,) = {one.clip_bound for one in found}, {one.noise_std for one in found}
    assert std == pytest.approx(1.4, rel=1e-3)
    nms = np.array([owner._plan.noise_multiplier for owner in owners])
    assert bound * 0.7 * 2 * np.sqrt(nms @ nms) == pytest.approx(1.4)
    for scale, right in ((1.0, True), (1.25, False), (0.8, False)):
        pvalue = stats.kstest([scale * one.value / std for one in found], "norm").pvalue
        assert (pvalue > ALPHA) == right


def test_budgets_add_up_as_noise_does():
    one = (4.0, 1e-6)
    mu = float(gaussian.mu(*one)) ** 2
    assert joint([one]) == pytest.approx(mu)
    assert joint([one] * 3) == pytest.approx(mu / 3)
    assert joint([one, (np.inf, 1e-6)]) == pytest.approx(mu)
    assert joint([(np.inf, 0.1)]) == np.inf


class Drawn(Gaussian):
    """Notes the noise that is drawn."""

    made: list = []  # noqa: RUF012

    def release(self, total, random):
        Drawn.made.append(self.std)
        return super().release(total, random)


@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
def test_each_owner_adds_the_noise_that_it_pays_for(relation, monkeypatch):
    """A whole surrogate, and all decisions: from what is drawn, against each owner's (epsilon, delta)."""
    monkeypatch.setattr(releases, "Gaussian", Drawn)
    monkeypatch.setattr(owner_module, "Gaussian", Drawn)
    settings = ControlVariates(recentre=relation == "substitute")
    owners = [owner_of(LogisticRecords(n=4000, seed=s), e, relation) for s, e in ((0, 30.0), (1, 12.0))]
    spent = [[], []]
    for owner, made in zip(owners, spent, strict=True):
        release = owner._releases.release

        def noted(kind, *arguments, release=release, made=made):
            Drawn.made = []
            values, noise = release(kind, *arguments)
            k = len(arguments[1]) if kind == "line" else 1
            made += [(sensitivity(kind, relation, k) / std) ** 2 for std in Drawn.made]
            return values, noise

        owner._releases.release = noted
        owner._shard.compare = lambda *question: (0.0, 0.0)
    squared = joint([(30.0, 1e-6), (12.0, 1e-6)])
    finder = Finder(Joint(owners), settings, squared, None, 1.0, 12.0, None, None, relation)
    surrogate = finder(np.zeros(2))
    Drawn.made = []
    for _ in range(CALL["draws"]):
        for owner, made in zip(owners, spent, strict=True):
            Drawn.made = []
            answer = said(owner, "compare", point=[0, 0], proposal=[1, 0], surrogate=CHECKED, bound=0.01)
            assert "answer" in answer
            made += [(Terms(1, 1e-6, None, None, relation).sensitivity / std) ** 2 for std in Drawn.made]
    for epsilon, made in zip((30.0, 12.0), spent, strict=True):
        assert len(made) == len(settings.schedule()) + len(settings.late) + CALL["draws"]
        assert sum(made) == pytest.approx(float(gaussian.mu(epsilon, 1e-6)) ** 2, rel=1e-6)
    # Sums of two data sets: the surrogate is of both.
    both = LogisticRecords(n=4000), LogisticRecords(n=4000, seed=1)
    both[0].x, both[0].y = (np.concatenate([getattr(one, name) for one in both]) for name in "xy")
    (part,) = both[0].derivatives(surrogate.point)
    whitened = np.linalg.solve(np.linalg.cholesky(surrogate.gradient_noise), surrogate.gradient)
    exact = np.linalg.solve(np.linalg.cholesky(surrogate.gradient_noise), part.gradient.sum(axis=0))
    assert np.abs(whitened - exact).max() < 6
    (part,) = LogisticRecords(n=4000).derivatives(surrogate.point)
    alone = np.linalg.solve(np.linalg.cholesky(surrogate.gradient_noise), part.gradient.sum(axis=0))
    assert np.abs(whitened - alone).max() > 6  # control


# what an owner does not answer


def refused(owner, question, **arguments):
    return said(owner, question, **arguments).get("refused")


QUESTION = {"kind": "gradient", "arguments": [[0.0] * 3, METRIC.tolist(), [0.0] * 3, 0.7]}


def test_an_owner_answers_its_schedule_once_and_in_order():
    owner = owner_of(some_records())
    assert refused(owner, "release", **QUESTION) == "failed"  # histograms come first
    first = {"kind": "histogram", "arguments": [[0.0] * 3, METRIC.tolist(), [0.0] * 3, [2, 2]]}
    assert len(said(owner, "release", **first)["answer"]) == 2 * 161
    assert refused(owner, "release", **first) == "failed"
    assert refused(owner, "split", first=0.5) == "failed"
    assert refused(owner, "compare", point=[0] * 3, proposal=[1] * 3) == "question"
    for _ in range(2):  # one that has begun is asked the same again, and gives no second schedule
        same = as_json(ControlVariates())
        assert "answer" in said(owner, "begin", **CALL, control_variates=same)
        assert refused(owner, "release", **first) == "failed"
    other = as_json(ControlVariates(chain=0.5))
    assert refused(owner, "begin", **CALL, control_variates=other) == "call"
    assert refused(owner, "begin", **CALL) == "call"


def test_without_control_variates_no_release_is_made():
    owner = DataOwner(b"", Terms(5.0, 1e-6, 1.0, None, "substitute"))
    owner._shard = Shard(b"")
    owner._shard.records = some_records()
    assert refused(owner, "release", **QUESTION) == "question"
    assert "answer" in said(owner, "begin", **CALL)
    assert refused(owner, "release", **QUESTION) == "question"
    assert refused(owner, "split", first=0.5) == "question"
    assert refused(owner, "compare", point=[0] * 3, proposal=[1] * 3, surrogate="{}", bound=1.0) == "question"


def test_settings_that_leave_nothing_or_are_none_are_refused():
    owner = DataOwner(b"", Terms(5.0, 1e-6, None, None, "substitute"))
    for settings in ({"chain": 2.0}, {"unknown": 1}, {"early": "x"}, {"chain": float("nan")}):
        assert refused(owner, "begin", **CALL, control_variates=settings) == "failed"
    assert owner._plan is None


GOOD = (POINT, METRIC, CENTRE, 0.7)


@pytest.mark.parametrize(
    "arguments",
    [
        (POINT[:2], *GOOD[1:]),
        (POINT, METRIC[:2], CENTRE, 0.7),
        (POINT, METRIC * np.nan, CENTRE, 0.7),
        (POINT, METRIC, CENTRE * np.inf, 0.7),
        (*GOOD[:3], 0.0),
        (*GOOD[:3], -1.0),
        (*GOOD[:3], np.nan),
        GOOD[:3],
        (*GOOD, 1.0),
    ],
)
def test_arguments_that_a_sum_does_not_take(arguments):
    owner = owner_of(some_records())
    owner._releases._left = [("gradient", 0.5)]
    given = [np.asarray(one).tolist() for one in arguments]
    assert refused(owner, "release", kind="gradient", arguments=given) == "failed"
    assert owner._releases._left == [("gradient", 0.5)]  # refused before anything is spent, or read
    given = [np.asarray(one).tolist() for one in GOOD]
    assert "answer" in said(owner, "release", kind="gradient", arguments=given)  # control


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("metric", [METRIC, 1e-300 * METRIC, 1e200 * METRIC])
@pytest.mark.parametrize("bound", [0.7, 1e-300, 1e300])
def test_whatever_is_asked_one_record_moves_an_answer_by_its_sensitivity_at_most(metric, bound):
    """In exact integers, of an owner without noise, and a coordinator that asks what it likes."""
    base, found = some_records(), []
    for gradient, hessian, row in extremes():
        owner = owner_of(base.replaced(gradient, hessian, row), np.inf)
        owner._releases._left = [("gradient", 1.0), ("hessian", 1.0), ("cut", 1.0)]
        asked = {
            "gradient": (POINT, metric, 1e100 * CENTRE, bound),
            "hessian": (POINT, metric, bound),
            "cut": (POINT, metric, CENTRE, bound, bound),
        }
        answers = []
        for kind, arguments in asked.items():
            given = [np.asarray(one).tolist() for one in arguments]
            answers.append(said(owner, "release", kind=kind, arguments=given)["answer"])
        found.append([[int(GRID * x) for x in answer] for answer in answers])
    for one, other in combinations(found, 2):
        for a, b in zip(one, other, strict=True):
            assert sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) <= 4 * GRID**2


# whole steps


def two(parts=None, **kwargs):
    parts = split(DATA, 2) if parts is None else parts
    return [
        dp.Owner(name, build, part, **{"epsilon": epsilon, "delta": 1e-6, **kwargs})
        for name, part, epsilon in zip("ab", parts, (4.0, 2.0), strict=False)
    ]


def mode():
    x, y = DATA
    beta = np.zeros(2)
    for _ in range(20):
        p = 1 / (1 + np.exp(-x @ beta))
        precision = (x * (p * (1 - p))[:, None]).T @ x + np.eye(2) / 4
        beta = beta + np.linalg.solve(precision, x.T @ (y - p) - beta / 4)
    return beta


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
def test_a_whole_call(here, quiet, relation, tmp_path):
    """Draws, price, report and ledger; and that only sums on the grid of their noise leave."""
    dp.Ledger(tmp_path / "a.db", epsilon=4.0, delta=1e-6, neighboring_relation=relation)
    owners = two()
    owners[0] = dp.Owner(
        "a", build, split(DATA, 2)[0], epsilon=4.0, delta=1e-6, ledger=str(tmp_path / "a.db")
    )
    with made_up():
        step = dp.DPPenaltyMH(owners=owners, control_variates=True, chains=2, neighboring_relation=relation)
    idata = dp.sample(step, 25, tune=0, **quiet)
    surrogate = dp.surrogate_of(idata)
    wide = np.sqrt(np.diag(np.linalg.inv(surrogate.precision(np.eye(2) / 4, np.eye(2)))))
    mean = idata.posterior["beta"].mean(("chain", "draw")).to_numpy()
    assert np.all(np.abs(mean - mode()) < 6 * wide) and np.all(wide < 0.2)
    report = dp.privacy_report(idata)
    for said_of, epsilon in zip(report.to_dict()["owners"], (4.0, 2.0), strict=True):
        plan = dp.PrivacyPlan.from_dict(said_of["plan"])
        assert epsilon * (1 - 1e-6) < plan.epsilon_at(1e-6) <= epsilon
        assert plan.mu**2 == pytest.approx(float(gaussian.mu(epsilon, 1e-6)) ** 2, rel=1e-6)
        assert plan.iterations == 50 and plan.once.neighboring_relation == relation
        assert (said_of["n"] is None) == (relation == "add_remove")
    np.testing.assert_allclose(idata.sample_stats["noise_std"], 1.0, rtol=1e-3)
    assert report.plan.epsilon == 4.0 and report.plan.epsilon_at(1e-6) <= 4.0
    assert "Owner a:" in str(report) and "each data owner adds" in " ".join(str(report).split())
    (entry,) = dp.Ledger(tmp_path / "a.db").entries()
    assert entry.events == dp.PrivacyPlan.from_dict(report.to_dict()["owners"][0]["plan"]).events
    assert entry.status == "confirmed"
    for home in HOMES:
        released = [(q, a) for q, a in home.passed if json.loads(q)[0] == "release"]
        assert sum(len(a) for _, a in released) > 0
        assert [json.loads(q)[0] for q, _ in home.passed][:2] == ["open", "begin"]
        for _, answer in released:
            values = np.array(json.loads(answer)["answer"])
            np.testing.assert_array_equal(values % 2.0**-12, 0.0)  # noise is far larger


@pytest.mark.slow
def test_owners_in_processes_of_their_own(quiet, monkeypatch):
    processes.for_owners(monkeypatch)
    with made_up():
        step = dp.DPPenaltyMH(
            owners=two(privacy_unit=persons_of, epsilon=20.0), control_variates=True, chains=1
        )
    idata = dp.sample(step, 5, tune=0, **quiet)
    assert isinstance(dp.surrogate_of(idata), Surrogate)
    assert dp.privacy_report(idata).to_dict()["owners"][0]["unit"] == "id"


def persons_of(part):
    return np.arange(len(part[1])) // 2


def test_which_arguments_go_together(here):
    with made_up(), pytest.raises(ValueError, match="exactly one of lipschitz= and clip_bound="):
        dp.DPPenaltyMH(owners=two(), chains=1)
    with made_up(), pytest.raises(ValueError, match="clip_bound= of an owner"):
        dp.DPPenaltyMH(owners=two(clip_bound=1.0), control_variates=True, chains=1)
    with made_up(), pytest.raises(ValueError, match="third_derivative_bound"):
        settings = ControlVariates(third_derivative_bound=1.0)
        dp.DPPenaltyMH(owners=two([simple_data()] * 2), control_variates=settings, chains=1)
    with made_up(), pytest.raises(ValueError, match="proposal="):
        dp.DPPenaltyMH(owners=two(), control_variates=True, proposal="gaussian", chains=1)
    # Refused before any owner's process is started, but for the third.
    assert len(HOMES) == 2


FORGED = {
    "phi": [[0.0], [0.0] * (D + 1), 0.0, [[0.0] * D], [float("nan")] * D, None],
    "point": [[0.0], [float("inf")] * D],
    "centre": [[[0.0] * D] * D, [0.0]],
    "gradient": [[0.0] * (D - 1), "0"],
    "metric": [
        [[1.0] * D],
        [[1.0] * D] * (D - 1),
        [[1.0] * (D - 1)] * D,
        [[[1.0] * D] * D] * D,
        [[float("nan")] * D] * D,
        [[1.0] * D] * D,  # not of the call's blocks
    ],
    "hessian": [[[1.0]], 1.0],
    "gradient_noise": [[1.0] * D],
    "put_back": [[1.0]],
    "seen": [[[1.0]]],
    "gradient_bound": [0.0, -1.0, float("nan"), float("inf"), "1", None, [1.0], True],
    "hessian_bound": [0.0, -1.0, float("inf")],
    "tempering": [float("nan"), "1"],
    "noise_aware": [1.0, None],
    "blocks": [None, [0.0] * D, list(range(40)), [0.0], [float("nan")] * D, 1.0],
}


def surrogate_text(**changed):
    """A surrogate with blocks, valid but for what is changed."""
    zero, one = np.zeros(D), np.eye(D)
    made = Surrogate(zero, zero, one, zero, 1.0, 1.0, zero, one, -one, 0.1, 1.0, blocks=np.arange(D))
    return json.dumps(json.loads(made.to_json()) | changed)


class Unread:
    """Records that must not be read."""

    def __init__(self, records):
        self.records = records

    def compare(self, theta, new, bound, surrogate=""):
        raise AssertionError("a record was read")


def test_an_owner_takes_no_forged_surrogate():
    """With a metric of fewer rows, loops read the rows of other records: one record moved 40 bounds."""
    owner = owner_of(some_records(), settings=ControlVariates(structure="diagonal"))
    owner._shard = Unread(owner._shard.records)
    points = {"point": [0.0] * D, "proposal": [0.1] * D, "bound": 1.0}
    left = owner._left
    texts = [surrogate_text(**{name: value}) for name, values in FORGED.items() for value in values]
    for text in [*texts, "", "x", "[]", "{}", "1", '{"phi": 1}']:
        assert said(owner, "compare", **points, surrogate=text) == {"refused": "question"}, text
    whole = {**points, "surrogate": surrogate_text()}
    for shape in ([0.0], [0.0] * (D + 1), 0.0, [[0.0] * D], "0", None):
        for name in ("point", "proposal"):
            assert "refused" in said(owner, "compare", **{**whole, name: shape})
    assert owner._left == left
    # Control: this one is taken, and records would be read.
    assert said(owner, "compare", **whole) == {"refused": "failed"}
    assert owner._left == left - 1
