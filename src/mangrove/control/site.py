"""What the federation file says of an agent's own domain."""

from __future__ import annotations

from collections.abc import Collection

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
        self.spares = tuple(edge.name for edge in endpoints.spares)
        """Edges that do not run until they are added."""
        self.edges = (*(edge.name for edge in endpoints.edges), *self.spares)
        self.management_url = endpoints.management.client_url
        self.neighbours = tuple(sorted(link.other(self.domain) for link in federation.links_of(self.domain)))
        brokers: list[BrokerEndpoints] = list(endpoints.succession)
        self._urls = {broker.name: broker.client_url for broker in brokers}
        self._machines = {broker.name: broker.machine for broker in brokers}
        self._down: frozenset[str] = frozenset(self.spares)
        self._dead: frozenset[str] = frozenset(self.spares)
        described = [self.description.head, *self.description.edges]
        # What is added is like the last that there is; of somebody else's brokers nothing is known.
        added = self.description.edges[-1] if self.spares and self.description.edges else Edge()
        described += [added] * (len(brokers) - len(described))
        self.capacities: dict[str, Amounts] = {
            broker.name: capacity_of(edge) for broker, edge in zip(brokers, described, strict=False)
        }

    @property
    def could_serve(self) -> tuple[str, ...]:
        """Brokers that serve subscribers when all live: the edges, or the head of a domain that has none."""
        return self.edges or (self.head,)

    @property
    def serving(self) -> tuple[str, ...]:
        """Brokers that serve subscribers: the living edges, or who acts as head where there are none.

        If nothing lives, what would serve if it did.
        """
        living = tuple(edge for edge in self.edges if edge not in self._down)
        if living or len(self._down) == len(self._urls):
            return living or self.could_serve
        return (self.acting_head,)

    @property
    def acting_head(self) -> str:
        """Where is published and gateways attach by default: the first living broker of the succession."""
        return next((broker for broker in self.brokers if broker not in self._down), self.head)

    @property
    def down(self) -> frozenset[str]:
        """Brokers to which nothing is given: dead, switched off, or not to be relied on yet."""
        return self._down

    @property
    def dead(self) -> frozenset[str]:
        """Those of them that are proven dead, so that nobody can be served there."""
        return self._dead

    def set_down(self, brokers: Collection[str], dead: Collection[str] = ()) -> None:
        """These, and no others, are not to be used from now on; `dead` are part of them."""
        self._dead = frozenset(dead)
        self._down = self._dead.union(brokers)

    def machine(self, broker: str) -> str:
        """The host on which a broker runs; empty where a domain has but one, or for an unknown broker."""
        return self._machines.get(broker, "")

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

    def has(self, broker: str) -> bool:
        """Whether a broker is one of this domain."""
        return broker in self._urls

    def of_neighbour(self, broker: str) -> bool:
        """Whether a name is that of a broker in a linked domain."""
        return any(broker.startswith(f"{peer}-") for peer in self.neighbours)

    def may_leave(self, topic: str) -> bool:
        """Whether a topic's clients could be served in another domain, miss nothing and tell nothing.

        False as soon as a part of the pattern is certain to stay at home, or is confidential: where a client
        is served its messages are read.
        """
        for contract in self.federation.topics.contracts:
            stays = contract.scope is Scope.DOMAIN or contract.confidential
            if stays and overlaps(contract.match, topic):
                return False
            if covers(contract.match, topic):
                return True
        return True

    def may_be_steered(self, topic: str) -> bool:
        """Whether new subscribers of a topic may be led to another domain for a better place alone.

        Not if a second copy, a spool or a transform is owed to them: all of these belong to their own domain.
        """
        if not self.description.steer or self.description.names or not self.may_leave(topic):
            return False
        return not any(
            (contract.mirror or contract.durable or contract.transform is not None)
            and overlaps(contract.match, topic)
            for contract in self.federation.topics.contracts
        )

    def takes_load_from(self, domain: str) -> bool:
        """Whether clients of a domain may be moved here."""
        return domain in self.description.accept_load_from
