"""How a process of ours, or a client, shows a broker who it is."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mangrove.host.keys.nkey import UserKey

INBOX_PREFIX = "_INBOX"


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """Who connects to a broker, by NKEY or by password, and whom it believes to be one."""

    user: str
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """None: the connection is not encrypted."""
    nkey: str = ""
    """Public half of its NKEY; empty: it has none."""
    password: str = field(default="", repr=False)
    key: UserKey | None = field(default=None, repr=False)
    ours: bool = True
    """Whether it is a user of brokers of ours, which keep the inboxes of users apart."""

    @property
    def inbox(self) -> str:
        """How the subjects begin on which it is answered; no other client may listen there."""
        return f"{INBOX_PREFIX}.{self.user}" if self.user and self.ours else INBOX_PREFIX

    def sign(self, nonce: bytes) -> bytes:
        """The proof that a broker asks for, 64 bytes."""
        if self.key is None:
            raise ValueError(f"{self.user} has no NKEY")
        return self.key.sign(nonce)

    def shown(self, nonce: str) -> dict[str, str]:
        """What a CONNECT says of it; `nonce` is what the broker wants signed, if it wants that."""
        if self.key is not None and nonce:
            proof = base64.urlsafe_b64encode(self.sign(nonce.encode())).rstrip(b"=")
            return {"nkey": self.nkey, "sig": proof.decode()}
        if self.password:
            return {"user": self.user, "pass": self.password}
        return {}


LoginSource = Callable[[], BrokerLogin]
"""Asked at every connection, so that keys that were replaced meanwhile are those that are shown."""


def by_password(user: str, password: str) -> LoginSource:
    """Where brokers let anybody in, and some users by a password."""
    login = BrokerLogin(user=user, password=password)
    return lambda: login
