"""Likelihoods of several owners' records: noise, budgets, and what an owner does not answer."""

import copy
import json
import math
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import pymc_dp as dp
from pymc_dp.errors import NotPrivateWarning
from pymc_dp.likelihood.comparisons import VARIANCE_WEIGHT
from pymc_dp.likelihood.score_sizes import OCTAVES
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import Gaussian, PrivacyRandom
from pymc_dp.remote.answers import UnavailableError
from pymc_dp.remote.homes import LostError
from pymc_dp.remote.measurements_of_owners import MOST_TWINS, MeasurementsOfOwners
from pymc_dp.remote.owner import DataOwner, Terms
from pymc_dp.remote.owners import Owners
from tests.conftest import simple_data
from tests.likelihood import test_measurements as one_place
from tests.likelihood.test_measurements import BOUNDS, METRIC, PHI, P, Records, numbers_of, right, some
from tests.remote import processes
from tests.remote.parts import build, made_up, split
from tests.remote.test_owners import HOMES, here, said

__all__ = ["here"]  # a fixture

DELTA, EPSILONS, SHARE, ROUNDS = 1e-6, (1.0, 2.5), 1e-4, 1200
DATA = simple_data(n=3000)


def owner_of(records, epsilon=1.0, relation="substitute", begin=True):
    """A data owner of these records, which has begun a likelihood."""
    owner = DataOwner(b"", Terms(epsilon, DELTA, None, None, relation))
    owner._shard = SimpleNamespace(records=SimpleNamespace(twins=records))
    assert not begin or "answer" in said(owner, "begin_likelihood")
    return owner


def paid(epsilon, relation="substitute"):
    spending = Spending(epsilon, DELTA, [1.0], relation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        spending.pay()
    return spending


def joined(epsilons, relation="substitute"):
    """Measurements of owners with a record set each."""
    records = [Records(some(seed)) for seed, _ in enumerate(epsilons)]
    owners = [owner_of(one, epsilon, relation) for one, epsilon in zip(records, epsilons, strict=True)]

    def ask(question, **arguments):
        return [said(owner, question, **arguments)["answer"] for owner in owners]

    return MeasurementsOfOwners(records[0], ask, paid(max(epsilons), relation)), records


# noise


def exact(epsilons=(math.inf, math.inf)):
    """Without noise: of owners, and of all records in one place."""
    made, _ = joined(epsilons)
    whole = one_place.measurements(Records(some(0)), paid(math.inf))
    other = one_place.measurements(Records(some(1)), paid(math.inf))
    shares = (SHARE, SHARE)
    ones = [each.compare(PHI, METRIC, BOUNDS, 3, shares) for each in (made, whole, other)]
    return ones, [each.scales(PHI, 3, SHARE) for each in (made, whole, other)]


def test_without_noise_it_is_the_sum_of_all_records():
    (joint, *each), (scales, *others) = exact()
    for name in ("score", "slope", "variances"):
        np.testing.assert_array_equal(getattr(joint, name), sum(getattr(one, name) for one in each))
    np.testing.assert_array_equal(scales.counts, sum(one.counts for one in others))
    assert joint.score_noise == joint.slope_noise == joint.variance_noise == scales.noise == 0.0


def spread(relation):
    """Mean squares of the joint noise over what it should be, and how many numbers there are."""
    (without, *_), (counts, *_) = exact()
    wanted, made = numbers_of(without, counts), joined(EPSILONS, relation)[0]
    two = 2.0 if relation == "substitute" else 1.0
    noise = math.sqrt(sum(1 / float(gaussian.mu(epsilon, DELTA)) ** 2 for epsilon in EPSILONS) / SHARE)
    slope = math.sqrt(two) * BOUNDS.slope * noise
    stds = {
        "score": two * BOUNDS.score * noise,
        "diagonal": slope,
        "lower": slope / math.sqrt(2),
        "variances": slope / VARIANCE_WEIGHT,
        "scales": math.sqrt(2 * two) * noise,
    }
    found = []
    for _ in range(ROUNDS):
        one, scales = made.compare(PHI, METRIC, BOUNDS, 3, (SHARE, SHARE)), made.scales(PHI, 3, SHARE)
        found.append(numbers_of(one, scales))
    told = [one.score_noise, one.slope_noise, one.variance_noise, scales.noise]
    np.testing.assert_allclose(
        told, [stds[k] for k in ("score", "diagonal", "variances", "scales")], rtol=1e-8
    )
    assert made.left == pytest.approx(1 - 3 * SHARE * ROUNDS)
    z = {kind: np.array([each[kind] - wanted[kind] for each in found]) / std for kind, std in stds.items()}
    return {kind: (float((v**2).sum()), v.size) for kind, v in z.items()}


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
def test_noise_is_the_sum_of_the_owners(relation):
    for kind, each in spread(relation).items():
        assert right(*each), kind


@pytest.mark.slow
def test_a_tenth_less_noise_is_noticed(monkeypatch):
    """Control."""
    normals = PrivacyRandom.normals
    monkeypatch.setattr(PrivacyRandom, "normals", lambda self, size: 0.9 * normals(self, size))
    found = spread("substitute")
    assert not any(right(*each) for each in found.values())


def test_the_budget_of_all_is_that_of_their_joint_noise():
    owners = [dp.Owner(str(e), build, None, epsilon=e, delta=DELTA) for e in EPSILONS]
    joint = Owners(owners, "substitute", likelihood=True)
    mus = [float(gaussian.mu(epsilon, DELTA)) for epsilon in EPSILONS]
    assert joint.mu == pytest.approx(sum(mu**-2 for mu in mus) ** -0.5, rel=1e-8)
    assert joint.spending.multipliers == pytest.approx([1 / max(mus)], rel=1e-8)
    assert (joint.epsilon, joint.delta) == (2.5, DELTA)


def test_noise_of_an_owner_is_its_own():
    """Of equal records and budgets; and nobody can seed it."""
    first, second = (owner_of(Records(some())) for _ in range(2))
    question = {"known": False, "which": 0, "phi": PHI.tolist(), "twins": 3, "share": 0.25}
    one, other = (said(owner, "scales", **question)["answer"]["counts"] for owner in (first, second))
    assert np.mean(np.array(one) == np.array(other)) < 0.5  # of a grid, some are
    # Of a grid that is public: nothing is seen below the noise's own last bits.
    values = np.array(one).ravel()
    grid = Gaussian(said(first, "scales", **question)["answer"]["noise"]).grid
    np.testing.assert_array_equal(values / grid, np.rint(values / grid))


# questions


WHICH = {"known": False, "which": 0}
QUESTION = {**WHICH, "phi": [0.0] * P, "metric": np.eye(P).tolist(), "bounds": [1.0, 1.0], "twins": 3}
COMPARED = {**QUESTION, "shares": [0.3, 0.2]}
COUNTED = {**WHICH, "phi": [0.0] * P, "twins": 3, "share": 0.3}
BAD_NUMBERS = [math.nan, math.inf, -1.0, 0.0, "1", None, True, [0.1]]


def bad_questions():
    for share in [*BAD_NUMBERS, 1.0 + 1e-9]:
        yield "scales", COUNTED | {"share": share}
        yield "compare_with_twins", COMPARED | {"shares": [0.1, share]}
        yield "compare_with_twins", COMPARED | {"shares": [share, 0.1]}
    for bound in BAD_NUMBERS:
        yield "compare_with_twins", COMPARED | {"bounds": [1.0, bound]}
        yield "compare_with_twins", COMPARED | {"bounds": [bound, 1.0]}
    for twins in (-1, MOST_TWINS + 1, 2.0, True, None, "3"):
        yield "scales", COUNTED | {"twins": twins}
        yield "compare_with_twins", COMPARED | {"twins": twins}
    for phi in ([0.0], [0.0] * (P + 1), [[0.0] * (P + 1)], [math.nan] * P, "phi", None, {}):
        yield "scales", COUNTED | {"phi": phi}
        yield "compare_with_twins", COMPARED | {"phi": phi}
    yield "scales", COUNTED | {"phi": [[0.0] * P]}
    for phi in ([], [[]], [[0.0] * P] * 17, [[0.0] * P, [math.inf] * P], [[[0.0] * P]], [[0.0] * P, None]):
        yield "compare_with_twins", COMPARED | {"phi": phi}
    for metric in ([0.0], np.eye(P + 1).tolist(), np.full((P, P), math.inf).tolist(), None, "m"):
        yield "compare_with_twins", COMPARED | {"metric": metric}
    for which in (1, -1, 0.0, "0", None, True, [0]):
        yield "scales", COUNTED | {"which": which}
        yield "compare_with_twins", COMPARED | {"which": which}
    for known in (True, 0, None, "False", [False]):  # no bound of these records is in doubt
        yield "scales", COUNTED | {"known": known}
        yield "compare_with_twins", COMPARED | {"known": known}
    yield "count_unknown_bounds", {"share": 0.1}
    yield "compare_with_twins", COMPARED | {"shares": [0.6, 0.6]}
    yield "compare_with_twins", COMPARED | {"shares": [0.6]}
    yield "compare_with_twins", COMPARED | {"bounds": [1.0]}
    yield "compare_with_twins", COMPARED | {"more": 1}
    yield "scales", COUNTED | {"random": 1}
    yield "scales", {}


def test_what_is_no_question_is_not_answered_and_reads_no_row():
    records = Records(some())
    owner = owner_of(records)
    for question, arguments in bad_questions():
        assert said(owner, question, **arguments) == {"refused": "question"}, arguments
    assert records.reads == 0
    # Control: nothing of the budget was spent by these.
    assert "answer" in said(owner, "compare_with_twins", **COMPARED | {"shares": [0.5, 0.5]})
    assert records.reads == 1


class Doubtful(Records):
    """Of seven of these records a bound of censoring is unknown; if not, others' scores are compared."""

    def __init__(self):
        super().__init__(some())
        self.doubtful, self.with_known_bounds = {"y": True}, Records(some(1))

    def count_unknown_bounds(self):
        return 7


def test_bounds_that_are_in_doubt_are_counted_by_each_owner_and_then_one_way_is_asked_for():
    records = [Doubtful(), Doubtful()]
    owners = [owner_of(one, math.inf) for one in records]

    def ask(question, **arguments):
        return [said(owner, question, **arguments)["answer"] for owner in owners]

    made = MeasurementsOfOwners(records[0], ask, paid(math.inf))
    assert made.doubtful and made.count_unknown_bounds(0.02) == (14, 0)
    for one, seed in (made, 0), (made.with_known_bounds, 1):
        expected = one_place.measurements(Records(some(seed)), paid(math.inf)).scales(PHI, 3, 0.1).counts
        (part,) = one.apart
        np.testing.assert_array_equal(part.scales(PHI, 3, 0.1).counts, 2 * expected)
    assert made.left == pytest.approx(0.78)


@pytest.mark.parametrize("question", [{"share": share} for share in (*BAD_NUMBERS, 1.1)] + [{}])
def test_a_count_that_is_no_question_is_not_answered(question):
    assert said(owner_of(Doubtful()), "count_unknown_bounds", **question) == {"refused": "question"}


def test_noise_of_an_owners_count_is_its_own():
    """One record moves it by one."""
    answer = said(owner_of(Doubtful()), "count_unknown_bounds", share=0.25)["answer"]
    assert answer["noise"] == pytest.approx(2 / float(gaussian.mu(1.0, DELTA)))
    assert answer["number"] != 7


def test_an_owner_counts_what_is_left_of_its_budget():
    records = Records(some())
    owner = owner_of(records)
    assert "answer" in said(owner, "compare_with_twins", **COMPARED)  # .5
    assert "answer" in said(owner, "scales", **COUNTED)  # .3
    assert said(owner, "scales", **COUNTED) == {"refused": "question"}
    assert "answer" in said(owner, "scales", **COUNTED | {"share": 0.199})
    assert said(owner, "scales", **COUNTED | {"share": 0.01}) == {"refused": "question"}
    assert records.reads == 3


def test_a_call_is_one_likelihood_or_one_run():
    records = Records(some())
    owner = owner_of(records, begin=False)
    for question, arguments in (("scales", COUNTED), ("compare_with_twins", COMPARED), ("end", {})):
        assert said(owner, question, **arguments) == {"refused": "question"}
    assert "answer" in said(owner, "begin_likelihood")
    run = {"chains": 1, "tune": 0, "draws": 1}
    for _ in range(2):
        assert said(owner, "begin_likelihood") == {"refused": "call"}
        assert said(owner, "begin", **run) == {"refused": "call"}
        assert said(owner, "compare", point=[0.0], proposal=[0.0]) == {"refused": "iteration"}
        said(owner, "end")
        assert said(owner, "scales", **COUNTED) == {"refused": "question"}
    other = DataOwner(b"", Terms(1.0, DELTA, 1.0, None, "substitute"))
    assert "answer" in said(other, "begin", **run)
    assert said(other, "begin_likelihood") == {"refused": "call"}
    assert records.reads == 0


@pytest.mark.parametrize("question", ["begin", "begin_likelihood"])
def test_a_call_that_is_begun_several_times_at_once_is_begun_once(question):
    """As by the threads of a server. A process that is forked, or another copy, has no budget either."""
    owner = owner_of(Records(some()), begin=False)
    owner._terms = Terms(1.0, DELTA, 1.0 if question == "begin" else None, None, "substitute")
    charge, charged = owner._charge, []
    owner._charge = lambda *given: (charged.append(time.sleep(0.1)), charge(*given))
    lengths = [{"chains": 1, "tune": 0, "draws": k} if question == "begin" else {} for k in (1, 2, 3, 4)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda length: said(owner, question, **length), lengths))
    assert len(charged) == 1 and answers.count({"refused": "call"}) == 3
    with pytest.raises(TypeError, match="never copied"):
        copy.copy(owner)
    owner._process -= 1
    assert said(owner, "scales", **COUNTED) == {"refused": "failed"}


def test_points_of_an_adversary():
    """Any numbers: sums stay within what noise is made for, and nothing is said of what overflowed."""
    records = Records(some())
    owner = owner_of(records)
    for size in (1e308, 5e-324):
        question = {
            **WHICH,
            "phi": [size] * P,
            "metric": (np.ones((P, P)) * size).tolist(),
            "bounds": [size, 1 / max(size, 1e-300)],
            "twins": 1,
            "shares": [0.1, 0.1],
        }
        answer = said(owner, "compare_with_twins", **question)
        assert "answer" in answer, answer
        assert np.shape(answer["answer"]["slope"]) == (P, P)


@pytest.mark.parametrize("bounds", [[5e-324, 1.0], [1.0, 5e-324]])
def test_bounds_that_vanish_are_no_question_about_records(bounds):
    """They may be zero over something, by which nothing is divided that stops for some records only."""
    own, *others = some()
    for numbers in (own, np.full_like(own, np.nan), np.zeros_like(own)):
        owner = owner_of(Records(*[(numbers, *others)] * 3))
        assert "answer" in said(owner, "compare_with_twins", **COMPARED | {"bounds": bounds})


def test_an_error_of_some_record_is_told_once():
    """A code without noise, to any question, as often as one likes, would be an exact answer each time."""
    records = Records()  # of which nothing can be added up
    owner, tiny = owner_of(records), {"shares": [1e-300, 1e-300]}
    for _ in range(3):
        for asked in ("compare_with_twins", COMPARED | tiny), ("scales", COUNTED), ("end", {}):
            assert said(owner, asked[0], **asked[1]) == {"refused": "failed"}
    assert records.reads == 1


# whole calls


def owners(epsilon=(1.0, 2.0), parts=None, **kwargs):
    parts = split(DATA, 2) if parts is None else parts
    return [
        dp.Owner(name, build, part, epsilon=e, **{"delta": DELTA} | kwargs)
        for name, part, e in zip("ab", parts, epsilon, strict=True)
    ]


def sums_said(passed):
    """Requests and answers of one home, in their order."""
    return [(json.loads(request)[0], json.loads(answer)) for request, answer in passed]


@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
def test_only_noisy_sums_are_said(here, relation, tmp_path):
    paths = [str(tmp_path / name) for name in "ab"]
    for path in paths:
        dp.Ledger(path, epsilon=3, delta=1e-5, neighboring_relation=relation)
    given = owners(ledger=paths[0]), made_up()
    kwargs = {"neighboring_relation": relation, "public_n": 3000}
    likelihood = dp.release_likelihood(given[1], owners=given[0], **kwargs)
    for home, n in zip(HOMES, (1501, 1499), strict=True):
        answers = sums_said(home.passed)
        asked = [name for name, _ in answers]
        assert asked[:2] == ["open", "begin_likelihood"] and asked[-1] == "end"
        assert set(asked[2:-1]) == {"scales", "compare_with_twins"}
        assert answers[0][1] == {"answer": {"n": n if relation == "substitute" else None}}
        assert set(answers[1][1]["answer"]) == {"noise_multiplier"} and answers[-1][1] == {"answer": None}
        shapes = {"score": (2,), "slope": (2, 2), "variances": (2,), "counts": (2, OCTAVES)}
        for _, answer in answers[2:-1]:
            for name, value in answer["answer"].items():
                assert np.shape(value) == shapes.get(name, ()), name
    facts = likelihood.facts
    assert facts["n"] == (3000 if relation == "substitute" else None)
    assert (facts["epsilon"], facts["delta"]) == (2.0, DELTA)
    assert likelihood.guarantee.epsilon(DELTA) == pytest.approx(2.0, rel=1e-6)
    assert [(one["name"], one["epsilon"], one["n"] is None) for one in facts["owners"]] == [
        ("a", 1.0, relation == "add_remove"),
        ("b", 2.0, relation == "add_remove"),
    ]
    told = " ".join(likelihood.report().split())
    assert "Owner a: (1, 1e-06)-differential privacy of its own rows" in told
    assert "charged to a ledger of its own" in told
    # Each has noise of its own budget: the first one's is what the first one's mu asks for.
    (entry,) = dp.Ledger(paths[0]).entries()[:1]
    assert entry.status == "confirmed" and "release_likelihood" in entry.label


def test_ledgers_are_charged_before_a_row_is_used(here, tmp_path):
    """One that has no room refuses, and the code says so; the others' charge stays."""
    paths = [str(tmp_path / name) for name in "ab"]
    for path, epsilon in zip(paths, (5, 0.5), strict=True):
        dp.Ledger(path, epsilon=epsilon, delta=1e-5)
    given = [
        dp.Owner(name, build, part, epsilon=1, delta=DELTA, ledger=path)
        for name, part, path in zip("ab", split(DATA, 2), paths, strict=True)
    ]
    with pytest.raises(dp.errors.BudgetError, match="Owner 'b': This call does not fit"):
        dp.release_likelihood(made_up(), owners=given)
    (entry,) = dp.Ledger(paths[0]).entries()
    assert entry.status == "reserved" and not dp.Ledger(paths[1]).entries()
    expected = Terms(1, DELTA, None, None, "substitute").spending().events
    assert entry.events.counts == expected.counts
    assert all("compare" not in request for home in HOMES for request, _ in home.passed)


@pytest.mark.parametrize(
    ("kwargs", "given", "match"),
    [
        ({}, {"epsilon": 1}, "leave out epsilon"),
        ({}, {"delta": 1e-6, "debug_seed": 1}, "leave out delta, debug_seed"),
        ({}, {"data": dp.Shards(build, [DATA])}, "leave out data"),
        ({}, {"privacy_unit": np.arange(6)}, "leave out privacy_unit"),
        ({"lipschitz": 1.0}, {}, "takes no lipschitz="),
        ({"clip_bound": 1.0}, {}, "takes no lipschitz= or clip_bound="),
        ({"neighbours": "mixed"}, {}, "all owners give privacy_unit=, or none"),
    ],
)
def test_arguments(kwargs, given, match, here):
    made = owners(**{name: value for name, value in kwargs.items() if name != "neighbours"})
    if "neighbours" in kwargs:
        made[0] = dp.Owner("a", build, DATA, epsilon=1, delta=DELTA, privacy_unit=lambda part: part[1])
    with pytest.raises(ValueError, match=match):
        dp.release_likelihood(made_up(), owners=made, **given)
    with pytest.raises(TypeError, match="owners=, each with its own epsilon"):
        dp.sample(10, model=made_up())
    assert not any("begin" in request for home in HOMES for request, _ in home.passed)


@pytest.mark.parametrize(
    "answer",
    [
        {"counts": [[0.0] * OCTAVES] * (P + 1), "noise": 1.0},
        {"counts": [[math.nan] * OCTAVES] * P, "noise": 1.0},
        {"counts": [[0.0] * OCTAVES] * P},
        {"counts": "many", "noise": 1.0},
        {"counts": [[0.0] * OCTAVES] * P, "noise": None},
        [],
        None,
        3,
    ],
)
def test_an_answer_that_is_none_is_refused(answer):
    made = MeasurementsOfOwners(Records(some()), lambda question, **_: [answer], paid(1.0))
    with pytest.raises(dp.errors.PrivacyError, match="an answer that is none"):
        made.scales(PHI, 3, 0.1)


def test_an_owner_with_other_noise_is_refused(here, monkeypatch):
    def begin(owner):
        return {"noise_multiplier": owner._terms.spending().multipliers[0] / 2}

    monkeypatch.setattr(DataOwner, "_begin_likelihood", begin)
    with pytest.raises(dp.errors.PrivacyError, match="other noise than its terms say"):
        dp.release_likelihood(made_up(), owners=owners())


def test_an_owner_that_is_lost_stops_the_call(here):
    """Nothing is asked twice. After its last answer it is not needed any more."""

    def lost_at(question):
        HOMES.clear()
        seen = []

        def ask(home, original, request):
            name = json.loads(request)[0]
            seen.append(name)
            return gone if name == question else original(request)

        def gone():
            raise LostError

        def records(self, *args, **kwargs):
            made = original(self, *args, **kwargs)
            first = HOMES[0]
            first.ask = partial(ask, first, first.ask)
            return made

        original = Owners.records
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Owners, "records", records)
            try:
                return dp.release_likelihood(made_up(), owners=owners()), seen
            except UnavailableError as error:
                assert "stays spent" in str(error)
                return None, seen

    found, seen = lost_at("compare_with_twins")
    assert found is None and seen.count("compare_with_twins") == 1
    found, seen = lost_at("end")
    assert found is not None and seen[-1] == "end"


@pytest.mark.slow
def test_in_processes_of_their_own(monkeypatch, quiet):
    """The posterior of all records, wider by the noise of both; of persons, here one a row."""
    processes.for_owners(monkeypatch)
    x, y = simple_data(n=8000)
    parts = split((x, y), 2)
    idata = dp.sample(200, model=made_up(), owners=owners((4.0, 4.0), parts), chains=2, cores=1, **quiet)
    report = dp.privacy_report(idata)
    text = " ".join(str(report).split())
    assert "Owner a: (4, 1e-06)-differential privacy of its own rows, n = 4001 (public)" in text
    assert report.facts["n"] == 8000 and report.plan.epsilon_at(DELTA) == pytest.approx(4, rel=1e-6)
    beta = np.zeros(2)
    for _ in range(20):
        p = 1 / (1 + np.exp(-x @ beta))
        precision = (x * (p * (1 - p))[:, None]).T @ x + np.eye(2) / 4
        beta = beta + np.linalg.solve(precision, x.T @ (y - p) - beta / 4)
    draws = idata.posterior["beta"].stack(sample=("chain", "draw"))
    assert np.all(np.abs(draws.mean("sample").to_numpy() - beta) < 5 * draws.std("sample").to_numpy())
    assert np.all(draws.std("sample").to_numpy() < 2 * np.sqrt(np.diag(np.linalg.inv(precision))))


@pytest.mark.slow
def test_persons_of_several_owners(here):
    """A person is one unit of its owner; the report says so."""
    made = owners(privacy_unit=lambda part: np.arange(len(part[1])) // 2)
    likelihood = dp.release_likelihood(made_up(), owners=made)
    assert likelihood.facts["n"] == 751 + 750 and likelihood.facts["unit"] == "person"
    assert [one["unit"] for one in likelihood.facts["owners"]] == ["person", "person"]
    assert "of its own persons" in " ".join(likelihood.report().split())
    assert np.all(np.linalg.eigvalsh(likelihood.information) > 0)
