"""What the parts of a running federation report of themselves."""

from __future__ import annotations

import math

import msgspec

from mangrove.model.access.refusals import AccessRefusal
from mangrove.model.agents.status import AgentStatus
from mangrove.model.audit.entry import AuditFigures
from mangrove.model.hosting.broker_status import BrokerStatus
from mangrove.model.hosting.host_status import HostStatus
from mangrove.model.mediation.figures import TransformFigures
from mangrove.model.questions.endangered import EndangeredRegion, ExposedPath


class ManagementFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What the agents at both ends of a link said to each other, counted at one end."""

    sent: int = 0
    received: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    waiting_bytes: int = 0
    dropped: dict[str, int] = {}
    """Messages that were not carried or not handed over, by reason."""


class LinkFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One overlay link as the protocol sees it, from one end."""

    peer: str
    up: bool
    state: str
    rtt_ms: float | None
    jitter_ms: float
    dead_interval_ms: float
    clock_offset_ms: float
    clock_error_ms: float
    failures: int
    availability: float
    """Share of time in which the link could be used, the recent past counting most."""
    waits_ms: dict[str, float]
    """How long frames wait for the link, by the contract's topics; those that hardly wait are left out."""
    overruns: dict[str, float] = {}
    """Share of frames that wait longer than this hop's budget, by the contract's topics."""
    unacknowledged: int
    queued_bytes: int
    management: ManagementFigures = ManagementFigures()


class LinkStatus(LinkFigures, frozen=True, kw_only=True):
    """One overlay link, seen from one end, with what its socket counted."""

    loss_ratio: float | None
    """Segments that TCP had to send again, of all that this end sent; None where the system does not tell."""
    frames_out: int
    frames_in: int
    bytes_out: int
    bytes_in: int
    reconnects: int
    last_error: str = ""
    secured: bool = False
    """Whether the neighbour has proven who it is, and all that is said is encrypted."""
    renewals: int = 0
    """How often another connection took the place of one without the link being lost."""


AT_MOST = frozenset({"deadline_ms", "max_hops"})
"""Of these less is better; of all others more."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a contract: what was asked, and what the paths in use give, None for without limit."""

    name: str
    asked: float
    achieved: float | None
    apart_from: str = ""
    """The region or contract that a separation is from; empty if it is between the contract's own paths."""
    inside_ms: dict[str, float] = {}
    """Of a delay, what messages are inside the source or the destination, if that is much."""

    @property
    def met(self) -> bool:
        """Whether what is achieved is enough."""
        if self.achieved is None:
            return True
        return self.shortfall <= 1e-9

    @property
    def shortfall(self) -> float:
        """By what part of it what was asked is missed; 0 if it is met. For comparison only."""
        if self.achieved is None:
            return 0.0
        if self.name == "resiliency":
            # Between 0.999 and 0.9999 lies as much as between 0.99 and 0.999.
            return max(0.0, (1.0 - self.achieved) / (1.0 - self.asked) - 1.0)
        missing = self.achieved - self.asked if self.name in AT_MOST else self.asked - self.achieved
        return max(0.0, missing / self.asked)

    def sentence(self) -> str:
        """What is missed, and by how much, in words."""
        achieved = 0.0 if self.achieved is None else self.achieved
        match self.name:
            case "deadline_ms":
                slow = "".join(
                    f", {each:.1f} ms of it inside {site}" for site, each in self.inside_ms.items()
                )
                if math.isinf(achieved):
                    return f"no way meets the deadline of {self.asked:g} ms"
                return f"best achievable delay is {achieved:.1f} ms, the deadline {self.asked:g} ms{slow}"
            case "max_hops":
                return f"the path has {achieved:.0f} hops, {self.asked:.0f} are allowed"
            case "paths" if not achieved:
                return "there is no path to the destination"
            case "paths":
                return f"{achieved:.0f} of {self.asked:.0f} paths exist within the contract"
            case "resiliency":
                return f"a path is up with probability {share(achieved)}, {share(self.asked)} is promised"
            case "outside":
                inside = self.asked - achieved
                return f"{inside:.0f} of {self.asked:.0f} paths cannot leave {self.apart_from}"
            case "separation_km":
                other = f" from {self.apart_from}" if self.apart_from else ""
                return f"paths are {achieved:.0f} km apart{other}, {self.asked:g} km are asked for"
            case _:
                return f"{achieved:.1f} Mbit/s are free on the way, {self.asked:g} Mbit/s are needed"


def share(probability: float) -> str:
    """A probability near one with as many digits as tell it from one."""
    digits = 2
    while digits < 9 and round(1.0 - probability, digits) < 10.0**-digits * 5:
        digits += 1
    text = f"{probability:.{digits}f}".rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def amount(name: str, value: float | None) -> str:
    """What is asked or given under a key, as people read it."""
    if value is None:
        return "no limit"
    if name == "resiliency":
        return share(value)
    return f"{value:.0f}" if name in ("paths", "outside", "max_hops", "separation_km") else f"{value:.1f}"


def unmet_text(requirements: tuple[Requirement, ...]) -> str:
    """All that is missed in one line; empty if nothing is."""
    return "; ".join(each.sentence() for each in requirements if not each.met)


class RouteStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An explicit route: one path of the set that a contract asks for."""

    topic: str
    destination: str
    path: tuple[str, ...]
    active: bool
    predicted_ms: float
    deadline_ms: float | None
    unmet: str = ""
    resiliency: float = 0.0
    """Predicted probability that one of the set's paths is up while both ends are."""
    requirements: tuple[Requirement, ...] = ()
    """All that the contract asks of the set, beside what it gives."""


NO_CONTRACT = "(no contract)"


class WayStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Along which paths messages of a contract go to a domain with subscribers now."""

    topic: str
    """The contract's topics; `NO_CONTRACT` for all that have none."""
    destination: str
    paths: tuple[tuple[str, ...], ...]
    by_table: bool
    """Whether the tables lead there, and not routes of its own."""


class AskStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What sessions of a domain ask for beyond a contract: the strictest, and how many ask."""

    topic: str
    role: str
    sessions: int
    deadline_ms: float | None = None
    paths: int | None = None
    resiliency: float | None = None


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """How long messages of a contract take from another domain to this one, smoothed."""

    origin: str
    topic: str
    observed_ms: float
    deadline_ms: float | None
    late: int
    """Frames that came after the deadline. A frame holds messages that left together, and came together."""
    frames: int = 0
    """All that came, each counted once."""
    copies: int = 0
    """Those that came again, by another path, and were not delivered again."""
    p50_ms: float | None = None
    """Half of the recent frames took no longer."""
    p99_ms: float | None = None
    """Nor did all but one in a hundred take longer than this."""


class Drop(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that ended before they arrived."""

    topic: str
    reason: str
    count: int


class SiteLatency(msgspec.Struct, frozen=True, kw_only=True):
    """How long messages are inside a domain, smoothed; None and left out what is not known."""

    ingress_ms: float | None = None
    """From a publisher at the head broker to the gateway."""
    egress_ms: dict[str, float] = {}
    """From the gateway to subscribers, by broker; the longest is counted."""
    jitter_ms: float = 0.0
    """Smoothed deviation of the time to subscribers, at the broker where it is largest."""
    by: str = ""
    """How it was measured: by `markers`, or by `pings` while somebody would see markers."""


class TableFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway has prepared for failures: its own next hops, and nobody else's."""

    states: int
    """Failures with next hops of their own."""
    entries: int
    """Different pairs of destination and next hop."""
    size_bytes: int


class SilenceFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Publishers that need not send what nobody listens to."""

    clients: int = 0
    """That have leave to be silent, or ask for it."""
    leaves: int = 0
    """Subjects, for each client."""
    taken_back: int = 0
    """Leaves that ended because somebody subscribed."""
    awaited: int = 0
    """Publishers that were told so, and have not said that they know."""
    refused: dict[str, int] = {}
    """Questions without an answer, or that brought no leave, by reason."""


class LimitFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that a gateway keeps. What they cost is among `GatewayStatus.drops`."""

    subjects: int = 0
    """Subjects whose contract limits what leaves the domain, and that are in use."""
    clients: int = 0
    """Publishers that are counted for `limits.client`."""
    arrivals: int = 0
    """Limits of the agent on what enters the domain."""


class PairStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One of two gateways of a domain, as the one that carries tells it."""

    number: int
    process: str
    role: str
    other: str
    """The role of the other one; `away` if it is not there."""
    takeovers: int = 0
    """How often this process took over since it started."""
    fences: int = 0
    """How often it was held up for so long that it asked the other one before it delivered anything."""
    names_told: int = 0
    """Frames that the other one said it delivers, while this one stood by."""
    ignored: int = 0
    """Connections and words of strangers that claim to be the other gateway."""
    refused: dict[str, int] = {}
    """Those connections, by reason."""
    given_up: int = 0
    """Messages that either process let go of when it was displaced; some may have arrived."""
    sent_before: int = 0
    delivered_before: int = 0
    """Messages that the gateway before had carried, when it was last heard of."""


class MirrorFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway did for mirrored topics. Second copies are no messages of topics, nor their loss one."""

    edges: dict[str, bool] = {}
    """Whether the gateway is attached to each edge broker for second copies."""
    repeated_departing: int = 0
    """Copies from publishers of the domain of which another one had left before."""
    repeated_arriving: int = 0
    """Copies from other domains of which another one had arrived before."""
    copies: int = 0
    """Second copies that were written to edges."""
    left_out: int = 0
    """Runs of copies that an edge could not take; the first copies went by the head."""


class SealingFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Bodies of confidential topics, counted where they begin and end."""

    sealed: int = 0
    opened: int = 0
    turned_back: int = 0
    """Sent back to their origin, which alone can find another domain for their queue groups."""
    refused: dict[str, int] = {}
    """Bodies that were not delivered, by reason."""
    without_key: tuple[str, ...] = ()
    """Domains for which nothing can be sealed, because their keys are not known."""


class GatewayStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway's account of itself."""

    domain: str
    epoch: int
    version: int = 1
    """Of the federation document, in force here."""
    names: str = ""
    """Tells apart by which names of the domain's own (`model.names.mapping.names_digest`); empty: none."""
    versions: dict[str, int] = {}
    """In force at each domain, as far as is known here."""
    uptime_s: float
    head_connected: bool
    links: tuple[LinkStatus, ...]
    interest: dict[str, int]
    subscribed: int
    """What is wanted elsewhere, and so asked of the head broker."""
    head_follows: bool = True
    """Whether the broker has taken all of it: what is published from then on leaves the domain."""
    sent: int
    delivered: int
    duplicates: int
    colour: int
    failed_links: tuple[tuple[str, str], ...]
    parked_bytes: int
    routes: tuple[RouteStatus, ...]
    arrivals: tuple[Arrival, ...]
    drops: tuple[Drop, ...]
    """By topic and reason, the largest; `dropped` holds all."""
    dropped: dict[str, int] = {}
    """By reason, completely: also messages whose topic is not told."""
    busiest_sent: dict[str, int] = {}
    """For people. Who wants counts by topic asks for them: `model.topic_counts`."""
    busiest_delivered: dict[str, int] = {}
    requests_sent: int = 0
    """Requests and replies, of `sent`: their subjects are used once, so they are no topics."""
    requests_delivered: int = 0
    sent_on: int = 0
    """Messages for queue groups that went to another domain than first chosen; some may be served twice."""
    kept_back: int = 0
    """Copies that did not leave, because nobody in the domain that they were for selects them. No loss."""
    kept_back_by_topic: dict[str, int] = {}
    """Of those, the most."""
    malformed_bodies: int = 0
    """Bodies of frames that could not be read to the end; what came before was delivered."""
    refused_connections: int = 0
    """From strangers, or from neighbours that did not greet as they should."""
    refused_by_reason: dict[str, int] = {}
    refused_subjects: int = 0
    """Wanted subjects beyond the limit of a domain, or malformed: nobody is sent their messages."""
    gaps: int = 0
    """Times that what came was delivered without what comes before it: dropped, or awaited in vain."""
    out_of_turn: int = 0
    """Frames that came after that, and were delivered out of order."""
    refused_examples: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """Limits that are near, or reached."""
    endangered: tuple[EndangeredRegion, ...] = ()
    """Regions that contracts avoid, because an operator said so."""
    ways: tuple[WayStatus, ...] = ()
    routes_settled: bool = True
    """Whether no route is on the move."""
    exposed: tuple[ExposedPath, ...] = ()
    """What still leads through them."""
    ignored: dict[str, int] = {}
    """Control messages and subscriptions that were left out, by what they were."""
    inside: SiteLatency = SiteLatency()
    tables: TableFigures | None = None
    asks: tuple[AskStatus, ...] = ()
    limits: LimitFigures = LimitFigures()
    sealing: SealingFigures = SealingFigures()
    transforms: dict[str, TransformFigures] = {}
    """By name."""
    silence: SilenceFigures = SilenceFigures()
    pair: PairStatus | None = None
    """None: this is the only gateway of its domain."""
    head_broker: str = ""
    """The name of the broker that the gateway is attached to, or was last: the head, or who succeeded it."""
    mirroring: MirrorFigures = MirrorFigures()
    access: tuple[AccessRefusal, ...] = ()
    """What the rules of access kept from passing the border of the domain; the most first."""
    audit: AuditFigures = AuditFigures()


class DomainStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One domain: its brokers, and its gateway and its agent if they answer."""

    domain: str
    brokers: tuple[BrokerStatus, ...]
    gateway: GatewayStatus | None
    agent: AgentStatus | None = None
    agent_expected: bool = False
    hosts: tuple[HostStatus, ...] = ()
    """Those that the federation file names."""
    loss_of_a_host: str = ""
    """What it would cost, if it was asked for."""

    @property
    def healthy(self) -> bool:
        """Whether everything answers and all links are up."""
        return (
            all(broker.reachable for broker in self.brokers)
            and self.gateway is not None
            and (self.agent is not None or not self.agent_expected)
            and self.gateway.head_connected
            and all(link.up for link in self.gateway.links)
            and all(host.answers and not host.down for host in self.hosts)
        )


class FederationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A whole federation."""

    federation: str
    domains: tuple[DomainStatus, ...]
    warnings: tuple[str, ...] = ()
    """What the federation file asks for and does not get."""

    @property
    def healthy(self) -> bool:
        """Whether every domain is."""
        return all(domain.healthy for domain in self.domains)
