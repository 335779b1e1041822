"""A released likelihood: other priors, other models, files, samplers."""

import copy
import json

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from dp_accounting import GaussianDpEvent
from scipy import stats

import pymc_dp as dp
from pymc_dp.likelihood import file
from pymc_dp.likelihood.likelihood import Likelihood
from pymc_dp.likelihood.mixtures import Message, Normal
from pymc_dp.likelihood.public_model import Part, PublicModel
from pymc_dp.likelihood.report import judge
from pymc_dp.likelihood.rounds import Found
from pymc_dp.privacy import EventSet
from pymc_dp.records.model import RecordModel

POINT = np.array([0.3, -1.2, 0.1 + 0.2])
GRADIENT = np.array([1.0, -3.0, 1 / 3])
INFORMATION = np.array([[40.0, 6.0, 1.0], [6.0, 30.0, -2.0], [1.0, -2.0, 1 / 7e-3]])
PARTS = [Part("effect", (), "effect"), Part("level", (2,), "mean + tau * z")]


def facts(relation="substitute", **changed):
    return {
        "epsilon": 1.0,
        "delta": 1e-6,
        "events": json.loads(EventSet(GaussianDpEvent(5.0), relation).to_json()),
        "neighboring_relation": relation,
        "unit": "row",
        "n": 500,
        "is_private": True,
        "debug_seed_used": False,
        "versions": {"pymc-dp": "0.1.0"},
        "verdict": {"effect": {"told": 0.98, "wider": None}},
        **changed,
    }


def likelihood(parts=PARTS, point=POINT, gradient=GRADIENT, information=INFORMATION, **changed):
    return Likelihood(parts, point, gradient, information, facts(**changed))


def log_likelihood(phi, one):
    delta = phi - one.point
    return one.gradient @ delta - 0.5 * delta @ one.information @ delta


def with_prior(scale, *ones, **kwargs):
    """A model with independent normal priors, and likelihoods of it."""
    with pm.Model() as model:
        effect, level = pm.Normal("effect", 0.5, scale), pm.Normal("level", 0.5, scale, shape=2)
        for one in ones:
            one.potential(effect=effect, level=level, **kwargs)
    return model


def normal_of(model):
    """Mean and precision of a model whose log-density is quadratic, by Newton's step from elsewhere."""
    start = {"effect": np.array(2.0), "level": np.array([-1.0, 4.0])}
    gradient, hessian = model.compile_dlogp()(start), model.compile_d2logp(negate_output=False)(start)
    return np.r_[2.0, -1.0, 4.0] - np.linalg.solve(hessian, gradient), -hessian


def test_a_new_prior_gives_the_conjugate_posterior():
    """Mean and precision by the textbook: precisions add up, means are weighted by them."""
    one = likelihood()
    mean, precision = normal_of(with_prior(0.2, one))
    wanted = INFORMATION + np.eye(3) / 0.2**2
    estimate = POINT + np.linalg.solve(INFORMATION, GRADIENT)
    np.testing.assert_allclose(precision, wanted, rtol=1e-10)
    by_hand = np.linalg.solve(wanted, INFORMATION @ estimate + 0.5 / 0.2**2)
    np.testing.assert_allclose(mean, by_hand, rtol=1e-9)


def test_two_likelihoods_add_up():
    one, other = likelihood(), likelihood(point=POINT + 0.4, information=INFORMATION / 2)
    model = with_prior(0.2, one, other)
    assert [v.name for v in model.potentials] == ["likelihood", "likelihood_2"]
    at = {"effect": np.array(0.7), "level": np.array([0.1, -0.6])}
    phi = np.r_[0.7, 0.1, -0.6]
    prior = stats.norm.logpdf(phi, 0.5, 0.2).sum()
    wanted = prior + log_likelihood(phi, one) + log_likelihood(phi, other)
    np.testing.assert_allclose(model.compile_logp()(at), wanted, rtol=1e-12)
    assert with_prior(0.2, one, name="ours").potentials[0].name == "ours"


def test_what_potential_refuses():
    one = likelihood()
    with pm.Model():
        effect, wrong = pm.Normal("effect"), pm.Normal("wrong", shape=3)
        with pytest.raises(ValueError, match=r"missing \['level'\](.|\n)*level \(2,\) = mean \+ tau \* z"):
            one.potential(effect=effect)
        with pytest.raises(ValueError, match=r"unknown \['levle'\]"):
            one.potential(effect=effect, level=wrong[:2], levle=effect)
        for value in (wrong, effect, np.zeros((2, 1))):
            with pytest.raises(ValueError, match=r"'level' has shape \(2,\), and was given"):
                one.potential(effect=effect, level=value)
        for value in ("b", object(), None):
            with pytest.raises(TypeError, match="'effect' must be a variable or an array of numbers"):
                one.potential(effect=value, level=[1.0, 2.0, 3.0])
        later = one.potential(effect=1, level=pm.Data("given", np.zeros(3)))
    with pytest.raises(AssertionError, match="SpecifyShape"):
        later.eval()
    with pytest.raises(TypeError, match="No model on context stack"):
        one.potential(effect=0.0, level=[1.0, 2.0])


def test_files_are_read_back_to_the_last_bit(tmp_path):
    """Of awkward numbers too; and again."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3)) * 1e-3
    awkward = np.array([1e-310, -0.0, np.nextafter(1, 2)])
    one = likelihood(point=awkward, information=(root @ root.T + root @ root.T) / 2)
    one.save(tmp_path / "one.json")
    again = Likelihood.load(tmp_path / "one.json")
    for name in ("point", "gradient", "information"):
        assert getattr(again, name).tobytes() == getattr(one, name).tobytes()
    assert again.coordinates == one.coordinates and again.facts == one.facts
    assert again.labels == ["effect", "level[0]", "level[1]"]
    again.save(tmp_path / "two.json")
    assert (tmp_path / "two.json").read_bytes() == (tmp_path / "one.json").read_bytes()
    with pytest.raises(dp.errors.PrivacyError, match=r"no model(.|\n)*potential\(effect, level\)"):
        again.model()


def edited(text, change):
    """A file whose digest is right."""
    content = json.loads(text)
    del content["digest"]
    change(content)
    return json.dumps({**content, "digest": file.digest(content)})


def put(*path, value):
    def change(content):
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = value

    return change


WRONG = {
    "another format": (put("format", value=2), "has format 2"),
    "a format that is no number": (put("format", value=True), "has format True"),
    "another field": (put("more", value=1), "has the fields"),
    "text for a number": (put("point", 0, value="0.3"), "cannot be read"),
    "a truth value for a number": (put("gradient", 0, value=True), "cannot be read"),
    "a number too large": (put("point", 0, value=10**400), "cannot be read"),
    "a shape of another size": (put("coordinates", 1, "shape", value=[3]), "have 4 numbers"),
    "a negative size": (put("coordinates", 1, "shape", value=[-2]), "cannot be read"),
    "names that are twice": (put("coordinates", 1, "name", value="effect"), "twice"),
    "not symmetric": (put("information", 0, 1, value=5.5), "not symmetric"),
    "indefinite": (put("information", 0, 0, value=-1.0), "negative eigenvalue"),
    "a row too short": (put("information", 0, value=[1.0]), "cannot be read"),
    "no facts": (put("facts", value=[]), "facts lack"),
    "events of nothing": (put("facts", "events", value={}), "nothing that can be read"),
    "another relation": (put("facts", "neighboring_relation", value="add_remove"), "contradict"),
    "facts of another type": (put("facts", "verdict", value=3), "facts cannot be read"),
    "facts that lack one": (put("facts", value={"epsilon": 1}), "facts lack"),
}


@pytest.mark.parametrize("name", WRONG)
def test_damaged_files_are_refused(name, tmp_path):
    change, why = WRONG[name]
    path = tmp_path / "one.json"
    likelihood().save(path)
    path.write_text(edited(path.read_text(), change))
    with pytest.raises(dp.errors.PrivacyError, match=why):
        Likelihood.load(path)


def test_a_file_that_was_edited_is_noticed(tmp_path):
    path = tmp_path / "one.json"
    likelihood().save(path)
    text = path.read_text()
    path.write_text(json.dumps(json.loads(text), indent=4))
    Likelihood.load(path)  # control: white space may change
    for old, new in (
        ("0.98", "0.99"),
        ("40.0", "NaN"),
        ("40.0", "1e999"),
        ("}", ""),
        ('"digest"', '"digits"'),
    ):
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(dp.errors.PrivacyError, match="damaged"):
            Likelihood.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(dp.errors.PrivacyError, match="not text"):
        Likelihood.load(path)


def test_what_the_constructor_refuses():
    for changed, why in (
        ({"point": POINT[:2]}, "has shape"),
        ({"gradient": [np.inf, 0, 0]}, "not finite"),
        ({"information": INFORMATION + np.triu(np.ones((3, 3)), 1)}, "not symmetric"),
        ({"information": np.diag([1.0, 1.0, -1e-6])}, "negative eigenvalue"),
        ({"parts": [Part("name", (3,), "name")]}, "'name'"),
        ({"parts": []}, "point has shape"),
        ({"epsilon": np.inf}, "not finite"),
        ({"verdict": {"effect": {1, 2}}}, "JSON"),
    ):
        with pytest.raises(ValueError, match=why):
            likelihood(**changed)
    likelihood(information=np.ones((3, 3)))  # control: semidefinite, with eigenvalues that round below zero


def test_report_and_repr():
    one = likelihood()
    text = " ".join(one.report().split())
    assert f"({one.guarantee.epsilon(1e-6):.3}" in text
    for said in ("1e-06)-differential privacy", "row; n = 500 (public)", "in the values of one row"):
        assert said in text
    assert "effect; level (2,) = mean + tau * z" in text and "told 0.98, wider unknown" in text
    assert "Nothing was found" not in text
    little = {"verdict": "says little", "wider": 1.6e7, "of_prior": 1.0}
    nothing = " ".join(likelihood(verdict={"effect": little, "level[0]": little}).report().split())
    assert "Nothing was found of any parameter" in nothing and "wider more than 100," in nothing
    assert repr(one) == "<Likelihood of effect, level: epsilon = 1, delta = 1e-06>"
    free = likelihood(is_private=False, epsilon=None, events=None)
    assert "THIS RELEASE IS NOT PRIVATE" in free.report() and "NOT PRIVATE" in repr(free)
    persons = likelihood(unit="person", n=None, relation="add_remove").report()
    assert "person (all rows with one id)\n" in persons and "one person more" in persons
    assert "No column may be decided by the outcome" in text
    assert not any(said in text for said in ("Taken as public", "Trusted", "Left out"))
    arrays = [["knots", [40], "public, as declared"], ["gm", [2, 3], "taken as public"]]
    said = likelihood(public_arrays=arrays, trusted_ops=["Own"], left_out=["mu"]).report()
    assert "Public, as declared: knots (40)" in said and "Taken as public:    gm (2, 3)" in said
    assert "user vouched for: Own" in said and "not released: mu (reads rows)" in said


def test_verdicts_go_by_what_is_known_with_and_without_privacy():
    prior, labels = Normal(np.eye(4), np.zeros(4)), ["told", "wider", "little", "by nobody"]
    private, without = np.diag([100.0, 3.0, 0.5, 0.01]), np.diag([110.0, 100.0, 100.0, 0.02])
    message = Message(private, np.zeros(4))
    found = judge(Found(np.zeros(4), message, [], [], without, 0 * without, np.zeros(4)), prior, labels)
    assert [found[name]["verdict"] for name in labels] == [
        "usable", "usable, wider than without privacy", "says little", "says little, with or without privacy"
    ]  # fmt: skip
    nothing = judge(
        Found(np.zeros(4), Message.nothing(4), [], [], without, 0 * without, np.zeros(4)), prior, labels
    )
    assert {one["verdict"] for one in nothing.values()} == {"says little"}
    for in_doubt in (True, False):
        beside = {"censoring": {"in_doubt": in_doubt}}
        said = judge(
            Found(np.zeros(4), message, [], [], without, 0 * without, np.zeros(4)), prior, labels, beside
        )
        assert ({one["verdict"] for one in said.values()} == {"in doubt: see Censoring"}) is in_doubt


def test_a_best_value_beyond_a_bound_of_the_prior_is_said():
    """A phase of -3.0 was found at 3.3 under a prior from -pi to pi, and said to be usable."""
    prior, bounds = Normal(np.eye(3), np.zeros(3)), np.array([[-3.0] * 3, [3.0] * 3])
    for mean, doubtful in ((3.5, True), (3.3, False), (-3.5, True)):
        message = Message(100 * np.eye(3), np.array([101 * mean, 0.0, 0.0]))
        found = Found(np.zeros(3), message, [], [], message.information, np.zeros((3, 3)), np.zeros(3))
        said = judge(found, prior, list("abc"), bounds=bounds)
        assert [said[name]["verdict"] for name in "abc"] == [
            "in doubt: beyond its bound" if doubtful else "usable", "usable", "usable"
        ]  # fmt: skip
    free = judge(found, prior, list("abc"))
    assert free["a"]["verdict"] == "usable", "what has no bound is not beyond it"
    text = likelihood(verdict={"a": said["a"]}).report()
    assert "where a is beyond a bound of its prior" in text


def released():
    """The exact likelihood of a normal mean, as if it had been released; its private outcomes."""
    y = np.random.default_rng(3).normal(1.0, 1.0, size=50)
    with pm.Model(coords={"site": ["a", "b"], "person": [f"Secretperson{k}" for k in range(50)]}) as model:
        b = pm.Normal("b", 0, 0.3, dims="site")
        pm.Deterministic("sum", b.sum())
        pm.Normal("y", b[np.arange(50) % 2], 1, observed=y, dims="person")
    public = PublicModel(RecordModel(model, verify=False))
    estimate = np.array([y[::2].mean(), y[1::2].mean()])
    return Likelihood(public.parts, estimate, np.zeros(2), 25 * np.eye(2), facts(), public), y


def test_a_pickle_is_what_the_file_is():
    """Numbers and names, and no model: a prior's function would have along with it what it refers to."""
    y = np.random.default_rng(3).normal(1.0, 1.0, size=50)
    table = {f"Secretperson{k}": value for k, value in enumerate(y)}
    with pm.Model() as model:
        bounds = pm.distributions.transforms.Interval(bounds_fn=lambda *_: (-5.0 - 0 * len(table), None))
        b = pm.Normal("b", transform=bounds, default_transform=None)
        pm.Normal("y", b, 1, observed=y)
    public = PublicModel(RecordModel(model, verify=False))
    one = Likelihood(public.parts, [0.5], [0.0], [[50.0]], facts(), public)
    again = cloudpickle.loads(data := cloudpickle.dumps(one))
    assert b"Secretperson" not in data and not any(value.tobytes() in data for value in y)
    assert b"Secretperson7" in cloudpickle.dumps(bounds)  # control
    np.testing.assert_array_equal(again.information, one.information)
    assert repr(again) == repr(one)
    with pytest.raises(dp.errors.PrivacyError, match="a pickle, which hold numbers and no model"):
        again.model()
    for copied in (copy.copy(one), copy.deepcopy(one)):
        assert list(copied.model().named_vars) == ["b", "likelihood"]


@pytest.mark.slow
def test_the_public_model_is_sampled():
    """Stock PyMC: draws have the analytic posterior's mean and standard deviation."""
    one, _ = released()
    idata = pm.sample(300, tune=300, chains=2, cores=1, random_seed=1, progressbar=False, model=one.model())
    precision = 25 + 1 / 0.3**2
    mean, sd = 25 * one.point / precision, precision**-0.5
    found = idata["posterior"]["b"]
    assert found.coords["site"].values.tolist() == ["a", "b"]
    np.testing.assert_allclose(found.mean(("chain", "draw")), mean, atol=0.3 * sd)
    np.testing.assert_allclose(found.std(("chain", "draw")), sd, rtol=0.25)
    np.testing.assert_allclose(idata["posterior"]["sum"], found.sum("site"))
