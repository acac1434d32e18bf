"""What a broker of ours is secured with: who may connect and as what, and where its certificate is.

Made from the key directory of a domain; a broker's kind renders it into the broker's own configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from mangrove.model.security.users import User


class Subjects(msgspec.Struct, frozen=True):
    """Which subjects may be used: those allowed (None: all) but for those denied."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()


class Rights(msgspec.Struct, frozen=True):
    """What somebody may publish, and subscribe to."""

    publish: Subjects = Subjects()
    subscribe: Subjects = Subjects()


class BrokerSecurity(msgspec.Struct, frozen=True, kw_only=True):
    """One broker's share of the key directory of its domain."""

    federation: str
    domain: str
    domains: tuple[str, ...]
    """All of the federation: their replies pass through brokers and are nobody's to hear."""
    certificate: Path
    key: Path
    authorities: Path
    """Certificates of the authorities that are believed."""
    users: tuple[User, ...]
    """Public halves alone."""
    rights: Mapping[str, Rights] = msgspec.field(default_factory=dict)
    """What the access rules leave to clients, of the subjects that applications use; one that is not named
    may use all of them."""
    seed: str = ""
    """By which this broker attaches to another, if it does."""
    gateway_seed: str = ""
    """The gateway's, for a broker that knows no NKEYs; empty for all others."""

    def __repr__(self) -> str:
        """Without the seeds."""
        return f"BrokerSecurity({self.federation!r}, {self.domain!r}, {self.certificate!r})"
