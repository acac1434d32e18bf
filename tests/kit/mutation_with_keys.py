"""Mutated words under good signatures, mutated frames under good tags: a domain that was taken over speaks.

Without this a mutated word gets no further than its signature. Who signs and whom the words speak of are
chosen apart, so that both what is believed and what is forged comes about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.kit.mutation import Mutator, framed

from mangrove.overlay.protocol.control_messages import InterestUpdate
from mangrove.overlay.protocol.frames import Frame, FrameDecoder, FrameError, FrameType
from mangrove.overlay.protocol.signed import InterestStatement, Signed
from mangrove.overlay.protocol.signed_bodies import changed_wants, words
from mangrove.overlay.trust.frame_tags import content, tags_for
from mangrove.overlay.trust.table_hash import digest_of
from mangrove.overlay.trust.trust import KeyTrust
from mangrove.simulation.forging.keys import SimulatedAuthority
from mangrove.simulation.overlay_network import BEGINNING_NS

SPEAKERS = ("a", "c", "d")
APART_NS = (0, 0, 0, 1, -1, 10**9, -(10**9), 400 * 10**9, -400 * 10**9)


class KeyedMutator(Mutator):
    """Mutates what others than `b` say in a federation with keys."""

    def __init__(self, corpus: Sequence[bytes], seed: int, authority: SimulatedAuthority, name: str) -> None:
        super().__init__(corpus, seed)
        self._now_ns = BEGINNING_NS
        self._trusts = {
            domain: KeyTrust(name, authority.keys[domain], authority, lambda: self._now_ns)
            for domain in SPEAKERS
        }
        self._count = 0
        self._order = sorted(authority.keys)
        self._said, self._updates = _statements(corpus)

    def __call__(self) -> bytes:
        """The next input: half of them are signed or tagged by somebody who may."""
        way = self._chance.random()
        if way < 0.25:
            return self._signed()
        if way < 0.32:
            return self._stated()
        if way < 0.5:
            return self._tagged()
        return super().__call__()

    def _speaker(self) -> str:
        return self._chance.choice(("a", "a", *SPEAKERS))

    def _sign(self, said: bytes, origin: object) -> Signed:
        """By who is spoken of, most often; at some time."""
        self._now_ns = BEGINNING_NS + self._chance.choice(APART_NS)
        signer = origin if origin in SPEAKERS and self._chance.random() < 0.9 else self._speaker()
        return self._trusts[str(signer)].signed(said)

    def _signed(self) -> bytes:
        """Link state, a region or a route with one thing changed, of which an origin says that it said it."""
        kind, value = self._chance.choice(self._said)
        changed = dict(value)
        for key in ("origin", "told_at"):
            if key in changed and self._chance.random() < 0.6:
                changed[key] = self._speaker()
        self._count += 1
        for key, first in (("sequence", 0), ("version", BEGINNING_NS if "told_at" in changed else 0)):
            if key in changed:
                changed[key] = first + self._count  # or it would be no news, and not be looked into
        kept = {} if self._chance.random() < 0.01 else {"epoch": changed.pop("epoch", 1)}
        whole = self._chance.random() < 0.3
        said = msgspec.msgpack.encode(changed | kept) if whole else self.changed_value(changed, kept)
        if said is None:
            return super().__call__()
        origin = changed.get("origin", changed.get("told_at"))
        return framed(kind, msgspec.msgpack.encode(self._sign(said, origin)))

    def _stated(self) -> bytes:
        """Interest with one thing changed, and a statement that is about it."""
        update = self._chance.choice(self._updates)
        added = [self._chance.choice(("x.1", "alert.>", "jobs.b", "*", "a..b", "", "é")) for _ in range(2)]
        update = replace(
            update,
            origin=self._speaker(),
            version=max(0, update.version + self._chance.choice((-1, 0, 1, 2, 1000))),
            epoch=self._chance.choice((update.epoch, update.epoch + 1)),
            snapshot=self._chance.random() < 0.5,
            added=added[: self._chance.randrange(3)],
            part=self._chance.choice((0, 0, 0, 1, 7)),
            last=self._chance.random() < 0.8,
        )
        statement = InterestStatement(
            origin=update.origin,
            epoch=update.epoch,
            version=update.version,
            change=digest_of(changed_wants(update)),
            table=self._chance.randbytes(32),
        )
        update = replace(update, statement=self._sign(words(statement), update.origin))
        return framed(FrameType.INTEREST, msgspec.msgpack.encode(update))

    def _tagged(self) -> bytes:
        """A data frame with one thing changed before its origin put its tag on it."""
        frame = self.changed_frame(self._chance.choice(self._data))
        origin = self._order[frame.origin] if frame.origin < len(self._order) else ""
        trust = self._trusts.get(origin)
        if trust is None:
            return frame.encode()
        place = self._order.index("b")
        frame = replace(frame, destinations=(frame.destinations | 1 << place) & 15, stream=0)
        tags = tags_for(frame, content(frame), {place: b"b"}, trust)
        return replace(frame, tags=tags).encode()


def _statements(corpus: Sequence[bytes]) -> tuple[list[tuple[int, dict[str, Any]]], list[InterestUpdate]]:
    """What was signed in the corpus, and what was said of interest."""
    said: list[tuple[int, dict[str, Any]]] = []
    updates: list[InterestUpdate] = []
    for data in corpus:
        try:
            frames: list[Frame] = FrameDecoder().feed(data)
        except FrameError:
            continue
        for frame in frames:
            if frame.type in (FrameType.LINK_STATE, FrameType.ROUTE):
                value = msgspec.msgpack.decode(frame.body)
                if value.get("type") == "signed":
                    said.append((int(frame.type), msgspec.msgpack.decode(value["said"])))
            elif frame.type is FrameType.INTEREST:
                updates.append(msgspec.msgpack.decode(frame.body, type=InterestUpdate))
    assert said
    assert updates
    return said, updates
