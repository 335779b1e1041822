"""Parts of a page, as HTML text: the style, sections, paragraphs, tables, figures."""

import base64
import html
import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

STYLE = """
:root { color-scheme: light }
body
{ font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; color: #1d2530;
  background: #f3f5f7; margin: 0 }
main { max-width: 54rem; margin: 0 auto; padding: 2.5rem 2.5rem 4rem; background: #fff }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .3rem }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; padding-top: 1.2rem; border-top: 1px solid #dfe4ea }
p, ul { margin: .5rem 0 } li { margin: .25rem 0 } .small { color: #566171; font-size: .875rem }
.verdict { padding: 1rem 1.25rem; border-radius: 6px; border-left: 6px solid; margin: 1.4rem 0 }
.good { background: #eaf6ee; border-color: #2b8a4b } .bad { background: #fdecea; border-color: #c0392b }
.verdict strong { display: block; font-size: 1.1rem }
.numbers { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.2rem 0; padding: 0; list-style: none }
.numbers li { flex: 1 1 9rem; background: #f3f5f7; border-radius: 6px; padding: .7rem .9rem; margin: 0 }
.numbers b { display: block; font-size: 1.35rem; line-height: 1.3 }
table { border-collapse: collapse; width: 100%; font-size: .875rem; margin: .8rem 0 }
th, td { text-align: right; padding: .3rem .55rem; border-bottom: 1px solid #e5e9ee; vertical-align: top }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere }
thead th { color: #566171; font-weight: 600 } .facts td, .facts th { text-align: left }
.facts td { overflow-wrap: anywhere }
img { max-width: 100%; height: auto; display: block; margin: 1rem auto } summary
{ cursor: pointer; font-weight: 600 }
.wide { overflow-x: auto } pre { white-space: pre-wrap; font-size: .8rem }
@media print { body { background: #fff } main { max-width: none; padding: 0 } h2 { break-after: avoid }
  table, img { break-inside: avoid } }
"""


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
