"""What agents of linked domains say to each other, in management frames that their gateways carry."""

from __future__ import annotations

import msgspec

from mangrove.model.agents.load import ClusterLoad, Metric
from mangrove.model.agents.usefulness import UsefulnessTold

MAX_PEER_MESSAGE_BYTES = 48 << 10
MAX_TOPICS_A_MESSAGE = 500
BUCKETS = 128
"""Into so many parts the topics of a source are divided to find out where two agents differ."""


class PeerRegister(msgspec.Struct, frozen=True, kw_only=True, tag="register"):
    """An agent is there (ePEER §4.3.1). Who gets it answers with `PeerRegistered`."""

    epoch: int
    """The start of the sender's leadership: a later one means that it knows nothing of before."""
    accepts: bool
    """Whether it takes load from the receiver's domain."""


class PeerRegistered(msgspec.Struct, frozen=True, kw_only=True, tag="registered"):
    """Answers `PeerRegister`; said again every few seconds by both, it keeps the neighbour online."""

    epoch: int
    accepts: bool


class Advertisement(msgspec.Struct, frozen=True, array_like=True):
    """A domain publishes a topic, or no longer does."""

    topic: str
    source: str
    epoch: int
    """Grows with every change that the source makes to this topic."""
    published: bool = True


class Advertise(msgspec.Struct, frozen=True, kw_only=True, tag="advertise"):
    """Advertisements that are new, or, after a registration, all of them in parts."""

    topics: tuple[Advertisement, ...]
    beats: dict[str, int] = {}
    """Of the sources named, as in a digest."""


class AdvertisedDigest(msgspec.Struct, frozen=True, kw_only=True, tag="digest"):
    """What the sender knows, by source: how many topics, and a hash of them with their epochs.

    A receiver that has another hash answers with its `AdvertisedBuckets` of that source.
    """

    sources: dict[str, tuple[int, int]] | None = None
    """None while the sender has not told all that it knows."""
    beats: dict[str, int] = {}
    """A number for each source; it grows there, and when it stops, the source is gone."""


class AdvertisedBuckets(msgspec.Struct, frozen=True, kw_only=True, tag="buckets"):
    """Hashes of the buckets of a source's topics. The receiver tells what it has in those that differ."""

    source: str
    hashes: tuple[int, ...]


class LoadTold(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """A domain's load; said when it changes and every few seconds."""

    load: ClusterLoad


class RoomAsked(msgspec.Struct, frozen=True, kw_only=True, tag="room?"):
    """Asks a LOW neighbour for its latest remaining capacity, for a session."""

    session: str
    publishers: bool = False
    """Whether publishers are to be moved to its head, and not subscribers to its edges."""
    topics: tuple[str, ...] = ()
    """What may be moved: a broker that serves a topic already has more room for it."""


class EdgeRoom(msgspec.Struct, frozen=True, kw_only=True):
    """What one broker has left."""

    broker: str
    remaining: dict[Metric, float]
    headroom: float | None
    topics: tuple[str, ...] = ()
    """Of the topics asked about, those that it serves already."""


class RoomTold(msgspec.Struct, frozen=True, kw_only=True, tag="room"):
    """Answers `RoomAsked`; without brokers, nothing is taken."""

    session: str
    brokers: tuple[EdgeRoom, ...] = ()


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """A topic whose clients are to move here, and the load that comes with it."""

    topic: str
    broker: str
    clients: tuple[str, ...]
    load: dict[Metric, float]


class AdmissionAsked(msgspec.Struct, frozen=True, kw_only=True, tag="admit?"):
    """Names what is to move; the receiver marks its brokers BUSY."""

    session: str
    publishers: bool
    moves: tuple[Incoming, ...]


class AdmissionTold(msgspec.Struct, frozen=True, kw_only=True, tag="admitted"):
    """Where the clients of each admitted topic go; topics left out are refused."""

    session: str
    urls: dict[str, tuple[str, str]] = {}
    """Topic → name and URL of the broker."""
    management_url: str = ""


class SessionEnded(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """The session is over, whatever came of it; brokers are BUSY no more. Answered with `SessionClosed`."""

    session: str


class SessionClosed(msgspec.Struct, frozen=True, kw_only=True, tag="closed"):
    """Answers `SessionEnded`."""

    session: str


PeerMessage = (
    PeerRegister
    | PeerRegistered
    | Advertise
    | AdvertisedDigest
    | AdvertisedBuckets
    | LoadTold
    | RoomAsked
    | RoomTold
    | AdmissionAsked
    | AdmissionTold
    | SessionEnded
    | SessionClosed
    | UsefulnessTold
)
