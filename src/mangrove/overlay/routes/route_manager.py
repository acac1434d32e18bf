"""Explicit routes: which path sets the contracts need, decided at the source (Harmony §3.2).

A contract needs explicit routes when it asks for several paths, a resiliency or a rate, or when the way that
the tables take misses what it asks. A set is kept as long as it gives what was promised; only what is broken
or missed is replaced (incremental maintenance), and a set that misses something is replaced only by one that
misses clearly less. Fewer paths, or much shorter ones, are taken only when nothing has changed for a while:
so nothing goes back and forth. How routes come to stand is the matter of `establishment`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from mangrove.model.events.event_log import EventId, EventLog
from mangrove.model.federation import Federation
from mangrove.model.questions.endangered import ExposedPath
from mangrove.model.status import Requirement, unmet_text
from mangrove.model.versions.rules_in_force import Rules
from mangrove.overlay.events.happenings import ContractMet, ContractUnmet
from mangrove.overlay.network.failure_estimates import FailureEstimates
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.protocol.control_messages import RouteAck
from mangrove.overlay.routes.damping import LOOK_EVERY_S, Unrest
from mangrove.overlay.routes.effective_contracts import EffectiveContracts
from mangrove.overlay.routes.establishment import Establishment, Messages, RouteSet
from mangrove.overlay.routes.path_choice import choose_paths, judged
from mangrove.overlay.routes.path_view import SitePath
from mangrove.overlay.routes.reconsideration import better_choice, turn
from mangrove.overlay.routes.surroundings import Surroundings

REVIEW_AFTER_S = 0.1
"""Routes are planned anew so long after the network has changed: first of all, messages must go on."""

Key = tuple[int, str]
"""Topic class and destination."""


class RouteManager:
    """Decides which explicit routes this gateway needs as a source."""

    def __init__(
        self,
        federation: Federation,
        domain: str,
        epoch: int,
        contracts: EffectiveContracts,
        live: LiveMap,
        log: EventLog,
        rules: Rules | None = None,
    ) -> None:
        self._domain = domain
        self._contracts = contracts
        self._live = live
        self._log = log
        self._estimates = FailureEstimates(federation)
        self._signalling = Establishment(domain, epoch, live, log)
        self._sets: dict[Key, RouteSet] = {}
        self._surroundings = Surroundings(federation, domain, live, self._estimates, self._sets, rules)
        self._wanted: set[Key] = set()
        self._unrest: dict[Key, Unrest] = {}
        self._review_at = float("inf")
        self._review_all = False
        self._cause: EventId | None = None

    @property
    def sets(self) -> dict[Key, RouteSet]:
        """All route sets, by topic class and destination."""
        return self._sets

    def adopt(self, federation: Federation) -> None:
        """Other domains and links are agreed on."""
        self._estimates.adopt(federation)
        self._surroundings.adopt(federation)

    def begin(self, epoch: int) -> None:
        """A life of this gateway begins, in which all routes are asked for."""
        self._signalling.begin(epoch)

    def want(self, wanted: Iterable[Key], now: float) -> Messages:
        """Topic classes and destinations that have subscribers now."""
        self._wanted = set(wanted)
        self._unrest = {key: unrest for key, unrest in self._unrest.items() if key in self._wanted}
        return self._review(now, None)

    def regions_changed(self, federation: Federation) -> None:
        """Contracts keep apart from other regions; their routes are to be looked at again."""
        self._surroundings.regions_changed(federation)

    def observe(self, now: float) -> None:
        """The map follows the link state: what has failed and what links carry may be different."""
        self._estimates.observe(self._live.failed, self._live.measured.availability, now)
        self._surroundings.changed()

    def network_changed(self, now: float, cause: EventId | None, *, links: bool) -> Messages:
        """Delays have changed, or even `links`: broken routes go at once, all else is looked at soon."""
        self._review_at = min(self._review_at, now + REVIEW_AFTER_S)
        self._review_all |= links
        self._cause = cause or self._cause
        messages: Messages = []
        for routes in self._sets.values() if links else ():
            messages += self._signalling.drop_broken(routes, now, cause)
        for unrest in self._unrest.values() if links else ():
            unrest.forgive()
        return messages

    @property
    def settled(self) -> bool:
        """Whether all that was asked for stands, and all that fled a region that is safe has returned."""
        return not any(
            self._returns(routes) or not all(route.active for route in routes.routes)
            for routes in self._sets.values()
        )

    def exposed(self, now: float) -> list[ExposedPath]:
        """Paths in use that lead through endangered regions, and why."""
        found: list[ExposedPath] = []
        for key in sorted(self._wanted) if self._live.dangers.active else ():
            routes = self._sets.get(key)
            paths = [route.path for route in routes.active()] if routes is not None else []
            for path in paths or [self._live.table_path(key[1])]:
                regions = self._live.dangers.touched_by(path)
                if regions:
                    found.append(self._exposed(key, path, regions, now))
        return found

    def _exposed(self, key: Key, path: SitePath, regions: tuple[str, ...], now: float) -> ExposedPath:
        routes, contract = self._sets.get(key), self._contracts.at(*key)
        sites = self._live.dangers.sites
        reason = ""
        if self._domain in sites:
            reason = f"its source, {self._domain}, lies inside"
        elif key[1] in sites:
            reason = f"its destination, {key[1]}, lies inside"
        elif routes is not None and path in routes.chosen:
            around = self._surroundings.view(contract, key, now, routes).around()
            apart = choose_paths(around).paths
            reason = "no other way is within the contract" if apart else "no way leads around it"
        return ExposedPath(
            topic=contract.match, destination=key[1], path=path, regions=regions, reason=reason
        )

    def timer(self) -> float:
        """When `catch_up` has something to do."""
        first = min(self._review_at, self._signalling.timer())
        for routes in self._sets.values():
            if routes.retry_at < first:
                first = routes.retry_at
            if routes.look_at < first:
                first = routes.look_at
        return first

    def catch_up(self, now: float) -> Messages:
        """Plan anew after a change of the network; ask again for what was refused or not acknowledged."""
        if now >= self._review_at:
            every, cause = self._review_all, self._cause
            self._review_at, self._review_all, self._cause = float("inf"), False, None
            return self._review(now, cause, all_sets=every)
        messages = self._signalling.refresh(self._sets.values(), now)
        for routes in self._sets.values():
            if now >= routes.look_at:
                messages += self._mend(routes, now, None, improve=True)
            elif now >= routes.retry_at:
                messages += self._mend(routes, now, None)
        return messages

    def _review(self, now: float, cause: EventId | None, *, all_sets: bool = False) -> Messages:
        """Compare all route sets with the present network, and mend what needs mending.

        A change of delay only moves what would miss its deadline. With `all_sets`, after a link has come or
        gone, all sets are looked at, and those whose paths share links are replaced if the network allows
        for better ones.
        """
        messages: Messages = []
        for key in [key for key in self._sets if key not in self._wanted or not self._needed(key, now)]:
            messages += self._signalling.tear_down(self._sets.pop(key))
            if key in self._wanted:
                self._unrest_of(key).moved(now)
        for key in sorted(self._wanted):
            if key not in self._sets and not self._needed(key, now):
                continue
            routes, contract = self._sets.get(key), self._contracts.at(*key)
            if routes is None:
                routes = self._sets[key] = RouteSet(key[0], contract, key[1])
                if not contract.always_routed:
                    self._unrest_of(key).moved(now)
                routes.look_at = now + LOOK_EVERY_S * (1 + turn(self._domain, key))
                if self._endangered(key[1]):
                    routes.evading = self._live.dangers.version
            elif routes.contract != contract:
                routes.contract = contract
            elif not all_sets and routes.contract.deadline_ms is None:
                continue
            messages += self._mend(routes, now, cause)
        return messages

    def _needed(self, key: Key, now: float) -> bool:
        if not self._live.knows(key[1]):  # it has joined, and the tables are not made yet
            return False
        contract = self._contracts.at(*key)
        if contract.always_routed or self._endangered(key[1]):
            return True
        if not contract.may_need_routes:
            return False
        # What serves well stays, although the tables' way may be fast again: it may be so only because
        # this traffic has left it.
        view = self._surroundings.view(contract, key, now)
        routes = self._sets.get(key)
        standing = [route.path for route in routes.active()] if routes is not None else []
        if routes is not None and self._returns(routes):
            standing = []
        if standing and not unmet_text(view.assess(standing)):
            return True
        if not self._unrest_of(key).may_move(now) and not (routes is not None and self._returns(routes)):
            return routes is not None
        table = self._live.table_path(key[1])
        return not table or bool(unmet_text(view.assess([table])))

    def _unrest_of(self, key: Key) -> Unrest:
        return self._unrest.setdefault(key, Unrest())

    def _endangered(self, destination: str) -> bool:
        """Whether the tables lead through an endangered region."""
        dangers = self._live.dangers
        return dangers.active and dangers.touches(self._live.table_path(destination))

    def _returns(self, routes: RouteSet) -> bool:
        """Whether a set that fled is to be chosen anew, because something else is endangered, or nothing."""
        return routes.evading is not None and routes.evading != self._live.dangers.version

    def _mend(
        self, routes: RouteSet, now: float, cause: EventId | None, *, improve: bool = False
    ) -> Messages:
        """See that a set gives what it should; with `improve`, also whether it could be had for less."""
        messages = self._signalling.drop_broken(routes, now, cause)
        key = (routes.topic_class, routes.destination)
        if improve:
            self._surroundings.measure(routes, now)
            routes.look_at = now + LOOK_EVERY_S
        view = self._surroundings.view(routes.contract, key, now, routes)
        alive = {route.path for route in routes.routes}
        current = judged(view, [path for path in routes.chosen if path in alive])
        chosen = better_choice(view, current, routes, self._unrest_of(key), now, improve=improve)
        if self._returns(routes):
            chosen = choose_paths(view)
        dangers = self._live.dangers
        if not dangers.active:
            routes.evading = None
        elif routes.evading is not None or any(dangers.touches(path) for path in current.paths):
            routes.evading = dangers.version
        if chosen.paths != routes.chosen:
            self._surroundings.changed()
            routes.chosen, routes.changed_at, routes.crowded_until = chosen.paths, now, None
        self._tell(routes, chosen.requirements, now, cause)
        return messages + self._signalling.establish(routes, list(chosen.paths), now, cause)

    def _tell(
        self, routes: RouteSet, found: tuple[Requirement, ...], now: float, cause: EventId | None
    ) -> None:
        """Note when a contract begins to miss something, something else, or nothing any more."""
        before = {(each.name, each.apart_from) for each in routes.requirements if not each.met}
        after = {(each.name, each.apart_from) for each in found if not each.met}
        routes.requirements = found
        if after - before:
            missed = tuple(each for each in found if not each.met)
            self._log.note(ContractUnmet(**routes.about, reason=routes.unmet, unmet=missed), now, cause)
        elif before and not after:
            self._log.note(ContractMet(**routes.about), now, cause)

    def acknowledge(self, ack: RouteAck, now: float) -> Messages:
        """A route that this gateway asked for stands, or does not."""
        messages, stands = self._signalling.acknowledge(self._sets.values(), ack, now)
        if stands is None:
            return messages
        routes, cause = stands
        if set(routes.chosen) <= {route.path for route in routes.routes}:
            return messages + self._signalling.establish(routes, list(routes.chosen), now, cause)
        return messages + self._mend(routes, now, cause)

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
            if math.isinf(routes.look_at):
                found.append(f"the routes to {destination} are never looked at again")
        return found

    def resiliency(self, routes: RouteSet, now: float) -> float:
        """Probability that one of the routes in use is up, if both ends are."""
        view = self._surroundings.view(routes.contract, (routes.topic_class, routes.destination), now, routes)
        return view.resiliency([route.path for route in routes.active() if self._signalling.up(route.path)])
