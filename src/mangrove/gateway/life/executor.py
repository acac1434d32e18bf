"""Carries the engine's instructions out, each by the part that it is for."""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from mangrove.gateway.delivery_journal import DeliveryJournal
from mangrove.gateway.head.connection import HeadConnection
from mangrove.gateway.life.adoption import Adoption
from mangrove.gateway.life.engine_timer import EngineTimer
from mangrove.gateway.life.table_making import TableMaking
from mangrove.gateway.links.links import Links
from mangrove.gateway.management.agent_mail import AgentMail
from mangrove.gateway.pair.partnership import Partnership
from mangrove.gateway.sealing.sealed_traffic import SealedTraffic
from mangrove.gateway.versions import Versions
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import (
    AdoptDocument,
    ChangeSubscriptions,
    CloseLink,
    ConfirmSubscriptions,
    DeliverMessages,
    DropMessages,
    ForgetRoutes,
    HandToAgent,
    Instruction,
    KeepVersions,
    MakeTables,
    ResetTimer,
    RetargetMessages,
    SendFrame,
    ServeHead,
    ServeLink,
)
from mangrove.overlay.protocol.frames import Frame

if TYPE_CHECKING:
    from mangrove.gateway.tracing.hop_spans import HopSpans


class Executor:
    """Between the engine, which only decides, and the sockets and files of its gateway.

    Every part calls it with what the engine answered; so it is there before them, and is told of them by
    `join`.
    """

    def __init__(
        self,
        engine: OverlayEngine,
        sealed: SealedTraffic,
        journal: DeliveryJournal,
        versions: Versions,
        hops: HopSpans | None,
    ) -> None:
        self._engine = engine
        self._sealed = sealed
        self._journal = journal
        self._versions = versions
        self._hops = hops
        self._head: HeadConnection
        self._links: Links
        self._mail: AgentMail
        self._timer: EngineTimer
        self._tables: TableMaking
        self._adoption: Adoption
        self._partnership: Partnership | None = None

    def join(
        self,
        head: HeadConnection,
        links: Links,
        mail: AgentMail,
        timer: EngineTimer,
        tables: TableMaking,
        adoption: Adoption,
    ) -> None:
        """The parts that act. Told once, before the engine says anything."""
        self._head = head
        self._links = links
        self._mail = mail
        self._timer = timer
        self._tables = tables
        self._adoption = adoption

    def consult(self, partnership: Partnership) -> None:
        """This gateway is one of two: what may be done now is agreed with the other one."""
        self._partnership = partnership

    def flush(self) -> None:
        """Send on what the engine's flows gathered."""
        self.carry_out(self._engine.flush(monotonic()))

    def carry_out(self, instructions: list[Instruction]) -> None:
        """Do what the engine says, in its order."""
        served: set[str] = set()
        if self._partnership is not None:
            instructions = self._partnership.agreed(instructions)
        for instruction in instructions:
            match instruction:
                case ServeLink(peer):
                    if peer not in served:  # all that waited when the engine spoke has left, or cannot
                        served.add(peer)
                        self._links[peer].serve(monotonic())
                case SendFrame(peer, frame):
                    self._links[peer].send(frame)
                case CloseLink(peer, reason):
                    self._links.drop(peer, reason)
                case DeliverMessages(frame):
                    self._journal.record(frame)
                    if (body := self._sealed.opened(frame)) is not None:
                        origin = self._engine.federation.domain_order[frame.origin]
                        if self._hops is not None:
                            self._hops.delivered(frame, body)
                        self._head.deliver(body, frame.hop_limit, frame.topic_class, origin)
                case HandToAgent(peer, frame):
                    self._mail.arrived(peer, frame.body)
                case ChangeSubscriptions(add, remove):
                    self._head.change_subscriptions(add, remove)
                case ConfirmSubscriptions(applied):
                    self._head.confirm(applied)
                case ForgetRoutes(subjects):
                    self._head.forget_routes(subjects)
                case ServeHead():
                    self._head.serve()
                case ResetTimer():
                    self._timer.set()
                case DropMessages(frame, reason):
                    self._sealed.drop(frame, reason)
                case RetargetMessages(frame):
                    self._retarget(frame)
                case KeepVersions(kept, then, at_once):
                    self._versions.keep(kept, partial(self._tell, then), at_once=at_once)
                case AdoptDocument(document):
                    self._adoption.adopt(document)
                case MakeTables(federation, version):
                    self._tables.begin(federation, version)

    def _tell(self, notices: tuple[SendFrame, ...]) -> None:
        """What was waited for is on disk; neighbours that were forgotten meanwhile are not told of it."""
        self.carry_out([*(each for each in notices if each.peer in self._links)])

    def _retarget(self, frame: Frame) -> None:
        """Sort the messages of a frame anew, whose destination is lost; or have its origin do it."""
        body = self._sealed.to_sort_anew(frame)
        origin = self._engine.federation.domain_order[frame.origin]
        if body is None:
            self.carry_out(self._engine.turn_back(frame, monotonic()))
        elif body and not self._head.retarget(body, frame.destinations, frame.hop_limit, origin):
            self.carry_out(self._engine.wait(frame, monotonic()))
