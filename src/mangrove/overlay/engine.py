"""The gateway's protocol engine: no sockets, no clock. Events go in, instructions come out.

Events: what the own subscribers want changed; messages were gathered from the head broker; a neighbour came,
went, or sent a frame; a timer is due. Instructions: see `instructions`. The parts that decide are modules of
their own: `liveness` (is a link alive), `link_state` and `live_map` (what the network looks like),
`route_manager` (explicit routes), `interest` (who wants what), `seen_frames` and `resequencer` (delivery).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mangrove.model.federation import Federation
from mangrove.overlay.delivery.delivery import Delivery
from mangrove.overlay.events import Event, EventLog
from mangrove.overlay.forwarding.flows import FlowTable
from mangrove.overlay.forwarding.forwarder import Forwarder
from mangrove.overlay.instructions import CloseLink, Instruction, SendFrame
from mangrove.overlay.interest.subscriptions import Subscriptions
from mangrove.overlay.links.liveness import LinkCondition, Timing
from mangrove.overlay.links.neighbours import Neighbour, Neighbours
from mangrove.overlay.network.link_state import LinkStateDatabase
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.protocol.control_messages import (
    ControlBody,
    Digest,
    Goodbye,
    Heartbeat,
    HeartbeatKind,
    Hello,
    InterestUpdate,
    LinkStateAck,
    LinkStateAd,
    RouteAck,
    RouteMessage,
    RouteSetup,
    RouteTeardown,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import Frame, FrameError, FrameType
from mangrove.overlay.protocol.greeting import check_hello, make_hello
from mangrove.overlay.routes.route_manager import RouteManager
from mangrove.overlay.routes.transit_labels import TransitLabels
from mangrove.routing.tables import FailoverTables

HELD_UP_S = 0.01
"""A timer that is served later than this shows that the process did not get the processor."""


class OverlayEngine:
    """One gateway of the overlay."""

    def __init__(
        self,
        federation: Federation,
        domain: str,
        epoch: int,
        *,
        timing: Timing | None = None,
        tables: FailoverTables | None = None,
    ) -> None:
        self.domain = domain
        self.epoch = epoch
        self.federation = federation
        links = [link.between for link in federation.links]
        peers = [link.other(domain) for link in federation.links_of(domain)]
        self.events = EventLog(domain)
        self.live = LiveMap(federation, domain, tables)
        self.neighbours = Neighbours(peers, timing or Timing(), federation.queue_bytes)
        self.link_state = LinkStateDatabase(domain, epoch, links)
        self.routes = RouteManager(domain, epoch, federation.topics, self.live, self.events)
        self.flows = FlowTable(domain, federation.domain_order, federation.topics)
        self.subscriptions = Subscriptions(domain, federation, epoch, self.flows)
        self.labels = TransitLabels(domain)
        self.forwarder = Forwarder(
            federation, domain, epoch, self.neighbours, self.live, self.routes, self.labels
        )
        self.delivery = Delivery(federation)
        for neighbour in self.neighbours:
            neighbour.monitor.only_way = not self.live.has_bypass(neighbour.name)
        self._peers: set[str] = set()
        self._last_change: Event | None = None
        self._followed = -1
        """Version of the link state that the map follows."""
        self._due = float("inf")
        self.ignored: Counter[str] = Counter()

    # -- greeting -----------------------------------------------------------------------------------------

    def hello(self) -> Frame:
        """The first frame on every link."""
        return control_frame(make_hello(self.federation, self.domain, self.epoch))

    def greet(self, frame: Frame, expected: str | None) -> Hello:
        """Check a peer's first frame, or raise FrameError with the reason to refuse it."""
        return check_hello(frame, self.federation, self.domain, expected)

    # -- neighbours come and go ---------------------------------------------------------------------------

    def peer_up(self, peer: str, now: float) -> list[Instruction]:
        """A greeted neighbour is there: compare what both know, and begin to test the link."""
        self._peers.add(peer)
        self.neighbours[peer].connect(now)
        instructions: list[Instruction] = [
            self._control(peer, ad) for ad in self.link_state.peer_up(peer, now)
        ]
        instructions.append(self._control(peer, self.subscriptions.digest()))
        return [*instructions, *self.handle_timer(now)]

    def peer_down(self, peer: str, now: float, reason: str = "") -> list[Instruction]:
        """The connection to a neighbour is gone: what it has not acknowledged goes another way."""
        if peer not in self._peers:
            return []
        neighbour = self.neighbours[peer]
        was_usable = neighbour.usable
        self._peers.discard(peer)
        neighbour.monitor.disconnect(now)
        self.link_state.peer_down(peer)
        if was_usable:
            self._last_change = self.events.note("LinkFailed", now, peer=peer, reason=reason)
        instructions = self._network_changed(now, self._last_change)
        for frame in neighbour.outgoing.restart(now):
            instructions += self.forwarder.reroute(frame, now)
        return instructions

    def heard(self, peer: str, now: float) -> None:
        """Bytes came from a neighbour: it is alive."""
        self.neighbours[peer].monitor.heard(now)

    # -- messages and interest ----------------------------------------------------------------------------

    def change_local_interest(self, added: Iterable[str], removed: Iterable[str]) -> list[Instruction]:
        """The own domain's subscribers changed."""
        update = self.subscriptions.change_local(added, removed)
        return [] if update is None else self._flood_interest(update, None)

    def flush(self, now: float) -> list[Instruction]:
        """Turn what the flows gathered into frames and send them on their way."""
        instructions: list[Instruction] = []
        for flow in self.flows.touched():
            instructions += self.forwarder.originate(flow, now)
        return instructions

    def receive(self, peer: str, frame: Frame, now: float) -> list[Instruction]:
        """A frame from a greeted neighbour. FrameError means: close this link."""
        if frame.type is FrameType.DATA:
            return self._receive_data(self.neighbours[peer], frame, now)
        if frame.type is FrameType.PIECE:
            self.neighbours[peer].joining.add(frame)
            return []
        body = control_body(frame)
        match body:
            case Heartbeat():
                return self._receive_heartbeat(self.neighbours[peer], body, now)
            case LinkStateAd():
                return self._receive_ad(peer, body, now)
            case LinkStateAck():
                self.link_state.acknowledge(peer, body)
                return []
            case RouteSetup() | RouteAck() | RouteTeardown():
                return self._receive_route(body, now)
            case InterestUpdate():
                return self._receive_interest(peer, body, now)
            case Digest():
                return [self._control(peer, update) for update in self.subscriptions.missing_from(body)]
            case Goodbye():
                raise FrameError(f"the peer closed the link: {body.reason}")
            case Hello():
                raise FrameError("the peer said HELLO twice")

    # -- time ---------------------------------------------------------------------------------------------

    def timer(self) -> float:
        """When `handle_timer` wants to be called next."""
        times = (
            self.neighbours.timer(),
            self.link_state.timer(),
            self.routes.timer(),
            self.forwarder.parked.timer(),
            self.delivery.resequencer.timer(),
        )
        self._due = min(time for time in times if time is not None)
        return self._due

    def handle_timer(self, now: float) -> list[Instruction]:
        """Heartbeats, silent links, repeated advertisements, expired frames."""
        instructions: list[Instruction] = []
        held_up = now - self._due
        for neighbour in self.neighbours:
            monitor = neighbour.monitor
            if held_up > HELD_UP_S:
                monitor.forgive(held_up)
            if monitor.dead(now):
                silence = f"no sign of life for {1000 * monitor.dead_interval_s:.0f} ms"
                monitor.found_dead(now)
                instructions.append(CloseLink(neighbour.name, silence))
                instructions += self.peer_down(neighbour.name, now, silence)
            elif (heartbeat := neighbour.due_heartbeat(now)) is not None:
                instructions.append(self._control(neighbour.name, heartbeat))
        instructions += [self._control(peer, ad) for peer, ad in self.link_state.repeats(now)]
        instructions += self._network_changed(now, None)
        instructions += self._route_frames(self.routes.catch_up(now))
        instructions += self.forwarder.expire(now)
        instructions += self.delivery.expire(now)
        return instructions

    # -- inside -------------------------------------------------------------------------------------------

    def _receive_data(self, neighbour: Neighbour, frame: Frame, now: float) -> list[Instruction]:
        self.forwarder.check(frame)
        if frame.stream:
            frame = neighbour.joining.join(frame)
        instructions: list[Instruction] = []
        acknowledgement = neighbour.took_over(frame, now)
        if acknowledgement is not None:
            instructions.append(self._control(neighbour.name, acknowledgement))
        frame = frame.older(neighbour.monitor.one_way_s)
        if frame.destinations & self.forwarder.own_bit:
            instructions += self.delivery.arrived(frame, now)
        return [*instructions, *self.forwarder.onward(frame, now)]

    def _receive_heartbeat(self, neighbour: Neighbour, message: Heartbeat, now: float) -> list[Instruction]:
        neighbour.outgoing.acknowledge(message.received)
        instructions: list[Instruction] = [neighbour.serve] if neighbour.outgoing.backlogged else []
        if message.kind is HeartbeatKind.TEST:
            answer = neighbour.heartbeat(HeartbeatKind.TEST_ACK, now)
            instructions.append(self._control(neighbour.name, answer))
        if neighbour.monitor.heartbeat(message, now):
            self._last_change = self.events.note("LinkRecovered", now, peer=neighbour.name)
            instructions += self._network_changed(now, self._last_change)
        return instructions

    def _receive_ad(self, peer: str, ad: LinkStateAd, now: float) -> list[Instruction]:
        ack = LinkStateAck(origin=ad.origin, epoch=ad.epoch, number=ad.number)
        instructions: list[Instruction] = [self._control(peer, ack)]
        if self.link_state.receive(ad):
            instructions += [
                self._control(other, news) for other, news in self.link_state.flood(ad, peer, now)
            ]
            instructions += self._network_changed(now, None)
        return instructions

    def _network_changed(self, now: float, cause: Event | None) -> list[Instruction]:
        """Advertise own changes, follow the state of the network, and mend routes that it breaks."""
        instructions: list[Instruction] = []
        ad = self.link_state.advertise(self.neighbours.reports(now), now)
        if ad is not None:
            instructions += [self._control(peer, own) for peer, own in self.link_state.flood(ad, None, now)]
        if self.link_state.version == self._followed:
            return instructions
        self._followed = self.link_state.version
        before = self.live.failed
        changed, slower = self.live.update(self.link_state.failed_links(), self.link_state.measured())
        if changed:
            cause = self.events.note(
                "ColourChanged",
                now,
                cause,
                colour=self.live.colour,
                prepared=self.live.exact,
                failed=sorted(map(list, self.live.failed - before)),
                recovered=sorted(map(list, before - self.live.failed)),
            )
            for frame in self.forwarder.parked.release(now):
                instructions += self.forwarder.reroute(frame, now)
        if changed or slower:
            instructions += self._route_frames(self.routes.network_changed(now, cause, links=changed))
        return instructions

    def _receive_interest(self, peer: str, update: InterestUpdate, now: float) -> list[Instruction]:
        news, gap, change = self.subscriptions.receive(update)
        if gap:
            return [self._control(peer, self.subscriptions.digest())]
        instructions: list[Instruction] = self._flood_interest(update, peer) if news else []
        if change is not None:
            instructions.append(change)
            instructions += self._route_frames(
                self.routes.want(self.subscriptions.classes_wanted(), now, None)
            )
        return instructions

    def _receive_route(self, message: RouteMessage, now: float) -> list[Instruction]:
        """Pass a route message along its path; answer a set-up at its end or where it fails."""
        if isinstance(message, RouteAck):
            if message.origin == self.domain:
                return self._route_frames(self.routes.acknowledge(message, now, self._last_change))
            return self._route_frames([(self._before(message.path), message)])
        if isinstance(message, RouteTeardown):
            following = self.labels.remove(message.origin, message.epoch, message.label)
            return self._route_frames([(following, message)] if following is not None else [])
        following, problem = self.labels.install(message)
        if following is not None and self.neighbours.usable(following):
            return self._route_frames([(following, message)])
        if following is not None:
            problem = f"the link from {self.domain} to {following} is down"
        ack = RouteAck(
            origin=message.origin,
            epoch=message.epoch,
            label=message.label,
            path=message.path,
            ok=not problem,
            reason=problem,
        )
        return self._route_frames([(self._before(message.path), ack)])

    def _before(self, path: list[str]) -> str | None:
        position = path.index(self.domain) if self.domain in path else 0
        return path[position - 1] if position else None

    def _route_frames(self, messages: Sequence[tuple[str | None, RouteMessage]]) -> list[Instruction]:
        """Send route messages to neighbours that can be reached; what is lost is asked for again."""
        instructions: list[Instruction] = []
        for peer, message in messages:
            if peer in self._peers:
                instructions.append(self._control(peer, message))
            else:
                self.ignored["route message without a way"] += 1
        return instructions

    def _flood_interest(self, update: InterestUpdate, source: str | None) -> list[Instruction]:
        frame = control_frame(update)
        return [SendFrame(peer, frame) for peer in sorted(self._peers) if peer != source]

    @staticmethod
    def _control(peer: str, body: ControlBody) -> SendFrame:
        return SendFrame(peer, control_frame(body))

    def condition(self, peer: str) -> str:
        """State of a link in PCRT's words: normal, waiting (an acknowledgement is owed), testing, failure."""
        condition = self.neighbours[peer].monitor.condition
        if condition is LinkCondition.NORMAL and self.link_state.waiting(peer):
            return "waiting"
        return condition.value
