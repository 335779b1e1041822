"""Run notebooks from top to bottom, and store them with what they printed.

``python notebooks/execute.py notebooks/gallery/*.ipynb``. The site shows stored outputs and runs nothing. A
notebook's metadata keep a digest of the code that ran, so that tests notice one that was edited and not run again.
"""

import hashlib
import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

# Runs before the first cell, and is no part of the page: a warning is shown once, without the path of a file.
BEFORE = """
import warnings

_shown = set()


def _show_once(message, category, *_):
    if str(message) not in _shown:
        _shown.add(str(message))
        print(f"{category.__name__}: {message}")


warnings.showwarning = _show_once
"""


def digest(notebook: nbformat.NotebookNode) -> str:
    """Of the code of all cells."""
    code = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def execute(path: Path) -> None:
    """Run one, and store it."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=1800, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    with client.setup_kernel():
        client.kc.execute(BEFORE, silent=True)
        for index, cell in enumerate(notebook.cells):
            cell.metadata = {}
            if cell.cell_type == "code":
                client.execute_cell(cell, index)
                cell.metadata = {}
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "pygments_lexer": "python"},
        "executed": digest(notebook),
    }
    nbformat.write(notebook, path)


if __name__ == "__main__":
    os.environ.setdefault(
        "OMP_NUM_THREADS", "1"
    )  # chains and workers are processes: threads would get in their way
    for name in sys.argv[1:]:
        execute(Path(name))
        print(name)
