import gc
import inspect
import os
from types import CodeType, FunctionType

# Python thunks instead of compiled code, here and in child processes: most tests are about what is computed,
# not how fast. Tests of the compiled code ask for it (see NUMBA). Nodes do not remember where they were made,
# and no graph is rewritten for a C compiler that is not used.
os.environ["PYTENSOR_FLAGS"] = "linker=py,optimizer=fast_compile,traceback__limit=0,cxx="
# Files of chains and ledgers in memory: each transaction waits for the disk otherwise. Tests that kill end
# processes, not the machine.
if os.access("/dev/shm", os.W_OK | os.X_OK):
    os.environ.setdefault("TMPDIR", "/dev/shm")

import numpy as np
import pymc as pm
import pytensor
import pytest

from tests.known_noise import known_noise

NUMBA = {"mode": "NUMBA"}


def pytest_configure(config):
    """Here, not in pyproject.toml: there pytest would import PyTensor before its flags are set above."""
    for warning in (
        "WeakGuaranteeWarning",  # a large epsilon shows a sampler through its noise
        "NoisySummaryWarning",  # about released numbers, not about a test
    ):
        config.addinivalue_line("filterwarnings", f"ignore::pymc_dp.errors.{warning}")
    if pytensor.config.linker != "py":
        raise pytest.UsageError("PyTensor was imported before tests/conftest.py set its flags")
    if not __debug__ and config.getoption("numprocesses", None):
        raise pytest.UsageError("-O does not reach the workers of pytest-xdist: use -n 0")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """A fixture that tests share is the same, whichever test comes first."""
    with known_noise(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param', None)}"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with known_noise(item.nodeid):
        return (yield)


def pytest_collection_finish(session):
    """Graphs are cyclic: the garbage collector works hard here. It looks less often, and not at imports."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)


def pytest_collection_modifyitems(config, items):
    """Under ``python -O`` the tests' own assertions say nothing: those stay that notice something without."""
    if not __debug__:
        kept = {item for item in items if notices(item.function, set())}
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def notices(function, seen):
    """Whether a function, or one of its module that it names, uses `pytest.raises` or `numpy.testing`."""
    seen.add(function)
    code = inspect.unwrap(function).__code__
    names = set(code.co_names).union(*(c.co_names for c in code.co_consts if isinstance(c, CodeType)))
    named = [function.__globals__.get(name) for name in names]
    helpers = {f for f in named if isinstance(f, FunctionType) and f.__module__.startswith("tests.")} - seen
    return bool(names & {"raises", "testing"}) or any(notices(f, seen) for f in helpers)


def simple_data(n=60, d=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, d)) / np.sqrt(d)
    y = (rng.random(n) < 1 / (1 + np.exp(-x @ np.linspace(1, -1, d)))).astype(int)
    return x, y


def logistic_model(n=60, d=2, seed=0, x=None, y=None):
    data = simple_data(n, d, seed)
    x = data[0] if x is None else x
    y = data[1] if y is None else y
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=d)
        pm.Bernoulli("y", logit_p=x @ beta, observed=y)
    return model


@pytest.fixture
def logistic():
    return logistic_model()


@pytest.fixture
def quiet():
    """Arguments that keep pm.sample from printing, and from warning about short runs."""
    return {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
