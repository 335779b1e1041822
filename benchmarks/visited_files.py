"""Files of the package in which an iteration of each sampler runs, and a whole release: what must be read.

    PYTENSOR_FLAGS=linker=py,optimizer=fast_compile,cxx= python -m benchmarks.visited_files

Prints a row each (docs/architecture); `tests/test_architecture.py` holds them to it.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import pymc_dp as dp
from pymc_dp.steps.base import DPStep

PACKAGE = Path(dp.__file__).parent
# Iterations before the first that counts, and how many count: moves are accepted and rejected, tuned and not.
WARM_UP, COUNTED = 5, 40
# Arguments of some samplers, and every public step with its own.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "DPFastMH": {"batch_size": 20.0},
    "DPSGHMC": {"sampling_probability": 0.3},
}
SAMPLERS: dict[str, tuple[type, dict[str, Any]]] = {
    one.__name__: (one, ARGUMENTS.get(one.__name__, {}))
    for one in (getattr(dp, name) for name in dp.__all__)
    if isinstance(one, type) and issubclass(one, DPStep)
}


def files_in(function: Callable[[], Any]) -> set[str]:
    """Files of the package whose Python code runs in a call, as paths in it."""
    seen: set[str] = set()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return {str(Path(name).relative_to(PACKAGE)) for name in seen if name.startswith(str(PACKAGE))}


def visited(cls: type, **kwargs: Any) -> set[str]:
    """Files that one or another iteration of a chain visits, after the first ones."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, size=(60, 2)), rng.integers(0, 2, size=60)
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a weak guarantee: it makes noise small, and moves accepted
        pm.Bernoulli("y", logit_p=x @ pm.Normal("beta", shape=2), observed=y)
        step = cls(epsilon=20.0, delta=1e-6, lipschitz=1.5, chains=1, debug_seed=5, **kwargs)
    step.setup_chain(np.random.default_rng(7), WARM_UP + COUNTED // 2, COUNTED // 2 + 1)
    point, seen = model.initial_point(0), set()

    def iterate() -> None:
        nonlocal point
        point, _ = step.step(point)

    for i in range(WARM_UP + COUNTED):
        step.tune = i < WARM_UP + COUNTED // 2
        files = files_in(iterate)
        seen |= files if i >= WARM_UP else set()
    return seen


def visited_by_a_release() -> set[str]:
    """Files that `dp.sample` visits from the call to the draws, where a likelihood is released."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, size=(2000, 2)), rng.integers(0, 2, size=2000)
    quiet: dict[str, Any] = {"progressbar": False, "quiet": True, "chains": 1, "random_seed": 1}
    with pm.Model(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyMC's: few draws
        pm.Bernoulli("y", logit_p=x @ pm.Normal("beta", shape=2), observed=y)
        return files_in(lambda: dp.sample(50, tune=50, epsilon=4.0, delta=1e-6, **quiet))


def main() -> None:
    """Print the table."""
    found = visited_by_a_release()
    print(f"| dp.sample | {len(found)} | {', '.join(sorted(found))} |")
    for name, (cls, kwargs) in SAMPLERS.items():
        found = visited(cls, **kwargs)
        print(f"| {name} | {len(found)} | {', '.join(sorted(found))} |")


if __name__ == "__main__":
    main()
