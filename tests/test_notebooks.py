"""Notebooks run from top to bottom, with small settings, and what they conclude holds; the README's too."""

import ast
import importlib.util
import inspect
import json
import operator
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest

import pymc_dp as dp
from tests.notebook_process import NotebookProcess
from tests.test_quickstart import check_table

ROOT = Path(__file__).parents[1] / "notebooks"
QUICKSTART = "tutorials/quickstart.ipynb"
NAMES = sorted(
    {
        str(path.relative_to(ROOT))
        for part in ("gallery", "papers", "tutorials")
        for path in (ROOT / part).glob("*.ipynb")
    }
    - {QUICKSTART}
)

# What tests change in a notebook: few draws, and an epsilon at which nothing fails by chance.
FEW_DRAWS = {"DRAWS = 1000": "DRAWS = 250"}
MIXTURE = "truncated_mixture.compare((0.05,), only=few)"
SMALL = {
    "gallery/ab_test.ipynb": {"EPSILON, DRAWS = 2, 500": "EPSILON, DRAWS = 15, 100"},
    "gallery/carriers.ipynb": {"EPSILON, DRAWS = 4, 500": "EPSILON, DRAWS = 15, 100"},
    "gallery/choosing_epsilon.ipynb": {
        "EPSILONS = (0.25, 0.5, 1, 2, 4, 8)": "EPSILONS = (4, 8)",
        "TRIALS = 3": "TRIALS = 1",
    },
    "gallery/doctor_visits.ipynb": {"EPSILON, DRAWS = 4, 500": "EPSILON, DRAWS = 15, 100"},
    "gallery/hospitals.ipynb": {"EPSILON, DRAWS = 2, 1000": "EPSILON, DRAWS = 2, 150"},
    "gallery/marriage_ratings.ipynb": {"EPSILON, DRAWS = 4, 500": "EPSILON, DRAWS = 15, 100"},
    "gallery/robust.ipynb": {"EPSILON, DRAWS = 2, 500": "EPSILON, DRAWS = 15, 100"},
    "gallery/study.ipynb": {"TIMES, DRAWS = 1, 400": "TIMES, DRAWS = 3, 100"},
    "gallery/survival.ipynb": {"EPSILON, DRAWS = 3, 500": "EPSILON, DRAWS = 15, 100"},
    "gallery/ten_million.ipynb": {
        "PARTS, ROWS = 4, 2_500_000": "PARTS, ROWS = 2, 50_000",
        "EPSILON, DRAWS = 0.1, 1000": "EPSILON, DRAWS = 4, 150",
    },
    "papers/phase_space.ipynb": {
        "TRAJECTORIES = 500": "TRAJECTORIES = 30",
        "trajectories=400": "trajectories=100",
        "draws=500, epsilon": "draws=12, epsilon",
        "draws=500, tune": "draws=12, tune",
        "in (10.0, 2.0)": "in (10.0,)",
        "for draws in (100, 500, 1000)": "for draws in ()",
    },
    "papers/raisa.ipynb": {
        "disable(logging.WARNING)": "disable(logging.WARNING); raisa_figures.problem.N = 30_000",
        'results.stored("raisa_7_1")': 'raisa_figures.by_clip([2], 1, (0.03, 3.0), ["random walk"])',
        'results.stored("raisa_7_2")': 'raisa_figures.by_epsilon([2], [4.0], 1, ["penalty"], [1.0])',
    },
    "papers/zhang.ipynb": {
        "few = [": "truncated_mixture.TUNE, truncated_mixture.DRAWS = 100, 300; few = [",
        'results.stored("zhang_1"), results.stored("zhang_2")': MIXTURE,
        'results.stored("zhang_3")': "classification.compare((0.05,), (1.0,), only=few)",
    },
    "gallery/callbacks.ipynb": {"EPSILON, DRAWS = 2, 500": "EPSILON, DRAWS = 15, 100"},
    "gallery/persons.ipynb": {"EPSILON, DRAWS = 1500, 5, 2, 500": "EPSILON, DRAWS = 500, 5, 15, 150"},
    "gallery/mortgages.ipynb": {"EPSILON, DRAWS = 4, 500": "EPSILON, DRAWS = 15, 100"},
    "gallery/smoking.ipynb": {"EPSILON, DRAWS = 2, 500": "EPSILON, DRAWS = 15, 100"},
    "gallery/wages.ipynb": {"EPSILON, DRAWS = 1, 500": "EPSILON, DRAWS = 15, 100"},
    "tutorials/new_priors.ipynb": FEW_DRAWS,
    "tutorials/two_releases.ipynb": FEW_DRAWS,
}


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """Each notebook has a process of its own, which has everything imported when it starts."""
    process = NotebookProcess(tmp_path_factory.mktemp("noise"))
    yield process
    process.close()


def code_of(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def smaller(notebook, changes):
    """Code of all cells, with the changes of tests."""
    code = code_of(notebook)
    for text, other in changes.items():
        assert "".join(code).count(text) == 1, f"{text!r} is not once in the notebook"
        code = [cell.replace(text, other) for cell in code]
    return code


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


# In a run of all tests: each public function and kind of source is in one of these. Before a version is
# published: pytest -m "exhaustive or not exhaustive" tests/test_notebooks.py.
USUAL = {
    "gallery/hospitals.ipynb",
    "gallery/study.ipynb",
    "gallery/ten_million.ipynb",
    "papers/phase_space.ipynb",
    "tutorials/two_releases.ipynb",
}
TO_RUN = [name if name in USUAL else pytest.param(name, marks=pytest.mark.exhaustive) for name in NAMES]


@pytest.mark.slow
@pytest.mark.parametrize("name", TO_RUN)
def test_a_notebook_runs_and_its_conclusions_hold(name, process):
    """Without false alarms, as noise and draws are the same each time (OpenDP's apart)."""
    notebook = nbformat.read(ROOT / name, as_version=4)
    stored = stored_conclusions(notebook)
    assert stored and set(stored) == {"True"}, "with the settings of the page"
    cells = process.run(smaller(notebook, SMALL[name]), name)
    assert conclusions(succeeded(cells)) == stored


def calls(code):
    """What is used of this package, as (dotted name, node of the call or None)."""
    tree = ast.parse(re.sub(r"^[%!].*$", "", code, flags=re.MULTILINE))
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        name = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        if re.fullmatch(r"dp(\.\w+)+", name):
            yield name, called.get(id(node))


def bind(code):
    """Raise if the package has no such name, or a function no such argument."""
    for name, call in calls(code):
        what = operator.attrgetter(name.removeprefix("dp."))(dp)
        if call is not None:
            named = {one.arg: None for one in call.keywords if one.arg is not None}
            inspect.signature(what).bind_partial(*call.args, **named)


@pytest.mark.parametrize("name", [*NAMES, QUICKSTART])
def test_names_and_arguments_in_notebooks_exist(name):
    bind("\n".join(code_of(nbformat.read(ROOT / name, as_version=4))))


@pytest.mark.parametrize(
    "code", ["dp.sampled(1)", "dp.Ledger('a', eps=1)", "dp.errors.Refused", "dp.inspect(1, 2, 3)"]
)
def test_a_name_or_an_argument_that_does_not_exist_is_noticed(code):
    with pytest.raises((AttributeError, TypeError)):
        bind(code)


def test_every_public_function_of_a_notebook_is_in_one_that_runs():
    used = {
        name: {what for what, _ in calls("\n".join(code_of(nbformat.read(ROOT / name, as_version=4))))}
        for name in [*NAMES, QUICKSTART]
    }
    assert set.union(*used.values()) == set.union(*(used[name] for name in [*USUAL, QUICKSTART]))


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
    notebook = nbformat.read(ROOT / QUICKSTART, as_version=4)
    # What a reader would look at, read from the notebook's own variables.
    probe = "import json; print(json.dumps({'report': report.to_dict(), 'table': table.to_dict()}))"
    cells = succeeded(process.run([*code_of(notebook), probe], QUICKSTART))
    result = json.loads(cells[-1]["text"])
    assert result["report"]["is_private"]
    assert result["report"]["epsilon_at_delta"] <= 1.0
    check_table(result["table"])


@pytest.mark.slow
def test_the_readmes_example_runs_and_recovers_the_simulated_coefficients(process):
    code = re.search(r"```python\n(.*?)```", (ROOT.parent / "README.md").read_text(), re.DOTALL)
    assert code is not None
    probe = "print(idata['posterior']['beta'].mean(('chain', 'draw')).values.tolist())"
    cells = succeeded(process.run([code[1], probe], "README"))
    # The posterior has a standard deviation of 0.007; the start is 0.5 away.
    np.testing.assert_allclose(json.loads(cells[-1]["text"]), [0.5, -0.5], atol=0.05)


@pytest.mark.parametrize("name", [*NAMES, QUICKSTART])
def test_results_are_stored(name):
    """A reader on a web page sees them."""
    notebook = nbformat.read(ROOT / name, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert any("image/png" in output.get("data", {}) for cell in code for output in cell.outputs)


def digest(notebook):
    spec = importlib.util.spec_from_file_location("execute", ROOT / "execute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.digest(notebook)


@pytest.mark.parametrize("name", [*NAMES, QUICKSTART])
def test_what_is_stored_is_of_the_code_as_it_stands(name):
    """Otherwise: python notebooks/execute.py notebooks/..."""
    notebook = nbformat.read(ROOT / name, as_version=4)
    assert notebook.metadata.get("executed") == digest(notebook)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not re.search(r"/(home|root|work|tmp)/", str(outputs))


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("papers/")])
def test_a_story_ends_with_its_report(name):
    notebook = nbformat.read(ROOT / name, as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert outputs[-1].text.startswith(("Privacy report", "Released likelihood"))


def test_a_story_that_was_edited_and_not_run_is_noticed():
    notebook = nbformat.read(ROOT / QUICKSTART, as_version=4)
    next(cell for cell in notebook.cells if cell.cell_type == "code").source += " "
    assert notebook.metadata["executed"] != digest(notebook)
