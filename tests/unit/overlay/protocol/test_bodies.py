"""Scanning bodies, and other buffers of whole messages."""

from __future__ import annotations

import pytest

from mangrove.overlay.protocol.bodies import Entry, Message, Rewrite, WireError, parse_message_line, scan


class Sink:
    def __init__(self) -> None:
        self.taken: list[bytes] = []

    def take(self, messages: bytes) -> None:
        self.taken.append(messages)


def test_message_lines() -> None:
    assert parse_message_line(b"LMSG a.b 5") == Message("a.b", "", -1, 5)
    assert parse_message_line(b"LMSG a.b _INBOX.x 5") == Message("a.b", "_INBOX.x", -1, 5)
    assert parse_message_line(b"HMSG a 12 20") == Message("a", "", 12, 20)
    assert parse_message_line(b"HMSG a r 12 20") == Message("a", "r", 12, 20)


def test_message_lines_that_name_queue_groups() -> None:
    for line, message in (
        (b"LMSG a | g 5", Message("a", "", -1, 5, ("g",))),
        (b"LMSG a + r g.* 7 5", Message("a", "r", -1, 5, ("g.*", "7"))),
        (b"HMSG a | g h 12 20", Message("a", "", 12, 20, ("g", "h"))),
        (b"HMSG a + r g 12 20", Message("a", "r", 12, 20, ("g",))),
    ):
        assert parse_message_line(line) == message
        assert message.line("a", message.reply, message.groups) == line
    assert parse_message_line(b"LMSG a | 5") == Message("a", "|", -1, 5), "an odd reply, but a reply"


@pytest.mark.parametrize(
    "line",
    [b"", b"LMSG", b"LMSG a", b"LMSG a -1", b"LMSG a 1e3", b"LMSG a b c 5", b"HMSG a 20 12", b"HMSG a 3 12",
     b"PUB a 5", b"LMSG  5", b"LMSG a 99999999999", b"LMSG \xff\xfe 5",
     b"LMSG a |  5", b"LMSG a + r 5", b"LMSG a + r  5", b"LMSG a r g 5", b"LMSG a | \x00 5", b"LMSG a | \t 5",
     b"HMSG a | g 5", b"LMSG a | " + b"g" * 256 + b" 5", b"LMSG a | " + b"g " * 101 + b"5"],
)  # fmt: skip
def test_malformed_lines_are_refused(line: bytes) -> None:
    with pytest.raises(WireError):
        parse_message_line(line)


def test_a_line_is_written_for_another_subject_and_reply() -> None:
    plain, headers = Message("a", "", -1, 5), Message("a", "r", 12, 20)
    assert plain.line("b", "r") == b"LMSG b r 5"
    assert headers.line("a", "") == b"HMSG a 12 20"


def test_adjacent_messages_of_one_flow_stay_one_slice() -> None:
    first, second = Sink(), Sink()
    flows = {"a": first, "b": second}

    def resolve(line: bytes) -> Entry:
        message = parse_message_line(line)
        return Entry(message.skip, flows[message.subject])

    data = b"LMSG a 2\r\nxx\r\nLMSG a 0\r\n\r\nLMSG b 2\r\n\r\n\r\nLMSG a 1\r\ny\r\n"
    assert scan(data, {}, resolve) == len(data)
    assert first.taken == [b"LMSG a 2\r\nxx\r\nLMSG a 0\r\n\r\n", b"LMSG a 1\r\ny\r\n"]
    assert second.taken == [b"LMSG b 2\r\n\r\n\r\n"]


def test_control_lines_between_messages_do_not_end_up_in_a_flow() -> None:
    sink = Sink()
    seen: list[bytes] = []

    def resolve(line: bytes) -> Entry:
        if line.startswith(b"LMSG"):
            return Entry(parse_message_line(line).skip, sink)
        seen.append(line)
        return Entry(2, None)

    data = b"PING\r\nLMSG a 1\r\nx\r\nLS+ b\r\nLMSG a 1\r\ny\r\nPING\r\nLMSG a 5\r\nz"
    consumed = scan(data, {}, resolve)
    assert data[consumed:] == b"LMSG a 5\r\nz"
    assert b"".join(sink.taken) == b"LMSG a 1\r\nx\r\nLMSG a 1\r\ny\r\n"
    assert seen == [b"PING", b"LS+ b", b"PING"]


def test_rewritten_lines_replace_only_the_line() -> None:
    sink = Sink()

    known: dict[bytes, Entry] = {}

    def resolve(line: bytes) -> Entry:
        message = parse_message_line(line)
        rewrite = Rewrite(line, message.line("renamed", ""), message.skip, sink)
        entry = known[line] = Entry(message.skip, rewrite if message.subject == "old" else sink)
        return entry

    data = b"LMSG a 1\r\nx\r\n" + b"LMSG old 3\r\nold\r\n" * 2 + b"LMSG a 1\r\nz\r\n"
    scan(data, known, resolve)
    assert b"".join(sink.taken) == data.replace(b"LMSG old", b"LMSG renamed")


def test_a_wrong_size_cannot_smuggle_a_control_line() -> None:
    def resolve(line: bytes) -> Entry:
        return Entry(parse_message_line(line).skip, Sink())

    with pytest.raises(WireError, match="does not end where its size says"):
        scan(b"LMSG a 3\r\nabcLS+ evil\r\n", {}, resolve)


def test_an_endless_line_is_refused() -> None:
    with pytest.raises(WireError, match="no end of line"):
        scan(b"x" * 40_000, {}, lambda _: Entry(2, None))


def test_known_lines_are_counted_and_not_asked_again() -> None:
    sink = Sink()
    known = {b"LMSG a 1": Entry(5, sink, "a")}

    def resolve(line: bytes) -> Entry:
        raise AssertionError(f"asked for {line!r}")

    scan(b"LMSG a 1\r\nx\r\n" * 3, known, resolve)
    assert known[b"LMSG a 1"].count == 3
