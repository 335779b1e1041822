"""Parts of a page, as HTML text: the style, sections, paragraphs, tables, figures."""

import base64
import html
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

STYLE = "\n" + Path(__file__).with_name("style.css").read_text(encoding="utf-8")


def section(title: str, *parts: str) -> str:
    """Write parts under a heading."""
    return f"<section><h2>{html.escape(title)}</h2>{''.join(parts)}</section>"


def paragraph(text: str, kind: str = "") -> str:
    """Write a paragraph of text, escaped."""
    return f"<p{f' class={kind!r}' if kind else ''}>{html.escape(text)}</p>"


def table(frame: pd.DataFrame) -> str:
    """Write the first rows of a data frame, with its index as the first column."""
    listed = 200
    left = len(frame) - listed
    more = paragraph(f"{left} more rows are not shown.", "small") if left > 0 else ""
    shown = frame.head(listed).to_html(float_format=_number, na_rep="", border=0)
    return f"<div class=wide>{shown}</div>{more}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def figure(draw: Callable[[], "PlotCollection"], size: tuple[float, float], from_zero: bool = False) -> str:
    """Draw a figure and embed it in the page. Needs no display, and leaves no figure open."""
    import matplotlib.pyplot as plt

    with warnings.catch_warnings(), plt.rc_context({"svg.fonttype": "path", "font.size": 9}):
        warnings.simplefilter("ignore")
        backend = plt.get_backend()
        plt.switch_backend("agg")
        try:
            collection = draw()
            drawn = collection.viz["figure"].item()
            drawn.set_size_inches(*size)
            drawn.set_layout_engine("constrained")
            if from_zero:
                drawn.axes[0].set_ylim(bottom=0)
            out = io.BytesIO()
            drawn.savefig(out, format="svg", metadata={"Date": None})
            plt.close(drawn)
        finally:
            plt.switch_backend(backend)
    text = base64.b64encode(out.getvalue()).decode()
    return f'<img alt="figure" src="data:image/svg+xml;base64,{text}">'
