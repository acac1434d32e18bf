"""Where frames go: along the established routes of their contract, else by table, else they wait."""

from __future__ import annotations

from msgspec.structs import replace

from mangrove.model.federation import Federation, Urgency
from mangrove.model.topics import Late
from mangrove.model.versions.network import RETIRED
from mangrove.model.versions.rules_in_force import Rules
from mangrove.overlay.forwarding.budgets import first_budget_ms, overdue_ms
from mangrove.overlay.forwarding.flows import OutboundFlow
from mangrove.overlay.forwarding.parked_frames import ParkedFrames
from mangrove.overlay.instructions import DropMessages, Instruction, RetargetMessages
from mangrove.overlay.links.laxity_queue import FOREVER
from mangrove.overlay.links.neighbours import Neighbours
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.protocol.frames import Frame, FrameError, FrameType, Predecessor
from mangrove.overlay.routes.route_manager import RouteManager
from mangrove.overlay.routes.transit_labels import TransitLabels
from mangrove.overlay.sealing.sealer import Sealer
from mangrove.overlay.trust.notary import Notary

HOPS_USED_UP = "hop limit reached"
NO_SEALER = "confidential, and this gateway has no keys to seal it with"
DEPARTED = "for a domain that has left the federation"
PATIENCE_S = 10.0
"""How long a frame waits for a way if it is wanted even late."""


class Forwarder:
    """Sends frames on their way, and sends them again another way when a link has failed them."""

    def __init__(
        self,
        federation: Federation,
        domain: str,
        epoch: int,
        neighbours: Neighbours,
        live: LiveMap,
        routes: RouteManager,
        labels: TransitLabels,
        notary: Notary,
        rules: Rules | None = None,
    ) -> None:
        self._rules: Rules = rules or federation.topics
        self._urgency = federation.urgency
        self._order = federation.domain_order
        self._departed = 0
        """Domains that have left, as bits."""
        self._index = self._order.index(domain)
        self._epoch = epoch
        self._neighbours = neighbours
        self._live = live
        self._routes = routes
        self._labels = labels
        self._notary = notary
        self.own_bit = 1 << self._index
        self.sealer: Sealer | None = None
        """Without one, nothing confidential leaves."""
        self.ingress_us = 0
        """How old messages are when they come from the head broker, as far as is known."""
        self.parked = ParkedFrames(federation.queue_bytes)

    def adopt(self, federation: Federation) -> None:
        """Other domains are members."""
        self._order = federation.domain_order
        self._departed = sum(
            1 << number for number, name in enumerate(self._order) if name not in federation.domains
        )

    def begin(self, epoch: int) -> None:
        """A life of this gateway begins: its frames have names of their own."""
        self._epoch = epoch

    def check(self, frame: Frame) -> None:
        """Refuse frames that name domains which do not exist, or prove more than there are domains."""
        if frame.origin >= len(self._order) or frame.destinations >> len(self._order):
            raise FrameError(f"origin {frame.origin} or destinations {frame.destinations:#x} unknown here")
        if len(frame.tags) > len(self._order):
            raise FrameError(f"{len(frame.tags)} tags, in a federation of {len(self._order)} domains")

    # -- three ways in ------------------------------------------------------------------------------------

    def originate(
        self, flow: OutboundFlow, predecessors: tuple[Predecessor, ...], now: float
    ) -> list[Instruction]:
        """A new frame from what a flow has gathered, over all paths that its contract asks for."""
        flow.sequence += 1
        frame = Frame(
            type=FrameType.JOBS if flow.jobs else FrameType.DATA,
            body=flow.give(),
            hop_limit=flow.hop_limit,
            origin=self._index,
            topic_class=flow.topic_class,
            epoch=self._epoch,
            destinations=flow.destinations,
            flow_id=flow.id,
            sequence=flow.sequence,
            age_us=self.ingress_us,
            predecessors=predecessors,
        )
        if flow.confidential:
            if self.sealer is None:
                return [DropMessages(frame, NO_SEALER)]
            frame = replace(frame, body=self.sealer.seal(frame))
        return self._by_routes(frame, now, patient=flow.retargeted)

    def onward(self, frame: Frame, now: float) -> list[Instruction]:
        """A frame from a neighbour, for other domains than this one.

        A frame may come back to its origin: a repair on the way may lead through it.
        """
        destinations = frame.destinations & ~self.own_bit
        if not destinations:
            return []
        if frame.hop_limit <= 1:
            return [DropMessages(frame, HOPS_USED_UP)]
        if frame.label:
            peer = self._labels.next_hop(self._order[frame.origin], frame.epoch, frame.label)
            if peer is not None and self._neighbours.usable(peer):
                return self._send(peer, frame.onward(destinations, frame.label, self._index), now)
            # The route is broken here: the tables for the present state of the network take over.
        return self._by_table(frame.onward(destinations, 0, self._index), now)

    def turn_back(self, frame: Frame, now: float) -> list[Instruction]:
        """A sealed frame whose destination is lost goes to its origin, which alone can look into it.

        Where no way leads there either, or it is on its way back already, it waits.
        """
        back = 1 << frame.origin
        led = [peer for peer, _ in self._live.forwarding.split(back) if self._neighbours.usable(peer)]
        if frame.destinations == back or not led:
            return self.park(frame, now)
        if frame.hop_limit <= 1:
            return [DropMessages(frame, HOPS_USED_UP)]
        # Its tags stay, though they are for others: by them its origin knows it again.
        returned = replace(frame.onward(back, 0, self._index), tags=frame.tags)
        return self._by_table(returned, now, patient=True)

    def came_back(self, frame: Frame) -> bool:
        """Whether a frame says that it is one of this gateway's own, turned back because it is sealed."""
        own = frame.origin == self._index and frame.type is FrameType.JOBS
        return own and frame.destinations == self.own_bit and self._rules.ever_confidential

    def reroute(self, frame: Frame, now: float) -> list[Instruction]:
        """A frame whose way was cut: by table."""
        return self._by_table(frame.towards(frame.destinations), now)

    # -- two ways out -------------------------------------------------------------------------------------

    def _by_routes(self, frame: Frame, now: float, *, patient: bool) -> list[Instruction]:
        instructions: list[Instruction] = []
        left = frame.destinations
        if frame.topic_class != self._rules.unmatched and self._routes.sets:
            open_ = left
            while open_:
                bit = open_ & -open_
                open_ ^= bit
                name = self._order[bit.bit_length() - 1]
                routes = self._routes.sets.get((frame.topic_class, name))
                if routes is None:
                    continue
                usable = [route for route in routes.active() if self._neighbours.usable(route.path[1])]
                if usable:
                    left &= ~bit
                    routes.sent_bytes += len(frame.body)
                    for route in usable:
                        instructions += self._send(route.path[1], frame.towards(bit, route.label), now)
        if left:
            part = frame if left == frame.destinations else frame.towards(left)
            instructions += self._by_table(part, now, patient=patient)
        return instructions

    def _by_table(self, frame: Frame, now: float, *, patient: bool = False) -> list[Instruction]:
        """What names queue groups does not wait for a way, unless that was found to be best."""
        instructions: list[Instruction] = []
        left = frame.destinations
        for peer, destinations in self._live.forwarding.split(frame.destinations):
            if self._neighbours.usable(peer):
                left &= ~destinations
                part = frame if destinations == frame.destinations else frame.towards(destinations)
                instructions += self._send(peer, part, now)
        if left & self._departed:
            instructions += self._undeliverable(frame.towards(left & self._departed), now)
            left &= ~self._departed
        if left and frame.type is FrameType.JOBS and not patient:
            instructions.append(RetargetMessages(frame.towards(left)))
        elif left:
            instructions += self.park(frame.towards(left), now)
        return instructions

    def _undeliverable(self, frame: Frame, now: float) -> list[Instruction]:
        """What is for domains that have left: they get it while their links are still open.

        Else queue groups are served elsewhere, and the rest is dropped.
        """
        instructions: list[Instruction] = []
        left = frame.destinations
        for number in [number for number in range(len(self._order)) if left >> number & 1]:
            former = self._neighbours.closing(self._order[number].partition(RETIRED)[0])
            if former is not None:
                instructions += self._send(former.name, frame.towards(1 << number), now)
                left &= ~(1 << number)
        if left and frame.type is FrameType.JOBS:
            return [*instructions, RetargetMessages(frame.towards(left))]
        return [*instructions, DropMessages(frame.towards(left), DEPARTED)] if left else instructions

    def _send(self, peer: str, frame: Frame, now: float) -> list[Instruction]:
        """Let a frame wait its turn: time to its deadline less what the rest of the way needs (laxity)."""
        neighbour = self._neighbours[peer]
        if frame.origin == self._index:
            frame = self._notary.with_tags(frame, peer)
        contract = self._rules.contract_at(frame.topic_class)
        if contract.deadline_ms is None:
            measured = self._rules.account_of(frame.topic_class) == frame.topic_class
            displaced = neighbour.outgoing.push(frame, None, now, measured=measured)
        else:
            left_ms = contract.deadline_ms - frame.age_us / 1000
            due, budget_s = self._due(frame, left_ms, now)
            until = now + left_ms / 1000 if contract.late is Late.DROP else FOREVER
            displaced = neighbour.outgoing.push(frame, due, now, until, budget_s)
        if not displaced:
            return [neighbour.serve]
        drops = [DropMessages(other, f"queue to {peer} full") for other in displaced]
        return [*drops, neighbour.serve]

    def _due(self, frame: Frame, left_ms: float, now: float) -> tuple[float | None, float]:
        """When a frame should leave, as queues rank it, and how long it may wait here."""
        way = self._live.way_ahead(frame.destinations, frame.topic_class)
        if way is None:  # a part of the map is not known; the frame's neighbour may know more
            return now + left_ms / 1000, FOREVER
        urgency = self._urgency
        budget_ms = first_budget_ms(left_ms, way, by_load=urgency is not Urgency.EQUAL_BUDGET)
        if urgency is Urgency.LAXITY:
            return now + (left_ms - way.ahead_ms) / 1000, budget_ms / 1000
        if urgency is Urgency.ARRIVAL:
            return None, budget_ms / 1000
        return now + (budget_ms - overdue_ms(left_ms, way)) / 1000, budget_ms / 1000

    # -- no way -------------------------------------------------------------------------------------------

    def park(self, frame: Frame, now: float) -> list[Instruction]:
        """Let a frame wait until there is a way, within its contract's limits."""
        contract = self._rules.contract_at(frame.topic_class)
        wait_s = PATIENCE_S
        if contract.deadline_ms is not None and contract.late is Late.DROP:
            wait_s = (contract.deadline_ms - frame.age_us / 1000) / 1000
        displaced = self.parked.park(frame, now, now + max(wait_s, 0.0))
        return [DropMessages(other, "no way to the destination, and no room to wait") for other in displaced]

    def expire(self, now: float) -> list[Instruction]:
        """Frames that have waited in vain."""
        instructions: list[Instruction] = [
            DropMessages(frame, "expired while no way led to the destination")
            for frame in self.parked.expired(now)
        ]
        for neighbour in self._neighbours:
            if expired := neighbour.outgoing.waiting.take_expired():
                reason = f"late in the queue to {neighbour.name}"
                instructions += [DropMessages(frame, reason) for frame in expired]
        return instructions
