"""Cards of the gallery: a notebook's title, first sentence and last picture, read from the notebook."""

import base64
import re
from pathlib import Path

import nbformat

FOLDER = Path(__file__).parents[1] / "gallery"
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
        raise ValueError(f"{path.name} has no picture: run it (docs/execute.py)")
    picture = THUMBNAILS / f"{path.stem}.png"
    content = base64.b64decode(pictures[-1])
    if not picture.exists() or picture.read_bytes() != content:
        picture.write_bytes(content)
    return (
        f":::{{grid-item-card}} {title.removeprefix('# ')}\n:link: {path.stem}\n:link-type: doc\n"
        f":img-top: thumbnails/{path.stem}.png\n\n{sentence}\n:::\n"
    )


def fill_in(app, docname: str, source: list[str]) -> None:
    if docname == "gallery/index":
        THUMBNAILS.mkdir(exist_ok=True)
        names = re.findall(r"^(\w+)$", source[0].partition("{toctree}")[2], re.MULTILINE)
        for name in names:
            app.env.note_dependency(str(FOLDER / f"{name}.ipynb"))
        cards = "\n".join(card(FOLDER / f"{name}.ipynb") for name in names)
        grid = f"::::{{grid}} 1 2 2 3\n:gutter: 3\n\n{cards}\n::::"
        source[0] = source[0].replace("<!-- cards -->", grid)


def setup(app) -> dict:
    app.connect("source-read", fill_in)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
