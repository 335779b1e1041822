import os

# Python thunks instead of compiled code, here and in child processes: most tests are about what is computed,
# not how fast. Tests of the compiled code ask for it (see NUMBA). Nodes do not remember where they were made, and
# no graph is rewritten for a C compiler that is not used.
os.environ["PYTENSOR_FLAGS"] = "linker=py,optimizer=fast_compile,traceback__limit=0,cxx="

import numpy as np
import pymc as pm
import pytensor
import pytest

NUMBA = {"mode": "NUMBA"}


def pytest_configure(config):
    """Here, not in pyproject.toml: there pytest would import PyTensor before its flags are set above."""
    for warning in (
        "WeakGuaranteeWarning",  # a large epsilon shows a sampler through its noise
        "ClippedRecordsWarning",  # about released numbers, not about a test
    ):
        config.addinivalue_line("filterwarnings", f"ignore::pymc_dp.errors.{warning}")
    if pytensor.config.linker != "py":
        raise pytest.UsageError("PyTensor was imported before tests/conftest.py set its flags")


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
