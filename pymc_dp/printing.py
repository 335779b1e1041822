"""Tables as text and as HTML; what prints as text wherever it is shown."""

import html
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any


class Printed(ABC):
    """What is shown as its text, and stored as JSON."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and strings (JSON-able)."""

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict())

    def __repr__(self) -> str:
        return str(self)


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows, of which the first may be a head, in columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of text under a head, escaped."""
    top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def html_terms(rows: Iterable[tuple[str, str]]) -> str:
    """Terms, each with what it is, escaped."""
    left = "style='text-align:left;vertical-align:top'"
    cells = (f"<th {left}>{html.escape(k)}</th><td {left}>{html.escape(v)}</td>" for k, v in rows)
    return f"<table class=facts><tr>{'</tr><tr>'.join(cells)}</tr></table>"
