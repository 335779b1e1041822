"""The quickstart and its notebook run as a newcomer runs them, and their results are private and useful."""

import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
EPSILON = 1.0
# In non-private posterior standard deviations. At epsilon = 1 the noise of the surrogate's gradient makes an
# In non-private posterior standard deviations. With epsilon = 1 the noise of the surrogate's gradient is an
# deviations within a few per cent: 3, and a factor of 2, are more than 10 standard errors away, so a false
# alarm is rarer than 1e-20. A chain that has not arrived misses by tens.
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
    # Nothing is clipped: lipschitz = 1 holds for every flight. The noise has a standard deviation of 0.001.
    assert np.all(np.abs(report["clip_fractions"]) < 0.02)
    check_table(result["table"])


@pytest.mark.slow
def test_quickstart_notebook_runs_from_top_to_bottom():
    notebook = nbformat.read(ROOT / "docs" / "tutorials" / "quickstart.ipynb", as_version=4)
    # What a reader would look at, read from the notebook's own variables.
    probe = nbformat.v4.new_code_cell(
        "import json; print(json.dumps({'report': report.to_dict(), 'table': table.to_dict()}))"
    )
    notebook.cells.append(probe)
    NotebookClient(
        notebook,
        timeout=900,
        kernel_name="python3",
        resources={"metadata": {"path": str(ROOT / "docs" / "tutorials")}},
    ).execute()
    result = json.loads("".join(output.text for output in notebook.cells[-1].outputs))
    assert result["report"]["is_private"]
    assert result["report"]["epsilon_at_delta"] <= 1.0
    check_table(result["table"])


@pytest.mark.slow
def test_readme_example_runs_and_recovers_the_simulated_coefficients():
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    probe = (
        "import json; print(json.dumps(idata['posterior']['beta'].mean(('chain', 'draw')).values.tolist()))"
    )
    run = subprocess.run([sys.executable, "-c", code[1] + probe], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    mean = json.loads(run.stdout.splitlines()[-1])
    # The posterior has a standard deviation of 0.007; the start is 0.5 away.
    np.testing.assert_allclose(mean, [0.5, -0.5], atol=0.05)


def test_a_table_of_a_chain_that_has_not_arrived_fails():
    effects = ("intercept", "hour", "holidays")
    table = {name: dict.fromkeys(effects, 0.004) for name in ("private sd", "NUTS sd")}
    table["NUTS mean"] = {"intercept": -1.06, "hour": 0.67, "holidays": 0.25}
    table["private mean"] = dict(table["NUTS mean"])
    check_table(table)
    table["private mean"]["hour"] = 0.65
    with pytest.raises(AssertionError):
        check_table(table)
