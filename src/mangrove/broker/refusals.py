"""Whom a broker turned away, as its kind tells it."""

from __future__ import annotations

import msgspec

from mangrove.model.audit.entry import AuditKind


class Refusal(msgspec.Struct, frozen=True):
    """A client or a broker without the right key, or one that may not do what it tried."""

    kind: AuditKind
    host: str
    """Where it came from, without the port."""
    way: str
    """How it came: as a client, by MQTT, as a leaf node, as a route."""
    user: str
    """Who it is, or said that it was."""
    what: str
    """What it lacked or tried, in the broker's words."""
