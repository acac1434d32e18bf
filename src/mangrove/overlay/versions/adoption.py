"""Other domains and links come into force, between two frames: what each part of a gateway does about it.

Nothing stops: the tables in use serve on, with links that are gone as failed ones. A link that is gone stays
open for a while, so that what was sent on it is acknowledged, and what a domain that leaves still has comes
out; nothing new is put on it but what is for that domain, and what waits for it goes other ways.
"""

from __future__ import annotations

from typing import NamedTuple

from mangrove.model.federation import Federation
from mangrove.model.versions.network import RETIRED, network_of
from mangrove.overlay.delivery.delivery import Delivery
from mangrove.overlay.forwarding.forwarder import Forwarder
from mangrove.overlay.instructions import Instruction
from mangrove.overlay.interest.interest_exchange import InterestExchange
from mangrove.overlay.interest.remote_interest import RemoteInterest
from mangrove.overlay.links.neighbours import Neighbour, Neighbours
from mangrove.overlay.network.link_state import LinkStateDatabase
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.network_follower import NetworkFollower
from mangrove.overlay.routes.route_manager import RouteManager
from mangrove.overlay.routes.transit_labels import TransitLabels
from mangrove.overlay.trust.notary import Notary
from mangrove.routing.failover.gateway_tables import GatewayTables

LINGER_S = 3.0
"""How long a link stays open that is no part of the federation any more."""
NO_LINK = "the link is no part of the federation any more"
OTHER_NUMBER = "the domain has left, and is a member again under another number: its gateway must start again"


class AdoptingParts(NamedTuple):
    """The parts of an engine that know domains or links."""

    neighbours: Neighbours
    link_state: LinkStateDatabase
    live: LiveMap
    routes: RouteManager
    labels: TransitLabels
    forwarder: Forwarder
    remote: RemoteInterest
    exchange: InterestExchange
    notary: Notary
    network: NetworkFollower


def differs(before: Federation, after: Federation) -> bool:
    """Whether there are other domains or links, or something else is said of them."""
    return before.domain_order != after.domain_order or network_of(before) != network_of(after)


def departed(before: Federation, after: Federation) -> list[str]:
    """The domains whose numbers are retired; one of the same name may have joined since."""
    order = after.domain_order
    return [
        name
        for number, name in enumerate(before.domain_order)
        if name in before.domains and order[number] != name
    ]


class NetworkAdoption:
    """Makes all parts of one engine act by other domains and links."""

    delivery: Delivery

    def __init__(self, domain: str, parts: AdoptingParts) -> None:
        self._domain = domain
        self._parts = parts

    def adopt(self, before: Federation, after: Federation, now: float) -> list[Instruction]:
        """These domains and links are in force from now on; the tables for them follow."""
        parts, order, gone = self._parts, after.domain_order, departed(before, after)
        instructions = parts.remote.adopt(order, gone)
        parts.link_state.adopt([link.between for link in after.links], gone)
        parts.notary.adopt(order, gone)
        parts.forwarder.adopt(after)
        self.delivery.adopt(order)
        parts.labels.adopt(after)
        parts.routes.adopt(after)
        parts.live.adopt(after)
        for name in gone:
            parts.network.forget(name)
        former = parts.neighbours.adopt(link.other(self._domain) for link in after.links_of(self._domain))
        for neighbour in former:
            instructions += self._leave(neighbour, now)
        parts.exchange.adopt()
        self.look_for_bypasses()
        instructions += parts.network.follow(now, None)
        return instructions + parts.network.tables_changed(now)

    def _leave(self, neighbour: Neighbour, now: float) -> list[Instruction]:
        """No link leads there any more: nothing new is sent, and what was sent is given time to arrive."""
        if not neighbour.connected:
            return []
        neighbour.closes_at = now + LINGER_S
        instructions: list[Instruction] = []
        for frame in neighbour.outgoing.give_up_waiting(now):
            instructions += self._parts.forwarder.reroute(frame, now)
        return instructions

    def depart(self, domain: str, federation: Federation, now: float) -> list[Instruction]:
        """This domain has left: what others want is forgotten, and the links serve until they are closed."""
        order = tuple(
            name if name == domain else f"{name}{RETIRED}{number}"
            for number, name in enumerate(federation.domain_order)
        )
        others = [name for name in federation.domains if name != domain]
        return [*self._parts.remote.adopt(order, others), *self._parts.network.tables_changed(now)]

    def take_tables(self, tables: GatewayTables, now: float) -> list[Instruction]:
        """Forward by these from now on."""
        self._parts.live.take_tables(tables)
        self.look_for_bypasses()
        return self._parts.network.tables_changed(now)

    def forget_neighbour(self, neighbour: Neighbour) -> None:
        """The connection of a former neighbour is gone."""
        self._parts.neighbours.forget(neighbour.name)
        self._parts.exchange.adopt()

    def look_for_bypasses(self) -> None:
        """Which links have no other way around them."""
        for neighbour in self._parts.neighbours:
            neighbour.monitor.only_way = not self._parts.live.has_bypass(neighbour.name)
