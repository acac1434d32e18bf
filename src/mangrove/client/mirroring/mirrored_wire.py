"""Publishes at a primary broker and at mirrors; whoever publishes sees one connection."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Container, Iterable
from typing import Protocol

from mangrove.broker.client_connection import BrokerAwayError, ClientConnection, Outlet
from mangrove.client.migration.paused_wire import PublishingWire
from mangrove.client.mirroring.window import Said, Window
from mangrove.model.shared_names import MIRROR_PREFIX

PATIENCE_S = 0.01
"""A primary that takes nothing for so long is not waited for while a mirror takes everything."""
GO_ON_S = 0.5
"""After so long it is known whether it answers, and it is waited for again if it does."""


class MirroredTopic:
    """One published subject: the ways of its second copies that are in use at the moment."""

    def __init__(self, subject: str, window: Window, head_form: bytes = b"") -> None:
        self.subject = subject
        self.window = window
        self.head_form = head_form
        self.wires: list[ClientConnection] = []
        """To mirrors that are in use."""
        self.twins: dict[ClientConnection, Outlet] = {}
        """Those of them that have heard all that was said of late; the others hear it from the window."""
        self.last: Said | None = None
        """What was published last."""
        self.primary_away = 0
        """Messages that a mirror alone took."""


class Suspicion(Protocol):
    """Who knows which brokers do not answer."""

    def silent(self, wire: object) -> bool:
        """Whether a connection's broker is taken for dead."""


class MirroredOutlet:
    """See `Outlet`. A message is published if either way takes it."""

    __slots__ = ("_keep", "_primary", "_topic", "messages", "size_bytes")

    def __init__(self, primary: Outlet, topic: MirroredTopic) -> None:
        self._primary = primary
        self._topic = topic
        self._keep = topic.window.keep
        self.messages = 0
        self.size_bytes = 0

    def publish(self, payload: bytes, first: int, second: int) -> None:
        """Publish with these numbers in the head, the same on every way."""
        topic = self._topic
        taken = len(topic.twins) < len(topic.wires)
        for twin in topic.twins.values():
            with contextlib.suppress(BrokerAwayError):
                twin.publish(payload, first, second)
                taken = True
        try:
            self._primary.publish(payload, first, second)
        except BrokerAwayError:
            if not taken:
                raise
            topic.primary_away += 1
        topic.last = said = Said(second, topic.subject, payload, first)
        self._keep(said)
        self.messages += 1
        self.size_bytes += len(payload)


class MirroredWire:
    """See `PublishingWire`: the primary's, with a topic's mirrors beside it."""

    def __init__(self, primary: PublishingWire, topic: MirroredTopic, suspicion: Suspicion) -> None:
        self.primary = primary
        self._topic = topic
        self._suspicion = suspicion
        self._go_on_until = 0.0

    @property
    def _trusted(self) -> bool:
        """Whether the primary is to be waited for: not if it is silent and a mirror is there."""
        return not self._topic.wires or not self._suspicion.silent(self.primary)

    @property
    def connected(self) -> bool:
        """Whether either way leads to a broker that is there."""
        return self.mirrored or self.primary.connected

    @property
    def mirrored(self) -> bool:
        """Whether a mirror takes what is published."""
        return bool(self._topic.wires)

    @property
    def full(self) -> bool:
        """Whether publishers should wait for `drained`."""
        if self.primary.full and time.monotonic() >= self._go_on_until and self._trusted:
            return True
        return any(wire.full for wire in self._topic.wires)

    @property
    def max_payload(self) -> int:
        """The largest message that is taken."""
        return self.primary.max_payload

    async def drained(self) -> None:
        """Wait for room; for a primary's only as long as it may merely be busy, if a mirror is there.

        A primary that freezes takes no more long before it is known to be silent. What is published meanwhile
        waits for it in the bounded buffer of its connection, and the mirror has it in time.
        """
        for wire in [each for each in self._topic.wires if each.full]:
            await wire.drained()
        if not (self.primary.full and self._trusted):
            await asyncio.sleep(0)
            return
        waiting = asyncio.ensure_future(self.primary.drained())
        try:
            while self._trusted:  # a mirror that stands by may be taken into use meanwhile
                await asyncio.wait([waiting], timeout=PATIENCE_S)
                if waiting.done():
                    return
                if self._topic.wires:
                    self._go_on_until = time.monotonic() + GO_ON_S
                    return
        finally:
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting

    async def flush(self, timeout_s: float) -> None:
        """Wait until either way has taken all that was published."""
        ways = [self.primary.flush(timeout_s), *(wire.flush(timeout_s) for wire in self._topic.wires)]
        await first_success(asyncio.ensure_future(way) for way in ways)

    def publish(self, subject: str, payload: bytes, *, reply: str = "", head: bytes = b"") -> None:
        """Publish; what asks for a reply goes to the primary alone, or it would be answered twice."""
        taken = False
        topic = self._topic
        if not reply:
            taken = len(topic.twins) < len(topic.wires)
            for wire in topic.twins:
                with contextlib.suppress(BrokerAwayError):
                    wire.publish(MIRROR_PREFIX + subject, payload, head=head)
                    taken = True
            topic.last = Said(time.time_ns(), subject, payload, 0, head)
            topic.window.keep(topic.last)
        try:
            self.primary.publish(subject, payload, reply=reply, head=head)
        except BrokerAwayError:
            if not taken:
                raise
            topic.primary_away += 1

    def recall(self, subjects: Container[bytes]) -> None:
        """Forget what waits for the primary; mirrors that are away have nothing that waits."""
        self.primary.recall(subjects)

    def abandon(self, reason: str) -> None:
        """Whether the primary is dead is judged by its pulse."""

    def outlet(self, subject: str, head_form: bytes) -> Outlet:
        """A quick way to publish on the subject."""
        return MirroredOutlet(self.primary.outlet(subject, head_form), self._topic)


async def first_success(ways: Iterable[asyncio.Future[None]]) -> None:
    """Wait for the first that succeeds; if none does, raise what the first of them raised."""
    futures = list(ways)
    try:
        waiting = set(futures)
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if any(future.exception() is None for future in done):
                return
        futures[0].result()
    finally:
        for future in futures:
            future.cancel()
        await asyncio.gather(*futures, return_exceptions=True)
