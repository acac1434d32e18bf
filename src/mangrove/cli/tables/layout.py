"""Lays a table out for a width. Pure: columns, rows and a width in, lines of styled text out.

Where there is no room, in this order: headings break over several lines; long texts take a few lines in what
is left of the width, or move beneath their row; names are shortened in the middle, as far as they stay
different; columns are left out, the least important first, and a line says which; the name gets a line of its
own. Numbers and words are never cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from rich.cells import cell_len

from mangrove.cli.tables.shortening import distinct_width, shorten, wrap

GAP = 2
INDENT = 2
MIN_NAME = 16
MIN_TEXT = 40
MAX_TEXT_LINES = 3
ESSENTIAL, USEFUL, EXTRA = 3, 2, 1


class Kind(Enum):
    """What a column holds, which says how it gives way."""

    NAME = auto()
    """Left-aligned; shortened in the middle."""
    WORD = auto()
    """Left-aligned; never cut."""
    NUMBER = auto()
    """Right-aligned; never cut."""
    DETAILS = auto()
    """Long text: the last columns of a wide screen; wrapped, or beneath the row, on a narrow one."""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, what is below it, and how important it is: the least important is left out first."""

    heading: str
    kind: Kind
    importance: int = ESSENTIAL


class Styled(NamedTuple):
    """Text in one style of rich; the empty style is plain."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One cell for each column."""

    cells: tuple[Styled, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A line across the whole table, above the rows that belong to it."""

    text: Styled


Line = tuple[Styled, ...]


@dataclass(slots=True)
class _Plan:
    """What goes where."""

    widths: dict[int, int] = field(default_factory=dict)
    """Width of each shown column, by its position; in order."""
    beneath: list[int] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)
    own_line: bool = False
    """Whether the first column stands on a line of its own, above the others."""


def lay_out(
    columns: Sequence[Column], entries: Sequence[Row | Section], width: int, elsewhere: str = "--json"
) -> list[Line]:
    """The lines of a table, none longer than `width`: headings, a rule, rows, and what was left out."""
    rows = [entry for entry in entries if isinstance(entry, Row)]
    measured = _Measured(columns, rows)
    plan = _plan(columns, measured, width)
    offset = INDENT if plan.own_line else 0
    shown = {
        at: shorten((row.cells[at].text for row in rows), wide)
        for at, wide in plan.widths.items()
        if columns[at].kind is Kind.NAME
    }
    lines = list(_headings(columns, plan, offset, width))
    for entry in entries:
        if isinstance(entry, Section):
            lines += [(Styled(text, entry.text.style),) for text in wrap(entry.text.text, width)]
            continue
        if plan.own_line:
            lines += [(Styled(text, entry.cells[0].style),) for text in wrap(entry.cells[0].text, width)]
        texts = {
            at: Styled(shown[at][entry.cells[at].text], entry.cells[at].style)
            if at in shown
            else entry.cells[at]
            for at in plan.widths
        }
        lines += _cells(columns, plan, texts, offset)
        for at in plan.beneath:
            lines += _beneath(columns[at].heading, entry.cells[at], width)
    if plan.left_out:
        remark = f"{_remark(columns, measured, plan)}; {elsewhere} has everything"
        lines += [(Styled(text, "dim"),) for text in wrap(remark, width)]
    return lines


class _Measured:
    """Widths of columns: of their cells, with full names, and the least that will do."""

    def __init__(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        self.cells = [
            max((cell_len(row.cells[at].text) for row in rows), default=0) for at in range(len(columns))
        ]
        broken = [max(map(cell_len, column.heading.split(" "))) for column in columns]
        self.natural = [max(pair) for pair in zip(self.cells, broken, strict=True)]
        self.least = [
            max(
                broken[at],
                distinct_width((row.cells[at].text for row in rows), min(MIN_NAME, self.cells[at])),
            )
            if column.kind is Kind.NAME
            else self.natural[at]
            for at, column in enumerate(columns)
        ]


def _plan(columns: Sequence[Column], measured: _Measured, width: int) -> _Plan:
    filled = [at for at, column in enumerate(columns) if measured.cells[at] or _stays_empty(column)]
    details = [at for at in filled if columns[at].kind is Kind.DETAILS]
    others = [at for at in filled if at not in details]
    for beside in range(len(details), 0, -1):
        shown = sorted(others + details[:beside])
        if _total(measured.natural, shown) <= width:
            return _Plan(_spread(columns, measured, shown, width), details[beside:])
    room = width - _total(measured.natural, others) - GAP
    if details and room >= MIN_TEXT and measured.cells[details[0]] <= MAX_TEXT_LINES * room:
        widths = _spread(columns, measured, others, width - room - GAP)
        return _Plan({**widths, details[0]: room}, details[1:])
    kept = _fitting(columns, measured.least, others, width)
    cramped = measured.least[0] > width // 2 and len(kept) < len(others)
    own_line = columns[0].kind is Kind.NAME and (cramped or _total(measured.least, kept) > width)
    room = width
    if own_line:
        room = width - INDENT
        kept = _fitting(columns, measured.least, others[1:], room)
    while kept and _total(measured.least, kept) > room:  # a screen too narrow even for what is essential
        kept.pop()
    left_out = [at for at in others if at not in kept and not (own_line and at == 0)]
    return _Plan(_spread(columns, measured, kept, room), details, left_out, own_line)


def _stays_empty(column: Column) -> bool:
    """Whether a column is shown although nothing is in it: not if it only holds remarks."""
    return bool(column.heading) and column.kind is not Kind.DETAILS


def _fitting(columns: Sequence[Column], least: list[int], positions: list[int], width: int) -> list[int]:
    """Positions that remain when unimportant columns are left out until the others fit."""
    kept = list(positions)
    by_importance = sorted(positions, key=lambda at: (columns[at].importance, -at))
    for at in by_importance:
        if columns[at].importance >= ESSENTIAL or _total(least, kept) <= width:
            break
        kept.remove(at)
    return kept


def _total(widths: list[int], positions: Sequence[int]) -> int:
    return sum(widths[at] for at in positions) + GAP * max(len(positions) - 1, 0)


def _spread(
    columns: Sequence[Column], measured: _Measured, positions: list[int], width: int
) -> dict[int, int]:
    """Widths of the shown columns: the least, then full names, then headings on fewer lines."""
    widths = {at: measured.least[at] for at in positions}
    spare = width - _total(measured.least, positions)
    growing = [at for at in positions if widths[at] < measured.natural[at]]
    while spare > 0 and growing:
        narrowest = min(growing, key=widths.__getitem__)
        widths[narrowest] += 1
        spare -= 1
        growing = [at for at in growing if widths[at] < measured.natural[at]]
    _flatten_headings(columns, widths, spare)
    return widths


def _flatten_headings(columns: Sequence[Column], widths: dict[int, int], spare: int) -> None:
    """Widen columns until their headings take fewer lines, the tallest first, as far as `spare` goes."""
    height = {at: len(wrap(columns[at].heading, wide)) for at, wide in widths.items()}
    while tall := [at for at in widths if height[at] > 1]:
        at = max(tall, key=height.__getitem__)
        needed = next(
            (
                more
                for more in range(1, spare + 1)
                if len(wrap(columns[at].heading, widths[at] + more)) < height[at]
            ),
            None,
        )
        if needed is None:
            height[at] = 0  # stays as it is
            continue
        widths[at] += needed
        spare -= needed
        height[at] = len(wrap(columns[at].heading, widths[at]))


def _headings(columns: Sequence[Column], plan: _Plan, offset: int, width: int) -> Iterator[Line]:
    if not any(column.heading for column in columns):
        return
    if plan.own_line:
        yield from ((Styled(text, "bold"),) for text in wrap(columns[0].heading, width))
    broken = {at: wrap(columns[at].heading, wide) for at, wide in plan.widths.items()}
    height = max(map(len, broken.values()), default=0)
    for number in range(height):
        texts = {}
        for at, lines in broken.items():
            place = number - (height - len(lines))
            texts[at] = Styled(lines[place] if place >= 0 else "", "bold")
        yield _line(columns, plan, texts, offset)
    wide = sum(plan.widths.values()) + GAP * max(len(plan.widths) - 1, 0) + offset
    yield (Styled("─" * min(wide, width), "dim"),)


def _cells(columns: Sequence[Column], plan: _Plan, texts: dict[int, Styled], offset: int) -> Iterator[Line]:
    """A row: one line, or as many as its longest text needs; none if nothing is in it."""
    if not any(cell.text for cell in texts.values()):
        return
    broken = {
        at: wrap(text, plan.widths[at]) if columns[at].kind is Kind.DETAILS else [text]
        for at, (text, _) in texts.items()
    }
    for number in range(max(map(len, broken.values()))):
        part = {
            at: Styled(lines[number] if number < len(lines) else "", texts[at].style)
            for at, lines in broken.items()
        }
        yield _line(columns, plan, part, offset)


def _line(columns: Sequence[Column], plan: _Plan, texts: dict[int, Styled], offset: int) -> Line:
    """Cells beside each other, without blanks at the end."""
    parts = [Styled(" " * offset)]
    for at, wide in plan.widths.items():
        text, style = texts[at]
        blank = " " * (wide - cell_len(text))
        if len(parts) > 1:
            parts.append(Styled(" " * GAP))
        if columns[at].kind is Kind.NUMBER:
            parts += [Styled(blank), Styled(text, style)]
        else:
            parts += [Styled(text, style), Styled(blank)]
    while parts and not parts[-1].text.strip():
        parts.pop()
    return tuple(part for part in parts if part.text)


def _beneath(heading: str, cell: Styled, width: int) -> list[Line]:
    """A long text under its row; an empty one takes no line."""
    if not cell.text:
        return []
    text = f"{heading}: {cell.text}" if heading else cell.text
    return [
        (Styled(" " * INDENT), Styled(line, cell.style or "dim"))
        for line in wrap(text, max(width - INDENT, 1))
    ]


def _remark(columns: Sequence[Column], measured: _Measured, plan: _Plan) -> str:
    others = [at for at, column in enumerate(columns) if column.kind is not Kind.DETAILS]
    names = ", ".join(columns[at].heading for at in plan.left_out)
    return f"at {_total(measured.least, others)} columns also: {names}"
