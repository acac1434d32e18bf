"""Link-state advertisements: every gateway knows the state of every link (Harmony §3.2, PCRT §III-C).

Each gateway is the only author of the state of its own links. An advertisement is flooded when a link fails
or recovers, when its delay has changed markedly, and now and then anyway. Every copy is acknowledged by the
neighbour and repeated until it is. Concurrent failures need no special rule: what has failed is the union of
what all gateways say of their own links.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec

from mangrove.model.questions.session_quality import Quality
from mangrove.model.site_pair import SitePair, site_pair
from mangrove.overlay.protocol.control_messages import (
    MAX_ASKED_CLASSES,
    LinkReport,
    LinkStateAck,
    LinkStateAd,
    SiteReport,
)

PERIOD_S = 5.0
MIN_INTERVAL_S = 0.5  # between advertisements that only tell of changed delays
MIN_APPLIED_INTERVAL_S = 0.1
REPEAT_S = 0.15
MARKED_CHANGE = 0.25  # of the delay or the load that was advertised …
MARKED_CHANGE_LEAST = 2.0  # … and at least so many milliseconds or megabits per second
MARKED_DEAD_CHANGE = 0.5  # of the dead interval that was advertised: it goes up and down with every jitter …
MARKED_DEAD_CHANGE_LEAST = 100.0  # … and at least so many milliseconds, of which an order of frames may hang


class LinkMeasurements(msgspec.Struct):
    """Measured properties of links: delay, time that frames wait for it by direction and topic class, share
    of time in which it could be used; by direction also what it carries and the most it was seen to take.
    And how long messages are inside of sites, and the longest silence for which any link is not given up."""

    delays_ms: dict[SitePair, float] = msgspec.field(default_factory=dict)
    waits_ms: dict[SitePair, dict[int, float]] = msgspec.field(default_factory=dict)
    availability: dict[SitePair, float] = msgspec.field(default_factory=dict)
    used_mbps: dict[SitePair, float] = msgspec.field(default_factory=dict)
    limit_mbps: dict[SitePair, float] = msgspec.field(default_factory=dict)
    sites: dict[str, SiteReport] = msgspec.field(default_factory=dict)
    longest_dead_ms: float = 0.0

    def same_delays(self, other: LinkMeasurements) -> bool:
        """Whether messages take as long on all ways as they do by another account."""
        return (self.delays_ms, self.waits_ms, self.sites) == (other.delays_ms, other.waits_ms, other.sites)


class Pace(NamedTuple):
    """How fast a link is: what it carries, its delay, the silence after which it is given up, and how long
    topic classes wait for it."""

    used_mbps: float
    delay_ms: float
    dead_ms: float
    waits_ms: dict[int, float]


class OwnLink(Protocol):
    """A link of this gateway, as far as a change of it is told to others."""

    @property
    def name(self) -> str:
        """The neighbour."""

    @property
    def usable(self) -> bool:
        """Whether data may be sent."""

    def pace(self) -> Pace:
        """How fast it is, as a report tells it."""


class _Pending(msgspec.Struct):
    ad: LinkStateAd
    repeat_at: float


class LinkStateDatabase:
    """What is known of all links, and which neighbours still have to hear of it."""

    def __init__(self, domain: str, epoch: int, links: Iterable[SitePair]) -> None:
        self._domain = domain
        self._links = [site_pair(*link) for link in links]
        self._members = {name for link in self._links for name in link} | {domain}
        self._former: frozenset[SitePair] = frozenset()
        """Links that were part of the federation: who has not heard of a change yet still speaks of them."""
        self._former_members: frozenset[str] = frozenset()
        self._ads: dict[str, LinkStateAd] = {}
        self._pending: dict[str, dict[str, _Pending]] = {}
        self._sequence = 0
        self._epoch = epoch
        self._advertised_at = float("-inf")
        self._looked_at = float("-inf")
        self.ignored = 0
        self.version = 0
        """Grows with everything learned."""

    def begin(self, epoch: int) -> None:
        """A life of this gateway begins: what it said before was said to nobody."""
        self._epoch = epoch
        self._ads.pop(self._domain, None)

    def adopt(self, links: Iterable[SitePair], gone: Iterable[str]) -> None:
        """These are the links from now on; nothing is known any more of domains that are `gone`."""
        before = frozenset(self._links)
        self._links = [site_pair(*link) for link in links]
        members = {name for link in self._links for name in link} | {self._domain}
        self._former = (self._former | before) - frozenset(self._links)
        self._former_members = (self._former_members | self._members) - members
        self._members = members
        for name in gone:
            self._ads.pop(name, None)
            for waiting in self._pending.values():
                waiting.pop(name, None)
        self.version += 1

    # -- own links ----------------------------------------------------------------------------------------

    def told(
        self,
        links: Iterable[OwnLink],
        now: float,
        applied: Mapping[str, tuple[int, int]],
        asks: Mapping[int, Quality],
        site: SiteReport,
    ) -> bool:
        """Whether `advertise` would find nothing new: asked often, and mostly so, before reports are made."""
        last = self._ads.get(self._domain)
        age = now - self._advertised_at
        if last is None or age >= PERIOD_S:
            return False
        before = last.links
        own = list(links)
        if len(own) != len(before) or len(asks) > MAX_ASKED_CLASSES:
            return False
        for link in own:
            report = before.get(link.name)
            if report is None or report.up != link.usable:
                return False
        if age >= MIN_APPLIED_INTERVAL_S and (last.applied != applied or last.asks != asks):
            return False
        if age >= MIN_INTERVAL_S:
            if _marked(last.site.ingress_ms, site.ingress_ms) or _marked(last.site.egress_ms, site.egress_ms):
                return False
            for link in own:
                if _other_pace(before[link.name], link.pace()):
                    return False
        self._looked_at = now
        return True

    def advertise(
        self,
        reports: dict[str, LinkReport],
        now: float,
        applied: Mapping[str, tuple[int, int]] | None = None,
        asks: Mapping[int, Quality] | None = None,
        site: SiteReport | None = None,
    ) -> LinkStateAd | None:
        """The advertisement to flood now, or None if there is no need for one.

        A link that came or went is told at once; delays only when changed markedly, and not too often;
        interest that was acted upon, and what subscribers ask for, soon, because somebody may wait for it.
        """
        applied, asks = dict(applied or {}), dict(islice((asks or {}).items(), MAX_ASKED_CLASSES))
        site = site or SiteReport()
        self._looked_at = now
        last = self._ads.get(self._domain)
        if last is not None and not self._urgent(last.links, reports):
            age = now - self._advertised_at
            changed = any(_markedly_different(last.links[peer], reports[peer]) for peer in reports)
            changed |= _marked(last.site.ingress_ms, site.ingress_ms)
            changed |= _marked(last.site.egress_ms, site.egress_ms)
            told = (last.applied, last.asks) == (applied, asks) or age < MIN_APPLIED_INTERVAL_S
            if age < PERIOD_S and not (changed and age >= MIN_INTERVAL_S) and told:
                return None
        self._sequence += 1
        self._advertised_at = now
        ad = LinkStateAd(
            origin=self._domain,
            epoch=self._epoch,
            sequence=self._sequence,
            links=reports,
            applied=applied,
            asks=asks,
            site=site,
        )
        self._ads[self._domain] = ad
        self.version += 1
        return ad

    def forget_advertised(self) -> None:
        """The next look is an occasion to advertise."""
        self._advertised_at = float("-inf")

    @staticmethod
    def _urgent(before: dict[str, LinkReport], after: dict[str, LinkReport]) -> bool:
        return before.keys() != after.keys() or any(before[peer].up != after[peer].up for peer in after)

    # -- others -------------------------------------------------------------------------------------------

    def receive(self, ad: LinkStateAd) -> bool:
        """Take in an advertisement; True if it is news and must be passed on."""
        if self.known(ad):
            return False
        if ad.origin == self._domain or not self.possible(ad):
            self.ignored += 1
            return False
        self._ads[ad.origin] = ad
        self.version += 1
        return True

    def known(self, ad: LinkStateAd) -> bool:
        """Whether the same or something newer is known, as an echo of what this gateway said is."""
        if ad.origin == self._domain:
            return (ad.epoch, ad.sequence) <= (self._epoch, self._sequence)
        known = self._ads.get(ad.origin)
        return known is not None and (ad.epoch, ad.sequence) <= (known.epoch, known.sequence)

    def possible(self, ad: LinkStateAd) -> bool:
        """Whether an advertisement tells of links of its author alone, and of members alone."""
        neighbours = {first if second == ad.origin else second for first, second in self._links_of(ad.origin)}
        known = self._members | self._former_members
        members = ad.origin in self._members and ad.applied.keys() <= known
        return members and ad.links.keys() <= neighbours

    def _links_of(self, domain: str) -> list[SitePair]:
        return [link for links in (self._links, self._former) for link in links if domain in link]

    # -- reliable flooding --------------------------------------------------------------------------------

    def peer_up(self, peer: str, now: float) -> list[LinkStateAd]:
        """A neighbour is there: everything that is known, each to be acknowledged."""
        return [self._expect(peer, ad, now) for ad in self._ads.values()]

    def peer_down(self, peer: str) -> None:
        """A neighbour is gone; it will be told everything when it is back."""
        self._pending.pop(peer, None)

    def flood(self, ad: LinkStateAd, peers: Iterable[str], now: float) -> list[tuple[str, LinkStateAd]]:
        """An advertisement for each of these neighbours, to be acknowledged."""
        return [(peer, self._expect(peer, ad, now)) for peer in peers]

    def _expect(self, peer: str, ad: LinkStateAd, now: float) -> LinkStateAd:
        self._pending.setdefault(peer, {})[ad.origin] = _Pending(ad, now + REPEAT_S)
        return ad

    def acknowledge(self, peer: str, ack: LinkStateAck) -> None:
        """A neighbour has an advertisement."""
        waiting = self._pending.get(peer, {})
        pending = waiting.get(ack.origin)
        if pending is not None and (ack.epoch, ack.sequence) >= (pending.ad.epoch, pending.ad.sequence):
            del waiting[ack.origin]

    def waiting(self, peer: str) -> bool:
        """Whether a neighbour still owes an acknowledgement (PCRT's interface state `waiting`)."""
        return bool(self._pending.get(peer))

    def owing(self) -> list[str]:
        """Neighbours that still owe an acknowledgement."""
        return [peer for peer, waiting in self._pending.items() if waiting]

    def repeats(self, now: float) -> list[tuple[str, LinkStateAd]]:
        """Advertisements that were not acknowledged in time."""
        again = []
        for peer, waiting in self._pending.items():
            for pending in waiting.values():
                if now >= pending.repeat_at:
                    pending.repeat_at = now + REPEAT_S
                    again.append((peer, pending.ad))
        return again

    def timer(self) -> float:
        """When `repeats` or `advertise` has something to do at the latest."""
        first = self._looked_at + MIN_INTERVAL_S
        for waiting in self._pending.values():
            for pending in waiting.values():
                if pending.repeat_at < first:
                    first = pending.repeat_at
        return first

    # -- what it adds up to -------------------------------------------------------------------------------

    def failed_links(self) -> frozenset[SitePair]:
        """Links that one of their ends says are down. Who has not spoken yet is taken to be up."""
        return frozenset(link for link in self._links if not self._up(*link))

    def _up(self, first: str, second: str) -> bool:
        for end, other in ((first, second), (second, first)):
            ad = self._ads.get(end)
            report = ad.links.get(other) if ad is not None else None
            if report is not None and not report.up:
                return False
        return True

    def cause_of(self, link: SitePair, up: bool) -> str:
        """The event because of which an end says that a link is up or down; empty if none is known."""
        for end, other in (link, link[::-1]):
            ad = self._ads.get(end)
            report = ad.links.get(other) if ad is not None else None
            if report is not None and report.up == up and report.cause:
                return report.cause
        return ""

    def applied_by(self, domain: str) -> tuple[int, int]:
        """Up to which version of this domain's interest another domain has acted; (-1, -1) if not at all."""
        ad = self._ads.get(domain)
        return (-1, -1) if ad is None else ad.applied.get(self._domain, (-1, -1))

    def asks(self) -> dict[str, dict[int, Quality]]:
        """What the subscribers of other domains ask for, by topic class."""
        return {name: ad.asks for name, ad in self._ads.items() if ad.asks and name != self._domain}

    def others(self) -> dict[str, LinkStateAd]:
        """The last advertisement of every other domain."""
        return {name: ad for name, ad in self._ads.items() if name != self._domain}

    def epoch_of(self, domain: str) -> int | None:
        """Which life of its gateway a domain's last advertisement was of; None if there was none."""
        ad = self._ads.get(domain)
        return None if ad is None else ad.epoch

    def measured(self) -> LinkMeasurements:
        """What the ends of the links that are up have measured: the worse of both, but for waits."""
        nowhere = SiteReport()
        found = LinkMeasurements(
            sites={name: ad.site for name, ad in self._ads.items() if ad.site != nowhere}
        )
        for first, second in self._links:
            for end, other in ((first, second), (second, first)):
                ad = self._ads.get(end)
                report = ad.links.get(other) if ad is not None else None
                if report is None or not report.up:
                    continue
                link = (first, second)
                if report.delay_ms > 0:
                    found.delays_ms[link] = max(report.delay_ms, found.delays_ms.get(link, 0.0))
                if report.availability < 1:
                    found.availability[link] = min(report.availability, found.availability.get(link, 1.0))
                if report.used_mbps:
                    found.used_mbps[end, other] = report.used_mbps
                if report.limit_mbps:
                    found.limit_mbps[end, other] = report.limit_mbps
                if report.waits_ms:
                    found.waits_ms[end, other] = report.waits_ms
                found.longest_dead_ms = max(report.dead_ms, found.longest_dead_ms)
        return found


def _markedly_different(before: LinkReport, after: LinkReport) -> bool:
    return _other_pace(before, Pace(after.used_mbps, after.delay_ms, after.dead_ms, after.waits_ms))


def _other_pace(before: LinkReport, pace: Pace) -> bool:
    if _marked(before.used_mbps, pace.used_mbps) or _marked(before.delay_ms, pace.delay_ms):
        return True
    dead_change_ms = abs(pace.dead_ms - before.dead_ms)
    if dead_change_ms > max(MARKED_DEAD_CHANGE_LEAST, MARKED_DEAD_CHANGE * before.dead_ms):
        return True
    if not pace.waits_ms and not before.waits_ms:
        return False
    return any(
        _marked(before.waits_ms.get(topic_class, 0.0), pace.waits_ms.get(topic_class, 0.0))
        for topic_class in before.waits_ms.keys() | pace.waits_ms.keys()
    )


def _marked(before: float, after: float) -> bool:
    return abs(after - before) > max(MARKED_CHANGE_LEAST, MARKED_CHANGE * before)
