"""One struct for each call of the engine's face that may change it, and how to make that call.

Bodies of data and management frames are opaque to the engine, so only their lengths are kept: a recording
holds no user's messages, and a busy gateway's fits in a bounded file.
"""

from __future__ import annotations

import zlib

import msgspec

from mangrove.errors import MangroveError
from mangrove.model.questions.endangered import AvoidRequest
from mangrove.model.questions.session_quality import AskRequest
from mangrove.model.versions.document import WrittenDocument
from mangrove.model.versions.kept import KeptVersions
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.forwarding.flows import Route
from mangrove.overlay.forwarding.retargeting import Retargeted
from mangrove.overlay.instructions import Instruction
from mangrove.overlay.protocol.control_messages import InterestUpdate
from mangrove.overlay.protocol.frames import (
    PROTOCOL_VERSION,
    TAG_BYTES,
    Frame,
    FrameDecoder,
    FrameError,
    FrameType,
    Name,
)
from mangrove.overlay.routes.session_asks import AskRefusedError
from mangrove.overlay.trust.recorded_trust import Answer, RecordedTrust

Outcome = list[Instruction] | list[object] | Frame | int | None
"""What an engine answered: instructions, a frame, ids of flows, a flag, or nothing."""

NO_PROOF = bytes(TAG_BYTES)
_OPAQUE = (FrameType.DATA, FrameType.JOBS, FrameType.PIECE, FrameType.MANAGEMENT)


class KeptFrame(msgspec.Struct, frozen=True, array_like=True):
    """A frame: its head, and its body if that is a control message; else the length is in the head."""

    head: bytes
    body: bytes = b""

    @classmethod
    def of(cls, frame: Frame) -> KeptFrame:
        """Keep what the engine looks at: of tags, which belong to the body, for whom there are any."""
        if frame.tags:
            blank = tuple(tag._replace(proof=NO_PROOF) for tag in frame.tags)
            frame = msgspec.structs.replace(frame, tags=blank)
        return cls(frame.head(), b"" if frame.type in _OPAQUE else frame.body)

    def frame(self) -> Frame:
        """The frame again; a body that was not kept is as long as it was, and empty of meaning."""
        body = self.body or bytes(int.from_bytes(self.head[4:8], "big"))
        (frame,) = FrameDecoder().feed(self.head + body)
        return frame


class PeerCame(msgspec.Struct, frozen=True, array_like=True, tag="up"):
    """`peer_up`."""

    peer: str
    now: float
    successor: bool = False
    protocol: int = PROTOCOL_VERSION

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        return engine.peer_up(self.peer, self.now, successor=self.successor, protocol=self.protocol)


class VersionProposed(msgspec.Struct, frozen=True, array_like=True, tag="propose"):
    """`propose`."""

    written: WrittenDocument
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Ask it again."""
        return engine.propose(self.written, self.now)


class TablesMade(msgspec.Struct, frozen=True, array_like=True, tag="tables"):
    """`tables_made`."""

    version: int
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Have it make them."""
        return engine.tables_made(self.version, None, self.now)


class VersionsRecalled(msgspec.Struct, frozen=True, array_like=True, tag="recall"):
    """`recall`."""

    kept: KeptVersions
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        return engine.recall(self.kept, self.now)


class PeerWent(msgspec.Struct, frozen=True, array_like=True, tag="down"):
    """`peer_down`."""

    peer: str
    now: float
    reason: str

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        return engine.peer_down(self.peer, self.now, self.reason)


class PeerHeard(msgspec.Struct, frozen=True, array_like=True, tag="heard"):
    """`heard`."""

    peer: str
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        engine.heard(self.peer, self.now)
        return None


class FrameCame(msgspec.Struct, frozen=True, array_like=True, tag="frame"):
    """`receive`. A frame that must close its link is an outcome like any other."""

    peer: str
    frame: KeptFrame
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        try:
            return engine.receive(self.peer, self.frame.frame(), self.now)
        except FrameError as error:
            return refusal(error)


class FramePulled(msgspec.Struct, frozen=True, array_like=True, tag="pull"):
    """`pull`."""

    peer: str
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Ask it again."""
        return engine.pull(self.peer, self.now)


class ManagementOffered(msgspec.Struct, frozen=True, array_like=True, tag="manage"):
    """`send_management`."""

    peer: str
    size_bytes: int
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Offer as much again."""
        return engine.send_management(self.peer, bytes(self.size_bytes), self.now)


class SubjectRouted(msgspec.Struct, frozen=True, array_like=True, tag="route"):
    """`route`, which may make a flow."""

    subject: str

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Ask it again."""
        return routes_told(engine.route(self.subject))


class SubjectRetargeted(msgspec.Struct, frozen=True, array_like=True, tag="retarget"):
    """`retarget`, which may make a flow."""

    subject: str
    groups: tuple[str, ...]
    away: bytes
    """Bits; there may be more than a number holds here."""
    hop_limit: int

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Ask it again."""
        away = int.from_bytes(self.away, "big")
        return retargeting_told(engine.retarget(self.subject, self.groups, away, self.hop_limit))


class FrameWaits(msgspec.Struct, frozen=True, array_like=True, tag="wait"):
    """`wait`."""

    frame: KeptFrame
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        return engine.wait(self.frame.frame(), self.now)


class FrameTurned(msgspec.Struct, frozen=True, array_like=True, tag="turned"):
    """`turn_back`."""

    frame: KeptFrame
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        return engine.turn_back(self.frame.frame(), self.now)


class BodyRefused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """`body_refused`."""

    origin: int
    topic_class: int
    reason: str
    count: int
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        engine.body_refused(self.origin, self.topic_class, self.reason, self.count, self.now)
        return None


class ReplyRouted(msgspec.Struct, frozen=True, array_like=True, tag="reply"):
    """`route_reply`, which may make a flow."""

    domain: str

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Ask it again."""
        flow = engine.route_reply(self.domain)
        return None if flow is None else flow.id


class InterestChanged(msgspec.Struct, frozen=True, array_like=True, tag="interest"):
    """`change_local_interest`."""

    subject: str
    group: str
    wanted: bool

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        return engine.change_local_interest(self.subject, self.group, self.wanted)


class HeadWent(msgspec.Struct, frozen=True, array_like=True, tag="head"):
    """`head_lost`."""

    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        engine.head_lost(self.now)
        return None


class HeadMoved(msgspec.Struct, frozen=True, array_like=True, tag="head-moved"):
    """`head_moved`."""

    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        engine.head_moved(self.now)
        return None


class Flushed(msgspec.Struct, frozen=True, array_like=True, tag="flush"):
    """`flush`, with what the flows had gathered: flow ids and bytes."""

    now: float
    gathered: list[tuple[int, int]]

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Gather as much again, and flush."""
        for flow_id, size_bytes in self.gathered:
            engine.flow(flow_id).take(bytes(size_bytes))
        return engine.flush(self.now)


class SubscriptionsConfirmed(msgspec.Struct, frozen=True, array_like=True, tag="confirmed"):
    """`subscriptions_confirmed`."""

    applied: list[tuple[str, int, int]]
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        return engine.subscriptions_confirmed(self.applied, self.now)


class RegionDeclared(msgspec.Struct, frozen=True, array_like=True, tag="avoid"):
    """`avoid`; a request that makes no sense changes nothing and is not recorded."""

    request: AvoidRequest
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        return engine.avoid(self.request, self.now)


class SiteMeasured(msgspec.Struct, frozen=True, array_like=True, tag="site"):
    """`site_measured`."""

    ingress_ms: float
    egress_ms: float
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        return engine.site_measured(self.ingress_ms, self.egress_ms, self.now)


class TimerServed(msgspec.Struct, frozen=True, array_like=True, tag="timer"):
    """`handle_timer`."""

    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Serve it again."""
        return engine.handle_timer(self.now)


class SessionAsked(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """`ask`. A refusal is an outcome like any other."""

    request: AskRequest
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Ask it again."""
        try:
            return engine.ask(self.request, self.now)
        except AskRefusedError as error:
            return refusal(error)


class FramesRemembered(msgspec.Struct, frozen=True, array_like=True, tag="remember"):
    """`remember`."""

    names: list[Name]

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        engine.remember(self.names)
        return None


class InterestOverheard(msgspec.Struct, frozen=True, array_like=True, tag="overheard"):
    """`overhear`."""

    update: InterestUpdate
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Tell it again."""
        instructions, _ = engine.overhear(self.update, self.now)
        return instructions


class LifeBegun(msgspec.Struct, frozen=True, array_like=True, tag="begin"):
    """`begin`."""

    epoch: int
    reason: str
    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Begin again."""
        return engine.begin(self.epoch, self.reason, self.now)


class TrustAnswered(msgspec.Struct, frozen=True, array_like=True, tag="trust"):
    """What keys and clock answered while the engine dealt with the stimulus that follows."""

    answers: list[Answer]

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Let them be answered again."""
        if isinstance(engine.trust, RecordedTrust):
            engine.trust.expect(self.answers)
        return None


class KeysRenewed(msgspec.Struct, frozen=True, array_like=True, tag="keys"):
    """`renew_keys`; the keys themselves are not kept."""

    now: float

    def apply(self, engine: OverlayEngine) -> Outcome:
        """Renew them again."""
        return [] if engine.trust is None else engine.renew_keys(engine.trust, self.now)


Stimulus = (
    PeerCame
    | PeerWent
    | PeerHeard
    | FrameCame
    | FramePulled
    | ManagementOffered
    | SubjectRouted
    | SubjectRetargeted
    | FrameWaits
    | FrameTurned
    | BodyRefused
    | ReplyRouted
    | InterestChanged
    | HeadWent
    | HeadMoved
    | Flushed
    | SubscriptionsConfirmed
    | RegionDeclared
    | SiteMeasured
    | TimerServed
    | FramesRemembered
    | SessionAsked
    | InterestOverheard
    | LifeBegun
    | TrustAnswered
    | KeysRenewed
    | VersionProposed
    | VersionsRecalled
    | TablesMade
)

_encode = msgspec.msgpack.Encoder(enc_hook=repr).encode


def routes_told(routes: tuple[Route, ...]) -> list[object]:
    """The outcome of `route`."""
    return [[route.flow.id, list(route.groups)] for route in routes]


def retargeting_told(target: Retargeted) -> list[object]:
    """The outcome of `retarget`."""
    return [list(target.home), routes_told(target.routes), list(target.lost)]


def refusal(error: MangroveError) -> Outcome:
    """The outcome of a frame that must close its link, or of an ask that cannot be."""
    return zlib.crc32(error.message.encode())


def digest(outcome: Outcome) -> int:
    """Names an outcome: equal outcomes have equal digests, whatever the bodies of data frames were."""
    return zlib.crc32(_encode(_plain(outcome)))


def _plain(outcome: object) -> object:
    if isinstance(outcome, list | tuple):
        return [_plain(each) for each in outcome]
    if isinstance(outcome, Frame):
        kept = KeptFrame.of(outcome)
        return [kept.head, kept.body]
    if isinstance(outcome, msgspec.Struct):
        fields = [_plain(getattr(outcome, name)) for name in outcome.__struct_fields__]
        return [type(outcome).__name__, *fields]
    return outcome
