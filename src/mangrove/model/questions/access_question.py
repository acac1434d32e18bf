"""Which domains may not have what is published on a subject? Asked of the own domain's gateway.

A broker tells a publisher at once what it may not publish. What may be published at home, and may not leave
for some domain, it does not know: who wants to know that asks.
"""

from __future__ import annotations

import msgspec

from mangrove.model.agents.speakers import said_by


class AccessRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for a literal subject."""

    subject: str


class AccessAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The domains that may not have it, and why; what a gateway there decides is its own affair."""

    refused: dict[str, str] = {}
    problem: str = ""
    """Why there is no answer."""


def gateway_access_subject(domain: str, user: str = "") -> str:
    """Where a gateway is asked on its domain's management broker."""
    return said_by(user, domain, "gateway.access")
