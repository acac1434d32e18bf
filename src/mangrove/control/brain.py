"""The brain of a domain's agent: everything that is told comes in here, everything it wants done goes out.

It decides only while it leads. Sampling brokers, checking signatures and seals, the store and the wire are
the shell's; the time is an argument, so the same brain runs in a simulation.
"""

from __future__ import annotations

import math

from mangrove.control.broker_watch import BrokerWatch
from mangrove.control.clients.registrar import SPREAD_S, Registrar
from mangrove.control.clients.registry import UNKNOWN, Clients
from mangrove.control.directory.directory import Directory
from mangrove.control.directory.pages import directory_page
from mangrove.control.distribution import Distributor
from mangrove.control.events.happenings import AgentFollows, AgentLeads
from mangrove.control.instructions import (
    Announce,
    AnswerRegistration,
    Instruction,
    PushDirectory,
    TellClient,
)
from mangrove.control.site import Site
from mangrove.control.stimuli import (
    BrokerSampled,
    BrokerUnreachable,
    ClientRegistered,
    ClientSaid,
    LeadershipLost,
    LeadershipTaken,
    PeerSaid,
    PlainClientsSeen,
    Stimulus,
    Stored,
    StoreFailed,
    TopicsCounted,
)
from mangrove.control.store_writes import StoreWrites
from mangrove.model.agents.directory import DirectoryAnswer, DirectoryChanges, DirectoryQuestion
from mangrove.model.agents.names import agent_process
from mangrove.model.agents.registration import (
    AgentStarted,
    ClientRole,
    Leave,
    Migrated,
    RegisterAgain,
    Registered,
    Report,
)
from mangrove.model.agents.status import AgentStatus
from mangrove.model.endpoints import DomainEndpoints, fixed_endpoints
from mangrove.model.events.event_log import Event, EventLog
from mangrove.model.federation import Federation

PUSH_S = 0.05
"""Changes of the directory wait so long for others, so that many go in one message."""
MAX_RECORDS_A_PUSH = 500
NOT_LEADING = "this agent does not lead its domain"


class AgentBrain:
    """Decides for one domain, as long as it leads."""

    def __init__(
        self,
        federation: Federation,
        domain: str,
        agent: str,
        *,
        seed: int,
        clock_shift_s: float,
        events_before: int = 0,
        endpoints: DomainEndpoints | None = None,
    ) -> None:
        """`endpoints` say where brokers listen, if not where the federation file has them."""
        self._site = Site(federation, endpoints or fixed_endpoints(federation.domains[domain]))
        self._agent = agent
        self._clock_shift_s = clock_shift_s
        self._seed = seed
        self._log = EventLog(agent_process(domain), events_before)
        self._watch = BrokerWatch(self._site, self._log)
        self._started: float | None = None
        self._term = 0
        self._leads = False
        self._push_at = math.inf
        self._begin_with_nothing()

    def _begin_with_nothing(self) -> None:
        """Nothing of what an earlier term knew is left."""
        site = self._site
        self._clients = Clients(site.brokers)
        self._directory = Directory(site.domain)
        self._store = StoreWrites(self._directory, self._log)
        self._registrar = Registrar(
            site,
            self._clients,
            self._directory,
            Distributor(site.balancing, site.description.placement, self._seed),
            self._log,
            loads=self._watch.loads,
            target=self._target,
            clock_shift_s=self._clock_shift_s,
        )
        self._push_at = math.inf

    def _target(self, topic: str, role: ClientRole) -> str:
        return ""

    # -- stimuli --------------------------------------------------------------------------------------------

    def handle(self, stimulus: Stimulus, now: float) -> list[Instruction]:
        """Something was told; what is to be done."""
        if self._started is None:
            self._started = now
        told = self._handle(stimulus, now)
        return told + self._after(now)

    def _handle(self, stimulus: Stimulus, now: float) -> list[Instruction]:
        match stimulus:
            case BrokerSampled():
                self._watch.sampled(stimulus.sample, now, noting=self._leads)
            case BrokerUnreachable():
                self._watch.unreachable(stimulus.broker, stimulus.problem, now, noting=self._leads)
            case LeadershipTaken():
                return self._take_leadership(stimulus, now)
            case LeadershipLost():
                self._lose_leadership(now)
            case ClientRegistered():
                return self._register(stimulus, now)
            case _ if not self._leads:
                return []
            case ClientSaid():
                return self._client_said(stimulus.message, now)
            case Stored():
                self._store.stored(stimulus.write, now)
            case StoreFailed():
                self._store.failed(stimulus.write, stimulus.problem, now)
            case PeerSaid() | PlainClientsSeen() | TopicsCounted():
                return []
        return []

    def _after(self, now: float) -> list[Instruction]:
        """What may follow from anything."""
        if self._push_at == math.inf:
            if self._directory.untold:
                self._push_at = now + PUSH_S
            elif self._store.ready:
                self._push_at = max(now + PUSH_S, self._store.retry_at)
        return []

    def handle_timer(self, now: float) -> list[Instruction]:
        """The time for which `timer` asked has come."""
        if not self._leads:
            return []
        told: list[Instruction] = []
        self._registrar.handle_timer(now)
        for client in self._clients.expired(now):
            self._registrar.leave(client, now)
            self._clients.refused["lease ran out"] += 1
        self._store.handle_timer(now)
        if now >= self._push_at:
            told += self._push(now)
        return told + self._after(now)

    def timer(self) -> float:
        """When to be called again; infinite if not before something is told."""
        if not self._leads:
            return math.inf
        return min(self._push_at, self._registrar.timer(), self._clients.timer(), self._store.timer())

    # -- leadership -----------------------------------------------------------------------------------------

    def _take_leadership(self, taken: LeadershipTaken, now: float) -> list[Instruction]:
        self._begin_with_nothing()
        self._watch.forget_notes()
        self._term, self._leads = taken.term, True
        self._directory.begin(taken.term, taken.directory)
        led_by = self._log.note(
            AgentLeads(term=taken.term, records=len(self._directory), sessions=len(taken.sessions)), now
        )
        self._registrar.begin(taken.term, now, led_by)
        return [Announce(AgentStarted(term=taken.term, spread_s=SPREAD_S))]

    def _lose_leadership(self, now: float) -> None:
        if self._leads:
            self._log.note(AgentFollows(term=self._term, sessions=0), now)
        self._leads = False
        self._begin_with_nothing()

    # -- clients --------------------------------------------------------------------------------------------

    def _register(self, registered: ClientRegistered, now: float) -> list[Instruction]:
        if not self._leads:
            refusal = Registered(term=self._term, problem=NOT_LEADING)
            return [AnswerRegistration(registered.token, refusal)]
        registration = registered.registration
        outcome = self._registrar.register(registration, now)
        told: list[Instruction] = [AnswerRegistration(registered.token, outcome.answer)]
        if outcome.answer.problem == UNKNOWN:
            told.append(TellClient(registration.client, RegisterAgain(term=self._term)))
        return told

    def _client_said(self, message: Report | Migrated | Leave, now: float) -> list[Instruction]:
        problem = self._clients.heard(message.client, message.sequence, now)
        if problem == UNKNOWN and not isinstance(message, Leave):
            return [TellClient(message.client, RegisterAgain(term=self._term))]
        if problem:
            return []
        match message:
            case Leave():
                self._registrar.leave(message.client, now)
            case Migrated() | Report():
                pass
        return []

    # -- the directory --------------------------------------------------------------------------------------

    def _push(self, now: float) -> list[Instruction]:
        told: list[Instruction] = []
        while records := self._directory.take_untold(MAX_RECORDS_A_PUSH):
            told.append(PushDirectory(DirectoryChanges(term=self._term, records=records)))
        self._push_at = math.inf
        return told + self._store.flush(now)

    # -- questions ------------------------------------------------------------------------------------------

    def status(self, now: float) -> AgentStatus:
        """How the domain is, and what is done about it."""
        started = now if self._started is None else self._started
        refused = self._clients.refused + self._watch.refused()
        counts = self._clients.placements.counts
        return AgentStatus(
            domain=self._site.domain,
            agent=self._agent,
            term=self._term,
            leads=self._leads,
            uptime_s=now - started,
            brokers=tuple(self._watch.loads(now).values()),
            clients=len(self._clients),
            subscriptions=counts[ClientRole.SUBSCRIBER],
            records=len(self._directory),
            refused=dict(refused),
            store_problem=self._store.problem,
            method=self._site.balancing.method,
            distribution=self._site.balancing.distribution,
        )

    def directory_page(self, question: DirectoryQuestion, now: float) -> DirectoryAnswer:
        """A page of the directory."""
        return directory_page(question, self._site, self._term, self._directory, self._clients.placements)

    def take_events(self) -> list[Event]:
        """What happened since the last call."""
        return self._log.take()

    def problems(self) -> list[str]:
        """Invariants that do not hold; for tests."""
        return self._clients.problems()
