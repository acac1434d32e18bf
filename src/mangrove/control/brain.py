"""The brain of a domain's agent: everything that is told comes in here, everything it wants done goes out.

It decides only while it leads. Sampling brokers, checking signatures and seals, the store and the wire are
the shell's; the time is an argument, so the same brain runs in a simulation.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from mangrove.control.broker_watch import BrokerWatch
from mangrove.control.congestion.domain.capacities import capacity_problem
from mangrove.control.events.happenings import AgentFollows
from mangrove.control.failures.watch import FailureWatch, Turn
from mangrove.control.instructions import AnswerRegistration, Instruction
from mangrove.control.leading.leadership import Leadership
from mangrove.control.policies.colleagues import Colleagues
from mangrove.control.policies.membership import Membership
from mangrove.control.site import Site
from mangrove.control.stimuli import (
    BrokerProbed,
    BrokerSampled,
    BrokerUnreachable,
    CapacityChanged,
    CaseComputed,
    ClientRegistered,
    ClientSaid,
    GatewayAnswered,
    LeadershipLost,
    LeadershipTaken,
    MemberSaid,
    OperatorAsked,
    PeerSaid,
    PlainClientsSeen,
    PlanFound,
    PolicyFetched,
    Stimulus,
    Stored,
    StoreFailed,
    TopicsCounted,
)
from mangrove.model.agents.directory import DirectoryAnswer, DirectoryQuestion
from mangrove.model.agents.members import PolicyRecord, agents_of
from mangrove.model.agents.registration import Registered
from mangrove.model.agents.status import AgentStatus
from mangrove.model.agents.usefulness import CapacityTold
from mangrove.model.endpoints import DomainEndpoints, fixed_endpoints
from mangrove.model.events.event_log import Event, EventLog
from mangrove.model.federation import Federation

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
        score: float = 0.0,
        life: int = 0,
    ) -> None:
        """`endpoints` say where brokers listen, if not where the federation file has them.

        `score` is how strong this agent is among those of its domain, `life` names this process.
        """
        self._site = Site(federation, endpoints or fixed_endpoints(federation.domains[domain]))
        self._agent = agent
        self._clock_shift_s = clock_shift_s
        self._seed = seed
        self._log = EventLog(agent, events_before)
        self._watch = BrokerWatch(self._site, self._log)
        membership = Membership(agents_of(federation.domains[domain]), agent, score)
        self._colleagues = Colleagues(membership, life)
        self._failures = FailureWatch(self._site, self._log)
        self._off = frozenset(self._site.spares)
        self._leaving: frozenset[str] = frozenset()
        self._use()
        self._lead: Leadership | None = None
        self._last_term = 0
        self._started: float | None = None

    def handle(self, stimulus: Stimulus, now: float) -> list[Instruction]:
        """Something was told; what is to be done."""
        return self._handle(stimulus, now) + self._among_colleagues(now)

    def _among_colleagues(self, now: float) -> list[Instruction]:
        replication = None if self._lead is None else self._lead.parts.replication
        return self._colleagues.afterwards(self._last_term, replication, now)

    def rank(self, last_leader: str, now: float) -> int:
        """How many live agents of the domain are stronger than this one."""
        return self._colleagues.membership.rank(last_leader, now)

    @property
    def policy(self) -> PolicyRecord | None:
        """The policy in force that this agent holds, whether it leads or not."""
        return self._colleagues.holdings.committed

    @property
    def alone(self) -> bool:
        """Whether the domain can have no other agent."""
        return self._colleagues.membership.alone

    def _handle(self, stimulus: Stimulus, now: float) -> list[Instruction]:
        if self._started is None:
            self._started = now
        match stimulus:
            case MemberSaid(beat=beat):
                self._colleagues.heard(beat, now, leading=self._lead is not None)
            case PolicyFetched(record=record, body=body):
                self._colleagues.fetched(record, body, now)
            case LeadershipTaken():
                return self._take_leadership(stimulus, now)
            case LeadershipLost():
                self._lose_leadership(now)
                return []
            case BrokerSampled(sample=sample):
                self._watch.sampled(sample, now, noting=self._lead is not None)
            case BrokerUnreachable(broker=broker, problem=problem):
                self._watch.unreachable(broker, problem, now, noting=self._lead is not None)
            case BrokerProbed():
                turn = self._probed(stimulus, now)
                return [] if turn is None or self._lead is None else self._lead.turned(turn, now)
            case ClientRegistered() if self._lead is None:
                refusal = Registered(term=self._last_term, problem=NOT_LEADING)
                return [AnswerRegistration(stimulus.token, refusal)]
            case _:
                pass
        return [] if self._lead is None else self._lead_on(self._lead, stimulus, now)

    def _probed(self, probe: BrokerProbed, now: float) -> Turn | None:
        """A broker that is dead, or not to be relied on yet, is no candidate for anything from now on."""
        noting = self._lead is not None
        turn = self._failures.probed(probe.broker, probe.answered, probe.closed, now, noting=noting)
        if turn is not None:
            self._use()
        return turn

    def _set_off(self, off: Collection[str], leaving: Collection[str]) -> None:
        """Brokers that are switched off, or about to be: nothing is given to them."""
        self._off, self._leaving = frozenset(off), frozenset(leaving)
        self._failures.set_off(off)
        self._use()

    def _use(self) -> None:
        """Have everybody know which brokers may be used."""
        failed, unreliable = frozenset(self._failures.failed), self._failures.unreliable
        self._site.set_down(unreliable | self._off | self._leaving, failed | self._off)
        for broker in self._site.brokers:
            if broker in self._off or broker in self._leaving:
                self._watch.set_dead(broker, "it is switched off, or about to be", quiet=True)
            elif broker in failed:
                self._watch.set_dead(broker, "it is dead", quiet=True)  # that is an event of its own
            else:
                back = broker in unreliable
                why = "it has been dead until a moment ago" if back else ""
                self._watch.set_dead(broker, why, quiet=back)

    def _lead_on(self, lead: Leadership, stimulus: Stimulus, now: float) -> list[Instruction]:
        match stimulus:
            case BrokerSampled() | BrokerUnreachable():
                return lead.loaded(now)
            case ClientRegistered():
                return lead.register(stimulus, now)
            case ClientSaid(message=message):
                return lead.client_said(message, now)
            case PeerSaid(peer=peer, message=message):
                return lead.peer_said(peer, message, now)
            case Stored(write=write):
                return lead.stored(write, now)
            case StoreFailed(write=write, problem=problem):
                return lead.not_stored(write, problem, now)
            case TopicsCounted():
                return lead.counted(stimulus, now)
            case PlainClientsSeen():
                return lead.plain_clients_seen(stimulus, now)
            case CaseComputed():
                return lead.case_computed(stimulus, now)
            case CapacityChanged():
                return lead.capacity_changed(stimulus, now)
            case MemberSaid() | PolicyFetched():
                return lead.member_said(now)
            case OperatorAsked(operation=operation, token=token):
                return lead.operator_asked(operation, token, now)
            case PlanFound(name=name, document=document):
                return lead.plan_found(name, document, now)
            case GatewayAnswered():
                return lead.gateway_answered(stimulus)
            case _:
                return []

    def _take_leadership(self, taken: LeadershipTaken, now: float) -> list[Instruction]:
        if taken.term <= self._last_term:
            return []
        if self._lead is not None:
            self._lead.drop()
        self._watch.forget_notes()
        self._last_term = taken.term
        self._lead = Leadership(
            self._site,
            self._watch,
            self._failures,
            self._log,
            taken,
            self._colleagues,
            now,
            seed=self._seed,
            clock_shift_s=self._clock_shift_s,
            set_off=self._set_off,
        )
        return self._lead.begin(now)

    def _lose_leadership(self, now: float) -> None:
        lead, self._lead = self._lead, None
        if lead is not None:
            self._log.note(AgentFollows(term=lead.term, sessions=len(lead.parts.sessions.sessions(now))), now)
            lead.drop()

    def timer(self) -> float:
        """When to be called again; infinite if not before something is told."""
        return min(self._colleagues.timer(), math.inf if self._lead is None else self._lead.timer())

    def handle_timer(self, now: float) -> list[Instruction]:
        """The time for which `timer` asked has come."""
        told = [] if self._lead is None else self._lead.handle_timer(now)
        return told + self._among_colleagues(now)

    # -- questions ------------------------------------------------------------------------------------------

    def status(self, now: float) -> AgentStatus:
        """How the domain is, and what is done about it."""
        lead, balancing = self._lead, self._site.balancing
        started = now if self._started is None else self._started
        status = AgentStatus(
            domain=self._site.domain,
            agent=self._agent,
            term=self._last_term,
            leads=lead is not None,
            uptime_s=now - started,
            brokers=tuple(self._watch.loads(now).values()),
            refused=dict(
                self._watch.refused()
                + self._colleagues.membership.refused
                + self._colleagues.holdings.refused
            ),
            method=balancing.method,
            distribution=balancing.distribution,
            leader=self._agent if lead is not None else "",
            members=self._colleagues.status(None if lead is None else lead.parts.replication, now),
            policy=self._colleagues.holdings.version,
        )
        return status if lead is None else lead.parts.status(status, now)

    def directory_page(self, question: DirectoryQuestion, now: float) -> DirectoryAnswer:
        """A page of the directory; an agent that does not lead has none."""
        if self._lead is None:
            return DirectoryAnswer(domain=self._site.domain, term=self._last_term, topics=())
        return self._lead.parts.pages.page(question, self._lead.term)

    def capacity_problem(self, told: CapacityTold) -> str:
        """Why a broker cannot be told to carry that, or nothing."""
        return capacity_problem(told, self._site)

    def take_events(self) -> list[Event]:
        """What happened since the last call."""
        return self._log.take()

    def problems(self) -> list[str]:
        """Invariants that do not hold; for tests."""
        if self._lead is not None:
            return self._lead.parts.problems()
        busy = self._watch.busy()
        return [f"{busy} are busy, and nobody leads"] if busy else []
