"""Public bounds: at the edges of their range no record moves a sum by more than stated; beyond, refused."""

import itertools
import math
import warnings

import numpy as np
import pytest

import pymc_dp as dp
from pymc_dp.bounds import LARGEST_BOUND, SMALLEST_BOUND, check_bound
from pymc_dp.clipping import as_clip
from pymc_dp.privacy.mechanisms.gradients import Dynamics
from pymc_dp.privacy.mechanisms.randomness import PoissonBatches, TunaBatches
from pymc_dp.ratios import barker_correction, subsets, tuna
from pymc_dp.records.clipped_sums import Clip, Dense

# Numbers of a record.
D = 3
EDGES = [SMALLEST_BOUND, LARGEST_BOUND]
POISON = [0.0, 1.0, -3.0, 1e99, 1e101, 1e154, 1e300, -1e300, 5e-324, 1e-320, np.inf, -np.inf, np.nan]
BAD = [
    *(
        0,
        -1.0,
        math.nan,
        math.inf,
        -math.inf,
        1e-210,
        0.99e-100,
        1.01e100,
        1e308,
        5e-324,
        10**400,
        -(10**400),
    ),
    *(
        np.longdouble("1e4000"),
        np.longdouble("1e-4000"),
        np.float16(0.5),
        np.float32(0.5),
        True,
        "1",
        b"1",
        None,
        1 + 0j,
        [],
        [1.0, 1e-210],
        [1.0, math.nan],
        {"a": 1},
        np.array("1"),
        object(),
    ),
]


@pytest.mark.parametrize("value", BAD, ids=lambda value: type(value).__name__)
def test_what_is_no_bound_is_refused(value):
    with pytest.raises(ValueError, match="a_bound must be positive and finite, between 1e-100 and 1e100"):
        check_bound("a_bound", value, several=True)


@pytest.mark.parametrize("value", [*EDGES, 1, np.float64(0.5), np.array(2), [1.0, 2.0], np.ones((2, 2))])
def test_control_what_is_a_bound(value):
    check_bound("a_bound", value, several=True)


def dynamics(**kwargs):
    return Dynamics(PoissonBatches(0.1), **{"clip_bound": 1.0, "step_size": 0.1, "friction": 1.0, **kwargs})


DOORS = {
    "lipschitz": lambda x: as_clip(x, None),
    "clip_bound": lambda x: as_clip(None, x),
    "lipschitz by variable": lambda x: as_clip({"a": x, "b": 1.0}, None, by_part=True),
    "lipschitz by component": lambda x: as_clip([x, 1.0], None, by_part=True),
    "gradients": lambda x: Clip(x, 2),
    "SGHMC's clip_bound": lambda x: dynamics(clip_bound=x),
    "SGHMC's step_size": lambda x: dynamics(step_size=x),
    "an owner's lipschitz": lambda x: dp.Owner("a", dict, None, epsilon=1.0, delta=1e-6, lipschitz=x),
    "an owner's clip_bound": lambda x: dp.Owner("a", dict, None, epsilon=1.0, delta=1e-6, clip_bound=x),
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, 1e-210, 1e-101, 1e101, 1e308])
def test_every_door_has_the_check(door, value):
    with pytest.raises(ValueError, match="between 1e-100 and 1e100"):
        door(value)


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_control_the_doors_open(door):
    for edge in EDGES:
        door(edge)


@pytest.mark.parametrize("given", [[1.0], [1.0, 2.0], np.ones((1, 1))])
def test_one_number_where_one_is_needed(given):
    for wrong in (lambda: as_clip(None, given), lambda: as_clip(given, None), lambda: Clip(given, 2)):
        with pytest.raises(ValueError, match="a single number here"):
            wrong()


def records_of(values):
    """Numbers of one record, in all sizes."""
    return [np.array([value, 1.0, -value]) for value in values]


@pytest.mark.parametrize("bound", [*EDGES, 0.7])
def test_sums_of_gradients(bound):
    clip, found = Clip(bound, D), []
    for vector in records_of(POISON):
        total = np.zeros(D)
        rows = np.vstack([vector, np.ones((3, D))])
        clip.add([Dense(np.arange(D), rows)], 4, total)
        found.append(total * (clip.step / bound))
    assert max(np.linalg.norm(a - b) for a, b in itertools.combinations(found, 2)) <= 2


@pytest.mark.parametrize("bound", [1e-290, *EDGES, 0.7])
def test_ratios_on_batches(bound):
    """1e-290 is the clip bound of a move that underflows."""
    b, n = 20, 1000
    others = np.linspace(-1, 1, b - 1) * min(bound, 1e90)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = [subsets.corrected_ratio(np.r_[others, x], bound, n, 1.0) for x in POISON]
        assert max(values) - min(values) <= subsets.sensitivity(bound, b, n, 1.0) * (1 + 1e-9)
        values = [barker_correction.batch_ratio(np.r_[others, x], n, 1.0) for x in POISON]
        assert max(v for v, _ in values) - min(v for v, _ in values) <= 2 / math.sqrt(b) * (1 + 1e-9)
        assert max(v for _, v in values) <= 1 + 1e-9
        if bound < 1:
            batches = TunaBatches(1.5, 0.7)
            largest = tuna.largest_term(bound, batches)
            terms = [tuna.log_ratio(np.array([x]), bound, batches, np.array([0.0])) for x in POISON]
            assert max(map(abs, terms)) <= largest * (1 + 1e-9)
