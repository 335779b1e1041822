"""Notebooks run from top to bottom, with small settings, and what they conclude holds; the README's too."""

import importlib.util
import json
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest

from tests.notebook_process import NotebookProcess
from tests.test_quickstart import check_table

DOCS = Path(__file__).parents[1] / "docs"
QUICKSTART = "tutorials/quickstart.ipynb"
NAMES = sorted(
    {
        str(path.relative_to(DOCS))
        for part in ("gallery", "papers", "tutorials")
        for path in (DOCS / part).glob("*.ipynb")
    }
    - {QUICKSTART}
)


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """Each notebook has a process of its own, which has everything imported when it starts."""
    process = NotebookProcess(tmp_path_factory.mktemp("noise"))
    yield process
    process.close()


def code_of(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def succeeded(cells):
    """What ran, if it ran to its end."""
    assert "error" not in cells[-1], cells[-1]["error"]
    return cells


def stored_conclusions(notebook):
    """Text of the results that are True or False."""
    results = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "execute_result"
    ]
    return [text for text in results if text in ("True", "False")]


def conclusions(cells):
    return [cell["result"] for cell in cells if cell["result"] in ("True", "False")]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_its_conclusions_hold(name, process):
    """Without false alarms, as noise and draws are the same each time (OpenDP's apart)."""
    notebook = nbformat.read(DOCS / name, as_version=4)
    stored = stored_conclusions(notebook)
    assert stored and set(stored) == {"True"}, "with the settings of the page"
    cells = process.run(code_of(notebook), name, PYMC_DP_SMALL="1")  # few draws
    assert conclusions(succeeded(cells)) == stored


@pytest.mark.slow
def test_a_notebook_that_fails_is_noticed(process):
    """And none sees what another left."""
    cells = process.run(["left = 1", "1 > 2", "1 / 0", "1 < 2"], "fails")
    assert conclusions(cells) == ["False"] and "ZeroDivisionError" in cells[-1]["error"]
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        succeeded(cells)
    assert "left" in process.run(["left"], "another")[-1]["error"]
    assert "ended with 3" in process.run(["import os", "os._exit(3)"], "ends")[-1]["error"]


@pytest.mark.slow
def test_noise_is_known_and_not_shared(process):
    """The same each time; another in another notebook, and in another process of the same one."""
    key = "import secrets, multiprocessing; print(secrets.token_bytes(8).hex())"
    child = """
queue = multiprocessing.get_context("fork").SimpleQueue()
worker = multiprocessing.get_context("fork").Process(target=lambda: queue.put(secrets.token_bytes(8).hex()))
worker.start(); print(queue.get()); worker.join()"""
    one, again, other = (
        [cell["text"] for cell in succeeded(process.run([key, child], name))] for name in ("a", "a", "b")
    )
    assert one == again and len({*one, *other}) == 4


@pytest.mark.slow
def test_the_quickstart_notebook_runs_from_top_to_bottom(process):
    notebook = nbformat.read(DOCS / QUICKSTART, as_version=4)
    # What a reader would look at, read from the notebook's own variables.
    probe = "import json; print(json.dumps({'report': report.to_dict(), 'table': table.to_dict()}))"
    cells = succeeded(process.run([*code_of(notebook), probe], QUICKSTART))
    result = json.loads(cells[-1]["text"])
    assert result["report"]["is_private"]
    assert result["report"]["epsilon_at_delta"] <= 1.0
    check_table(result["table"])


@pytest.mark.slow
def test_the_readmes_example_runs_and_recovers_the_simulated_coefficients(process):
    code = re.search(r"```python\n(.*?)```", (DOCS.parent / "README.md").read_text(), re.DOTALL)
    assert code is not None
    probe = "print(idata['posterior']['beta'].mean(('chain', 'draw')).values.tolist())"
    cells = succeeded(process.run([code[1], probe], "README"))
    # The posterior has a standard deviation of 0.007; the start is 0.5 away.
    np.testing.assert_allclose(json.loads(cells[-1]["text"]), [0.5, -0.5], atol=0.05)


@pytest.mark.parametrize("name", [*NAMES, QUICKSTART])
def test_results_are_stored(name):
    """A reader on a web page sees them."""
    notebook = nbformat.read(DOCS / name, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert any("image/png" in output.get("data", {}) for cell in code for output in cell.outputs)


def digest(notebook):
    spec = importlib.util.spec_from_file_location("execute", DOCS / "execute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.digest(notebook)


GALLERY = [name for name in NAMES if name.startswith(("gallery/", "tutorials/"))]


@pytest.mark.parametrize("name", GALLERY)
def test_a_story_was_run_as_it_stands_and_ends_with_its_report(name):
    """Otherwise: python docs/execute.py docs/gallery/..."""
    notebook = nbformat.read(DOCS / name, as_version=4)
    assert notebook.metadata.get("executed") == digest(notebook)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert outputs[-1].text.startswith(("Privacy report", "Released likelihood"))
    assert not re.search(r"/(home|root|work|tmp)/", str(outputs))


def test_a_story_that_was_edited_and_not_run_is_noticed():
    notebook = nbformat.read(DOCS / GALLERY[0], as_version=4)
    next(cell for cell in notebook.cells if cell.cell_type == "code").source += " "
    assert notebook.metadata["executed"] != digest(notebook)
