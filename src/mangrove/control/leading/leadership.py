"""One term of a leader: what is told goes to whom it concerns, and what follows is collected."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import msgspec

from mangrove.control.broker_watch import BrokerWatch
from mangrove.control.clients.registrar import SPREAD_S
from mangrove.control.events.happenings import AgentLeads, NeighbourOffline, NeighbourOnline
from mangrove.control.events.member_happenings import LeadershipHandedOver
from mangrove.control.failures.states import Health
from mangrove.control.failures.watch import FailureWatch, Turn
from mangrove.control.instructions import (
    Announce,
    AnswerOperator,
    Instruction,
    PushDirectory,
    StepDown,
)
from mangrove.control.leading.client_desk import ClientDesk
from mangrove.control.leading.departments import Departments
from mangrove.control.neighbours import NeighbourCame
from mangrove.control.operations import refused
from mangrove.control.policies.colleagues import Colleagues
from mangrove.control.site import Site
from mangrove.control.stimuli import (
    CapacityChanged,
    CaseComputed,
    ClientRegistered,
    GatewayAnswered,
    LeadershipTaken,
    PlainClientsSeen,
    TopicsCounted,
)
from mangrove.model.agents.directory import DirectoryChanges
from mangrove.model.agents.operations import (
    HandOverAsked,
    Operation,
    OperationAnswer,
    PauseAsked,
    PlanApplied,
    PlanRolledBack,
    PlanShown,
)
from mangrove.model.agents.peers import (
    AdmissionAsked,
    AdmissionTold,
    LoadTold,
    PeerMessage,
    PeerRegister,
    PeerRegistered,
    RoomAsked,
    RoomTold,
    SessionClosed,
    SessionEnded,
)
from mangrove.model.agents.registration import (
    AgentStarted,
    ClientMessage,
    Report,
)
from mangrove.model.agents.usefulness import UsefulnessTold
from mangrove.model.events.event_log import EventLog

PUSH_S = 0.05
"""Changes of the directory wait so long for others, so that many go in one message."""
MAX_RECORDS_A_PUSH = 500


class Leadership:
    """One term of a leader."""

    def __init__(
        self,
        site: Site,
        watch: BrokerWatch,
        failures: FailureWatch,
        log: EventLog,
        taken: LeadershipTaken,
        colleagues: Colleagues,
        now: float,
        *,
        seed: int,
        clock_shift_s: float,
        set_off: Callable[[Collection[str], Collection[str]], None],
    ) -> None:
        """`set_off` takes brokers that are switched off, and those that are about to be."""
        self.term = taken.term
        self.parts = Departments(
            site,
            watch,
            failures,
            log,
            taken,
            colleagues,
            now,
            seed=seed,
            clock_shift_s=clock_shift_s,
            set_off=set_off,
        )
        self._desk = ClientDesk(self.parts, taken.term)
        self._taken = taken
        self._log = log
        self._colleagues = colleagues
        self._push_at = math.inf
        self._policy = 0
        """Version of the policy that departments were told of."""

    def begin(self, now: float) -> list[Instruction]:
        """Say to all that this agent leads, and go on with what is open."""
        taken = self._taken
        self.parts.directory.begin(taken.term, taken.directory)
        led_by = self._log.note(
            AgentLeads(term=taken.term, records=len(self.parts.directory), sessions=len(taken.sessions)), now
        )
        self.parts.registrar.begin(taken.term, now, led_by)
        self.parts.elastic.begin(taken.sessions, now)
        sessions = self.parts.sessions.begin(taken.term, taken.sessions, now)
        for broker in self.parts.failure_watch.failed:
            sessions += self.parts.sessions.broker_failed(broker, now)
        return [
            Announce(AgentStarted(term=taken.term, spread_s=SPREAD_S)),
            *self.parts.neighbours.start(now),
            *sessions,
            *self.parts.admissions.begin(taken.sessions, now),
            *self.parts.congestion.begin(now),
            *self.parts.replication.begin(now),
            *self.parts.plans.begin(taken.sessions, now),
            *self.parts.failures.begin(taken.sessions, now),
            *self._afterwards(now),
        ]

    def drop(self) -> None:
        """Somebody else leads."""
        self.parts.sessions.drop()
        self.parts.admissions.drop()
        self.parts.plans.drop()

    # -- brokers --------------------------------------------------------------------------------------------

    def loaded(self, now: float) -> list[Instruction]:
        """A broker was measured, or did not answer."""
        self.reconsider_mirrors(now)
        told = self.parts.neighbours.set_load(self.parts.watch.cluster(now), now)
        self.parts.plans.loaded(now)
        told += self.parts.plain.look(self.parts.watch.loads(now).values(), now)
        # Before a session makes brokers BUSY it is known who has room, and whether that is enough.
        told += self.parts.congestion.loaded(now)
        # What a case solves needs no session; what it does not is measured once the load has settled.
        if not self.parts.pause.in_force:
            told += self.parts.elastic.look(now)
        told += self.parts.sessions.consider(now, opening=not self.parts.failures.unsettled(now))
        told += self.parts.steering.loaded(now)
        return told + self._afterwards(now)

    def turned(self, turn: Turn, now: float) -> list[Instruction]:
        """A broker has died, or returns."""
        told: list[Instruction] = []
        self.parts.plans.loaded(now)
        if turn.after is Health.FAILED:
            told += self.parts.sessions.broker_failed(turn.broker, now)
        return told + self.parts.failures.turned(turn, now) + self._afterwards(now)

    def reconsider_mirrors(self, now: float) -> None:
        """A broker that does not answer mirrors nothing; its topics get another mirror, if there is one."""
        away = [name for name, load in self.parts.watch.loads(now).items() if not load.reachable]
        for topic in self.parts.mirrors.set_away(away):
            self.parts.registrar.follow(topic, now)

    def case_computed(self, computed: CaseComputed, now: float) -> list[Instruction]:
        """What is to be done in a state that no plan foresaw."""
        return self.parts.cases.computed(computed, now) + self._afterwards(now)

    def plain_clients_seen(self, seen: PlainClientsSeen, now: float) -> list[Instruction]:
        """A broker's page of connections."""
        self.parts.plain.seen(seen, now)
        return self.parts.congestion.plain_seen(seen, now) + self.parts.elastic.seen(seen, now)

    def capacity_changed(self, changed: CapacityChanged, now: float) -> list[Instruction]:
        """A broker can carry more or less from now on.

        Sessions wait for the next look: damage seldom strikes one broker alone, and what is told of the
        others a moment later shows whether they have room.
        """
        if not self.parts.congestion.capacity_told(changed.told, now):
            return []
        told = self.parts.neighbours.set_load(self.parts.watch.cluster(now), now)
        return told + self.parts.congestion.loaded(now) + self._afterwards(now)

    # -- clients --------------------------------------------------------------------------------------------

    def register(self, registered: ClientRegistered, now: float) -> list[Instruction]:
        """Answer a registration."""
        return self._desk.register(registered, now) + self._afterwards(now)

    def client_said(self, message: ClientMessage, now: float) -> list[Instruction]:
        """A client has reported, confirmed or left."""
        told = self._desk.client_said(message, now)
        return told if isinstance(message, Report) else told + self._afterwards(now)

    # -- others ---------------------------------------------------------------------------------------------

    def counted(self, counts: TopicsCounted, now: float) -> list[Instruction]:
        """The gateway has told what it carried."""
        self.parts.congestion.counted(counts, now)
        return self.parts.advertising.counted(counts.sent, now)

    def gateway_answered(self, answered: GatewayAnswered) -> list[Instruction]:
        """The gateway has taken limits."""
        self.parts.congestion.gateway_answered(answered)
        return []

    def operator_asked(self, operation: Operation, token: int, now: float) -> list[Instruction]:
        """An operator wants something."""
        match operation:
            case PlanApplied() | PlanRolledBack() | PlanShown():
                told = self.parts.plans.operator_asked(operation, token, now)
            case PauseAsked():
                told = self.parts.pause.asked(operation, token, now)
            case HandOverAsked():
                return self._hand_over(operation.to, token, now)
        return told + self._afterwards(now)

    def _hand_over(self, to: str, token: int, now: float) -> list[Instruction]:
        """Let another agent lead: nothing is done by this one after that."""
        members = self._colleagues.membership
        successor = members.named(to) if to else members.successor(now)
        if not successor:
            known = ", ".join(host or agent for agent, host in sorted(members.agents.items()))
            return refused(
                token, f"no agent is on {to!r}; there is {known}" if to else "no other agent lives"
            )
        answer = AnswerOperator(token, OperationAnswer(result=msgspec.json.encode({"to": successor})))
        if successor == members.own:
            return [answer]
        if not members.is_live(successor, now):
            return refused(token, f"{successor} does not answer")
        self._log.note(LeadershipHandedOver(to=successor, term=self.term), now)
        return [answer, StepDown(successor)]

    def plan_found(self, name: str, document: bytes, now: float) -> list[Instruction]:
        """A plan lies where pipelines leave them."""
        return self.parts.plans.found(name, document, now) + self._afterwards(now)

    def peer_said(self, peer: str, message: PeerMessage, now: float) -> list[Instruction]:
        """The agent of a linked domain has said something."""
        match message:
            case PeerRegister() | PeerRegistered() | LoadTold():
                told = self.parts.neighbours.handle(peer, message, now)
            case RoomAsked() | AdmissionAsked() | SessionEnded():
                told = self.parts.admissions.handle(peer, message, now)
            case RoomTold() | AdmissionTold() | SessionClosed():
                told = self.parts.sessions.heard(peer, message, now)
                told += self.parts.steering.heard(peer, message, now)
            case UsefulnessTold():
                self.parts.congestion.peer_said(peer, message, now)
                told = []
            case _:
                told = self.parts.advertising.handle(peer, message, now)
        return told + self._afterwards(now)

    def stored(self, write: int, now: float) -> list[Instruction]:
        """A write is in the store."""
        self.parts.store.stored(write, now)
        self.parts.admissions.stored(write)
        self.parts.congestion.stored(write)
        self.parts.failures.stored(write)
        self.parts.elastic.stored(write)
        told = self.parts.pause.stored(write) + self.parts.replication.stored(write, now)
        told += self.parts.sessions.stored(write, now) + self.parts.plans.stored(write, now)
        return told + self._afterwards(now)

    def not_stored(self, write: int, problem: str, now: float) -> list[Instruction]:
        """A write did not come about."""
        self.parts.store.failed(write, problem, now)
        self.parts.admissions.failed(write, now)
        self.parts.congestion.not_stored(write)
        self.parts.failures.not_stored(write, now)
        self.parts.elastic.not_stored(write, now)
        self.parts.plans.failed(write, now)
        told = self.parts.pause.failed(write, problem, now)
        told += self.parts.replication.failed(write, problem, now)
        return told + self.parts.sessions.failed(write, problem, now) + self._afterwards(now)

    # -- time -----------------------------------------------------------------------------------------------

    def timer(self) -> float:
        """When to be called again."""
        return min(
            self._push_at,
            self.parts.registrar.timer(),
            self.parts.clients.timer(),
            self.parts.store.timer(),
            self.parts.sessions.timer(),
            self.parts.admissions.timer(),
            self.parts.neighbours.timer(),
            self.parts.advertising.timer(),
            self.parts.congestion.timer(),
            self.parts.replication.timer(),
            self.parts.pause.timer(),
            self.parts.failures.timer(),
            self.parts.plans.timer(),
            self.parts.steering.timer(),
            math.inf if self.parts.places is None else self.parts.places.timer(),
        )

    def handle_timer(self, now: float) -> list[Instruction]:
        """The time for which `timer` asked has come."""
        told: list[Instruction] = []
        self.parts.registrar.handle_timer(now)
        for client in self.parts.clients.expired(now):
            self.parts.clients.refused["lease ran out"] += 1
            told += self._desk.left(client, now)
        self.parts.store.handle_timer(now)
        told += self.parts.admissions.handle_timer(now)
        if self.parts.places is not None:
            self.parts.places.handle_timer(now)
        told += self.parts.sessions.handle_timer(now)
        told += self.parts.neighbours.handle_timer(now)
        told += self.parts.advertising.handle_timer(now)
        told += self.parts.congestion.handle_timer(now)
        told += self.parts.replication.look(now)
        told += self.parts.pause.handle_timer(now)
        told += self.parts.failures.handle_timer(now)
        told += self.parts.plans.handle_timer(now)
        told += self.parts.steering.handle_timer(now)
        if now >= self._push_at:
            told += self._push(now)
        return told + self._afterwards(now)

    def _push(self, now: float) -> list[Instruction]:
        told: list[Instruction] = []
        while records := self.parts.directory.take_untold(MAX_RECORDS_A_PUSH):
            told.append(PushDirectory(DirectoryChanges(term=self.term, records=records)))
        self._push_at = math.inf
        return told + self.parts.store.flush(now)

    def _afterwards(self, now: float) -> list[Instruction]:
        """What may follow from anything: neighbours came or went, the directory changed."""
        told: list[Instruction] = []
        if relocated := self.parts.failures.take_relocated():
            for served in relocated:
                told += self._desk.located(served, now)
            told += self._desk.audiences(relocated, now)
        if self.parts.mirrors.outdated:
            self.reconsider_mirrors(now)
        for topic in self.parts.mirrors.take_changed():
            self._desk.mirrors_changed(topic)
        for client in self.parts.sessions.take_silent() | self.parts.plans.take_silent():
            self._desk.is_unsure(client, now)
        told += self._policies(now)
        for change in self.parts.neighbours.take_changes():
            if isinstance(change, NeighbourCame):
                accepts = self.parts.neighbours.accepts(change.peer)
                self._log.note(NeighbourOnline(peer=change.peer, accepts=accepts), now)
                told += self.parts.advertising.neighbour_online(change.peer, now, restarted=change.restarted)
            else:
                self._log.note(NeighbourOffline(peer=change.peer), now)
                self.parts.advertising.neighbour_offline(change.peer)
        if self._push_at == math.inf:
            if self.parts.directory.untold:
                self._push_at = now + PUSH_S
            elif self.parts.store.ready:
                self._push_at = max(now + PUSH_S, self.parts.store.retry_at)
        return told

    def member_said(self, now: float) -> list[Instruction]:
        """Another agent of this domain has said how far it is, or a body was read."""
        return self.parts.replication.look(now) + self._afterwards(now)

    def _policies(self, now: float) -> list[Instruction]:
        """Departments hand documents over, and hear what came of them."""
        told: list[Instruction] = []
        for body in self.parts.plans.take_proposals():
            told += self.parts.replication.propose(body, now)
        holdings = self._colleagues.holdings
        if holdings.version > self._policy:
            self._policy = holdings.version
            told += self.parts.plans.policy_committed(holdings.version, holdings.body, now)
        for refusal in self.parts.replication.take_refused():
            told += self.parts.plans.policy_refused(refusal.body, refusal.reason, now)
        return told
