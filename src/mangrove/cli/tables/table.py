"""A table of a command: filled row by row, bounded, and printed for the width of the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mangrove.cli.tables.layout import (
    ESSENTIAL,
    EXTRA,
    USEFUL,
    Column,
    Kind,
    Line,
    Row,
    Section,
    Styled,
    lay_out,
)
from mangrove.cli.tables.shortening import printable, wrap

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "ESSENTIAL",
    "EXTRA",
    "USEFUL",
    "Styled",
    "Table",
    "bad",
    "details_column",
    "good",
    "name_column",
    "number_column",
    "word_column",
]

MAX_ROWS = 60


def name_column(heading: str, importance: int = ESSENTIAL) -> Column:
    """A column of names, shortened in the middle where there is no room."""
    return Column(heading, Kind.NAME, importance)


def word_column(heading: str, importance: int = ESSENTIAL) -> Column:
    """A column of short words, such as states."""
    return Column(heading, Kind.WORD, importance)


def number_column(heading: str, importance: int = ESSENTIAL) -> Column:
    """A column of numbers, right-aligned."""
    return Column(heading, Kind.NUMBER, importance)


def details_column(heading: str) -> Column:
    """A column of long texts, which move beneath their rows where there is no room."""
    return Column(heading, Kind.DETAILS)


def good(text: str) -> Styled:
    """A cell that says that all is well."""
    return Styled(text, "green")


def bad(text: str) -> Styled:
    """A cell that says that something is wrong."""
    return Styled(text, "red")


class Table:
    """Columns and rows. Of very many rows the first are shown, those that matter most before all others."""

    def __init__(
        self, title: str, *columns: Column, max_rows: int = MAX_ROWS, elsewhere: str = "--json"
    ) -> None:
        """`elsewhere`: where everything can be found that a narrow screen leaves out."""
        self.title = title
        self.columns = columns
        self.max_rows = max_rows
        self.elsewhere = elsewhere
        self._unseen = 0
        self._entries: list[Row | Section] = []
        self._matters: set[int] = set()

    def __bool__(self) -> bool:
        """Whether there is any row."""
        return bool(self._entries)

    def add(self, *cells: str | Styled, matters: bool = False) -> None:
        """A row; missing cells at its end are empty. One that `matters` is shown before those that do not."""
        styled = [Styled(cell) if isinstance(cell, str) else cell for cell in cells]
        styled += [Styled("")] * (len(self.columns) - len(styled))
        if len(styled) > len(self.columns):
            raise ValueError(f"{len(styled)} cells for {len(self.columns)} columns")
        if matters:
            self._matters.add(len(self._entries))
        self._entries.append(Row(tuple(Styled(printable(text), style) for text, style in styled)))

    def section(self, text: str, style: str = "bold") -> None:
        """A line across the table, above the rows that follow."""
        self._entries.append(Section(Styled(printable(text), style)))

    def leave_out(self, count: int) -> None:
        """So many rows more exist than were added."""
        self._unseen += count

    def lines(self, width: int) -> list[Line]:
        """The whole table for a width."""
        shown = self._shown()
        lines: list[Line] = [(Styled(text, "bold"),) for text in wrap(self.title, width) if text]
        lines += lay_out(self.columns, shown, width, self.elsewhere)
        unseen = len(self._entries) - len(shown) + self._unseen
        if unseen:
            more = f"… and {unseen:,} more; {self.elsewhere} has everything"
            lines += [(Styled(text, "dim"),) for text in wrap(more, width)]
        return lines

    def show(self, console: Console) -> None:
        """Print the table and an empty line after it."""
        from rich.text import Text

        for line in self.lines(console.width):
            console.print(Text.assemble(*line), soft_wrap=True)
        console.print()

    def _shown(self) -> list[Row | Section]:
        if len(self._entries) <= self.max_rows:
            return self._entries
        places = sorted(range(len(self._entries)), key=lambda place: (place not in self._matters, place))
        return [self._entries[place] for place in sorted(places[: self.max_rows])]
