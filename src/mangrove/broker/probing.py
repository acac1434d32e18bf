"""The seam for measuring how long messages are inside a domain: a plain client of one of its brokers."""

from __future__ import annotations

from typing import Protocol


class ProbeOwner(Protocol):
    """What the owner of a probe is told."""

    def heard(self, broker: str, payload: bytes) -> None:
        """A marker has reached the probe at a broker, as messages reach subscribers there."""

    def probe_lost(self, broker: str) -> None:
        """The probe's connection is gone; markers that it has not heard of will not be told."""


class Probe(Protocol):
    """A client of one broker that publishes markers and listens for them; it connects again by itself."""

    @property
    def listening(self) -> bool:
        """Whether the broker has taken its subscription, so that a marker that is sent now will be heard."""

    async def run(self) -> None:
        """Stay connected until cancelled."""

    async def publish(self, subject: str, payload: bytes) -> None:
        """Publish as any client does; nothing happens while there is no connection."""
