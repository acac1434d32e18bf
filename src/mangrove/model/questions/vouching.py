"""Which connections to data brokers are a gateway's own? Asked when keys end that were replaced.

Who attached by a key of before is sent away then, but not whom the gateway names: it signs its answer by the
key that is believed, which nobody has who got hold of the old one
(docs/decisions/0148-a-gateway-vouches-for-its-attachments.md).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

MAX_PLACES = 256


class AttachedPlace(msgspec.Struct, frozen=True, order=True):
    """One connection, as the broker at its other end calls it."""

    broker: str
    """The broker's own id, another at each of its starts."""
    number: int


class AttachmentsQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Asks all gateways of a domain."""

    nonce: str
    """Signed with the answer, so that it answers no other question."""


class AttachmentsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Where one of them is attached."""

    places: tuple[AttachedPlace, ...] = ()
    signature: bytes = b""


def vouched_text(nonce: str, places: Iterable[AttachedPlace]) -> bytes:
    """What is signed."""
    return b"mangrove attachments " + msgspec.json.encode([nonce, *sorted(places)])


def gateway_attachments_subject(domain: str) -> str:
    """Where gateways are asked on their domain's management broker."""
    return f"mangrove.{domain}.gateway.attachments"
