"""Runs notebooks: a process that has imported what they import forks another for each.

Each notebook starts as in a new kernel, but need not wait for imports. A line of JSON asks for one, a line of
JSON answers. As `python -m tests.notebook_process` this file is that process; `NotebookProcess` asks it.

Processes that a notebook starts, for owners of data and for workers, are forked by a server that has imported
what they import too. They share nothing with the notebook, as if they were spawned.
"""

import gc
import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[1]
IMPORTED = [
    "IPython.core.interactiveshell",
    "arviz",
    "distributed",
    "matplotlib.pyplot",
    "statsmodels.api",
    "pymc_dp",
]

# Read by every Python at its start: the same noise and draws each time, another noise in each process.
KNOWN_NOISE = """
import hashlib, itertools, os, secrets
from multiprocessing import current_process
import numpy.random.bit_generator as generators
number = itertools.count(1)
def known(size):
    key = f"{os.environ.get('NOTEBOOK')} {current_process()._identity[1:]} {next(number)}"
    return hashlib.shake_256(key.encode()).digest(size)
secrets.token_bytes = lambda size=32: known(size)
generators.randbits = lambda bits: int.from_bytes(known(bits // 8), "little")
"""


class NotebookProcess:
    """The process, from here.

    Parameters
    ----------
    folder : Path
        An empty one, for `KNOWN_NOISE`.
    """

    def __init__(self, folder: Path):
        (folder / "sitecustomize.py").write_text(KNOWN_NOISE)
        # Compiled code, as for a reader; nodes do not remember where they were made.
        environment = os.environ | {"PYTENSOR_FLAGS": "traceback__limit=0", "MPLBACKEND": "agg"}
        paths = [str(folder), str(ROOT), os.environ.get("PYTHONPATH")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.notebook_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(self, cells: list[str], name: str, **environment: str) -> list[dict]:
        """Result and printed text of each cell, to the first that fails, which has an error.

        Parameters
        ----------
        cells : list of str
        name : str
            Of the notebook; its noise follows from it.
        **environment
            Variables.
        """
        asked = {"cells": cells, "environment": environment | {"NOTEBOOK": name}}
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the process that runs notebooks has ended")
        return json.loads(answer)

    def close(self) -> None:
        """End it."""
        with self._process:
            self._process.stdin.close()


def _servers() -> None:
    import distributed

    from pymc_dp.remote import homes

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["distributed", "pymc_dp"])
    homes.multiprocessing = SimpleNamespace(get_context=lambda method: context)
    distributed.nanny.get_mp_context = distributed.process.get_mp_context = lambda: context


def _run(asked: dict) -> list[dict]:
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    os.environ.update(asked["environment"])
    _servers()
    os.chdir((ROOT / "notebooks" / asked["environment"]["NOTEBOOK"]).parent)
    shell = InteractiveShell.instance()
    shell.enable_gui = lambda gui=None: None  # there is none
    shell.run_line_magic("matplotlib", "inline")
    done: list[dict] = []
    for cell in asked["cells"]:
        with capture_output() as said:
            result = shell.run_cell(cell)
        done.append({"result": None if result.result is None else repr(result.result), "text": said.stdout})
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            done[-1]["error"] = "".join(traceback.format_exception(error))
            break
    return done


def _answer(asked: dict, connection) -> None:
    try:
        connection.send(_run(asked))
    except BaseException:
        connection.send([{"result": None, "text": "", "error": traceback.format_exc()}])


def main() -> None:
    """Answer what is asked on standard input, until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a notebook's processes print is not an answer
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()  # none of it is garbage: notebooks need not look

    context = multiprocessing.get_context("fork")
    for line in sys.stdin:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_answer, args=(json.loads(line), there))
        process.start()
        there.close()
        try:
            done = here.recv()
        except EOFError:
            process.join()
            done = [{"result": None, "text": "", "error": f"the process ended with {process.exitcode}"}]
        process.join()
        print(json.dumps(done), file=answers, flush=True)


if __name__ == "__main__":
    main()
