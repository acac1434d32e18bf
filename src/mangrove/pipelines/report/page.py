"""The page around the sections, and what sections are made of. Everything from outside is escaped."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MAX_ROWS = 40
ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::00)?(?:Z|\+00:00)?")


@dataclass(frozen=True, slots=True)
class Section:
    """A card of the page."""

    title: str
    body: str


def text(value: object) -> str:
    """Text from outside, for an element or a quoted attribute."""
    return html.escape(str(value), quote=True)


def data(name: str, document: object) -> str:
    """A document that the page's script reads; a name that closes the element cannot be in it."""
    plain = json.dumps(document, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")
    return f'<script type="application/json" id="{text(name)}">{plain}</script>'


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], limit: int = MAX_ROWS) -> str:
    """The first rows; how many more there are is said."""
    if not rows:
        return '<p class="soft">None.</p>'
    numeric = [
        all(row.get(c) is None or (_is_number(row[c]) and not isinstance(row[c], bool)) for row in rows)
        for c in columns
    ]
    head = "".join(
        f"<th{' class=n' if number else ''}>{text(column.replace('_', ' '))}</th>"
        for column, number in zip(columns, numeric, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(_cell(row.get(c), n) for c, n in zip(columns, numeric, strict=True)) + "</tr>"
        for row in rows[:limit]
    )
    more = f'<p class="soft">… and {len(rows) - limit:,} more.</p>' if len(rows) > limit else ""
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>{more}'


def figure(drawing: str, caption: str) -> str:
    """A drawing with what it shows."""
    return f'<figure><div class="wide">{drawing}</div><figcaption>{text(caption)}</figcaption></figure>'


def page(name: str, subtitle: str, sections: Sequence[Section]) -> str:
    """The whole document."""
    links = "".join(f'<a href="#s{n}">{text(each.title)}</a>' for n, each in enumerate(sections))
    cards = "".join(
        f'<section id="s{number}"><h2>{text(each.title)}</h2>{each.body}</section>'
        for number, each in enumerate(sections)
    )
    style = (HERE / "page.css").read_text(encoding="utf-8")
    script = (HERE / "page.js").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">"
        f"<title>Mangrove: {text(name)}</title><style>{style}</style></head><body>"
        f"<header><h1>{text(name)}</h1><p>{text(subtitle)}</p>"
        '<button id="look" type="button">light or dark</button></header>'
        f'<nav>{links}</nav><main>{cards}</main><div id="tip" role="status"></div>'
        f"<script>{script}</script></body></html>\n"
    )


def number(value: float) -> str:
    """A figure for people."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.4g}"
    return f"{value:.4g}"


def moment(value: object) -> str:
    """A text; if it is a moment as machines write it, as people do."""
    found = ISO.fullmatch(str(value))
    return str(value) if found is None else f"{found[1]} {found[2]}"


def _cell(value: Any, numeric: bool) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    if _is_number(value):
        return f'<td class="n">{text(number(value))}</td>' if numeric else f"<td>{text(number(value))}</td>"
    return f"<td>{text(moment(value))}</td>"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))
