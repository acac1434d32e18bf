"""Mirrors of a connection follow the directory, without brokers."""

from __future__ import annotations

import asyncio
from typing import cast

from mangrove.broker.client_connection import BrokerAwayError, ClientConnection, ClientConnectionOwner
from mangrove.client.legs import Legs
from mangrove.client.message import Respond
from mangrove.client.migration.paused_wire import PublishingWire
from mangrove.client.mirroring.mirroring import Mirroring
from mangrove.client.mirroring.pulse import TICK_S
from mangrove.client.subscription import Subscription
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.topics import Mirror


class Subscribed:
    """A subscription as far as mirrors know it."""

    queue = ""

    def __init__(self, subject: str) -> None:
        self.subject = subject

    def mirror(self) -> None:
        """It is heard twice."""


class Domain:
    """A directory, and mirrors that are all away."""

    def __init__(self) -> None:
        self.directory: dict[str, DirectoryRecord] = {}
        self.tried: list[str] = []
        respond = cast("Respond", None)
        self.mirroring = Mirroring(
            Legs(respond),
            respond,
            cast("ClientConnection", object()),
            b"%d-%d",
            terms=(),
            directory=self.directory,
            url_of=lambda broker: f"nats://{broker}",
            open_=self._open,
            route=self._route,
            suspect=lambda broker, why: None,
            name_of=lambda wire: "head",
        )

    async def _open(self, url: str, owner: ClientConnectionOwner) -> ClientConnection:
        self.tried.append(url)
        raise BrokerAwayError("away")

    def _route(self, subject: str, wire: PublishingWire) -> None:
        """Nothing is published."""

    def mirror(self, topic: str) -> DirectoryRecord:
        """It has a mirror from now on."""
        record = DirectoryRecord(
            topic=topic, domain="here", epoch=1, edges=("e1",), mirror="e2", mode=Mirror.STANDBY
        )
        self.directory[topic] = record
        return record

    def withdraw(self, topic: str) -> DirectoryRecord:
        """Nobody says anything of it any more."""
        del self.directory[topic]
        return DirectoryRecord(topic=topic, domain="here", epoch=2)


async def test_a_topic_of_which_nothing_is_said_any_more_has_no_mirror() -> None:
    domain = Domain()
    domain.mirror("a.b")
    domain.mirroring.records_changed(domain.directory.values())
    subscription = cast("Subscription", Subscribed("a.b"))
    domain.mirroring.subscribed(subscription)
    domain.mirroring.published("a.b")
    assert domain.mirroring.states()["a.b"].mirrors == ("e2",)
    domain.mirroring.records_changed([domain.withdraw("a.b")])
    assert domain.mirroring.states()["a.b"].mirrors == ()
    await domain.mirroring.close()


async def test_nothing_brings_mirrors_back_once_a_connection_is_closed() -> None:
    domain = Domain()
    domain.mirror("a.b")
    mirroring = domain.mirroring
    mirroring.records_changed(domain.directory.values())
    mirroring.published("a.b")
    await asyncio.sleep(0)
    assert domain.tried == ["nats://e2"]
    await mirroring.close()
    mirroring.ended(cast("Subscription", Subscribed("a.b")))
    mirroring.published("a.b")
    mirroring.subscribed(cast("Subscription", Subscribed("a.b")))
    mirroring.records_changed([domain.mirror("a.b")])
    await asyncio.sleep(2 * TICK_S)
    assert domain.tried == ["nats://e2"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
