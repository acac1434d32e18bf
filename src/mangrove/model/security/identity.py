"""Who somebody is in a federation, as it stands in a certificate: one URI, which names nobody else."""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

SCHEME = "mangrove"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
"""What domains, federations, hosts and clients may be called; none of it needs escaping in a URI."""


class Role(StrEnum):
    """What somebody does in a federation. A client's own role, of which access rules speak, is another."""

    GATEWAY = "gateway"
    BROKER = "broker"
    AGENT = "agent"
    HOST = "host"
    OPERATOR = "operator"
    CLIENT = "client"


ROLE_NAMES = frozenset(role.value for role in Role)


class Identity(msgspec.Struct, frozen=True):
    """One party of one federation: what it is, of which domain, and which of several there."""

    federation: str
    role: Role
    domain: str
    name: str = ""

    @property
    def uri(self) -> str:
        """The identity as it stands in a certificate's SubjectAltName."""
        text = f"{SCHEME}://{self.federation}/{self.role.value}/{self.domain}"
        return f"{text}/{self.name}" if self.name else text

    @classmethod
    def parse(cls, uri: str) -> Identity:
        """The identity of a URI, or ValueError: two different URIs never stand for one identity."""
        scheme, separator, rest = uri.partition("://")
        parts = rest.split("/")
        if scheme != SCHEME or not separator or len(parts) not in (3, 4):
            raise ValueError(f"{uri!r} names nobody: {SCHEME}://FEDERATION/ROLE/DOMAIN[/NAME] does")
        federation, role, domain, *name = parts
        if role not in ROLE_NAMES:
            raise ValueError(f"{uri!r} has no role that is known: {', '.join(Role)}")
        for part in (federation, domain, *name):
            if not NAME.fullmatch(part):
                raise ValueError(f"{uri!r} has a name that none may have: {part!r}")
        return cls(federation, Role(role), domain, *name)

    def __str__(self) -> str:
        which = f" {self.name}" if self.name else ""
        return f"the {self.role.value}{which} of {self.domain} in {self.federation}"


BROKERS = "brokers.mangrove"


def brokers_name(federation: str, domain: str) -> str:
    """A name that the certificates of a domain's brokers have in common, and no other: no host is called so.

    By it the members of a cluster know each other; a gateway, say, is certified by the same authority.
    """
    return f"{domain}.{federation}.{BROKERS}"
