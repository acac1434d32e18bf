"""How a process of ours, or a client, shows a broker who it is."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mangrove.host.keys.nkey import UserKey


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """Who connects to a broker, by NKEY or by password, and whom it believes to be one."""

    user: str
    tls: ssl.SSLContext | None = None
    """None: the connection is not encrypted."""
    nkey: str = ""
    """Public half of its NKEY; empty: it has none."""
    password: str = field(default="", repr=False)
    key: UserKey | None = field(default=None, repr=False)

    def sign(self, nonce: bytes) -> bytes:
        """The proof that a broker asks for, 64 bytes."""
        if self.key is None:
            raise ValueError(f"{self.user} has no NKEY")
        return self.key.sign(nonce)
