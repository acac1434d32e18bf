"""What the contracts of a federation get when everything is up: known before anything is started."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mangrove.model.events.event_log import EventLog
from mangrove.model.federation import Federation
from mangrove.model.status import Requirement
from mangrove.model.topics import Contract, Mirror, Scope
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.routes.effective_contracts import EffectiveContracts
from mangrove.overlay.routes.path_view import SitePath
from mangrove.overlay.routes.route_manager import RouteManager
from mangrove.overlay.routes.session_asks import SessionAsks


class AtRest(msgspec.Struct, frozen=True):
    """The paths of one contract from one site to another, and what they give of what it asks."""

    contract: Contract
    source: str
    destination: str
    paths: tuple[SitePath, ...]
    requirements: tuple[Requirement, ...]


def contracts_at_rest(federation: Federation) -> Iterator[AtRest]:
    """Every contract that needs paths of its own, between every two sites, as their gateways choose them."""
    places = [
        place
        for place, contract in federation.topics.numbered()
        if (contract.may_need_routes or contract.mirror is Mirror.BOTH) and contract.scope is Scope.FEDERATION
    ]
    for source in federation.domains if places else ():
        live, log = LiveMap(federation, source), EventLog(source, 0)
        asks = SessionAsks(federation.topics)
        contracts = EffectiveContracts(federation.topics, asks, live)
        manager = RouteManager(federation, source, 1, contracts, live, log)
        manager.observe(0.0)
        others = [name for name in federation.domains if name != source]
        manager.want([(place, name) for place in places for name in others], 0.0)
        for (_, destination), routes in sorted(manager.sets.items()):
            yield AtRest(routes.contract, source, destination, routes.chosen, routes.requirements)
