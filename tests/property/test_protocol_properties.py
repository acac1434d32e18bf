"""The scanner and the frame decoder against arbitrary bytes and arbitrary cuts."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st
from tests.kit.engines import federation

from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.protocol.bodies import Entry, Message, WireError, parse_message_line, scan
from mangrove.overlay.protocol.frames import Frame, FrameDecoder, FrameError, FrameType

TOKENS = st.text("abcxyz019-_", min_size=1, max_size=5)
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=3).map(".".join)
HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, bytes]:
    """A subject and a whole message, with a payload that may look like the protocol."""
    subject = draw(SUBJECTS)
    payload = draw(st.binary(max_size=40) | st.sampled_from([b"\r\n", b"LMSG a 3\r\nabc\r\n", b"PING\r\n"]))
    reply = draw(st.sampled_from(["", "_INBOX.a.1"]))
    if draw(st.booleans()):
        body = HEADERS + payload
        message = Message(subject, reply, len(HEADERS), len(body))
    else:
        body = payload
        message = Message(subject, reply, -1, len(body))
    return subject, message.line(subject, reply) + b"\r\n" + body + b"\r\n"


class Sink:
    def __init__(self) -> None:
        self.data = b""

    def take(self, messages: bytes) -> None:
        self.data += messages


@given(st.lists(messages(), max_size=12), st.data())
def test_scanning_in_pieces_loses_and_invents_nothing(
    sent: list[tuple[str, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(message for _, message in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    flows: dict[str, Sink] = {}
    known: dict[bytes, Entry] = {}

    def resolve(line: bytes) -> Entry:
        message = parse_message_line(line)
        flow = flows.setdefault(message.subject[0], Sink())
        entry = known[line] = Entry(message.skip, flow, message.subject)
        return entry

    held = b""
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        held += stream[start:end]
        held = held[scan(held, known, resolve) :]
    assert held == b""
    for first, flow in flows.items():
        expected = [message for subject, message in sent if subject[0] == first]
        assert flow.data == b"".join(expected)
    assert sum(entry.count for entry in known.values()) == len(sent)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_never_break_the_scanner(data: bytes) -> None:
    def resolve(line: bytes) -> Entry:
        return Entry(parse_message_line(line).skip, Sink())

    with contextlib.suppress(WireError):
        assert 0 <= scan(data, {}, resolve) <= len(data)


FRAMES = st.builds(
    Frame,
    st.sampled_from(FrameType),
    st.binary(max_size=200),
    st.integers(0, 255),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**200),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**16 - 1),
)


@given(st.lists(FRAMES, max_size=6), st.data())
def test_frames_survive_any_cutting(frames: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(frame.encode() for frame in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    decoder = FrameDecoder()
    decoded: list[Frame] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        decoded += decoder.feed(stream[start:end])
    assert decoded == frames
    assert decoder.held_bytes == 0


@given(st.binary(max_size=400))
def test_garbage_never_does_more_than_close_the_link(data: bytes) -> None:
    """Fuzz: bytes that begin like a frame, or not, end in frames or FrameError and in nothing else."""
    decoder = FrameDecoder()
    with contextlib.suppress(FrameError):
        decoder.feed(data)
    shape = federation(("a", "b"))
    engine = OverlayEngine(shape, "a", 1)
    decoder = FrameDecoder()
    with contextlib.suppress(FrameError):
        for frame in decoder.feed(b"MG" + data):
            engine.receive("b", frame, 0.0)


@given(FRAMES, st.integers(0, 40), st.binary(min_size=1, max_size=3))
def test_a_damaged_frame_is_refused_or_read_but_never_crashes(frame: Frame, at: int, patch: bytes) -> None:
    encoded = bytearray(frame.encode())
    encoded[at : at + len(patch)] = patch
    shape = federation(("a", "b"))
    engine = OverlayEngine(shape, "a", 1)
    with contextlib.suppress(FrameError):
        for decoded in FrameDecoder().feed(bytes(encoded)):
            engine.greet(decoded, None)
    with contextlib.suppress(FrameError):
        for decoded in FrameDecoder().feed(bytes(encoded)):
            engine.receive("b", decoded, 0.0)
