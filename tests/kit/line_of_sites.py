"""Sites in a line with keys: one broker of somebody else's each, and real gateways, without agents."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec
import nats
from nats.aio.client import Client
from tests.kit.waiting import eventually

from mangrove.broker.nats.server import nats_server
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.making import make_keys
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.events.event_log import read_event
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.gateway_settings import Call, GatewaySettings
from mangrove.model.shared_names import GATEWAY_READY
from mangrove.model.topics import TopicRules
from mangrove.overlay.events.happenings import KINDS

HOST = "127.0.0.1"
PROBE = b"?"


@dataclass(frozen=True)
class LineSite:
    """One of the sites."""

    url: str
    gateway: ManagedProcess
    events_path: Path

    @property
    def gateway_pid(self) -> int:
        assert self.gateway.pid is not None
        return self.gateway.pid

    def story(self) -> list[str]:
        lines = self.events_path.read_bytes().splitlines() if self.events_path.exists() else []
        events = [read_event(line, KINDS) for line in lines]
        return [event.happening.sentence() for event in events if event is not None]


class LineOfSites(dict[str, LineSite]):
    """Sites by name, in their order."""

    def __init__(self, keys: Path) -> None:
        self.key_directory = keys

    async def leads(self, publisher: Client, subscriber: Client, subject: str) -> None:
        """Wait until a probe arrives: then interest has spread, also that of earlier subscriptions."""
        heard = await subscriber.subscribe(subject)

        async def arrived() -> bool:
            await publisher.publish(subject, PROBE)
            await asyncio.sleep(0.02)
            return heard.pending_msgs > 0

        await eventually(arrived, f"{subject} should arrive")
        await heard.unsubscribe()


@asynccontextmanager
async def line_of_sites(
    directory: Path, names: tuple[str, ...], topics: TopicRules
) -> AsyncIterator[LineOfSites]:
    """Each site linked with the next; keys for links and bodies alone."""
    federation = Federation(
        name="line",
        domains={name: Domain(name=name, base_port=1) for name in names},
        links=tuple(Link(between=pair) for pair in pairwise(names)),
        topics=topics,
    )
    line = LineOfSites(directory / "keys")
    await asyncio.to_thread(make_keys, federation, line.key_directory)
    async with AsyncExitStack() as stack:
        ports = stack.enter_context(PortReservation())
        starting: list[ManagedProcess] = []
        gates = {name: ports.take(HOST) for name in names}
        for name in names:
            client, leaf = ports.take(HOST), ports.take(HOST)
            config = (
                f'server_name: {name}\nlisten: "{HOST}:{client}"\nleafnodes {{ listen: "{HOST}:{leaf}" }}\n'
            )
            below = directory / name
            settings = GatewaySettings(
                federation=federation,
                domain=name,
                head_urls=(f"nats-leaf://{HOST}:{leaf}",),
                head_is_ours=False,
                listen=(Address(HOST, gates[name]),),
                calls=tuple(
                    Call(peer, (Address(HOST, gates[peer]),))
                    for peer in (link.other(name) for link in federation.links_of(name))
                    if name < peer
                ),
                events_path=str(below / "events"),
                keys=str(KeyDirectory(line.key_directory).domain(name).path),
            )
            run = RunDirectory(below)
            broker = nats_server("head", config, below)
            path = run.settings("gateway")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(msgspec.json.encode(settings))
            gateway = ManagedProcess(
                "gateway",
                [sys.executable, "-m", "mangrove.gateway.daemon", str(path)],
                log_path=run.log("gateway"),
                ready_text=GATEWAY_READY,
            )
            starting += [broker, gateway]
            line[name] = LineSite(f"nats://{HOST}:{client}", gateway, below / "events")
        for process in starting:
            stack.push_async_callback(process.stop)
        await asyncio.gather(*(process.start() for process in starting))
        yield line


@asynccontextmanager
async def client_at(site: LineSite) -> AsyncIterator[Client]:
    """A client of a site's broker."""
    client = await nats.connect(site.url)
    yield client
    await client.close()
