"""Notebooks run from top to bottom, with small settings, and what they conclude still holds.

`quickstart.ipynb` has a test of its own in `test_quickstart.py`, with its results checked.
"""

import importlib.util
import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

DOCS = Path(__file__).parents[1] / "docs"
ELSEWHERE = {"tutorials/quickstart.ipynb"}
NAMES = sorted(
    {str(path.relative_to(DOCS)) for part in ("gallery", "papers") for path in (DOCS / part).glob("*.ipynb")}
)


def executed(notebook):
    """Run all cells; PYMC_DP_SMALL asks for few draws."""
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(DOCS)}}
    ).execute()
    return notebook


def conclusions(notebook):
    """Text of the results that are True or False."""
    results = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "execute_result"
    ]
    return [text for text in results if text in ("True", "False")]


# Read by every process at its start: the same noise and draws each time.
KNOWN_NOISE = """
import itertools, secrets
import numpy.random.bit_generator as generators
number = itertools.count(1)
secrets.token_bytes = lambda size=32: next(number).to_bytes(size, "little")
generators.randbits = lambda size: next(number)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_its_conclusions_hold(name, monkeypatch, tmp_path):
    """Without false alarms, as noise and draws are the same each time (OpenDP's apart)."""
    (tmp_path / "sitecustomize.py").write_text(KNOWN_NOISE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PYMC_DP_SMALL", "1")
    monkeypatch.delenv("PYTENSOR_FLAGS", raising=False)  # compiled code, as for a reader
    notebook = nbformat.read(DOCS / name, as_version=4)
    stored = conclusions(notebook)
    assert stored and set(stored) == {"True"}, "with the settings of the page"
    assert conclusions(executed(notebook)) == stored


@pytest.mark.slow
def test_a_notebook_that_fails_is_noticed():
    cells = [nbformat.v4.new_code_cell("1 > 2"), nbformat.v4.new_code_cell("1 / 0")]
    assert conclusions(executed(nbformat.v4.new_notebook(cells=cells[:1]))) == ["False"]
    with pytest.raises(CellExecutionError):
        executed(nbformat.v4.new_notebook(cells=cells))


@pytest.mark.parametrize("name", [*NAMES, *sorted(ELSEWHERE)])
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


GALLERY = [name for name in NAMES if name.startswith("gallery/")]


@pytest.mark.parametrize("name", GALLERY)
def test_a_story_was_run_as_it_stands_and_ends_with_its_report(name):
    """Otherwise: python docs/execute.py docs/gallery/..."""
    notebook = nbformat.read(DOCS / name, as_version=4)
    assert notebook.metadata.get("executed") == digest(notebook)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert outputs[-1].text.startswith("Privacy report")
    assert not re.search(r"/(home|root|work|tmp)/", str(outputs))


def test_a_story_that_was_edited_and_not_run_is_noticed():
    notebook = nbformat.read(DOCS / GALLERY[0], as_version=4)
    next(cell for cell in notebook.cells if cell.cell_type == "code").source += " "
    assert notebook.metadata["executed"] != digest(notebook)
