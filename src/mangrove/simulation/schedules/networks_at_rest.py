"""Networks at rest: started once, kept, and copied for every schedule that is played on them.

At rest means that everything is up, all gateways agree on it, and all routes stand.
"""

from __future__ import annotations

import io
import pickle
from functools import lru_cache
from itertools import pairwise

from mangrove.model.federation import Federation
from mangrove.model.topics import TopicRules
from mangrove.overlay.links.liveness import Timing
from mangrove.routing.failover.gateway_tables import GatewayTables
from mangrove.routing.failover.ways import Ways
from mangrove.routing.network.graph import Graph
from mangrove.simulation.forging.keys import SimulatedAuthority
from mangrove.simulation.overlay_network import SimulatedOverlay
from mangrove.simulation.schedules.schedule import NETWORKS, PLAIN, REDUNDANT, RULES, SURE, Setting

TIMING = Timing(heartbeat_s=0.2, min_slack_s=0.1, flap_hold_s=0.1, max_flap_hold_s=0.5, flap_half_life_s=1.0)
"""Heartbeats are slower than in production, so that a schedule costs fewer events."""
JITTER_S = 0.0005
READY_S = 10.0
STEP_S = 0.25


def network_at_rest(where: Setting, *, with_keys: bool = False) -> SimulatedOverlay:
    """A new copy of a network at rest."""
    net = _Restorer(_kept(where, with_keys)).load()
    assert isinstance(net, SimulatedOverlay)
    return net


def settle(net: SimulatedOverlay, where: Setting, limit_s: float) -> str:
    """Let time pass until the network is at rest with everything up; what is missing if it never is."""
    limit = net.now + limit_s
    while (missing := _missing(net, where)) and net.now < limit:
        net.run(net.now + STEP_S)
    return missing


def _missing(net: SimulatedOverlay, where: Setting) -> str:
    """What keeps the network from being at rest with everything up; empty if nothing does."""
    for name, engine in net.engines.items():
        if not all(engine.usable(link.other(name)) for link in where.federation.links_of(name)):
            return f"{name} has a link that is not usable"
        if engine.failed_links:
            return f"{name} believes in failures: {sorted(engine.failed_links)}"
    for stream in where.streams:
        engine = net.engines[stream.source]
        routes = engine.route(stream.subject)
        wanted = sum(1 << where.federation.domain_order.index(name) for name in stream.receivers)
        if [route.flow.destinations for route in routes] != [wanted]:
            return f"{stream.source} does not know who wants {stream.subject}"
        for name in stream.receivers if stream.topic != PLAIN else ():
            paths = engine.active_paths(RULES.class_of(stream.subject), name)
            if not paths:
                return f"no route from {stream.source} to {name} stands"
            if (
                stream.topic in REDUNDANT
                and where.disjoint(stream.source, name)
                and not _apart(paths, pairwise_apart=stream.topic != SURE)
            ):
                return f"no disjoint routes from {stream.source} to {name} stand, only {paths}"
    return ""


def _apart(paths: list[tuple[str, ...]], *, pairwise_apart: bool) -> bool:
    """Whether there are two paths, and no link and no inner domain is used twice, or at least not by all."""
    if not pairwise_apart:
        needs = [{*path[1:-1], *map(frozenset, pairwise(path))} for path in paths]
        return len(paths) > 1 and not set.intersection(*needs)
    inner = [name for path in paths for name in path[1:-1]]
    links = [frozenset(hop) for path in paths for hop in pairwise(path)]
    return len(paths) > 1 and len(inner) == len(set(inner)) and len(links) == len(set(links))


@lru_cache(maxsize=NETWORKS)
def _kept(where: Setting, with_keys: bool) -> tuple[bytes, list[object]]:
    """A network, started and kept when it is at rest: its bytes, and what all copies share."""
    authority = SimulatedAuthority(list(where.federation.domains), 0) if with_keys else None
    net = SimulatedOverlay(
        where.federation, 0, timing=TIMING, tables=where.tables, jitter_s=JITTER_S, authority=authority
    )
    for stream in where.streams:
        for name in stream.receivers:
            net.subscribe(name, stream.subject)
    problem = settle(net, where, READY_S)
    assert not problem, f"{where.federation.name} did not start in {READY_S:g} s: {problem}"
    file = io.BytesIO()
    keeper = _Keeper(file)
    keeper.dump(net)
    return file.getvalue(), keeper.shared


class _Keeper(pickle.Pickler):
    """Keeps a network; what never changes is shared by all copies."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.shared: list[object] = []
        self._position: dict[int, int] = {}

    def persistent_id(self, thing: object) -> int | None:
        if not isinstance(thing, Federation | TopicRules | GatewayTables | Ways | Graph):
            return None
        position = self._position.setdefault(id(thing), len(self.shared))
        if position == len(self.shared):
            self.shared.append(thing)
        return position


class _Restorer(pickle.Unpickler):
    def __init__(self, kept: tuple[bytes, list[object]]) -> None:
        super().__init__(io.BytesIO(kept[0]))
        self._shared = kept[1]

    def persistent_load(self, position: int) -> object:
        return self._shared[position]
