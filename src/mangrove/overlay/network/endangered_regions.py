"""Regions that an operator has declared endangered, known to every gateway.

One gateway is told; it tells its neighbours, who acknowledge and pass on what is news. For each name the
highest version counts, whoever gave it, so that any gateway may be told that a region is safe again. What is
sent holds the time that is left, so no clocks have to agree. A gateway that starts again hears from its
neighbours. What has ended or expired is remembered for a while, so that nobody who was cut off meanwhile
brings it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from mangrove.errors import InputError
from mangrove.model.federation import Federation
from mangrove.model.questions.endangered import MAX_FOR_S, MAX_REGIONS, AvoidRequest, EndangeredRegion
from mangrove.model.site_pair import SitePair, site_pair
from mangrove.overlay.protocol.control_messages import DangerAck, DangerNotice
from mangrove.overlay.protocol.signed import Signed
from mangrove.routing.network.regions import Region, damage
from mangrove.routing.network.topology import graph_of_federation

REPEAT_S = 0.15
REMEMBERED_S = 60.0
"""How much longer than its time a region is remembered that is over."""
MAX_REMEMBERED = 4 * MAX_REGIONS
LONGER_S = 1.0
"""By how much more time must be left of a region that is known, to be worth telling."""


class _Record(msgspec.Struct):
    notice: DangerNotice
    expires_at: float
    sites: frozenset[str]
    links: frozenset[SitePair]
    active: bool


class _Pending(msgspec.Struct):
    repeat_at: float


class EndangeredRegions(msgspec.Struct):
    """What is endangered, and which neighbours still have to hear of it."""

    domain: str
    federation: Federation
    version: int = 0
    """Grows whenever another part of the network is endangered than before."""
    ignored: int = 0
    """Notices that could not be taken in: of unknown gateways, or too many."""
    signed: dict[str, Signed] = msgspec.field(default_factory=dict)
    """What was signed of each region, where domains have keys."""
    _records: dict[str, _Record] = msgspec.field(default_factory=dict)
    _pending: dict[str, dict[str, _Pending]] = msgspec.field(default_factory=dict)

    def adopt(self, federation: Federation) -> None:
        """Other domains and links are agreed on: what regions hit is looked up again."""
        self.federation = federation
        for name, record in list(self._records.items()):
            sites, links = self._hit(record.notice)
            self._records[name] = msgspec.structs.replace(record, sites=sites, links=links)
        self.version += bool(self._records)

    # -- what it means for paths --------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether anything is endangered."""
        return any(record.active for record in self._records.values())

    def touched_by(self, path: Sequence[str]) -> tuple[str, ...]:
        """The endangered regions that a site or a fibre of a path touches."""
        hops = {site_pair(*hop) for hop in pairwise(path)}
        return tuple(
            name
            for name, record in sorted(self._records.items())
            if record.active and (hops & record.links or not record.sites.isdisjoint(path))
        )

    def touches(self, path: Sequence[str]) -> bool:
        """Whether a path leads through an endangered region."""
        return bool(self._records) and bool(self.touched_by(path))

    @property
    def sites(self) -> frozenset[str]:
        """Sites inside an endangered region."""
        return frozenset().union(*(each.sites for each in self._records.values() if each.active))

    @property
    def links(self) -> frozenset[SitePair]:
        """Links that touch an endangered region, those of the sites inside among them."""
        return frozenset().union(*(each.links for each in self._records.values() if each.active))

    def regions(self, now: float) -> tuple[EndangeredRegion, ...]:
        """All that are endangered."""
        return tuple(_region(record, now) for _, record in sorted(self._records.items()) if record.active)

    # -- from an operator ---------------------------------------------------------------------------------

    def declare(self, request: AvoidRequest, now: float, cause: str, at_least: int = 1) -> DangerNotice:
        """A region is endangered; InputError if there is no sense in that. A known name gets new bounds.

        The version is `at_least` so high: the time of day, where nobody may bring back an old one.
        """
        request.check()
        assert request.centre is not None
        others = sum(record.active for name, record in self._records.items() if name != request.name)
        if others >= MAX_REGIONS:
            raise InputError(
                f"{MAX_REGIONS} regions are endangered already", hint="end one: mangrove avoid --end NAME"
            )
        notice = DangerNotice(
            name=request.name,
            version=self._next_version(request.name, at_least),
            told_at=self.domain,
            centre=request.centre,
            radius_km=request.radius_km,
            left_s=request.for_s,
            cause=cause,
        )
        sites, links = self._hit(notice)
        if not any(domain.location for domain in self.federation.domains.values()):
            raise InputError(
                "no site of this federation has a location, so nothing can be in a region",
                hint="give the domains a location: [latitude, longitude] in the federation file",
            )
        if len(sites) == len(self.federation.domains):
            raise InputError(
                f"the region {request.name} contains every site of the federation: nothing can leave it",
                hint="choose a smaller radius",
            )
        self._keep(notice, sites, links, now)
        return notice

    def end(self, name: str, now: float, cause: str, at_least: int = 1) -> DangerNotice:
        """A region is safe again; InputError if it was not endangered."""
        record = self._records.get(name)
        if record is None or not record.active:
            known = ", ".join(sorted(each for each, record in self._records.items() if record.active))
            raise InputError(
                f"there is no endangered region {name!r}", hint=f"endangered: {known or 'nothing'}"
            )
        before = record.notice
        notice = DangerNotice(
            name=name,
            version=self._next_version(name, at_least),
            told_at=self.domain,
            centre=before.centre,
            radius_km=before.radius_km,
            left_s=max(record.expires_at - now, 0.0),
            ended=True,
            cause=cause,
        )
        self._keep(notice, record.sites, record.links, now)
        return notice

    def _next_version(self, name: str, at_least: int) -> int:
        record = self._records.get(name)
        return at_least if record is None else max(at_least, record.notice.version + 1)

    # -- from neighbours, and to them ---------------------------------------------------------------------

    def too_many(self, notice: DangerNotice) -> bool:
        """Whether a domain declares more regions than may be endangered: it must not use up others' room."""
        told = sum(record.notice.told_at == notice.told_at for record in self._records.values())
        return notice.name not in self._records and told >= MAX_REGIONS

    def known(self, notice: DangerNotice, now: float, left_s: float | None) -> bool:
        """Whether a notice is no news. The same again is some if more of its time is said to be left:
        nobody can end a region for others by saying that its time is over.
        """
        known = self._records.get(notice.name)
        if known is None or _rank(notice) > _rank(known.notice):
            return False
        longer = (
            min(notice.left_s, MAX_FOR_S if left_s is None else left_s) > known.expires_at - now + LONGER_S
        )
        return _rank(notice) < _rank(known.notice) or not longer

    def receive(self, notice: DangerNotice, now: float) -> bool:
        """Take in what a neighbour says; True if it is news and must be passed on."""
        known = self._records.get(notice.name)
        signed = notice.name in self.signed
        if known is not None and (
            self.known(notice, now, None) if signed else _rank(notice) <= _rank(known.notice)
        ):
            return False
        full = known is None and len(self._records) >= MAX_REMEMBERED
        if full or notice.told_at not in self.federation.domains:
            self.ignored += 1
            return False
        self._keep(notice, *self._hit(notice), now)
        return True

    def _keep(
        self, notice: DangerNotice, sites: frozenset[str], links: frozenset[SitePair], now: float
    ) -> None:
        active = not notice.ended and notice.left_s > 0
        self._records[notice.name] = _Record(notice, now + notice.left_s, sites, links, active)
        self.version += 1

    def _hit(self, notice: DangerNotice) -> tuple[frozenset[str], frozenset[SitePair]]:
        graph = graph_of_federation(self.federation)
        hit = damage(graph, Region.disc(notice.centre, notice.radius_km), cut_links=True)
        sites = frozenset(graph.names[index] for index in np.flatnonzero(hit.nodes))
        links = frozenset(
            site_pair(graph.names[u], graph.names[v])
            for (u, v), struck in zip(graph.ends, hit.links, strict=True)
            if struck or graph.names[u] in sites or graph.names[v] in sites
        )
        return sites, links

    def tell(self, name: str, peers: Iterable[str], now: float) -> list[tuple[str, DangerNotice]]:
        """A region for each of these neighbours, to be acknowledged."""
        for peer in peers:
            self._pending.setdefault(peer, {})[name] = _Pending(now + REPEAT_S)
        return [(peer, self._notice(name, now)) for peer in peers]

    def peer_up(self, peer: str, now: float) -> list[tuple[str, DangerNotice]]:
        """A neighbour is there: everything that is known."""
        return [said for name in self._records for said in self.tell(name, [peer], now)]

    def peer_down(self, peer: str) -> None:
        """A neighbour is gone; it will be told everything when it is back."""
        self._pending.pop(peer, None)

    def acknowledge(self, peer: str, ack: DangerAck) -> None:
        """A neighbour has heard of a region."""
        record = self._records.get(ack.name)
        if record is not None and (ack.version, ack.told_at) >= (
            record.notice.version,
            record.notice.told_at,
        ):
            self._pending.get(peer, {}).pop(ack.name, None)

    def _notice(self, name: str, now: float) -> DangerNotice:
        """What is said of a region now, with the time that is left now."""
        record = self._records[name]
        before = record.notice
        return DangerNotice(
            name=name,
            version=before.version,
            told_at=before.told_at,
            centre=before.centre,
            radius_km=before.radius_km,
            left_s=min(max(record.expires_at - now, 0.0), MAX_FOR_S),
            ended=before.ended,
            cause=before.cause,
        )

    def evidence(self) -> Iterator[tuple[str, Signed]]:
        """What was signed of each region, and where."""
        for name, signed in self.signed.items():
            yield self._records[name].notice.told_at, signed

    # -- time ---------------------------------------------------------------------------------------------

    def repeats(self, now: float) -> list[tuple[str, DangerNotice]]:
        """What was not acknowledged in time."""
        again: list[tuple[str, DangerNotice]] = []
        if not self._records:
            return again
        for peer, waiting in self._pending.items():
            for name, pending in waiting.items():
                if now >= pending.repeat_at:
                    pending.repeat_at = now + REPEAT_S
                    again.append((peer, self._notice(name, now)))
        return again

    def expire(self, now: float) -> list[str]:
        """The regions whose time is over; those that were over long ago are forgotten."""
        over: list[str] = []
        if not self._records:
            return over
        for name, record in list(self._records.items()):
            if record.active and now >= record.expires_at:
                record.active = False
                over.append(name)
            elif not record.active and now >= record.expires_at + REMEMBERED_S:
                del self._records[name]
                self.signed.pop(name, None)
                for waiting in self._pending.values():
                    waiting.pop(name, None)
        self.version += bool(over)
        return over

    def timer(self) -> float:
        """When `repeats` or `expire` has something to do."""
        if not self._records:
            return float("inf")
        times = [pending.repeat_at for waiting in self._pending.values() for pending in waiting.values()]
        over = (
            record.expires_at + (0.0 if record.active else REMEMBERED_S) for record in self._records.values()
        )
        return min([*times, *over], default=float("inf"))

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        found = [] if len(self._records) <= MAX_REMEMBERED + MAX_REGIONS else ["too many regions are kept"]
        strangers = {name for waiting in self._pending.values() for name in waiting} - self._records.keys()
        if strangers:
            found.append(f"acknowledgements are awaited of the unknown regions {sorted(strangers)}")
        return found


def _rank(notice: DangerNotice) -> tuple[int, str]:
    return notice.version, notice.told_at


def _region(record: _Record, now: float) -> EndangeredRegion:
    return EndangeredRegion(
        name=record.notice.name,
        centre=record.notice.centre,
        radius_km=record.notice.radius_km,
        left_s=max(record.expires_at - now, 0.0),
        told_at=record.notice.told_at,
        sites=tuple(sorted(record.sites)),
        links=tuple(sorted(record.links)),
    )
