"""Targets of mutated input before and behind the engine: TLS, the greeting, and sealed bodies."""

from __future__ import annotations

import contextlib
import random
import ssl
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace
from tests.kit.attachments import message
from tests.kit.engines import engine, federation
from tests.kit.frame_corpus import RING
from tests.kit.mutation import Mutator
from tests.kit.sealing import Clock, domains, frame_of

from mangrove.config import parse_federation
from mangrove.gateway.sealing.refusal import UnopenedError
from mangrove.gateway.trust.keys_in_force import KeysInForce
from mangrove.gateway.trust.proven_stream import MAX_HANDSHAKE_BYTES, ProvenStream
from mangrove.gateway.trust.refusals import RefusedError
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.making import make_keys
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.protocol.frames import Frame, FrameDecoder, FrameError

NEIGHBOURS = federation(("a", "b"))


class GreetingTarget:
    """The first frame on a connection, from a caller who has or has not proven who he is."""

    def __init__(self) -> None:
        self.engine: OverlayEngine = engine(parse_federation(RING, "ring").require(), "b")
        self.outcomes: Counter[str] = Counter()
        self._inputs = 0

    def corpus(self) -> list[bytes]:
        """What a neighbour says first."""
        shape = self.engine.federation
        return [
            OverlayEngine(shape, name, 1 << 60).hello(renews=renews).encode()
            for name in ("a", "c", "d")
            for renews in (False, True)
        ]

    def take(self, data: bytes) -> None:
        """Bytes of a caller."""
        self._inputs += 1
        proven = ("a", None, "c")[self._inputs % 3]
        try:
            frames = FrameDecoder().feed(data)
            if frames:
                self.outcomes["a frame"] += 1
                hello = self.engine.greet(frames[0], None, proven)
                assert hello.domain in ("a", "c"), f"{hello.domain} is no neighbour"
                self.outcomes["greeted"] += 1
        except FrameError:
            self.outcomes["refused"] += 1

    def fill(self) -> None:
        """Nothing is kept of strangers."""

    def look(self) -> None:
        """Nothing is kept of strangers."""


class HandshakeTarget:
    """The TLS of a link, up to the proof of who calls."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        with TemporaryDirectory() as folder:
            make_keys(NEIGHBOURS, Path(folder) / "keys")
            directory = KeyDirectory(Path(folder) / "keys")
            self._keys = KeysInForce.read(str(directory.domain("b").path))
            self._theirs = KeysInForce.read(str(directory.domain("a").path))

    def corpus(self) -> list[bytes]:
        """Greetings of TLS: of a neighbour, and of somebody without a key."""
        return [_greeting(self._theirs.context(server_side=False)), _greeting(ssl.create_default_context())]

    def take(self, data: bytes) -> None:
        """The first bytes of a caller."""
        stream = ProvenStream(self._keys, calls=False, may_be=frozenset("a"))
        try:
            plain = stream.receive(data)
            answered = stream.outgoing()
        except RefusedError as error:
            self.outcomes[error.reason.name] += 1
        else:
            assert not plain, "nobody has proven anything"
            assert stream.proof is None
            assert len(answered) < MAX_HANDSHAKE_BYTES
            self.outcomes["answered" if answered else "waits for more"] += 1
        stream.release()

    def fill(self) -> None:
        """Nothing is kept of strangers."""

    def look(self) -> None:
        """Nothing is kept of strangers."""


def _greeting(context: ssl.SSLContext) -> bytes:
    line = ssl.MemoryBIO()
    context.check_hostname = False
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), line).do_handshake()
    return line.read()


class SealedTarget:
    """Bodies that say they are sealed: mutated after they were sealed, or before by who may seal."""

    BODY = message("secret.x", b"wave") * 2 + message("secret.y", b"1", reply="_INBOX.x.1")

    def __init__(self, seed: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._sites = domains("a", "b", "c", clock=Clock(1_000_000.0))
        self._mutate = Mutator([self.BODY], seed, bodies=())
        self._sequence = 0

    def corpus(self) -> list[bytes]:
        """Bodies sealed by a neighbour: for this domain, for another, and for both."""
        a, b, c = (self._sites[name] for name in "abc")
        return [a.sealed(frame_of(a, self.BODY, *to)).body for to in ((b,), (c,), (b, c))]

    def take(self, data: bytes) -> None:
        """A body; now and then one that was well sealed, in a frame whose head was changed or not."""
        a, b = self._sites["a"], self._sites["b"]
        self._sequence += 1
        frame = frame_of(a, data, b, sequence=self._sequence)
        if self._sequence % 4 == 0:
            frame = a.sealed(replace(frame, body=self._mutate()))
            if self._sequence % 8 == 0:
                frame = self._changed(frame)
        try:
            b.opener.open(frame)
            self.outcomes["opened"] += 1
        except UnopenedError as error:
            self.outcomes[error.refusal.name] += 1

    def _changed(self, frame: Frame) -> Frame:
        way = self._chance.randrange(3)
        if way == 0:
            return replace(frame, sequence=frame.sequence + 1)
        if way == 1:
            return replace(frame, origin=self._chance.randrange(3))
        return replace(frame, topic_class=1)

    def fill(self) -> None:
        """One content key is all that there is."""

    def look(self) -> None:
        """What is remembered of content keys is bounded."""
        assert len(self._sites["b"].opener._known) <= 4096
