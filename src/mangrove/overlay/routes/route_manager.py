"""Explicit routes: the path sets that contracts ask for, established from the source (Harmony §3.2, RT_EST).

A contract needs explicit routes when it asks for several paths, or when the way that the tables take is too
slow for its deadline. Routes are kept as long as they are up and fast enough; only what is broken is replaced
(incremental maintenance), and an old route serves until the new one is acknowledged. Routes of a set that
share a link or a site, because the network had no better when they were chosen, are replaced when it has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from mangrove.model.site_pair import site_pair
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.events.event_log import EventId, EventLog
from mangrove.overlay.events.happenings import (
    ContractMet,
    ContractUnmet,
    RouteEstablished,
    RouteRefused,
    RouteRequested,
    RouteRetired,
)
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.protocol.control_messages import RouteAck, RouteMessage, RouteSetup, RouteTeardown
from mangrove.overlay.routes.path_choice import PathChoice, SitePath, shared
from mangrove.routing.paths.resilience import resiliency

ACK_TIMEOUT_S = 1.0
REVIEW_AFTER_S = 0.1
"""Routes are planned anew so long after the network has changed: first of all, messages must go on."""

Key = tuple[int, str]
"""Topic class and destination."""


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
    unmet: str = ""
    retry_at: float = float("inf")
    """When to look at the set again because something that was asked for does not stand."""

    @property
    def about(self) -> dict[str, str]:
        """What events of this set are about."""
        return {"topic": self.contract.match, "destination": self.destination}

    def active(self) -> list[Route]:
        """Routes that carry traffic."""
        return [route for route in self.routes if route.active]


class RouteManager:
    """Decides which explicit routes this gateway needs as a source."""

    def __init__(self, domain: str, epoch: int, rules: TopicRules, live: LiveMap, log: EventLog) -> None:
        self._domain = domain
        self._epoch = epoch
        self._rules = rules
        self._live = live
        self._log = log
        self._choice = PathChoice(domain, live)
        self._label = 0
        self._sets: dict[Key, RouteSet] = {}
        self._wanted: set[Key] = set()
        self._review_at = float("inf")
        self._review_all = False
        self._cause: EventId | None = None

    @property
    def sets(self) -> dict[Key, RouteSet]:
        """All route sets, by topic class and destination."""
        return self._sets

    def want(self, wanted: Iterable[Key], now: float) -> list[tuple[str, RouteMessage]]:
        """Topic classes and destinations that have subscribers now."""
        self._wanted = set(wanted)
        return self._review(now, None)

    def network_changed(
        self, now: float, cause: EventId | None, *, links: bool
    ) -> list[tuple[str, RouteMessage]]:
        """Delays have changed, or even `links`: broken routes go at once, all else is looked at soon."""
        self._review_at = min(self._review_at, now + REVIEW_AFTER_S)
        self._review_all |= links
        self._cause = cause or self._cause
        messages: list[tuple[str, RouteMessage]] = []
        for routes in self._sets.values() if links else ():
            messages += self._drop_broken(routes, now, cause)
        return messages

    def timer(self) -> float:
        """When `catch_up` has something to do."""
        return min([self._review_at, *(routes.retry_at for routes in self._sets.values())])

    def catch_up(self, now: float) -> list[tuple[str, RouteMessage]]:
        """Plan anew after a change of the network; ask again for what was refused or not acknowledged."""
        if now >= self._review_at:
            every, cause = self._review_all, self._cause
            self._review_at, self._review_all, self._cause = float("inf"), False, None
            return self._review(now, cause, all_sets=every)
        messages: list[tuple[str, RouteMessage]] = []
        for routes in self._sets.values():
            if now >= routes.retry_at:
                messages += self._mend(routes, now, None)
        return messages

    def _review(
        self, now: float, cause: EventId | None, *, all_sets: bool = False
    ) -> list[tuple[str, RouteMessage]]:
        """Compare all route sets with the present network, and mend what needs mending.

        A change of delay only moves what would miss its deadline. With `all_sets`, after a link has come or
        gone, all sets are looked at, and those whose paths share links are replaced if the network allows
        for better ones.
        """
        messages: list[tuple[str, RouteMessage]] = []
        for key in [key for key in self._sets if key not in self._wanted or not self._needed(key)]:
            for route in self._sets.pop(key).routes:
                messages += self._teardown(route)
        for key in sorted(self._wanted):
            if not self._needed(key):
                continue
            routes = self._sets.get(key)
            if routes is None:
                routes = self._sets[key] = RouteSet(key[0], self._rules.contract_at(key[0]), key[1])
            elif not all_sets and routes.contract.deadline_ms is None:
                continue
            messages += self._mend(routes, now, cause)
        return messages

    def _needed(self, key: Key) -> bool:
        contract = self._rules.contract_at(key[0])
        if contract.paths > 1 or contract.deadline_ms is None:
            return contract.paths > 1
        # What serves well stays, although the tables' way may be fast again: it may be so only because
        # this traffic has left it.
        standing = self._sets[key].active() if key in self._sets else []
        serves = any(self._live.path_ms(route.path, key[0]) <= contract.deadline_ms for route in standing)
        return serves or self._live.table_ms(key[1], key[0]) > contract.deadline_ms

    def _mend(self, routes: RouteSet, now: float, cause: EventId | None) -> list[tuple[str, RouteMessage]]:
        messages = self._drop_broken(routes, now, cause)
        limit = routes.contract.deadline_ms
        kept = [
            route.path
            for route in routes.routes
            if limit is None or self._live.path_ms(route.path, routes.topic_class) <= limit
        ]
        kept = kept[: routes.contract.paths]
        enough = len(kept) == routes.contract.paths and not routes.unmet
        paths = kept
        if not enough or shared(kept):
            planned, unmet = self._choice.paths(
                routes.contract, routes.topic_class, routes.destination, [] if enough else kept
            )
            if not enough or shared(planned) < shared(kept):
                paths = planned
                self._tell_unmet(routes, unmet, now, cause)
        messages += self._ask_for(routes, paths, now, cause)
        wanted = set(paths)
        if wanted and all(route.active for route in routes.routes if route.path in wanted):
            messages += self._retire(routes, wanted, now, cause)
        complete = all(route.active for route in routes.routes)
        routes.retry_at = float("inf") if complete else now + ACK_TIMEOUT_S
        return messages

    def _drop_broken(
        self, routes: RouteSet, now: float, cause: EventId | None
    ) -> list[tuple[str, RouteMessage]]:
        messages: list[tuple[str, RouteMessage]] = []
        good: list[Route] = []
        for route in routes.routes:
            if not self._up(route.path):
                messages += self._give_up(routes, route, "a link on it has failed", now, cause)
            elif not route.active and now - route.asked_at >= ACK_TIMEOUT_S:
                messages += self._give_up(routes, route, "nobody acknowledged it", now, cause)
            else:
                good.append(route)
        routes.routes = good
        return messages

    def _tell_unmet(self, routes: RouteSet, unmet: str, now: float, cause: EventId | None) -> None:
        if unmet and not routes.unmet:
            self._log.note(ContractUnmet(**routes.about, reason=unmet), now, cause)
        elif routes.unmet and not unmet:
            self._log.note(ContractMet(**routes.about), now, cause)
        routes.unmet = unmet

    def _ask_for(
        self, routes: RouteSet, paths: list[SitePath], now: float, cause: EventId | None
    ) -> list[tuple[str, RouteMessage]]:
        """Request the paths that do not stand yet."""
        messages: list[tuple[str, RouteMessage]] = []
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

    def _retire(
        self, routes: RouteSet, wanted: set[SitePath], now: float, cause: EventId | None
    ) -> list[tuple[str, RouteMessage]]:
        """The wanted routes all stand: the others have served."""
        messages = []
        for route in routes.routes:
            if route.path not in wanted:
                messages += self._give_up(routes, route, "a better one stands", now, cause)
        routes.routes = [route for route in routes.routes if route.path in wanted]
        return messages

    def acknowledge(self, ack: RouteAck, now: float) -> list[tuple[str, RouteMessage]]:
        """A route that this gateway asked for stands, or does not."""
        if ack.epoch != self._epoch:
            return []
        for routes in self._sets.values():
            for route in routes.routes:
                if route.label != ack.label:
                    continue
                if not ack.ok:
                    refused = RouteRefused(**routes.about, path=route.path, reason=ack.reason)
                    self._log.note(refused, now, route.requested_by)
                    routes.routes.remove(route)
                    routes.retry_at = now + ACK_TIMEOUT_S
                    return []
                route.active = True
                stands = RouteEstablished(**routes.about, path=route.path)
                return self._mend(routes, now, self._log.note(stands, now, route.requested_by))
        return []

    def _give_up(
        self, routes: RouteSet, route: Route, reason: str, now: float, cause: EventId | None
    ) -> list[tuple[str, RouteMessage]]:
        self._log.note(RouteRetired(**routes.about, path=route.path, reason=reason), now, cause)
        return self._teardown(route)

    def _teardown(self, route: Route) -> list[tuple[str, RouteMessage]]:
        message = RouteTeardown(
            origin=self._domain, epoch=self._epoch, label=route.label, path=list(route.path)
        )
        return [(route.path[1], message)]

    def _up(self, path: SitePath) -> bool:
        return not any(site_pair(*pair) in self._live.failed for pair in pairwise(path))

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        labels = [route.label for routes in self._sets.values() for route in routes.routes]
        found = [] if len(labels) == len(set(labels)) else ["two routes have the same label"]
        for (_, destination), routes in self._sets.items():
            ends = {(route.path[0], route.path[-1]) for route in routes.routes}
            if ends - {(self._domain, destination)}:
                found.append(f"routes to {destination} lead elsewhere: {sorted(ends)}")
            incomplete = any(not route.active for route in routes.routes)
            if incomplete and math.isinf(routes.retry_at) and math.isinf(self._review_at):
                found.append(f"a route to {destination} was asked for and is never looked at again")
        return found

    def resiliency(self, routes: RouteSet) -> float:
        """Probability that one of the routes in use is up, from the availability of links in the past."""
        graph = self._live.live_graph()
        return resiliency(
            graph, [graph.indices(route.path) for route in routes.active() if self._up(route.path)]
        )
