"""What the scripts here share: how they begin, and how they measure time and memory."""

import argparse
import logging
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

QUIET = {"cores": 1, "progressbar": False, "quiet": True, "compute_convergence_checks": False}


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Arguments of a script, which its docstring describes."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def silence() -> None:
    """Neither warnings nor PyMC's log."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")


def medians(
    functions: list[Callable],
    seconds: float = 6.0,
    clock: Callable[[], float] = time.perf_counter,
    together: int = 1,
) -> list[float]:
    """Median time of each function, in milliseconds, calls alternating; so many of one `together`."""
    for function in functions:
        function()
    times: list[list[float]] = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 7:
        for function, out in zip(functions, times, strict=True):
            for _ in range(together):
                start = clock()
                function()
                out.append(clock() - start)
    return [1e3 * float(np.median(t)) for t in times]


def printed_by(code: str) -> list[float]:
    """The numbers that a fresh process prints last, in a line."""
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    return [float(word) for word in out.stdout.splitlines()[-1].split()]


def memory(name: str = "VmRSS:") -> int:
    """Bytes that this process has, or at its peak had (`VmHWM:`); Linux only."""
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith(name))


def reset_peak() -> None:
    """Let the peak be what there is now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
