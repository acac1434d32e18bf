"""What the federation file says of an agent's own domain."""

from __future__ import annotations

from mangrove.control.load.capacity import capacity_of
from mangrove.model.agents.load import Amounts
from mangrove.model.balancing import Balancing
from mangrove.model.endpoints import BrokerEndpoints, DomainEndpoints
from mangrove.model.federation import Domain, Edge, Federation
from mangrove.model.subjects import covers
from mangrove.model.topics import Scope, overlaps

HEAD = "head"
EDGE = "edge"


class Site:
    """A domain's brokers and contracts, as its agent needs them."""

    def __init__(self, federation: Federation, endpoints: DomainEndpoints) -> None:
        self.federation = federation
        self.domain = endpoints.domain
        self.description: Domain = federation.domains[self.domain]
        self.balancing: Balancing = federation.balancing
        self.head = endpoints.head.name
        self.edges = tuple(edge.name for edge in endpoints.edges)
        self.management_url = endpoints.management.client_url
        self.neighbours = tuple(sorted(link.other(self.domain) for link in federation.links_of(self.domain)))
        brokers: list[BrokerEndpoints] = [endpoints.head, *endpoints.edges]
        self._urls = {broker.name: broker.client_url for broker in brokers}
        self._machines = {broker.name: broker.machine for broker in brokers}
        described = [self.description.head, *self.description.edges]
        described += [Edge()] * (len(brokers) - len(described))
        self.capacities: dict[str, Amounts] = {
            broker.name: capacity_of(edge) for broker, edge in zip(brokers, described, strict=False)
        }

    @property
    def serving(self) -> tuple[str, ...]:
        """Brokers that serve subscribers: the edges, or the head of a domain that has none."""
        return self.edges or (self.head,)

    @property
    def brokers(self) -> tuple[str, ...]:
        """Head and edges."""
        return (self.head, *self.edges)

    def role(self, broker: str) -> str:
        """What a broker is."""
        return HEAD if broker == self.head else EDGE

    def url(self, broker: str) -> str:
        """Where clients reach a broker of this domain."""
        return self._urls[broker]

    def machine(self, broker: str) -> str:
        """The host on which a broker runs; empty where the domain has but one."""
        return self._machines.get(broker, "")

    def has(self, broker: str) -> bool:
        """Whether a broker is one of this domain."""
        return broker in self._urls

    def of_neighbour(self, broker: str) -> bool:
        """Whether a name is that of a broker in a linked domain."""
        return any(broker.startswith(f"{peer}-") for peer in self.neighbours)

    def may_leave(self, topic: str) -> bool:
        """Whether a topic's clients could be served in another domain and miss nothing.

        False as soon as a part of the pattern is certain to stay at home.
        """
        for contract in self.federation.topics.contracts:
            if contract.scope is Scope.DOMAIN and overlaps(contract.match, topic):
                return False
            if covers(contract.match, topic):
                return True
        return True

    def takes_load_from(self, domain: str) -> bool:
        """Whether clients of a domain may be moved here."""
        return domain in self.description.accept_load_from
