"""What an agent's brain wants done; the agent daemon, or a simulation, does it."""

from __future__ import annotations

import msgspec

from mangrove.model.agents.directory import DirectoryChanges
from mangrove.model.agents.members import MemberBeat, PolicyRecord
from mangrove.model.agents.operations import OperationAnswer
from mangrove.model.agents.peers import PeerMessage
from mangrove.model.agents.registration import AgentStarted, ClientOrder, Registered
from mangrove.model.agents.usefulness import GatewayLimits
from mangrove.model.plans.case_request import CaseRequest


class AnswerRegistration(msgspec.Struct, frozen=True):
    """Answer the registration with this token; the shell adds its exchange key."""

    token: int
    answer: Registered


class TellClient(msgspec.Struct, frozen=True):
    """Tell one client of this domain."""

    client: str
    order: ClientOrder


class Announce(msgspec.Struct, frozen=True):
    """Tell all clients of this domain."""

    announcement: AgentStarted


class PushDirectory(msgspec.Struct, frozen=True):
    """Tell whoever watches the directory."""

    changes: DirectoryChanges


class TellPeer(msgspec.Struct, frozen=True):
    """Tell the agent of a linked domain; it may get lost."""

    peer: str
    message: PeerMessage


class StoreWrite(msgspec.Struct, frozen=True):
    """A value under a key of a bucket (`directory`, `sessions` or `policies`); None removes it."""

    bucket: str
    key: str
    value: bytes | None


class Store(msgspec.Struct, frozen=True):
    """Write all of these; `Stored` or `StoreFailed` follows with the same number."""

    write: int
    writes: tuple[StoreWrite, ...]


class LookAtClients(msgspec.Struct, frozen=True):
    """Ask a broker for its connections and what each subscribes to."""

    broker: str


class KickClient(msgspec.Struct, frozen=True):
    """Have a broker disconnect one connection that cannot be told to move."""

    broker: str
    cid: int
    reason: str


class LimitGateway(msgspec.Struct, frozen=True):
    """Tell the gateway how much of other domains' messages it may let in; `GatewayAnswered` follows."""

    limits: GatewayLimits


class AnswerOperator(msgspec.Struct, frozen=True):
    """Answer what an operator asked with this token."""

    token: int
    answer: OperationAnswer


class SwitchBroker(msgspec.Struct, frozen=True):
    """Have a broker of this domain started or stopped by who supervises it."""

    broker: str
    on: bool


class TellMembers(msgspec.Struct, frozen=True):
    """Tell the other agents of this domain."""

    beat: MemberBeat


class FetchPolicy(msgspec.Struct, frozen=True):
    """Read the body of a policy from the store; `PolicyFetched` follows."""

    record: PolicyRecord


class StepDown(msgspec.Struct, frozen=True):
    """Give up the lease, and name who is to take it."""

    successor: str


class RestartBroker(msgspec.Struct, frozen=True):
    """Have a broker of this domain killed and started anew by who supervises it: it is there, and frozen."""

    broker: str


class ProbeBroker(msgspec.Struct, frozen=True):
    """Probe a broker at once, without waiting for the turn of the next probe."""

    broker: str


class ComputeCase(msgspec.Struct, frozen=True):
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
