"""Sums of clipped sufficient statistics: exact, and one record moves them by at most what is stated."""

from fractions import Fraction

import numpy as np
import pytest

from pymc_dp.records.statistics import GRID, LARGEST_N, StatisticBound, exact_sum

EXTREME = [np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 0.0, 1.0, -1.0, 3.0]


def squares(steps):
    """Exact squared norms, in Python integers."""
    return [sum(int(k) ** 2 for k in row) for row in steps]


def random_statistics(rng, size, k, bound):
    """Of all lengths, many of them at the bound up to rounding."""
    s = rng.standard_normal((size, k))
    s *= bound / np.linalg.norm(s, axis=1, keepdims=True)
    length = np.where(rng.random(size) < 0.5, 1.0, 10 ** rng.uniform(-3, 3, size))
    return s * (length * (1 + rng.integers(-3, 4, size) * 2.0**-53))[:, None]


@pytest.mark.parametrize("k", [1, 2, 3, 20])
@pytest.mark.parametrize("bound", [1.0, 0.1, 7.3, 1e-100, 1e100])
def test_no_statistic_is_longer_than_its_bound_in_exact_arithmetic(k, bound):
    rng = np.random.default_rng(k)
    steps, _ = StatisticBound(bound).grid(random_statistics(rng, 4000, k, bound))
    assert max(squares(steps)) <= GRID**2
    assert max(squares(steps)) > 0.999 * GRID**2  # the bound is used up


def test_rounded_to_the_nearest_some_would_be():
    """Control."""
    rng = np.random.default_rng(3)
    angle = rng.uniform(0, 2 * np.pi, 400_000)
    s = np.column_stack([np.cos(angle), np.sin(angle)]) * (1 + 2.0**-28)
    plain = np.round(s / np.linalg.norm(s, axis=1, keepdims=True) * GRID).astype(np.int64)
    assert np.max(np.sum(plain * plain, axis=1)) > GRID**2
    steps, _ = StatisticBound(1.0).grid(s)
    assert np.max(np.sum(steps * steps, axis=1)) <= GRID**2


@pytest.mark.parametrize("bound", [2.0, [2.0, 0.5, 8.0]])
def test_poison_stays_within_the_bound_and_not_finite_is_nothing(bound):
    corners = np.array([[a, b, c] for a in EXTREME for b in EXTREME for c in EXTREME])
    with np.errstate(all="raise"):
        steps, inside = StatisticBound(bound).grid(corners)
    finite = np.all(np.isfinite(corners), axis=1)
    assert not steps[~finite].any() and not inside[~finite].any()
    widths = np.broadcast_to(bound, 3)
    if np.ndim(bound):
        assert np.abs(steps).max() <= GRID
        assert np.array_equal(inside, finite & np.all(np.abs(corners) <= widths, axis=1))
    else:
        assert max(squares(steps)) <= GRID**2
    # What is inside is kept up to one step of the grid.
    assert np.all(np.abs(steps[inside] * widths / GRID - corners[inside]) <= widths / GRID)


@pytest.mark.parametrize("bound", [1.5, [1.5, 0.3]])
def test_the_sum_is_exact_in_any_order_and_moves_by_at_most_the_sensitivity(bound):
    rng = np.random.default_rng(1)
    columns = {"y": rng.normal(size=100_001)}

    def statistic(rows):
        return np.column_stack([rows["y"], rows["y"] ** 2])

    clip = StatisticBound(bound)
    whole = exact_sum(statistic, columns, clip)
    assert whole.n == 100_001 and whole.total.dtype == np.int64
    steps, inside = clip.grid(statistic(columns))
    assert [int(t) for t in whole.total] == [sum(map(int, column)) for column in steps.T]
    assert whole.clipped == np.sum(~inside) > 0
    turned = exact_sum(statistic, {"y": columns["y"][::-1]}, clip)
    assert np.array_equal(whole.total, turned.total)
    for value in (*EXTREME, 1e154, 1e155):
        changed = columns["y"].copy()
        changed[7] = value
        moved = exact_sum(statistic, {"y": changed}, clip).total - whole.total
        if np.ndim(bound):
            assert np.all(np.abs(moved) <= 2 * GRID)
        else:
            assert sum(int(m) ** 2 for m in moved) <= 4 * GRID**2


def test_the_largest_projection_bounds_every_statistic():
    """Of directions from 1e-300 to 1e300; exact fractions."""
    rng = np.random.default_rng(2)
    for bound in (0.7, [0.7, 2.0, 1e-3]):
        clip = StatisticBound(bound)
        widths = [Fraction(float(w)) for w in np.broadcast_to(bound, 3)]
        steps, _ = clip.grid(random_statistics(rng, 50, 3, 2.0))
        for size in (1e-300, 1e-170, 1.0, 1e170, 1e300):
            direction = size * rng.standard_normal(3)
            largest = clip.largest(direction)
            for row in steps:
                terms = zip(direction, widths, row, strict=True)
                value = abs(sum(Fraction(float(c)) * w * int(k) / GRID for c, w, k in terms))
                assert value <= Fraction(largest) * Fraction(1 + 1e-12)
    assert np.isinf(StatisticBound(1.0).largest(np.array([np.inf, np.nan])))


def test_sizes_are_limited():
    class Long:
        def __len__(self):
            return LARGEST_N + 1

    with pytest.raises(ValueError, match=r"2\*\*33"):
        exact_sum(lambda rows: None, {"y": Long()}, StatisticBound(1.0))
    assert LARGEST_N * GRID < 2**63


@pytest.mark.parametrize("bound", [0, -1.0, np.nan, np.inf, [1.0, 0.0], [[1.0]], [], "1", None, True])
def test_bad_bounds(bound):
    with pytest.raises(ValueError, match="clip_bound must be positive and finite"):
        StatisticBound(bound)


def test_bounds_of_another_number_of_entries():
    with pytest.raises(ValueError, match=r"2 entries, the sufficient statistic 3: a, b, c"):
        StatisticBound([1.0, 2.0]).check(3, "a, b, c")
    StatisticBound(1.0).check(3, "a, b, c")


def test_clip_in_words():
    assert str(StatisticBound(2.5)).startswith("2.5 x distance moved by phi")
    assert str(StatisticBound([1.0, 2.5])).startswith("1, 2.5 x distance moved by each entry")
