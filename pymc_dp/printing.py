"""Tables as text and as HTML."""

import html
from collections.abc import Iterable, Sequence


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, of which the first may be a header, as text in aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text under a header, escaped."""
    top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def html_terms(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of terms and their descriptions, escaped."""
    left = "style='text-align:left;vertical-align:top'"
    cells = (f"<th {left}>{html.escape(k)}</th><td {left}>{html.escape(v)}</td>" for k, v in rows)
    return f"<table class=facts><tr>{'</tr><tr>'.join(cells)}</tr></table>"
