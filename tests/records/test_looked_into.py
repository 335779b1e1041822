"""Arrays of records whose numbers PyMC looks at, while a model or a density is written: they are refused."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply

from pymc_dp.errors import ModelRefusedError
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from pymc_dp.records.row_types.places import OneValue

N = 40
ROWS = np.full((N, 3), 0.33333)  # their sums are not one
OTHER = np.where(np.arange(N)[:, None] == 7, [0.5, 0.25, 0.25], 1 / 3)
X = np.linspace(-1, 1, N)


def categories(p):
    """Of guesses beside what a covariate tells."""
    with pm.Model() as model:
        weight, slopes = pm.Beta("w", 1, 1), pm.Normal("b", 0, 1, shape=3)
        told = pm.Categorical.dist(logit_p=X[:, None] * slopes)
        guesses = pm.Categorical.dist(p=p() if callable(p) else p)
        weights = pm.math.stack([weight, 1 - weight])
        pm.Mixture("y", weights, [guesses, told], observed=np.arange(N) % 3)
    return model


def counts(p):
    with pm.Model() as model:
        weight, slopes = pm.Beta("w", 1, 1), pm.Normal("b", 0, 1, shape=3)
        told = pm.Multinomial.dist(n=2, p=pm.math.softmax(X[:, None] * slopes, axis=-1))
        guesses = pm.Multinomial.dist(n=2, p=p() if callable(p) else p)
        weights = pm.math.stack([weight, 1 - weight])
        pm.Mixture("y", weights, [guesses, told], observed=np.tile([1, 1, 0], (N, 1)))
    return model


@pytest.mark.filterwarnings("ignore:`p` parameters sum to")
@pytest.mark.parametrize("make", [categories, counts])
def test_probabilities_that_pymc_may_divide_are_refused(make):
    """With any numbers: one record decides whether all are divided. Not as data, or public ones."""
    for p in (ROWS, OTHER, np.full((N, 3), 1 / 3)):
        with pytest.raises(ModelRefusedError, match="Probabilities of a Categorical or Multinomial"):
            RecordModel(make(p), verify=False)
    for public in (lambda: pm.Data("p", np.full((N, 3), 1 / 3)), np.full(3, 1 / 3)):
        assert RecordModel(make(public), verify=False).n == N


def truncated(upper):
    """PyMC leaves out an infinite bound when the density is derived, which only then has the array."""

    def logp(value, mean, spread):
        law = pm.Truncated.dist(pm.LogNormal.dist(mean, spread, shape=N), lower=0.0, upper=upper)
        return pm.logp(law, value)

    with pm.Model() as model:
        pm.CustomDist("y", pm.Normal("a"), pm.HalfNormal("s"), logp=logp, observed=np.exp(X))
    return model


def test_an_array_that_a_function_of_a_density_brings_along_is_refused():
    """Also one that PyMC leaves out as it is infinite everywhere."""
    for bounds in (np.where(np.arange(N) == 7, 9.0, np.inf), np.full(N, np.inf)):
        with pytest.raises(ModelRefusedError, match=r"'density\.array_1' is inside of an operation"):
            RecordModel(truncated(bounds), verify=False)
    assert RecordModel(truncated(9.0), verify=False).n == N


def simplified(of):
    """A density that simplifies the graph of another law, in which a number is computed of an array."""

    def logp(value, mean, spread):
        return pm.logp(pt.exp(pm.Normal.dist(mean + of(), spread, shape=N)), value)

    with pm.Model() as model:
        pm.CustomDist("y", pm.Normal("a"), pm.HalfNormal("s"), logp=logp, observed=np.exp(X))
    return model


def test_nothing_has_to_be_left_of_an_array_to_be_refused():
    """A part of the rows as well. Not what is small, as everywhere, nor what PyTensor computes itself."""
    copied = np.arange(0.0, 35.0)
    for array, why in [(X, "is inside of an operation"), (copied, "with 35 entries")]:
        with pytest.raises(ModelRefusedError, match=why):
            RecordModel(simplified(lambda array=array: pt.as_tensor(array).mean()), verify=False)
    for public in (lambda: pt.as_tensor(copied[:20]).mean(), lambda: pt.arange(N).mean()):
        assert RecordModel(simplified(public), verify=False).n == N
    knots = RecordModel(simplified(lambda: pt.as_tensor(copied).mean()), verify=False, public=[copied])
    assert knots.n == N


@pytest.mark.parametrize("array", [X, X - 5])
def test_the_words_are_the_same_where_numbers_stop_the_derivation(array):
    """Otherwise the kind of error of a user's function says which numbers there are."""

    def looks_at_numbers():
        mean = pt.as_tensor(array).mean() * 1.0
        if array.mean() < -1:
            raise ValueError("of that mean")
        return mean

    with pytest.raises(ModelRefusedError, match="is inside of an operation"):
        RecordModel(simplified(looks_at_numbers), verify=False)


def test_pytensor_is_as_it_was():
    """What notes arrays is in the place of PyTensor's own function for a while."""
    before = Apply.__init__
    with pytest.raises(ModelRefusedError):
        RecordModel(simplified(lambda: pt.as_tensor(X).mean()), verify=False)
    assert before is Apply.__init__


def test_a_shape_that_is_known_by_an_array_does_not_stay():
    """Control: PyTensor knows it."""
    mask = np.arange(N) < 20
    with pm.Model() as model:
        a = pm.Normal("a")
        chosen = pm.Deterministic("chosen", a * pt.as_tensor(X)[pt.as_tensor(mask)])
        pm.Normal("y", a, 1, observed=X)
    assert chosen.type.shape == (20,)
    records = RecordModel(model, verify=False)
    assert records.reading.opaque.deterministics["chosen"].type.shape == (None,)
    assert "chosen" in records.reading.left_out


def test_entries_of_which_one_is_a_size_are_read():
    """A part of the rows that was copied, of which an entry says how long something is. Control: a shape."""
    copied = np.full(35, 3)

    def model(number):
        with pm.Model() as made:
            pm.Normal("y", pm.Normal("a") * number(pt.as_tensor(copied)), 1, observed=X)
        return RecordModel(made, verify=False)

    with pytest.raises(ModelRefusedError, match="with 35 entries"):
        model(lambda array: pt.ones(array[7]).sum())
    assert model(lambda array: pt.ones(array.shape[0]).sum()).n == N


def starts_at(array):
    """A prior whose support point is a mean of an array."""

    def logp(value, mean):
        return pm.logp(pm.Normal.dist(mean, 5.0), value)

    with pm.Model() as model:
        point = {"support_point": lambda rv, size, *given: pt.as_tensor(array()).mean()}
        pm.Normal("y", pm.CustomDist("a", 0.0, logp=logp, **point), 1, observed=X)
    return model


@pytest.mark.parametrize("behind", [pt.as_tensor, pytensor.shared])
@pytest.mark.parametrize("length", [N, N // 2, 35, 3 * N])
def test_an_array_of_an_initial_value_is_refused(length, behind):
    """Of rows or some of them, persons, two tables: chains start at their exact mean. Control: few."""
    persons = {"privacy_unit": np.repeat(np.arange(N // 2), 2)}
    with pytest.raises(
        ModelRefusedError, match=r"inside of an op|with \d+ entries|longer than|reads private"
    ):
        RecordModel(starts_at(lambda: behind(np.arange(float(length)))), verify=False, **persons)
    assert RecordModel(starts_at(lambda: behind(np.arange(7.0))), verify=False, **persons).n == N // 2


def test_a_large_array_of_an_initial_value_may_be_public():
    knots = np.arange(50.0)
    model = starts_at(lambda: pt.as_tensor(knots))
    assert RecordModel(model, verify=False, public=[knots]).n == N


def test_numbers_of_persons_are_refused_when_nothing_is_left_of_them():
    persons = np.repeat(np.arange(N // 2), 2)
    numbers = np.arange(N / 2)
    with pytest.raises(ModelRefusedError, match="one for each privacy unit"):
        RecordModel(simplified(lambda: pt.as_tensor(numbers).mean()), verify=False, privacy_unit=persons)


@pytest.mark.parametrize("block", [1, 10, 100])
def test_places_are_noticed_where_entries_start_alike(block, monkeypatch):
    """By the second look, if the first does not: of coefficients that all start at zero, in blocks."""
    with pm.Model() as model:
        y = pm.Data("data", X)
        pm.Normal("y", pm.Normal("b", shape=2)[(pt.arange(y.shape[0]) // block) % 2], 1, observed=y)
    with pytest.raises(ModelRefusedError, match="by the place of a record"):
        RecordModel(model)
    monkeypatch.setattr(OneValue, "__call__", lambda self, variable, axis: True)
    with pytest.raises(ModelRefusedError, match="its place among the others"):
        RecordModel(model)


@pytest.mark.parametrize("law", ["pareto", "geometric"])
def test_places_are_noticed_where_a_law_has_no_zeros(law, monkeypatch):
    """Made-up outcomes that a law does not have show nothing: all rows are minus infinity."""
    monkeypatch.setattr(OneValue, "__call__", lambda self, variable, axis: True)
    trend = pt.cumsum(pt.zeros(N)[1:].set(1.0)) / 10
    with pm.Model() as model:
        b = pm.Normal("b", shape=2)
        if law == "pareto":
            pm.Pareto("y", pt.exp(b[0] + b[1] * trend), 1.0, observed=1 + np.exp(X))
        else:
            pm.Geometric("y", pm.math.sigmoid(b[0] + b[1] * trend), observed=np.arange(N) % 3 + 1)
    with pytest.raises(ModelRefusedError, match="its place among the others"):
        RecordModel(model)


def test_a_record_that_fails_a_check_within_a_parameter_moves_no_other():
    """PyMC checks what `pymc.logp` is given over all rows: one bad record would change them all."""
    x, found = np.random.default_rng(0).uniform(0.5, 2, size=N), []
    for value in (1.0, -1.0):
        x[7] = value
        with pm.Model() as model:
            rate = pm.Data("x", x) * pt.exp(pm.Normal("b"))
            pm.Normal("y", pm.logp(pm.Poisson.dist(rate), 3), 1, observed=X)
        records = RecordModel(model)
        (chunk,) = (call() for call in records.twins(np.array([0.3]), 4, PrivacyRandom(debug_seed=0)))
        found.append((records.full_batch.rows(np.array([0.3])), chunk.terms[0].group))
    for one, other in zip(*found, strict=True):
        axis = one.shape.index(N)
        np.testing.assert_array_equal(np.delete(one, 7, axis), np.delete(other, 7, axis))
        assert not np.array_equal(one, other, equal_nan=True)
