"""Clip bounds of moves: one constant, one a component, one a variable."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_dp.clipping import ConstantClip, LipschitzByPart, LipschitzClip, as_clip

SHAPES = {"a": (2,), "s": (), "b": (2, 2)}
NUMBERS = st.floats(-3, 3)


def by_part(constants):
    return as_clip(constants, None, by_part=True).fitted(SHAPES)


@given(st.lists(NUMBERS, min_size=7, max_size=7), st.lists(st.floats(0.01, 5), min_size=7, max_size=7))
def test_components_add_up_to_less_than_the_norms(move, constants):
    move, constants = np.array(move), np.array(constants)
    bound = by_part(constants).bound(move)
    assert bound == pytest.approx(max(np.sum(constants * np.abs(move)), 1e-290), rel=1e-12)
    assert bound <= LipschitzClip(float(np.linalg.norm(constants))).bound(move) * (1 + 1e-12)


@given(st.lists(NUMBERS, min_size=7, max_size=7))
def test_a_number_for_a_variable_is_about_the_norm_of_its_part(move):
    move = np.array(move)
    clip = by_part({"s": 3.0, "b": [[1.0, 2.0], [3.0, 4.0]], "a": 2.0})
    expected = 2 * np.linalg.norm(move[:2]) + 3 * abs(move[2]) + np.abs(move[3:]) @ [1, 2, 3, 4]
    assert clip.bound(move) == pytest.approx(max(expected, 1e-290), rel=1e-12)


def test_a_move_of_one_component_is_clipped_by_its_own_constant():
    clip = by_part(np.arange(1.0, 8.0))
    for j in range(7):
        assert clip.bound(0.5 * np.eye(7)[j]) == 0.5 * (j + 1)
    assert clip.bound(np.zeros(7)) > 0
    assert str(by_part(np.arange(1.0, 8.0))).startswith("1, 2, 3, 4, 5, 6, 7 x distance")


@pytest.mark.parametrize("seed", range(5))
def test_no_record_is_clipped_where_the_constants_hold(seed):
    """Ratios of a function with bounded partial derivatives; with smaller constants some exceed."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(500, 7))
    clip = by_part(np.abs(x).max(axis=0))

    def excess(theta, move):
        z = np.logaddexp(0, np.stack([x @ theta, x @ (theta + move)]))  # slope in (0, 1)
        return np.max(np.abs(z[1] - z[0])) / clip.bound(move)

    shares = [excess(rng.normal(size=7), rng.normal(size=7) * rng.integers(0, 2, 7)) for _ in range(200)]
    steepest = np.eye(7)[seed] * np.sign(x[np.argmax(np.abs(x[:, seed])), seed])
    shares.append(excess(50 * steepest, steepest))
    assert 0.999 < max(shares) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ([1.0, 2.0], r"the unconstrained parameters \(7,\)"),
        (np.ones((7, 1)), r"the unconstrained parameters \(7,\)"),
        ([1.0] * 6 + [0.0], "positive and finite"),
        ([1.0] * 6 + [np.nan], "positive and finite"),
        (["1"] * 7, "positive and finite"),
        ({"a": 1.0, "s": 1.0}, "each needs an entry"),
        ({"a": 1.0, "s": 1.0, "b": 1.0, "c": 1.0}, "each needs an entry"),
        ({"a": 1.0, "s": -1.0, "b": 1.0}, r"lipschitz\['s'\] must be positive"),
        ({"a": [1.0, 2.0, 3.0], "s": 1.0, "b": 1.0}, r"lipschitz\['a'\] has shape \(3,\)"),
        ({"a": 1.0, "s": [1.0], "b": 1.0}, r"lipschitz\['s'\] has shape"),
    ],
)
def test_bad_constants(constants, message):
    with pytest.raises(ValueError, match=message):
        by_part(constants)


def test_steps_that_take_one_number_refuse_several():
    for constants in ([1.0, 2.0], {"a": 1.0}):
        with pytest.raises(ValueError, match="lipschitz must be positive"):
            as_clip(constants, None)
    assert isinstance(as_clip(None, 1.0, by_part=True), ConstantClip)
    assert isinstance(as_clip(1.0, None, by_part=True), LipschitzClip)
    assert isinstance(as_clip([1.0], None, by_part=True), LipschitzByPart)
