"""What private code raised is for the data holder alone."""

import os
import stat

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_dp as dp
from pymc_dp.records.sums import guarded

SECRET = "Alice, 47,5 kg"


def broken(values):
    raise ValueError(f"no such weight: {values}")


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "failures.log"
    dp.log_failures(file)
    yield file
    dp.log_failures(None)


def test_the_holder_sees_what_and_where(path):
    with pytest.raises(dp.errors.PrivacyError, match="Keep that file private") as found:
        guarded(broken, SECRET)
    assert (
        SECRET not in str(found.value) and found.value.__cause__ is None and found.value.__context__ is None
    )
    text = path.read_text()
    assert SECRET in text and "in broken" in text and "ValueError" in text
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_nothing_is_written_without_a_file(tmp_path):
    with pytest.raises(dp.errors.PrivacyError, match="log_failures") as found:
        guarded(broken, SECRET)
    assert SECRET not in str(found.value) and not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_says_no_more(path):
    path.unlink()
    path.mkdir()
    with pytest.raises(dp.errors.PrivacyError, match="could not be written") as found:
        guarded(broken, SECRET)
    assert SECRET not in str(found.value)


def test_of_a_compiled_function(path):
    """The operation that failed, and what it was given."""
    x = pt.vector("x")
    function = pytensor.function([x], x[9])
    with pytest.raises(dp.errors.PrivacyError) as found:
        guarded(function, np.array([47.5]))
    assert "47.5" not in str(found.value) and "IndexError" in str(found.value)
    text = path.read_text()
    assert "IndexError" in text and "in guarded" in text and "PyTensor" in text
