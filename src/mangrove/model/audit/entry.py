"""Entries of the audit log: a JSON document a line, each with the hash of the line before.

Facts are few, short and never secret. What an attacker can choose (a name that was claimed, a subject) is
shortened and made printable here, so that no caller can forget it.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

import msgspec

from mangrove.model.unreadable import UNREADABLE

MAX_FACTS = 12
MAX_FACT_LENGTH = 200
MAX_LINE_BYTES = 16 << 10
"""Beyond what the longest entry takes; a longer line is none of ours."""
BEGINNING = "0" * 64
"""What the first entry of a chain has for the hash of the one before."""

Fact = str | int | float | bool


class AuditKind(StrEnum):
    """What an entry is about. The names stand in files and in scripts of operators: they stay."""

    # gateways
    LINK_OPENED = "link opened"
    LINK_CLOSED = "link closed"
    LINK_RENEWED = "link renewed"
    """Another connection, under other keys, has taken the place of one that served the link."""
    CONNECTION_REFUSED = "connection refused"
    """Somebody at a gateway's port who did not become a neighbour, or a neighbour that broke the rules."""
    MESSAGE_REFUSED = "message refused"
    """A control message or a frame that was not from whom it said."""
    CONTRACT_ASKED = "contract change asked for"
    """A client has asked for another contract, and may."""
    CONTRACT_REFUSED = "contract change refused"
    """A client has asked for another contract, and may not."""
    DOCUMENT_SIGNED = "document signed"
    """Whoever holds the authority's key has signed what a client asked for, or refused to."""
    NAMES_TAKEN_OVER = "names taken over"
    """The gateway of a domain goes on with other names of the domain's own."""
    NAMES_REFUSED = "names refused"
    """Names that were reloaded and cannot be used; the gateway goes on with those that it has."""
    RULES_TAKEN_OVER = "access rules taken over"
    """The brokers of a host keep to other access rules."""
    ACCESS_REFUSED = "access refused"
    """Something that the access rules do not allow."""
    # brokers
    CLIENT_CONNECTED = "client connected"
    CLIENT_REFUSED = "client refused"
    """Wrong or no credentials, or no TLS, at a broker."""
    SUBJECT_REFUSED = "subject refused"
    """A client at a broker that may not publish or subscribe there."""
    # operators and agents
    OPERATION_CARRIED_OUT = "operation carried out"
    OPERATION_REFUSED = "operation refused"
    VERSION_PROPOSED = "version proposed"
    VERSION_IN_FORCE = "version in force"
    """Another version of the federation document holds at a gateway."""
    REGISTRATION_REFUSED = "registration refused"
    """A client that spoke for another, or with a seal that is not its own, to an agent."""
    # keys
    KEYS_MADE = "keys made"
    KEY_ISSUED = "key issued"
    KEY_ROTATED = "key rotated"
    KEY_REVOKED = "key revoked"
    KEYS_EXPORTED = "keys exported"
    KEYS_TAKEN_OVER = "keys taken over"
    """A running process goes on with other keys."""
    KEYS_REFUSED = "keys refused"
    """Key files that cannot be used; the process goes on with those that it has, or does not start."""
    # life
    FEDERATION_STARTED = "federation started"
    FEDERATION_STOPPED = "federation stopped"
    PROCESS_STARTED = "process started"
    PROCESS_STOPPED = "process stopped"
    # the log itself
    LOG_TORN = "log torn"
    """A line that was not written to its end, by a process that died; it stays where it is."""
    LOG_CHANGED = "log changed"
    """Somebody else wrote to, shortened or removed the file."""
    LOG_SKIPPED = "log skipped"
    """So much was logged by a broker at once that not all of it was looked through."""
    LOG_CONTINUED = "log continued"
    """The file was full; a new one begins."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that concerns security. The same thing again and again is one entry with `times`."""

    number: int
    at: float
    """Time of day, in seconds since 1970 UTC."""
    process: str
    kind: AuditKind
    facts: dict[str, Fact] = {}
    times: int = 1
    since: float | None = None
    """When the first of several `times` was."""
    before: str
    """Hash of the line before."""


class AuditHead(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a chain: whoever keeps it elsewhere can tell later whether entries are missing."""

    process: str
    number: int = 0
    digest: str = BEGINNING
    """Hash of the entry of that number."""


class AuditFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a running process says of its audit log."""

    counts: dict[str, int] = {}
    """All that was noted since it started, by kind: also what became no entry of its own."""
    head: AuditHead | None = None
    """The end of its chain; None: it keeps no log."""
    failed: int = 0
    """Entries that could not be written."""


_decoder = msgspec.json.Decoder(AuditEntry)
_encoder = msgspec.json.Encoder()


def encode_entry(entry: AuditEntry) -> bytes:
    """The line of an entry, without its end."""
    return _encoder.encode(entry)


def read_entry(line: bytes) -> AuditEntry | None:
    """The entry on a line; None if it is none."""
    if len(line) > MAX_LINE_BYTES:
        return None
    try:
        return _decoder.decode(line)
    except UNREADABLE:
        return None


def line_hash(line: bytes) -> str:
    """What the next entry names."""
    return hashlib.sha256(line).hexdigest()


def clean_facts(facts: dict[str, Fact]) -> dict[str, Fact]:
    """Facts as they may stand in a log: few, short and printable."""
    cleaned: dict[str, Fact] = {}
    for name, fact in list(facts.items())[:MAX_FACTS]:
        cleaned[name] = clean_text(fact) if isinstance(fact, str) else fact
    return cleaned


def clean_text(text: str) -> str:
    """A text that somebody else may have chosen: one short line that does nothing to a terminal."""
    shown = "".join(each if each.isprintable() else "�" for each in text[: MAX_FACT_LENGTH + 1])
    return shown if len(shown) <= MAX_FACT_LENGTH else f"{shown[: MAX_FACT_LENGTH - 1]}…"
