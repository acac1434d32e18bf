"""Two domains of real brokers with real gateways, without agents: any broker may succeed those before it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from time import monotonic

import msgspec
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.kit.waiting import eventually

from mangrove.broker.nats.server import nats_server
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.gateway_settings import Call, GatewaySettings
from mangrove.model.shared_names import GATEWAY_READY, ID_HEADER, MIRROR_PREFIX, gateway_status_subject
from mangrove.model.status import GatewayStatus
from mangrove.model.topics import TopicRules

HOST = "127.0.0.1"
BROKERS = ("head", "edge1", "edge2")
NOT_UP = GatewayStatus(
    domain="",
    epoch=0,
    uptime_s=0,
    head_connected=False,
    links=(),
    interest={},
    subscribed=0,
    sent=0,
    delivered=0,
    duplicates=0,
    colour=0,
    failed_links=(),
    parked_bytes=0,
    routes=(),
    arrivals=(),
    drops=(),
)
MIRRORS = f"{MIRROR_PREFIX}>"


class Site:
    """One domain: what runs there, and where."""

    def __init__(self, domain: str, ports: PortReservation) -> None:
        self.domain = domain
        self.client = {broker: ports.take(HOST) for broker in BROKERS}
        self.leaf = {broker: ports.take(HOST) for broker in BROKERS}
        self.management = ports.take(HOST)
        self.gate = ports.take(HOST)
        self.processes: dict[str, ManagedProcess] = {}

    def url(self, broker: str) -> str:
        return f"nats://{HOST}:{self.client[broker]}"

    def leaf_url(self, broker: str) -> str:
        return f"nats-leaf://{HOST}:{self.leaf[broker]}"

    def config(self, broker: str) -> str:
        before = BROKERS[: BROKERS.index(broker)]
        urls = ", ".join(f'"{self.leaf_url(each)}"' for each in before)
        remote = (
            f'urls: [{urls}], no_randomize: true, deny_imports: ["{MIRRORS}"], deny_exports: ["{MIRRORS}"]'
        )
        remotes = f"remotes: [ {{ {remote} }} ]" if before else ""
        return (
            f'server_name: {self.domain}-{broker}\nlisten: "{HOST}:{self.client[broker]}"\n'
            f'leafnodes {{ listen: "{HOST}:{self.leaf[broker]}"\n reconnect: "50ms"\n {remotes} }}\n'
            'ping_interval: "1s"\nping_max: 2\n'
        )

    def signal(self, process: str, number: int) -> None:
        pid = self.processes[process].pid
        assert pid is not None
        os.kill(pid, number)

    async def status(self) -> GatewayStatus:
        client = await nats.connect(f"nats://{HOST}:{self.management}")
        try:
            answer = await client.request(gateway_status_subject(self.domain), b"", timeout=1)
            return msgspec.json.decode(answer.data, type=GatewayStatus)
        except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
            return NOT_UP
        finally:
            await client.close()


@asynccontextmanager
async def two_sites(directory: Path, topics: TopicRules) -> AsyncIterator[dict[str, Site]]:
    """Domains `a` and `b`, one link between them."""
    async with AsyncExitStack() as stack:
        ports = stack.enter_context(PortReservation())
        sites = {domain: Site(domain, ports) for domain in "ab"}
        federation = Federation(
            name="two",
            domains={name: Domain(name=name, base_port=1) for name in "ab"},
            links=(Link(between=("a", "b")),),
            topics=topics,
        )
        for site in sites.values():
            below = directory / site.domain
            for broker in BROKERS:
                site.processes[broker] = nats_server(broker, site.config(broker), below)
            config = f'server_name: {site.domain}-m\nlisten: "{HOST}:{site.management}"\n'
            site.processes["management"] = nats_server("management", config, below)
            site.processes["gateway"] = _gateway(site, sites["b"], federation, below)
            for process in site.processes.values():
                await process.start()
                stack.push_async_callback(process.stop)
        for site in sites.values():
            await eventually(lambda site=site: joined(site), f"{site.domain} should be up")  # type: ignore[misc]
        yield sites


def _gateway(site: Site, callee: Site, federation: Federation, below: Path) -> ManagedProcess:
    settings = GatewaySettings(
        federation=federation,
        domain=site.domain,
        head_urls=tuple(map(site.leaf_url, BROKERS)),
        mirror_urls={edge: site.leaf_url(edge) for edge in BROKERS[1:]},
        management_urls=(f"nats://{HOST}:{site.management}",),
        listen=(Address(HOST, site.gate),),
        calls=(Call("b", (Address(HOST, callee.gate),)),) if site.domain == "a" else (),
    )
    run = RunDirectory(below)
    path = run.settings("gateway")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(settings))
    return ManagedProcess(
        "gateway",
        [sys.executable, "-m", "mangrove.gateway.daemon", str(path)],
        log_path=run.log("gateway"),
        ready_text=GATEWAY_READY,
    )


async def joined(site: Site) -> bool:
    """Whether the gateway of a site is attached everywhere, and linked."""
    status = await site.status()
    mirrors = all(status.mirroring.edges.values())
    return status.head_connected and mirrors and all(link.up for link in status.links)


async def at_head(site: Site) -> None:
    """A gateway does not go back to its head by itself; a new one begins there."""
    if (await site.status()).head_broker != f"{site.domain}-head":
        site.signal("gateway", signal.SIGKILL)

    async def there() -> bool:
        return (await site.status()).head_broker == f"{site.domain}-head" and await joined(site)

    await eventually(there, f"the gateway of {site.domain} should be at its head")


async def _quiet(_: Exception) -> None:
    """Brokers die in these tests."""


class Talk:
    """One publisher in `a` and one subscriber in `b`, on both planes as the SDK would be, or on one."""

    def __init__(self, sites: dict[str, Site], subject: str, *, mirrored: bool) -> None:
        self._a, self._b = sites["a"], sites["b"]
        self._subject = subject
        self._mirrored = mirrored
        self._clients: list[Client] = []
        self._ways_out: list[tuple[Client, str]] = []
        self._planes: set[str] = set()
        self._life = f"{int(monotonic() * 1e6) % 10**12:012d}"
        self.sent = 0
        self.arrived: dict[int, float] = {}
        """When the first copy of each message came."""

    async def _connect(self, site: Site, *brokers: str) -> Client:
        client = await nats.connect(
            servers=[site.url(broker) for broker in brokers],
            dont_randomize=True,
            reconnect_time_wait=0.02,
            max_reconnect_attempts=-1,
            error_cb=_quiet,
            pending_size=16 << 20,
        )
        self._clients.append(client)
        return client

    async def open(self) -> None:
        """The subscriber's primary is edge1, its mirror edge2; the publisher's are the head and edge2."""
        self._ways_out = [(await self._connect(self._a, *BROKERS), "")]
        await self._hear(await self._connect(self._b, "edge1", "edge2", "head"), "")
        if self._mirrored:
            self._ways_out.append((await self._connect(self._a, "edge2"), MIRROR_PREFIX))
            await self._hear(await self._connect(self._b, "edge2"), MIRROR_PREFIX)
        await eventually(self._through, "messages should go through on every plane")
        self.sent = 0
        self.arrived.clear()

    async def _hear(self, client: Client, prefix: str) -> None:
        async def came(message: Msg) -> None:
            self._planes.add(prefix)
            self.arrived.setdefault(int(message.data.split()[0]), monotonic())

        await client.subscribe(prefix + self._subject, cb=came)
        await client.flush()

    async def _through(self) -> bool:
        self._planes.clear()
        self.sent -= 1
        await self._publish()
        await asyncio.sleep(0.1)
        return len(self._planes) == len(self._ways_out)

    async def _publish(self) -> None:
        number = self.sent
        head = {ID_HEADER: f"{self._life}.{number % 16**11:011x}"}
        payload = b"%d %b" % (number, b"x" * 100)
        for client, prefix in self._ways_out:
            with contextlib.suppress(nats.errors.Error, OSError):
                await client.publish(prefix + self._subject, payload, headers=head)

    async def publish(self, rate_s: float, seconds: float, after_s: float, event: Callable[[], None]) -> None:
        """Publish at a rate for so long; something happens after some time."""
        began_at = monotonic()
        happened = False
        while (elapsed_s := monotonic() - began_at) < seconds:
            if not happened and elapsed_s >= after_s:
                event()
                happened = True
            while self.sent < elapsed_s * rate_s:
                self.sent += 1
                await self._publish()
            await asyncio.sleep(0.002)

    def missing(self) -> list[int]:
        return sorted(set(range(1, self.sent + 1)) - self.arrived.keys())

    def longest_gap_s(self) -> float:
        return max((later - before for before, later in pairwise(sorted(self.arrived.values()))), default=0.0)

    async def close(self) -> None:
        for client in self._clients:
            with contextlib.suppress(nats.errors.Error, OSError):
                await client.close()
