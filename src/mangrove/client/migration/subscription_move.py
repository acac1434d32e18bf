"""Carries out the hand-over of one subscription: subscribes, publishes markers, delivers, leaves."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import secrets
from collections.abc import Awaitable, Callable

from mangrove.broker.client_connection import BrokerAwayError, ClientConnection
from mangrove.broker.message_ids import identity_of
from mangrove.client.legs import Leg, Legs
from mangrove.client.message import Message, size_of
from mangrove.client.migration.hand_over import HandOver, Stage
from mangrove.client.migration.in_order import InOrder, Marker, marker_payload
from mangrove.client.migration.leg import Key, Origin
from mangrove.client.subscription import Subscription
from mangrove.model.subjects import MOVE_PREFIX

FIRST_MARKERS_S = 0.002
MAX_BETWEEN_MARKERS_S = 0.05
GROWTH = 1.5
DIGEST_BYTES = 16

InForce = Callable[[], Awaitable[float]]
"""Waits until a subscription in another domain is in force; for how long OLD is still waited for then."""


def key_of(message: Message) -> Key:
    """What a message is recognised by when it comes a second time."""
    head = message.head if isinstance(message.head, bytes) else b""
    identity = identity_of(head) if head else None
    if identity is not None:
        return f"{message.subject} {identity.decode(errors='replace')}"
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in (message.subject.encode(), message.reply.encode(), head):
        digest.update(len(part).to_bytes(4))
        digest.update(part)
    digest.update(message.data)
    return digest.digest()


class SubscriptionMove:
    """One subscription on its way; `run` it once."""

    def __init__(
        self,
        subscription: Subscription,
        legs: Legs,
        head: ClientConnection,
        target: ClientConnection,
        *,
        in_force: InForce | None = None,
        group: str = "",
    ) -> None:
        """With `in_force` the target is in another domain, to which markers do not go.

        The `group` tells the target's broker what the subscription selects.
        """
        self.subscription = subscription
        old = legs.of(subscription)
        assert old is not None, "a subscription that is served"
        self._loop = asyncio.get_running_loop()
        self._legs = legs
        self._old = old
        self._in_force = in_force
        self._group = group
        self._wires = {Origin.HEAD: head, Origin.OLD: old.wire, Origin.NEW: target}
        self._marker_subject = f"{MOVE_PREFIX}{secrets.token_hex(8)}"
        self.hand_over: HandOver[Message] = HandOver(
            key_of, size_of, self._loop.time(), markers=in_force is None
        )
        self._from_old = InOrder(old.wire, legs.message, self._old_brought)
        self._from_new = InOrder(target, legs.message, self._new_brought)
        self._new: Leg | None = None
        self._left = False
        self._stage = Stage.ENTERING
        self._changed = asyncio.Event()

    @property
    def target(self) -> ClientConnection:
        """Where it goes."""
        return self._wires[Origin.NEW]

    async def run(self) -> None:
        """Until the subscription is served at its new place, or stays; cancelled, it stays where it is."""
        try:
            self._begin()
            if self._in_force is not None:
                self.hand_over.in_force(await self._in_force(), self._loop.time())
            await self._drive()
        except (BrokerAwayError, TimeoutError) as error:
            self.hand_over.give_up(str(error))
            self._look()
        finally:
            self._end()

    def lost(self, wire: ClientConnection) -> None:
        """A connection has lost its broker."""
        if wire is self._old.wire:
            self._deliver(self.hand_over.old_lost(self._loop.time()))
        if wire is self.target:
            self.hand_over.new_lost()
        self._look()

    def _begin(self) -> None:
        """Markers are subscribed to behind the subject itself: what they bring about comes behind it."""
        if self._in_force is None:
            self._from_old.listen(self._marker_subject)
        self._from_old.take_over(self._old.handle)
        handle = self._from_new.subscribe(self.subscription.subject, self._group)
        self._new = Leg(self.target, handle)
        if self._in_force is None:
            self._from_new.listen(self._marker_subject)

    async def _drive(self) -> None:
        between_s = FIRST_MARKERS_S
        while not self.hand_over.done:
            before = self.hand_over.stage
            if self.hand_over.wants_markers:
                self._publish_markers()
            self._changed.clear()
            try:
                async with asyncio.timeout(between_s):
                    await self._changed.wait()
            except TimeoutError:
                between_s = min(between_s * GROWTH, MAX_BETWEEN_MARKERS_S)
            if self.hand_over.stage is not before:
                between_s = FIRST_MARKERS_S
            self._deliver(self.hand_over.handle_timer(self._loop.time()))
            self._look()

    def _publish_markers(self) -> None:
        number = self.hand_over.next_number()
        for origin in self.hand_over.origins:
            wire = self._wires[origin]
            if wire.connected:
                wire.publish(self._marker_subject, marker_payload(origin, number))

    def _old_brought(self, came: list[Message | Marker]) -> None:
        self._brought(came, self.hand_over.old, self.hand_over.old_marker)

    def _new_brought(self, came: list[Message | Marker]) -> None:
        self._brought(came, self.hand_over.new, self.hand_over.new_marker)

    def _brought(
        self,
        came: list[Message | Marker],
        take: Callable[[list[Message], float], list[Message]],
        mark: Callable[[Origin, int, float], list[Message]],
    ) -> None:
        now = self._loop.time()
        due: list[Message] = []
        for are_markers, run in itertools.groupby(came, lambda each: isinstance(each, Marker)):
            if are_markers:
                for marker in run:
                    assert isinstance(marker, Marker)
                    due += mark(marker.origin, marker.number, now)
            else:
                due += take([each for each in run if isinstance(each, Message)], now)
        self._deliver(due)
        self._look()

    def _deliver(self, messages: list[Message]) -> None:
        if messages:
            self.subscription.feed(messages, sum(map(size_of, messages)))

    def _look(self) -> None:
        """Do what the stage wants; OLD is left as soon as that may be."""
        stage = self.hand_over.stage
        if stage in (Stage.SETTLING, Stage.MOVED) and not self._left and self._new is not None:
            self._left = True
            self._from_old.end()
            self._old.end()
            self._legs.adopt(self.subscription, self._new)
        if stage is not self._stage:
            self._stage = stage
            self._changed.set()

    def _end(self) -> None:
        """Whatever happened, one leg serves straight, and the other is gone."""
        self._from_old.end()
        self._from_new.end()
        if self._left:
            present = self._legs.of(self.subscription)
            if present is not None and present is self._new:
                self._legs.settle(self.subscription, present)
        else:
            if self._new is not None:
                self._new.end()
            if self._legs.of(self.subscription) is self._old:
                self._legs.settle(self.subscription, self._old)
