"""The engine's account of itself: links, routes, interest, what arrived, and everything that was counted."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import msgspec

from mangrove.model.events.event_log import EventLog
from mangrove.model.federation import Federation
from mangrove.model.questions.endangered import EndangeredRegion, ExposedPath
from mangrove.model.site_pair import SitePair
from mangrove.model.status import (
    NO_CONTRACT,
    Arrival,
    AskStatus,
    LinkFigures,
    ManagementFigures,
    RouteStatus,
    TableFigures,
    WayStatus,
)
from mangrove.model.versions.rules_in_force import RulesInForce
from mangrove.overlay.delivery.delivery import Delivery
from mangrove.overlay.delivery.seen_frames import Verdict
from mangrove.overlay.forwarding.forwarder import Forwarder
from mangrove.overlay.interest.remote_interest import RemoteInterest
from mangrove.overlay.links.liveness import LinkCondition
from mangrove.overlay.links.management import ManagementLine
from mangrove.overlay.links.neighbours import Neighbour, Neighbours
from mangrove.overlay.network.link_state import LinkStateDatabase
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.routes.route_manager import RouteManager
from mangrove.overlay.routes.session_asks import SessionAsks


class StatusSources(NamedTuple):
    """The parts of an engine that have something to tell."""

    federation: Federation
    rules: RulesInForce
    neighbours: Neighbours
    link_state: LinkStateDatabase
    live: LiveMap
    routes: RouteManager
    remote: RemoteInterest
    forwarder: Forwarder
    delivery: Delivery
    events: EventLog
    ignored: Counter[str]
    asks: SessionAsks


class OverlayStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine knows and has counted."""

    links: dict[str, LinkFigures]
    interest: dict[str, int]
    """Wanted subjects by domain."""
    subscribed: int
    colour: int
    failed_links: tuple[SitePair, ...]
    parked_bytes: int
    duplicates: int
    gaps: int
    out_of_turn: int
    routes: tuple[RouteStatus, ...]
    arrivals: tuple[Arrival, ...]
    refused_subjects: int
    """Subjects that were malformed or beyond the limit of their domain."""
    refused_examples: tuple[str, ...]
    warnings: tuple[str, ...]
    endangered: tuple[EndangeredRegion, ...]
    exposed: tuple[ExposedPath, ...]
    routes_settled: bool
    ways: tuple[WayStatus, ...]
    ignored: dict[str, int]
    """What was received, understood and left out, by what it was; nothing that never happened."""
    tables: TableFigures
    asks: tuple[AskStatus, ...]


def overlay_status(sources: StatusSources, now: float) -> OverlayStatus:
    """Everything that there is to tell of an engine."""
    return OverlayStatus(
        links={neighbour.name: _link(sources, neighbour, now) for neighbour in sources.neighbours},
        interest={name: len(known.subjects) for name, known in sources.remote.interest.domains()},
        subscribed=len(sources.remote),
        colour=sources.live.colour,
        failed_links=tuple(sorted(sources.live.failed)),
        parked_bytes=sources.forwarder.parked.held_bytes,
        duplicates=sources.delivery.verdicts[Verdict.DUPLICATE],
        gaps=sources.delivery.resequencer.gaps,
        out_of_turn=sources.delivery.resequencer.out_of_turn,
        routes=tuple(_routes(sources, now)),
        arrivals=tuple(_arrivals(sources)),
        refused_subjects=sources.remote.interest.refused_subjects,
        refused_examples=tuple(sources.remote.interest.refused_examples),
        warnings=tuple(sources.remote.interest.warnings()),
        endangered=sources.live.dangers.regions(now),
        exposed=tuple(sources.routes.exposed(now)),
        routes_settled=sources.routes.settled,
        ways=tuple(_ways(sources)),
        ignored={what: count for what, count in _ignored(sources).items() if count},
        tables=sources.live.table_figures(),
        asks=tuple(_asks(sources)),
    )


def _ignored(sources: StatusSources) -> dict[str, int]:
    interest = sources.remote.interest
    return {
        "link-state advertisement that its sender cannot make": sources.link_state.ignored,
        "interest update that claims to be of this domain, or of none": interest.ignored_updates,
        "interest update of a life that is not known, or over": interest.early_updates,
        "notice of an endangered region that cannot be": sources.live.dangers.ignored,
        "event that was not written down": sources.events.lost,
        **sources.ignored,
    }


def condition(sources: StatusSources, neighbour: Neighbour) -> str:
    """State of a link in PCRT's words: normal, waiting (an acknowledgement is owed), testing, failure."""
    state = neighbour.monitor.condition
    if state is LinkCondition.NORMAL and sources.link_state.waiting(neighbour.name):
        return "waiting"
    return state.value


def _link(sources: StatusSources, neighbour: Neighbour, now: float) -> LinkFigures:
    monitor, outgoing = neighbour.monitor, neighbour.outgoing
    rules = sources.rules
    return LinkFigures(
        peer=neighbour.name,
        up=neighbour.usable,
        state=condition(sources, neighbour),
        rtt_ms=None if monitor.rtt_s is None else 1000 * monitor.rtt_s,
        jitter_ms=1000 * monitor.rtt_deviation_s,
        dead_interval_ms=1000 * monitor.dead_interval_s,
        clock_offset_ms=1000 * monitor.offset_s,
        clock_error_ms=500 * (monitor.rtt_s or 0.0),
        failures=monitor.failures,
        availability=monitor.availability.share(now),
        waits_ms={
            rules.contract_at(topic_class).match: waited
            for topic_class, waited in outgoing.waiting.waits.noticeable_ms().items()
        },
        overruns={
            rules.contract_at(topic_class).match: share
            for topic_class, share in outgoing.waiting.overruns.noticeable().items()
        },
        unacknowledged=outgoing.unacknowledged,
        queued_bytes=outgoing.waiting.held_bytes,
        management=_management(outgoing.management),
    )


def _management(line: ManagementLine) -> ManagementFigures:
    return ManagementFigures(
        sent=line.sent,
        received=line.received,
        sent_bytes=line.sent_bytes,
        received_bytes=line.received_bytes,
        waiting_bytes=line.waiting_bytes,
        dropped=dict(line.dropped),
    )


def _routes(sources: StatusSources, now: float) -> list[RouteStatus]:
    return [
        RouteStatus(
            topic=routes.contract.match,
            destination=destination,
            path=route.path,
            active=route.active,
            predicted_ms=sources.live.path_ms(route.path, topic_class),
            deadline_ms=routes.contract.deadline_ms,
            unmet=routes.unmet,
            resiliency=sources.routes.resiliency(routes, now),
            requirements=routes.requirements,
        )
        for (topic_class, destination), routes in sorted(sources.routes.sets.items())
        for route in routes.routes
    ]


def _ways(sources: StatusSources) -> list[WayStatus]:
    """By contract and destination, and what has no contract to every domain that wants anything."""
    rules, live = sources.rules, sources.live
    found = []
    for topic_class, destination in sorted(sources.remote.classes.keys()):
        routes = sources.routes.sets.get((topic_class, destination))
        paths = [] if routes is None else [route.path for route in routes.active()]
        table = live.table_path(destination)
        found.append(
            WayStatus(
                topic=rules.contract_at(topic_class).match,
                destination=destination,
                paths=tuple(paths) or ((table,) if table else ()),
                by_table=not paths,
            )
        )
    for destination, known in sources.remote.interest.domains():
        table = live.table_path(destination) if known.subjects else ()
        if table and len(table) > 1:
            found.append(WayStatus(topic=NO_CONTRACT, destination=destination, paths=(table,), by_table=True))
    return found


def _asks(sources: StatusSources) -> list[AskStatus]:
    return [
        AskStatus(
            topic=sources.rules.contract_at(topic_class).match,
            role=role.value,
            sessions=sessions,
            **msgspec.structs.asdict(quality),
        )
        for role, topic_class, quality, sessions in sources.asks.in_force()
    ]


def _arrivals(sources: StatusSources) -> list[Arrival]:
    rules = sources.rules
    return [
        Arrival(
            origin=origin,
            topic=rules.contract_at(topic_class).match,
            observed_ms=observed,
            deadline_ms=rules.contract_at(topic_class).deadline_ms,
            late=sources.delivery.late[origin, topic_class],
            frames=sources.delivery.delays[origin, topic_class].count,
            copies=sources.delivery.copies[origin, topic_class],
            p50_ms=sources.delivery.delays[origin, topic_class].quantile_ms(0.5),
            p99_ms=sources.delivery.delays[origin, topic_class].quantile_ms(0.99),
        )
        for (origin, topic_class), observed in sorted(sources.delivery.observed_ms.items())
    ]
