"""Everything that an agent knows and decides while it leads its domain: made anew with every term."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable

import msgspec

from mangrove.control.advertising import Advertising
from mangrove.control.broker_watch import BrokerWatch
from mangrove.control.clients.placements import Served
from mangrove.control.clients.plain_clients import PlainClientMoves
from mangrove.control.clients.registrar import SPREAD_S, Registrar
from mangrove.control.clients.registry import UNKNOWN, Clients
from mangrove.control.congestion.domain.department import CongestionDepartment
from mangrove.control.congestion.domain.stored import found_in
from mangrove.control.directory.directory import Directory
from mangrove.control.directory.pages import DirectoryPages
from mangrove.control.directory.publish_places import PublishPlaces
from mangrove.control.distribution import Distributor
from mangrove.control.domain_view import DomainView
from mangrove.control.elastic.department import ElasticDepartment
from mangrove.control.events.happenings import AgentLeads, NeighbourOffline, NeighbourOnline
from mangrove.control.events.member_happenings import LeadershipHandedOver
from mangrove.control.failures.cases import CaseBook
from mangrove.control.failures.department import FailureDepartment
from mangrove.control.failures.states import Health
from mangrove.control.failures.stored import failures_in
from mangrove.control.failures.watch import FailureWatch, Turn
from mangrove.control.instructions import (
    Announce,
    AnswerOperator,
    AnswerRegistration,
    Instruction,
    PushDirectory,
    StepDown,
    TellClient,
)
from mangrove.control.mirrors.mirrors import Mirrors
from mangrove.control.neighbours import NeighbourCame, Neighbours
from mangrove.control.operations import refused
from mangrove.control.pause import Pause
from mangrove.control.plans.department import PlanDepartment
from mangrove.control.plans.surroundings import DomainPlans
from mangrove.control.policies.colleagues import Colleagues
from mangrove.control.policies.replication import Replication
from mangrove.control.policies.stored import found_policies
from mangrove.control.profile.profile import LoadProfile
from mangrove.control.sessions.admissions import Admissions
from mangrove.control.sessions.coordinator import Coordinator
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
from mangrove.control.store_writes import StoreWrites
from mangrove.model.agents.directory import DirectoryChanges
from mangrove.model.agents.load import LoadState
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
    BrokerSuspected,
    ClientMessage,
    ClientRole,
    Leave,
    Migrated,
    RegisterAgain,
    Registration,
    Report,
)
from mangrove.model.agents.status import AgentStatus
from mangrove.model.agents.usefulness import UsefulnessTold
from mangrove.model.events.event_log import EventLog

PUSH_S = 0.05
"""Changes of the directory wait so long for others, so that many go in one message."""
MAX_RECORDS_A_PUSH = 500
LATE_S = 10.0
"""An order to a client may be on its way for so long."""


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
        self._taken = taken
        self._site = site
        self._watch = watch
        self._failure_watch = failures
        self._log = log
        self._push_at = math.inf
        self._unsure: dict[str, tuple[float, float]] = {}
        """Clients of which it is not known where they are served: since when, and when they are asked."""
        self.clients = Clients(site.brokers)
        self.mirrors = Mirrors(
            site,
            watch.loads,
            published=lambda topic: self.clients.placements.count(ClientRole.PUBLISHER, topic) > 0,
            planned=lambda topic: self.plans.mirror(topic),
            clock_shift_s=clock_shift_s,
        )
        self.directory = Directory(site.domain, self.mirrors)
        self.store = StoreWrites(self.directory, log)
        self._colleagues = colleagues
        self.replication = Replication(
            colleagues.membership,
            colleagues.holdings,
            log,
            term=taken.term,
            number=self.store.number,
            found=found_policies(taken.sessions),
        )
        self._policy = 0
        """Version of the policy that departments were told of."""
        self.pause = Pause(taken.sessions, log, number=self.store.number, clock_shift_s=clock_shift_s)
        self.profile = LoadProfile(site.balancing, site.federation.topics)
        self.advertising = Advertising(site.federation, site.domain, clock_shift_s=clock_shift_s, now=now)
        self.neighbours = Neighbours(site.federation, site.domain, int((now + clock_shift_s) * 1000))
        self.plain = PlainClientMoves(site, self.profile, log)
        view = DomainView(
            site,
            watch,
            self.clients,
            self.directory,
            self.profile,
            self.advertising,
            self.neighbours,
            lambda topic, at, decision: self.registrar.redirect(topic, at, decision),
            lambda load, at: self.congestion.as_offered(load, at),
            lambda: self.congestion.offered_parts(),
            lambda topic: self.plans.moving(topic),
        )
        self.view = view
        self.admissions = Admissions(
            site,
            view,
            log,
            lambda topic, at: self.sessions.barred(topic, at),
            number=self.store.number,
            clock_shift_s=clock_shift_s,
            paused=lambda: self.pause.in_force,
        )
        self.sessions = Coordinator(
            site.domain,
            site.balancing,
            view,
            log,
            number=self.store.number,
            clock_shift_s=clock_shift_s,
            disconnect=self.plain.disconnect,
            still_short=lambda broker: self.congestion.control.still_short(broker),
            paused=lambda: self.pause.in_force,
        )
        self.congestion = CongestionDepartment(
            site,
            watch,
            view,
            self.clients,
            self.directory,
            self.profile,
            self.advertising,
            log,
            lambda: self.sessions,
            term=taken.term,
            number=self.store.number,
            found=found_in(taken.sessions),
            paused=lambda: self.pause.in_force,
        )
        self.plans = PlanDepartment(
            site,
            DomainPlans(
                site,
                watch,
                self.clients,
                self.directory,
                view,
                lambda: self.sessions,
                known=lambda at: not self.registrar.believes(at),
                paused=lambda: self.pause.in_force,
            ),
            log,
            term=taken.term,
            number=self.store.number,
            clock_shift_s=clock_shift_s,
        )
        self.registrar = Registrar(
            site,
            self.clients,
            self.directory,
            Distributor(site.balancing, site.description.placement, seed),
            log,
            loads=watch.loads,
            target=lambda topic: self.sessions.target(topic, publishers=False) or self.plans.target(topic),
            expected=self.admissions.expected,
            ordered=lambda served: (
                self.sessions.orders(served.id, served.topic, served.broker) or self.plans.orders(served)
            ),
            mirrors=self.mirrors,
            clock_shift_s=clock_shift_s,
        )
        self.cases = CaseBook(
            site,
            lambda: self.plans,
            log,
            number=self.store.number,
            rates=view.topic_rates,
            places=view.places,
        )
        self.failures = FailureDepartment(
            site,
            failures,
            self.clients,
            self.directory,
            self.registrar,
            log,
            number=self.store.number,
            found=failures_in(taken.sessions),
            plans=lambda: self.plans,
            cases=self.cases,
            paused=lambda: self.pause.in_force,
            clock_shift_s=clock_shift_s,
        )
        self.elastic = ElasticDepartment(
            site,
            watch,
            self.clients,
            self.directory,
            self.registrar,
            self.sessions,
            log,
            number=self.store.number,
            set_off=set_off,
            answers=failures.answers,
            hindered=lambda at: (
                self.pause.in_force
                or self.failures.unsettled(at)
                or bool(failures.failed)
                or self.plans.rolling_out
                or self.registrar.believes(at)
            ),
            plan=lambda: None if self.plans.in_force is None else self.plans.in_force.plan,
        )
        self.pages = DirectoryPages(
            site.domain,
            site.federation.topics,
            self.directory,
            self.clients.placements,
            self.advertising,
        )
        self.places: PublishPlaces | None = None
        if site.balancing.publish_at_edges:
            self.places = PublishPlaces(
                site,
                self.clients.placements,
                self.directory,
                log,
                self.advertising.wanted_elsewhere,
                clock_shift_s,
            )

    def begin(self, now: float) -> list[Instruction]:
        """Say to all that this agent leads, and go on with what is open."""
        taken = self._taken
        self.directory.begin(taken.term, taken.directory)
        led_by = self._log.note(
            AgentLeads(term=taken.term, records=len(self.directory), sessions=len(taken.sessions)), now
        )
        self.registrar.begin(taken.term, now, led_by)
        self.elastic.begin(taken.sessions, now)
        sessions = self.sessions.begin(taken.term, taken.sessions, now)
        for broker in self._failure_watch.failed:
            sessions += self.sessions.broker_failed(broker, now)
        return [
            Announce(AgentStarted(term=taken.term, spread_s=SPREAD_S)),
            *self.neighbours.start(now),
            *sessions,
            *self.admissions.begin(taken.sessions, now),
            *self.congestion.begin(now),
            *self.replication.begin(now),
            *self.plans.begin(taken.sessions, now),
            *self.failures.begin(taken.sessions, now),
            *self._afterwards(now),
        ]

    def drop(self) -> None:
        """Somebody else leads."""
        self.sessions.drop()
        self.admissions.drop()
        self.plans.drop()

    # -- brokers --------------------------------------------------------------------------------------------

    def loaded(self, now: float) -> list[Instruction]:
        """A broker was measured, or did not answer."""
        self.reconsider_mirrors(now)
        told = self.neighbours.set_load(self._watch.cluster(now), now)
        self.plans.loaded(now)
        told += self.plain.look(self._watch.loads(now).values(), now)
        # Before a session makes brokers BUSY it is known who has room, and whether that is enough.
        told += self.congestion.loaded(now)
        # What a case solves needs no session; what it does not is measured once the load has settled.
        if not self.pause.in_force:
            told += self.elastic.look(now)
        told += self.sessions.consider(now, opening=not self.failures.unsettled(now))
        return told + self._afterwards(now)

    def turned(self, turn: Turn, now: float) -> list[Instruction]:
        """A broker has died, or returns."""
        told: list[Instruction] = []
        self.plans.loaded(now)
        if turn.after is Health.FAILED:
            told += self.sessions.broker_failed(turn.broker, now)
        return told + self.failures.turned(turn, now) + self._afterwards(now)

    def reconsider_mirrors(self, now: float) -> None:
        """A broker that does not answer mirrors nothing; its topics get another mirror, if there is one."""
        away = [name for name, load in self._watch.loads(now).items() if not load.reachable]
        for topic in self.mirrors.set_away(away):
            self.registrar.follow(topic, now)

    def case_computed(self, computed: CaseComputed, now: float) -> list[Instruction]:
        """What is to be done in a state that no plan foresaw."""
        return self.cases.computed(computed, now) + self._afterwards(now)

    def plain_clients_seen(self, seen: PlainClientsSeen, now: float) -> list[Instruction]:
        """A broker's page of connections."""
        self.plain.seen(seen, now)
        return self.congestion.plain_seen(seen, now) + self.elastic.seen(seen, now)

    def capacity_changed(self, changed: CapacityChanged, now: float) -> list[Instruction]:
        """A broker can carry more or less from now on.

        Sessions wait for the next look: damage seldom strikes one broker alone, and what is told of the
        others a moment later shows whether they have room.
        """
        if not self.congestion.capacity_told(changed.told, now):
            return []
        told = self.neighbours.set_load(self._watch.cluster(now), now)
        return told + self.congestion.loaded(now) + self._afterwards(now)

    # -- clients --------------------------------------------------------------------------------------------

    def register(self, registered: ClientRegistered, now: float) -> list[Instruction]:
        """Answer a registration."""
        registration = registered.registration
        self._is_sure(registration, now)
        outcome = self.registrar.register(registration, now)
        told: list[Instruction] = [AnswerRegistration(registered.token, outcome.answer)]
        if outcome.answer.problem == UNKNOWN:
            told.append(TellClient(registration.client, RegisterAgain(term=self.term)))
        told += self._ended(outcome.ended, now)
        for served in (*outcome.placed, *outcome.relocated):
            told += self._located(served, now)
        changed = (*outcome.placed, *outcome.ended)
        if not outcome.answer.problem:
            told += self.congestion.registered(registration, changed, now)
        return told + self._audiences(changed, now) + self._afterwards(now)

    def client_said(self, message: ClientMessage, now: float) -> list[Instruction]:
        """A client has reported, confirmed or left."""
        problem = self.clients.heard(message.client, message.sequence, now)
        if problem == UNKNOWN and not isinstance(message, Leave):
            return [TellClient(message.client, RegisterAgain(term=self.term))]
        if problem:
            return []
        match message:
            case Report():
                if not self.profile.report(message):
                    self.congestion.reported(message, now)
                return self._ask_again(message.client, now)
            case Migrated():
                told = self._migrated(message, now)
            case Leave():
                told = self._left(message.client, now)
            case BrokerSuspected():
                told = self.failures.suspected(message, now)
        return told + self._afterwards(now)

    def _ask_again(self, client: str, now: float) -> list[Instruction]:
        """A client that did not say what became of an order tells it by registering."""
        asked_at = self._unsure.get(client, (0.0, math.inf))[1]
        return [TellClient(client, RegisterAgain(term=self.term))] if now >= asked_at else []

    def _is_sure(self, registration: Registration, now: float) -> None:
        """A client says where it is served; that counts once no order to it can be on its way any more."""
        since = self._unsure.get(registration.client, (now, now))[0]
        if registration.complete and now >= since + LATE_S:
            self._unsure.pop(registration.client, None)
        elif registration.client in self._unsure:
            self._unsure[registration.client] = (since, since + LATE_S)

    def _migrated(self, message: Migrated, now: float) -> list[Instruction]:
        served = self.clients.served(message.client, message.key)
        if served is None:
            return []
        there = self._site.has(message.broker) and message.broker not in self._site.dead
        if there or self._site.of_neighbour(message.broker):
            self.registrar.relocate(served, message.broker, now)
            self._profile_place(served)
        if message.problem:
            # The order may have been said twice, and the second time be carried out.
            self._unsure[message.client] = (now, now + LATE_S)
        told = self.sessions.confirmed(message, now) + self.plans.confirmed(message, now)
        return told + self._audiences([served], now)

    def _left(self, client: str, now: float) -> list[Instruction]:
        gone = self.registrar.leave(client, now)
        self._unsure.pop(client, None)
        self.profile.leave(client)
        self.congestion.left(client, gone, now)
        told: list[Instruction] = []
        for served in gone:
            told += self.sessions.gone(served.id, now) + self.plans.gone(served.id, now)
        return told + self._audiences(gone, now)

    def _ended(self, ended: Iterable[Served], now: float) -> list[Instruction]:
        told: list[Instruction] = []
        for served in ended:
            self.profile.end(*served.id)
            self.profile.mirror(served.client, served.wish, "")
            told += self.sessions.gone(served.id, now) + self.plans.gone(served.id, now)
        return told

    def _located(self, served: Served, now: float) -> list[Instruction]:
        self._profile_place(served)
        publishers = served.wish.role is ClientRole.PUBLISHER
        told = self.sessions.joined(served.id, served.topic, served.broker, now, publishers=publishers)
        return told + self.plans.joined(served, now)

    def _profile_place(self, served: Served) -> None:
        """What is served in another domain is reported here all the same, as load of a broker there."""
        self.profile.place(served.client, served.wish, served.broker)
        record = self.directory.get(served.topic)
        if record is not None and record.mode and served.wish.role is ClientRole.SUBSCRIBER:
            mirrored = not served.wish.queue and self._site.has(served.broker)
            self.profile.mirror(served.client, served.wish, record.mirror if mirrored else "")

    def _profile_mirrors(self, topic: str) -> None:
        """Who subscribes to a topic without a group has it at its mirror as well."""
        record = self.directory.get(topic)
        mirror = "" if record is None else record.mirror
        placements = self.clients.placements
        for broker in placements.brokers(ClientRole.SUBSCRIBER, topic):
            for served in placements.members(ClientRole.SUBSCRIBER, topic, broker):
                if not served.wish.queue:
                    self.profile.mirror(served.client, served.wish, mirror if self._site.has(broker) else "")

    def _audiences(self, changed: Iterable[Served], now: float) -> list[Instruction]:
        """Tell neighbours what is published, and look where it should be."""
        published: dict[str, int] = {}
        for served in changed:
            if served.wish.role is ClientRole.PUBLISHER:
                count = self.clients.placements.count(ClientRole.PUBLISHER, served.topic)
                published[served.topic] = count
            elif self.places is not None:
                self.places.subscribed(served.topic)
        if self.places is not None:
            self.places.published(published, now)
        return self.advertising.set_publishers(published, now)

    # -- others ---------------------------------------------------------------------------------------------

    def counted(self, counts: TopicsCounted, now: float) -> list[Instruction]:
        """The gateway has told what it carried."""
        self.congestion.counted(counts, now)
        return self.advertising.counted(counts.sent, now)

    def gateway_answered(self, answered: GatewayAnswered) -> list[Instruction]:
        """The gateway has taken limits."""
        self.congestion.gateway_answered(answered)
        return []

    def operator_asked(self, operation: Operation, token: int, now: float) -> list[Instruction]:
        """An operator wants something."""
        match operation:
            case PlanApplied() | PlanRolledBack() | PlanShown():
                told = self.plans.operator_asked(operation, token, now)
            case PauseAsked():
                told = self.pause.asked(operation, token, now)
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
        return self.plans.found(name, document, now) + self._afterwards(now)

    def peer_said(self, peer: str, message: PeerMessage, now: float) -> list[Instruction]:
        """The agent of a linked domain has said something."""
        match message:
            case PeerRegister() | PeerRegistered() | LoadTold():
                told = self.neighbours.handle(peer, message, now)
            case RoomAsked() | AdmissionAsked() | SessionEnded():
                told = self.admissions.handle(peer, message, now)
            case RoomTold() | AdmissionTold() | SessionClosed():
                told = self.sessions.heard(peer, message, now)
            case UsefulnessTold():
                self.congestion.peer_said(peer, message, now)
                told = []
            case _:
                told = self.advertising.handle(peer, message, now)
        return told + self._afterwards(now)

    def stored(self, write: int, now: float) -> list[Instruction]:
        """A write is in the store."""
        self.store.stored(write, now)
        self.admissions.stored(write)
        self.congestion.stored(write)
        self.failures.stored(write)
        self.elastic.stored(write)
        told = self.pause.stored(write) + self.replication.stored(write, now)
        told += self.sessions.stored(write, now) + self.plans.stored(write, now)
        return told + self._afterwards(now)

    def not_stored(self, write: int, problem: str, now: float) -> list[Instruction]:
        """A write did not come about."""
        self.store.failed(write, problem, now)
        self.admissions.failed(write, now)
        self.congestion.not_stored(write)
        self.failures.not_stored(write, now)
        self.elastic.not_stored(write, now)
        self.plans.failed(write, now)
        told = self.pause.failed(write, problem, now) + self.replication.failed(write, problem, now)
        return told + self.sessions.failed(write, problem, now) + self._afterwards(now)

    # -- time -----------------------------------------------------------------------------------------------

    def timer(self) -> float:
        """When to be called again."""
        return min(
            self._push_at,
            self.registrar.timer(),
            self.clients.timer(),
            self.store.timer(),
            self.sessions.timer(),
            self.admissions.timer(),
            self.neighbours.timer(),
            self.advertising.timer(),
            self.congestion.timer(),
            self.replication.timer(),
            self.pause.timer(),
            self.failures.timer(),
            self.plans.timer(),
            math.inf if self.places is None else self.places.timer(),
        )

    def handle_timer(self, now: float) -> list[Instruction]:
        """The time for which `timer` asked has come."""
        told: list[Instruction] = []
        self.registrar.handle_timer(now)
        for client in self.clients.expired(now):
            self.clients.refused["lease ran out"] += 1
            told += self._left(client, now)
        self.store.handle_timer(now)
        told += self.admissions.handle_timer(now)
        if self.places is not None:
            self.places.handle_timer(now)
        told += self.sessions.handle_timer(now)
        told += self.neighbours.handle_timer(now)
        told += self.advertising.handle_timer(now)
        told += self.congestion.handle_timer(now)
        told += self.replication.look(now)
        told += self.pause.handle_timer(now)
        told += self.failures.handle_timer(now)
        told += self.plans.handle_timer(now)
        if now >= self._push_at:
            told += self._push(now)
        return told + self._afterwards(now)

    def _push(self, now: float) -> list[Instruction]:
        told: list[Instruction] = []
        while records := self.directory.take_untold(MAX_RECORDS_A_PUSH):
            told.append(PushDirectory(DirectoryChanges(term=self.term, records=records)))
        self._push_at = math.inf
        return told + self.store.flush(now)

    def _afterwards(self, now: float) -> list[Instruction]:
        """What may follow from anything: neighbours came or went, the directory changed."""
        told: list[Instruction] = []
        if relocated := self.failures.take_relocated():
            for served in relocated:
                told += self._located(served, now)
            told += self._audiences(relocated, now)
        if self.mirrors.outdated:
            self.reconsider_mirrors(now)
        for topic in self.mirrors.take_changed():
            self._profile_mirrors(topic)
        for client in self.sessions.take_silent() | self.plans.take_silent():
            if self.clients.get(client) is not None:
                self._unsure[client] = (now, now)
        told += self._policies(now)
        for change in self.neighbours.take_changes():
            if isinstance(change, NeighbourCame):
                accepts = self.neighbours.accepts(change.peer)
                self._log.note(NeighbourOnline(peer=change.peer, accepts=accepts), now)
                told += self.advertising.neighbour_online(change.peer, now, restarted=change.restarted)
            else:
                self._log.note(NeighbourOffline(peer=change.peer), now)
                self.advertising.neighbour_offline(change.peer)
        if self._push_at == math.inf:
            if self.directory.untold:
                self._push_at = now + PUSH_S
            elif self.store.ready:
                self._push_at = max(now + PUSH_S, self.store.retry_at)
        return told

    def member_said(self, now: float) -> list[Instruction]:
        """Another agent of this domain has said how far it is, or a body was read."""
        return self.replication.look(now) + self._afterwards(now)

    def _policies(self, now: float) -> list[Instruction]:
        """Departments hand documents over, and hear what came of them."""
        told: list[Instruction] = []
        for body in self.plans.take_proposals():
            told += self.replication.propose(body, now)
        holdings = self._colleagues.holdings
        if holdings.version > self._policy:
            self._policy = holdings.version
            told += self.plans.policy_committed(holdings.version, holdings.body, now)
        for refusal in self.replication.take_refused():
            told += self.plans.policy_refused(refusal.body, refusal.reason, now)
        return told

    # -- questions ------------------------------------------------------------------------------------------

    def status(self, status: AgentStatus, now: float) -> AgentStatus:
        """What there is to say beyond the loads of brokers."""
        return msgspec.structs.replace(
            status,
            peers=self.neighbours.status(now),
            sessions=(*self.sessions.sessions(now), *self.sessions.ended),
            clients=len(self.clients),
            subscriptions=self.clients.placements.counts[ClientRole.SUBSCRIBER],
            records=len(self.directory),
            mirrored=self.mirrors.mirrored,
            unmirrored=self.mirrors.without,
            advertised=self.advertising.advertised,
            moves=self.sessions.moves,
            congested=self.sessions.congested,
            refused=dict(self._refused() + Counter(status.refused)),
            store_problem=self.store.problem,
            congestion=self.congestion.status(now),
            paused=self.pause.status,
            failures=msgspec.structs.replace(
                self._failure_watch.status(self._bottlenecks(now), self.failures.dropped, now),
                power=self.elastic.status(),
            ),
        )

    def _bottlenecks(self, now: float) -> list[str]:
        """Brokers that are overloaded, by a metric or a trigger: the third detector of GEMOM."""
        loads = self._watch.loads(now).values()
        return [load.broker for load in loads if load.reachable and load.measured is LoadState.OVERLOAD]

    def _refused(self) -> Counter[str]:
        """What was not believed or not taken, by reason."""
        return (
            self.clients.refused
            + self.profile.refused
            + self.advertising.refused
            + self.neighbours.refused
            + self.admissions.refused
            + self.plain.refused
            + self.congestion.refused
            + self._failure_watch.refused()
            + self.cases.refused
            + self.plans.refused
        )

    def problems(self) -> list[str]:
        """Invariants that do not hold; for tests."""
        found = self.clients.problems() + self.sessions.problems()
        found += self.failures.problems()
        found += self.neighbours.problems() + self.advertising.problems() + self.congestion.problems()
        found += self.plans.problems()
        expected = self.sessions.busy() | self.admissions.busy()
        if self._watch.busy() != expected:
            found.append(f"{self._watch.busy()} are busy, {expected} take part in sessions")
        return found
