"""Several data owners: what they say, what they charge, when they refuse."""

import gc
import json
import os
import pickle
import re
import signal
import stat
import sys
import traceback
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.privacy.budget.plan import PrivacyPlan
from pymc_dp.privacy.mechanisms.randomness import Gaussian
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import GRID
from pymc_dp.remote.answers import REFUSALS, UnavailableError, refused
from pymc_dp.remote.homes import Here
from pymc_dp.remote.owner import DataOwner, Terms
from pymc_dp.remote.owners import Owners
from pymc_dp.remote.shard import Recipe
from tests.conftest import simple_data
from tests.remote import processes
from tests.remote.parts import SECRET, SECRETIVE, build, build_that_raises, made_up, make_step, split, walk

DATA = simple_data(n=61)
TERMS = {"epsilon": 5.0, "delta": 1e-6, "lipschitz": 1.0, "clip_bound": None}
BUDGET = {"epsilon": 5.0, "delta": 1e-6, "lipschitz": 1.0}
FALSE_ALARM = 1e-6
HOMES: list = []


class Recorded(Here):
    """An owner in this process, and all that passed between the two sides."""

    passed: tuple = ()

    def __init__(self, servant):
        super().__init__(servant)
        HOMES.append(self)

    def ask(self, request):
        wait = super().ask(request)

        def recorded():
            answer = wait()
            self.passed += ((request, answer),)
            return answer

        return recorded


@pytest.fixture
def here(monkeypatch):
    """Owners whose objects live in this process."""
    monkeypatch.setattr(
        dp.Owner,
        "home",
        lambda owner, recipe, terms: Recorded(DataOwner(recipe, terms, owner.ledger, owner.log)),
    )
    HOMES.clear()


def owners(parts=None, epsilon=(5.0, 10.0), **kwargs):
    parts = split(DATA, 2) if parts is None else parts
    return [
        dp.Owner(name, build, part, epsilon=e, **{"delta": 1e-6, "lipschitz": 1.0, **kwargs})
        for name, part, e in zip("abcdef", parts, epsilon, strict=False)
    ]


def opened(terms=(), part=DATA, chains=1, tune=0, draws=100, ledger=None):
    """A data owner that has begun a call."""
    owner = DataOwner(
        Recipe(build, part), Terms(**{**TERMS, "neighboring_relation": "substitute", **dict(terms)}), ledger
    )
    said(owner, "open", agreement=agreement())
    said(owner, "begin", chains=chains, tune=tune, draws=draws)
    return owner


_AGREEMENT: list = []


def agreement():
    if not _AGREEMENT:
        _AGREEMENT.append(dp.Shards(build, [DATA]).records(made_up()).agreement())
    return _AGREEMENT[0]


def said(owner, question, **arguments):
    return json.loads(owner.answer(json.dumps([question, arguments])))


def compared(owner, theta, new):
    return said(owner, "compare", point=list(theta), proposal=list(new))


@pytest.mark.slow
def test_each_owner_has_its_own_price(here, quiet):
    with made_up():
        step = dp.DPPenaltyMH(owners=owners(), chains=2)
    idata = dp.sample(step, 20, tune=10, **quiet)
    report = dp.privacy_report(idata)
    low, high = report.to_dict()["owners"]
    assert [low["name"], low["n"], high["n"]] == ["a", 31, 30]
    plans = [PrivacyPlan.from_dict(one["plan"]) for one in (low, high)]
    for plan, epsilon in zip(plans, (5.0, 10.0), strict=True):
        assert epsilon * (1 - 1e-6) < plan.epsilon_at(1e-6) <= epsilon
        assert plan.iterations == 60
        # Every noisy sum is charged as a Gaussian.
        assert plan.mu == pytest.approx(np.sqrt(60) / plan.noise_multiplier)
    assert plans[0].noise_multiplier > plans[1].noise_multiplier
    assert report.plan.epsilon == 10.0 and report.plan.epsilon_at(1e-6) <= 10.0
    assert report.plan.mu == plans[1].mu  # what holds for every record
    text = str(report)
    assert "Owner a:" in text and "(5, 1e-06)-differential privacy of its own" in text
    assert "the coordinator, other owners" in " ".join(text.split())
    assert step.facts()["n"] == 61 and report.facts["is_private"]
    json.loads(report.to_json())


@pytest.mark.slow
def test_only_noisy_sums_are_said(here):
    """Everything that passed: sizes and noise once, then one number an iteration, each with full noise."""
    step = make_step(made_up(), owners=owners(), draws=300)
    walk(step, made_up(), 300)
    wholes = [RecordModel(build(part)) for part in split(DATA, 2)]
    for home, whole, noise in zip(step.records._homes, wholes, step._chain.ratio._noise, strict=True):
        answers = [json.loads(answer)["answer"] for _, answer in home.passed]
        assert answers[0] == {"n": whole.n} and list(answers[1]) == ["noise_multiplier"]
        assert len(answers) == 2 + 300
        errors = []
        for (request, _), noisy in zip(home.passed[2:], answers[2:], strict=True):
            question, points = json.loads(request)
            assert question == "compare" and isinstance(noisy, float)
            theta, new = np.array(points["point"]), np.array(points["proposal"])
            bound = np.linalg.norm(new - theta)
            exact = whole.full_batch(new, whole.full_batch.rows(theta), bound).total / GRID
            errors.append((noisy - exact) / noise)
            assert noisy / Gaussian(noise).grid == round(noisy / Gaussian(noise).grid)
        assert noise == 2 * answers[1]["noise_multiplier"]
        assert stats.kstest(errors, "norm").pvalue > FALSE_ALARM
        assert stats.kstest(np.array(errors) / 2, "norm").pvalue < FALSE_ALARM  # control: half the noise
    first, second = ([json.loads(a)["answer"] for _, a in home.passed[2:]] for home in step.records._homes)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.3  # each its own stream


@pytest.mark.slow
def test_no_seed_controls_an_owners_noise(here):
    sums = []
    for _ in range(2):
        step = make_step(made_up(), owners=owners(), debug_seed=3)
        walk(step, made_up(), 1)
        sums.append(step.records._homes[0].passed[-1])
    assert sums[0][0] == sums[1][0] and sums[0][1] != sums[1][1]
    assert not step.is_private  # the step's own part of it is known


@pytest.mark.slow
@pytest.mark.parametrize("poison", [np.nan, np.inf, -1e300])
def test_a_record_moves_a_sum_by_at_most_the_sensitivity(poison):
    question, sums = (np.zeros(2), np.array([0.3, 0.1])), []
    for changed in (False, True):
        x, y = simple_data(n=61)
        x[5] = poison if changed else x[5]
        sums.append(compared(opened({"epsilon": np.inf}, part=(x, y)), *question)["answer"])
    assert 0 < abs(sums[1] - sums[0]) <= 2


def test_points_of_an_adversary():
    """Whatever the coordinator asks, an owner's answer is a sum of clipped numbers plus noise."""
    owner = opened({"epsilon": np.inf})
    odd = [np.zeros(2), np.full(2, np.nan), np.full(2, np.inf), np.full(2, 1e308), np.full(2, 1e-308)]
    for theta in odd:
        for new in odd:
            assert abs(compared(owner, theta, new)["answer"]) <= 61


def test_an_owner_counts_its_iterations():
    owner = opened(chains=2, tune=1, draws=4)
    assert said(owner, "begin", chains=2, tune=1, draws=4)["answer"]["noise_multiplier"] > 0  # another chain
    for _ in range(10):
        assert "answer" in compared(owner, [0, 0], [0.1, 0])
    assert compared(owner, [0, 0], [0.1, 0])["refused"] == "iteration"
    said(owner, "begin", chains=2, tune=1, draws=4)
    assert compared(owner, [0, 0], [0.1, 0])["refused"] == "iteration"
    assert said(owner, "begin", chains=2, tune=1, draws=5)["refused"] == "call"


def test_nothing_is_said_before_it_is_paid():
    owner = DataOwner(Recipe(build, DATA), Terms(**TERMS, neighboring_relation="substitute"))
    assert said(owner, "compare", point=[0, 0], proposal=[1, 1])["refused"] == "iteration"
    assert said(owner, "rows")["refused"] == "question"
    assert said(owner, "_compare", point=[0, 0], proposal=[1, 1])["refused"] == "question"
    assert said(owner, ["open"])["refused"] == said(owner, "begin", chains="many")["refused"] == "failed"
    assert json.loads(owner.answer("not JSON"))["refused"] == "failed"


@pytest.mark.parametrize("error", SECRETIVE, ids=SECRETIVE)
@pytest.mark.parametrize("where", ["build", "privacy_unit"])
def test_of_an_error_a_code_crosses_and_nothing_else(error, where, tmp_path):
    """Message, class, notes, causes and exit codes stay in the owner's log."""
    log, raises = tmp_path / "log", where == "build"
    recipe = Recipe(build_that_raises if raises else one_part, error, None if raises else build_that_raises)
    owner = DataOwner(recipe, Terms(**TERMS, neighboring_relation="substitute"), log=str(log))
    assert owner.answer(json.dumps(["open", {"agreement": agreement()}])) == '{"refused": "records"}'
    assert str(SECRET) in log.read_text()  # control: it is there to be shown
    if os.name == "posix":
        assert stat.S_IMODE(log.stat().st_mode) == 0o600


@cache
def one_part(part):
    return build(DATA)


@pytest.mark.parametrize("error", ["message", "ours"])
def test_what_the_coordinator_is_shown(error, here):
    one = dp.Owner("a", build_that_raises, error, **BUDGET)
    with made_up(), pytest.raises(dp.errors.ModelRefusedError, match="Owner 'a': Its records") as caught:
        dp.DPPenaltyMH(owners=[one], chains=1)
    assert [answer for _, answer in HOMES[0].passed] == ['{"refused": "records"}']
    for shown in (
        "".join(traceback.format_exception(caught.value)),
        pickle.dumps(caught.value).decode("latin1"),
        repr((caught.value.__context__, caught.value.__cause__, vars(caught.value))),
    ):
        assert str(SECRET) not in shown and error not in shown


def two_of_a_kind(part):
    """Rows of different numbers: the message says them."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=np.zeros(41))
        pm.Normal("z", mu, 1, observed=np.zeros(43))
    return model


@pytest.mark.parametrize(
    ("make", "ids"),
    [
        (two_of_a_kind, None),
        (lambda part: build((DATA[0][:1], DATA[1][:1])), None),
        (lambda part: None, None),
        (lambda part: build(DATA), lambda part: np.arange(43)),
        (lambda part: build(DATA), lambda part: [SECRET] * 61),
        (lambda part: build(DATA), lambda part: [None] * 61),
    ],
)
def test_why_a_model_was_refused_is_not_said(make, ids, tmp_path):
    terms = Terms(**TERMS, neighboring_relation="substitute")
    owner = DataOwner(Recipe(make, None, ids), terms, log=str(tmp_path / "log"))
    assert owner.answer(json.dumps(["open", {"agreement": agreement()}])) == '{"refused": "records"}'
    assert "Traceback" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("ids", "relation", "terms"),
    [
        (None, "substitute", {"neighboring_relation": "add_remove"}),
        (None, "add_remove", {"neighboring_relation": "substitute"}),
        (None, "substitute", {"neighboring_relation": "substitute", "unit": "patient"}),
        (lambda part: np.arange(len(part[1])), "substitute", {"neighboring_relation": "substitute"}),
    ],
)
def test_terms_for_other_units_than_were_read_are_refused(ids, relation, terms):
    """Noise protected rows, and the ledger of the patients was charged."""
    recipe = Recipe(build, DATA, ids, {"neighboring_relation": relation})
    agree = dp.Shards(build, [DATA]).records(made_up(), neighboring_relation=relation).agreement()
    owner = DataOwner(recipe, Terms(**TERMS, **terms))
    assert said(owner, "open", agreement=agree) == {"refused": "terms"}
    unit = "row" if ids is None else "id"
    owner = DataOwner(recipe, Terms(**TERMS, neighboring_relation=relation, unit=unit))
    assert "answer" in said(owner, "open", agreement=agree)  # control


def test_another_prior_has_a_code(tmp_path):
    def other(part):
        with pm.Model() as model:
            beta = pm.Normal("beta", part[0].mean(), 2, shape=2)
            pm.Bernoulli("y", logit_p=part[0] @ beta, observed=part[1])
        return model

    owner = DataOwner(Recipe(other, DATA), Terms(**TERMS, neighboring_relation="substitute"))
    assert owner.answer(json.dumps(["open", {"agreement": agreement()}])) == '{"refused": "agreement"}'


def test_a_log_that_cannot_be_written(tmp_path):
    terms = Terms(**TERMS, neighboring_relation="substitute")
    owner = DataOwner(Recipe(build, DATA), terms, log=str(tmp_path / "missing" / "log"))
    assert said(owner, "open", agreement=agreement()) == {"refused": "log"}


def test_warnings_and_prints_of_build_stay(tmp_path, capfd):
    def talks(part):
        warnings.warn(f"a warning about {SECRET}", stacklevel=1)
        print(f"the first row is {SECRET}")
        return build(part)

    terms = Terms(**TERMS, neighboring_relation="substitute")
    owner = DataOwner(Recipe(talks, DATA), terms, log=str(tmp_path / "log"))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # As outside of pytest, which records them.
        warnings.showwarning = lambda message, *_, **__: print(message, file=sys.stderr)
        assert said(owner, "open", agreement=agreement()) == {"answer": {"n": 61}}
    assert str(SECRET) not in "".join(capfd.readouterr())
    assert (tmp_path / "log").read_text().count(str(SECRET)) >= 2


def test_the_list_of_codes_is_closed():
    for code in REFUSALS:
        error = refused("a", code)
        assert str(error).startswith("Owner 'a': ") and pickle.loads(pickle.dumps(error)).args == error.args
    for code in (str(SECRET), SECRET, [SECRET], None, {"refused": SECRET}):
        assert str(refused("a", code)) == str(refused("a", "failed"))


@pytest.mark.parametrize("text", [f"not JSON {SECRET}", "{}", "[]", "3", f'{{"refused": "{SECRET}"}}'])
def test_what_is_no_answer_is_not_shown(text, here, monkeypatch):
    monkeypatch.setattr(DataOwner, "answer", lambda *_: text)
    with made_up(), pytest.raises(dp.errors.PrivacyError, match="could not answer") as caught:
        dp.DPPenaltyMH(owners=owners(), chains=1)
    assert str(SECRET) not in "".join(traceback.format_exception(caught.value))


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", ["message", "class of no Exception", pytest.param("exit", marks=pytest.mark.exhaustive)]
)
def test_nothing_comes_out_of_an_owners_process(error, tmp_path, capfd):
    """Bytes on the pipe, and what the process writes to its standard output, errors and loggers."""
    received = []
    log = tmp_path / "log"
    one = dp.Owner("a", build_that_raises, error, **BUDGET, log=log)
    home = one.home(Recipe(one.build, one.part), one.terms("substitute"))
    receive = home._connection.recv_bytes
    home._connection = Watching(home._connection, lambda: received.append(receive()) or received[-1])
    answer = home.ask(json.dumps(["open", {"agreement": agreement()}]))()
    assert answer.encode() == received[0] == b'{"refused": "records"}' and len(received) == 1
    del home
    gc.collect()  # ends the process
    assert str(SECRET) not in "".join(capfd.readouterr())
    assert str(SECRET) in log.read_text()


class Watching:
    """A connection whose received bytes are kept."""

    def __init__(self, connection, recv_bytes):
        self.poll, self.close, self.send_bytes = connection.poll, connection.close, connection.send_bytes
        self.recv_bytes = recv_bytes


@pytest.mark.slow
def test_a_ledger_of_its_own(here, tmp_path):
    paths = [str(tmp_path / f"{name}.db") for name in "ab"]
    ledgers = [dp.Ledger(path, epsilon=8.0, delta=1e-6) for path in paths]
    both = [
        dp.Owner(name, build, part, epsilon=5.0, delta=1e-6, lipschitz=1.0, ledger=path)
        for name, part, path in zip("ab", split(DATA, 2), paths, strict=True)
    ]
    step = make_step(made_up(), owners=both, draws=10)
    assert [ledger.entries()[0].status for ledger in ledgers] == ["reserved"] * 2
    walk(step, made_up(), 10)
    for ledger in ledgers:
        (entry,) = ledger.entries()
        assert entry.status == "confirmed" and entry.events == step.plan.events
    ledgers[1].record(step.plan.events)  # elsewhere
    with pytest.raises(
        dp.errors.BudgetError, match="Owner 'b': This call does not fit what its ledger has left"
    ):
        make_step(made_up(), owners=both, draws=10)
    assert len(ledgers[0].entries()) == 2 and len(ledgers[1].entries()) == 2


def test_a_ledger_that_does_not_fit_is_refused(tmp_path):
    """Before anything is said: another relation, or no file."""
    dp.Ledger(tmp_path / "a.db", epsilon=8.0, delta=1e-6, neighboring_relation="add_remove")
    for name, kind in (("a.db", "relation"), ("b.db", "ledger")):
        terms = Terms(**TERMS, neighboring_relation="substitute")
        owner = DataOwner(Recipe(build, DATA), terms, str(tmp_path / name))
        assert said(owner, "begin", chains=1, tune=0, draws=10)["refused"] == kind
        assert compared(owner, [0, 0], [1, 1])["refused"] == "iteration"


def test_without_a_public_n_it_is_not_said(here, quiet):
    with made_up():
        step = dp.DPPenaltyMH(owners=owners(), chains=1, neighboring_relation="add_remove")
    idata = dp.sample(step, 5, tune=0, **quiet)
    passed = [json.loads(answer)["answer"] for _, answer in step.records._homes[0].passed]
    assert passed[0] == {"n": None} and step.records.n is None
    assert step._chain.ratio._noise == [
        one["noise_multiplier"] for one in step.records.ask("begin", chains=1, tune=0, draws=5)
    ]
    assert "n withheld" in str(dp.privacy_report(idata))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"epsilon": 1.0}, "leave out epsilon"),
        ({"lipschitz": 1.0, "delta": 1e-6}, "leave out delta, lipschitz"),
        ({"batch_size": 5}, "leave out batch_size"),
        ({"privacy_unit": [1, 2]}, "leave out privacy_unit"),
        ({"owners": []}, "different names"),
        ({"owners": owners()[:1] * 2}, "different names"),
        ({"owners": [*owners()[:1], *owners(lipschitz=None, clip_bound=1.0)[1:]]}, "All owners give"),
    ],
)
def test_arguments_of_the_step(kwargs, message):
    with made_up(), pytest.raises(ValueError, match=message):
        dp.DPPenaltyMH(**{"owners": owners(), "chains": 1, **kwargs})


@pytest.mark.parametrize("kind", [dp.DPPenaltyMH, dp.DPBarker, dp.DPFastMH, dp.DPNUTS, dp.release_likelihood])
def test_owners_are_not_taken_as_data(kind, here):
    """The call's own epsilon would be another than what they are guaranteed."""
    likelihood = kind in (dp.DPNUTS, dp.release_likelihood)
    bound = {} if likelihood else {"lipschitz": 1.0}
    joint = Owners(owners(**{"lipschitz": None} if likelihood else {}), "substitute", likelihood)
    with made_up(), pytest.raises(TypeError, match="given as owners="):
        kind(epsilon=1000.0, delta=1e-6, data=joint, **bound)
    assert not HOMES


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"delta": 0.0}, "delta must lie"),
        ({"clip_bound": 1.0}, "exactly one of"),
        ({"lipschitz": -1.0}, "lipschitz must be"),
        ({"worker": "tcp://somewhere"}, "belong together"),
        ({"ledger": 3}, "is a path, where its process runs"),
    ],
)
def test_arguments_of_an_owner(kwargs, message):
    with pytest.raises(ValueError, match=message):
        dp.Owner("a", build, DATA, **{"epsilon": 1.0, "delta": 1e-6, "lipschitz": 1.0, **kwargs})


def test_a_refusal_names_the_owner(here):
    x, y = DATA
    with (
        made_up(),
        pytest.raises(dp.errors.ModelRefusedError, match="Owner 'b': Its records could not be read"),
    ):
        dp.DPPenaltyMH(owners=owners([DATA, (x[:1], y[:1])]), chains=1)


@pytest.mark.slow
def test_the_step_starts_where_the_joint_noise_is_best(here):
    step = make_step(made_up(), owners=owners(lipschitz=0.5), step_size=None)
    _, (stat, *_) = None, step.step(made_up().initial_point(0))[1]
    assert stat["noise_std"] == pytest.approx(step._best_noise_std, rel=1e-3)


@pytest.mark.slow
def test_chains_in_other_processes_are_refused(here, quiet):
    """Before they take their share of the budget."""
    with made_up():
        step = dp.DPPenaltyMH(owners=owners(), chains=2)
    with pytest.raises(Exception, match="cores=1"):
        dp.sample(step, 5, tune=0, cores=2, **quiet)
    dp.sample(step, 5, tune=0, **quiet)


@pytest.mark.slow
def test_the_documented_program_runs(here, tmp_path):
    """docs/owners, with owners in this process and a shorter run."""
    page = (Path(__file__).parents[2] / "docs" / "owners.md").read_text()
    (code,) = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for folder, seed in (("north", 0), ("south", 1)):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "visits", *simple_data(n=30, seed=seed))
    dp.Ledger(tmp_path / "north" / "ledger.db", epsilon=3.0, delta=1e-6)
    read = {"/north": f"{tmp_path}/north", "/south": f"{tmp_path}/south", "parquet": "npz"}
    run = {"model=likelihood.model()": "20, tune=10, chains=1, progressbar=False, model=likelihood.model()"}
    for old, new in {**read, **run}.items():
        code = code.replace(old, new)
    namespace = {"__name__": "__main__", "read": lambda path: tuple(np.load(path).values())}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of so few draws
        exec(code, namespace)
    assert namespace["idata"].posterior.sizes["draw"] == 20
    assert [owner["n"] for owner in namespace["likelihood"].facts["owners"]] == [30, 30]


@pytest.mark.slow
def test_in_processes_of_their_own(tmp_path, monkeypatch):
    """Pipes are watched: texts alone pass, as many as there are iterations; a killed owner ends the run."""
    processes.for_owners(monkeypatch)
    path = str(tmp_path / "b.db")
    dp.Ledger(path, epsilon=60.0, delta=1e-6)
    both = [
        *owners()[:1],
        dp.Owner("b", build, split(DATA, 2)[1], epsilon=50.0, delta=1e-6, lipschitz=1.0, ledger=path),
    ]
    step = make_step(made_up(), owners=both, chains=1)
    pids = [home._process.pid for home in step.records._homes]
    assert len({*pids, os.getpid()}) == 3
    home = step.records._homes[1]
    connection, received = home._connection, []

    class Watched:
        poll, close = connection.poll, connection.close
        send_bytes = staticmethod(lambda text: received.append(("to", text)) or connection.send_bytes(text))

        @staticmethod
        def recv_bytes():
            received.append(("from", connection.recv_bytes()))
            return received[-1][1]

    home._connection = Watched
    walk(step, made_up(), 20)
    assert len(received) == 40
    values = {f"{value:.6f}" for value in np.ravel(split(DATA, 2)[1][0])}
    for direction, text in received:
        if direction == "from":
            assert list(json.loads(text)) == ["answer"]
            assert isinstance(json.loads(text)["answer"], float)
            assert not any(value in text.decode() for value in values)
    with pytest.raises(KeyboardInterrupt):
        Watched.poll = staticmethod(interrupt)
        walk_on(step)
    with pytest.raises(UnavailableError):  # the answer of then is not taken for that of now
        walk_on(step)
    assert len(received) == 41
    connection.recv_bytes()
    Watched.poll, home._waiting = connection.poll, False
    walk_on(step)
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(UnavailableError, match="Owner 'b': the process ended"):
        walk_on(step)
    assert [entry.status for entry in dp.Ledger(path).entries()] == ["reserved"]


def interrupt(seconds):
    raise KeyboardInterrupt


def walk_on(step):
    point = step.records.unravel(step._chain.state.theta)
    for _ in range(5):
        point, _ = step.step(point)


@pytest.mark.parametrize("question", ["open", "begin", "compare"])
@pytest.mark.parametrize(
    "answer", ['"abc"', "null", "[1]", '{"n": "x"}', '{"n": true}', "NaN", "1e999", "true"]
)
def test_an_owner_that_says_anything_ends_in_an_error_of_the_package(
    here, monkeypatch, quiet, question, answer
):
    """It ended in a TypeError, or went into a ratio."""
    usual = DataOwner.answer

    def lies(owner, request):
        return f'{{"answer": {answer}}}' if json.loads(request)[0] == question else usual(owner, request)

    monkeypatch.setattr(DataOwner, "answer", lies)
    with made_up(), pytest.raises(dp.errors.PrivacyError, match="an answer that is none"):
        dp.sample(draws=3, step=dp.DPPenaltyMH(owners=owners(), chains=1), tune=0, cores=1, **quiet)
