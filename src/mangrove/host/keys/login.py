"""How a process of ours, or a client, shows a broker who it is."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from mangrove.model.security.users import guest_name

if TYPE_CHECKING:
    from mangrove.host.keys.nkey import UserKey

INBOX_PREFIX = "_INBOX"


class BrokerLogin(msgspec.Struct, frozen=True):
    """Who connects to a broker, by NKEY or by password, and whom it believes to be one."""

    user: str
    tls: ssl.SSLContext | None = None
    """None: the connection is not encrypted."""
    nkey: str = ""
    """Public half of its NKEY; empty: it has none."""
    password: str = ""
    key: UserKey | None = None
    home: str = ""
    """The domain whose client it is, once that is known."""
    ours: bool = True
    """Whether it is a user of brokers of ours, which keep the inboxes of users apart."""

    def __repr__(self) -> str:
        """Without what must stay secret."""
        return f"BrokerLogin({self.user!r}, nkey={self.nkey!r}, ours={self.ours!r})"

    @property
    def inbox(self) -> str:
        """How the subjects begin on which it is answered; no other client may listen there."""
        return f"{INBOX_PREFIX}.{self.known_as}" if self.user and self.ours else INBOX_PREFIX

    @property
    def known_as(self) -> str:
        """Its name wherever it comes: that of a client alone may be another's elsewhere."""
        return guest_name(self.user, self.home) if self.home else self.user

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


def at_home_in(login: LoginSource, domain: str) -> LoginSource:
    """The same client, which may go to other domains: it says from where it comes."""
    return lambda: replace(login(), home=domain)


def by_password(user: str, password: str) -> LoginSource:
    """Where brokers let anybody in, and some users by a password."""
    login = BrokerLogin(user=user, password=password)
    return lambda: login
