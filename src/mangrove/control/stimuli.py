"""What an agent's brain is told: everything that comes from outside, already decoded and authenticated."""

from __future__ import annotations

from dataclasses import dataclass

from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.agents.load import BrokerSample
from mangrove.model.agents.members import MemberBeat, PolicyRecord
from mangrove.model.agents.operations import Operation
from mangrove.model.agents.peers import PeerMessage
from mangrove.model.agents.plain_clients import PlainClient as PlainClient
from mangrove.model.agents.registration import ClientMessage, Registration
from mangrove.model.agents.usefulness import CapacityTold, GatewayLimited
from mangrove.model.plans.case_request import CaseRequest
from mangrove.model.plans.plan import PlanCase


@dataclass(frozen=True, slots=True)
class LeadershipTaken:
    """This agent leads its domain, in a term of its own, with what the store holds of earlier ones."""

    term: int
    directory: tuple[DirectoryRecord, ...] = ()
    sessions: tuple[bytes, ...] = ()
    """Records of sessions that were open, as the brain wrote them."""


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """Another agent leads, or nobody knows: this one decides nothing more."""


@dataclass(frozen=True, slots=True)
class BrokerSampled:
    """A broker has told how it is."""

    sample: BrokerSample


@dataclass(frozen=True, slots=True)
class BrokerUnreachable:
    """A broker did not answer."""

    broker: str
    problem: str


@dataclass(frozen=True, slots=True)
class ClientRegistered:
    """A client has registered, with a signature that is its own; `token` names it in the answer."""

    registration: Registration
    token: int


@dataclass(frozen=True, slots=True)
class ClientSaid:
    """A client has reported, confirmed or left, under its own seal."""

    message: ClientMessage


@dataclass(frozen=True, slots=True)
class PlainClientsSeen:
    """A broker's page of connections, asked for by `LookAtClients`."""

    broker: str
    clients: tuple[PlainClient, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class TopicsCounted:
    """What the gateway carried in the last `span_s`."""

    span_s: float
    sent: dict[str, int]
    """Messages of this domain's publishers to other domains: these topics have remote subscribers."""
    delivered: dict[str, int]
    """Messages of other domains' publishers to this one: these topics have remote publishers."""


@dataclass(frozen=True, slots=True)
class PeerSaid:
    """The agent of a linked domain has said something."""

    peer: str
    message: PeerMessage


@dataclass(frozen=True, slots=True)
class Stored:
    """A write is in the store."""

    write: int


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """A write did not come about in time; it may or may not be in the store."""

    write: int
    problem: str


@dataclass(frozen=True, slots=True)
class CapacityChanged:
    """Somebody who may say so has told what a broker can carry from now on."""

    told: CapacityTold


@dataclass(frozen=True, slots=True)
class GatewayAnswered:
    """The gateway has taken limits, and tells what it withheld since it was last told some."""

    answer: GatewayLimited
    span_s: float


@dataclass(frozen=True, slots=True)
class OperatorAsked:
    """An operator wants something; `token` names it in `AnswerOperator`."""

    operation: Operation
    token: int


@dataclass(frozen=True, slots=True)
class PlanFound:
    """A plan lies where pipelines leave them, or has changed there."""

    name: str
    document: bytes


@dataclass(frozen=True, slots=True)
class BrokerProbed:
    """An agent's own probe of a broker was answered, or was not, or its connection was closed."""

    broker: str
    answered: bool
    closed: bool = False


@dataclass(frozen=True, slots=True)
class MemberSaid:
    """Another agent of this domain has said something."""

    beat: MemberBeat


@dataclass(frozen=True, slots=True)
class PolicyFetched:
    """The body of a policy was read, as `FetchPolicy` wanted; None: it could not be."""

    record: PolicyRecord
    body: bytes | None


@dataclass(frozen=True, slots=True)
class CaseComputed:
    """What was asked for by `ComputeCase`; without a case, the problem says why there is none."""

    request: CaseRequest
    case: PlanCase | None
    problem: str = ""


Stimulus = (
    OperatorAsked
    | MemberSaid
    | PolicyFetched
    | PlanFound
    | BrokerProbed
    | CaseComputed
    | LeadershipTaken
    | LeadershipLost
    | BrokerSampled
    | BrokerUnreachable
    | ClientRegistered
    | ClientSaid
    | PlainClientsSeen
    | TopicsCounted
    | PeerSaid
    | Stored
    | StoreFailed
    | CapacityChanged
    | GatewayAnswered
)
