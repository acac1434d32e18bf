"""Where each subscription is served: a connection, and the subscription there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from mangrove.broker.client_connection import BrokerAwayError, ClientConnection, Sink, Subscribed
from mangrove.client.message import Message, Respond
from mangrove.client.subscription import Subscription
from mangrove.model.shared_names import MIRROR_PREFIX
from mangrove.model.subjects import MOVE_PREFIX

_NOT_MEANT = (MOVE_PREFIX, MIRROR_PREFIX)
"""Subjects that a pattern matches and nobody subscribes to by it."""


class Leg(NamedTuple):
    """A subscription at one connection."""

    wire: ClientConnection
    handle: Subscribed

    async def in_force(self, timeout_s: float) -> None:
        """Wait until a broker has taken the subscription, also if one is lost meanwhile.

        NotAllowedError if it does not take it.
        """
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    await self.wire.flush(timeout_s)
                except BrokerAwayError:
                    if self.wire.closed:
                        raise
                else:
                    break
        denial = self.wire.denial(self.handle)
        if denial is not None:
            raise denial.error

    def end(self) -> None:
        """Serve it no longer."""
        self.wire.unsubscribe(self.handle)


class Legs:
    """The legs of all subscriptions; while one is handed over its new leg is not here yet."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._legs: dict[Subscription, Leg] = {}

    def __contains__(self, subscription: Subscription) -> bool:
        return subscription in self._legs

    def __iter__(self) -> Iterator[Subscription]:
        return iter(list(self._legs))

    def of(self, subscription: Subscription) -> Leg | None:
        """Where a subscription is served; None once it has ended."""
        return self._legs.get(subscription)

    def served_by(self, handle: Subscribed) -> Subscription | None:
        """The subscription that a broker calls so."""
        return next((each for each, leg in self._legs.items() if leg.handle is handle), None)

    def at(self, wire: ClientConnection) -> list[Subscription]:
        """The subscriptions that a connection serves."""
        return [subscription for subscription, leg in self._legs.items() if leg.wire is wire]

    def serve(self, subscription: Subscription, wire: ClientConnection) -> Leg:
        """Serve a new subscription from a connection."""
        handle = wire.subscribe(
            subscription.subject,
            sink_of(subscription),
            queue=subscription.new_group(),
            form=Message,
            origin=self._respond,
        )
        leg = self._legs[subscription] = Leg(wire, handle)
        return leg

    def adopt(self, subscription: Subscription, leg: Leg) -> None:
        """A subscription has another leg now, from which somebody still hands its messages over."""
        if subscription in self._legs:
            self._legs[subscription] = leg
        else:  # it has ended meanwhile
            leg.end()

    def settle(self, subscription: Subscription, leg: Leg) -> None:
        """From here on a subscription is served from this leg, and straight."""
        self._legs[subscription] = leg
        leg.wire.redirect(leg.handle, sink_of(subscription), form=Message, origin=self._respond)

    def end(self, subscription: Subscription) -> None:
        """Serve a subscription no longer."""
        leg = self._legs.pop(subscription, None)
        if leg is not None:
            leg.end()

    def message(self, subject: str, data: bytes, head: bytes, reply: str) -> Message:
        """A message as subscribers see it."""
        return Message(subject, data, head, reply, self._respond)


def sink_of(subscription: Subscription) -> Sink:
    """Where the messages of a subscription go; patterns that begin with a wildcard get no markers, and
    no second copies that happen to come to the same broker."""
    if not subscription.subject.startswith(("*", ">")):
        return subscription.feed

    def feed(messages: list[Message], size_bytes: int) -> None:
        subscription.feed([m for m in messages if not m.subject.startswith(_NOT_MEANT)], size_bytes)

    return feed
