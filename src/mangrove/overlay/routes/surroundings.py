"""What the choice of a contract's paths depends on besides the contract: the network and the other sets."""

from __future__ import annotations

from collections.abc import Mapping

from mangrove.model.federation import Federation
from mangrove.model.topics import Contract
from mangrove.model.versions.rules_in_force import Rules
from mangrove.overlay.links.throughput import MBIT_BYTES
from mangrove.overlay.network.failure_estimates import FailureEstimates
from mangrove.overlay.network.link_loads import NO_LOADS, LinkLoads, add_load, capacities
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.routes.establishment import RouteSet
from mangrove.overlay.routes.path_view import PathView, SitePath
from mangrove.routing.network.graph import Graph
from mangrove.routing.paths.resilience import with_ends_up

FRESH_S = 1.0
"""Probabilities of failure change slowly: a graph with them is used for so long."""
NOTICEABLE_MBPS = 0.1
_GAIN = 0.5


class Surroundings:
    """Makes the view on which the paths of a set are chosen; keeps what all views have in common."""

    def __init__(
        self,
        federation: Federation,
        domain: str,
        live: LiveMap,
        estimates: FailureEstimates,
        sets: Mapping[tuple[int, str], RouteSet],
        rules: Rules | None = None,
    ) -> None:
        self._federation = federation
        self._rules: Rules = rules or federation.topics
        self._domain = domain
        self._live = live
        self._estimates = estimates
        self._sets = sets
        self._distances: dict[tuple[SitePath, SitePath], float] = {}
        self._graphs: dict[int, tuple[float, Graph]] = {}
        self._capacity: dict[tuple[str, str], float] | None = None
        self._load: dict[tuple[str, str], float] | None = None

    def regions_changed(self, federation: Federation) -> None:
        """Regions from which contracts keep apart are other ones."""
        self._federation = federation

    def adopt(self, federation: Federation) -> None:
        """Other domains and links are agreed on."""
        self._federation = federation
        self._distances.clear()
        self.changed()

    def changed(self) -> None:
        """The network or a set is another: nothing that was kept holds."""
        self._graphs.clear()
        self._capacity = self._load = None

    def measure(self, routes: RouteSet, now: float) -> None:
        """Take stock of what a set carries."""
        if routes.looked_at is not None and now > routes.looked_at:
            fresh = routes.sent_bytes / MBIT_BYTES / (now - routes.looked_at)
            change = _GAIN * (fresh - routes.observed_mbps)
            routes.observed_mbps += change
            if abs(change) > NOTICEABLE_MBPS:
                self._load = None
        routes.looked_at, routes.sent_bytes = now, 0

    def view(
        self, contract: Contract, key: tuple[int, str], now: float, routes: RouteSet | None = None
    ) -> PathView:
        """How paths to a destination look to a contract now, apart from its own load."""
        graph = self._graph(key[0], now)
        ends = graph.index(self._domain), graph.index(key[1])
        return PathView(
            live=self._live,
            graph=with_ends_up(graph, *ends),
            contract=contract,
            topic_class=key[0],
            source=self._domain,
            destination=key[1],
            rate_mbps=_demand(contract, routes),
            loads=self._loads(routes),
            regions=self._federation.regions,
            others=self._others(contract, key),
            distances=self._distances,
        )

    def _graph(self, topic_class: int, now: float) -> Graph:
        made = self._graphs.get(topic_class)
        if made is None or not made[0] <= now <= made[0] + FRESH_S:
            made = self._graphs[topic_class] = (
                now,
                self._estimates.on(self._live.live_graph(topic_class), now),
            )
        return made[1]

    def _loads(self, routes: RouteSet | None) -> LinkLoads:
        """What is measured, less what the own sets send, plus what they may send; the set itself left out."""
        if self._capacity is None:
            self._capacity = capacities(self._federation, self._live.measured)
        if self._load is None:
            self._load = dict(self._live.measured.used_mbps)
            for each in self._sets.values():
                add_load(self._load, (route.path for route in each.active()), -each.observed_mbps)
            for each in self._sets.values():
                add_load(self._load, each.chosen, _demand(each.contract, each))
        if not self._capacity and not self._load:
            return NO_LOADS
        load = dict(self._load)
        if routes is not None:
            add_load(load, routes.chosen, -_demand(routes.contract, routes))
        return LinkLoads(self._capacity, load)

    def _others(self, contract: Contract, key: tuple[int, str]) -> dict[str, list[SitePath]]:
        """The paths of the contracts to keep away from; of two that avoid each other the later one moves."""
        found: dict[str, list[SitePath]] = {}
        for topic_class, other in self._rules.numbered():
            if other.match not in contract.apart_from or other.match in self._federation.regions:
                continue
            if contract.match in other.apart_from and topic_class > key[0]:
                continue
            routes = self._sets.get((topic_class, key[1]))
            paths = list(routes.chosen) if routes is not None else []
            table = self._live.table_path(key[1])
            found[other.match] = paths or ([table] if table else [])
        return found


def _demand(contract: Contract, routes: RouteSet | None) -> float:
    """What a contract sends: as much as it names, or more if more is seen."""
    observed = 0.0 if routes is None or routes.observed_mbps < NOTICEABLE_MBPS else routes.observed_mbps
    return max(contract.rate_mbps or 0.0, observed)
