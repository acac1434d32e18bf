"""Explicit routes: the path sets that contracts ask for, established from the source (Harmony 3.2, RT_EST).

A contract needs explicit routes when it asks for several paths, or when the way that the tables take is too
slow for its deadline. Routes are kept as long as they are up and fast enough; only what is broken is replaced
(incremental maintenance), and an old route serves until the new one is acknowledged. Routes of a set that
share a link or a site, because the network had no better when they were chosen, are replaced when it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mangrove.errors import MangroveError
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.events import Event, EventLog
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.protocol.control_messages import RouteAck, RouteMessage, RouteSetup, RouteTeardown
from mangrove.routing.constraints import FREE, Constraints
from mangrove.routing.disjoint_pair import disjoint_pair
from mangrove.routing.graph import Graph, NoPathError
from mangrove.routing.planner import Method, PathRequest, plan_paths
from mangrove.routing.resilience import resiliency

ACK_TIMEOUT_S = 1.0
REVIEW_AFTER_S = 0.1
"""Routes are planned anew so long after the network has changed: first of all, messages must go on."""

Path = tuple[str, ...]
Key = tuple[int, str]
"""Topic class and destination."""


@dataclass(slots=True)
class Route:
    """One path of a set; usable when acknowledged."""

    label: int
    path: Path
    asked_at: float
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
        self._label = 0
        self._sets: dict[Key, RouteSet] = {}
        self._wanted: set[Key] = set()
        self._review_at = float("inf")
        self._review_all = False
        self._cause: Event | None = None

    @property
    def sets(self) -> dict[Key, RouteSet]:
        """All route sets, by topic class and destination."""
        return self._sets

    def want(self, wanted: Iterable[Key], now: float, cause: Event | None) -> list[tuple[str, RouteMessage]]:
        """Topic classes and destinations that have subscribers now."""
        self._wanted = set(wanted)
        return self._review(now, cause)

    def network_changed(
        self, now: float, cause: Event | None, *, links: bool
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
        self, now: float, cause: Event | None, *, all_sets: bool = False
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

    def _mend(self, routes: RouteSet, now: float, cause: Event | None) -> list[tuple[str, RouteMessage]]:
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
        if not enough or _shared(kept):
            planned, unmet = self._plan(routes, [] if enough else kept)
            if not enough or _shared(planned) < _shared(kept):
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
        self, routes: RouteSet, now: float, cause: Event | None
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

    def _tell_unmet(self, routes: RouteSet, unmet: str, now: float, cause: Event | None) -> None:
        if bool(unmet) != bool(routes.unmet):
            self._note("ContractUnmet" if unmet else "ContractMet", routes, now, cause, reason=unmet)
        routes.unmet = unmet

    def _ask_for(
        self, routes: RouteSet, paths: list[Path], now: float, cause: Event | None
    ) -> list[tuple[str, RouteMessage]]:
        """Request the paths that do not stand yet."""
        messages: list[tuple[str, RouteMessage]] = []
        known = {route.path for route in routes.routes}
        for path in paths:
            if path in known:
                continue
            self._label += 1
            routes.routes.append(Route(self._label, path, now))
            setup = RouteSetup(origin=self._domain, epoch=self._epoch, label=self._label, path=list(path))
            messages.append((path[1], setup))
            self._note(
                "RouteRequested",
                routes,
                now,
                cause,
                path=list(path),
                predicted_ms=round(self._live.path_ms(path, routes.topic_class), 3),
                deadline_ms=routes.contract.deadline_ms,
            )
        return messages

    def _plan(self, routes: RouteSet, kept: list[Path]) -> tuple[list[Path], str]:
        """The paths to use, and why the contract cannot be met if it cannot."""
        contract = routes.contract
        graph = self._live.live_graph(routes.topic_class)
        limit = FREE if contract.deadline_ms is None else Constraints(max_delay=contract.deadline_ms)
        try:
            paths = self._paths(routes, graph, kept, limit)
        except NoPathError:
            try:
                paths = self._paths(routes, graph, [], FREE)
            except NoPathError as error:
                return [], error.message
            best = min(self._live.path_ms(path, routes.topic_class) for path in paths)
            return paths, f"best achievable delay is {best:.1f} ms, the deadline {contract.deadline_ms} ms"
        if len(paths) < contract.paths:
            return paths, f"{len(paths)} of {contract.paths} paths exist within the contract"
        return paths, ""

    def _paths(self, routes: RouteSet, graph: Graph, kept: list[Path], limit: Constraints) -> list[Path]:
        contract = routes.contract
        if len(kept) >= contract.paths:
            return kept
        method = Method.GAP_DIV if contract.separation_km > 0 else Method.DISJOINT
        request = PathRequest(
            method=method,
            paths=contract.paths,
            separation=contract.separation_km or None,
            constraints=limit,
        )
        source, destination = graph.index(self._domain), graph.index(routes.destination)
        primary = graph.indices(kept[0]) if kept else None
        try:
            plan = plan_paths(graph, source, destination, request, primary)
        except NoPathError:
            raise
        except MangroveError:
            # Sites without a location cannot be kept apart by distance; by links they can.
            plan = plan_paths(
                graph, source, destination, PathRequest(Method.DISJOINT, contract.paths, None, limit), primary
            )
        paths = [graph.named(path) for path in plan.paths]
        if len(paths) == 2 and _shared(paths):
            # The first path may stand in the way of every disjoint second one: choose both anew.
            pair = disjoint_pair(graph, source, destination)
            if pair is not None and all(limit.hold(graph, path) for path in pair):
                paths = [graph.named(path) for path in pair]
        return paths

    def _retire(
        self, routes: RouteSet, wanted: set[Path], now: float, cause: Event | None
    ) -> list[tuple[str, RouteMessage]]:
        """The wanted routes all stand: the others have served."""
        messages = []
        for route in routes.routes:
            if route.path not in wanted:
                messages += self._give_up(routes, route, "a better one stands", now, cause)
        routes.routes = [route for route in routes.routes if route.path in wanted]
        return messages

    def acknowledge(self, ack: RouteAck, now: float, cause: Event | None) -> list[tuple[str, RouteMessage]]:
        """A route that this gateway asked for stands, or does not."""
        if ack.epoch != self._epoch:
            return []
        for routes in self._sets.values():
            for route in routes.routes:
                if route.label != ack.label:
                    continue
                kind = "RouteEstablished" if ack.ok else "RouteRefused"
                self._note(kind, routes, now, cause, path=list(route.path), reason=ack.reason)
                if not ack.ok:
                    routes.routes.remove(route)
                    routes.retry_at = now + ACK_TIMEOUT_S
                    return []
                route.active = True
                return self._mend(routes, now, cause)
        return []

    def _give_up(
        self, routes: RouteSet, route: Route, reason: str, now: float, cause: Event | None
    ) -> list[tuple[str, RouteMessage]]:
        self._note("RouteRetired", routes, now, cause, path=list(route.path), reason=reason)
        return self._teardown(route)

    def _note(self, kind: str, routes: RouteSet, now: float, cause: Event | None, **details: object) -> None:
        """An event of a set of routes."""
        about = {"topic": routes.contract.match, "destination": routes.destination}
        self._log.note(kind, now, cause, **about, **details)

    def _teardown(self, route: Route) -> list[tuple[str, RouteMessage]]:
        message = RouteTeardown(
            origin=self._domain, epoch=self._epoch, label=route.label, path=list(route.path)
        )
        return [(route.path[1], message)]

    def _up(self, path: Path) -> bool:
        return not any((min(pair), max(pair)) in self._live.failed for pair in pairwise(path))

    def resiliency(self, routes: RouteSet) -> float:
        """Probability that one of the routes in use is up, from the availability of links in the past."""
        graph = self._live.live_graph()
        return resiliency(
            graph, [graph.indices(route.path) for route in routes.active() if self._up(route.path)]
        )


def _shared(paths: Sequence[Path]) -> int:
    """How many links and inner sites more than one of the paths needs."""
    uses = Counter(
        part for path in paths for part in (*path[1:-1], *((min(p), max(p)) for p in pairwise(path)))
    )
    return sum(count > 1 for count in uses.values())
