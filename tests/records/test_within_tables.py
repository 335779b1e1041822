"""No position that a record has makes compiled code read beyond a table, or write to another record."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_dp.records.model import RecordModel
from tests.own_process import printed
from tests.records.position_models import MODELS, Tried

N = 40
CODES = np.random.default_rng(0).integers(0, 3, N)


def records(codes):
    with pm.Model() as model:
        level = pm.Normal("level", shape=3)
        table = pytensor.shared(np.array([0.5, -0.5, 2.0]), shape=(3,))
        pm.Normal("y", level[codes] + table[codes], 1, observed=np.linspace(-1, 1, N))
    return RecordModel(model)


def rows(codes):
    return records(codes).full_batch.rows(np.array([0.1, -0.2, 0.3]))


@pytest.mark.parametrize("code", [3, 2**40, -4, -(2**60)])
def test_a_record_with_a_position_beyond_a_table_is_not_finite(code):
    """Compiled, 2**40 ended the process, and 3 read whatever lay behind the table."""
    odd = CODES.copy()
    odd[7] = code
    expected = rows(CODES)
    expected[7] = np.nan
    np.testing.assert_array_equal(rows(odd), expected)


@pytest.mark.parametrize(("code", "entry"), [(-1, 2), (-3, 0)])
def test_a_position_counts_from_the_end_where_it_is_negative(code, entry):
    """As in NumPy, so that a model means what it means elsewhere."""
    odd, even = CODES.copy(), CODES.copy()
    odd[7], even[7] = code, entry
    np.testing.assert_array_equal(rows(odd), rows(even))


def test_such_a_record_moves_no_sum():
    """It counts as one whose log-likelihood is not a number, in ratios and in gradients."""
    odd, without = CODES.copy(), np.delete(CODES, 7)
    odd[7] = 10**6
    theta = np.array([0.1, -0.2, 0.3])
    made = records(odd)
    start = made.full_batch.rows(theta)
    moved = made.full_batch(theta + 0.1, start, 1.0)
    own = rows_of(without, np.delete(np.linspace(-1, 1, N), 7), theta)
    assert moved.clipped == 1 + own.clipped
    assert moved.total == own.total


def rows_of(codes, y, theta):
    with pm.Model() as model:
        level = pm.Normal("level", shape=3)
        table = pytensor.shared(np.array([0.5, -0.5, 2.0]), shape=(3,))
        pm.Normal("y", level[codes] + table[codes], 1, observed=y)
    full = RecordModel(model).full_batch
    return full(theta + 0.1, full.rows(theta), 1.0)


def tried(*names):
    """What is not as it should be."""
    return printed("tests.records.position_models", *names, options=["-W", "error::RuntimeWarning"])


FEW = ["hierarchy", "one hot", "written", "vectorize", "scan with a state"]
# Where compiled code computes a position otherwise than NumPy does.
COMPUTED = [
    "remainder by a code",
    "quotient by a code",
    "power of a code",
    "cast to uint8",
    "cast to uint64",
    "cast to bool",
    "floor of a number",
    "searchsorted",
    "knots",
    "masked table",
    "gathered weights",
    "binomial of codes",
    "probabilities by hand",
]
ALL_PARTS = [pytest.param(list(MODELS)[part::3], marks=pytest.mark.exhaustive) for part in range(3)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", MODELS)
def test_no_code_moves_another_record_in_any_model(name):
    """More than sixty models, seven codes each; NumPy raises for a position that the graph does not limit."""
    assert len(MODELS) > 60
    assert not Tried(name).differing("rows")


@pytest.mark.slow
@pytest.mark.parametrize("names", [[*FEW, *COMPUTED], *ALL_PARTS])
def test_no_code_moves_another_record_in_compiled_code(names):
    """Compiled once: it crashed, or moved other records, and did not say so."""
    assert not tried("rows", *names)


@pytest.mark.slow
@pytest.mark.parametrize("names", [FEW[:3], pytest.param(FEW[3:], marks=pytest.mark.exhaustive)])
def test_no_code_moves_a_ratio_of_another_record(names):
    """Of records that were asked for by their numbers: another function."""
    assert not tried("ratios", *names)


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    # Not "scan with a state", whose scores PyTensor does not derive: an error before anything is paid.
    [
        [*FEW[:3], "look-up of a look-up"],
        pytest.param([FEW[3], "crossed", "gathered weights"], marks=pytest.mark.exhaustive),
    ],
)
def test_no_code_moves_derivatives_of_another_record(names):
    """Scores: a code of -20 gave a derivative of -3e169."""
    assert not tried("derivatives", *names)


def test_a_public_position_beyond_a_table_raises_with_its_name():
    """What is public is said, before a record is read."""
    parent = pytensor.shared(np.array([0, 1, 5]), name="parent", shape=(3,))
    with pm.Model() as model:
        level, above = pm.Normal("level", shape=3), pm.Normal("above", shape=2)
        pm.Normal("y", (level + above[parent])[CODES], 1, observed=np.linspace(-1, 1, N))
    with pytest.raises(IndexError, match="'parent'"):
        RecordModel(model)


def test_a_point_with_a_computed_position_beyond_a_table_has_no_density():
    """Of parameters: where a look-up has no entry, the prior is zero."""
    with pm.Model() as model:
        a = pm.Normal("a")
        table = pt.constant(np.arange(3.0))
        pm.Normal("y", table[pt.cast(pt.floor(a), "int64")], 1, observed=np.linspace(-1, 1, N))
    made = RecordModel(model)
    assert np.isfinite(made.log_prior(np.array([2.5])))
    assert made.log_prior(np.array([3.5])) == -np.inf
