"""The bodies of control frames: msgpack, decoded against these schemas and nothing else."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from mangrove.model.questions.endangered import MAX_FOR_S, MAX_RADIUS_KM
from mangrove.model.questions.session_quality import Quality
from mangrove.model.unreadable import UNREADABLE
from mangrove.overlay.protocol.frames import Frame, FrameError, FrameType
from mangrove.overlay.protocol.signed import Signed
from mangrove.overlay.versions.messages import VersionNotice, VersionText


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first frame on a link, from both sides.

    `renews`: the connection shall take the place of one that serves the link; the answer says if it does.
    `protocol` and `newest` are the lowest and the highest version of the protocol that it speaks (none: only
    that one). `topology` names the federation file with which everything began; `version` is what is in force
    of the document that follows from it.
    """

    protocol: int
    federation: str
    topology: str
    domain: str
    epoch: int
    renews: bool = False
    newest: int = 0
    version: int = 1

    @property
    def spoken(self) -> int:
        """The highest version of the protocol that it speaks."""
        return max(self.protocol, self.newest)


class RenewalStep(StrEnum):
    """A neighbour asks to be called once more, or has said its last word on the connection before."""

    ASKED = "asked"
    LAST = "last"


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """Another connection takes the place of the one that this comes on."""

    step: RenewalStep


MAX_DOMAINS = 8192
"""More than a mask of destinations has bits."""
MAX_REASON_LENGTH = 2000
"""Of texts that end up in a log, or in a story."""
Reason = Annotated[str, msgspec.Meta(max_length=MAX_REASON_LENGTH)]


class InterestUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """Subjects that the subscribers of one domain want: the whole list, or the change since version - 1.

    A whole list comes in parts, numbered from 0, of which the last says so. Where domains have keys, every
    change and the first part of a list bring what the origin has signed of it, an InterestStatement.
    """

    origin: str
    epoch: int
    version: int
    snapshot: bool
    added: list[str]
    removed: list[str] = []
    part: int = 0
    last: bool = True
    statement: Signed | None = None


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway knows: (epoch, version) of the interest of every domain it has heard of."""

    known: Annotated[dict[str, tuple[int, int]], msgspec.Meta(max_length=MAX_DOMAINS)]


class Goodbye(msgspec.Struct, frozen=True, kw_only=True):
    """Why a link is being closed.

    `displaced_by` is the epoch of the gateway that is served instead, if a later one of the domain is;
    `proof` is something that it has signed, where domains have keys.
    """

    reason: Reason
    displaced_by: int = 0
    proof: Signed | None = None


ClockSeconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
"""Neither infinite nor no number at all: what is measured by it is told to others."""


class HeartbeatKind(StrEnum):
    """Regular sign of life, link test, or the answer to a link test (PCRT §III-C)."""

    REGULAR = "regular"
    TEST = "test"
    TEST_ACK = "test_ack"


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A sign of life that also measures the link and acknowledges data frames.

    `sent` is the sender's clock; `echo` is the `sent` of the last heartbeat it got, `held` how long ago that
    was; `received` counts the data frames it has taken over on this connection.
    """

    kind: HeartbeatKind
    sequence: int
    sent: ClockSeconds
    received: int
    echo: ClockSeconds | None = None
    held: ClockSeconds = 0.0


MAX_CAUSE_LENGTH = 256
MAX_ASKED_CLASSES = 1024
MAX_TOLD_CLASSES = 4096
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Megabits = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
"""Per second."""


class LinkReport(msgspec.Struct, frozen=True, kw_only=True):
    """One link as its end sees it: usable or not, one-way delay and jitter, how long frames wait for it.

    `waits_ms` is by topic class; classes that hardly wait are left out. So are `overruns`, the share of
    frames that wait longer than the link's part of their time. `availability` is the share of time
    in which the link could be used. `used_mbps` is what this end sends, `limit_mbps` the most that the link
    was seen to take, 0 while it was never too slow. `dead_ms` is the silence after which this end gives the
    link up, until which others may overtake what is stuck in it; 0 where there is no other way. `cause` names
    the event at that end which made it usable or not, so that what follows can be told as one story.
    """

    up: bool
    delay_ms: Milliseconds
    jitter_ms: Milliseconds = 0.0
    waits_ms: Annotated[dict[int, Milliseconds], msgspec.Meta(max_length=MAX_TOLD_CLASSES)] = {}
    overruns: Annotated[dict[int, Share], msgspec.Meta(max_length=MAX_TOLD_CLASSES)] = {}
    availability: Share = 1.0
    used_mbps: Megabits = 0.0
    limit_mbps: Megabits = 0.0
    dead_ms: Milliseconds = 0.0
    cause: Annotated[str, msgspec.Meta(max_length=MAX_CAUSE_LENGTH)] = ""


class SiteReport(msgspec.Struct, frozen=True, kw_only=True):
    """How long messages are inside a site: from a publisher to its gateway, and from there to a subscriber.

    What waits at the gateway for a link is no part of it; that is told with the link, by topic class. All
    classes share the way through the brokers.
    """

    ingress_ms: Milliseconds = 0.0
    egress_ms: Milliseconds = 0.0


class LinkStateAd(msgspec.Struct, frozen=True, kw_only=True, tag="ad"):
    """All links of one gateway; a newer (epoch, sequence) replaces an older one.

    `applied` is up to which version (epoch, number) of each domain's interest it has subscribed at its head.
    `asks` is what its subscribers ask for beyond the contracts, by topic class.
    """

    origin: str
    epoch: int
    sequence: int
    links: dict[str, LinkReport]
    applied: dict[str, tuple[int, int]] = {}
    asks: Annotated[dict[int, Quality], msgspec.Meta(max_length=MAX_ASKED_CLASSES)] = {}
    site: SiteReport = SiteReport()


class LinkStateAck(msgspec.Struct, frozen=True, kw_only=True, tag="ack"):
    """An advertisement has arrived, whether it was news or not."""

    origin: str
    epoch: int
    sequence: int


class DangerNotice(msgspec.Struct, frozen=True, kw_only=True, tag="danger"):
    """A region is endangered for so long, or no longer; a higher version of its name replaces a lower one.

    `told_at` is the domain whose gateway was told; `cause` the event there.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
    version: Annotated[int, msgspec.Meta(ge=1, le=1 << 62)]
    told_at: str
    centre: tuple[
        Annotated[float, msgspec.Meta(ge=-90, le=90)], Annotated[float, msgspec.Meta(ge=-180, le=180)]
    ]
    radius_km: Annotated[float, msgspec.Meta(gt=0, le=MAX_RADIUS_KM)]
    left_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_FOR_S)]
    ended: bool = False
    cause: Annotated[str, msgspec.Meta(max_length=MAX_CAUSE_LENGTH)] = ""


class DangerAck(msgspec.Struct, frozen=True, kw_only=True, tag="danger_ack"):
    """A notice has arrived, whether it was news or not."""

    name: str
    version: int
    told_at: str


class RouteSetup(msgspec.Struct, frozen=True, kw_only=True, tag="setup"):
    """Establish, move or keep up a route along `path`, from the origin's gateway to the destination's.

    Harmony's RT_EST. A label that is asked for along another path gets a higher `version`; the same version
    again is a refresh. The contract is named by its position, with the deadline that it was chosen for.
    """

    origin: str
    epoch: int
    label: Annotated[int, msgspec.Meta(ge=1)]
    path: list[str]
    version: int
    topic_class: int
    deadline_ms: Milliseconds | None = None


class RouteAck(msgspec.Struct, frozen=True, kw_only=True, tag="ack"):
    """The route stands from the sender on, or could not be established: goes back along the path."""

    origin: str
    epoch: int
    label: int
    path: list[str]
    version: int
    ok: bool
    reason: Reason = ""


class RouteTeardown(msgspec.Struct, frozen=True, kw_only=True, tag="teardown"):
    """The route is no longer used, in this version and all before it."""

    origin: str
    epoch: int
    label: int
    path: list[str]
    version: int


LinkStateMessage = LinkStateAd | LinkStateAck | DangerNotice | DangerAck
RouteMessage = RouteSetup | RouteAck | RouteTeardown
VersionMessage = VersionNotice | VersionText
ControlBody = (
    Hello
    | Renewal
    | InterestUpdate
    | Digest
    | Goodbye
    | Heartbeat
    | LinkStateMessage
    | RouteMessage
    | VersionMessage
    | Signed
)

_TYPE_OF: dict[type[ControlBody], FrameType] = {
    Hello: FrameType.HELLO,
    Renewal: FrameType.RENEWAL,
    InterestUpdate: FrameType.INTEREST,
    Digest: FrameType.DIGEST,
    Goodbye: FrameType.GOODBYE,
    Heartbeat: FrameType.HEARTBEAT,
    LinkStateAd: FrameType.LINK_STATE,
    LinkStateAck: FrameType.LINK_STATE,
    DangerNotice: FrameType.LINK_STATE,
    DangerAck: FrameType.LINK_STATE,
    RouteSetup: FrameType.ROUTE,
    RouteAck: FrameType.ROUTE,
    RouteTeardown: FrameType.ROUTE,
    VersionNotice: FrameType.VERSIONS,
    VersionText: FrameType.VERSIONS,
}
_DECODERS: dict[FrameType, msgspec.msgpack.Decoder[ControlBody]] = {
    FrameType.HELLO: msgspec.msgpack.Decoder(Hello),
    FrameType.RENEWAL: msgspec.msgpack.Decoder(Renewal),
    FrameType.INTEREST: msgspec.msgpack.Decoder(InterestUpdate),
    FrameType.DIGEST: msgspec.msgpack.Decoder(Digest),
    FrameType.GOODBYE: msgspec.msgpack.Decoder(Goodbye),
    FrameType.HEARTBEAT: msgspec.msgpack.Decoder(Heartbeat),
    FrameType.LINK_STATE: msgspec.msgpack.Decoder(LinkStateMessage | Signed),
    FrameType.ROUTE: msgspec.msgpack.Decoder(RouteMessage | Signed),
    FrameType.VERSIONS: msgspec.msgpack.Decoder(VersionMessage | Signed),
}
_encoder = msgspec.msgpack.Encoder()


def control_frame(body: ControlBody) -> Frame:
    """A frame around a control message."""
    return Frame(_TYPE_OF[type(body)], _encoder.encode(body))


def control_body(frame: Frame) -> ControlBody:
    """The validated control message of a frame, or FrameError."""
    decoder = _DECODERS.get(frame.type)
    if decoder is None:
        raise FrameError(f"a {frame.type.name} frame carries no control message")
    try:
        return decoder.decode(frame.body)
    except UNREADABLE as error:
        raise FrameError(f"malformed {frame.type.name} frame: {error}") from None
