"""Between the management broker and the brain: messages become stimuli, instructions become messages.

The brain is only told what is authentic, and only acts while this agent's lease holds: that is looked at
before everything that it is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import NamedTuple

import msgspec

from mangrove.agent.hosting.broker_switches import BrokerSwitches
from mangrove.agent.serving.brain import Brain
from mangrove.agent.serving.broker_watch import BrokerWatch
from mangrove.agent.serving.failures.broker_probes import BrokerProbes
from mangrove.agent.serving.failures.case_computer import CaseComputer
from mangrove.agent.serving.gateway_limits import GatewayLimiter
from mangrove.agent.serving.lease import Lease
from mangrove.agent.serving.lease_keys import LeaseKeys, Reason, RefusedError
from mangrove.agent.serving.operators import Operators
from mangrove.agent.serving.outbox import MAX_MESSAGE_BYTES, Outbox
from mangrove.agent.serving.policy_reader import PolicyReader
from mangrove.agent.serving.store_writer import StoreWriter
from mangrove.control.instructions import (
    Announce,
    AnswerOperator,
    AnswerRegistration,
    ComputeCase,
    FetchPolicy,
    Instruction,
    KickClient,
    LimitGateway,
    LookAtClients,
    ProbeBroker,
    PushDirectory,
    RestartBroker,
    StepDown,
    Store,
    SwitchBroker,
    TellClient,
    TellMembers,
    TellPeer,
)
from mangrove.control.stimuli import (
    CapacityChanged,
    ClientRegistered,
    ClientSaid,
    LeadershipLost,
    LeadershipTaken,
    MemberSaid,
    PeerSaid,
    Stimulus,
)
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.event_file import EventFile
from mangrove.model.agents.directory import DirectoryAnswer, DirectoryChanges, DirectoryQuestion
from mangrove.model.agents.load import LoadState
from mangrove.model.agents.members import LeaseChanged, MemberMessage
from mangrove.model.agents.names import (
    announcement_subject,
    client_subject,
    directory_changes_subject,
    members_subject,
    to_peer_subject,
)
from mangrove.model.agents.peers import MAX_PEER_MESSAGE_BYTES, PeerMessage
from mangrove.model.agents.registration import RegisterAgain, Registered, Registration
from mangrove.model.agents.status import AgentStatus
from mangrove.model.agents.usefulness import CapacityTaken, CapacityTold
from mangrove.model.audit.entry import AuditKind
from mangrove.model.hosting.supervision import BrokerAction
from mangrove.model.unreadable import UNREADABLE

log = logging.getLogger(__name__)

MIN_TICK_S = 0.005
MAX_TICK_S = 5.0
"""Also without anything to do, leadership is looked at so often."""
MAX_UNANSWERED = 10_000
MAX_PAGE = 1_000
RECORDS_A_PUSH = 2_000
REMIND_S = 1.0
"""A client that is not known is told to register at most so often, whoever speaks in its name."""
MAX_REMINDED = 10_000
MAX_BEAT_BYTES = 10_000

_peer_message: msgspec.json.Decoder[PeerMessage] = msgspec.json.Decoder(PeerMessage)
_member_message: msgspec.json.Decoder[MemberMessage] = msgspec.json.Decoder(MemberMessage)
_question = msgspec.json.Decoder(DirectoryQuestion)
_capacity = msgspec.json.Decoder(CapacityTold)


class _Asked(NamedTuple):
    """A registration that the brain has not answered yet."""

    reply: str
    registration: Registration
    user: str


class Shell:
    """One agent's ears and hands."""

    def __init__(
        self,
        domain: str,
        brain: Brain,
        keys: LeaseKeys,
        events: EventFile,
        *,
        agent: str = "",
        neighbours: Iterable[str] = (),
        audit: AuditLog | None = None,
    ) -> None:
        """`neighbours` are the linked domains, whose agents are listened to."""
        self.audit = audit or AuditLog()
        self._domain = domain
        self._agent = agent
        self._brain = brain
        self._keys = keys
        self._events = events
        self._neighbours = frozenset(neighbours)
        self.refused: Counter[str] = Counter()
        """What was refused, dropped or not sent, by reason."""
        self.outbox = Outbox(self.refused, lambda: self.leads_in)
        self.operators = Operators(self.outbox, self.tell, self.refused, self.audit)
        self.cases = CaseComputer(self.tell)
        self.gateway = GatewayLimiter(domain, self.tell, self.refused)
        self.switches: BrokerSwitches | None = None
        """How brokers are switched on and off, where there is somebody who can."""
        self._writer: StoreWriter | None = None
        self._lease: Lease | None = None
        self._policies: PolicyReader | None = None
        self._watches: dict[str, BrokerWatch] = {}
        self._probes: BrokerProbes | None = None
        self._led_term = 0
        """The term in which the brain leads, as far as it knows; 0: in none."""
        self._tokens = 0
        self._unanswered: OrderedDict[int, _Asked] = OrderedDict()
        self._reminded: OrderedDict[str, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        """When the timer is served."""

    def begin(
        self,
        lease: Lease,
        writer: StoreWriter,
        watches: Iterable[BrokerWatch],
        probes: BrokerProbes | None = None,
        policies: PolicyReader | None = None,
    ) -> None:
        """From here on everything that the brain asks for can be done."""
        self._probes = probes
        self._lease = lease
        self._writer = writer
        self._policies = policies
        self._watches = {watch.broker: watch for watch in watches}
        self._tick()

    def close(self) -> None:
        """Nothing is done by itself any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._events.write(self._brain.take_events())

    @property
    def leads(self) -> bool:
        """Whether the brain decides for its domain at this moment."""
        return bool(self._led_term) and self._led_term == self._term and self._held

    @property
    def leads_in(self) -> int:
        """The term in which the brain leads at this moment; 0: in none."""
        return self._led_term if self.leads else 0

    # -- the brain ----------------------------------------------------------------------------------------

    def tell(self, stimulus: Stimulus) -> None:
        """Tell the brain, and do what it wants done."""
        now = monotonic()
        self._notice_the_end(now)
        if isinstance(stimulus, LeadershipTaken):
            self._led_term = stimulus.term
        try:
            self._carry_out(self._brain.handle(stimulus, now))
        finally:
            self._look_ahead()

    def _notice_the_end(self, now: float) -> None:
        if self._led_term and not self.leads:
            self._led_term = 0
            self._unanswered.clear()
            self.operators.drop()
            log.warning("this agent does not lead any more")
            self._carry_out(self._brain.handle(LeadershipLost(), now))

    def _tick(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = monotonic()
        try:
            self._notice_the_end(now)
            self._keys.prune(now)
            self.audit.settle()
            self._carry_out(self._brain.handle_timer(now))
        finally:  # whatever went wrong, time goes on
            self._look_ahead()

    def _look_ahead(self) -> None:
        """Write events down, and come back when the brain wants to."""
        self._events.write(self._brain.take_events())
        now = monotonic()
        due = min(max(self._brain.timer(), now + MIN_TICK_S), now + MAX_TICK_S)
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due  # uvloop's handle does not tell it, if the time has passed already
        self._timer = asyncio.get_running_loop().call_at(due, self._tick)

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case AnswerRegistration(token, answer):
                    self._answer_registration(token, answer)
                case AnswerOperator(token, reply):
                    self.operators.answer(token, reply)
                case TellClient(client, order):
                    where = client_subject(self._domain, client, self._keys.user_of(client))
                    self.outbox.put(where, msgspec.json.encode(order))
                case Announce(announcement):
                    self.outbox.put(announcement_subject(self._domain), msgspec.json.encode(announcement))
                case PushDirectory(changes):
                    self._push(changes)
                case TellPeer(peer, message):
                    self._tell_peer(peer, message)
                case Store() as store:
                    if self._writer is not None:
                        self._writer.put(store)
                case TellMembers(beat):
                    self.outbox.put(
                        members_subject(self._domain, beat.agent), msgspec.json.encode(beat), as_leader=False
                    )
                case FetchPolicy(record):
                    if self._policies is not None:
                        self._policies.want(record)
                case StepDown(successor):
                    if self._lease is not None:
                        log.info("hands over to %s", successor)
                        self._lease.step_down(successor)
                case LookAtClients(broker):
                    if broker in self._watches:
                        self._watches[broker].look_at_clients()
                case ComputeCase(request):
                    self.cases.put(request)
                case ProbeBroker(broker):
                    if self._probes is not None:
                        self._probes.probe(broker)
                case LimitGateway(limits):
                    self.gateway.put(limits)
                case SwitchBroker(broker, on):
                    self._switch(broker, BrokerAction.START if on else BrokerAction.STOP)
                case RestartBroker(broker):
                    self._switch(broker, BrokerAction.RESTART)
                case KickClient(broker, cid, reason):
                    log.info("%s disconnects connection %d: %s", broker, cid, reason)
                    if broker not in self._watches or not self._watches[broker].kick(cid):
                        self.refused["not disconnected: too many wait at the broker"] += 1

    def _switch(self, broker: str, action: BrokerAction) -> None:
        if self.switches is not None:
            self.switches.put(broker, action, self.leads_in)

    def _push(self, changes: DirectoryChanges) -> None:
        for start in range(0, len(changes.records), RECORDS_A_PUSH):
            part = DirectoryChanges(
                term=changes.term, records=changes.records[start : start + RECORDS_A_PUSH]
            )
            self.outbox.put(directory_changes_subject(self._domain), msgspec.json.encode(part))

    def _tell_peer(self, peer: str, message: PeerMessage) -> None:
        payload = msgspec.json.encode(message)
        if len(payload) > MAX_PEER_MESSAGE_BYTES:
            self.refused["not sent: too large for a neighbour"] += 1
            return
        self.outbox.put(to_peer_subject(self._domain, peer), payload)

    # -- clients ------------------------------------------------------------------------------------------

    def heard_registration(self, data: bytes, reply: str, user: str = "") -> None:
        """A user's client wants to register. Without a leader it is not answered, and goes on by itself."""
        if not self.leads:
            return
        try:
            registration = self._keys.open_registration(data, user)
        except RefusedError as error:
            self._refuse(error)
            self._respond(reply, Registered(term=self._term, problem=error.message))
            return
        self._tokens += 1
        self._unanswered[self._tokens] = _Asked(reply, registration, user)
        if len(self._unanswered) > MAX_UNANSWERED:
            self._unanswered.popitem(last=False)
            self.refused["registrations that were not answered in time"] += 1
        self.tell(ClientRegistered(registration, self._tokens))

    def _answer_registration(self, token: int, answer: Registered) -> None:
        asked = self._unanswered.pop(token, None)
        if asked is None:
            return
        if not answer.problem:
            try:
                self._keys.admit(asked.registration, monotonic(), asked.user)
            except RefusedError as error:
                self._refuse(error)
                answer = Registered(term=answer.term, problem=error.message)
        self._respond(asked.reply, msgspec.structs.replace(answer, exchange_key=self._keys.exchange_key))

    def _respond(self, reply: str, answer: Registered) -> None:
        """Answer as completely as a message can be; a client finds records in the directory, too."""
        if not reply:
            return
        payload = msgspec.json.encode(answer)
        if len(payload) > MAX_MESSAGE_BYTES:
            payload = msgspec.json.encode(msgspec.structs.replace(answer, records=()))
        if len(payload) > MAX_MESSAGE_BYTES:
            problem = "too many wishes at once; register them in parts"
            payload = msgspec.json.encode(Registered(term=answer.term, problem=problem))
        self.outbox.put(reply, payload)

    def heard_report(self, data: bytes, user: str = "") -> None:
        """A client reports, confirms or leaves."""
        if not self.leads:
            return
        try:
            message = self._keys.open_message(data, monotonic(), user)
        except RefusedError as error:
            self._refuse(error)
            if error.reason in (Reason.UNKNOWN, Reason.FORGED_SEAL):
                self._remind(error.client, user)
            return
        self.tell(ClientSaid(message))

    def _refuse(self, error: RefusedError) -> None:
        """Count what is not believed; a client that is not known yet is no attempt at anything."""
        self.refused[error.reason.value] += 1
        if error.reason is not Reason.UNKNOWN:
            self.audit.note(AuditKind.REGISTRATION_REFUSED, client=error.client, reason=error.reason.value)

    def _remind(self, client: str, user: str) -> None:
        """Tell a client that it is not known: this agent may have been started after it registered."""
        now = monotonic()
        if not (client.isascii() and client.isalnum()) or now - self._reminded.get(client, -1e9) < REMIND_S:
            return
        self._reminded[client] = now
        self._reminded.move_to_end(client)
        if len(self._reminded) > MAX_REMINDED:
            self._reminded.popitem(last=False)
        order = RegisterAgain(term=self._term)
        self.outbox.put(client_subject(self._domain, client, user), msgspec.json.encode(order))

    @property
    def _held(self) -> bool:
        return self._lease is not None and self._lease.held

    @property
    def _term(self) -> int:
        return self._lease.term if self._lease is not None else 0

    # -- neighbours ---------------------------------------------------------------------------------------

    def heard_peer(self, peer: str, data: bytes) -> None:
        """The agent of a linked domain says something."""
        if not self.leads:
            return
        if peer not in self._neighbours:
            self.refused["from a domain that is not linked"] += 1
            return
        if len(data) > MAX_PEER_MESSAGE_BYTES:
            self.refused[Reason.TOO_LARGE.value] += 1
            return
        try:
            message = _peer_message.decode(data)
        except UNREADABLE:
            self.refused[Reason.UNREADABLE.value] += 1
            return
        self.tell(PeerSaid(peer, message))

    # -- other agents of the domain -----------------------------------------------------------------------

    def heard_member(self, agent: str, data: bytes) -> None:
        """An agent of this domain says something; what this one said itself comes back, too."""
        if agent == self._agent:
            return
        if len(data) > MAX_BEAT_BYTES:
            self.refused[Reason.TOO_LARGE.value] += 1
            return
        try:
            message = _member_message.decode(data)
        except UNREADABLE:
            self.refused[Reason.UNREADABLE.value] += 1
            return
        if message.agent != agent:
            self.refused[Reason.FORGED_ID.value] += 1
        elif isinstance(message, LeaseChanged):
            if self._lease is not None and not self.leads:
                self._lease.look()
        else:
            self.tell(MemberSaid(message))

    def lease_changed(self, revision: int) -> None:
        """Tell the others that the record by which this agent leads, or led, is another."""
        self.outbox.put(*self.lease_change(revision), as_leader=False)

    def lease_change(self, revision: int) -> tuple[str, bytes]:
        """Subject and payload by which others hear of that."""
        changed = LeaseChanged(agent=self._agent, revision=revision)
        return members_subject(self._domain, self._agent), msgspec.json.encode(changed)

    # -- operators ----------------------------------------------------------------------------------------

    def told_capacity(self, data: bytes) -> bytes:
        """Somebody says what a broker can carry from now on; the answer names what is wrong, if anything."""
        try:
            told = _capacity.decode(data)
        except UNREADABLE as error:
            self.refused[Reason.UNREADABLE.value] += 1
            return msgspec.json.encode(CapacityTaken(problem=f"it cannot be read: {error}"))
        problem = self._brain.capacity_problem(told)
        if problem:
            self.refused["capacities that cannot be"] += 1
        else:
            self.tell(CapacityChanged(told))
        return msgspec.json.encode(CapacityTaken(problem=problem))

    # -- questions ----------------------------------------------------------------------------------------

    def status(self) -> AgentStatus:
        """The agent's account of itself."""
        told = self._brain.status(monotonic())
        for load in told.brokers:
            if load.broker in self._watches:
                self._watches[load.broker].curious = load.measured is not LoadState.LOW
        problem = self._writer.problem if self._writer is not None else ""
        return msgspec.structs.replace(
            told,
            leads=self.leads,
            leader=self._lease.leader if self._lease is not None else "",
            refused=dict(Counter(told.refused) + self.refused),
            store_problem=told.store_problem or problem,
            audit=self.audit.figures(),
        )

    def directory_page(self, data: bytes) -> bytes | None:
        """The answer to a question about the directory, as large as a message can be; None to nonsense."""
        try:
            question = _question.decode(data)
        except UNREADABLE:
            self.refused[Reason.UNREADABLE.value] += 1
            return None
        limit = min(max(question.limit, 1), MAX_PAGE)
        while True:
            asked = msgspec.structs.replace(question, limit=limit)
            answer: DirectoryAnswer = self._brain.directory_page(asked, monotonic())
            payload = msgspec.json.encode(answer)
            if len(payload) <= MAX_MESSAGE_BYTES or limit == 1:
                return payload
            limit = max(1, limit // 4)
