"""Takes messages out of the bytes that a nats-server sends to a client.

    MSG <subject> <sid> [reply] <size>\\r\\n<payload>\\r\\n
    HMSG <subject> <sid> [reply] <head size> <total size>\\r\\n<head and payload>\\r\\n

What a line means is looked up by the whole line, as in a frame's body (`mangrove.overlay.protocol.bodies`).
Where the same line has come twice, a run of it is expected: the end of one message and the line of the next
are compared as one piece, and nothing is searched for. Measured cost: docs/internals/data-path.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mangrove.broker.client_connection import Denial, Form, Sink
from mangrove.model.selectors.group_names import beside, selector_in
from mangrove.overlay.protocol.bodies import CRLF, MAX_CONTROL_LINE_BYTES, WireError

MAX_KNOWN_LINES = 1 << 15
MAX_MESSAGE_BYTES = 1 << 27
"""No broker allows so much; who announces more has lost the thread, and would be waited for without end."""


class Inlet:
    """A subscription as the scanner sees it; `messages` gathers what the present buffer holds for it."""

    __slots__ = ("denial", "form", "messages", "origin", "queue", "sid", "sink", "size_bytes", "subject")

    def __init__(self, sid: int, subject: str, queue: str, sink: Sink, form: Form, origin: object) -> None:
        self.sid = sid
        self.subject = subject
        self.queue = queue
        self.sink = sink
        self.form = form
        self.origin = origin
        self.denial: Denial | None = None
        """Why the broker does not serve it, if it said so."""
        self.messages: list[Any] = []
        self.size_bytes = 0

    @property
    def shares(self) -> bool:
        """Whether other members of its queue group get what it does not; who selects by headers is alone."""
        return bool(self.queue) and selector_in(self.queue) is None

    @property
    def sub_line(self) -> bytes:
        """What a server is told of it."""
        return self._line(self.queue)

    @property
    def line_beside(self) -> bytes:
        """What it is told by another socket: who does not share gets everything by both."""
        return self._line(beside(self.queue))

    def _line(self, queue: str) -> bytes:
        to = f"{self.subject} {queue}" if queue else self.subject
        return f"SUB {to} {self.sid}\r\n".encode()


class Gate(Protocol):
    """Takes what a scanner would hand to sinks, while two sockets bring the same."""

    def __call__(self, inlet: Inlet, messages: list[Any], size_bytes: int) -> None:
        """All messages of one subscription in a buffer."""

    def end_buffer(self) -> None:
        """The buffer is at its end."""


class _Line:
    """What a message line means. `again` is the end of a message and the same line once more."""

    __slots__ = ("again", "head_bytes", "inlet", "reply", "skip", "subject")

    def __init__(
        self, line: bytes, inlet: Inlet, subject: str, reply: str, head_bytes: int, size_bytes: int
    ) -> None:
        self.inlet = inlet
        self.subject = subject
        self.reply = reply
        self.head_bytes = head_bytes
        self.skip = size_bytes + 4
        """Bytes from the end of the line's text to the next line."""
        self.again = b"".join((CRLF, line, CRLF))


def no_message(subject: str, data: bytes, head: bytes, reply: str, origin: object) -> None:
    """The form of messages that nobody wants any more."""


def no_sink(messages: list[Any], size_bytes: int) -> None:
    """Where messages go that nobody wants any more."""


def nobody() -> Inlet:
    """An inlet whose messages are forgotten."""
    return Inlet(0, "", "", no_sink, no_message, None)


_NONE = nobody()
"""Where a scan begins: no message's inlet."""


class Scanner:
    """Sorts the bytes of one connection: messages to their inlets, all other lines to `control`."""

    def __init__(self, inlets: dict[int, Inlet], control: Callable[[bytes], None]) -> None:
        self._inlets = inlets
        self._nobody = nobody()
        self._control = control
        self._known: dict[bytes, _Line] = {}
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._needed = 0
        self.messages = 0
        """Messages so far, those that nobody wanted any more included."""
        self.gate: Gate | None = None

    def feed(self, data: bytes) -> None:
        """Take a buffer; an incomplete message is held until the rest has come. WireError if it is malformed.

        Messages before something malformed are handed over all the same.
        """
        if self._held:
            self._held.append(data)
            self._held_bytes += len(data)
            if self._held_bytes < self._needed:
                return
            data = b"".join(self._held)
            self._held.clear()
        touched: list[Inlet] = []
        try:
            consumed = self._scan(data, touched)
        finally:
            for inlet in touched:
                messages, inlet.messages = inlet.messages, []
                size_bytes, inlet.size_bytes = inlet.size_bytes, 0
                if messages:  # unless the first of them was malformed
                    self.messages += len(messages)
                    if self.gate is None:
                        inlet.sink(messages, size_bytes)
                    else:
                        self.gate(inlet, messages, size_bytes)
            if self.gate is not None:
                self.gate.end_buffer()
        if consumed < len(data):
            self._held.append(data[consumed:])
            self._held_bytes = len(data) - consumed

    def _scan(self, data: bytes, touched: list[Inlet]) -> int:
        """Gather what is complete; how many bytes that was. `_needed` tells when the rest is worth a look."""
        find, startswith = data.find, data.startswith
        get = self._known.get
        end = len(data)
        position = start = 0
        inlet = _NONE
        before: _Line | None = None
        form, origin, append = inlet.form, inlet.origin, inlet.messages.append
        try:
            while True:
                eol = find(CRLF, position)
                if eol < 0:
                    if end - position > MAX_CONTROL_LINE_BYTES:
                        raise WireError(f"no end of line within {MAX_CONTROL_LINE_BYTES} bytes")
                    self._needed = end - position + 1
                    break
                line = data[position:eol]
                known = get(line) or self._resolve(line)
                if known is None:
                    start += eol + 2 - position
                    position = eol + 2
                    continue
                skip = known.skip
                following = eol + skip
                if following > end:
                    self._needed = following - position
                    break
                if known.inlet is not inlet:
                    inlet.size_bytes += position - start
                    start = position
                    inlet = known.inlet
                    form, origin = inlet.form, inlet.origin
                    if not inlet.messages:
                        touched.append(inlet)
                    append = inlet.messages.append
                subject, reply, head_bytes, again = known.subject, known.reply, known.head_bytes, known.again
                while known is before and startswith(again, following - 2):
                    body = eol + 2
                    middle = body + head_bytes
                    append(form(subject, data[middle : following - 2], data[body:middle], reply, origin))
                    position = following
                    eol = position + len(line)
                    following = eol + skip
                if following > end:
                    self._needed = following - position
                    break
                if data[following - 2 : following] != CRLF:
                    raise WireError(f"the message {line[:80]!r} does not end where its size says")
                body = eol + 2
                middle = body + head_bytes
                append(form(subject, data[middle : following - 2], data[body:middle], reply, origin))
                position = following
                before = known
        finally:
            inlet.size_bytes += position - start
        return position

    def _resolve(self, line: bytes) -> _Line | None:
        """What a line means that is not known; None if it is no message, and was dealt with."""
        if not line.startswith((b"MSG ", b"HMSG ")):
            self._control(line)
            return None
        known = self._message(line)
        if not known.reply:  # a request's line does not come again
            if len(self._known) >= MAX_KNOWN_LINES:
                self._known.clear()
            self._known[line] = known
        return known

    def _message(self, line: bytes) -> _Line:
        try:
            # Brokers let their clients use any bytes in subjects.
            verb, subject, sid, *rest = line.decode(errors="replace").split(" ")
            head_bytes = _number(rest.pop(-2)) if verb == "HMSG" else 0
            size_bytes = _number(rest.pop())
            inlet = self._inlets.get(_number(sid), self._nobody)
            if len(rest) > 1 or not subject:
                raise ValueError("not a message line")
            if head_bytes > size_bytes:  # a publisher may have made it as short as it likes
                raise ValueError("head size out of range")
            if size_bytes > MAX_MESSAGE_BYTES:
                raise ValueError("no message is so large")
        except (ValueError, IndexError) as error:
            raise WireError(f"malformed message line {line[:80]!r}: {error}") from None
        return _Line(line, inlet, subject, rest[0] if rest else "", head_bytes, size_bytes)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise ValueError(f"{text!r} is not a number")
    return int(text)
