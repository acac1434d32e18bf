"""The domain of several agents: its network, its clients and brokers, and what must never happen there."""

from __future__ import annotations

import msgspec

from mangrove.control.events.member_happenings import PolicyCommitted
from mangrove.control.failures.department import BOUND_S
from mangrove.control.instructions import (
    Announce,
    AnswerOperator,
    AnswerRegistration,
    Instruction,
    PushDirectory,
    TellClient,
)
from mangrove.control.stimuli import (
    BrokerProbed,
    BrokerSampled,
    BrokerUnreachable,
    ClientRegistered,
    Stimulus,
)
from mangrove.model.agents.directory import DirectoryQuestion
from mangrove.model.agents.members import LeaseChanged, MemberBeat, agents_of
from mangrove.model.agents.registration import ClientRole, Registration
from mangrove.model.events.event_log import Event
from mangrove.simulation.agents.several.agent import VirtualAgent
from mangrove.simulation.agents.several.schedule import DOMAIN, SAMPLE_S, Schedule
from mangrove.simulation.agents.several.store import SharedStore
from mangrove.simulation.agents.virtual.brokers import Traffic, VirtualBroker
from mangrove.simulation.agents.virtual.clients import Held, VirtualClient
from mangrove.simulation.agents.virtual.world import World

PROBE_S = 0.2
OF_THE_DEAD = "which is dead"
SLACK_S = 0.3
"""Beyond the bound of the directory: looks and probes of the simulation are not at one moment."""


class SeveralAgents:
    """Checks, all along: one agent acts at a time, terms and policies never go back."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.name = DOMAIN
        self.world = World(schedule.seed)
        self.world.loss_ratio = schedule.loss_ratio
        self.world.late_ratio = schedule.late_ratio
        self.problems: list[str] = []
        self.store = SharedStore(self.problem)
        self.traffic = Traffic(self.world)
        names = agents_of(schedule.federation.domains[DOMAIN])
        self.agents = [VirtualAgent(name, host, self) for name, host in names.items()]
        self.clients: dict[str, VirtualClient] = {}
        self._make_clients()
        self.kinds: dict[str, int] = {}
        """How often each kind of event happened."""
        self.acted_in = 0
        """The latest term in which anybody acted."""
        self.actions = 0
        self.policies: dict[int, str] = {}
        """Digests of all policies that were in force anywhere, by version."""
        self.completed = 0
        """Policies that a successor put in force."""
        self.plan_answers = 0
        self._tokens = 0
        self._asked: dict[int, Registration] = {}
        self._held: dict[str, int] = {}
        self.probing = False
        self.dead: dict[str, float] = {}
        """Brokers that are dead, since when."""

    def _make_clients(self) -> None:
        domain = self.schedule.federation.domains[DOMAIN]
        brokers = [f"{DOMAIN}-head", *(f"{DOMAIN}-edge{number + 1}" for number in range(len(domain.edges)))]
        self.traffic.edges_of[DOMAIN] = brokers[1:]
        for broker in brokers:
            is_head = broker.endswith("-head")
            self.traffic.brokers[broker] = VirtualBroker(broker, DOMAIN, is_head, 1e6, self.traffic)
        held: dict[str, list[Held]] = {f"c{number}": [] for number in range(self.schedule.clients)}
        for number, topic in enumerate(self.schedule.topics):
            self.traffic.rates[topic] = self.traffic.offered[topic] = 10.0
            self.traffic.sizes[topic] = 100.0
            self.traffic.published_in[topic] = DOMAIN
            publisher, subscriber = f"c{number % len(held)}", f"c{(number + 1) % len(held)}"
            self.traffic.publishers[topic] = publisher
            held[publisher].append(Held(f"p/{topic}", topic, ClientRole.PUBLISHER, DOMAIN))
            held[subscriber].append(Held(f"s/{topic}", topic, ClientRole.SUBSCRIBER, DOMAIN))
        for name, wishes in held.items():
            if wishes:
                self.clients[name] = VirtualClient(name, self.world, self.traffic, self._heard, wishes)

    def problem(self, text: str) -> None:
        """A promise was broken."""
        if len(self.problems) < 20:
            self.problems.append(f"{self.world.now:.2f} s: {text}")

    # -- between agents -------------------------------------------------------------------------------------

    def tell_members(self, sender: VirtualAgent, beat: MemberBeat) -> None:
        """A beat goes to all others, to each by itself."""
        for agent in self.agents:
            if agent is not sender and not sender.cut and not sender.deaf:
                self.world.send(lambda agent=agent: agent.hear_member(beat))  # type: ignore[misc]

    def tell_lease(self, sender: VirtualAgent, _changed: LeaseChanged) -> None:
        """The others are told that the record of the lease is another."""
        for agent in self.agents:
            if agent is not sender and not sender.cut and not sender.deaf:
                self.world.send(agent.lease_changed)

    # -- between agents and clients -------------------------------------------------------------------------

    def _heard(self, _domain: str, stimulus: Stimulus) -> None:
        """A client has said something on a subject that all agents hear and the leader listens to."""
        if isinstance(stimulus, ClientRegistered):
            self._tokens += 1
            self._asked[self._tokens] = stimulus.registration
            stimulus = ClientRegistered(stimulus.registration, self._tokens)
        for agent in self.agents:
            agent.hear(stimulus, as_leader=True)

    def said(self, agent: VirtualAgent, instruction: Instruction, term: int) -> None:
        """An agent's message leaves it."""
        self.acted(agent, term)
        if agent.cut:
            return
        match instruction:
            case AnswerRegistration(token=token, answer=answer):
                asked = self._asked.pop(token, None)
                if asked is not None:
                    client = self.clients[asked.client]
                    self.world.send(lambda: client.answered(DOMAIN, asked.sequence, answer))
            case TellClient(client=name, order=order):
                if (told := self.clients.get(name)) is not None:
                    self.world.send(lambda: told.ordered(DOMAIN, order))
            case Announce(announcement=news):
                for each in self.clients.values():
                    self.world.send(
                        lambda each=each: each.announced(DOMAIN, news.term, news.spread_s)  # type: ignore[misc]
                    )
            case PushDirectory(changes=changes):
                if changes.term != term:
                    self.problem(f"{agent.name} pushes records of term {changes.term} in term {term}")
            case _:
                pass

    def acted(self, agent: VirtualAgent, term: int) -> None:
        """An agent does something that only a leader may: never after somebody did in a later term."""
        self.actions += 1
        if term < self.acted_in:
            self.problem(f"{agent.name} acts in term {term}, after somebody acted in {self.acted_in}")
        self.acted_in = max(self.acted_in, term)
        others = [each.name for each in self.agents if each is not agent and each.well and each.leads_in]
        if others:
            self.problem(f"{agent.name} acts while {others} lead")

    def answered(self, answer: AnswerOperator) -> None:
        """An operator hears what became of a plan: it is in force only if the store says so."""
        if answer.answer.problem:
            return
        told = msgspec.json.decode(answer.answer.result)
        version = told.get("version", 0) if isinstance(told, dict) else 0
        if not version:
            return
        self.plan_answers += 1
        committed = self.store.committed()
        if committed is None or committed.version < version:
            self.problem(f"an operator was told that plan {version} is in force, and the store has none such")

    # -- brokers --------------------------------------------------------------------------------------------

    def watch_s(self) -> float:
        """How often agents look at brokers: closely only where brokers die, which takes long to play."""
        return PROBE_S if self.probing else SAMPLE_S

    def observed(self) -> list[Stimulus]:
        """What an agent finds when it looks at all brokers."""
        told: list[Stimulus] = []
        now = self.world.now
        sampling = not self.probing or now % SAMPLE_S < PROBE_S
        for name, broker in self.traffic.brokers.items():
            if self.probing:
                told.append(BrokerProbed(name, answered=name not in self.dead))
            if sampling and name in self.dead:
                told.append(BrokerUnreachable(name, "it does not answer"))
            elif sampling:
                told.append(BrokerSampled(broker.sample(now)))
        return told

    # -- looks ----------------------------------------------------------------------------------------------

    def happened(self, events: list[Event]) -> None:
        """Count what the agents note."""
        for event in events:
            self.kinds[event.kind] = self.kinds.get(event.kind, 0) + 1
            if isinstance(event.happening, PolicyCommitted) and event.happening.completed:
                self.completed += 1

    def look_at(self, agent: VirtualAgent) -> None:
        """What an agent holds never goes back, and is the same for all who hold that version."""
        assert agent.brain is not None
        record = agent.brain.policy
        if record is None:
            return
        if record.version < self._held.get(f"{agent.name}/{id(agent.brain)}", 0):
            self.problem(f"{agent.name} goes back to policy {record.version}")
        if self._held.get(f"{agent.name}/{id(agent.brain)}") == record.version:
            return
        self._held[f"{agent.name}/{id(agent.brain)}"] = record.version
        if self.policies.setdefault(record.version, record.digest) != record.digest:
            self.problem(f"{agent.name} holds another policy {record.version} than others did")
        committed = self.store.committed()
        if committed is None or committed.version < record.version:
            self.problem(f"{agent.name} holds policy {record.version} in force, the store does not")

    def look(self) -> None:
        """At all of it, several times a second."""
        leading = [agent for agent in self.agents if agent.well and agent.leads_in]
        if len(leading) > 1:
            self.problem(f"{[agent.name for agent in leading]} lead at the same time")
        committed = self.store.committed()
        if self.policies and (committed is None or committed.version < max(self.policies)):
            self.problem(f"policy {max(self.policies)} was in force and is lost")
        for agent in leading:
            assert agent.brain is not None
            self._look_at_directory(agent)

    def look_inside(self) -> None:
        """At the leader's own invariants, which takes longer.

        A client that still says it is at a dead broker is believed when a term begins, until that is decided
        on again: what the directory says of dead brokers is judged by the bound alone.
        """
        for agent in self.agents:
            if agent.brain is not None and agent.well and agent.leads_in:
                for found in agent.brain.problems():
                    if not found.endswith(OF_THE_DEAD):
                        self.problem(f"{agent.name}: {found}")

    def _look_at_directory(self, agent: VirtualAgent) -> None:
        assert agent.brain is not None
        for broker, since in self.dead.items():
            named_s = self.world.now - max(since, agent.well_since)
            if named_s <= BOUND_S + SLACK_S:
                continue
            page = agent.brain.directory_page(DirectoryQuestion(), agent.clock())
            for record in (each.record for each in page.topics if each.record is not None):
                if broker in record.edges or broker in (record.publish_at, record.mirror):
                    self.problem(f"{record.topic} is at {broker} {named_s:.2f} s after its death")
