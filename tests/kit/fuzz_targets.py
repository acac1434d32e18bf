"""What mutated input is thrown at. A target raises when something happens that must not.

Only FrameError may leave a decoder or an engine: the link is closed then, and called again. Everything that
is held on a neighbour's behalf is bounded.
"""

from __future__ import annotations

from collections import Counter

from tests.kit.attachments import Head, message
from tests.kit.engines import want, with_links
from tests.kit.frame_corpus import RING, SEED
from tests.kit.mutation import OPAQUE

from mangrove.config import parse_federation
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import CloseLink, DeliverMessages, SendFrame
from mangrove.overlay.pair.messages import MAX_RECORD_BYTES, RecordKind, RecordReader, read_names, read_word
from mangrove.overlay.protocol.bodies import Entry, WireError, parse_message_line, scan
from mangrove.overlay.protocol.control_messages import Heartbeat, HeartbeatKind, control_body, control_frame
from mangrove.overlay.protocol.frames import MAX_BODY_BYTES, Frame, FrameDecoder, FrameError, FrameType
from mangrove.overlay.protocol.signed import Signed
from mangrove.overlay.trust.trust import Judgement, KeyTrust
from mangrove.simulation.forging.keys import SimulatedAuthority
from mangrove.simulation.overlay_network import BEGINNING_NS

LOOK_EVERY = 5_000
RECONNECT_EVERY = 200
"""What is refused closes the link. That is slow, so most often the next input comes as if it were open."""
RESTART_EVERY = 100_000
"""Where domains have keys: a word of the farthest future, once believed, makes all others old."""
SERVE_EVERY = 50
STEP_S = 0.001
CUTS = (7, 46, 60)
"""Where some inputs are cut, as the network cuts them."""


FLOWS = 5_000
"""More than are remembered: memory is measured from there on."""
LINES = 70_000
"""More than a table of known lines holds."""


class _CountingTrust(KeyTrust):
    """Trust that counts what got as far as a signature or a tag, and what got past it."""

    outcomes: Counter[str]

    def judge(self, origin: str, signed: Signed) -> Judgement:
        """Whether a domain has said this."""
        judgement = super().judge(origin, signed)
        self.outcomes["signature wrong" if judgement.problem else "signature good"] += 1
        return judgement

    def tagged(self, credentials: tuple[bytes, ...], content: bytes, tag: bytes) -> bool:
        """Whether a frame is its origin's."""
        good = super().tagged(credentials, content, tag)
        self.outcomes["tag good" if good else "tag wrong"] += 1
        return good


class LinkTarget:
    """A gateway between an honest neighbour and one that says anything: greeting, frames, timers."""

    attacker, honest = "a", "c"

    def __init__(self, *, secured: bool = False) -> None:
        self._shape = shape = parse_federation(RING, "ring").require()
        self.outcomes: Counter[str] = Counter()
        self._trust: _CountingTrust | None = None
        self.authority = SimulatedAuthority(list(shape.domains), SEED)
        if secured:
            keys = self.authority.keys["b"]
            self._trust = _CountingTrust(shape.name, keys, self.authority, lambda: BEGINNING_NS)
            self._trust.outcomes = self.outcomes
        self.engine = self._begin()
        self._decoder = FrameDecoder()
        self._inputs = 0

    def _begin(self) -> OverlayEngine:
        self._pulled = self._beats = 0
        self._now = 1.0
        engine = with_links(self._shape, "b", self._trust)
        want(engine, "alert.b", "jobs.b", now=0.02)
        return engine

    def fill(self) -> None:
        """Bring what is remembered of flows to its limit."""
        order = self.engine.federation.domain_order
        body = message("alert.b", b"wave")
        for flow in range(FLOWS):
            for destination in ("b", "c"):
                frame = Frame(
                    FrameType.DATA,
                    body,
                    hop_limit=9,
                    origin=order.index(self.attacker),
                    epoch=1,
                    destinations=1 << order.index(destination),
                    flow_id=flow,
                    sequence=1,
                )
                self.engine.receive(self.attacker, frame, self._now)
            if flow % 20 == 0:
                self._serve()

    def take(self, data: bytes) -> None:
        """Bytes of the attacker: now and then as the first of a connection, else on a greeted link."""
        self._inputs += 1
        self._now += STEP_S
        if self._trust is not None and self._inputs % RESTART_EVERY == 0:
            self.engine = self._begin()
            self.fill()
        engine = self.engine
        engine.heard(self.honest, self._now)
        if self._inputs % 5 == 0:
            self._greet(data)
        cut = CUTS[self._inputs % len(CUTS)]
        parts = [data[:cut], data[cut:]] if self._inputs % 4 == 0 else [data]
        frames: list[Frame] = []
        try:
            for part in parts:
                frames = self._decoder.feed(part)
                self.outcomes["frames"] += len(frames)
                for frame in frames:
                    self._receive(frame)
        except FrameError:
            self.outcomes["refused"] += 1
            self.outcomes["no frame" if not frames else "no sense in it"] += 1
            self._decoder = FrameDecoder()
            if self.outcomes["refused"] % RECONNECT_EVERY == 0:
                self._reconnect()
        if self._decoder.held_bytes and self._inputs % 3 == 0:
            self._decoder = FrameDecoder()
        assert self._decoder.held_bytes <= MAX_BODY_BYTES + 8192
        if self._inputs % SERVE_EVERY == 0:
            self._serve()
        if self._inputs % LOOK_EVERY == 0:
            self.look()

    def _serve(self) -> None:
        """What a shell does from time to time. The honest neighbour takes over what it gets, and says so."""
        engine = self.engine
        engine.heard(self.attacker, self._now)
        for instruction in engine.handle_timer(self._now):
            if isinstance(instruction, SendFrame):
                self._must_be_acceptable(instruction.frame)
            elif isinstance(instruction, CloseLink):
                engine.peer_up(instruction.peer, self._now)
                if instruction.peer == self.honest:
                    self._pulled = 0
        for peer in (self.attacker, self.honest):
            while (pulled := engine.pull(peer, self._now)) is not None:
                self._must_be_acceptable(pulled)
                if peer == self.honest and pulled.type in (FrameType.DATA, FrameType.JOBS):
                    self._pulled += 1
        engine._notary.refusals._credits.clear()  # he has time, and waits until he is listened to again
        self._beats += 1
        beat = Heartbeat(
            kind=HeartbeatKind.TEST_ACK, sequence=self._beats, sent=self._now, received=self._pulled
        )
        engine.receive(self.honest, control_frame(beat), self._now)

    def look(self) -> None:
        """Invariants, and that nothing has grown beyond its limit."""
        self.engine.validate()
        self.engine.take_events()
        for keys in self.authority.keys.values():
            keys.signed.clear()
        status = self.engine.status(self._now)
        limit = self.engine.federation.queue_bytes
        assert status.parked_bytes <= limit, f"{status.parked_bytes} bytes are parked"

    def _greet(self, data: bytes) -> None:
        try:
            frames = FrameDecoder().feed(data)
            if frames:
                self.engine.greet(frames[0], self.attacker if self._inputs % 2 else None)
                self.outcomes["greeted"] += 1
        except FrameError:
            self.outcomes["not greeted"] += 1

    def _receive(self, frame: Frame) -> None:
        for instruction in self.engine.receive(self.attacker, frame, self._now):
            if isinstance(instruction, DeliverMessages):
                self.outcomes["delivered"] += 1
            elif isinstance(instruction, SendFrame):
                self._must_be_acceptable(instruction.frame)
        self.outcomes[frame.type.name] += 1

    def _must_be_acceptable(self, frame: Frame) -> None:
        """Nobody makes an honest gateway say what its honest neighbours would close the link for."""
        self.outcomes["sent on"] += 1
        (decoded,) = FrameDecoder().feed(frame.encode())
        if frame.type not in OPAQUE:
            control_body(decoded)

    def _reconnect(self) -> None:
        """The link is closed and called again; what came before is forgotten as the shell forgets it."""
        self._decoder = FrameDecoder()
        self.engine.peer_up(self.attacker, self._now)


class PairTarget:
    """The line between the two gateways of a domain."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self._reader = RecordReader()
        self._inputs = 0

    def take(self, data: bytes) -> None:
        """Bytes on the line; every other input is the first on a new one."""
        self._inputs += 1
        if self._inputs % 2:
            self._reader = RecordReader()
        try:
            for kind, body in self._reader.feed(data):
                self.outcomes[kind.name] += 1
                match kind:
                    case RecordKind.NAMES:
                        read_names(body)
                    case RecordKind.INTEREST:
                        control_body(Frame(FrameType.INTEREST, body))
                    case RecordKind.DIGEST:
                        control_body(Frame(FrameType.DIGEST, body))
                    case _:
                        read_word(kind, body)
        except FrameError:
            self.outcomes["refused"] += 1
            self._reader = RecordReader()
        assert self._reader.held_bytes <= MAX_RECORD_BYTES + 8192

    def look(self) -> None:
        """Nothing is kept here."""

    def fill(self) -> None:
        """Nothing is kept here."""


class BodyTarget:
    """Bodies of data frames on their way to the head broker: nothing but whole messages may be written."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self._head = Head(max_message_bytes=1_000)
        self._head.connection.attached()

    def fill(self) -> None:
        """Bring the table of known lines to its limit, and over it."""
        for number in range(LINES):
            self.take(message(f"subject.number.{number}", b"x"))
        self.outcomes.clear()

    def take(self, data: bytes) -> None:
        """A body from another domain."""
        broker = self._head.attachments[0]
        self._head.connection.deliver(data, 5, 0)
        written, broker.written = broker.written, []
        grouped, broker.grouped = broker.grouped, []
        for run in (*written, *(run for _, run in grouped)):
            self.outcomes["written"] += 1
            _must_be_messages(run)

    def look(self) -> None:
        """What waits for the broker is within its limit by construction: it takes everything."""


def _must_be_messages(run: bytes) -> None:
    """A run that reaches a broker is whole messages, or it smuggles something."""

    class _Taken:
        def take(self, messages: bytes) -> None:
            pass

    def resolve(line: bytes) -> Entry:
        return Entry(parse_message_line(line).skip, _Taken())

    try:
        consumed = scan(run, {}, resolve)
    except WireError as error:
        raise AssertionError(f"smuggled to the broker: {run[:200]!r}: {error.message}") from None
    assert consumed == len(run), f"a part of a message reached the broker: {run[consumed:][:200]!r}"


def body_corpus() -> list[bytes]:
    """Bodies to begin with."""
    return [
        message("alert.b", b"wave"),
        message("alert.b", b"wave", reply="_INBOX.x.1"),
        message("jobs.b", b"work", groups=("workers",)),
        message("jobs.b", b"work", reply="_INBOX.x.2", groups=("workers", "others")),
        message("a", b"x") * 3 + message("b.c.d", b"y" * 200),
        b"HMSG alert.b 22 26\r\nNATS/1.0\r\nName: x\r\n\r\n\r\nwave\r\n",
        message("alert.b", b"PUB other 1\r\nx\r\n"),
    ]
