"""The feed of a real federation with keys: the same as `mangrove status`, and failures within moments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.kit.ports import PortBlocks
from tests.kit.waiting import eventually

from mangrove.agent.inspection import inspect
from mangrove.broker.nats.monitoring import fetch
from mangrove.config import parse_federation
from mangrove.model.status import FederationStatus, LinkStatus
from mangrove.monitor.feed.live_feed import LiveFeed
from mangrove.monitor.feed.source import Given, OnThisMachine
from mangrove.testbed.local_federation import LocalFederation

PAIR = """
federation: pair
domains:
  here:  {edges: 1, health_port: HEALTH}
  there: {edges: 0}
links:
  - {between: [here, there]}
"""


@pytest.fixture
def blocks() -> Iterator[PortBlocks]:
    with PortBlocks() as found:
        yield found


def shape(status: FederationStatus) -> object:
    """All that does not change from one moment to the next."""
    return [
        (
            each.domain,
            [(broker.name, broker.role, broker.url, broker.reachable) for broker in each.brokers],
            each.gateway is not None and [(link.peer, link.up, link.secured) for link in each.gateway.links],
            each.agent is not None and (each.agent.agent, each.agent.leads, each.agent.term),
            each.agent_expected,
            each.hosts,
            each.loss_of_a_host,
        )
        for each in status.domains
    ]


def link(status: FederationStatus | None) -> LinkStatus | None:
    gateway = None if status is None else status.domains[0].gateway
    return None if gateway is None else gateway.links[0]


async def tells_its_health(port: int, process: str) -> None:
    """A process is alive and ready, and what it counts can be read by a collector."""
    url = f"http://127.0.0.1:{port}"
    alive = await fetch(f"{url}/healthz")
    assert alive is not None
    assert msgspec.json.decode(alive) == {"process": process, "alive": True}

    async def ready() -> bool:
        return await fetch(f"{url}/readyz") is not None

    await eventually(ready, f"{process} should be ready")
    counted = await fetch(f"{url}/metrics")
    assert counted is not None
    found = list(text_string_to_metric_families(counted.decode()))
    assert found
    domains = {sample.labels.get("domain") for family in found for sample in family.samples}
    assert domains - {None} == {"here"}


async def test_a_feed_follows_a_secured_federation_from_before_it_runs_until_after(
    tmp_path: Path, blocks: PortBlocks
) -> None:
    run = tmp_path / "pair"
    health = blocks.take()
    federation = parse_federation(PAIR.replace("HEALTH", str(health)), "pair").require()
    async with LiveFeed(OnThisMachine(run_dir=run)) as feed:
        await feed.changed(0, timeout_s=5)
        assert "no federation runs" in feed.snapshot.problem
        async with (
            LocalFederation(federation, run, secured=True, ephemeral=True) as launched,
            LiveFeed(Given(launched.runtime())) as elsewhere,
        ):

            async def same() -> bool:
                status = feed.snapshot.status
                return status is not None and shape(status) == shape(await inspect(launched.runtime()))

            await eventually(same, "the feed should say what `mangrove status` says")
            for which, process in ((0, "host here"), (1, "gateway-here"), (3, "here-agent")):
                await tells_its_health(health + which, process)
            await launched.reshape("here", "there", black_hole=True)

            async def failed() -> bool:
                found = link(feed.snapshot.status)
                return found is not None and not found.up

            await eventually(failed, "the failed link should be shown")

            async def told() -> bool:
                return any(event.kind == "LinkFailed" for event in feed.events())

            await eventually(told, "the story should be known")
            failure = next(event for event in feed.events() if event.kind == "LinkFailed")
            assert failure in feed.story(failure.id)
            assert feed.events(until=failure.at - 0.001) == feed.events()[: feed.events().index(failure)]

            async def told_elsewhere() -> bool:
                found = {event.domain for event in elsewhere.events() if event.kind == "LinkFailed"}
                return found == {"here", "there"}

            await eventually(told_elsewhere, "events should reach who knows of no directory")
            assert failure in elsewhere.story(failure.id)

        async def ended() -> bool:
            return feed.snapshot.runtime is None

        await eventually(ended, "the end of the federation should be told")
        assert "no federation runs" in feed.snapshot.problem
        assert msgspec.json.encode(feed.snapshot), "what is shown can be sent"
