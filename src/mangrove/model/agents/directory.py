"""The directory: which brokers of a domain serve a topic, since when and by which decision (GEMOM §V)."""

from __future__ import annotations

import msgspec

from mangrove.model.topics import Mirror


class DirectoryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Where a topic is served in a domain. Of two records of a topic the one of the later epoch counts."""

    topic: str
    """As subscribed to: a subject or a pattern."""
    domain: str
    epoch: int
    """Grows with every decision of the domain: a leader's term in the upper 32 bits, a count below."""
    edges: tuple[str, ...] = ()
    """Names of the brokers that serve subscribers, the primary first. None: nobody here subscribes; without a
    `mode` it is withdrawn."""
    publish_at: str = ""
    """Where local publishers publish it; empty: at the head."""
    mirror: str = ""
    """The broker that has every message a second time, or could at once: never the primary, nor where it is
    published, nor on one host with the primary where there are several. Empty: it has none; with a `mode`,
    there is no second broker that would do."""
    mode: Mirror = Mirror.NONE
    """How `mirror` is used, by the strictest contract of what falls under `topic`."""
    since: float = 0.0
    """Seconds since 1970."""
    decision: str = ""
    """The event that decided it."""


_record = msgspec.json.Decoder(DirectoryRecord)


def stored_record(record: DirectoryRecord) -> bytes:
    """A record as the store keeps it."""
    return msgspec.json.encode(record)


def read_record(stored: bytes) -> DirectoryRecord:
    """What `stored_record` wrote; raises `msgspec.DecodeError` on anything else."""
    return _record.decode(stored)


class DirectoryChanges(msgspec.Struct, frozen=True, kw_only=True):
    """New records, as they are pushed."""

    term: int
    records: tuple[DirectoryRecord, ...]


class DirectoryQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for records and advertisements of topics that overlap `topic`; empty: of all, in pages."""

    topic: str = ""
    after: str = ""
    """The last topic of the page before."""
    limit: int = 1000


class Advertised(msgspec.Struct, frozen=True, kw_only=True):
    """Who publishes a topic: a domain, and what is known of its publishers."""

    topic: str
    source: str
    epoch: int
    by: str = ""
    """How it is known: `sdk`, `gateway`, or the neighbour that told."""
    publishers: int = 0
    """SDK publishers, where known."""


class ServedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """What `mangrove directory` shows of a topic."""

    topic: str
    record: DirectoryRecord | None = None
    published_by: tuple[Advertised, ...] = ()
    subscribers: int = 0
    """SDK subscriptions in this domain."""
    subscriber_class: str = ""
    """Sr, Sl, Sr-l or Sn: where its publishers are."""
    publisher_class: str = ""
    """Pr, Pl, Pr-l or Pn: where its subscribers are, if it is published here."""
    deadline_ms: float | None = None
    elsewhere: dict[str, int] = {}
    """Brokers of other domains that serve SDK subscriptions of this one, and how many each."""
    steering: str = ""
    """What was decided last of where new subscribers are served, and why; empty if nothing was."""
    steered_by: str = ""
    """The event that tells more of it."""


class DirectoryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the directory, in order of topics."""

    domain: str
    term: int
    topics: tuple[ServedTopic, ...]
    more: bool = False
