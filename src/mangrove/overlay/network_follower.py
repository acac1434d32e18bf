"""Following the network: others are told of what changed here, and what they tell is acted upon.

Everything that a change touches is touched here, in one place and one order: advertisements are flooded, the
map and the tables in force follow, frames that had no way are released, explicit routes are mended, queue
groups are served by who is nearest now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from mangrove.model.events.event_log import EventId, EventLog
from mangrove.model.questions.endangered import AvoidRequest
from mangrove.model.questions.session_quality import Role
from mangrove.model.site_pair import SitePair
from mangrove.overlay.events.happenings import ColourChanged, RegionEndangered, RegionSafe
from mangrove.overlay.forwarding.flows import FlowTable
from mangrove.overlay.forwarding.forwarder import Forwarder
from mangrove.overlay.forwarding.nearest import NearestDomains
from mangrove.overlay.instructions import ForgetRoutes, Instruction, SendFrame, send_control
from mangrove.overlay.links.neighbours import Neighbours
from mangrove.overlay.network.link_state import LinkStateDatabase
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.protocol.control_messages import (
    DangerAck,
    DangerNotice,
    LinkStateAck,
    LinkStateAd,
    RouteMessage,
    SiteReport,
)
from mangrove.overlay.protocol.frames import FrameType
from mangrove.overlay.protocol.signed import Signed
from mangrove.overlay.protocol.signed_bodies import signed_frame
from mangrove.overlay.routes.effective_contracts import EffectiveContracts
from mangrove.overlay.routes.route_manager import RouteManager
from mangrove.overlay.routes.session_asks import SessionAsks
from mangrove.overlay.trust.notary import DANGER, LINK_STATE, Notary
from mangrove.overlay.trust.refusals import Refusal

EVERYTHING = (">",)
"""A pattern that covers all subjects."""


class NetworkParts(NamedTuple):
    """The parts of an engine that a change of the network touches."""

    neighbours: Neighbours
    link_state: LinkStateDatabase
    live: LiveMap
    contracts: EffectiveContracts
    asks: SessionAsks
    routes: RouteManager
    forwarder: Forwarder
    flows: FlowTable
    nearest: NearestDomains
    events: EventLog
    notary: Notary


class NetworkFollower:
    """Tells the others what changed here, and acts upon what they tell."""

    def __init__(self, parts: NetworkParts) -> None:
        self._parts = parts
        self.site = SiteReport()
        """How long messages are inside the own site."""
        self._confirmed: dict[str, tuple[int, int]] = {}
        """Up to which version of other domains' interest the head broker has taken the subscriptions."""
        self._followed = -1
        """Version of the link state that the map follows."""
        self.ignored: Counter[str] = Counter()

    def confirm(self, applied: Iterable[tuple[str, int, int]]) -> None:
        """The head broker has taken the subscriptions up to these versions of others' interest."""
        for domain, epoch, version in applied:
            self._confirmed[domain] = max(self._confirmed.get(domain, (-1, -1)), (epoch, version))

    def forget(self, domain: str) -> None:
        """A domain has left."""
        self._confirmed.pop(domain, None)

    @property
    def up_to_date(self) -> bool:
        """Whether the map follows all that is known of the links."""
        return self._followed == self._parts.link_state.version

    # -- neighbours and time ------------------------------------------------------------------------------

    def peer_up(self, peer: str, now: float) -> list[Instruction]:
        """A neighbour is there: it is told everything."""
        link_state, dangers = self._parts.link_state, self._parts.live.dangers
        told: list[Instruction] = [self._say(peer, ad) for ad in link_state.peer_up(peer, now)]
        return told + [self._warn(peer, notice) for _, notice in dangers.peer_up(peer, now)]

    def peer_down(self, peer: str, now: float, cause: EventId | None) -> list[Instruction]:
        """A neighbour is gone."""
        self._parts.link_state.peer_down(peer)
        self._parts.live.dangers.peer_down(peer)
        return self.follow(now, cause)

    def serve_timers(self, now: float) -> list[Instruction]:
        """Repeat what was not acknowledged; end what has run out; advertise what is due."""
        dangers = self._parts.live.dangers
        instructions: list[Instruction] = [
            self._say(peer, ad) for peer, ad in self._parts.link_state.repeats(now)
        ]
        instructions += self.asks_changed(now) if self._parts.asks.expire(now) else []
        instructions += [self._warn(peer, notice) for peer, notice in dangers.repeats(now)]
        for name in dangers.expire(now):
            over = self._parts.events.note(RegionSafe(name=name, reason="its time is over"), now)
            instructions += self._mend_routes(now, over)
        return instructions + self.follow(now, None)

    # -- link state ---------------------------------------------------------------------------------------

    def receive_ad(self, peer: str, ad: LinkStateAd, signed: Signed | None, now: float) -> list[Instruction]:
        """An advertisement of somebody's links."""
        ack = LinkStateAck(origin=ad.origin, epoch=ad.epoch, sequence=ad.sequence)
        instructions: list[Instruction] = [send_control(peer, ack)]
        if self._believed(peer, ad, signed) and self._parts.link_state.receive(ad):
            instructions += self._flood(ad, peer, now)
            instructions += self.follow(now, None)
        return instructions

    def _believed(self, peer: str, ad: LinkStateAd, signed: Signed | None) -> bool:
        """Whether the origin has signed an advertisement, where that is asked; known ones cost nothing."""
        notary, link_state = self._parts.notary, self._parts.link_state
        if not notary.secured or link_state.known(ad):
            return True
        if not link_state.possible(ad):
            notary.refuse(
                peer, ad.origin, LINK_STATE, Refusal.IMPOSSIBLE, "links or domains that are not its own"
            )
            return True
        return notary.believes_ad(peer, ad, signed)

    def _say(self, peer: str, ad: LinkStateAd) -> SendFrame:
        return SendFrame(peer, self._parts.notary.frame(ad))

    def _warn(self, peer: str, notice: DangerNotice) -> SendFrame:
        """A notice with the time that is left now; its origin's words stay as they were signed."""
        signed = self._parts.live.dangers.signed.get(notice.name)
        if signed is None:
            return send_control(peer, notice)
        told = msgspec.structs.replace(signed, left_s=notice.left_s)
        return SendFrame(peer, signed_frame(FrameType.LINK_STATE, told))

    def _flood(self, ad: LinkStateAd, source: str | None, now: float) -> list[Instruction]:
        others = [peer for peer in self._parts.neighbours.connected() if peer != source]
        return [self._say(peer, copy) for peer, copy in self._parts.link_state.flood(ad, others, now)]

    def advertise_anew(self, now: float) -> list[Instruction]:
        """Say again what was said last, in a new advertisement."""
        self._parts.link_state.forget_advertised()
        return self.follow(now, None)

    def follow(self, now: float, cause: EventId | None) -> list[Instruction]:
        """Advertise own changes, follow the state of the network, and mend routes that it breaks."""
        parts, instructions = self._parts, list[Instruction]()
        asks = parts.asks.of(Role.SUBSCRIBER)
        if not parts.link_state.told(parts.neighbours.present(), now, self._confirmed, asks, self.site):
            reports = parts.neighbours.reports(now)
            ad = parts.link_state.advertise(reports, now, self._confirmed, asks, self.site)
            if ad is not None:
                instructions += self._flood(ad, None, now)
        if self.up_to_date:
            return instructions
        self._followed = parts.link_state.version
        before = parts.live.failed
        changed, slower = parts.live.update(parts.link_state.failed_links(), parts.link_state.measured())
        parts.routes.observe(now)
        if changed:
            cause = self._note_colour(before, now, cause)
            for frame in parts.forwarder.parked.release(now):
                instructions += parts.forwarder.reroute(frame, now)
        if changed or slower:
            if parts.nearest.network_changed():
                parts.flows.choices_changed()
                instructions.append(ForgetRoutes(EVERYTHING))
            instructions += self.send_routes(parts.routes.network_changed(now, cause, links=changed))
        if parts.contracts.heard(parts.link_state.asks()):
            instructions += self._mend_routes(now, None)
        return instructions

    def tables_changed(self, now: float) -> list[Instruction]:
        """Other tables are in force, or links that are no part of the federation any more are out of use.

        What waited for a way is tried again, and queue groups and routes are chosen anew.
        """
        parts, instructions = self._parts, list[Instruction]()
        parts.routes.observe(now)
        for frame in parts.forwarder.parked.release(now):
            instructions += parts.forwarder.reroute(frame, now)
        parts.nearest.network_changed()
        parts.flows.choices_changed()
        instructions.append(ForgetRoutes(EVERYTHING))
        return instructions + self._mend_routes(now, None)

    def _note_colour(self, before: frozenset[SitePair], now: float, cause: EventId | None) -> EventId:
        """Other tables are in force: because of what happened here, or at an end of the link elsewhere."""
        live, cause_of = self._parts.live, self._parts.link_state.cause_of
        failed, recovered = live.failed - before, before - live.failed
        if cause is None:
            told = [cause_of(link, link in recovered) for link in sorted(failed | recovered)]
            cause = next((event for event in told if event), None)
        happening = ColourChanged(
            colour=live.colour,
            prepared=live.exact,
            failed=tuple(sorted(failed)),
            recovered=tuple(sorted(recovered)),
            risk_group=live.risk_group,
        )
        return self._parts.events.note(happening, now, cause)

    # -- endangered regions -------------------------------------------------------------------------------

    def avoid(self, request: AvoidRequest, now: float) -> list[Instruction]:
        """An operator says that a region is endangered, or no longer; InputError if that makes no sense."""
        dangers, notary = self._parts.live.dangers, self._parts.notary
        cause = self._parts.events.next_id
        at_least = notary.trust.time_ns() if notary.secured else 1
        if request.centre is None:
            notice = dangers.end(request.name, now, cause, at_least)
        else:
            notice = dangers.declare(request, now, cause, at_least)
        if notary.secured:
            dangers.signed[notice.name] = notary.sign(notice)
        return self._dangers_changed(notice, None, now)

    def receive_danger(
        self, peer: str, notice: DangerNotice, signed: Signed | None, now: float
    ) -> list[Instruction]:
        """Word of a region from elsewhere."""
        ack = DangerAck(name=notice.name, version=notice.version, told_at=notice.told_at)
        instructions: list[Instruction] = [send_control(peer, ack)]
        if self._parts.notary.secured:
            news = self._believed_danger(peer, notice, signed, now)
        else:
            news = self._parts.live.dangers.receive(notice, now)
        if news:
            instructions += self._dangers_changed(notice, peer, now)
        return instructions

    def _believed_danger(self, peer: str, notice: DangerNotice, signed: Signed | None, now: float) -> bool:
        """Take in a notice that its origin has signed, with as much time as is left of what was signed."""
        dangers, notary = self._parts.live.dangers, self._parts.notary
        if notice.told_at not in dangers.federation.domains:
            notary.refuse(peer, notice.told_at, DANGER, Refusal.IMPOSSIBLE)
        elif dangers.too_many(notice):
            notary.refuse(
                peer, notice.told_at, DANGER, Refusal.IMPOSSIBLE, "more regions than one may declare"
            )
        elif not dangers.known(notice, now, None if signed is None else signed.left_s):
            left_s = notary.time_left(peer, notice, signed)
            if left_s is not None and dangers.receive(msgspec.structs.replace(notice, left_s=left_s), now):
                assert signed is not None
                dangers.signed[notice.name] = signed
                return True
        return False

    def _dangers_changed(self, notice: DangerNotice, source: str | None, now: float) -> list[Instruction]:
        """Tell the others, and let contracts leave or return."""
        dangers = self._parts.live.dangers
        others = [peer for peer in self._parts.neighbours.connected() if peer != source]
        told = dangers.tell(notice.name, others, now)
        active = {region.name: region for region in dangers.regions(now)}
        region = active.get(notice.name)
        happening: RegionEndangered | RegionSafe
        if region is None:
            happening = RegionSafe(name=notice.name, reason="an operator said so")
        else:
            happening = RegionEndangered(
                name=region.name,
                centre=region.centre,
                radius_km=region.radius_km,
                left_s=round(region.left_s, 3),
                sites=region.sites,
                links=len(region.links),
            )
        cause = self._parts.events.note(happening, now, None if source is None else notice.cause or None)
        self._parts.routes.observe(now)
        return [*(self._warn(peer, each) for peer, each in told), *self._mend_routes(now, cause)]

    # -- routes -------------------------------------------------------------------------------------------

    def asks_changed(self, now: float) -> list[Instruction]:
        """Publishers here ask for other routes, or subscribers for something that the others must hear of."""
        self._parts.contracts.own_changed()
        return [*self._mend_routes(now, None), *self.follow(now, None)]

    def _mend_routes(self, now: float, cause: EventId | None) -> list[Instruction]:
        return self.send_routes(self._parts.routes.network_changed(now, cause, links=True))

    def send_routes(self, messages: Sequence[tuple[str, RouteMessage]]) -> list[Instruction]:
        """Send route messages to neighbours that can be reached; what is lost is asked for again."""
        instructions: list[Instruction] = []
        for peer, message in messages:
            if self._parts.neighbours.reachable(peer):
                instructions.append(SendFrame(peer, self._parts.notary.frame(message)))
            else:
                self.ignored["route message without a way"] += 1
        return instructions
