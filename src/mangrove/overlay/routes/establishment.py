"""Establishing explicit routes from their source: asking, acknowledgements, time-outs, retiring (RT_EST).

This is the signalling half of explicit routes; which paths are wanted is decided by `route_manager`. A route
that is no longer wanted moves to a path that is, under the same label with a higher version, so that only the
gateways change whose next hop does (`transit_labels`); it serves along the old path until the new one is
acknowledged, and a switch breaks nothing. Routes are refreshed, because labels last for a lease only. Labels
and versions are never used twice in the life of a gateway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import msgspec

from mangrove.model.events.event_log import EventId, EventLog
from mangrove.model.status import Requirement, unmet_text
from mangrove.model.topics import Contract
from mangrove.overlay.events.happenings import (
    RouteEstablished,
    RouteRefused,
    RouteRequested,
    RouteRetired,
)
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.protocol.control_messages import RouteAck, RouteMessage, RouteSetup, RouteTeardown
from mangrove.overlay.routes.path_view import SitePath
from mangrove.overlay.routes.transit_labels import LEASE_S

ACK_TIMEOUT_S = 1.0
REFRESH_S = 10.0
REFRESH_TOGETHER_S = 1.0
"""Routes whose refresh is due so soon are refreshed with the one that is due."""

Messages = list[tuple[str, RouteMessage]]
"""What to say to which neighbour."""


class Route(msgspec.Struct):
    """One path of a set; usable when acknowledged. Two of a set have the same label while one is to replace
    the other."""

    label: int
    version: int
    path: SitePath
    asked_at: float
    requested_by: EventId
    active: bool = False
    confirmed_at: float = float("-inf")
    """When its far end was last known to have heard of it."""


class RouteSet(msgspec.Struct):
    """The routes of one topic class to one destination."""

    topic_class: int
    contract: Contract
    destination: str
    routes: list[Route] = msgspec.field(default_factory=list)
    chosen: tuple[SitePath, ...] = ()
    """The paths that are wanted; others serve until these stand."""
    requirements: tuple[Requirement, ...] = ()
    """What the contract asks, beside what the chosen paths give."""
    changed_at: float = float("-inf")
    tried_at: float = float("-inf")
    """When it was last looked for something better."""
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
    evading: int | None = None
    """Because of which state of the endangered regions the set was made or moved; None if it was not."""
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


class Answered(NamedTuple):
    """What an answer leads to: what to say, and the set in which a route stands now, with the event of it."""

    messages: Messages
    stands: tuple[RouteSet, EventId] | None = None


class Establishment:
    """Makes the routes of a set stand that are wanted, and takes down the others."""

    def __init__(self, domain: str, epoch: int, live: LiveMap, log: EventLog) -> None:
        self._domain = domain
        self._epoch = epoch
        self._live = live
        self._log = log
        self._label = 0
        self._version = 0
        self._refresh_at = float("inf")
        self.ignored: Counter[str] = Counter()
        """Answers that were not acted upon, by what was wrong with them."""

    def begin(self, epoch: int) -> None:
        """A life of this gateway begins."""
        self._epoch = epoch

    def up(self, path: SitePath) -> bool:
        """Whether no link of a path has failed, or is gone."""
        return self._live.leads(path)

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
        lost: set[int] = set()
        for route in routes.routes:
            reason = self._broken(route, now)
            if reason:
                messages += self._give_up(routes, route, reason, now, cause)
                lost.add(route.label)
            else:
                good.append(route)
        routes.routes = good
        return messages + self._reassert(routes, lost)

    def _broken(self, route: Route, now: float) -> str:
        if not self.up(route.path):
            return "a link on it has failed"
        if not route.active and now - route.asked_at >= ACK_TIMEOUT_S:
            return "nobody acknowledged it"
        if route.active and now - route.confirmed_at >= LEASE_S:
            return "nobody answers when it is refreshed"
        return ""

    def timer(self) -> float:
        """When `refresh` has something to do."""
        return self._refresh_at

    def refresh(self, sets: Iterable[RouteSet], now: float) -> Messages:
        """Ask again for routes that stand, before their labels expire."""
        if now < self._refresh_at:
            return []
        messages: Messages = []
        self._refresh_at = float("inf")
        for routes in sets:
            for route in routes.active():
                if self._broken(route, now):
                    routes.retry_at = now
                if now + REFRESH_TOGETHER_S >= route.asked_at + REFRESH_S:
                    route.asked_at = now
                    messages.append(self._setup(routes, route))
                self._refresh_at = min(self._refresh_at, route.asked_at + REFRESH_S)
        return messages

    def acknowledge(self, sets: Iterable[RouteSet], ack: RouteAck, now: float) -> Answered:
        """Take in an answer."""
        found = self._asked(sets, ack)
        if found is None:
            self.ignored["route message that answers nothing which was asked"] += 1
            return Answered([])
        routes, route = found
        if not ack.ok:
            refused = RouteRefused(**routes.about, path=route.path, reason=ack.reason)
            self._log.note(refused, now, route.requested_by)
            routes.routes.remove(route)
            routes.retry_at = now + ACK_TIMEOUT_S
            return Answered(self._reassert(routes, {route.label}))
        route.confirmed_at = now
        if route.active:
            return Answered([])
        route.active = True
        self._refresh_at = min(self._refresh_at, route.asked_at + REFRESH_S)
        stands = self._log.note(RouteEstablished(**routes.about, path=route.path), now, route.requested_by)
        messages: Messages = []
        for old in [each for each in routes.routes if each.label == route.label and each is not route]:
            # The gateways on the way have changed already; the first hop is this gateway's to take back.
            routes.routes.remove(old)
            retired = RouteRetired(**routes.about, path=old.path, reason="a better one stands")
            self._log.note(retired, now, stands)
            if old.path[1] != route.path[1]:
                messages.append(self._teardown(old))
        return Answered(messages, (routes, stands))

    def _asked(self, sets: Iterable[RouteSet], ack: RouteAck) -> tuple[RouteSet, Route] | None:
        """The route that an answer is about, and its set."""
        if ack.epoch != self._epoch:
            return None
        for routes in sets:
            for route in routes.routes:
                same = (route.label, route.version) == (ack.label, ack.version)
                if same and list(route.path) == ack.path:
                    return routes, route
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
            happening = RouteRequested(
                **routes.about,
                path=path,
                predicted_ms=round(self._live.path_ms(path, routes.topic_class), 3),
                deadline_ms=routes.contract.deadline_ms,
            )
            requested_by = self._log.note(happening, now, cause)
            route = Route(self._label_for(routes, path, paths), self._next_version(), path, now, requested_by)
            routes.routes.append(route)
            messages.append(self._setup(routes, route))
        return messages

    def _label_for(self, routes: RouteSet, path: SitePath, wanted: list[SitePath]) -> int:
        """The label of the route that this path is to replace, the most similar one; else a new label."""
        moving = {route.label for route in routes.routes if not route.active}
        spare = [
            route
            for route in routes.routes
            if route.active and route.path not in wanted and route.label not in moving
        ]
        if spare:
            return max(spare, key=lambda route: len(set(pairwise(route.path)) & set(pairwise(path)))).label
        self._label += 1
        return self._label

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def _setup(self, routes: RouteSet, route: Route) -> tuple[str, RouteMessage]:
        setup = RouteSetup(
            origin=self._domain,
            epoch=self._epoch,
            label=route.label,
            version=route.version,
            path=list(route.path),
            topic_class=routes.topic_class,
            deadline_ms=routes.contract.deadline_ms,
        )
        return route.path[1], setup

    def _reassert(self, routes: RouteSet, labels: set[int]) -> Messages:
        """A move did not succeed: gateways that have changed already go back to the path that serves."""
        messages: Messages = []
        for route in routes.routes:
            if route.active and route.label in labels:
                route.version = self._next_version()
                messages.append(self._setup(routes, route))
        return messages

    def _retire(self, routes: RouteSet, wanted: set[SitePath], now: float, cause: EventId | None) -> Messages:
        messages: Messages = []
        for route in routes.routes:
            if route.path not in wanted:
                messages += self._give_up(routes, route, "a better one stands", now, cause)
        dropped = {route.label for route in routes.routes if route.path not in wanted}
        routes.routes = [route for route in routes.routes if route.path in wanted]
        return messages + self._reassert(routes, dropped)

    def _give_up(
        self, routes: RouteSet, route: Route, reason: str, now: float, cause: EventId | None
    ) -> Messages:
        self._log.note(RouteRetired(**routes.about, path=route.path, reason=reason), now, cause)
        return [self._teardown(route)]

    def _teardown(self, route: Route) -> tuple[str, RouteMessage]:
        message = RouteTeardown(
            origin=self._domain,
            epoch=self._epoch,
            label=route.label,
            version=route.version,
            path=list(route.path),
        )
        return route.path[1], message
