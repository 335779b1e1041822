"""A code that no table has, at the front doors: the same kind of result for all, and no crash."""

import pytest

from tests.own_process import printed
from tests.records.front_doors import CODES, codes_of


def results(*doors):
    """What the script prints for each door and code."""
    lines = iter(printed("tests.records.front_doors", *doors))
    found = {door: [next(lines) for _ in codes_of(door)] for door in doors}
    assert not list(lines)
    return found


def the_same(found):
    for kinds in found.values():
        assert "Error" not in kinds[0]
        assert set(kinds) == {kinds[0]}


@pytest.mark.slow
def test_a_code_of_one_record_changes_no_kind_of_result():
    """And public inputs beyond a table are named: a new group's code is an ordinary mistake."""
    found = results("sample", "release_likelihood", "prepare", "check", "compare", "predict", "inputs")
    inputs = dict(zip(CODES, found.pop("inputs"), strict=True))
    the_same(found)
    for code in (CODES[0], -1):  # the last group, as in NumPy
        assert "Error" not in inputs.pop(code)
    wide = {code for code in CODES if abs(code) > 2**31}  # PyMC keeps 32 bits of them
    for code, said in inputs.items():
        assert said.startswith("ValueError" if code in wide else "IndexError") and "'g'" in said, (code, said)


def test_a_door_that_tells_codes_apart_is_noticed():
    """Control."""
    with pytest.raises(AssertionError):
        the_same({"sample": ["beta(1, 30)float64", "beta(1, 30)float64", "ValueError: no"]})
