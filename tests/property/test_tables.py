"""Any table, any width: no line too long, no number cut, names that differ stay different."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from mangrove.cli.tables.layout import ESSENTIAL, EXTRA, USEFUL, Column, Kind, Row, Styled, lay_out

NAMES = st.text("ab.-漢", min_size=1, max_size=40)
NUMBERS = st.integers(0, 10**12).map("{:,}".format)
WORDS = st.sampled_from(["up", "down", "unreachable", ""])
DETAILS = st.text("abc →", max_size=120)
CELLS = {Kind.NAME: NAMES, Kind.NUMBER: NUMBERS, Kind.WORD: WORDS, Kind.DETAILS: DETAILS}
WIDTHS = st.integers(24, 160)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Column], list[Row]]:
    """A name first, as all commands have it; then any columns."""
    heading = st.sampled_from(["sent", "all fine after", "gain over round robin", "p99 ms"])
    importance = st.sampled_from([ESSENTIAL, USEFUL, EXTRA])
    others = draw(st.lists(st.builds(Column, heading, st.sampled_from(Kind), importance), max_size=7))
    columns = [Column("topic", Kind.NAME), *others]
    cells = st.tuples(*(CELLS[column.kind].map(Styled) for column in columns))
    return columns, draw(st.lists(st.builds(Row, cells), min_size=1, max_size=8))


@given(tables(), WIDTHS)
def test_no_line_is_longer_than_the_screen(table: tuple[list[Column], list[Row]], width: int) -> None:
    columns, rows = table
    for line in lay_out(columns, rows, width):
        assert sum(cell_len(part.text) for part in line) <= width


@given(tables(), WIDTHS)
def test_numbers_are_shown_whole_or_their_column_is_named(
    table: tuple[list[Column], list[Row]], width: int
) -> None:
    columns, rows = table
    lines = lay_out(columns, rows, width)
    parts = [part.text for line in lines for part in line]
    remark = " ".join("".join(part.text for part in line) for line in lines).rpartition("columns also:")[2]
    for at, column in enumerate(columns):
        if column.kind is Kind.NUMBER:
            whole = all(row.cells[at].text in parts for row in rows)
            assert whole or column.heading in remark


@given(st.lists(NAMES, min_size=1, max_size=12, unique=True), st.lists(NUMBERS, max_size=4), WIDTHS)
def test_names_that_differ_stay_different(names: list[str], numbers: list[str], width: int) -> None:
    columns = [Column("topic", Kind.NAME), *(Column("sent", Kind.NUMBER, USEFUL) for _ in numbers)]
    # A section-like mark at each row's end tells where a name on a line of its own stops.
    rows = [Row((Styled(name, "name"), *(Styled(number) for number in numbers))) for name in names]
    lines = lay_out(columns, rows, width)
    shown = ["".join(part.text for part in line if part.style == "name") for line in lines]
    if max(map(cell_len, names)) <= width:  # else a name on a line of its own is folded
        assert len({name for name in shown if name}) == len(names)
