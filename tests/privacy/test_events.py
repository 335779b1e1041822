import json
import math
import sys

import numpy as np
import pytest
from dp_accounting import dp_event
from hypothesis import given, settings
from hypothesis import strategies as st

import pymc_dp.privacy as privacy
from pymc_dp.privacy import events as ev

GAUSSIAN = dp_event.GaussianDpEvent(2.0)
ALL = [
    GAUSSIAN,
    dp_event.NonPrivateDpEvent(),
    dp_event.PoissonSampledDpEvent(0.01, GAUSSIAN),
    dp_event.SampledWithoutReplacementDpEvent(1000, 10, GAUSSIAN),
    ev.BoundedRangeDecisionDpEvent(0.01),
    ev.PenaltyDecisionDpEvent(30.0),
    ev.FixedScalePenaltyDecisionDpEvent(1.0, 0.02),
    ev.PoissonMixtureDpEvent(0.01, 0.001, 1.0),
    ev.PoissonBarkerDecisionDpEvent(0.01, 0.001),
    ev.BarkerMinibatchDpEvent(100, 10_000),
]


def test_json_goes_both_ways():
    events = privacy.EventSet([*ALL, dp_event.SelfComposedDpEvent(GAUSSIAN, 41)], "substitute")
    assert events.counts[GAUSSIAN] == 42
    again = privacy.EventSet.from_json(events.to_json())
    assert again == events
    assert again.neighboring_relation == "substitute"


def test_every_registered_leaf_is_in_the_test_above():
    composite = {"NoOpDpEvent", "SelfComposedDpEvent", "ComposedDpEvent"}
    assert {type(event).__name__ for event in ALL} == set(ev.REGISTRY) - composite


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
        json_of({"class": "GaussianDpEvent", "noise_multiplier": "1"}),
        json_of({"class": "PenaltyDecisionDpEvent", "noise_multiplier": 0.0}),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": 1.0}, count=-1),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": 1.0}, count=1.5),
        json_of({"class": "GaussianDpEvent", "noise_multiplier": 1.0}, format=2),
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
        dp_event.LaplaceDpEvent(1.0),
        dp_event.UnsupportedDpEvent(),
        dp_event.PoissonSampledDpEvent(1.5, GAUSSIAN),
        dp_event.PoissonSampledDpEvent(math.nan, GAUSSIAN),
        dp_event.PoissonSampledDpEvent(0.1, ev.PenaltyDecisionDpEvent(1.0)),
        dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(-1.0)),
        dp_event.SampledWithoutReplacementDpEvent(10, 11, GAUSSIAN),
        dp_event.SelfComposedDpEvent(GAUSSIAN, -1),
        dp_event.SelfComposedDpEvent(GAUSSIAN, 1.5),
        dp_event.ComposedDpEvent([GAUSSIAN, dp_event.LaplaceDpEvent(1.0)]),
        "GaussianDpEvent",
    ],
)
def test_bad_events_are_refused(event):
    with pytest.raises(ValueError):
        privacy.compose([event], "substitute")


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
