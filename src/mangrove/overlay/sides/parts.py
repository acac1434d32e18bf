"""The parts of an engine, as all its sides see them."""

from __future__ import annotations

from mangrove.model.events.event_log import EventId, EventLog
from mangrove.model.federation import Federation
from mangrove.model.versions.rules_in_force import RulesInForce
from mangrove.overlay.delivery.delivery import Delivery
from mangrove.overlay.forwarding.border import Border
from mangrove.overlay.forwarding.flows import FlowTable
from mangrove.overlay.forwarding.forwarder import Forwarder
from mangrove.overlay.forwarding.nearest import NearestDomains
from mangrove.overlay.interest.interest_exchange import InterestExchange
from mangrove.overlay.interest.local_interest import LocalInterest
from mangrove.overlay.interest.remote_interest import RemoteInterest
from mangrove.overlay.links.neighbours import Neighbours
from mangrove.overlay.network.link_state import LinkStateDatabase
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.network_follower import NetworkFollower
from mangrove.overlay.routes.route_manager import RouteManager
from mangrove.overlay.routes.session_asks import SessionAsks
from mangrove.overlay.routes.transit_labels import TransitLabels
from mangrove.overlay.trust.notary import Notary
from mangrove.overlay.versions.following import VersionsFollower


class EngineParts:
    """What an engine is made of; `OverlayEngine` makes it."""

    domain: str
    epoch: int
    federation: Federation
    rules: RulesInForce
    """The contracts that hold here at present."""
    border: Border | None
    """What may pass between this domain and the others; None where everything may."""
    departed: bool
    """Whether this domain is no member any more."""
    _asks: SessionAsks
    _delivery: Delivery
    _events: EventLog
    _exchange: InterestExchange
    _flows: FlowTable
    _forwarder: Forwarder
    _labels: TransitLabels
    _link_state: LinkStateDatabase
    _live: LiveMap
    _local: LocalInterest
    _nearest: NearestDomains
    _neighbours: Neighbours
    _network: NetworkFollower
    _notary: Notary
    _remote: RemoteInterest
    _routes: RouteManager
    _versions: VersionsFollower
    _settled: bool
    """Whether the shell knows that what waits for the head broker may go."""
    _head_change: EventId | None

    @property
    def own_bit(self) -> int:
        """This domain among the destinations of a frame."""
        return self._forwarder.own_bit
