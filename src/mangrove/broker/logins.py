"""Who is connected to a broker, as it tells who supervises it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """One connection of somebody who was let in."""

    number: int
    """Counts up with every connection to the broker."""
    user: str
    """The key or the name that was shown."""
    name: str
    """How the connection calls itself."""
    host: str
    way: str
    """By which protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logins:
    """A part of a broker's connections, in the order of their coming."""

    broker: str
    """The broker's own id, another at each of its starts."""
    total: int
    connections: tuple[Login, ...]
