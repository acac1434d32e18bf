"""Tables on narrow and on wide screens: what is shortened, moved, left out, and what never is."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from mangrove.cli.tables.shortening import distinct_width, printable, shorten, wrap
from mangrove.cli.tables.table import (
    EXTRA,
    USEFUL,
    Table,
    bad,
    details_column,
    name_column,
    number_column,
    word_column,
)

TOPICS = [
    f"plant.line{line:03d}.sensor{sensor:02d}.temperature" for line in range(10) for sensor in range(10)
]


def text(table: Table, width: int) -> list[str]:
    return ["".join(part.text for part in line) for line in table.lines(width)]


def brokers(count: int = 3) -> Table:
    table = Table(
        "Brokers",
        name_column("broker"),
        word_column("state"),
        number_column("clients"),
        number_column("leaf nodes", EXTRA),
        number_column("subscriptions", USEFUL),
        number_column("msgs in"),
        details_column("note"),
    )
    for place in range(count):
        table.add(
            f"seattle-manufacturing-edge{place}",
            "up",
            "12",
            "1",
            "100,000",
            f"{place},000,000",
            "slow consumer",
        )
    return table


def test_a_wide_screen_shows_everything_in_one_line() -> None:
    assert text(brokers(1), 140) == [
        "Brokers",
        "broker                       state  clients  leaf nodes  subscriptions    msgs in  note",
        "─" * 96,
        "seattle-manufacturing-edge0  up          12           1        100,000  0,000,000  slow consumer",
    ]


def test_long_texts_move_beneath_their_row_before_anything_else_gives_way() -> None:
    lines = text(brokers(1), 84)
    assert "seattle-manufacturing-edge0" in lines[-2]
    assert lines[-1] == "  note: slow consumer"


@pytest.mark.parametrize(("words", "height"), [(25, 3), (60, 1)])
def test_long_texts_take_a_few_lines_of_what_is_left_or_move_beneath(words: int, height: int) -> None:
    table = Table("", name_column("broker"), details_column("which"))
    table.add("edge1", " ".join(["item"] * words))
    beside = [line for line in text(table, 60)[2:] if not line.startswith("  ") or line.startswith(" " * 8)]
    assert len(beside) == height


def test_the_least_important_columns_are_left_out_and_named() -> None:
    lines = text(brokers(), 56)
    assert lines[-2:] == ["at 65 columns also: leaf nodes, subscriptions; --json", "has everything"]
    assert not any("100,000" in line for line in lines)
    assert sum("2,000,000" in line for line in lines) == 1
    assert not any("also:" in line for line in text(brokers(), 65))
    assert "at 65 columns also: leaf nodes; --json has everything" in text(brokers(), 64)


def test_names_are_shortened_where_they_do_not_differ() -> None:
    shown = shorten(TOPICS, 24)
    assert len(set(shown.values())) == len(TOPICS)
    assert shown["plant.line003.sensor07.temperature"] == "plant.line003.sensor07…e"


def test_differences_on_both_sides_of_the_middle_survive() -> None:
    names = [f"plant.line{line:03d}.a-long-common-part.{kind}" for line in range(9) for kind in ("in", "ex")]
    shown = shorten(names, 18)
    assert len(set(shown.values())) == len(names)
    assert max(map(len, shown.values())) <= 18


def test_what_all_begin_with_goes_when_one_cut_does_not_do() -> None:
    names = [f"a-very-long-common-start.{x}-common-{y}" for x in ("one", "two") for y in ("red", "blue")]
    shown = shorten(names, 10)
    assert len(set(shown.values())) == 4
    assert all(name.startswith("…") for name in shown.values())


def test_short_names_stay_as_they_are() -> None:
    assert shorten(["a", "bc"], 2) == {"a": "a", "bc": "bc"}
    assert shorten([], 5) == {}


def test_the_width_at_which_names_stay_apart() -> None:
    width = distinct_width(TOPICS, 16)
    assert 16 <= width < 34
    assert len(set(shorten(TOPICS, width).values())) == len(TOPICS)


def test_wide_characters_count_twice() -> None:
    assert shorten(["東京東京東京", "x"], 6)["東京東京東京"] == "東…京"
    assert wrap("東京東京", 4) == ["東京", "東京"]


def test_lines_break_between_words_and_end_without_blanks() -> None:
    assert wrap("seattle → denver  ← seattle-15", 18) == ["seattle → denver", "← seattle-15"]
    assert wrap("", 5) == [""]
    assert wrap("abcdefgh ij", 3) == ["abc", "def", "gh", "ij"]


def test_names_that_cannot_share_the_line_get_one_of_their_own() -> None:
    table = Table("", name_column("topic"), number_column("sent"), number_column("delivered"))
    names = [f"{'a' * left}x{'a' * (44 - left)}" for left in range(45)]
    for name in names:
        table.add(name, "1,000,000,000", "2,000,000,000")
    lines = text(table, 50)
    assert set(names) <= set(lines)
    assert "  1,000,000,000  2,000,000,000" in lines


def test_very_many_rows_are_bounded_and_those_that_matter_are_shown() -> None:
    table = Table("Links", name_column("link"), word_column("state"), max_rows=5)
    for place in range(5000):
        table.add(f"site{place}", bad("down") if place == 4321 else "up", matters=place == 4321)
    lines = text(table, 80)
    assert "… and 4,995 more; --json has everything" in lines
    assert any("site4321" in line for line in lines)
    assert len(lines) == 3 + 5 + 1


def test_columns_of_remarks_without_any_remark_are_not_shown() -> None:
    table = Table("", name_column("case"), word_column(""), details_column("switched off"))
    table.add("normal", "", "")
    assert text(table, 80) == ["case", "──────", "normal"]


def test_headings_break_evenly() -> None:
    table = Table(
        "", name_column("broker"), number_column("gain over round robin"), number_column("all fine after")
    )
    table.add("b", "1", "2")
    assert text(table, 30)[:2] == ["          gain over  all fine", "broker  round robin     after"]


def test_sections_stand_above_their_rows() -> None:
    table = Table("", name_column("topic"), number_column("lost"))
    table.section("black hole")
    table.add("  double", "0")
    assert text(table, 80)[-2:] == ["black hole", "  double     0"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert printable("a\x1b[31mb\nc") == "a�[31mb�c"
    table = Table("", name_column("topic"))
    table.add("evil\x1b]0;title\x07")
    assert "\x1b" not in "".join(text(table, 80))


def test_names_are_not_markup() -> None:
    out = StringIO()
    table = Table("", name_column("topic"))
    table.add("[red]x[/red]")
    table.show(Console(file=out, width=80))
    assert "[red]x[/red]" in out.getvalue()


def test_a_row_with_too_many_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        Table("", name_column("a")).add("1", "2")
