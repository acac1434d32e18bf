"""What an agent's brain wants done; the agent daemon, or a simulation, does it."""

from __future__ import annotations

from dataclasses import dataclass

from mangrove.model.agents.directory import DirectoryChanges
from mangrove.model.agents.members import MemberBeat, PolicyRecord
from mangrove.model.agents.operations import OperationAnswer
from mangrove.model.agents.peers import PeerMessage
from mangrove.model.agents.registration import AgentStarted, ClientOrder, Registered
from mangrove.model.agents.usefulness import GatewayLimits
from mangrove.model.plans.case_request import CaseRequest


@dataclass(frozen=True, slots=True)
class AnswerRegistration:
    """Answer the registration with this token; the shell adds its exchange key."""

    token: int
    answer: Registered


@dataclass(frozen=True, slots=True)
class TellClient:
    """Tell one client of this domain."""

    client: str
    order: ClientOrder


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell all clients of this domain."""

    announcement: AgentStarted


@dataclass(frozen=True, slots=True)
class PushDirectory:
    """Tell whoever watches the directory."""

    changes: DirectoryChanges


@dataclass(frozen=True, slots=True)
class TellPeer:
    """Tell the agent of a linked domain; it may get lost."""

    peer: str
    message: PeerMessage


@dataclass(frozen=True, slots=True)
class StoreWrite:
    """A value under a key of a bucket (`directory`, `sessions` or `policies`); None removes it."""

    bucket: str
    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Store:
    """Write all of these; `Stored` or `StoreFailed` follows with the same number."""

    write: int
    writes: tuple[StoreWrite, ...]


@dataclass(frozen=True, slots=True)
class LookAtClients:
    """Ask a broker for its connections and what each subscribes to."""

    broker: str


@dataclass(frozen=True, slots=True)
class KickClient:
    """Have a broker disconnect one connection that cannot be told to move."""

    broker: str
    cid: int
    reason: str


@dataclass(frozen=True, slots=True)
class LimitGateway:
    """Tell the gateway how much of other domains' messages it may let in; `GatewayAnswered` follows."""

    limits: GatewayLimits


@dataclass(frozen=True, slots=True)
class AnswerOperator:
    """Answer what an operator asked with this token."""

    token: int
    answer: OperationAnswer


@dataclass(frozen=True, slots=True)
class SwitchBroker:
    """Have a broker of this domain started or stopped by who supervises it."""

    broker: str
    on: bool


@dataclass(frozen=True, slots=True)
class TellMembers:
    """Tell the other agents of this domain."""

    beat: MemberBeat


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """Read the body of a policy from the store; `PolicyFetched` follows."""

    record: PolicyRecord


@dataclass(frozen=True, slots=True)
class StepDown:
    """Give up the lease, and name who is to take it."""

    successor: str


@dataclass(frozen=True, slots=True)
class RestartBroker:
    """Have a broker of this domain killed and started anew by who supervises it: it is there, and frozen."""

    broker: str


@dataclass(frozen=True, slots=True)
class ProbeBroker:
    """Probe a broker at once, without waiting for the turn of the next probe."""

    broker: str


@dataclass(frozen=True, slots=True)
class ComputeCase:
    """Compute beside all else what to do in a state for which there is no case; answer `CaseComputed`."""

    request: CaseRequest


Instruction = (
    AnswerOperator
    | TellMembers
    | FetchPolicy
    | StepDown
    | SwitchBroker
    | RestartBroker
    | ProbeBroker
    | ComputeCase
    | AnswerRegistration
    | TellClient
    | Announce
    | PushDirectory
    | TellPeer
    | Store
    | LookAtClients
    | KickClient
    | LimitGateway
)
