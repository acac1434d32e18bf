"""When a gateway begins to forward by the tables of other domains and links.

Tables take time to make, at each gateway another. Until all gateways that can be reached have theirs, all go
on with the old ones, in which links that are gone are as failed ones: if some forwarded by a new link or a
new delay and others did not, frames could go back and forth between them. The first that knows of all begins,
and says so ahead of what it sends; who hears that begins too. So no frame that was sent by new tables comes
to a gateway that goes on by old ones, but where one was not waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mangrove.model.versions.document import FederationDocument
from mangrove.overlay.versions.messages import VersionNotice

PATIENCE_S = 5.0
"""Who has not made its tables by then is not waited for."""
NEVER = float("inf")


class TableSwitch:
    """Of one domain: what is made, what is in use, and for whom it waits."""

    def __init__(self, version: int) -> None:
        self._version = version
        """In force."""
        self._ready = self._forwards = version
        self._since = version
        """The version that has brought the domains and links in force."""
        self._waits_for: frozenset[str] = frozenset()
        self._until = NEVER

    @property
    def ready(self) -> int:
        """For which version there are tables."""
        return self._version if self._ready >= self._since else self._ready

    @property
    def forwards(self) -> int:
        """By the tables of which version frames go on."""
        return self._version if self._forwards >= self._since else self._forwards

    @property
    def wanted(self) -> int:
        """For which version tables are to be made; none, if it is 0."""
        return self._since if self._ready < self._since else 0

    def committed(self, after: FederationDocument, before: FederationDocument) -> None:
        """Another version is in force."""
        if after.network != before.network:
            self._ready, self._forwards = self.ready, self.forwards
            self._since = after.version
            self._waits_for = frozenset(before.members) & frozenset(after.members)
            self._until = NEVER
        self._version = after.version

    def made(self, version: int, now: float) -> bool:
        """There are tables for a version; whether these are still the wanted ones."""
        if version != self.wanted:
            return False
        self._ready = version
        self._until = now + PATIENCE_S
        return True

    def look(self, notices: Iterable[VersionNotice], reachable: Collection[str], now: float) -> None:
        """Begin if all are ready who can be reached, or if somebody else has begun."""
        if self._forwards >= self._since or self._ready < self._since:
            return
        told = {each.origin: each for each in notices}
        ready = {name for name, each in told.items() if each.ready >= self._since}
        begun = any(each.forwards >= self._since for each in told.values())
        if begun or now >= self._until or ready.issuperset(self._waits_for.intersection(reachable)):
            self._forwards = self._since
            self._until = NEVER

    def timer(self) -> float:
        """When it is waited for nobody any more."""
        return self._until
