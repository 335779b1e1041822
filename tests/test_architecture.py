"""The import rule, and habits that a machine can check."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pymc_dp"
FILES = sorted(PACKAGE.rglob("*.py"))

# What each part may import of pymc_dp, besides itself, and what all may import.
FOR_ALL = {"errors", "bounds"}
ALLOWED = {
    "privacy": set(),
    "records": set(),
    "proposals": set(),
    "clipping": {"privacy"},
    "acceptance": set(),
    "batch_ratio": {"clipping"},
    "tuna": {"clipping", "privacy"},
    "barker_correction": {"clipping"},
    "control_variates": {"records", "privacy"},
    "versions": set(),
    "remote": {"records", "privacy", "clipping"},
    "models": set(),
    "metrics": set(),
    "errors": set(),
    "bounds": set(),
    "steps": {
        "records",
        "control_variates",
        "remote",
        "proposals",
        "clipping",
        "acceptance",
        "batch_ratio",
        "barker_correction",
        "tuna",
        "privacy",
        "versions",
    },
    "tester": set(),
    "audit": {"tester", "steps", "privacy"},
    "inspection": {"records"},
    "results": {"privacy"},
    "sampling": {"results", "steps", "privacy"},
    "more_draws": {"results", "control_variates", "records"},
    "report": {"results", "sampling", "privacy"},
    "plots": {"report", "sampling", "privacy"},
    "ledger": {"privacy"},
}


def part(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    if path.name == "__init__.py" and path.parent == PACKAGE:
        return
    names = [n for n in imports(path) if n.startswith("pymc_dp.")]
    used = {n.split(".")[1] for n in names} - {part(path)} - FOR_ALL
    assert used <= ALLOWED[part(path)]
    if part(path) == "privacy":
        assert not [n for n in imports(path) if n.split(".")[0] in ("pymc", "pytensor", "arviz", "xarray")]


def test_the_rule_would_notice():
    """Control: a private module that imported a step would be caught by the same function."""
    used = {n.split(".")[1] for n in imports(PACKAGE / "steps" / "penalty.py") if n.startswith("pymc_dp.")}
    assert not used - FOR_ALL <= ALLOWED["privacy"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_habits(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Assert)], "assert vanishes under -O"
    assert not re.search(r"np\.random\.(seed|rand|randn|normal|uniform)\(", text), "global generator"
    if part(path) == "steps":
        assert text.count("\n") <= 400 if path.name == "base.py" else 250


@pytest.mark.slow
def test_refusals_work_without_assertions():
    """Nothing that protects depends on `assert`."""
    code = """
import numpy as np, pymc as pm, pymc_dp as dp
y = np.random.default_rng(0).normal(size=40)
def refused(error, f):
    try:
        f()
    except error:
        return
    raise SystemExit(f"not refused: {f}")
with pm.Model() as m:
    b = pm.Normal("b"); pm.Normal("y", b, 1, observed=y)
args = dict(epsilon=1.0, delta=1e-6, clip_bound=1.0, chains=1, model=m)
refused(ValueError, lambda: dp.DPPenaltyMH(**{**args, "epsilon": -1}))
refused(ValueError, lambda: dp.DPPenaltyMH(**{**args, "clip_bound": None}))
step = dp.DPPenaltyMH(**args)
refused(dp.BudgetError, lambda: step.step(m.initial_point(0)))
rng = np.random.default_rng(0)
step.setup_chain(rng, 0, 1)
step.step(m.initial_point(0))
refused(dp.BudgetError, lambda: step.step(m.initial_point(0)))
refused(dp.BudgetError, lambda: step.setup_chain(rng, 0, 1))
with pm.Model() as bad:
    mu = pm.Deterministic("mu", y * pm.Normal("b")); pm.Normal("y", mu, 1, observed=y)
refused(dp.ModelRefusedError, lambda: dp.DPPenaltyMH(**{**args, "model": bad}))
"""
    subprocess.run([sys.executable, "-O", "-W", "ignore", "-c", code], check=True, timeout=300)
