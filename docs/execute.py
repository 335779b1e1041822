"""Run notebooks from top to bottom, and store them with what they printed.

``python docs/execute.py docs/gallery/*.ipynb``. The site shows stored outputs and runs nothing. A notebook's
metadata keep a digest of the code that ran, so that tests notice one that was edited and not run again.
"""

import hashlib
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def digest(notebook: nbformat.NotebookNode) -> str:
    """Of the code of all cells."""
    code = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def execute(path: Path) -> None:
    """Run one, and store it."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=1800, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    for cell in notebook.cells:
        cell.metadata = {}
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "pygments_lexer": "python"},
        "executed": digest(notebook),
    }
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        execute(Path(name))
        print(name)
