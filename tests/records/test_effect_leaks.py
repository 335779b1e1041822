"""What one person with an effect can do to what others add, to sums, and to what is accepted.

Each check is made once more with a fault that was planted, and has to notice it.
"""

from functools import cache
from operator import call

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_dp as dp
from pymc_dp.likelihood.comparisons import SCORE_GRID, SLOPE_GRID, Bounds
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records import complete_model, effects, quadrature, twins
from pymc_dp.records.model import RecordModel
from pymc_dp.records.outcomes import Outcomes

N, ROWS, MANY = 30, 3, 10_000
PHI = np.array([0.4, -0.3])
HORRORS = {
    "far": (1e3, -1e3),
    "enormous": (1e150, -1e150),
    "beyond": (1e300, 1e300),
    "infinite": (np.inf, 0.0),
    "not a number": (0.0, np.nan),
    "subnormal": (5e-324, 5e-324),
}


LAWS = {
    "a long tail": lambda tau: pm.StudentT("own", nu=4, mu=0, sigma=tau, shape=N),
    "a kink": lambda tau: pm.Laplace("own", 0, tau, shape=N),
}


@cache
def records_with(last=ROWS, code=N - 1, law="a long tail"):
    """Persons of three rows; the last has so many, with this code. Its values are the first ones' of `x`."""
    r = np.random.default_rng(1)
    ids = np.append(np.repeat(np.arange(N - 1), ROWS), np.full(last, code))
    x, y = r.normal(size=(N - 1) * ROWS), r.normal(size=(N - 1) * ROWS)
    tail = np.linspace(-1, 1, last)
    with pm.Model() as model:
        person, given = pm.Data("person", ids), pm.Data("x", np.append(x, tail))
        slope, tau = pm.Normal("slope", 0, 1), pm.HalfNormal("tau", 1)
        own = LAWS[law](tau)
        pm.Normal("y", slope * given + own[person], 1, observed=pm.Data("data_y", np.append(y, tail)))
    return RecordModel(model, privacy_unit="person", integrate=True)


def scores(records, values=None, twins=0):
    """Scores of persons and of their twins, shape (1 + twins, n, p), where the last has these values."""
    held = [v.get_value(borrow=True) for v in (records._model["x"], records._model["data_y"])]
    kept = [one[-1] for one in held]
    for one, value in zip(held, kept if values is None else values, strict=True):
        one[-1] = value
    try:
        chunks = list(map(call, records.twins(PHI, twins, PrivacyRandom(1))))
    finally:
        for one, value in zip(held, kept, strict=True):
            one[-1] = value
    terms = [chunk.terms[0] for chunk in chunks]
    return np.concatenate([term.group if twins else term.own[None] for term in terms], axis=1)


def others_move(law="a long tail"):
    """Changes of the last person that others' scores, or their twins', do not survive to the last bit."""
    records = records_with(law=law)
    usual, with_twins = scores(records), scores(records, twins=2)
    assert np.isfinite(usual).all() and np.isfinite(with_twins).all()
    found = []
    for name, values in HORRORS.items():
        own = scores(records, values), scores(records, values, twins=2)
        if any(
            not np.array_equal(a[:, :-1], b[:, :-1]) for a, b in zip(own, (usual, with_twins), strict=True)
        ):
            found.append(name)
    for name, other in {
        "one row": records_with(1, law=law),
        "many rows": records_with(MANY, law=law),
        "no such entry": records_with(code=N, law=law),
    }.items():
        if not np.array_equal(scores(other)[:, :-1], usual[:, :-1]):
            found.append(name)
    return found


@pytest.mark.parametrize("law", LAWS)
def test_one_person_moves_nothing_of_others(law):
    assert others_move(law) == []


def common_maximum(densities, values):
    """Weights as they are computed for one person at a time, by a maximum over all."""
    weights = np.exp(densities - np.nanmax(densities))
    return np.sum((weights / np.sum(weights, axis=0))[:, :, None] * values, axis=0)


def common_end(joint, scale, m):
    """Modes that are moved by a little of their mean."""
    mode, root = MODE(joint, scale, m)
    return mode + 1e-9 * np.nanmean(mode), root


def a_row_of_the_next(*args):
    """Persons whose rows begin one too late."""
    for units, rows, first in CHUNKS(*args):
        moved = first.copy()
        moved[1:] = np.minimum(moved[1:] + 1, len(rows) - 1)
        yield units, rows, moved


def rows_alone(*args):
    """Each row as a person."""
    for units, rows, _ in CHUNKS(*args):
        yield units, rows, None


def common_units(seen, x, units):
    """Curvatures over a unit that is of all persons."""
    return OVER(seen, x, np.full_like(units, np.nanmean(units)))


MODE, CHUNKS, OWN = quadrature._mode, twins.chunks_of, complete_model._own
OVER = quadrature._over_units
FAULTS = {
    "a common maximum": (quadrature, "average", common_maximum),
    "modes that are not apart": (quadrature, "_mode", common_end),
    "a row of the next person": (twins, "chunks_of", a_row_of_the_next),
    "a unit of all persons": (quadrature, "_over_units", common_units),
}


@pytest.mark.parametrize("name", FAULTS)
def test_it_would_be_noticed(name, monkeypatch):
    monkeypatch.setattr(*FAULTS[name])
    assert others_move("a kink")


# Sums


def moves(twins=0):
    """How far a score, a slope and scales go where the last person is replaced, over what is charged for."""
    bounds, metric = Bounds(0.7, 0.5), np.array([[0.5, 0.0], [0.2, 0.4]])
    found = []
    for records in (records_with(1), records_with(), records_with(MANY)):
        source = RecordsHere(records.twins, PrivacyRandom(1))
        made = source.compare(PHI, metric, bounds, twins)
        found.append((made.score, np.append(made.slope.ravel(), made.variances), source.scales(PHI, twins)))
    size = records_with().twins.touched
    units = 2 * SCORE_GRID, np.sqrt(2) * SLOPE_GRID, np.sqrt(2 * size)
    return [
        max(np.linalg.norm(one[k] - other[k]) / unit for one in found for other in found)
        for k, unit in enumerate(units)
    ]


def test_a_person_with_many_rows_moves_sums_as_one_person_does():
    assert max(moves()) <= 1 + 1e-12


def test_rows_that_count_by_themselves_would_be_noticed(monkeypatch):
    monkeypatch.setattr(twins, "chunks_of", rows_alone)
    assert min(moves()[::2]) > 10


# Twins


def alike():
    """Correlation of the outcomes of two rows of a twin, where effects are large."""
    drawn, _ = records_with().twins.outcomes._drawn(np.array([[0.0, np.log(30.0)]]), 1, PrivacyRandom(1))
    pairs = drawn["y"][0].reshape(N, ROWS)
    return np.corrcoef(np.sign(pairs[:, 0]), np.sign(pairs[:, 1]))[0, 1]


def test_rows_of_a_twin_share_its_effect(monkeypatch):
    assert alike() > 0.6
    monkeypatch.setattr(Outcomes, "_of_person", lambda self, values: values)
    assert alike() < 0.5


# What is accepted


def accepted(build):
    """Whether a model is read."""
    try:
        RecordModel(build(), privacy_unit="person", integrate=True, verify=False)
    except dp.errors.ModelRefusedError:
        return False
    return True


def by_other_ids():
    ids = np.repeat(np.arange(N), ROWS)
    with pm.Model() as model:
        pm.Data("person", ids)
        other, own = pm.Data("other", ids[::-1].copy()), pm.Normal("own", shape=N)
        pm.Normal("y", pm.Normal("b") + own[other], 1, observed=np.zeros(len(ids)))
    return model


def by_two_arrays():
    """A second effect, of the persons whom another array names."""
    ids = np.repeat(np.arange(N), ROWS)
    with pm.Model() as model:
        person, friend = pm.Data("person", ids), pm.Data("friend", ids[::-1].copy())
        own, given = pm.Normal("own", shape=N), pm.Normal("given", shape=N)
        pm.Normal("y", pm.Normal("b") + own[person] + given[friend], 1, observed=np.zeros(len(ids)))
    return model


def by_one_for_all():
    """One effect, also of those whom another array names."""
    ids = np.repeat(np.arange(N), ROWS)
    with pm.Model() as model:
        person, friend = pm.Data("person", ids), pm.Data("friend", ids[::-1].copy())
        own = pm.Normal("own", shape=N)
        pm.Normal("y", pm.Normal("b") + own[person] + own[friend], 1, observed=np.zeros(len(ids)))
    return model


def by_ids_and_more():
    """The effect of the next person."""
    ids = np.repeat(np.arange(N), ROWS)
    with pm.Model() as model:
        person, own = pm.Data("person", ids), pm.Normal("own", shape=N)
        pm.Normal("y", pm.Normal("b") + own[(person + 1) % N], 1, observed=np.zeros(len(ids)))
    return model


@pytest.mark.parametrize("build", [by_other_ids, by_two_arrays, by_one_for_all, by_ids_and_more])
def test_another_look_up_is_refused(build, monkeypatch):
    """And, as a control, is not where any whole numbers pass for the unit's."""
    assert not accepted(build)
    monkeypatch.setattr(effects, "_is", lambda index, ids: not isinstance(index, slice))
    assert accepted(build)


def test_a_code_out_of_range_is_nothing(monkeypatch):
    """As a control: without that rule the person has an effect that the model does not know of."""
    assert np.isnan(scores(records_with(code=N))[:, -1]).all()

    def own(node, table, found):
        axis, _ = found.tables[node]
        return OWN(node, table, found._replace(tables={node: effects.Table(axis, N + 1)}))

    monkeypatch.setattr(complete_model, "_own", own)
    assert np.isfinite(scores(records_with.__wrapped__(code=N))[:, -1]).all()


def test_what_reads_an_effect_is_not_released():
    """Sums and means of all, one person's, and as many as there are: whatever is computed of it."""
    ids = np.repeat(np.arange(N), ROWS)
    with pm.Model() as model:
        person, tau, own = pm.Data("person", ids), pm.HalfNormal("tau", 1), pm.Normal("own", shape=N)
        for name, value in {
            "first": own[0],
            "mean": own.mean(),
            "sum of rows": own[person].sum(),
            "largest": tau * pt.max(pt.abs(own)),
            "each": tau * own,
            "twice": 2 * pm.Deterministic("each again", own[person]),
        }.items():
            pm.Deterministic(name, value)
        pm.Deterministic("variance", tau**2)
        pm.Normal("y", tau * own[person], 1, observed=np.zeros(len(ids)))
    records = RecordModel(model, privacy_unit="person", integrate=True)
    assert set(records.released_variables) == {"tau", "variance"}
