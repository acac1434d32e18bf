"""The format of a frame's body: whole messages, each a control line and a payload.

    LMSG <subject> [reply] <size>\\r\\n<payload>\\r\\n
    HMSG <subject> [reply] <header size> <total size>\\r\\n<headers and payload>\\r\\n

A message for members of queue groups names them in place of the reply: `| <group> …` without a reply,
`+ <reply> <group> …` with one. All plain subscribers get it too, and no group that is not named.

This is part of the overlay's protocol, beside `frames`: all gateways read and write it, whatever brokers they
serve. It was chosen to be what NATS exchanges with its leaf nodes, so that where both ends are NATS a body is
handed on as it came; every other kind of broker translates between this and its own form
(`mangrove.broker.attachment`).

`scan` walks a buffer from control line to control line. What a line means is looked up by the *whole line*
(subject and sizes repeat, so a dictionary answers for thousands of messages what was parsed once); adjacent
messages with the same destination stay one slice. Measured cost: docs/internals/data-path.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from mangrove.errors import MangroveError
from mangrove.model.subjects import group_problem

MAX_CONTROL_LINE_BYTES = 1 << 15  # INFO may be long
CRLF = b"\r\n"
MAX_GROUPS = 100
"""Queue groups that one control line may name; with the longest names it is still within its limit."""


class WireError(MangroveError):
    """Bytes that are not the protocol."""


class Flow(Protocol):
    """Where a run of whole messages goes."""

    def take(self, messages: bytes) -> None:
        """Accept whole messages, as they stand in the buffer."""


class Entry:
    """What a control line means: how far the next line is, where the message goes, how often it was seen.

    Messages are booked under `topic`, and not at all if it is empty. With `once`, the line will not come
    again (a request or a reply): it need not be remembered, and its subject is no topic. What is not
    `booked` goes nowhere: whoever reads the line answers it.
    """

    __slots__ = ("booked", "count", "flow", "once", "skip", "topic")

    def __init__(
        self, skip: int, flow: Flow | None, topic: str = "", *, once: bool = False, booked: bool = True
    ) -> None:
        self.skip = skip
        self.flow = flow
        self.topic = topic
        self.once = once
        self.booked = booked
        self.count = 0


class Discard:
    """The flow of messages that nobody wants."""

    def take(self, messages: bytes) -> None:
        """Forget them."""


DISCARD = Discard()


class Rewrite:
    """A flow that replaces the control line of its messages, and hands them on.

    It belongs to one entry, so all messages of a run have the same line and the same length.
    """

    __slots__ = ("_flow", "_length", "_line", "_new_line")

    def __init__(self, line: bytes, new_line: bytes, skip: int, flow: Flow) -> None:
        self._line = len(line)
        self._new_line = new_line
        self._length = len(line) + skip
        self._flow = flow

    def take(self, messages: bytes) -> None:
        """Exchange the lines; a run stays whole."""
        line, length = self._line, self._length
        rests = [messages[start + line : start + length] for start in range(0, len(messages), length)]
        self._flow.take(self._new_line + self._new_line.join(rests))


class Gathered:
    """A flow that keeps its messages."""

    def __init__(self, messages: list[bytes] | None = None) -> None:
        self.messages: list[bytes] = [] if messages is None else messages

    @property
    def size_bytes(self) -> int:
        """How much was kept."""
        return sum(map(len, self.messages))

    def take(self, messages: bytes) -> None:
        """Keep a run of messages."""
        self.messages.append(messages)


class FanOut:
    """A flow that hands the same messages to several."""

    __slots__ = ("_flows",)

    def __init__(self, flows: Sequence[Flow]) -> None:
        self._flows = tuple(flows)

    def take(self, messages: bytes) -> None:
        """Everybody gets them."""
        for flow in self._flows:
            flow.take(messages)


class Message(msgspec.Struct, frozen=True):
    """A parsed message line."""

    subject: str
    reply: str
    header_bytes: int  # -1 without headers
    size_bytes: int  # headers and payload
    groups: tuple[str, ...] = ()  # queue groups of which one member each is served

    def line(self, subject: str, reply: str, groups: tuple[str, ...] = ()) -> bytes:
        """The control line for the same payload under another subject or reply, for these queue groups."""
        if groups:
            target = " ".join(("+", reply, *groups) if reply else ("|", *groups)) + " "
        else:
            target = f"{reply} " if reply else ""
        return f"{self.verb} {subject} {target}{self.sizes}".encode()

    @property
    def verb(self) -> str:
        """First word of the control line."""
        return "LMSG" if self.header_bytes < 0 else "HMSG"

    @property
    def sizes(self) -> str:
        """Last words of the control line."""
        return f"{self.size_bytes}" if self.header_bytes < 0 else f"{self.header_bytes} {self.size_bytes}"

    @property
    def skip(self) -> int:
        """Bytes from the end of the control line's text to the next control line."""
        return self.size_bytes + 4


def parse_message_line(line: bytes) -> Message:
    """Parse a control line, or raise WireError."""
    try:
        verb, subject, *rest = line.decode().split(" ")
        if verb == "LMSG" and rest:
            reply, groups = _target(rest[:-1])
            message = Message(subject, reply, -1, _size(rest[-1]), groups)
        elif verb == "HMSG" and len(rest) > 1:
            reply, groups = _target(rest[:-2])
            message = Message(subject, reply, _size(rest[-2]), _size(rest[-1]), groups)
            if not 12 <= message.header_bytes <= message.size_bytes:
                raise ValueError("header size out of range")
        else:
            raise ValueError("not a message line")
    except ValueError as error:  # UnicodeDecodeError is a ValueError too
        raise WireError(f"malformed control line {line[:80]!r}: {error}") from None
    if not subject or "\x00" in subject:
        raise WireError(f"malformed control line {line[:80]!r}: no subject")
    return message


def _target(words: list[str]) -> tuple[str, tuple[str, ...]]:
    """What stands between the subject and the sizes: nothing, a reply, or queue groups."""
    if len(words) < 2:
        return (words[0] if words else ""), ()
    sign, *groups = words
    reply = groups.pop(0) if sign == "+" else ""
    if sign not in ("|", "+") or not 0 < len(groups) <= MAX_GROUPS or (sign == "+" and not reply):
        raise ValueError("not a message line")
    for group in groups:
        if problem := group_problem(group):
            raise ValueError(f"the queue group {group[:80]!r}: {problem}")
    return reply, tuple(groups)


def skip_of(line: bytes) -> int:
    """Bytes to the next control line, of a message line that may be unusable but for its last word.

    Brokers let their clients use any bytes in subjects, and headers of any size. WireError if it is none.
    """
    verb, *rest = line.split(b" ")
    try:
        if verb not in (b"LMSG", b"HMSG") or len(rest) < 2:
            raise ValueError("not a message line")
        return _size(rest[-1].decode()) + 4
    except ValueError as error:
        raise WireError(f"malformed control line {line[:80]!r}: {error}") from None


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise ValueError(f"{text!r} is not a size")
    return int(text)


def scan(
    data: bytes,
    known: dict[bytes, Entry],
    resolve: Callable[[bytes], Entry],
) -> int:
    """Hand every complete message in `data` to its flow; return how many bytes were consumed.

    `resolve` is asked for lines that `known` does not hold. It must have no side effect for message lines,
    because an incomplete message is seen again with the next buffer; lines without payload (`skip` 2, `flow`
    None) are complete by definition and seen once.

    The terminator of every message is checked: bytes from another site that name a wrong size must not be
    able to smuggle a control line to the broker they are written to.
    """
    find = data.find
    get = known.get
    end = len(data)
    position = run_start = 0
    run_flow: Flow | None = None
    while True:
        eol = find(CRLF, position)
        if eol < 0:
            if end - position > MAX_CONTROL_LINE_BYTES:
                raise WireError(f"no end of line within {MAX_CONTROL_LINE_BYTES} bytes")
            break
        line = data[position:eol]
        entry = get(line)
        if entry is None:
            entry = resolve(line)
        following = eol + entry.skip
        if following > end:
            break
        if data[following - 2 : following] != CRLF:
            raise WireError(f"the message {line[:80]!r} does not end where its size says")
        if entry.flow is not run_flow:
            if run_flow is not None:
                run_flow.take(data[run_start:position])
            run_flow = entry.flow
            run_start = position
        entry.count += 1
        position = following
    if run_flow is not None:
        run_flow.take(data[run_start:position])
    return position
