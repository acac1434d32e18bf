"""Feed and publishers over a real broker: as much as is listened to, and no more."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import msgspec
import nats.errors
import pytest
from tests.kit.management_broker import management_broker
from tests.kit.simulated_sites import simulated_sites
from tests.kit.waiting import eventually

from mangrove.host import status_publisher
from mangrove.host.event_stream.event_publisher import EventPublisher
from mangrove.host.status_publisher import StatusPublisher
from mangrove.model.events.event_log import Event, document
from mangrove.model.stream.events import events_subject
from mangrove.model.stream.messages import said_subject, watch_subject
from mangrove.model.topic_counts import TopicTotals
from mangrove.monitor.feed.live_feed import LiveFeed
from mangrove.monitor.feed.source import Given
from mangrove.overlay.events.happenings import LinkFailed


async def test_a_feed_has_what_all_sites_say(tmp_path: Path) -> None:
    async with (
        simulated_sites(tmp_path, sites=4, links=5, topics=30) as world,
        LiveFeed(Given(world.runtime)) as feed,
    ):
        site = world.sites["site01"]
        peer = site.peers[0]

        async def heard() -> bool:
            found = feed.snapshot
            return len(found.topics) == 4 and all(each.connected for each in found.presence.values())

        await eventually(heard, "all sites should be heard")
        status = feed.snapshot.status
        assert status is not None
        assert [each.domain for each in status.domains] == ["site00", "site01", "site02", "site03"]
        assert all(each.gateway is not None and each.gateway.links for each in status.domains)
        assert all(broker.reachable for each in status.domains for broker in each.brokers)
        site.down.add(peer)

        async def shown() -> bool:
            status = feed.snapshot.status
            assert status is not None
            gateway = status.domains[1].gateway
            return gateway is not None and any(not link.up for link in gateway.links)

        await eventually(shown, "the failed link should be shown")

        async def rates() -> bool:
            return bool(feed.snapshot.rates["site01"])

        await eventually(rates, "rates should be known")
        assert all(each.lost == 0 for each in feed.snapshot.presence.values())


async def test_nobody_is_spoken_to_who_does_not_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_publisher, "LEASE_S", 0.3)
    made = 0

    async def account() -> TopicTotals:
        nonlocal made
        made += 1
        return TopicTotals(domain="here", epoch=1, uptime_s=0.0)

    async with management_broker(tmp_path) as broker:
        speaker, listener = await broker.connect(), await broker.connect()
        publisher = StatusPublisher("here", {"topics": account}, period_s=0.25)
        await publisher.subscribe(speaker)
        telling = asyncio.create_task(publisher.deliver(speaker))
        heard = await listener.subscribe(said_subject("here"))
        await speaker.flush()
        await listener.publish(watch_subject("here"), b"garbage")

        async def told() -> bool:
            """So short a lease may have ended before its time on a busy machine: listeners ask again."""
            await listener.publish(watch_subject("here"), b'{"whole": ["*"]}')
            with contextlib.suppress(nats.errors.TimeoutError):
                return (await heard.next_msg(0.5)).subject == said_subject("here", "topics")
            return False

        await eventually(told, "who listens should be told")

        async def silent() -> bool:
            return not publisher.watched

        await eventually(silent, "the lease should end")
        await asyncio.sleep(0.3)
        before = made
        await asyncio.sleep(0.6)
        assert (made, publisher.ignored) == (before, 1), "without listeners no account is made"
        telling.cancel()
        await asyncio.wait([telling])


async def test_a_domain_that_falls_silent_is_away_and_stays_known(tmp_path: Path) -> None:
    async with (
        simulated_sites(tmp_path, sites=3, links=3, topics=3) as world,
        LiveFeed(Given(world.runtime)) as feed,
    ):

        async def connected() -> bool:
            return [each.connected for each in feed.snapshot.presence.values()] == [True] * 3

        await eventually(connected, "the sites should be heard")
        await world.broker.process.kill()

        async def away() -> bool:
            return not any(each.connected for each in feed.snapshot.presence.values())

        await eventually(away, "the sites should be away")
        presence = feed.snapshot.presence["site00"]
        assert presence.seen_at is not None
        assert presence.problem
        status = feed.snapshot.status
        assert status is not None
        assert status.domains[0].gateway is not None, "the last that was known stays"
        await world.broker.process.start()
        await eventually(connected, "and come back")


async def test_events_come_over_the_broker_as_they_are_written(tmp_path: Path) -> None:
    log = tmp_path / "elsewhere" / "site00.jsonl"
    log.parent.mkdir()

    def write(*numbers: int) -> None:
        with log.open("ab") as file:
            for number in numbers:
                event = Event(
                    id=f"site00-{number}",
                    at=float(number),
                    cause=None,
                    happening=LinkFailed(peer="site01", reason="silence"),
                )
                file.write(msgspec.json.encode(document(event)) + b"\n")

    write(*range(1, 2_501))
    async with simulated_sites(tmp_path / "broker", sites=3, links=3, topics=3) as world:
        speaker = await world.broker.connect()
        publisher = EventPublisher("site00", "", [log])
        await publisher.subscribe(speaker)
        telling = asyncio.create_task(publisher.deliver(speaker))
        asked = await speaker.request(events_subject("site00", ""), b"{}", timeout=5)
        assert len(asked.data) < 400_000, "a page is bounded"
        await speaker.publish(events_subject("site00", ""), b"garbage")
        async with LiveFeed(Given(world.runtime)) as feed:

            async def reached(number: int) -> bool:
                return [event.id for event in feed.events(last=1)] == [f"site00-{number}"]

            await eventually(lambda: reached(2_500), "all that was written should be told")
            assert len(feed.events(last=10_000)) == 2_500
            write(2_501)
            await eventually(lambda: reached(2_501), "and what is added")
            assert feed.events(last=1)[0].domain == "site00"
            await world.broker.process.kill()
            write(2_502)
            await world.broker.process.start()
            await eventually(lambda: reached(2_502), "also what was written while the broker was away")
            assert len(feed.events(last=10_000)) == 2_502
        assert publisher.ignored == 1
        telling.cancel()
        await asyncio.wait([telling])
