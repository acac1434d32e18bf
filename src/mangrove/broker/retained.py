"""The seam for retained messages: what a gateway needs of a broker that keeps last words for late comers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from mangrove.errors import MangroveError


class RetainedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The last word on a subject; an empty payload takes it back."""

    subject: str
    payload: bytes
    origin: str = ""
    """The domain whose client published it; empty: the own one."""
    version: int
    """Nanoseconds since 1970: of two words from different domains, the later one is the last."""
    qos: int = 0


class StoreError(MangroveError):
    """The store did not take, or did not give, what it was asked."""


class RetainedStoreOwner(Protocol):
    """What the owner of a store is told."""

    def store_attached(self) -> None:
        """The store can be read, and may hold anything."""

    def retained(self, message: RetainedMessage) -> None:
        """A client of the own domain has published a retained message."""

    def session_kept(self, name: str) -> None:
        """A client of the own domain wants what is published while it is away. May be told often."""


class RetainedStore(Protocol):
    """The retained messages of a domain, for the owner of this connection."""

    async def run(self) -> None:
        """Stay connected until cancelled."""

    def read(self) -> AsyncIterator[RetainedMessage]:
        """All that is kept, one message for each subject; StoreError if that cannot be told."""

    async def write(self, message: RetainedMessage) -> None:
        """Keep a message from another domain; StoreError if that is not confirmed."""
