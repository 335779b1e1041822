"""Neighbours by adding or removing a record: sensitivities, noise, price, and that n is used nowhere."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.control_variates import clipped_rows
from pymc_dp.control_variates.clipped_rows import GRID, OUTER_GRID
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.record_sums import RecordSums
from pymc_dp.control_variates.releases import Releases, sensitivity
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.structure import Structure
from pymc_dp.errors import PrivacyError, TooFewRecordsError
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.accountants import exact_gaussian
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from pymc_dp.steps.residual_budget import ResidualBudget
from tests.conftest import logistic_model
from tests.control_variates.fixed import RELEASES, FixedRecords, LogisticRecords, release, some_records
from tests.control_variates.test_finder import mode_of
from tests.control_variates.test_releases import Spy, drawn, extremes, grid

__all__ = ["drawn"]  # a fixture
ALPHA = 1e-6
SETTINGS = ControlVariates(recentre=False)
CANDIDATES = 3


def without_the_last(records):
    rows = records.full_batch.rows(np.ones(records.d))
    return FixedRecords(records.gradients[:-1], records.hessians[:-1], rows[:-1])


def largest_move(kind):
    """Largest squared distance, in units of 1 / GRID, that one record more makes: of records of all sizes."""
    base, found = some_records(), []
    fewer = grid(kind, release(kind, without_the_last(base), PrivacyRandom(0)))
    for gradient, hessian, row in extremes():
        more = grid(kind, release(kind, base.replaced(gradient, hessian, row), PrivacyRandom(0)))
        found.append(sum((a - b) ** 2 for a, b in zip(more, fewer, strict=True)))
    return max(found)


def allowed(kind):
    return round(sensitivity(kind, "add_remove", CANDIDATES if kind == "line" else 1) ** 2) * GRID**2


@pytest.mark.parametrize("kind", RELEASES)
def test_one_record_more_moves_a_release_by_its_sensitivity_at_most(kind):
    most = largest_move(kind)
    assert 0.9 * allowed(kind) <= most <= allowed(kind)
    replaced = round(sensitivity(kind, "substitute", CANDIDATES if kind == "line" else 1) ** 2) * GRID**2
    assert replaced in (2 * allowed(kind), 4 * allowed(kind))


@pytest.mark.parametrize("kind", ["gradient", "hessian"])
def test_an_unclipped_sum_would_be_noticed(kind, monkeypatch):
    """Control."""
    monkeypatch.setattr(clipped_rows, "factors", lambda vectors, bound: np.ones(len(vectors)))
    monkeypatch.setattr(clipped_rows, "_LARGEST", 1e10)
    assert largest_move(kind) > allowed(kind)


def test_a_centre_other_than_0_would_be_noticed():
    """Control, and why the centre is not moved: with n m in the gradient a record moves it by C + |A m|."""
    metric, centre, bound = np.eye(3), np.array([3.0, 0.0, 0.0]), 0.5

    def whole(records):
        made = Releases(records, SETTINGS, np.inf, PrivacyRandom(0), neighboring_relation="add_remove")
        made._left = [("gradient", 1.0)]
        return bound * made.gradient(np.zeros(3), metric, centre, bound)[0] + records.n * centre

    base = some_records()
    more = base.replaced(np.array([9.0, 0.0, 0.0]), np.zeros((3, 3)), 0.0)
    assert np.linalg.norm(whole(more) - whole(without_the_last(base))) > 2 * bound


def standardized(kind, scale=1.0):
    """Noise of releases over what it should be: sensitivity / sqrt(share mu^2)."""
    records, random, mu_squared, share = some_records(), PrivacyRandom(7), 0.8, 0.25
    exact = release(kind, records, PrivacyRandom(0))
    stated = sensitivity(kind, "add_remove", CANDIDATES if kind == "line" else 1)
    made = Releases(records, SETTINGS, mu_squared, random, neighboring_relation="add_remove")
    made._left = [(kind, share)] * 400
    noisy = [RELEASES[kind](made) for _ in range(10 if kind == "histogram" else 400)]
    return scale * np.ravel(np.array(noisy) - exact) / (stated / np.sqrt(share * mu_squared))


@pytest.mark.parametrize("kind", RELEASES)
def test_noise_has_the_stated_scale(kind):
    assert stats.kstest(standardized(kind), "norm").pvalue > ALPHA
    for scale in (1 / np.sqrt(2), 2.0):  # controls: the noise for a record replaced, or half of what is due
        assert stats.kstest(standardized(kind, scale), "norm").pvalue < ALPHA


@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
def test_the_search_reckons_with_the_noise_that_there_is(relation):
    made = Releases(some_records(), SETTINGS, 0.8, PrivacyRandom(0), neighboring_relation=relation)
    made._left = [("gradient", 0.3)]
    assert made.multiplier(0.3) == made.gradient(np.zeros(3), np.eye(3), np.zeros(3), 1.0)[1]


# the price


def finder(records, epsilon, seed=3, relation="add_remove", settings=SETTINGS):
    squared = float(gaussian.mu(epsilon, 1e-6)) ** 2
    return Finder(
        records, settings, squared, PrivacyRandom(seed), 1.0, epsilon, neighboring_relation=relation
    )


@pytest.mark.slow
def test_what_is_released_is_what_was_paid(drawn):
    """The noise that was made, with the sensitivities tested above, against the events of the plan."""
    squared = float(gaussian.mu(30.0, 1e-6)) ** 2
    found = finder(LogisticRecords(), 30.0)
    found.releases = spy = Spy(found.records, SETTINGS, squared, PrivacyRandom(3), None, "add_remove")
    found(np.zeros(2))
    k = 2 * len(SETTINGS.line_steps)
    made = sum((sensitivity(kind, "add_remove", k if kind == "line" else 1) / s) ** 2 for kind, s in spy.made)
    with logistic_model(n=150):
        step = dp.DPPenaltyMH(
            epsilon=30.0, delta=1e-6, chains=1, control_variates=True, neighboring_relation="add_remove"
        )
    once = step.cost(20, 0).once
    assert once.neighboring_relation == "add_remove" == step.cost(20, 0).events.neighboring_relation
    assert made == pytest.approx(exact_gaussian(once).mu ** 2, rel=1e-9)
    assert made == pytest.approx((1 - SETTINGS.chain) * squared, rel=1e-9)
    assert "direction" not in [kind for kind, _ in spy.made]


def test_half_the_noise_of_a_record_replaced():
    records = LogisticRecords(n=20_000)
    ratio = []
    for relation in ("substitute", "add_remove"):
        found = finder(records, 2.0, relation=relation)(np.zeros(2))
        ratio.append(np.sqrt(np.diag(found.gradient_noise)) / found.gradient_bound)
    np.testing.assert_allclose(ratio[0] / ratio[1], 2.0, rtol=0.3)


# n


def test_the_search_does_not_know_n():
    """The same records, and a number that raises when it is looked at."""

    class Counted(LogisticRecords):
        """With n for what is private of it only: where sums are made."""

        quiet = False

        @property
        def n(self):
            if not self.quiet:
                raise AssertionError("n was looked at")
            return len(self.y)

        @n.setter
        def n(self, value):
            pass

        def surrogate_sums(self, structure):
            quiet = LogisticRecords(n=len(self.y))
            quiet.x, quiet.y = self.x, self.y
            return RecordSums(quiet, structure)

    # n is needed while the records are made
    records = Counted.__new__(Counted)
    records.quiet = True
    LogisticRecords.__init__(records, n=5000)
    records.quiet = False
    surrogate = finder(records, 4.0)(np.zeros(2))
    again = finder(LogisticRecords(n=5000), 4.0)(np.zeros(2))
    assert surrogate.to_json() == again.to_json()
    np.testing.assert_array_equal(surrogate.centre, 0.0)
    with pytest.raises(AssertionError, match="looked at"):  # control
        finder(records, 4.0, relation="substitute")


def test_errors_do_not_tell_n():
    with pytest.raises(TooFewRecordsError) as refused:
        finder(LogisticRecords(n=137), 0.2)(np.zeros(2))
    assert "137" not in str(refused.value) and "epsilon" in str(refused.value)
    assert not any(c.isdigit() for c in str(refused.value))
    hidden = finder(LogisticRecords(n=3000), 0.9)
    surrogate = finder(LogisticRecords(n=3000), 4.0)(np.zeros(2))
    noisy = replace(surrogate, gradient_noise=1e2 * np.linalg.inv(surrogate.metric @ surrogate.metric.T))
    said = noisy.problem(np.eye(2) / 4, np.zeros(2), np.eye(2), hidden._n or None, 0.9)
    assert "records, or" not in said and "epsilon = " in said
    assert "records, or" in noisy.problem(np.eye(2) / 4, np.zeros(2), np.eye(2), 3000, 0.9)


def test_a_centre_is_not_moved_where_n_is_private():
    with pytest.raises(PrivacyError, match="n is public"):
        finder(LogisticRecords(n=50), 1.0, settings=ControlVariates())


def groups(n, size):
    """More than one coordinate choice: `size` groups, n rows."""
    with pm.Model() as model:
        mean, z = pm.Normal("mean"), pm.Normal("z", shape=size)
        tau = pm.HalfNormal("tau")
        data = pm.Data("group", np.arange(n) % size)
        level = pm.Deterministic("level", mean + tau * z)
        pm.Bernoulli("y", logit_p=level[data], observed=np.arange(n) % 2)
    return model


def test_coordinates_do_not_depend_on_n():
    """A vector as long as there are records would otherwise be taken for one with an entry a record."""

    def names(n, relation):
        return RecordModel(groups(n, 6), neighboring_relation=relation).coordinates.names

    assert names(6, "add_remove") == names(7, "add_remove")
    assert names(6, "substitute") != names(7, "substitute")  # control: there n is public


def test_settings_by_a_public_number():
    records = RecordModel(logistic_model())

    def suited(relation, **kwargs):
        made = ResidualBudget(ControlVariates(**kwargs), "penalty", records, 1.0, relation)
        return made.suited(1.0, 1e-6)

    many = ControlVariates(recentre=False)
    assert suited("add_remove") == many  # whatever n
    assert len(suited("add_remove", public_n=100).early) < len(many.early)
    assert suited("add_remove", public_n=1e6).early == many.early
    assert suited("substitute", public_n=1e6).early != many.early  # n itself counts there: 60


@pytest.mark.slow
def test_calls_are_priced_without_n():
    for cls, kwargs in (
        (dp.DPPenaltyMH, {}),
        (dp.DPBarker, {}),
        (dp.DPHMC, {}),
        (dp.DPFastMH, {"public_n": 1e4}),
    ):
        plans = []
        for n in (50, 60):
            with logistic_model(n=n):
                step = cls(
                    epsilon=1.0, delta=1e-6, chains=1, neighboring_relation="add_remove",
                    control_variates=ControlVariates(**kwargs),
                )  # fmt: skip
            step.plan = step.cost(20, 0)
            plans.append(step.plan)
            assert step.facts()["n"] is None
        assert plans[0] == plans[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_mode_is_found(seed):
    """Against the exact mode, in the standard deviations that the surrogate says it has."""
    records = LogisticRecords(n=20_000, d=3, seed=seed)
    theta = np.zeros(3)
    for _ in range(20):
        (part,) = records.derivatives(theta, hessians=True)
        slope = part.gradient.sum(axis=0) + records.log_prior_gradient(theta)
        precision = np.eye(3) / 4 - part.hessian.sum(axis=0)
        theta = theta + np.linalg.solve(precision, slope)
    surrogate = finder(records, 1.0, seed)(np.zeros(3))
    wide = surrogate.precision(np.eye(3) / 4, np.eye(3))
    z = (mode_of(surrogate, records) - theta) / np.sqrt(np.diag(np.linalg.inv(wide)))
    assert np.abs(z).max() < 4.9


# records and persons of a model


def every_sum(x, y, ids, relation):
    """All sums of a logistic model, exact integers."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("y", logit_p=pm.Data("x", x) @ beta, observed=y)
    records = RecordModel(model, privacy_unit=ids, neighboring_relation=relation)
    sums = RecordSums(records, Structure(np.zeros(2)))
    phi, metric, centre = np.array([0.1, -0.2]), np.diag([0.2, 0.3]), np.zeros(2)
    arguments = {
        "gradient": (phi, metric, centre, 0.05),
        "hessian": (phi, metric, 0.003),
        "fisher": (phi, metric, 0.05),
        "histogram": (phi, metric, centre, (4,)),
        "direction": (phi, metric, centre, 0.03),
        "cut": (phi, metric, centre, 0.03, 0.02),
        "line": (phi, [phi + 3.0, phi - 0.4], 0.9),
    }
    return {kind: sums(kind, *these) for kind, these in arguments.items()}


UNITS = {"histogram": 1, "fisher": OUTER_GRID**2}


@pytest.mark.slow
@pytest.mark.parametrize("persons", [False, True])
def test_one_unit_of_a_model_moves_each_sum_by_its_sensitivity_at_most(persons):
    """Replaced by extreme ones, and removed: the first one, so that all others are elsewhere then."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    ids = np.repeat(np.arange(10), [7, 2, 5, 1, 3, 6, 4, 5, 3, 4]) if persons else None
    its = np.arange(7) if persons else np.arange(1)
    structure, reached = Structure(np.zeros(2)), {}
    kept = np.setdiff1d(np.arange(40), its)
    fewer = every_sum(x[kept], y[kept], None if ids is None else ids[kept], "add_remove")
    found = []
    for value in (0.0, 1.0, -1e3, 1e60, -1e200, np.inf):
        x[its] = value
        found.append(every_sum(x, y, ids, "substitute"))
    for kind in found[0]:
        scale = UNITS.get(kind, GRID)
        weights = structure.weights if kind == "fisher" else 1.0
        norms = [
            np.sqrt(np.sum(weights * (one[kind] - other[kind]).astype(float) ** 2)) / scale
            for one, other in [(a, fewer) for a in found]
            + [(a, b) for i, a in enumerate(found) for b in found[:i]]
        ]
        k = 2 if kind == "line" else 1
        more, replaced = max(norms[: len(found)]), max(norms[len(found) :])
        assert more <= sensitivity(kind, "add_remove", k)
        assert replaced <= sensitivity(kind, "substitute", k)
        reached[kind] = more
    assert min(reached.values()) > 0.5, reached
