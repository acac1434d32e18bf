"""An engine that also tells somebody else all that it is told, and how it answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mangrove.errors import InputError
from mangrove.model.federation import Federation
from mangrove.model.questions.endangered import AvoidRequest
from mangrove.model.questions.session_quality import AskRequest
from mangrove.model.versions.document import WrittenDocument
from mangrove.model.versions.kept import KeptVersions
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.forwarding.flows import OutboundFlow, Route
from mangrove.overlay.forwarding.retargeting import Retargeted
from mangrove.overlay.instructions import Instruction
from mangrove.overlay.links.liveness import Timing
from mangrove.overlay.protocol.control_messages import Goodbye, InterestUpdate
from mangrove.overlay.protocol.frames import PROTOCOL_VERSION, Frame, FrameError, Name
from mangrove.overlay.routes.session_asks import AskRefusedError
from mangrove.overlay.stimuli import stimulus as st
from mangrove.overlay.trust.recorded_trust import NotingTrust
from mangrove.overlay.trust.trust import Trust
from mangrove.routing.failover.gateway_tables import GatewayTables

Record = Callable[[st.Stimulus, int], None]
"""Takes a stimulus and the digest of its outcome."""


class RecordedEngine(OverlayEngine):
    """The same engine; every call that may change it is recorded after it was made."""

    def __init__(
        self,
        federation: Federation,
        domain: str,
        epoch: int,
        record: Record,
        *,
        timing: Timing | None = None,
        tables: GatewayTables | None = None,
        events_before: int = 0,
        process: str = "",
        standing_by: bool = False,
        trust: Trust | None = None,
        kept: KeptVersions | None = None,
    ) -> None:
        self._sink = record
        self._noting = None if trust is None else NotingTrust(trust)
        super().__init__(
            federation,
            domain,
            epoch,
            timing=timing,
            tables=tables,
            events_before=events_before,
            process=process,
            standing_by=standing_by,
            trust=self._noting,
            kept=kept,
        )

    def plain(self) -> OverlayEngine:
        """An engine in the same state that is not recorded; it shares its parts with this one."""
        engine = OverlayEngine.__new__(OverlayEngine)
        own = ("_sink", "_noting")
        engine.__dict__.update({name: part for name, part in vars(self).items() if name not in own})
        return engine

    def _record(self, stimulus: st.Stimulus, outcome: int) -> None:
        """Record a stimulus, and before it what keys and clock answered meanwhile."""
        answers = [] if self._noting is None else self._noting.take()
        if answers:
            self._sink(st.TrustAnswered(answers), st.digest(None))
        self._sink(stimulus, outcome)

    def _forget_answers(self) -> None:
        """What keys and clock answered led to nothing that is recorded."""
        if self._noting is not None:
            self._noting.take()

    def renew_keys(self, trust: Trust, now: float) -> list[Instruction]:
        """The keys have changed."""
        self._noting = NotingTrust(trust)
        instructions = super().renew_keys(self._noting, now)
        self._record(st.KeysRenewed(now), st.digest(instructions))
        return instructions

    def displacement(self, goodbye: Goodbye) -> int:
        """Which later life of this gateway displaces it, by what a neighbour says."""
        epoch = super().displacement(goodbye)
        self._forget_answers()
        return epoch

    def overhear(self, update: InterestUpdate, now: float) -> tuple[list[Instruction], bool]:
        """What another domain wants, told by the gateway that this one stands by for."""
        instructions, gap = super().overhear(update, now)
        self._record(st.InterestOverheard(update, now), st.digest(instructions))
        return instructions, gap

    def begin(self, epoch: int, reason: str, now: float) -> list[Instruction]:
        """A gateway that stood by carries from now on."""
        instructions = super().begin(epoch, reason, now)
        self._record(st.LifeBegun(epoch, reason, now), st.digest(instructions))
        return instructions

    def peer_up(
        self, peer: str, now: float, *, successor: bool = False, protocol: int = PROTOCOL_VERSION
    ) -> list[Instruction]:
        """A greeted neighbour is there."""
        instructions = super().peer_up(peer, now, successor=successor, protocol=protocol)
        self._record(st.PeerCame(peer, now, successor, protocol), st.digest(instructions))
        return instructions

    def propose(self, written: WrittenDocument, now: float) -> list[Instruction]:
        """Somebody wants another version of the federation document."""
        try:
            instructions = super().propose(written, now)
        except InputError:
            self._forget_answers()
            raise
        self._record(st.VersionProposed(written, now), st.digest(instructions))
        return instructions

    def recall(self, kept: KeptVersions, now: float) -> list[Instruction]:
        """What the other gateway of this domain has written down."""
        instructions = super().recall(kept, now)
        self._record(st.VersionsRecalled(kept, now), st.digest(instructions))
        return instructions

    def tables_made(self, version: int, tables: GatewayTables | None, now: float) -> list[Instruction]:
        """There are tables for other domains and links."""
        instructions = super().tables_made(version, tables, now)
        self._record(st.TablesMade(version, now), st.digest(instructions))
        return instructions

    def peer_down(self, peer: str, now: float, reason: str = "") -> list[Instruction]:
        """The connection to a neighbour is gone."""
        instructions = super().peer_down(peer, now, reason)
        self._record(st.PeerWent(peer, now, reason), st.digest(instructions))
        return instructions

    def heard(self, peer: str, now: float) -> None:
        """Bytes came from a neighbour."""
        super().heard(peer, now)
        self._record(st.PeerHeard(peer, now), st.digest(None))

    def receive(self, peer: str, frame: Frame, now: float) -> list[Instruction]:
        """A frame from a greeted neighbour."""
        kept = st.FrameCame(peer, st.KeptFrame.of(frame), now)
        try:
            instructions = super().receive(peer, frame, now)
        except FrameError as error:
            self._record(kept, st.digest(st.refusal(error)))
            raise
        self._record(kept, st.digest(instructions))
        return instructions

    def pull(self, peer: str, now: float) -> Frame | None:
        """The data frame to send to a neighbour now."""
        frame = super().pull(peer, now)
        self._record(st.FramePulled(peer, now), st.digest(frame))
        return frame

    def send_management(self, peer: str, body: bytes, now: float) -> list[Instruction]:
        """The agent of this domain has something to say to that of a neighbour."""
        instructions = super().send_management(peer, body, now)
        self._record(st.ManagementOffered(peer, len(body), now), st.digest(instructions))
        return instructions

    def route(self, subject: str) -> tuple[Route, ...]:
        """The flows that take messages on a literal subject."""
        routes = super().route(subject)
        self._record(st.SubjectRouted(subject), st.digest(st.routes_told(routes)))
        return routes

    def retarget(self, subject: str, groups: tuple[str, ...], away: int, hop_limit: int) -> Retargeted:
        """Who serves queue groups that the domains `away` do not serve after all."""
        target = super().retarget(subject, groups, away, hop_limit)
        bits = away.to_bytes((away.bit_length() + 7) // 8, "big")
        asked = st.SubjectRetargeted(subject, groups, bits, hop_limit)
        self._record(asked, st.digest(st.retargeting_told(target)))
        return target

    def wait(self, frame: Frame, now: float) -> list[Instruction]:
        """A frame that nobody else can serve waits."""
        instructions = super().wait(frame, now)
        self._record(st.FrameWaits(st.KeptFrame.of(frame), now), st.digest(instructions))
        return instructions

    def turn_back(self, frame: Frame, now: float) -> list[Instruction]:
        """A sealed frame whose destination is lost goes back to its origin."""
        instructions = super().turn_back(frame, now)
        self._record(st.FrameTurned(st.KeptFrame.of(frame), now), st.digest(instructions))
        return instructions

    def body_refused(self, origin: int, topic_class: int, reason: str, count: int, now: float) -> None:
        """Bodies from another domain were not opened."""
        super().body_refused(origin, topic_class, reason, count, now)
        self._record(st.BodyRefused(origin, topic_class, reason, count, now), st.digest(None))

    def route_reply(self, domain: str) -> OutboundFlow | None:
        """The flow for replies to a requester in `domain`."""
        flow = super().route_reply(domain)
        self._record(st.ReplyRouted(domain), st.digest(None if flow is None else flow.id))
        return flow

    def change_local_interest(self, subject: str, group: str, wanted: bool) -> bool:
        """A subscription in the own domain came or went."""
        changed = super().change_local_interest(subject, group, wanted)
        self._record(st.InterestChanged(subject, group, wanted), st.digest(changed))
        return changed

    def head_lost(self, now: float) -> None:
        """The connection to the head broker is gone."""
        super().head_lost(now)
        self._record(st.HeadWent(now), st.digest(None))

    def head_moved(self, now: float) -> None:
        """Another broker has taken the place of the head."""
        super().head_moved(now)
        self._record(st.HeadMoved(now), st.digest(None))

    def flush(self, now: float) -> list[Instruction]:
        """Pass on what changed and what was gathered."""
        flushed = st.Flushed(now, self.gathered())
        instructions = super().flush(now)
        self._record(flushed, st.digest(instructions))
        return instructions

    def subscriptions_confirmed(
        self, applied: Iterable[tuple[str, int, int]], now: float
    ) -> list[Instruction]:
        """The head broker has taken subscriptions."""
        told = list(applied)
        instructions = super().subscriptions_confirmed(told, now)
        self._record(st.SubscriptionsConfirmed(told, now), st.digest(instructions))
        return instructions

    def ask(self, request: AskRequest, now: float) -> list[Instruction]:
        """A session asks for more than a contract."""
        try:
            instructions = super().ask(request, now)
        except AskRefusedError as error:
            self._record(st.SessionAsked(request, now), st.digest(st.refusal(error)))
            raise
        self._record(st.SessionAsked(request, now), st.digest(instructions))
        return instructions

    def avoid(self, request: AvoidRequest, now: float) -> list[Instruction]:
        """An operator says that a region is endangered, or no longer."""
        try:
            instructions = super().avoid(request, now)
        except InputError:
            self._forget_answers()
            raise
        self._record(st.RegionDeclared(request, now), st.digest(instructions))
        return instructions

    def site_measured(self, ingress_ms: float, egress_ms: float, now: float) -> list[Instruction]:
        """How long messages are inside this domain."""
        instructions = super().site_measured(ingress_ms, egress_ms, now)
        self._record(st.SiteMeasured(ingress_ms, egress_ms, now), st.digest(instructions))
        return instructions

    def handle_timer(self, now: float) -> list[Instruction]:
        """Whatever is due."""
        instructions = super().handle_timer(now)
        self._record(st.TimerServed(now), st.digest(instructions))
        return instructions

    def remember(self, names: Iterable[Name]) -> None:
        """Frames that an earlier life of this gateway has delivered."""
        remembered = list(names)
        super().remember(remembered)
        self._record(st.FramesRemembered(remembered), st.digest(None))
