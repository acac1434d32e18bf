"""Statuses of a federation that does not run: large ones, to see whether those who look at them keep up."""

from __future__ import annotations

import random
from itertools import pairwise

from mangrove.model.agents.load import BrokerLoad, LoadState, Metric
from mangrove.model.agents.status import AgentStatus
from mangrove.model.federation import Domain, Edge, Federation, Link
from mangrove.model.hosting.broker_status import BrokerStatus
from mangrove.model.site_pair import SitePair, site_pair
from mangrove.model.status import (
    Arrival,
    DomainStatus,
    FederationStatus,
    GatewayStatus,
    LinkStatus,
    RouteStatus,
    WayStatus,
)
from mangrove.model.topics import Contract, TopicRules

EDGES = 3
DEADLINE_MS = 200.0


def invented_federation(sites: int, links: int, topics: int, seed: int = 1) -> Federation:
    """Sites all over the earth, in a ring with chords, and contracts of one literal topic each."""
    draw = random.Random(seed)
    names = [f"site{number:02}" for number in range(sites)]
    pairs = {site_pair(*pair) for pair in pairwise([*names, names[0]])}
    possible = sites * (sites - 1) // 2
    while len(pairs) < min(links, possible):
        first, second = draw.sample(names, 2)
        pairs.add(site_pair(first, second))
    return Federation(
        name="invented",
        domains={
            name: Domain(
                name=name,
                base_port=10_000 + 100 * number,
                location=(round(draw.uniform(-50, 65), 2), round(draw.uniform(-170, 170), 2)),
                edges=(Edge(),) * EDGES,
            )
            for number, name in enumerate(names)
        },
        links=tuple(Link(between=pair) for pair in sorted(pairs)[:links]),
        topics=TopicRules(
            tuple(
                Contract(match=f"plant{number % 50:02}.sensor{number:04}", deadline_ms=DEADLINE_MS, paths=2)
                for number in range(topics)
            )
        ),
    )


def invented_status(
    federation: Federation, *, tick: int, failed: frozenset[SitePair] = frozenset(), seed: int = 1
) -> FederationStatus:
    """All domains at a tick: counters grow with it, delays and loads vary a little."""
    draw = random.Random(f"{seed}.{tick}")
    names = list(federation.domains)
    by_source: dict[str, list[int]] = {name: [] for name in names}
    for number in range(len(federation.topics.contracts)):
        by_source[names[number % len(names)]].append(number)
    return FederationStatus(
        federation=federation.name,
        domains=tuple(
            DomainStatus(
                domain=name,
                brokers=_brokers(name, draw),
                gateway=_gateway(federation, names, name, by_source[name], tick, failed, draw),
                agent=_agent(name, draw),
                agent_expected=True,
            )
            for name in names
        ),
    )


def _destination(names: list[str], number: int) -> str:
    """Where a topic is subscribed to: never where it is published."""
    return names[(number + 1 + number // len(names) % max(1, len(names) - 1)) % len(names)]


def _gateway(
    federation: Federation,
    names: list[str],
    name: str,
    own: list[int],
    tick: int,
    failed: frozenset[SitePair],
    draw: random.Random,
) -> GatewayStatus:
    contracts = federation.topics.contracts
    place = names.index(name)
    arriving = [
        number
        for number in range(len(contracts))
        if number % len(names) != place and _destination(names, number) == name
    ]
    paths = {number: _paths(names, name, _destination(names, number)) for number in own}
    return GatewayStatus(
        domain=name,
        epoch=1,
        uptime_s=float(tick),
        head_connected=True,
        links=tuple(
            _link(link.other(name), link.pair in failed, tick, draw) for link in federation.links_of(name)
        ),
        interest={},
        subscribed=len(arriving),
        sent=tick * 100 * len(own),
        delivered=tick * 100 * len(arriving),
        duplicates=0,
        colour=1,
        failed_links=tuple(failed),
        parked_bytes=0,
        routes=tuple(
            RouteStatus(
                topic=contracts[number].match,
                destination=_destination(names, number),
                path=path,
                active=True,
                predicted_ms=80.0,
                deadline_ms=DEADLINE_MS,
            )
            for number in own
            for path in paths[number]
        ),
        arrivals=tuple(
            Arrival(
                origin=names[number % len(names)],
                topic=contracts[number].match,
                observed_ms=round(draw.uniform(40, 195), 2),
                deadline_ms=DEADLINE_MS,
                late=0,
            )
            for number in arriving
        ),
        drops=(),
        ways=tuple(
            WayStatus(
                topic=contracts[number].match,
                destination=_destination(names, number),
                paths=paths[number],
                by_table=False,
            )
            for number in own
        ),
    )


def _paths(names: list[str], source: str, destination: str) -> tuple[tuple[str, ...], ...]:
    """Two ways that differ: straight, and by the next site."""
    other = names[(names.index(source) + 2) % len(names)]
    detour = (source, other, destination) if other not in (source, destination) else (source, destination)
    return tuple(dict.fromkeys(((source, destination), detour)))


def _link(peer: str, down: bool, tick: int, draw: random.Random) -> LinkStatus:
    return LinkStatus(
        peer=peer,
        up=not down,
        state="down" if down else "up",
        rtt_ms=None if down else round(draw.uniform(5, 90), 2),
        jitter_ms=0.5,
        dead_interval_ms=300.0,
        clock_offset_ms=0.0,
        clock_error_ms=0.1,
        failures=int(down),
        availability=0.99,
        waits_ms={},
        unacknowledged=0,
        queued_bytes=0,
        loss_ratio=0.0,
        frames_out=tick * 50,
        frames_in=tick * 50,
        bytes_out=tick * 20_000 * (1 + draw.randrange(3)),
        bytes_in=tick * 20_000,
        reconnects=0,
    )


def _broker_names(domain: str) -> tuple[tuple[str, str], ...]:
    edges = ((f"{domain}-edge{number + 1}", "edge") for number in range(EDGES))
    return ((f"{domain}-head", "head"), *edges)


def _brokers(domain: str, draw: random.Random) -> tuple[BrokerStatus, ...]:
    return tuple(
        BrokerStatus(
            name=name,
            role=role,
            url="nats://127.0.0.1:1",
            reachable=True,
            connections=draw.randrange(20, 40),
            subscriptions=200,
            memory_bytes=40 << 20,
            cpu_percent=round(draw.uniform(1, 20), 1),
        )
        for name, role in _broker_names(domain)
    )


def _agent(domain: str, draw: random.Random) -> AgentStatus:
    loads = []
    for name, role in _broker_names(domain):
        used = {metric: round(draw.uniform(0.1, 0.7), 3) for metric in Metric}
        state = LoadState.HIGH if max(used.values()) > 0.68 else LoadState.LOW
        loads.append(
            BrokerLoad(
                broker=name,
                role=role,
                state=state,
                measured=state,
                utilisation=used,
                headroom=round(0.7 - max(used.values()), 3),
                messages_in_s=round(draw.uniform(500, 900), 1),
                messages_out_s=round(draw.uniform(900, 1500), 1),
            )
        )
    return AgentStatus(
        domain=domain,
        agent=f"{domain}-agent",
        leader=f"{domain}-agent",
        term=1,
        leads=True,
        uptime_s=60.0,
        brokers=tuple(loads),
        clients=40,
        records=40,
    )
