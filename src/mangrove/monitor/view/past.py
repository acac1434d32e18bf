"""The map at an earlier moment, from the event log: each thing as the events around that moment tell it.

What happened last before the moment decides. Where nothing had happened yet, the first event afterwards says
how it was: a link that failed then was up. A thing without any event was as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mangrove.control.events.failure_happenings import BrokerFailed, BrokerReturned
from mangrove.control.events.happenings import BrokerEased, BrokerFound, BrokerLost, BrokerOverloaded
from mangrove.model.events.happening import Happening
from mangrove.model.site_pair import SitePair, site_pair
from mangrove.monitor.told_event import ToldEvent
from mangrove.monitor.view.load import LinkLoad
from mangrove.monitor.view.network import NetworkView, RegionView
from mangrove.monitor.view.wording import Grade, sentence
from mangrove.overlay.events.happenings import (
    HeadLost,
    HeadSettled,
    LinkFailed,
    LinkRecovered,
    RegionEndangered,
    RegionSafe,
    RouteEstablished,
    RouteRetired,
)

_TROUBLES: tuple[tuple[type[Happening], type[Happening], Grade], ...] = (
    (HeadLost, HeadSettled, Grade.BAD),
    (BrokerLost, BrokerFound, Grade.BAD),
    (BrokerFailed, BrokerReturned, Grade.BAD),
    (BrokerOverloaded, BrokerEased, Grade.DOUBT),
)
"""What begins a trouble of a site, what ends it, and how grave it is."""


class PastRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A route of its own that a contract had."""

    topic: str
    source: str
    destination: str
    path: tuple[str, ...]


def network_at(now: NetworkView, events: Sequence[ToldEvent], at: float) -> NetworkView:
    """The map as it was at a moment; loads and delays of the past are not in the log, and are left out."""
    told = _by_domain(events)
    known = {pair for event in events if (pair := _pair(event)) is not None}
    down = {each.ends for each in now.links if each.ends in known and _link_down(told, each.ends, at)}
    links = tuple(
        msgspec.structs.replace(
            each,
            grade=(Grade.BAD if each.ends in down else Grade.GOOD) if each.ends in known else each.grade,
            word=("down" if each.ends in down else "up") if each.ends in known else each.word,
            rtt_ms=None,
            loss_ratio=None,
            availability=None,
            queued_bytes=0,
            load=LinkLoad(),
            width=0.0,
        )
        for each in now.links
    )
    sites = []
    for site in now.sites:
        grade, troubles = _site_at(told.get(site.name, ()), at)
        sites.append(
            msgspec.structs.replace(
                site, grade=grade, troubles=troubles, sent_s=0.0, delivered_s=0.0, colour=None
            )
        )
    return NetworkView(
        federation=now.federation,
        at=at,
        sites=tuple(sites),
        links=links,
        regions=_regions_at(events, at),
        left_out=now.left_out,
        past=True,
    )


def routes_at(events: Sequence[ToldEvent], at: float) -> tuple[PastRoute, ...]:
    """Routes of their own that contracts had at a moment."""
    found: dict[tuple[str, str, str, tuple[str, ...]], PastRoute] = {}
    for event in events:
        if event.at > at:
            break
        happening = event.happening
        if isinstance(happening, RouteEstablished | RouteRetired):
            source = event.domain
            key = (source, happening.topic, happening.destination, happening.path)
            found.pop(key, None)
            if isinstance(happening, RouteEstablished):
                found[key] = PastRoute(
                    topic=happening.topic,
                    source=source,
                    destination=happening.destination,
                    path=happening.path,
                )
    return tuple(found.values())


def _pair(event: ToldEvent) -> SitePair | None:
    happening = event.happening
    if isinstance(happening, LinkFailed | LinkRecovered):
        return site_pair(event.domain, happening.peer)
    return None


def _by_domain(events: Sequence[ToldEvent]) -> dict[str, list[ToldEvent]]:
    """Those that say how a link or a site is, by the domain in which they happened."""
    troubles = [kind for begins, ends, _ in _TROUBLES for kind in (begins, ends)]
    kinds: tuple[type[Happening], ...] = (LinkFailed, LinkRecovered, *troubles)
    found: dict[str, list[ToldEvent]] = {}
    for event in events:
        if isinstance(event.happening, kinds):
            found.setdefault(event.domain, []).append(event)
    return found


def _link_down(told: Mapping[str, Sequence[ToldEvent]], pair: SitePair, at: float) -> bool:
    """Whether either end had lost the link."""
    for here in pair:
        about = [event for event in told.get(here, ()) if _pair(event) == pair]
        if _in_trouble(about, at, LinkFailed, LinkRecovered) is not None:
            return True
    return False


def _in_trouble(
    events: Sequence[ToldEvent],
    at: float,
    begins: type[Happening],
    ends: type[Happening],
) -> ToldEvent | None:
    """The event that began a trouble which had not ended, or that ended one of unknown beginning."""
    last: ToldEvent | None = None
    for event in events:
        if event.at > at:
            return event if last is None and isinstance(event.happening, ends) else _beginning(last, begins)
        last = event
    return _beginning(last, begins)


def _beginning(event: ToldEvent | None, begins: type[Happening]) -> ToldEvent | None:
    return event if event is not None and isinstance(event.happening, begins) else None


def _site_at(own: Sequence[ToldEvent], at: float) -> tuple[Grade, tuple[str, ...]]:
    grade, troubles = Grade.GOOD, []
    for begins, ends, gravity in _TROUBLES:
        matching = [event for event in own if isinstance(event.happening, begins | ends)]
        for broker in {getattr(event.happening, "broker", "") for event in matching}:
            about = [event for event in matching if getattr(event.happening, "broker", "") == broker]
            found = _in_trouble(about, at, begins, ends)
            if found is not None and isinstance(found.happening, begins):
                troubles.append(sentence(found.happening.sentence()))
                grade = gravity if grade is not Grade.BAD else grade
    return grade, tuple(troubles[:6])


def _regions_at(events: Sequence[ToldEvent], at: float) -> tuple[RegionView, ...]:
    found: dict[str, RegionView] = {}
    for event in events:
        if event.at > at:
            break
        happening = event.happening
        if isinstance(happening, RegionEndangered):
            found[happening.name] = RegionView(
                name=sentence(happening.name, 60), centre=happening.centre, radius_km=happening.radius_km
            )
        elif isinstance(happening, RegionSafe):
            found.pop(happening.name, None)
    return tuple(found.values())
