"""The gateway's account of itself, from its engine, its links and its ledger."""

from __future__ import annotations

from collections.abc import Iterator

from mangrove.gateway.ledger import Ledger
from mangrove.gateway.links import Link, Links
from mangrove.model.status import Arrival, GatewayStatus, LinkStatus, RouteStatus
from mangrove.overlay.delivery.seen_frames import Verdict
from mangrove.overlay.engine import OverlayEngine

MAX_DROP_ROWS = 100
MAX_BUSIEST = 20


def gateway_report(
    engine: OverlayEngine,
    links: Links,
    ledger: Ledger,
    *,
    now: float,
    uptime_s: float,
    head_connected: bool,
) -> GatewayStatus:
    """Everything that `mangrove status` shows of a gateway."""
    totals = ledger.history.totals
    interest = engine.subscriptions.interest
    return GatewayStatus(
        domain=engine.domain,
        epoch=engine.epoch,
        uptime_s=uptime_s,
        head_connected=head_connected,
        links=tuple(_link(engine, link, now) for link in links),
        interest={name: len(known.subjects) for name, known in interest.domains()},
        subscribed=len(engine.subscriptions.subscribed),
        sent=totals.sent.total,
        delivered=totals.delivered.total,
        duplicates=engine.delivery.verdicts[Verdict.DUPLICATE],
        colour=engine.live.colour,
        failed_links=tuple(sorted(engine.live.failed)),
        parked_bytes=engine.forwarder.parked.held_bytes,
        routes=tuple(_routes(engine)),
        arrivals=tuple(_arrivals(engine)),
        drops=ledger.largest_drops(MAX_DROP_ROWS),
        dropped=dict(ledger.dropped),
        busiest_sent=dict(totals.sent.topics.most_common(MAX_BUSIEST)),
        busiest_delivered=dict(totals.delivered.topics.most_common(MAX_BUSIEST)),
        requests_sent=totals.sent.requests,
        requests_delivered=totals.delivered.requests,
        malformed_bodies=totals.malformed_bodies,
        refused_connections=links.refused,
        refused_subjects=interest.refused_subjects,
        ignored={what: count for what, count in _ignored(engine, ledger) if count},
    )


def _ignored(engine: OverlayEngine, ledger: Ledger) -> Iterator[tuple[str, int]]:
    """What was received, understood and left out. Nothing that is counted is left out here."""
    yield from engine.ignored.items()
    yield "link-state advertisement that its sender cannot make", engine.link_state.ignored
    interest = engine.subscriptions.interest
    yield "interest update that claims to be of this domain, or of none", interest.ignored_updates
    yield from ledger.ignored.items()


def _link(engine: OverlayEngine, link: Link, now: float) -> LinkStatus:
    neighbour = engine.neighbours[link.peer]
    monitor = neighbour.monitor
    return LinkStatus(
        peer=link.peer,
        up=neighbour.usable,
        state=engine.condition(link.peer),
        rtt_ms=None if monitor.rtt_s is None else 1000 * monitor.rtt_s,
        jitter_ms=1000 * monitor.rtt_deviation_s,
        dead_interval_ms=1000 * monitor.dead_interval_s,
        clock_offset_ms=1000 * monitor.offset_s,
        clock_error_ms=500 * (monitor.rtt_s or 0.0),
        failures=monitor.failures,
        availability=monitor.availability.share(now),
        loss_ratio=link.loss_ratio(),
        waits_ms={
            engine.federation.topics.contract_at(topic_class).match: waited
            for topic_class, waited in neighbour.outgoing.waiting.waits.told_ms().items()
        },
        unacknowledged=neighbour.outgoing.unacknowledged,
        frames_out=link.frames_out,
        frames_in=link.frames_in,
        bytes_out=link.bytes_out,
        bytes_in=link.bytes_in,
        queued_bytes=neighbour.outgoing.waiting.held_bytes,
        reconnects=max(0, link.connects - 1),
        last_error=link.last_error,
    )


def _routes(engine: OverlayEngine) -> list[RouteStatus]:
    return [
        RouteStatus(
            topic=routes.contract.match,
            destination=destination,
            path=route.path,
            active=route.active,
            predicted_ms=engine.live.path_ms(route.path, topic_class),
            deadline_ms=routes.contract.deadline_ms,
            unmet=routes.unmet,
            resiliency=engine.routes.resiliency(routes),
        )
        for (topic_class, destination), routes in sorted(engine.routes.sets.items())
        for route in routes.routes
    ]


def _arrivals(engine: OverlayEngine) -> list[Arrival]:
    rules = engine.federation.topics
    return [
        Arrival(
            origin=origin,
            topic=rules.contract_at(topic_class).match,
            observed_ms=observed,
            deadline_ms=rules.contract_at(topic_class).deadline_ms,
            late=engine.delivery.late[topic_class],
        )
        for (origin, topic_class), observed in sorted(engine.delivery.observed_ms.items())
    ]
