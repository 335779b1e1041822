"""The quickstart runs as a newcomer runs it, and its result is private and useful.

Its notebook is in `test_notebooks.py`.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EPSILON = 1.0
# In non-private posterior standard deviations. With epsilon = 1 the noise of a release is an error of about
# .1 (six runs of benchmarks.quickstart_errors: .11, at most .24; ratios of standard deviations .99 to 1.04):
# 3, and a factor of 2, are more than 10 standard errors away, so a false alarm is rarer than 1e-20. A search
# that has not arrived misses by tens.
LARGEST_ERROR = 3.0


@pytest.fixture(autouse=True)
def newcomers_environment(monkeypatch):
    """Compiled code in child processes: the suite's own setting (see conftest) is ten times slower here."""
    monkeypatch.delenv("PYTENSOR_FLAGS", raising=False)


def check_table(table: dict[str, dict[str, float]]) -> None:
    """The private posterior is near the non-private one."""
    assert set(table["private mean"]) == {"intercept", "hour", "holidays"}
    for effect in table["private mean"]:
        error = (table["private mean"][effect] - table["NUTS mean"][effect]) / table["NUTS sd"][effect]
        assert abs(error) < LARGEST_ERROR, effect
        assert 0.5 < table["private sd"][effect] / table["NUTS sd"][effect] < 2, effect


@pytest.mark.slow
def test_quickstart_script_is_private_and_close_to_nuts():
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "quickstart.py"), "--epsilon", str(EPSILON), "--json"],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout.splitlines()[-1])
    report = result["report"]
    assert report["is_private"]
    assert report["epsilon"] == EPSILON and report["delta"] == 1e-6
    assert EPSILON / 2 < report["epsilon_at_delta"] <= EPSILON
    assert report["epsilon_of_delta"]["1e-06"] <= EPSILON
    assert report["not_released"] == []
    check_table(result["table"])


def test_a_table_of_a_search_that_has_not_arrived_fails():
    effects = ("intercept", "hour", "holidays")
    table = {name: dict.fromkeys(effects, 0.004) for name in ("private sd", "NUTS sd")}
    table["NUTS mean"] = {"intercept": -1.06, "hour": 0.67, "holidays": 0.25}
    table["private mean"] = dict(table["NUTS mean"])
    check_table(table)
    table["private mean"]["hour"] = 0.65
    with pytest.raises(AssertionError):
        check_table(table)
