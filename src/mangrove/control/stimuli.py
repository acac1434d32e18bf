"""What an agent's brain is told: everything that comes from outside, already decoded and authenticated."""

from __future__ import annotations

import msgspec

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


class LeadershipTaken(msgspec.Struct, frozen=True):
    """This agent leads its domain, in a term of its own, with what the store holds of earlier ones."""

    term: int
    directory: tuple[DirectoryRecord, ...] = ()
    sessions: tuple[bytes, ...] = ()
    """Records of sessions that were open, as the brain wrote them."""


class LeadershipLost(msgspec.Struct, frozen=True):
    """Another agent leads, or nobody knows: this one decides nothing more."""


class BrokerSampled(msgspec.Struct, frozen=True):
    """A broker has told how it is."""

    sample: BrokerSample


class BrokerUnreachable(msgspec.Struct, frozen=True):
    """A broker did not answer."""

    broker: str
    problem: str


class ClientRegistered(msgspec.Struct, frozen=True):
    """A client has registered, with a signature that is its own; `token` names it in the answer."""

    registration: Registration
    token: int


class ClientSaid(msgspec.Struct, frozen=True):
    """A client has reported, confirmed or left, under its own seal."""

    message: ClientMessage


class PlainClientsSeen(msgspec.Struct, frozen=True):
    """A broker's page of connections, asked for by `LookAtClients`."""

    broker: str
    clients: tuple[PlainClient, ...]
    left_out: int = 0


class TopicsCounted(msgspec.Struct, frozen=True):
    """What the gateway carried in the last `span_s`."""

    span_s: float
    sent: dict[str, int]
    """Messages of this domain's publishers to other domains: these topics have remote subscribers."""
    delivered: dict[str, int]
    """Messages of other domains' publishers to this one: these topics have remote publishers."""


class PeerSaid(msgspec.Struct, frozen=True):
    """The agent of a linked domain has said something."""

    peer: str
    message: PeerMessage


class Stored(msgspec.Struct, frozen=True):
    """A write is in the store."""

    write: int


class StoreFailed(msgspec.Struct, frozen=True):
    """A write did not come about in time; it may or may not be in the store."""

    write: int
    problem: str


class CapacityChanged(msgspec.Struct, frozen=True):
    """Somebody who may say so has told what a broker can carry from now on."""

    told: CapacityTold


class GatewayAnswered(msgspec.Struct, frozen=True):
    """The gateway has taken limits, and tells what it withheld since it was last told some."""

    answer: GatewayLimited
    span_s: float


class OperatorAsked(msgspec.Struct, frozen=True):
    """An operator wants something; `token` names it in `AnswerOperator`."""

    operation: Operation
    token: int


class PlanFound(msgspec.Struct, frozen=True):
    """A plan lies where pipelines leave them, or has changed there."""

    name: str
    document: bytes


class BrokerProbed(msgspec.Struct, frozen=True):
    """An agent's own probe of a broker was answered, or was not, or its connection was closed."""

    broker: str
    answered: bool
    closed: bool = False


class MemberSaid(msgspec.Struct, frozen=True):
    """Another agent of this domain has said something."""

    beat: MemberBeat


class PolicyFetched(msgspec.Struct, frozen=True):
    """The body of a policy was read, as `FetchPolicy` wanted; None: it could not be."""

    record: PolicyRecord
    body: bytes | None


class CaseComputed(msgspec.Struct, frozen=True):
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
