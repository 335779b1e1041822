"""The notebooks, which are outside of the site's folder: a copy for each build, and cards of the gallery.

A card has a notebook's title, its first sentence and its last picture, read from the notebook.
"""

import base64
import re
import shutil
from pathlib import Path

import nbformat

DOCS = Path(__file__).parents[1]
COPY = DOCS / "notebooks"  # git ignores it
FOLDER = COPY / "gallery"
THUMBNAILS = FOLDER / "thumbnails"


def card(path: Path) -> str:
    """Of one notebook; its picture is written beside."""
    notebook = nbformat.read(path, as_version=4)
    title, _, text = notebook.cells[0].source.partition("\n")
    sentence = re.split(r"(?<=[.?!])\s", " ".join(text.split()))[0]
    pictures = [
        output["data"]["image/png"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    if not pictures:
        raise ValueError(f"{path.name} has no picture: run it (notebooks/execute.py)")
    picture = THUMBNAILS / f"{path.stem}.png"
    content = base64.b64decode(pictures[-1])
    if not picture.exists() or picture.read_bytes() != content:
        picture.write_bytes(content)
    return (
        f":::{{grid-item-card}} {title.removeprefix('# ')}\n:link: {path.stem}\n:link-type: doc\n"
        f":img-top: thumbnails/{path.stem}.png\n\n{sentence}\n:::\n"
    )


def copy_notebooks(app) -> None:
    """Sphinx reads one folder, and MyST follows symbolic links out of it: so the notebooks are copied."""
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(DOCS.parent / "notebooks", COPY)


def links_within_the_site(app, docname: str, source: list[str]) -> None:
    """Links are written for the repository, where notebooks and pages are two folders side by side."""
    of_notebook = docname.startswith("notebooks/")
    here, there = ("../docs/", "../") if of_notebook else ("../notebooks/", "notebooks/")
    source[0] = source[0].replace(here, there)


def fill_in(app, docname: str, source: list[str]) -> None:
    if docname == "notebooks/gallery/index":
        THUMBNAILS.mkdir(exist_ok=True)
        names = re.findall(r"^(\w+)$", source[0].partition("{toctree}")[2], re.MULTILINE)
        for name in names:
            app.env.note_dependency(str(FOLDER / f"{name}.ipynb"))
        cards = "\n".join(card(FOLDER / f"{name}.ipynb") for name in names)
        grid = f"::::{{grid}} 1 2 2 3\n:gutter: 3\n\n{cards}\n::::"
        source[0] = source[0].replace("<!-- cards -->", grid)


def setup(app) -> dict:
    app.connect("builder-inited", copy_notebooks, priority=0)
    app.connect("source-read", links_within_the_site)
    app.connect("source-read", fill_in)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
