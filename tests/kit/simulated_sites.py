"""Many sites that only say how they are: gateways by their status streams alone, on one real broker.

Everything is made from a seed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from tests.kit.management_broker import ManagementBroker, management_broker

from mangrove.host.status_publisher import StatusPublisher
from mangrove.model.endpoints import BrokerEndpoints, Runtime, fixed_endpoints
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.hosting.broker_status import BrokerStatus
from mangrove.model.hosting.supervision import HostAnswer, HostGreeting
from mangrove.model.status import Arrival, GatewayStatus, LinkStatus, RouteStatus
from mangrove.model.stream.messages import GATEWAY_PART, TOPICS_PART, host_part
from mangrove.model.topic_counts import TopicTally, TopicTotals
from mangrove.model.topics import Contract, TopicRules

CONTRACTS = 10
SPREAD = 5
"""Each topic is carried by every fifth site."""


def simulated_federation(sites: int, links: int, seed: int = 1) -> Federation:
    """Sites all over the world: a ring, and chords between sites chosen by lot."""
    lot = random.Random(seed)
    names = [f"site{number:02d}" for number in range(sites)]
    pairs = {tuple(sorted((names[n], names[(n + 1) % sites]))) for n in range(sites)}
    while len(pairs) < min(links, sites * (sites - 1) // 2):
        pairs.add(tuple(sorted(lot.sample(names, 2))))
    return Federation(
        name="world",
        domains={
            name: Domain(name=name, base_port=1024, location=(lot.uniform(-55, 70), lot.uniform(-180, 180)))
            for name in names
        },
        links=tuple(Link(between=(first, second)) for first, second in sorted(pairs)),
        topics=TopicRules(
            contracts=tuple(
                Contract(match=f"area{number}.>", deadline_ms=100.0 + number) for number in range(CONTRACTS)
            )
        ),
    )


class SimulatedSite:
    """What one site says of itself; each look finds other figures."""

    def __init__(self, federation: Federation, domain: str, topics: int, seed: int) -> None:
        self._lot = random.Random(f"{seed} {domain}")
        self._federation = federation
        self.domain = domain
        self.peers = [link.other(domain) for link in federation.links_of(domain)]
        self.down: set[str] = set()
        """Neighbours to which the link is down."""
        self.looks = 0
        first = [*federation.domains].index(domain) % SPREAD
        self._topics = {
            f"area{n % CONTRACTS}.topic{n:04d}": self._lot.randrange(1000)
            for n in range(first, topics, SPREAD)
        }

    def publisher(self) -> StatusPublisher:
        return StatusPublisher(
            self.domain,
            {GATEWAY_PART: self._gateway, TOPICS_PART: self._totals, host_part(""): self._host},
        )

    async def _gateway(self) -> GatewayStatus:
        self.looks += 1
        others = [name for name in self._federation.domains if name != self.domain][:CONTRACTS]
        return GatewayStatus(
            domain=self.domain,
            epoch=1,
            uptime_s=float(self.looks),
            head_connected=True,
            links=tuple(self._link(peer) for peer in self.peers),
            interest={},
            subscribed=0,
            sent=self.looks * 100,
            delivered=self.looks * 100,
            duplicates=0,
            colour=0,
            failed_links=(),
            parked_bytes=0,
            routes=tuple(
                RouteStatus(
                    topic=f"area{n}.>",
                    destination=other,
                    path=(self.domain, other),
                    active=True,
                    predicted_ms=20.0,
                    deadline_ms=100.0 + n,
                )
                for n, other in enumerate(others)
            ),
            arrivals=tuple(
                Arrival(
                    origin=other,
                    topic=f"area{n}.>",
                    observed_ms=self._lot.uniform(10, 120),
                    deadline_ms=100.0 + n,
                    late=self.looks,
                )
                for n, other in enumerate(others)
            ),
            drops=(),
        )

    def _link(self, peer: str) -> LinkStatus:
        up = peer not in self.down
        return LinkStatus(
            peer=peer,
            up=up,
            state="up" if up else "down",
            rtt_ms=self._lot.uniform(5, 80),
            jitter_ms=self._lot.uniform(0, 3),
            dead_interval_ms=200.0,
            clock_offset_ms=0.0,
            clock_error_ms=1.0,
            failures=len(self.down),
            availability=1.0,
            waits_ms={},
            unacknowledged=0,
            queued_bytes=self._lot.randrange(10_000),
            loss_ratio=0.0,
            frames_out=self.looks * 10,
            frames_in=self.looks * 10,
            bytes_out=self.looks * 100_000,
            bytes_in=self.looks * 100_000,
            reconnects=0,
        )

    async def _totals(self) -> TopicTotals:
        for topic in self._lot.sample([*self._topics], len(self._topics) // 4):
            self._topics[topic] += self._lot.randrange(50)
        tally = TopicTally(topics=dict(self._topics))
        return TopicTotals(
            domain=self.domain, epoch=1, uptime_s=float(self.looks), sent=tally, delivered=tally
        )

    async def _host(self) -> HostAnswer:
        names = (("head", "head"), ("management", "management"))
        return HostAnswer(
            greeting=HostGreeting(host="", digest="", started_at=0.0),
            brokers=tuple(
                BrokerStatus(
                    name=f"{self.domain}-{name}",
                    role=role,
                    url="nats://127.0.0.1:1",
                    reachable=True,
                    messages_in=self.looks * 100,
                )
                for name, role in names
            ),
        )


class SimulatedSites:
    """All of them, and the runtime by which a feed finds them."""

    def __init__(self, runtime: Runtime, sites: dict[str, SimulatedSite], broker: ManagementBroker) -> None:
        self.runtime = runtime
        self.sites = sites
        self.broker = broker


@asynccontextmanager
async def simulated_sites(
    directory: Path, *, sites: int = 50, links: int = 200, topics: int = 2_000, seed: int = 1
) -> AsyncIterator[SimulatedSites]:
    """Sites that speak as soon as somebody listens."""
    federation = simulated_federation(sites, links, seed)
    async with management_broker(directory) as broker:
        port = int(broker.url.rpartition(":")[2])
        made = {name: SimulatedSite(federation, name, topics, seed) for name in federation.domains}
        endpoints = {}
        for name, domain in federation.domains.items():
            found = fixed_endpoints(domain)
            management = BrokerEndpoints(name=f"{name}-management", host="127.0.0.1", client_port=port)
            endpoints[name] = msgspec.structs.replace(found, managements=(management,))
        connection = await broker.connect()
        telling = []
        for site in made.values():
            publisher = site.publisher()
            await publisher.subscribe(connection)
            telling.append(asyncio.create_task(publisher.deliver(connection)))
        try:
            yield SimulatedSites(Runtime(federation=federation, domains=endpoints, pid=0), made, broker)
        finally:
            for task in telling:
                task.cancel()
            await asyncio.wait(telling)
