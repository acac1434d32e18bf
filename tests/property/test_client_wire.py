"""The SDK's data path takes any bytes in any pieces, and forgets no id that it should know."""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mangrove.broker.client_connection import ConnectionCounts, RawMessage
from mangrove.broker.message_heads import decode_head, encode_head, header_problem
from mangrove.broker.message_ids import identity_of, origin_and_count
from mangrove.broker.nats.client.outgoing import NatsOutlet, Outgoing
from mangrove.broker.nats.client.scanner import Inlet, Scanner
from mangrove.client.message import Message, MessageIds, stamped
from mangrove.client.recent_ids import RecentIds
from mangrove.model.shared_names import ID_HEADER
from mangrove.overlay.protocol.bodies import MAX_CONTROL_LINE_BYTES, WireError

SPACES = " .*>\t\r\n\x0b\x0c\x1c\x1d\x1e\x85\xa0"
TOKENS = st.text(st.characters(codec="utf-8", exclude_characters=SPACES), min_size=1, max_size=6)
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=3).map(".".join)
HEADERS = st.dictionaries(
    st.text("abcXYZ-_09", min_size=1, max_size=8),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zs", "Zl", "Zp")), max_size=12),
    max_size=3,
)
MIN_MESSAGE_BYTES = len(b"MSG a 1 0\r\n\r\n")
CONTROL = (b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR 'Permissions Violation'\r\n")


@dataclass(frozen=True)
class Sent:
    sid: int
    message: RawMessage

    def encoded(self) -> bytes:
        head, data = self.message.head, self.message.data
        to = f"{self.message.subject} {self.sid}" + (f" {self.message.reply}" if self.message.reply else "")
        if head:
            return f"HMSG {to} {len(head)} {len(head) + len(data)}\r\n".encode() + head + data + b"\r\n"
        return f"MSG {to} {len(data)}\r\n".encode() + data + b"\r\n"


@st.composite
def sent(draw: st.DrawFn) -> Sent:
    head = encode_head(draw(HEADERS)) if draw(st.booleans()) else b""
    data = draw(st.one_of(st.binary(max_size=40), st.sampled_from([b"\r\n", b"MSG a 1 0\r\n\r\n", b"x"])))
    subject = draw(st.sampled_from(["a", "a.b", "a.c"]) | SUBJECTS)
    reply = draw(st.sampled_from(["", "", "_INBOX.1"]))
    return Sent(draw(st.integers(1, 4)), RawMessage(subject, data, head, reply))


class Receiver:
    """Three subscriptions, and whoever has number four has gone."""

    def __init__(self) -> None:
        self.got: dict[int, list[RawMessage]] = {1: [], 2: [], 3: []}
        self.size_bytes = 0
        self.lines: list[bytes] = []
        inlets = {sid: Inlet(sid, ">", "", self.sink(sid), RawMessage, None) for sid in self.got}
        self.scanner = Scanner(inlets, self.lines.append)

    def sink(self, sid: int) -> Any:
        def take(messages: list[RawMessage], size_bytes: int) -> None:
            assert messages
            self.got[sid] += messages
            self.size_bytes += size_bytes

        return take


@given(
    st.lists(st.one_of(sent(), st.sampled_from(CONTROL)), max_size=30),
    st.lists(st.integers(1, 60), min_size=1, max_size=20),
)
def test_messages_arrive_whole_and_in_order_however_the_stream_is_cut(
    stream: list[Sent | bytes], cuts: list[int]
) -> None:
    data = b"".join(each if isinstance(each, bytes) else each.encoded() for each in stream)
    receiver = Receiver()
    position = 0
    for number in range(len(data)):
        cut = cuts[number % len(cuts)]
        if position >= len(data):
            break
        receiver.scanner.feed(data[position : position + cut])
        position += cut
    expected = [each for each in stream if isinstance(each, Sent)]
    for sid, got in receiver.got.items():
        assert got == [each.message for each in expected if each.sid == sid]
    assert receiver.size_bytes == sum(len(each.encoded()) for each in expected if each.sid in receiver.got)
    assert receiver.lines == [each[:-2] for each in stream if isinstance(each, bytes)]
    assert receiver.scanner.messages == len(expected)


@given(st.lists(st.binary(max_size=50), max_size=10))
def test_bytes_of_any_kind_are_refused_or_understood_but_break_nothing(pieces: list[bytes]) -> None:
    receiver = Receiver()
    with contextlib.suppress(WireError):
        for piece in pieces:
            receiver.scanner.feed(piece)
    assert sum(map(len, receiver.got.values())) <= sum(map(len, pieces)) // MIN_MESSAGE_BYTES


@given(st.lists(sent(), min_size=1, max_size=8), st.data())
def test_a_stream_that_was_tampered_with_is_refused_or_understood(
    stream: list[Sent], data: st.DataObject
) -> None:
    whole = bytearray(b"".join(each.encoded() for each in stream))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    receiver = Receiver()
    with contextlib.suppress(WireError):
        receiver.scanner.feed(bytes(whole))
    assert sum(map(len, receiver.got.values())) <= len(whole) // MIN_MESSAGE_BYTES


@pytest.mark.parametrize(
    "line",
    [
        *("MSG", "MSG a", "MSG a 1", "MSG a x 1", "MSG a 1 -1", "MSG a 1 1 2 3", "MSG  1 0", "MSG a 1 ٣"),
        *("HMSG a 1 12", "HMSG a 1 13 12", "HMSG a 1 x 5", "MSG a 1 999999999999", "MSG a 1 9999999999999"),
    ],
)
def test_malformed_message_lines_are_refused(line: str) -> None:
    receiver = Receiver()
    control: list[bytes] = []
    scanner = Scanner({}, control.append)
    if line == "MSG":  # not a message line at all: whoever gets control lines judges it
        scanner.feed(b"MSG\r\n")
        assert control == [b"MSG"]
        return
    with pytest.raises(WireError, match="malformed"):
        receiver.scanner.feed(line.encode() + b"\r\n")


@pytest.mark.parametrize("head", [b"", b"abcd", b"\r\n\r\n", b"NATS/1.0\r\n"])
def test_headers_that_are_none_cost_nobody_the_connection(head: bytes) -> None:
    """nats-server passes on what any client says its headers are."""
    receiver = Receiver()
    line = b"HMSG a 1 %d %d\r\n" % (len(head), len(head) + 3)
    receiver.scanner.feed(line + head + b"xyz\r\nMSG a 1 1\r\ny\r\n")
    assert [each.data for each in receiver.got[1]] == [b"xyz", b"y"]
    assert receiver.got[1][0].head == head
    assert (decode_head(head), identity_of(head)) == ({}, None)


def test_what_came_before_something_malformed_is_handed_over() -> None:
    receiver = Receiver()
    with pytest.raises(WireError):
        receiver.scanner.feed(b"MSG a 1 1\r\nx\r\nMSG a 1 1\r\nyyy\r\n")
    assert [each.data for each in receiver.got[1]] == [b"x"]


def test_a_size_that_is_wrong_smuggles_nothing() -> None:
    receiver = Receiver()
    with pytest.raises(WireError, match="does not end"):
        receiver.scanner.feed(b"MSG a 1 3\r\nMSG b 2 0\r\n\r\n")
    assert not any(receiver.got.values())


def test_a_line_without_end_is_refused() -> None:
    receiver = Receiver()
    receiver.scanner.feed(b"x" * MAX_CONTROL_LINE_BYTES)
    with pytest.raises(WireError, match="no end of line"):
        receiver.scanner.feed(b"x")


# -- heads ------------------------------------------------------------------------------------------------


@given(HEADERS)
def test_headers_come_back_as_they_were(headers: dict[str, str]) -> None:
    assert not any(header_problem(name, value) for name, value in headers.items())
    assert decode_head(encode_head(headers)) == headers


@given(st.binary(max_size=80))
def test_any_bytes_are_a_head_with_some_headers_or_none(head: bytes) -> None:
    for name, value in decode_head(head).items():
        assert name
        assert "\r\n" not in value
    identity_of(head)
    origin_and_count(head)


@pytest.mark.parametrize(
    ("head", "headers"),
    [
        (b"NATS/1.0 503\r\n\r\n", {"Status": "503"}),
        (b"NATS/1.0 404 No Messages\r\n\r\n", {"Status": "404", "Description": "No Messages"}),
        (b"NATS/1.0 100 Idle\r\nA:b\r\n\r\n", {"Status": "100", "Description": "Idle", "A": "b"}),
        (b"NATS/1.0\r\nA: b\r\nno header\r\n: c\r\nA: d \r\n\r\n", {"A": "d"}),
        (b"NATS/1.0\r\n\xff: x\r\nB: \xff\r\n\r\n", {"B": "�"}),
        (b"", {}),
    ],
)
def test_heads_of_others_are_read(head: bytes, headers: dict[str, str]) -> None:
    assert decode_head(head) == headers


@given(st.binary(max_size=300), st.integers(1, 10**9), SUBJECTS)
@example(b"%d%b", 7, "100%.%s")
def test_an_outlet_says_what_the_long_way_says(payload: bytes, count: int, subject: str) -> None:
    ids = MessageIds()
    outgoing = Outgoing(ConnectionCounts())
    outlet = NatsOutlet(outgoing, subject, ids.head_form)
    for _ in range(2):  # the second time by the form that is kept
        outlet.publish(payload, count, 1_700_000_000_123_456_789)
    line = outgoing._waiting[1]
    assert line == outgoing._waiting[0]
    first, _, rest = line.partition(b"\r\n")
    verb, to, head_bytes, size_bytes = first.decode().split(" ")
    head, data = rest[: int(head_bytes)], rest[int(head_bytes) : -2]
    assert (verb, to, data, rest[-2:]) == ("HPUB", subject, payload, b"\r\n")
    assert int(size_bytes) == len(rest) - 2
    message = Message(subject, data, head, "", None)  # type: ignore[arg-type]
    assert message.id == f"{ids.prefix}.{count:011x}"
    assert message.published_at == 1_700_000_000_123_456_789 / 1e9
    assert origin_and_count(head) == (ids.prefix.encode(), count)
    assert dict(message.headers) == {
        ID_HEADER: message.id,
        "Mangrove-Time": "1700000000123456789",
    }
    assert (outlet.messages, outlet.size_bytes) == (2, 2 * len(payload))


@given(HEADERS)
def test_ids_among_other_headers_are_found(headers: dict[str, str]) -> None:
    ids = MessageIds()
    message = Message("s", b"", encode_head(stamped(headers, ids)), "", None)  # type: ignore[arg-type]
    assert message.id == message.headers[ID_HEADER]
    assert message.published_at is not None
    own = Message("s", b"", encode_head({**headers, ID_HEADER: "their own"}), "", None)  # type: ignore[arg-type]
    assert own.id == "their own"
    assert origin_and_count(encode_head({ID_HEADER: "their own"})) is None


# -- second copies ----------------------------------------------------------------------------------------


def numbered(subject: str, kind: int, number: int) -> Message:
    """A message with an id in one of several forms."""
    if kind == 0:
        head = encode_head({ID_HEADER: f"id {number}"})
    elif kind == 1:
        head = encode_head({"Other": "header", ID_HEADER: f"abcdefghijkl.{number:011x}", "More": "x"})
    elif kind == 2:
        head = b""
    else:
        ids = MessageIds()
        ids.prefix = f"publisher--{kind}"
        head = b"NATS/1.0\r\nMangrove-Id: %b.%011x\r\nMangrove-Time: %019d\r\n\r\n" % (
            ids.prefix.encode(),
            number,
            number,
        )
    return Message(subject, str(number).encode(), head, "", None)  # type: ignore[arg-type]


MESSAGES = st.builds(numbered, st.sampled_from("st"), st.integers(0, 4), st.integers(0, 12))


@given(st.lists(st.lists(MESSAGES, max_size=6), max_size=12), st.integers(4, 12), st.booleans())
def test_second_copies_are_left_out_as_the_model_says(
    batches: list[list[Message]], remembered: int, one_subject: bool
) -> None:
    """What is among the last half is recognised; what is new passes; nothing else is demanded."""
    recent = RecentIds(remembered, one_subject=one_subject)
    if one_subject:
        batches = [[message for message in batch if message.subject == "s"] for batch in batches]
    passed: deque[tuple[str, str]] = deque()
    seen: set[tuple[str, str]] = set()
    left_out = 0
    for batch in batches:
        kept = deque(recent.fresh(batch))
        for message in batch:
            new = bool(kept) and kept[0] is message
            if new:
                kept.popleft()
            if message.id is None:
                assert new
                continue
            key = (message.subject, message.id)
            if key not in seen:
                assert new, "never seen before"
            elif key in list(passed)[-(remembered // 2) :]:
                assert not new, "seen a moment ago"
            left_out += not new
            if new:
                passed.append(key)
                seen.add(key)
        assert not kept
    assert recent.duplicates == left_out


def test_memory_is_bounded_however_many_publishers_there_are() -> None:
    recent = RecentIds(remembered=1000)
    for start in range(0, 100_000, 100):
        form = b"NATS/1.0\r\nMangrove-Id: %012d.%011x\r\nMangrove-Time: %019d\r\n\r\n"
        heads = [form % (number, 1, 1) for number in range(start, start + 100)]
        batch = [Message("s", b"", head, "", None) for head in heads]  # type: ignore[arg-type]
        assert len(recent.fresh(batch)) == 100
        assert recent.fresh(batch) == []
    assert len(recent._younger) + len(recent._older) <= 1100
