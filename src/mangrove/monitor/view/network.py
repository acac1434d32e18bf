"""The map: sites at their places, links by state and load, and what is said of each in a word."""

from __future__ import annotations

import msgspec

from mangrove.model.federation import Link
from mangrove.model.site_pair import SitePair, site_pair
from mangrove.model.status import DomainStatus, LinkStatus
from mangrove.monitor.view.load import LinkLoad
from mangrove.monitor.view.sight import Sight
from mangrove.monitor.view.wording import Grade, sentence, worst

MAX_SITES = 500
MAX_LINKS = 5_000
MAX_TROUBLES = 6
MAX_WARNINGS = 20
STRAINED_LOSS = 0.02
STRAINED_QUEUE_BYTES = 1 << 20


class SiteView(msgspec.Struct, frozen=True, kw_only=True):
    """A site, as its dot and its card show it."""

    name: str
    place: tuple[float, float] | None
    """Latitude and longitude; None: it is laid out beside the map."""
    grade: Grade
    troubles: tuple[str, ...] = ()
    brokers: int = 0
    brokers_up: int = 0
    sent_s: float = 0.0
    delivered_s: float = 0.0
    colour: int | None = None
    """The failure colour by which its gateway forwards; None: it does not answer."""


class LinkView(msgspec.Struct, frozen=True, kw_only=True):
    """A link; figures of the worse end."""

    ends: SitePair
    grade: Grade
    word: str
    rtt_ms: float | None = None
    loss_ratio: float | None = None
    availability: float | None = None
    failures: int = 0
    queued_bytes: int = 0
    load: LinkLoad = LinkLoad()
    width: float = 0.0
    via: tuple[tuple[float, float], ...] = ()
    """From the first end to the second."""


class RegionView(msgspec.Struct, frozen=True, kw_only=True):
    """A region that contracts avoid."""

    name: str
    centre: tuple[float, float]
    radius_km: float


class NetworkView(msgspec.Struct, frozen=True, kw_only=True):
    """All that the map draws."""

    federation: str
    at: float
    sites: tuple[SiteView, ...]
    links: tuple[LinkView, ...]
    regions: tuple[RegionView, ...] = ()
    warnings: tuple[str, ...] = ()
    left_out: int = 0
    """Sites and links beyond what a map can show."""
    past: bool = False

    @property
    def grade(self) -> Grade:
        """Of the whole."""
        return worst([*(each.grade for each in self.sites), *(each.grade for each in self.links)])


def network(sight: Sight) -> NetworkView:
    """The federation as it is."""
    names = list(sight.federation.domains)
    links = sight.federation.links
    regions = {
        each.name: RegionView(name=sentence(each.name, 60), centre=each.centre, radius_km=each.radius_km)
        for gateway in sight.gateways.values()
        if gateway is not None
        for each in gateway.endangered
    }
    return NetworkView(
        federation=sight.federation.name,
        at=sight.at,
        sites=tuple(_site(sight, name) for name in names[:MAX_SITES]),
        links=tuple(_link(sight, link) for link in links[:MAX_LINKS]),
        regions=tuple(regions.values()),
        warnings=tuple(map(sentence, sight.status.warnings[:MAX_WARNINGS])),
        left_out=max(0, len(names) - MAX_SITES) + max(0, len(links) - MAX_LINKS),
    )


def _site(sight: Sight, name: str) -> SiteView:
    domain = sight.domains.get(name)
    gateway = None if domain is None else domain.gateway
    grade, troubles = site_grade(domain, sight.silent.get(name, ""))
    data = () if domain is None else tuple(each for each in domain.brokers if each.role != "management")
    return SiteView(
        name=name,
        place=sight.federation.domains[name].location,
        grade=grade,
        troubles=tuple(map(sentence, troubles[:MAX_TROUBLES])),
        brokers=len(data),
        brokers_up=sum(each.reachable for each in data),
        sent_s=round(sum(sight.sent_s.get(name, {}).values()), 1),
        delivered_s=round(sum(sight.delivered_s.get(name, {}).values()), 1),
        colour=None if gateway is None else gateway.colour,
    )


def site_grade(domain: DomainStatus | None, silence: str = "") -> tuple[Grade, list[str]]:
    """How a site is, and what is wrong, the gravest first; its links are judged for themselves."""
    if domain is None or (domain.gateway is None and not domain.brokers and domain.agent is None):
        return Grade.UNKNOWN, [silence or "nothing was heard of it yet"]
    bad, doubtful = [], []
    if domain.gateway is None:
        bad.append("the gateway does not answer")
    elif not domain.gateway.head_connected:
        bad.append("the gateway has no broker")
    bad += [f"{broker.name} does not answer" for broker in domain.brokers if not broker.reachable]
    bad += [f"host {host.host} does not answer" for host in domain.hosts if not host.answers]
    doubtful += [f"on {host.host}: {name} is down" for host in domain.hosts for name in host.down]
    agent = domain.agent
    if agent is None and domain.agent_expected:
        doubtful.append("no agent answers")
    if agent is not None:
        doubtful += [f"{load.broker} is overloaded" for load in agent.brokers if load.measured == "overload"]
        doubtful += [f"{each.broker} is {each.health}" for each in agent.failures.brokers]
        if agent.paused is not None:
            doubtful.append(f"decisions are paused by {agent.paused.by or 'somebody'}")
        if agent.congestion.state != "clear":
            doubtful.append(f"congestion: {agent.congestion.why or agent.congestion.state}")
    if silence:
        doubtful.append(silence)
    grade = Grade.BAD if bad else Grade.DOUBT if doubtful else Grade.GOOD
    return grade, bad + doubtful


def _link(sight: Sight, link: Link) -> LinkView:
    first, second = link.pair
    ends = [
        each
        for here, there in ((first, second), (second, first))
        if (gateway := sight.gateways.get(here)) is not None
        for each in gateway.links
        if each.peer == there
    ]
    grade, word = _link_grade(ends, len(ends) < 2 and _known_failed(sight, link.pair))
    load = sight.loads.get(link.pair, LinkLoad())
    return LinkView(
        ends=link.pair,
        grade=grade,
        word=sentence(word, 120),
        rtt_ms=max((each.rtt_ms for each in ends if each.rtt_ms is not None), default=None),
        loss_ratio=max((each.loss_ratio for each in ends if each.loss_ratio is not None), default=None),
        availability=min((each.availability for each in ends), default=None),
        failures=max((each.failures for each in ends), default=0),
        queued_bytes=sum(each.queued_bytes for each in ends),
        load=LinkLoad(round(load.first_bps), round(load.second_bps)),
        width=round(load.width, 3),
        via=link.via if link.between == link.pair else link.via[::-1],
    )


def _known_failed(sight: Sight, pair: SitePair) -> bool:
    return any(
        site_pair(*failed) == pair
        for gateway in sight.gateways.values()
        if gateway is not None
        for failed in gateway.failed_links
    )


def _link_grade(ends: list[LinkStatus], known_failed: bool) -> tuple[Grade, str]:
    down = [each for each in ends if not each.up]
    if down:
        reason = next((each.last_error for each in down if each.last_error), "")
        return Grade.BAD, f"down: {reason}" if reason else "down"
    if known_failed:
        return Grade.BAD, "down"
    if not ends:
        return Grade.UNKNOWN, "neither end answers"
    if any((each.loss_ratio or 0.0) > STRAINED_LOSS for each in ends):
        return Grade.DOUBT, "loses segments"
    late = {topic: part for each in ends for topic, part in each.overruns.items() if part > 0.5}
    if late:
        return Grade.DOUBT, f"{sentence(max(late, key=late.__getitem__), 60)} waits longer than its budget"
    if any(each.queued_bytes > STRAINED_QUEUE_BYTES for each in ends):
        return Grade.DOUBT, "data waits for it"
    return Grade.GOOD, "up"
