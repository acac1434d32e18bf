"""A federation as the user described it: domains, links, topics; no address resolved yet."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Set
from enum import StrEnum

import msgspec

from mangrove.model.access.rules import AccessRules
from mangrove.model.address import Address
from mangrove.model.balancing import Balancing, Placement
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.congestion.parameters import Congestion
from mangrove.model.congestion.rate_limit import Limits as RateLimits
from mangrove.model.mediation.transform import Transform
from mangrove.model.names.mapping import NameMapping
from mangrove.model.plans.rules import PlanRules
from mangrove.model.security.external import ExternalCredentials
from mangrove.model.security.rules import Security
from mangrove.model.site_pair import SitePair, site_pair
from mangrove.model.topics import Contract, TopicRules

DEFAULT_MAX_MESSAGE_BYTES = 1 << 20
DEFAULT_QUEUE_BYTES = 64 << 20
DEFAULT_MAX_SUBJECTS = 1_000_000
EARTH_RADIUS_KM = 6371.0088
FIBRE_KM_PER_MS = 200.0


MAX_PREPARED_PAIRS = 1_000_000
"""Pairs of links and sites for which a gateway computes next hops when it starts: 320,000 took 2 to 4 s."""


class Prepare(StrEnum):
    """For which failures next hops are computed beforehand: of one link or site, or also of two at once."""

    SINGLES = "singles"
    PAIRS = "pairs"


class Urgency(StrEnum):
    """In which order what has a deadline leaves a queue; all else follows, in the order in which it came.

    `laxity` compares all the time that is left beyond what the rest of the way needs, `budget` and
    `equal-budget` a hop's share of it, by the load of the hops ahead or equal (Harmony §3.3). `arrival`
    looks at no deadline.
    """

    LAXITY = "laxity"
    BUDGET = "budget"
    EQUAL_BUDGET = "equal-budget"
    ARRIVAL = "arrival"


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """A named part of the earth: all that is within a radius of its centre (latitude, longitude)."""

    centre: tuple[float, float]
    radius_km: float


class RiskGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Links and sites that fail together: cables in one duct, sites on one grid."""

    links: tuple[SitePair, ...] = ()
    sites: tuple[str, ...] = ()


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a head or edge broker: messages per second, and megabits per second each way."""

    capacity: float | None = None
    bandwidth_mbps: float | None = None


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A machine of a domain, and the brokers that run there: `head`, `edge1`, `edge2`, …"""

    name: str
    address: str
    brokers: tuple[str, ...] = ()


class Elastic(msgspec.Struct, frozen=True, kw_only=True):
    """Whether brokers are switched off at low load, and how many edges may be added when risk asks for it."""

    enabled: bool = False
    max_edges: int = 0
    """Edges in all, added ones included; 0: none is added."""


class External(msgspec.Struct, frozen=True, kw_only=True):
    """Brokers of a domain that somebody else runs."""

    head: str
    leaf: str
    """Where gateways attach; of a RabbitMQ, with its exchange and its management pages."""
    monitor: str | None = None
    edges: tuple[str, ...] = ()
    kind: BrokerKind = BrokerKind.NATS
    credentials: ExternalCredentials | None = None
    """How we log in there; None: as the URLs say."""


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """One site."""

    name: str
    location: tuple[float, float] | None = None
    failure_probability: float | None = None
    """Share of time in which the site is down, as far as is known beforehand."""
    head: Edge = Edge()
    edges: tuple[Edge, ...] = ()
    address: str = "127.0.0.1"
    base_port: int
    kind: BrokerKind = BrokerKind.NATS
    """Of its data brokers."""
    external: External | None = None
    placement: Placement = Placement.LAN
    accept_load_from: tuple[str, ...] = ()
    """Domains of the same owner whose clients may be moved here."""
    steer: bool = False
    """Whether new subscribers may be led to a linked domain that publishes what they ask for."""
    move_plain_clients: bool = False
    """Whether clients that cannot be told to move may be disconnected, so that they go elsewhere."""
    hosts: tuple[Host, ...] = ()
    """None: everything runs on one machine, at `address`."""
    gateways: int = 1
    """Gateway processes, on different hosts where there are several: one carries, the others stand by."""
    elastic: Elastic = Elastic()
    health_port: int | None = None
    """First of the ports where processes tell of their health; None: they do not."""
    names: tuple[NameMapping, ...] = ()
    """What is called otherwise here than in the federation."""

    @property
    def agreed(self) -> Domain:
        """What all hosts must agree on: not where on each of them the secrets of external brokers are, nor
        what agents and gateways take over while they run."""
        external = self.external
        if external is not None:
            external = msgspec.structs.replace(external, credentials=None)
        return msgspec.structs.replace(
            self,
            external=external,
            head=Edge(),
            edges=(Edge(),) * len(self.edges),
            accept_load_from=(),
            move_plain_clients=False,
            failure_probability=None,
            names=(),
            elastic=Elastic(enabled=bool(self.edge_slots), max_edges=self.edge_slots),
        )

    @property
    def all_hosts(self) -> tuple[Host, ...]:
        """The machines of the domain: those that are named, or the one that has no name."""
        brokers = ("head", *(f"edge{number + 1}" for number in range(self.edge_slots)))
        if not self.hosts:
            return (Host(name="", address=self.address, brokers=brokers),)
        placed = {broker for host in self.hosts for broker in host.brokers}
        taken = {host.name: list(host.brokers) for host in self.hosts}
        for broker in brokers:
            if broker not in placed and broker != "head":  # an edge that may be added one day
                min(taken.values(), key=len).append(broker)
        return tuple(msgspec.structs.replace(host, brokers=tuple(taken[host.name])) for host in self.hosts)

    @property
    def edge_slots(self) -> int:
        """Edges of ours, those that may be added on demand included."""
        return max(len(self.edges), self.elastic.max_edges if self.elastic.enabled else 0)


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """An overlay link between two domains; the emulated figures only matter to the testbed."""

    between: tuple[str, str]
    delay_ms: float | None = None
    jitter_ms: float = 0.0
    bandwidth_mbps: float | None = None
    loss_ratio: float = 0.0
    failure_probability: float | None = None
    """Share of time in which the link is down, as far as is known beforehand."""
    via: tuple[tuple[float, float], ...] = ()
    """Places that the fibre passes on its way from the first end to the second."""
    endpoints: dict[str, str] = {}

    @property
    def pair(self) -> tuple[str, str]:
        """Both ends, in the order that stands for the link everywhere."""
        return site_pair(*self.between)

    @property
    def caller(self) -> str:
        """The end that connects; the other one listens."""
        return self.pair[0]

    @property
    def callee(self) -> str:
        """The end that listens."""
        return self.pair[1]

    def endpoint(self, domain: str) -> Address | None:
        """Where `domain` listens for this link, if not where its gateway does anyway."""
        text = self.endpoints.get(domain)
        return None if text is None else Address.parse(text)

    def other(self, domain: str) -> str:
        """The far end, seen from `domain`."""
        first, second = self.between
        return second if domain == first else first


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What each domain may ask of the others."""

    subjects: int = DEFAULT_MAX_SUBJECTS
    """Different subjects that its subscribers want; those beyond it wait until others are given up."""
    client: RateLimits = RateLimits()
    """What each client may publish in a second, over all topics."""


class Federation(msgspec.Struct, frozen=True, kw_only=True):
    """Domains, the links between them, and the contracts of their topics."""

    name: str
    domains: dict[str, Domain]
    numbers: tuple[str, ...] = ()
    """Domains in the order of their numbers on the wire; none: by their names."""
    links: tuple[Link, ...] = ()
    topics: TopicRules = TopicRules()
    transforms: dict[str, Transform] = {}
    """What contracts may have done with messages, by name."""
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    queue_bytes: int = DEFAULT_QUEUE_BYTES
    limits: Limits = Limits()
    regions: dict[str, Region] = {}
    risk_groups: dict[str, RiskGroup] = {}
    prepare: Prepare = Prepare.SINGLES
    urgency: Urgency = Urgency.LAXITY
    balancing: Balancing = Balancing()
    congestion: Congestion = Congestion()
    plans: PlanRules = PlanRules()
    access: AccessRules = AccessRules()
    """Not part of what all gateways must agree on: each keeps to its own, and what one lets out another may
    refuse."""
    security: Security = Security()

    @property
    def domain_order(self) -> tuple[str, ...]:
        """Domains in the order that gives each its number on the wire; the same at every gateway."""
        return self.numbers or tuple(sorted(self.domains))

    def links_of(self, domain: str) -> tuple[Link, ...]:
        """The links that end at `domain`."""
        return tuple(link for link in self.links if domain in link.between)

    def reachable(self, domain: str, failed: Set[SitePair]) -> frozenset[str]:
        """The other domains that can be reached from `domain` while these links are down."""
        found, at_hand = {domain}, [domain]
        while at_hand:
            here = at_hand.pop()
            for link in self.links_of(here):
                there = link.other(here)
                if there not in found and link.pair not in failed:
                    found.add(there)
                    at_hand.append(there)
        return frozenset(found - {domain})

    def link_weight(self, link: Link) -> float:
        """Cost of a link for routing, in milliseconds: its delay, else light in its fibre, else 1.

        A millimetre-long link still costs something, so that distances fall strictly along every path.
        """
        if link.delay_ms:
            return link.delay_ms
        first, second = (self.domains[name].location for name in link.between)
        if first is None or second is None:
            return 1.0
        places = (first, *link.via, second)
        return max(sum(map(great_circle_km, places, places[1:])) / FIBRE_KM_PER_MS, 0.001)

    def digest(self) -> str:
        """Names what all hosts of a domain must agree on: the file, but for where it lies and for what agents
        take over while they run (`model.versions.site_changes`)."""
        agreed = msgspec.structs.replace(
            self,
            domains={name: domain.agreed for name, domain in self.domains.items()},
            balancing=Balancing(),
            plans=PlanRules(),
            security=msgspec.structs.replace(self.security, keys=""),
        )
        text = msgspec.json.encode(agreed, order="deterministic")
        return hashlib.blake2b(text, digest_size=12).hexdigest()

    def topology_hash(self) -> str:
        """Names what all gateways must agree on: numbering of domains, who to call, links and contracts."""
        return self._hash_with({"contracts": [_as_agreed(each) for each in self.topics.contracts]})

    def shape_hash(self) -> str:
        """Names what the file says of all that besides contracts."""
        return self._hash_with(None)

    def _hash_with(self, topics: object) -> str:
        transforms = [sorted(self.transforms.items())] if self.transforms else []
        return _hash_of((*self._agreed(topics), *transforms))

    def _agreed(self, topics: object) -> tuple[object, ...]:
        return (
            self.name,
            self.domain_order,
            sorted((*link.pair, self.link_weight(link)) for link in self.links),
            topics,
            self.max_message_bytes,
            self.prepare,
            sorted(
                (name, sorted(group.links), sorted(group.sites)) for name, group in self.risk_groups.items()
            ),
            sorted(name for name, domain in self.domains.items() if domain.gateways > 1),
        )


_ALWAYS_SAID = frozenset(
    (
        *("match", "deadline_ms", "paths", "resiliency", "max_paths", "max_hops", "rate_mbps"),
        *("separation_km", "apart_from", "limits", "mirror", "durable", "order", "queue", "late", "scope"),
        *("rate_msg_s", "rate_bytes_s", "slow", "always_send", "protected", "confidential", "sample_text"),
    )
)
"""Keys of contracts that were there when the hash began; what is younger counts only where it is used."""


def _as_agreed(contract: Contract) -> dict[str, object]:
    """What a contract says. A key that the release before does not know changes nothing for those who do not
    use it: their files have the same hash in both, and they run together."""
    said: dict[str, object] = msgspec.structs.asdict(contract)
    defaults = msgspec.structs.asdict(_UNSAID)
    return {key: value for key, value in said.items() if key in _ALWAYS_SAID or value != defaults[key]}


_UNSAID = Contract(match="")


def _hash_of(agreed: object) -> str:
    return hashlib.blake2b(msgspec.msgpack.encode(agreed), digest_size=12).hexdigest()


def great_circle_km(first: tuple[float, float], second: tuple[float, float]) -> float:
    """Distance on the sphere between two (latitude, longitude) points in degrees (haversine)."""
    lat1, lon1, lat2, lon2 = map(math.radians, (*first, *second))
    half = (
        math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    )
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(1.0, half)))
