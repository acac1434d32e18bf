"""Establishing explicit routes from their source: asking, acknowledgements, time-outs, retiring (RT_EST).

This is the signalling half of explicit routes; which paths are wanted is decided by `route_manager`. Every
route has a label of its own, never used twice in the life of a gateway. An old route serves until the new one
is acknowledged, so that a switch breaks nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from mangrove.model.site_pair import site_pair
from mangrove.model.status import Requirement, unmet_text
from mangrove.model.topics import Contract
from mangrove.overlay.events.event_log import EventId, EventLog
from mangrove.overlay.events.happenings import (
    RouteEstablished,
    RouteRefused,
    RouteRequested,
    RouteRetired,
)
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.protocol.control_messages import RouteAck, RouteMessage, RouteSetup, RouteTeardown
from mangrove.overlay.routes.path_view import SitePath

ACK_TIMEOUT_S = 1.0

Messages = list[tuple[str, RouteMessage]]
"""What to say to which neighbour."""


@dataclass(slots=True)
class Route:
    """One path of a set; usable when acknowledged."""

    label: int
    path: SitePath
    asked_at: float
    requested_by: EventId
    active: bool = False


@dataclass(slots=True)
class RouteSet:
    """The routes of one topic class to one destination."""

    topic_class: int
    contract: Contract
    destination: str
    routes: list[Route] = field(default_factory=list)
    chosen: tuple[SitePath, ...] = ()
    """The paths that are wanted; others serve until these stand."""
    requirements: tuple[Requirement, ...] = ()
    """What the contract asks, beside what the chosen paths give."""
    changed_at: float = float("-inf")
    look_at: float = 0.0
    """When to look whether something better can be had."""
    sent_bytes: int = 0
    """Since the last look, to each of the paths."""
    looked_at: float | None = None
    observed_mbps: float = 0.0
    crowded_until: float | None = None
    """When the set moves if a link on its way is still full then."""
    left_full_at: float = float("-inf")
    """When it last looked for another way because a link was full."""
    retry_at: float = float("inf")
    """When to look at the set again because something that was asked for does not stand."""

    @property
    def unmet(self) -> str:
        """What the contract asks and does not get, in words; empty if there is nothing."""
        return unmet_text(self.requirements)

    @property
    def about(self) -> dict[str, str]:
        """What events of this set are about."""
        return {"topic": self.contract.match, "destination": self.destination}

    def active(self) -> list[Route]:
        """Routes that carry traffic."""
        return [route for route in self.routes if route.active]


class Establishment:
    """Makes the routes of a set stand that are wanted, and takes down the others."""

    def __init__(self, domain: str, epoch: int, live: LiveMap, log: EventLog) -> None:
        self._domain = domain
        self._epoch = epoch
        self._live = live
        self._log = log
        self._label = 0

    def up(self, path: SitePath) -> bool:
        """Whether no link of a path has failed."""
        return not any(site_pair(*pair) in self._live.failed for pair in pairwise(path))

    def establish(
        self, routes: RouteSet, paths: list[SitePath], now: float, cause: EventId | None
    ) -> Messages:
        """Request the paths that do not stand yet; when all of them do, the others have served."""
        messages = self._ask_for(routes, paths, now, cause)
        wanted = set(paths)
        if wanted and all(route.active for route in routes.routes if route.path in wanted):
            messages += self._retire(routes, wanted, now, cause)
        complete = all(route.active for route in routes.routes)
        routes.retry_at = float("inf") if complete else now + ACK_TIMEOUT_S
        return messages

    def drop_broken(self, routes: RouteSet, now: float, cause: EventId | None) -> Messages:
        """Give up what has lost a link, and what nobody acknowledged in time."""
        messages: Messages = []
        good: list[Route] = []
        for route in routes.routes:
            if not self.up(route.path):
                messages += self._give_up(routes, route, "a link on it has failed", now, cause)
            elif not route.active and now - route.asked_at >= ACK_TIMEOUT_S:
                messages += self._give_up(routes, route, "nobody acknowledged it", now, cause)
            else:
                good.append(route)
        routes.routes = good
        return messages

    def acknowledge(
        self, sets: Iterable[RouteSet], ack: RouteAck, now: float
    ) -> tuple[RouteSet, EventId] | None:
        """Take in an answer. Returns the set in which a route stands now, and the event that says so."""
        if ack.epoch != self._epoch:
            return None
        for routes in sets:
            for route in routes.routes:
                if route.label != ack.label:
                    continue
                if not ack.ok:
                    refused = RouteRefused(**routes.about, path=route.path, reason=ack.reason)
                    self._log.note(refused, now, route.requested_by)
                    routes.routes.remove(route)
                    routes.retry_at = now + ACK_TIMEOUT_S
                    return None
                route.active = True
                stands = RouteEstablished(**routes.about, path=route.path)
                return routes, self._log.note(stands, now, route.requested_by)
        return None

    def tear_down(self, routes: RouteSet) -> Messages:
        """A set is no longer needed: all its routes go."""
        return [self._teardown(route) for route in routes.routes]

    def _ask_for(
        self, routes: RouteSet, paths: list[SitePath], now: float, cause: EventId | None
    ) -> Messages:
        messages: Messages = []
        known = {route.path for route in routes.routes}
        for path in paths:
            if path in known:
                continue
            self._label += 1
            happening = RouteRequested(
                **routes.about,
                path=path,
                predicted_ms=round(self._live.path_ms(path, routes.topic_class), 3),
                deadline_ms=routes.contract.deadline_ms,
            )
            requested_by = self._log.note(happening, now, cause)
            routes.routes.append(Route(self._label, path, now, requested_by))
            setup = RouteSetup(origin=self._domain, epoch=self._epoch, label=self._label, path=list(path))
            messages.append((path[1], setup))
        return messages

    def _retire(self, routes: RouteSet, wanted: set[SitePath], now: float, cause: EventId | None) -> Messages:
        messages: Messages = []
        for route in routes.routes:
            if route.path not in wanted:
                messages += self._give_up(routes, route, "a better one stands", now, cause)
        routes.routes = [route for route in routes.routes if route.path in wanted]
        return messages

    def _give_up(
        self, routes: RouteSet, route: Route, reason: str, now: float, cause: EventId | None
    ) -> Messages:
        self._log.note(RouteRetired(**routes.about, path=route.path, reason=reason), now, cause)
        return [self._teardown(route)]

    def _teardown(self, route: Route) -> tuple[str, RouteMessage]:
        message = RouteTeardown(
            origin=self._domain, epoch=self._epoch, label=route.label, path=list(route.path)
        )
        return route.path[1], message
