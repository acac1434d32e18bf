"""What an engine tells of itself, and whether it contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator

from mangrove.errors import MangroveError
from mangrove.model.events.event_log import Event
from mangrove.model.site_pair import SitePair
from mangrove.overlay.sides.parts import EngineParts
from mangrove.overlay.status import OverlayStatus, StatusSources, overlay_status


class InvariantError(MangroveError):
    """The engine contradicts itself: a fault in the program, never in its input."""


class Accounts(EngineParts):
    """What is known, for people and for tests."""

    @property
    def failed_links(self) -> frozenset[SitePair]:
        """The links that are down, as far as is known here."""
        return self._live.failed

    def link_rate(self, peer: str) -> float | None:
        """How fast the link to a neighbour takes data, in bytes a second; None if it was never too slow."""
        return self._neighbours[peer].outgoing.rate_bytes_s

    def refused_from(self, peer: str) -> int:
        """How much a neighbour has brought that was refused."""
        return self._notary.refusals.by_peer[peer]

    def usable(self, peer: str) -> bool:
        """Whether data may be sent to a neighbour."""
        return self._neighbours.usable(peer)

    def active_paths(self, topic_class: int, destination: str) -> list[tuple[str, ...]]:
        """The paths of the explicit routes that carry a contract's messages to a destination."""
        routes = self._routes.sets.get((topic_class, destination))
        return [] if routes is None else [route.path for route in routes.active()]

    def status(self, now: float) -> OverlayStatus:
        """The engine's account of itself."""
        sources = StatusSources(
            self.federation,
            self.rules,
            self._neighbours,
            self._link_state,
            self._live,
            self._routes,
            self._remote,
            self._forwarder,
            self._delivery,
            self._events,
            self._network.ignored
            + self._labels.ignored
            + self._routes.ignored
            + self._remote.ignored
            + self._versions.ignored
            + self._notary.refusals.counts,
            self._asks,
        )
        return overlay_status(sources, now)

    def recent_events(self) -> Iterator[Event]:
        """The last of what happened, whether it was taken or not."""
        return iter(self._events.recent)

    def take_events(self) -> list[Event]:
        """What happened since the last call."""
        return self._events.take()

    def conclude(self, now: float) -> None:
        """The gateway stops: what was refused and only counted is told."""
        self._notary.refusals.tell(now, last=True)

    def validate(self) -> None:
        """Check every invariant; InvariantError names those that do not hold."""
        found = [problem for neighbour in self._neighbours for problem in neighbour.problems()]
        for part in (
            self._local,
            self._remote,
            self._routes,
            self._asks,
            self._labels,
            self._live.dangers,
            self._nearest,
            self._forwarder.parked,
            self._delivery.resequencer,
            self._versions,
        ):
            found += part.problems()
        if self.rules.rules != self.federation.topics:
            found.append("the contracts that are acted upon are not those of the version in force")
        if owing := set(self._link_state.owing()) - set(self._neighbours.connected()):
            found.append(f"acknowledgements are awaited from {sorted(owing)}, who are not connected")
        followed = self._network.up_to_date
        if followed and self._live.failed != self._link_state.failed_links():
            found.append("the map differs from the link state that it follows")
        found += self._notary.problems()
        if found:
            raise InvariantError(f"{self.domain}: {'; '.join(found)}")
