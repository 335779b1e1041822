import json
import math
import sys
from collections import Counter
from types import MappingProxyType

import attr
import numpy as np
import pytest
from dp_accounting import dp_event
from hypothesis import given, settings
from hypothesis import strategies as st

import pymc_dp.privacy as privacy
from pymc_dp.privacy.accounting import events as ev
from pymc_dp.privacy.accounting.calibration import calibrate
from pymc_dp.privacy.accounting.costs import COSTS, Costs
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.budget.plan import Call

GAUSSIAN = dp_event.GaussianDpEvent(2.0)
ALL = [
    GAUSSIAN,
    dp_event.NonPrivateDpEvent(),
    dp_event.PoissonSampledDpEvent(0.01, GAUSSIAN),
    dp_event.SampledWithoutReplacementDpEvent(1000, 10, GAUSSIAN),
    dp_event.ZCDpEvent(0.01),
    ev.ApproximateZCDpEvent(0.01, 1e-12),
    ev.BoundedRangeDecisionDpEvent(0.01),
    ev.PenaltyDecisionDpEvent(30.0),
    ev.FixedScalePenaltyDecisionDpEvent(1.0, 0.02),
    ev.PoissonMixtureDpEvent(0.01, 0.001, 1.0),
    ev.PoissonBarkerDecisionDpEvent(0.01, 0.001),
    ev.BarkerMinibatchDpEvent(100, 10_000),
    ev.BatchPenaltyDecisionDpEvent(100, 10_000, 3.0),
]


def test_json_goes_both_ways():
    events = privacy.EventSet([*ALL, dp_event.SelfComposedDpEvent(GAUSSIAN, 41)], "substitute")
    assert events.counts[GAUSSIAN] == 42
    again = privacy.EventSet.from_json(events.to_json())
    assert again == events
    assert again.neighboring_relation == "substitute"


def test_every_registered_leaf_is_in_the_test_above():
    assert {type(event).__name__ for event in ALL} == {cls.__name__ for cls in COSTS}


def json_of(event, count=1, **more):
    row = {"count": count, "event": event}
    return json.dumps({"format": 1, "neighboring_relation": "substitute", "events": [row], **more})


@pytest.mark.parametrize(
    "text",
    [
        json_of({"class": "os.system", "command": "true"}),
        json_of({"class": "LaplaceDpEvent", "noise_multiplier": 1.0}),
        json_of({"class": "GaussianDpEvent"}),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": 1.0, "extra": 1}),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": -1.0}),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": math.nan}),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": math.inf}),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": True}),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": "1"}),
        json_of({"class": "PenaltyDecisionDpEvent", "noise_multiplier": 0.0}),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": 1.0}, count=-1),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": 1.0}, count=1.5),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": 1.0}, count=math.nan),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": 1.0}, count=True),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": 1.0}, count=10**400),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": 1.0}, neighboring_relation=["substitute"]),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": 1.0}, more=[]),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": 1.0}).replace(
            '"count"', '"times": 9, "count"'
        ),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": 1.0}, format=2),
        '{"a":' * 100_000,
        json_of("GaussianDpEvent"),
        json_of({"class": ["GaussianDpEvent"]}),
        "{}",
        "[]",
        "not json",
    ],
)
def test_bad_json_is_refused(text):
    with pytest.raises(ValueError):
        privacy.EventSet.from_json(text)


def test_an_unknown_class_is_refused_and_nothing_imported():
    loaded = set(sys.modules)
    with pytest.raises(ValueError, match="registry is closed"):
        privacy.EventSet.from_json(json_of({"class": "this.Module", "module_name": "this"}))
    assert set(sys.modules) == loaded


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "1", None, True])
def test_bad_fields_are_refused_at_construction(bad):
    for build in (
        ev.BoundedRangeDecisionDpEvent,
        ev.PenaltyDecisionDpEvent,
        lambda x: ev.FixedScalePenaltyDecisionDpEvent(x, 1.0),
        lambda x: ev.FixedScalePenaltyDecisionDpEvent(1.0, x),
        lambda x: ev.PoissonMixtureDpEvent(x, 1.0, 1.0),
        lambda x: ev.PoissonMixtureDpEvent(1.0, x, 1.0),
        lambda x: ev.PoissonMixtureDpEvent(1.0, 1.0, x),
        lambda x: ev.PoissonBarkerDecisionDpEvent(x, 1.0),
        lambda x: ev.PoissonBarkerDecisionDpEvent(1.0, x),
        lambda x: ev.BarkerMinibatchDpEvent(x, 100),
    ):
        with pytest.raises(ValueError):
            build(bad)


@pytest.mark.parametrize(
    "event",
    [
        dp_event.GaussianDpEvent(-1.0),
        dp_event.GaussianDpEvent(math.nan),
        dp_event.GaussianDpEvent(math.inf),
        dp_event.GaussianDpEvent(True),
        dp_event.GaussianDpEvent(np.True_),
        dp_event.GaussianDpEvent(10**400),
        dp_event.GaussianDpEvent(np.longdouble(2.0)),
        dp_event.GaussianDpEvent(np.float16(300.0)),  # its square is infinite: it cost 0
        dp_event.GaussianDpEvent(np.float32(2.0)),
        dp_event.PoissonSampledDpEvent(np.float32(0.1), GAUSSIAN),
        dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(np.float16(2.0))),
        dp_event.GaussianDpEvent(np.array(2.0)),
        dp_event.LaplaceDpEvent(1.0),
        dp_event.UnsupportedDpEvent(),
        dp_event.PoissonSampledDpEvent(1.5, GAUSSIAN),
        dp_event.PoissonSampledDpEvent(math.nan, GAUSSIAN),
        dp_event.PoissonSampledDpEvent(0.1, ev.PenaltyDecisionDpEvent(1.0)),
        dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(-1.0)),
        dp_event.SampledWithoutReplacementDpEvent(10, 11, GAUSSIAN),
        dp_event.SelfComposedDpEvent(GAUSSIAN, -1),
        dp_event.SelfComposedDpEvent(GAUSSIAN, 1.5),
        dp_event.SelfComposedDpEvent(GAUSSIAN, math.nan),
        dp_event.SelfComposedDpEvent(GAUSSIAN, True),
        dp_event.SelfComposedDpEvent(GAUSSIAN, 2**60),
        dp_event.SelfComposedDpEvent(dp_event.SelfComposedDpEvent(GAUSSIAN, 2**40), 2**40),
        dp_event.ComposedDpEvent([GAUSSIAN, dp_event.LaplaceDpEvent(1.0)]),
        dp_event.ComposedDpEvent({GAUSSIAN: 10**6}),
        dp_event.ComposedDpEvent({GAUSSIAN}),
        dp_event.ComposedDpEvent(event for event in [GAUSSIAN]),
        "GaussianDpEvent",
    ],
)
def test_bad_events_are_refused(event):
    with pytest.raises(ValueError):
        privacy.compose([event], "substitute")


COUNTED = {GAUSSIAN: 5, ev.PenaltyDecisionDpEvent(30.0): 7}


@pytest.mark.parametrize(
    "events",
    [
        COUNTED,
        Counter(COUNTED),
        MappingProxyType(COUNTED),
        {privacy.EventSet(GAUSSIAN, "substitute"): 5, ev.PenaltyDecisionDpEvent(30.0): np.int64(7)},
        list(COUNTED.items()),
        tuple(COUNTED.items()),
        [*([GAUSSIAN] * 5), (ev.PenaltyDecisionDpEvent(30.0), 7)],
        [privacy.EventSet(COUNTED, "substitute")],
        dp_event.ComposedDpEvent([dp_event.SelfComposedDpEvent(event, k) for event, k in COUNTED.items()]),
    ],
    ids=lambda events: type(events).__name__,
)
def test_every_form_counts(events):
    """A mapping of events to counts was once read as its keys: a million releases charged as one."""
    assert privacy.EventSet(events, "substitute").counts == COUNTED
    wanted = privacy.compose(privacy.EventSet(COUNTED, "substitute")).epsilon(1e-6)
    assert privacy.compose(events, "substitute").epsilon(1e-6) == wanted
    running = privacy.running_epsilon(GAUSSIAN, 3, 1e-6, neighboring_relation="substitute", once=events)
    assert running[-1] > wanted
    fits = privacy.iterations_allowed(GAUSSIAN, 8.0, 1e-6, neighboring_relation="substitute", once=events)
    once = privacy.EventSet(COUNTED, "substitute")
    assert fits == privacy.iterations_allowed(
        GAUSSIAN, 8.0, 1e-6, once=once, neighboring_relation="substitute"
    )


@pytest.mark.parametrize(
    "events",
    [
        {GAUSSIAN},  # equal events are one
        frozenset([GAUSSIAN]),
        {GAUSSIAN: 1}.keys(),
        iter([GAUSSIAN]),  # nothing is left of it when it is looked at again
        (event for event in [GAUSSIAN]),
        np.array([GAUSSIAN], dtype=object),
        "GaussianDpEvent",
        b"GaussianDpEvent",
        None,
        3,
        GAUSSIAN.__class__,
        [[GAUSSIAN]],
        [{GAUSSIAN: 3}],
        [(GAUSSIAN, 3, 1)],
        [(3, GAUSSIAN)],
        (GAUSSIAN, 3),
        {GAUSSIAN: {GAUSSIAN: 3}},
        *({GAUSSIAN: count} for count in (-1, 1.0, 2.5, math.nan, math.inf, True, "3", None, 2**60)),
        *([(GAUSSIAN, count)] for count in (-1, 1.0, 2.5, math.nan, math.inf, True, "3", None, 2**60)),
        {GAUSSIAN: 2**53, ev.PenaltyDecisionDpEvent(30.0): 1},
    ],
    ids=lambda events: type(events).__name__,
)
def test_what_is_not_understood_is_refused(events):
    for door in (
        lambda: privacy.EventSet(events, "substitute"),
        lambda: privacy.compose(events, "substitute"),
        lambda: calibrate(lambda x: events, 1.0, 1e-6, neighboring_relation="substitute", low=1.0, high=2.0),
        lambda: privacy.iterations_allowed(
            GAUSSIAN, 1.0, 1e-6, neighboring_relation="substitute", once=events
        ),
        lambda: privacy.running_epsilon(GAUSSIAN, 3, 1e-6, neighboring_relation="substitute", once=events),
    ):
        with pytest.raises(ValueError):
            door()


def test_a_set_that_was_altered_is_checked_again():
    one = privacy.EventSet(GAUSSIAN, "substitute")
    one.counts[GAUSSIAN] = -1
    for door in (lambda: privacy.compose(one), lambda: one + one, lambda: one.repeated(2)):
        with pytest.raises(ValueError, match="at least 0"):
            door()


@pytest.mark.parametrize("length", [2, 4, 7])
def test_a_schedule_has_one_entry_an_iteration(length):
    with pytest.raises(ValueError, match="one entry an iteration"):
        privacy.running_epsilon([GAUSSIAN] * length, 5, 1e-6, neighboring_relation="substitute")


@pytest.mark.parametrize("one", [5e-324, 1e-308, 1e-200, 1e-101, 1.1e100, 1e200, 1.7e308])
@pytest.mark.parametrize("negative", [False, True])
def test_numbers_that_overflow_are_refused(one, negative):
    one = -one if negative else one
    for build in (
        dp_event.GaussianDpEvent,
        ev.BoundedRangeDecisionDpEvent,
        ev.PenaltyDecisionDpEvent,
        lambda x: dp_event.PoissonSampledDpEvent(0.5, dp_event.GaussianDpEvent(x)),
        lambda x: dp_event.SampledWithoutReplacementDpEvent(100, 50, dp_event.GaussianDpEvent(x)),
        lambda x: ev.FixedScalePenaltyDecisionDpEvent(x, 1.0),
        lambda x: ev.FixedScalePenaltyDecisionDpEvent(x, x),
        lambda x: ev.FixedScalePenaltyDecisionDpEvent(abs(x) ** 0.5, abs(x) ** -0.5),
        lambda x: ev.PoissonBarkerDecisionDpEvent(1.0, x),
        lambda x: ev.PoissonMixtureDpEvent(1.0, 0.1, x),
    ):
        with pytest.raises(ValueError):
            privacy.compose(build(one), "substitute")


@pytest.mark.parametrize("one", [1e-100, 1e100])
def test_numbers_at_the_edge_are_charged(one):
    for event in (dp_event.GaussianDpEvent(one), ev.PenaltyDecisionDpEvent(one)):
        spent = privacy.compose(event, "substitute").epsilon(1e-6)
        assert spent > 1e9 if one < 1 else spent < 1e-5


def test_subclasses_cannot_pass_for_an_event():
    class GaussianDpEvent(dp_event.GaussianDpEvent):  # same name, unknown meaning
        pass

    with pytest.raises(ValueError, match="unknown event"):
        privacy.compose([GaussianDpEvent(1.0)], "substitute")


def test_neighbouring_relations_do_not_mix():
    one, other = privacy.EventSet([GAUSSIAN], "substitute"), privacy.EventSet([GAUSSIAN], "add_remove")
    with pytest.raises(ValueError, match="different neighbouring relations"):
        one + other
    for build in (
        lambda: one + other,
        lambda: privacy.compose([one, other]),
        lambda: privacy.compose(one, "add_remove"),
        lambda: privacy.compose([GAUSSIAN]),
        lambda: privacy.compose([GAUSSIAN], "replace"),
        lambda: privacy.compose([ev.BarkerMinibatchDpEvent(100, 1000)], "add_remove"),
        lambda: privacy.compose([dp_event.SampledWithoutReplacementDpEvent(10, 5, GAUSSIAN)], "add_remove"),
    ):
        with pytest.raises(ValueError):
            build()


def test_small_batches_leave_no_order_for_barker():
    with pytest.raises(ValueError, match="above 10"):
        ev.BarkerMinibatchDpEvent(10, 100)
    with pytest.raises(ValueError, match="larger than"):
        ev.BarkerMinibatchDpEvent(101, 100)
    assert math.isfinite(privacy.compose([ev.BarkerMinibatchDpEvent(11, 1000)], "substitute").epsilon(1e-5))


@given(st.lists(st.sampled_from(ALL), max_size=6), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_sets_add_up(events, times):
    one = privacy.EventSet(events, "substitute")
    total = one.repeated(times)
    assert all(total.counts.get(event, 0) == times * count for event, count in one.counts.items())
    assert (one + one) == one.repeated(2)
    assert privacy.EventSet.from_json(total.to_json()) == total


def test_numpy_numbers_are_numbers():
    event = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(np.float64(2.0)), np.int64(3))
    assert privacy.EventSet.from_json(privacy.EventSet(event, "substitute").to_json()).counts == {GAUSSIAN: 3}


@attr.s(frozen=True, slots=True, auto_attribs=True)
class Toy(dp_event.DpEvent):
    """An event of two lines."""

    eta: float


class Disguised(dp_event.NoOpDpEvent):
    """Says that it costs nothing."""


def test_an_event_without_a_price_is_refused_before_anything_is_charged(tmp_path):
    ledger = privacy.Ledger(tmp_path / "study.db", epsilon=1.0, delta=1e-6)
    for event in (Toy(0.1), Disguised()):
        for one in (event, dp_event.SelfComposedDpEvent(event, 3), dp_event.ComposedDpEvent([event])):
            with pytest.raises(ValueError, match=f"unknown event {type(event).__name__}"):
                ledger.reserve(one)
    assert not ledger.entries()


def test_an_event_is_added_by_one_line(monkeypatch):
    """Every accountant for which the line has a number takes it; the others say that they do not."""
    same = ev.BoundedRangeDecisionDpEvent
    monkeypatch.setitem(COSTS, Toy, Costs(renyi=COSTS[same].renyi, decision=True))
    toys, known = ({cls(0.01): 50} for cls in (Toy, same))
    found, expected = (privacy.compose(e, "substitute").by_accountant(1e-6) for e in (toys, known))
    assert found["RDP"] == expected["RDP"] < math.inf
    assert "exact Gaussian" not in found  # no number for it
    assert privacy.EventSet.from_json(privacy.EventSet(toys, "substitute").to_json()).counts == toys


def test_numpys_numbers_share_no_price_with_others():
    """Equal events share what was computed for one of them: each is in Python's own numbers."""
    narrow = dp_event.PoissonSampledDpEvent(np.float64(0.1), dp_event.GaussianDpEvent(np.int8(100)))
    (leaf,) = EventSet([(narrow, np.int8(100))], "add_remove").counts
    assert type(leaf.sampling_probability) is float and type(leaf.event.noise_multiplier) is int
    assert leaf == narrow
    call = Call(np.float64(1.0), 1e-6, "substitute", np.int8(2), np.int8(100), np.int8(100))
    assert call.chains * (call.tune + call.draws) == 400 and type(call.draws) is int
    for epsilon in (np.float16(1.0), np.float32(1.0), np.longdouble(1.0)):
        with pytest.raises(ValueError, match="double precision"):
            Call(epsilon, 1e-6, "substitute", 1, 0, 10)


@pytest.mark.parametrize("narrow", [np.float16, np.float32, np.longdouble])
def test_floats_that_are_not_doubles_are_refused(narrow):
    """A float16 of 300 has an infinite square, and so cost nothing."""
    for event in (dp_event.GaussianDpEvent, privacy.PenaltyDecisionDpEvent):
        with pytest.raises(ValueError, match="finite number"):
            privacy.compose([(event(narrow(300)), 1000)], "substitute").epsilon(1e-5)
        assert privacy.compose([(event(np.float64(300)), 1000)], "substitute").epsilon(1e-5) > 0.1
