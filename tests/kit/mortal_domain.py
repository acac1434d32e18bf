"""A domain's brain in steps of a probe: its brokers answer, die or are loaded as a test wants."""

from __future__ import annotations

from dataclasses import dataclass, field

from mangrove.control.brain import AgentBrain
from mangrove.control.failures.detector import PROBE_S
from mangrove.control.instructions import (
    AnswerRegistration,
    Instruction,
    LookAtClients,
    Store,
    SwitchBroker,
    TellClient,
)
from mangrove.control.stimuli import (
    BrokerProbed,
    BrokerSampled,
    BrokerUnreachable,
    ClientRegistered,
    ClientSaid,
    LeadershipTaken,
    PlainClientsSeen,
    Stored,
)
from mangrove.model.agents.directory import DirectoryQuestion, DirectoryRecord
from mangrove.model.agents.load import BrokerSample
from mangrove.model.agents.plain_clients import PlainClient
from mangrove.model.agents.registration import (
    BrokerSuspected,
    ClientRole,
    Migrated,
    Order,
    Registered,
    Registration,
    Report,
    Wish,
)
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.events.event_log import Event
from mangrove.model.federation import Domain, Edge, Elastic, Federation, Host
from mangrove.model.topics import Contract, TopicRules

BROKERS = ("oslo-head", "oslo-edge1", "oslo-edge2", "oslo-edge3")
REPORT_S = 5.0


@dataclass
class MortalDomain:
    """A brain, its brokers' answers (`+`, `-`, `x`) and its store, in steps of a probe."""

    agent: AgentBrain
    answers: dict[str, str] = field(default_factory=lambda: dict.fromkeys(BROKERS, "+"))
    now: float = 0.0
    told: list[Instruction] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    store: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"directory": {}, "sessions": {}})
    sequence: int = 0
    steps: int = 0
    clients: set[str] = field(default_factory=set)
    rates: dict[str, float] = field(default_factory=dict)
    """Messages a second into each broker that is sampled."""
    plain: dict[str, tuple[PlainClient, ...]] = field(default_factory=dict)
    counted: dict[str, float] = field(default_factory=dict)

    def lead(self, term: int = 3, directory: tuple[DirectoryRecord, ...] = ()) -> None:
        sessions = tuple(self.store["sessions"].values())
        self.take(self.agent.handle(LeadershipTaken(term, directory, sessions), self.now))

    def take(self, told: list[Instruction]) -> None:
        self.told += told
        self.events += self.agent.take_events()
        for each in told:
            if isinstance(each, Store):
                for write in each.writes:
                    if write.value is None:
                        self.store[write.bucket].pop(write.key, None)
                    else:
                        self.store[write.bucket][write.key] = write.value
                self.take(self.agent.handle(Stored(each.write), self.now))
            elif isinstance(each, TellClient) and isinstance(each.order, Order):
                self._obey(each.client, each.order)
            elif isinstance(each, SwitchBroker):
                self.answers[each.broker] = "+" if each.on else "x"
            elif isinstance(each, LookAtClients):
                seen = PlainClientsSeen(each.broker, self.plain.get(each.broker, ()))
                self.take(self.agent.handle(seen, self.now))

    def _obey(self, client: str, order: Order) -> None:
        self.sequence += 1
        done = Migrated(
            client=client,
            sequence=self.sequence,
            session=order.session,
            key=order.key,
            broker=order.to.broker,
        )
        self.take(self.agent.handle(ClientSaid(done), self.now))

    def _sample(self) -> None:
        for broker, rate in self.rates.items():
            self.counted[broker] = self.counted.get(broker, 0.0) + rate
            if self.answers[broker] == "+":
                count = int(self.counted[broker])
                sample = BrokerSample(
                    broker=broker,
                    started="once",
                    messages_in=count,
                    messages_out=count,
                    bytes_in=100 * count,
                    bytes_out=100 * count,
                )
                self.take(self.agent.handle(BrokerSampled(sample), self.now))
            else:
                self.take(self.agent.handle(BrokerUnreachable(broker, "refused"), self.now))

    def _report(self) -> None:
        for client in sorted(self.clients):
            self.sequence += 1
            report = Report(client=client, sequence=self.sequence, span_s=REPORT_S)
            self.take(self.agent.handle(ClientSaid(report), self.now))

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / PROBE_S)):
            self.steps += 1
            self.now += PROBE_S
            if self.steps % round(1.0 / PROBE_S) == 0:
                self._sample()
            if self.steps % round(REPORT_S / PROBE_S) == 0:
                self._report()
            for broker, answer in self.answers.items():
                self.take(self.agent.handle(BrokerProbed(broker, answer == "+", answer == "x"), self.now))
            while self.agent.timer() <= self.now:
                self.take(self.agent.handle_timer(self.now))
            assert self.agent.problems() == []

    def subscribe(
        self, topic: str, broker: str = "", client: str = "c1", role: str = "subscriber"
    ) -> Registered:
        self.sequence += 1
        wish = Wish(key=f"{role}-{topic}", role=ClientRole(role), subject=topic, broker=broker)
        registration = Registration(
            client=client,
            sequence=self.sequence,
            public_key=b"",
            exchange_key=b"",
            wishes=(wish,),
            complete=client not in self.clients,
        )
        self.clients.add(client)
        told = self.agent.handle(ClientRegistered(registration, 1), self.now)
        self.take(told)
        (answer,) = [each.answer for each in told if isinstance(each, AnswerRegistration)]
        return answer

    def suspect(self, broker: str, client: str) -> list[Instruction]:
        self.sequence += 1
        message = BrokerSuspected(client=client, sequence=self.sequence, broker=broker, evidence="closed")
        told = self.agent.handle(ClientSaid(message), self.now)
        self.take(told)
        return told

    def edges(self, topic: str) -> tuple[str, ...]:
        page = self.agent.directory_page(DirectoryQuestion(), self.now)
        return next((each.record.edges for each in page.topics if each.topic == topic and each.record), ())

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


def domain(
    hosts: tuple[Host, ...] = (),
    elastic: Elastic | None = None,
    edges: int = 3,
    contracts: tuple[Contract, ...] = (),
) -> MortalDomain:
    """A domain that its agent leads, with all brokers alive that run from the start."""
    described = Domain(
        name="oslo",
        base_port=4000,
        edges=(Edge(capacity=1000.0),) * edges,
        hosts=hosts,
        elastic=elastic or Elastic(),
    )
    federation = Federation(name="f", domains={"oslo": described}, topics=TopicRules(contracts))
    endpoints = fixed_endpoints(described)
    made = MortalDomain(AgentBrain(federation, "oslo", "oslo-agent", seed=1, clock_shift_s=1e9))
    spares = {broker.name for broker in endpoints.spares}
    made.answers = {each.name: "x" if each.name in spares else "+" for each in endpoints.succession}
    made.lead()
    made.run(1.0)
    return made
