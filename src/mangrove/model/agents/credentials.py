"""Who one process of ours is at another, and how it shows that."""

from __future__ import annotations

import msgspec


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """A name and a password. The password is in files that only their owner can read, and in no text."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r}, password=…)"
