"""Which domains' agents are known to be there, by beats that grow at the source and are passed on.

A domain two links away cannot be asked whether it lives. Its beat, passed on with every digest, tells; when
it has not grown for a while, what the source published is forgotten, and it is believed again only with a
later beat. So two domains never tell each other for ever what a third one once published.
"""

from __future__ import annotations

import math

SOURCE_LEASE_S = 60.0
"""A source whose beat has not grown for so long is gone: six digests, since some get lost."""
FUTURE_S = 86_400.0
"""Epochs and beats that are further ahead of the own clock are not believed."""


class Sources:
    """The beats of the other domains, and the own one."""

    def __init__(self, domain: str, beat: int) -> None:
        self._domain = domain
        self._beats: dict[str, int] = {domain: beat}
        self._grown: dict[str, float] = {domain: math.inf}
        """When a beat last grew, of the sources that are there."""

    def beats(self) -> dict[str, int]:
        """All beats, of sources that are gone too: one that is back with its clock behind must learn of its
        earlier beat to outdo it."""
        return self._beats

    def __contains__(self, source: str) -> bool:
        return source in self._grown

    def beat(self, wall_ms: int) -> None:
        """The own beat grows."""
        self._beats[self._domain] = max(self._beats[self._domain] + 1, wall_ms)

    def heard(self, source: str, beat: int, now: float) -> None:
        """A neighbour has passed on a beat. An own one from before a restart is outdone by the next."""
        if beat <= self._beats.get(source, -1):
            return
        self._beats[source] = beat
        if source != self._domain:
            self._grown[source] = now

    def take_expired(self, now: float) -> list[str]:
        """Sources that are not there any more."""
        gone = [source for source, since in self._grown.items() if since + SOURCE_LEASE_S <= now]
        for source in gone:
            del self._grown[source]
        return gone

    def due(self) -> float:
        """When the next source is gone, unless its beat grows."""
        return min(self._grown.values()) + SOURCE_LEASE_S
