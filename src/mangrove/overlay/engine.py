"""The gateway's protocol engine: no sockets, no clock. Events go in, instructions come out.

Events: what the own subscribers want changed; messages were gathered from the head broker; a neighbour came,
went, or sent a frame. Instructions: send this frame to that neighbour, deliver these messages to the head
broker, subscribe there to these subjects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from mangrove.model.federation import Federation
from mangrove.overlay.flows import FlowTable
from mangrove.overlay.frames import (
    PROTOCOL_VERSION,
    ControlBody,
    Digest,
    Frame,
    FrameError,
    FrameType,
    Goodbye,
    Hello,
    InterestUpdate,
    control_body,
    control_frame,
)
from mangrove.overlay.interest import InterestChange, InterestDatabase
from mangrove.overlay.seen_frames import SeenFrames, Verdict
from mangrove.routing.forwarding import Forwarding


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Send a frame to a neighbour."""

    peer: str
    frame: Frame


@dataclass(frozen=True, slots=True)
class DeliverMessages:
    """Write the messages of a frame to the head broker."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class ChangeSubscriptions:
    """Change what the gateway subscribes to at its head broker."""

    add: tuple[str, ...]
    remove: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropMessages:
    """Messages of a frame end here; count them under `reason`."""

    frame: Frame
    reason: str


Instruction = SendFrame | DeliverMessages | ChangeSubscriptions | DropMessages


class OverlayEngine:
    """One gateway of the overlay."""

    def __init__(self, federation: Federation, domain: str, epoch: int, forwarding: Forwarding) -> None:
        self.domain = domain
        self.epoch = epoch
        self._federation = federation
        self._order = federation.domain_order
        self._index = self._order.index(domain)
        self._bit = 1 << self._index
        self._topology = federation.topology_hash()
        self._forwarding = forwarding
        self._hop_limit = min(255, max(2, 2 * len(self._order)))
        self._sequence = 0
        self._seen = SeenFrames()
        self._peers: set[str] = set()
        self._subscribed: Counter[str] = Counter()
        self.interest = InterestDatabase(domain, self._order, epoch)
        self.flows = FlowTable(domain, self._order, federation.topics)
        self.verdicts: Counter[Verdict] = Counter()

    # -- greeting -----------------------------------------------------------------------------------------

    def hello(self) -> Frame:
        """The first frame on every link."""
        return control_frame(
            Hello(
                protocol=PROTOCOL_VERSION,
                federation=self._federation.name,
                topology=self._topology,
                domain=self.domain,
                epoch=self.epoch,
            )
        )

    def greet(self, frame: Frame, expected: str | None) -> str:
        """Check a peer's first frame and return its domain, or raise FrameError with the reason.

        `expected` is the domain that was called; None when the peer called us.
        """
        if frame.type is not FrameType.HELLO:
            raise FrameError(f"the peer began with a {frame.type.name} frame instead of HELLO")
        hello = control_body(frame)
        if not isinstance(hello, Hello):
            raise FrameError("the peer's HELLO is malformed")
        if hello.protocol != PROTOCOL_VERSION:
            raise FrameError(f"the peer speaks protocol {hello.protocol}, this gateway {PROTOCOL_VERSION}")
        if hello.federation != self._federation.name:
            raise FrameError(
                f"the peer belongs to federation {hello.federation!r}, not {self._federation.name!r}"
            )
        if hello.topology != self._topology:
            raise FrameError(
                f"the peer {hello.domain!r} runs with another federation file "
                f"(topology {hello.topology}, here {self._topology}); give all sites the same file"
            )
        if expected is not None and hello.domain != expected:
            raise FrameError(f"called {expected!r}, but {hello.domain!r} answered")
        if not any({self.domain, hello.domain} == set(link.between) for link in self._federation.links):
            raise FrameError(f"the federation file has no link between {self.domain!r} and {hello.domain!r}")
        return hello.domain

    # -- events -------------------------------------------------------------------------------------------

    def peer_up(self, peer: str) -> list[Instruction]:
        """A greeted neighbour is there: compare what both know."""
        self._peers.add(peer)
        return [self._control(peer, self.interest.digest())]

    def peer_down(self, peer: str) -> None:
        """A neighbour is gone."""
        self._peers.discard(peer)

    def change_local_interest(self, added: Iterable[str], removed: Iterable[str]) -> list[Instruction]:
        """The own domain's subscribers changed."""
        rules = self._federation.topics
        update = self.interest.change_local(
            (subject for subject in added if not rules.stays_home(subject)), removed
        )
        return [] if update is None else self._flood(update, None)

    def flush(self) -> list[Instruction]:
        """Turn what the flows gathered into frames."""
        instructions: list[Instruction] = []
        for flow in self.flows.touched():
            self._sequence += 1
            frame = Frame(
                FrameType.DATA,
                flow.give(),
                self._hop_limit,
                self._index,
                flow.topic_class,
                self.epoch,
                self._sequence,
                flow.destinations,
            )
            instructions += self._forward(frame)
        return instructions

    def receive(self, peer: str, frame: Frame) -> list[Instruction]:
        """A frame from a greeted neighbour. FrameError means: close this link."""
        if frame.type is FrameType.DATA:
            return self._receive_data(frame)
        body = control_body(frame)
        if isinstance(body, InterestUpdate):
            return self._receive_interest(peer, body)
        if isinstance(body, Digest):
            return [self._control(peer, update) for update in self.interest.missing_from(body)]
        if isinstance(body, Goodbye):
            raise FrameError(f"the peer closed the link: {body.reason}")
        raise FrameError("the peer said HELLO twice")

    # -- inside -------------------------------------------------------------------------------------------

    def _receive_data(self, frame: Frame) -> list[Instruction]:
        if frame.origin >= len(self._order) or frame.destinations >> len(self._order):
            raise FrameError(f"origin {frame.origin} or destinations {frame.destinations:#x} unknown here")
        if frame.origin == self._index:
            return [DropMessages(frame, "returned to its origin")]
        instructions: list[Instruction] = []
        if frame.destinations & self._bit:
            verdict = self._seen.check(frame.origin, frame.epoch, frame.sequence)
            self.verdicts[verdict] += 1
            if verdict is Verdict.NEW:
                instructions.append(DeliverMessages(frame))
        onward = frame.destinations & ~self._bit
        if onward:
            if frame.hop_limit <= 1:
                instructions.append(DropMessages(frame, "hop limit reached"))
            else:
                instructions += self._forward(frame.towards(onward))
        return instructions

    def _forward(self, frame: Frame) -> list[Instruction]:
        hops = self._forwarding.split(frame.destinations)
        if len(hops) == 1 and hops[0][1] == frame.destinations:
            return [SendFrame(hops[0][0], frame)]
        instructions: list[Instruction] = []
        reached = 0
        for peer, destinations in hops:
            reached |= destinations
            part = Frame(
                frame.type,
                frame.body,
                frame.hop_limit,
                frame.origin,
                frame.topic_class,
                frame.epoch,
                frame.sequence,
                destinations,
            )
            instructions.append(SendFrame(peer, part))
        if reached != frame.destinations:
            instructions.append(DropMessages(frame, "no path to destination"))
        return instructions

    def _receive_interest(self, peer: str, update: InterestUpdate) -> list[Instruction]:
        change, gap = self.interest.receive(update)
        if gap:
            return [self._control(peer, self.interest.digest())]
        if change is None:
            return []
        return [*self._flood(update, peer), *self._resubscribe(change)]

    def _resubscribe(self, change: InterestChange) -> list[Instruction]:
        add: list[str] = []
        remove: list[str] = []
        for subject in sorted(change.added):
            self.flows.want(change.domain, subject)
            self._subscribed[subject] += 1
            if self._subscribed[subject] == 1:
                add.append(subject)
        for subject in sorted(change.removed):
            self.flows.unwant(change.domain, subject)
            self._subscribed[subject] -= 1
            if not self._subscribed[subject]:
                del self._subscribed[subject]
                remove.append(subject)
        # Sent even when empty: destination sets changed, so whatever was derived from them is out of date.
        return [ChangeSubscriptions(tuple(add), tuple(remove))] if change else []

    @property
    def subscribed(self) -> list[str]:
        """Everything that other domains want, and so this gateway subscribes to at its head broker."""
        return sorted(self._subscribed)

    def _flood(self, update: InterestUpdate, source: str | None) -> list[Instruction]:
        frame = control_frame(update)
        return [SendFrame(peer, frame) for peer in sorted(self._peers) if peer != source]

    @staticmethod
    def _control(peer: str, body: ControlBody) -> SendFrame:
        return SendFrame(peer, control_frame(body))
