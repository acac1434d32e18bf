"""Data that comes from neighbours: is it what its origin sent, is it for here, and where does it go on to."""

from __future__ import annotations

from mangrove.overlay.delivery.seen_frames import Verdict
from mangrove.overlay.instructions import (
    DropMessages,
    Instruction,
    RetargetMessages,
    send_control,
)
from mangrove.overlay.links.neighbours import Neighbour
from mangrove.overlay.protocol.frames import Frame
from mangrove.overlay.sides.parts import EngineParts
from mangrove.overlay.trust.notary import DATA
from mangrove.overlay.trust.refusals import Refusal

MISPLACED = "in the name of a domain that cannot have sent it this way"
FALSE_ORIGIN = "in the name of a domain that did not send it"
NOT_KNOWN_YET = "its origin has not made itself known here yet"
SENT_BEFORE = "turned back to an origin that does not know it any more"


class DataSide(EngineParts):
    """Takes in frames with messages."""

    def _receive_data(self, neighbour: Neighbour, frame: Frame, now: float) -> list[Instruction]:
        self._forwarder.check(frame)
        if frame.stream:
            frame = neighbour.joining.join(frame)
        instructions: list[Instruction] = []
        acknowledgement = neighbour.took_over(frame, now)
        if acknowledgement is not None:
            instructions.append(send_control(neighbour.name, acknowledgement))
        if self._forwarder.came_back(frame) and frame.epoch <= self.epoch:
            return instructions + self._came_back(
                neighbour.name, frame.older(neighbour.monitor.one_way_s), now
            )
        if self._notary.secured and self._misplaced(neighbour.name, frame, now):
            return [*instructions, DropMessages(frame, MISPLACED)]
        own = frame.destinations & self._forwarder.own_bit
        doubt = self._doubt(neighbour.name, frame, now) if own and self._notary.secured else ""
        if doubt:
            instructions.append(DropMessages(frame, doubt))
            if frame.destinations == own:
                return instructions
        frame = frame.older(neighbour.monitor.one_way_s)
        if own and not doubt:
            instructions += self._delivery.arrived(frame, now)
        return [*instructions, *self._forwarder.onward(frame, now)]

    def _doubt(self, peer: str, frame: Frame, now: float) -> str:
        """Why a frame for this domain is not taken for its origin's; empty if it is."""
        self._notary.now = now
        if self._notary.sent_by_origin(peer, frame):
            return ""
        known = self.federation.domain_order[frame.origin] in self._notary.credentials
        return FALSE_ORIGIN if known else NOT_KNOWN_YET

    def _came_back(self, peer: str, frame: Frame, now: float) -> list[Instruction]:
        """A sealed frame whose destination was lost, from a gateway that could not look into it."""
        destinations = self._flows.turned_back_from(frame) if frame.epoch == self.epoch else 0
        self._notary.now = now
        if destinations and self._notary.secured and not self._notary.sent_here(peer, frame, destinations):
            return [DropMessages(frame, FALSE_ORIGIN)]
        verdict = self._delivery.came_back(frame) if destinations else Verdict.TOO_OLD
        match verdict:
            case Verdict.NEW:
                return [RetargetMessages(frame.towards(destinations))]
            case Verdict.TOO_OLD:
                return [DropMessages(frame, SENT_BEFORE)]
            case Verdict.DUPLICATE:
                return []

    def _misplaced(self, peer: str, frame: Frame, now: float) -> bool:
        """Whether a frame cannot have come from its origin by way of this neighbour.

        The own frames may come back, where a repair leads through here, but not to be delivered, nor changed.
        """
        origin = self.federation.domain_order[frame.origin]
        if origin == self.domain:
            wrong = bool(frame.destinations & self.own_bit) or frame.epoch > self.epoch
            wrong = wrong or not self._notary.is_own(frame, frame.destinations)
            why = Refusal.OWN_NAME
        else:
            wrong = bool(frame.label) and not self._labels.borne_by(origin, frame.epoch, frame.label, peer)
            why = Refusal.MISPLACED
        if wrong:
            self._notary.now = now
            self._notary.refuse(peer, origin, DATA, why)
        return wrong
