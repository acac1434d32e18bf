"""Explicit routes: which path sets the contracts need, decided at the source (Harmony §3.2).

A contract needs explicit routes when it asks for several paths, or when the way that the tables take is too
slow for its deadline. Routes are kept as long as they are up and fast enough; only what is broken is replaced
(incremental maintenance). Routes of a set that share a link or a site, because the network had no better when
they were chosen, are replaced when it has. How routes come to stand is the matter of `establishment`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from mangrove.model.topics import TopicRules
from mangrove.overlay.events.event_log import EventId, EventLog
from mangrove.overlay.events.happenings import ContractMet, ContractUnmet
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.protocol.control_messages import RouteAck
from mangrove.overlay.routes.establishment import Establishment, Messages, RouteSet
from mangrove.overlay.routes.path_choice import PathChoice, shared
from mangrove.routing.paths.resilience import resiliency

REVIEW_AFTER_S = 0.1
"""Routes are planned anew so long after the network has changed: first of all, messages must go on."""

Key = tuple[int, str]
"""Topic class and destination."""


class RouteManager:
    """Decides which explicit routes this gateway needs as a source."""

    def __init__(self, domain: str, epoch: int, rules: TopicRules, live: LiveMap, log: EventLog) -> None:
        self._domain = domain
        self._rules = rules
        self._live = live
        self._log = log
        self._choice = PathChoice(domain, live)
        self._signalling = Establishment(domain, epoch, live, log)
        self._sets: dict[Key, RouteSet] = {}
        self._wanted: set[Key] = set()
        self._review_at = float("inf")
        self._review_all = False
        self._cause: EventId | None = None

    @property
    def sets(self) -> dict[Key, RouteSet]:
        """All route sets, by topic class and destination."""
        return self._sets

    def want(self, wanted: Iterable[Key], now: float) -> Messages:
        """Topic classes and destinations that have subscribers now."""
        self._wanted = set(wanted)
        return self._review(now, None)

    def network_changed(self, now: float, cause: EventId | None, *, links: bool) -> Messages:
        """Delays have changed, or even `links`: broken routes go at once, all else is looked at soon."""
        self._review_at = min(self._review_at, now + REVIEW_AFTER_S)
        self._review_all |= links
        self._cause = cause or self._cause
        messages: Messages = []
        for routes in self._sets.values() if links else ():
            messages += self._signalling.drop_broken(routes, now, cause)
        return messages

    def timer(self) -> float:
        """When `catch_up` has something to do."""
        retries = (routes.retry_at for routes in self._sets.values())
        return min([self._review_at, self._signalling.timer(), *retries])

    def catch_up(self, now: float) -> Messages:
        """Plan anew after a change of the network; ask again for what was refused or not acknowledged."""
        if now >= self._review_at:
            every, cause = self._review_all, self._cause
            self._review_at, self._review_all, self._cause = float("inf"), False, None
            return self._review(now, cause, all_sets=every)
        messages = self._signalling.refresh(self._sets.values(), now)
        for routes in self._sets.values():
            if now >= routes.retry_at:
                messages += self._mend(routes, now, None)
        return messages

    def _review(self, now: float, cause: EventId | None, *, all_sets: bool = False) -> Messages:
        """Compare all route sets with the present network, and mend what needs mending.

        A change of delay only moves what would miss its deadline. With `all_sets`, after a link has come or
        gone, all sets are looked at, and those whose paths share links are replaced if the network allows
        for better ones.
        """
        messages: Messages = []
        for key in [key for key in self._sets if key not in self._wanted or not self._needed(key)]:
            messages += self._signalling.tear_down(self._sets.pop(key))
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

    def _mend(self, routes: RouteSet, now: float, cause: EventId | None) -> Messages:
        messages = self._signalling.drop_broken(routes, now, cause)
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
        return messages + self._signalling.establish(routes, paths, now, cause)

    def _tell_unmet(self, routes: RouteSet, unmet: str, now: float, cause: EventId | None) -> None:
        if unmet and not routes.unmet:
            self._log.note(ContractUnmet(**routes.about, reason=unmet), now, cause)
        elif routes.unmet and not unmet:
            self._log.note(ContractMet(**routes.about), now, cause)
        routes.unmet = unmet

    def acknowledge(self, ack: RouteAck, now: float) -> Messages:
        """A route that this gateway asked for stands, or does not."""
        messages, stands = self._signalling.acknowledge(self._sets.values(), ack, now)
        return messages if stands is None else messages + self._mend(stands[0], now, stands[1])

    @property
    def ignored(self) -> Counter[str]:
        """Answers to nothing that was asked, by what was wrong with them."""
        return self._signalling.ignored

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        used = [route for routes in self._sets.values() for route in routes.routes]
        versions = {route.version for route in used}
        found = [] if len(versions) == len(used) else ["two routes have the same version"]
        labels = [route.label for route in used if route.active]
        if len(set(labels)) != len(labels):
            found.append("two routes in use have the same label")
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
            graph, [graph.indices(route.path) for route in routes.active() if self._signalling.up(route.path)]
        )
