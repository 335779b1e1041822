"""The import rule, and habits that a machine can check."""

import ast
import re
from pathlib import Path

import pytest

from benchmarks import visited_files

PACKAGE = Path(__file__).parent.parent / "pymc_dp"
FILES = sorted(PACKAGE.rglob("*.py"))

# What each part may import of pymc_dp, besides itself, and what all may import.
FOR_ALL = {"errors", "bounds", "printing", "rounding"}
PRIVACY = {"privacy", "privacy.accounting", "privacy.mechanisms", "privacy.budget"}
ALLOWED = {
    "privacy": PRIVACY,  # its __init__.py
    "privacy.accounting": set(),
    "privacy.mechanisms": {"privacy.accounting"},
    "privacy.budget": {"privacy.accounting", "privacy.mechanisms"},
    "records": set(),
    "kernels": set(),
    "proposals": {"clipping", "kernels"},
    "clipping": set(),
    "ratios": {"clipping", "kernels", "records", "remote", *PRIVACY},
    "likelihood": {"records", "results", *PRIVACY},
    "versions": set(),
    "remote": {"records", "clipping", "likelihood", *PRIVACY},
    "releasing": {"records", "likelihood", "remote", "versions", *PRIVACY},
    "errors": set(),
    "bounds": set(),
    "printing": set(),
    "rounding": set(),
    "steps": {
        "records",
        "releasing",
        "likelihood",
        "remote",
        "proposals",
        "clipping",
        "kernels",
        "ratios",
        "versions",
        *PRIVACY,
    },
    "prepare": {"records", *PRIVACY},
    "bambi": {"records"},
    "planning": {"inspection", "likelihood", "records", "releasing", *PRIVACY},
    "inspection": {"likelihood", "records"},
    "results": PRIVACY,
    "sampling": {"likelihood", "releasing", "results", "steps", *PRIVACY},
    "report": {"results", "sampling", "likelihood", *PRIVACY},
    "evaluation": {"results", "sampling", "records", *PRIVACY},
    "plots": {"report", "sampling", "evaluation", *PRIVACY},
    "page": {"plots", "report", "evaluation", *PRIVACY},
    "ledger": PRIVACY,
}


# Lines without docstrings, where a file has more than 250.
LONGEST = {
    "privacy/budget/ledger_file.py": 460,
    "records/reader.py": 280,
}


def part(name):
    """`privacy.budget` of ``pymc_dp.privacy.budget.plan``, `steps` of ``pymc_dp.steps.base``."""
    names = name.split(".")[1:]
    folders = [".".join(names[:k]) for k in (2, 1)]
    return next(folder for folder in folders if folder in ALLOWED)


def module(path):
    names = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


MODULES = {module(path) for path in FILES}


def imports(path):
    """Modules; what is imported from one counts as that one, unless it is a module itself."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from inner & MODULES
            if inner - MODULES:
                yield node.module


def of_the_package(path):
    return {name for name in imports(path) if name.startswith("pymc_dp.")}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    if path.name == "__init__.py" and path.parent == PACKAGE:
        return
    here = part(module(path))
    assert {part(name) for name in of_the_package(path)} - {here} - FOR_ALL <= ALLOWED[here]
    if here in {"kernels", "ratios", "proposals", *PRIVACY}:
        outside = {name.split(".")[0] for name in imports(path)}
        assert not outside & {"pymc", "pytensor", "arviz", "xarray"}


def test_the_rule_would_notice():
    """Control: a private module that imported a step would be caught by the same function."""
    used = {part(name) for name in of_the_package(PACKAGE / "steps" / "penalty.py")}
    assert not used - FOR_ALL <= ALLOWED["privacy.budget"]
    used = {part(name) for name in of_the_package(PACKAGE / "privacy" / "budget" / "plan.py")}
    assert "privacy.accounting" in used and not used - FOR_ALL <= ALLOWED["privacy.mechanisms"]


def circle(graph):
    """Names of a circle in a graph; empty if it has none."""
    done, path = set(), []

    def visit(name):
        if name in path:
            return path[path.index(name) :]
        if name in done:
            return []
        path.append(name)
        found = next(filter(None, map(visit, sorted(graph.get(name, ())))), [])
        path.pop()
        done.add(name)
        return found

    return next(filter(None, map(visit, sorted(graph))), [])


def test_no_circle_of_imports():
    """Neither of modules nor of parts. The `__init__.py` that gather public names are no part of it."""
    modules = {module(path): of_the_package(path) for path in FILES if path.name != "__init__.py"}
    assert circle(modules) == []
    assert circle({name: used - {name} for name, used in ALLOWED.items()}) == []


def test_a_circle_is_noticed():
    """Control."""
    assert circle({"a": {"b"}, "b": {"c", "d"}, "d": {"b"}}) == ["b", "d"]
    assert circle({"a": {"b", "c"}, "b": {"c"}}) == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_habits(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Assert)], "assert vanishes under -O"
    assert not re.search(r"np\.random\.(seed|rand|randn|normal|uniform)\(", text), "global generator"
    most = LONGEST.get(str(path.relative_to(PACKAGE)), 250)
    lines = lines_of_code(text)
    assert lines <= most, f"{lines} lines, of {most}: move what has a name of its own to another file"


def lines_of_code(text):
    """Without docstrings."""
    nodes = ast.walk(ast.parse(text))
    owners = [n for n in nodes if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]
    docs = [n.body[0] for n in owners if ast.get_docstring(n) is not None]
    return text.count("\n") - sum(doc.end_lineno - doc.lineno + 1 for doc in docs)


def test_a_long_file_is_noticed():
    """Control; and no file is allowed more than it needs."""
    assert lines_of_code('"""Doc\n\n\nstring."""\n' + "x = 1\n" * 251) == 251
    allowed = {PACKAGE / name: most for name, most in LONGEST.items()}
    assert all(250 < lines_of_code(path.read_text()) <= most for path, most in allowed.items())


NORMAL = re.compile(r"\.(normals?|standard_normal)\(")
PUBLIC_NORMAL = re.compile(r"\brng\.(normal|standard_normal)\(")
# The door and its stream; and where these parts draw public normals: momenta, trials of a model, what a
# release may mean.
DOOR = {"privacy/mechanisms/randomness.py"}
PUBLIC = {
    "remote/template.py",
    "steps/sghmc.py",
    "likelihood/groups.py",
    "likelihood/efficiency.py",
    "likelihood/information.py",
    "likelihood/points.py",
}
SECRET = ("privacy", "kernels", "ratios", "remote", "likelihood", "steps")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_noise_has_one_door(path):
    """`Gaussian` alone draws noise from the privacy stream; public normals come from a generator `rng`."""
    name = str(path.relative_to(PACKAGE))
    found = [line for line in path.read_text().splitlines() if NORMAL.search(line) and ">>>" not in line]
    if name not in DOOR:
        assert all(PUBLIC_NORMAL.search(line) for line in found)
        assert not found or path.relative_to(PACKAGE).parts[0] not in SECRET or name in PUBLIC


def test_a_second_door_is_noticed():
    """Control: the ways in which noise was drawn before."""
    for line in ("self._random.normal()", "chain.random.normals(3)", "self.generator.standard_normal()"):
        assert NORMAL.search(line) and not PUBLIC_NORMAL.search(line)


def callers(text):
    """Classes, or None, in which a file draws normals."""
    tree = ast.parse(text)
    classes = {c: n.name for n in tree.body if isinstance(n, ast.ClassDef) for c in ast.walk(n)}
    return {
        classes.get(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("normal", "normals", "standard_normal")
    }


def test_the_door_is_one_class():
    """In the file of the stream too: batches are drawn there, and draw no noise."""
    (door,) = DOOR
    assert callers((PACKAGE / door).read_text()) == {"PrivacyRandom", "Gaussian"}
    assert callers("class A:\n    x = random.normal()\ny = random.normals(2)") == {"A", None}  # control


# Files that one or another iteration of a chain visits; none may be added.
MOST = {"DPBarker": 9, "DPFastMH": 10, "DPPenaltyMH": 11, "DPSGHMC": 13, "DPHMC": 16}


@pytest.mark.slow
@pytest.mark.parametrize("name", MOST)
def test_an_iteration_is_in_few_files(name):
    cls, kwargs = visited_files.SAMPLERS[name]
    found = visited_files.visited(cls, **kwargs)
    assert {"steps/chain.py", "records/sums.py", "privacy/mechanisms/randomness.py"} <= found
    assert len(found) <= MOST[name], "\n".join(sorted(found))
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    rows = MOST, ["---"] * len(MOST), map(str, MOST.values())
    assert "\n".join(f"| {' | '.join(row)} |" for row in rows) in page


@pytest.mark.slow
def test_a_release_is_in_few_files():
    found = visited_files.visited_by_a_release()
    assert {"likelihood/search.py", "records/gate.py", "privacy/mechanisms/randomness.py"} <= found
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    assert len(found) <= int(re.search(r"code of at most (\d+)\nfiles runs", page)[1]), sorted(found)
