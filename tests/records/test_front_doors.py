"""A code that no table has, at the front doors: the same kind of result for all, and no crash."""

import pytest

from tests.own_process import printed
from tests.records.front_doors import CODES


def results(door):
    """What the script prints for each code."""
    lines = printed("tests.records.front_doors", door)
    assert len(lines) == len(CODES)
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("door", ["sample", "release_likelihood", "check", "compare", "predict", "prepare"])
def test_a_code_of_one_record_changes_no_kind_of_result(door):
    found = results(door)
    assert "Error" not in found[0]
    assert set(found) == {found[0]}


@pytest.mark.slow
def test_public_inputs_beyond_a_table_are_named():
    """A new group's code is an ordinary mistake: words of the heap came back."""
    found = dict(zip(CODES, results("inputs"), strict=True))
    for code in (CODES[0], -1):  # the last group, as in NumPy
        assert "Error" not in found.pop(code)
    wide = {code for code in CODES if abs(code) > 2**31}  # PyMC keeps 32 bits of them
    for code, said in found.items():
        assert said.startswith("ValueError" if code in wide else "IndexError") and "'g'" in said, (code, said)
