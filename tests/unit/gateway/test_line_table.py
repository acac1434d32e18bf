"""Only the lines that a change can matter to are forgotten, and none of their counts is lost."""

from __future__ import annotations

import pytest

from mangrove.gateway import line_table
from mangrove.gateway.line_table import LineTable
from mangrove.gateway.tally import Tally
from mangrove.overlay.protocol.bodies import DISCARD, Entry, parse_message_line


def known(*subjects: str) -> tuple[LineTable, list[str]]:
    judged: list[str] = []

    def judge(line: bytes) -> Entry:
        message = parse_message_line(line)
        judged.append(message.subject)
        return Entry(message.skip, DISCARD, message.subject)

    table = LineTable(judge, lambda: None)
    for subject in subjects:
        table.take(f"LMSG {subject} 1\r\nx\r\nLMSG {subject} 2\r\nxy\r\n".encode())
    judged.clear()
    return table, judged


def again(table: LineTable, *subjects: str) -> None:
    for subject in subjects:
        table.take(f"LMSG {subject} 1\r\nx\r\n".encode())


@pytest.mark.parametrize(
    ("changed", "forgotten"),
    [
        (("a.x",), ["a.x"]),
        (("a.*",), ["a.x", "a.y"]),
        ((">",), ["a.x", "a.y", "b"]),
        (("c", "a"), []),
        (("b", "*.x"), ["a.x", "b"]),
    ],
)
def test_lines_are_judged_anew_where_the_change_can_matter(
    changed: tuple[str, ...], forgotten: list[str]
) -> None:
    table, judged = known("a.x", "a.y", "b")
    tally = Tally()
    table.forget_some(changed, tally)
    assert tally.topics == dict.fromkeys(forgotten, 2)
    again(table, "a.x", "a.y", "b")
    assert judged == forgotten
    table.book(tally)
    assert tally.topics == {"a.x": 3, "a.y": 3, "b": 3}


def test_with_many_patterns_everything_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_table, "MAX_COMPARISONS", 5)
    table, judged = known("a.x", "b", "c")
    tally = Tally()
    table.forget_some(("a.*", "z.*"), tally)
    assert not table.known
    again(table, "b")
    assert judged == ["b"]
    assert tally.topics == {"a.x": 2, "b": 2, "c": 2}
