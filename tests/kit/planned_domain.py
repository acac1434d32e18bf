"""An agent's brain with clients that do as they are told, for plans: the store answers when a test wants."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import msgspec

from mangrove.control.brain import AgentBrain
from mangrove.control.instructions import (
    AnswerOperator,
    AnswerRegistration,
    Instruction,
    PushDirectory,
    Store,
    TellClient,
)
from mangrove.control.stimuli import (
    BrokerSampled,
    BrokerUnreachable,
    ClientRegistered,
    ClientSaid,
    LeadershipTaken,
    OperatorAsked,
    PlanFound,
    Stored,
    StoreFailed,
)
from mangrove.model.agents.directory import DirectoryQuestion, DirectoryRecord, read_record
from mangrove.model.agents.load import BrokerSample
from mangrove.model.agents.operations import Operation, OperationAnswer, PlanApplied, PlanShown
from mangrove.model.agents.registration import ClientRole, Leave, Migrated, Order, Registration, Report, Wish
from mangrove.model.federation import Domain, Edge, Federation
from mangrove.model.plans.account import PlansTold, PlanTaken
from mangrove.model.plans.rules import PlanRules
from mangrove.model.plans.topology import topology_fingerprint
from mangrove.model.topics import TopicRules

DOMAIN = "oslo"
WALL = 1_800_000_000.0
"""Seconds since 1970 at the agent's time 0."""


REPORTED_S = 5.0


def broker(number: int) -> str:
    return f"{DOMAIN}-edge{number}"


def small_federation(
    edges: int = 3, rules: PlanRules | None = None, topics: TopicRules | None = None
) -> Federation:
    domain = Domain(name=DOMAIN, base_port=4000, edges=(Edge(capacity=1000.0),) * edges)
    return Federation(
        name="f", domains={DOMAIN: domain}, plans=rules or PlanRules(), topics=topics or TopicRules()
    )


def answer(made_for: Federation, where: Mapping[str, str], **changes: object) -> bytes:
    """As `plan allocate --json` writes it; None removes a field."""
    allocation: dict[str, list[str]] = {}
    for item, at in where.items():
        allocation.setdefault(at, []).append(item)
    document = {
        "allocation": allocation,
        "risk": dict.fromkeys(allocation, 0.01),
        "joint_ok": 0.97,
        "federation": made_for.name,
        "domain": DOMAIN,
        "topology": topology_fingerprint(made_for, DOMAIN),
        "made_at": WALL,
        "data_until": WALL - 60,
        **changes,
    }
    return json.dumps({name: value for name, value in document.items() if value is not None}).encode()


class PlannedDomain:
    """One brain after another (`change_leaders`), the same clients and the same store."""

    def __init__(self, federation: Federation | None = None) -> None:
        self.federation = federation or small_federation()
        self.now = 0.0
        self.term = 0
        self.store: dict[tuple[str, str], bytes] = {}
        self.storing = True
        self.refusing = ""
        """Writes of this key fail."""
        self.obeying = True
        self.places: dict[str, str] = {}
        """Client → where it is served."""
        self.topics: dict[str, str] = {}
        self.sequences: dict[str, int] = {}
        self.orders: list[tuple[str, Order]] = []
        self.waiting: list[Store] = []
        self.answers: dict[int, OperationAnswer] = {}
        self.kinds: list[str] = []
        self.sentences: list[str] = []
        self._token = 0
        self._reported = 0.0
        self.change_leaders()

    # -- leaders

    def change_leaders(self) -> None:
        """The brain is gone with everything that it knew; another begins with what the store has."""
        self.term += 1
        self.waiting.clear()
        self.brain = AgentBrain(
            self.federation, DOMAIN, "oslo-agent", seed=1, clock_shift_s=WALL, events_before=1000 * self.term
        )
        records = tuple(
            read_record(value) for (bucket, _), value in self.store.items() if bucket == "directory"
        )
        sessions = tuple(value for (bucket, _), value in self.store.items() if bucket == "sessions")
        self.do(self.brain.handle(LeadershipTaken(self.term, records, sessions), self.now))
        for client in self.topics:
            self.register(client, self.topics[client])

    def stored_in(self, bucket: str) -> list[bytes]:
        return [value for (each, _), value in self.store.items() if each == bucket]

    # -- clients

    def register(self, client: str, topic: str, **wish: object) -> str:
        """A client subscribes, or says again where it is served; where it is served then."""
        self.sequences[client] = self.sequences.get(client, 0) + 1
        made = Wish(
            key="s",
            role=ClientRole.SUBSCRIBER,
            subject=topic,
            broker=self.places.get(client, ""),
            **wish,  # type: ignore[arg-type]
        )
        registration = Registration(
            client=client, sequence=self.sequences[client], public_key=b"", exchange_key=b"", wishes=(made,)
        )
        self.topics[client] = topic
        self.do(self.brain.handle(ClientRegistered(registration, token=1), self.now), client)
        return self.places.get(client, "")

    def leave(self, client: str) -> None:
        """A client goes."""
        self.sequences[client] += 1
        gone = Leave(client=client, sequence=self.sequences[client])
        del self.topics[client], self.places[client]
        self.orders = [each for each in self.orders if each[0] != client]
        self.do(self.brain.handle(ClientSaid(gone), self.now))

    def obey(self, client: str, order: Order, problem: str = "") -> None:
        """A client carries an order out, or says why not."""
        if not problem:
            self.places[client] = order.to.broker
        self.sequences[client] += 1
        done = Migrated(
            client=client,
            sequence=self.sequences[client],
            session=order.session,
            key=order.key,
            broker=self.places[client],
            problem=problem,
        )
        self.do(self.brain.handle(ClientSaid(done), self.now))

    # -- what the brain wants

    def do(self, told: Iterable[Instruction], client: str = "") -> None:
        for each in told:
            match each:
                case AnswerRegistration(answer=registered):
                    if client and "s" in registered.assignments:
                        self.places[client] = registered.assignments["s"].broker
                case TellClient(client=to, order=Order() as order):
                    self.orders.append((to, order))
                case AnswerOperator(token=token, answer=said):
                    self.answers[token] = said
                case Store() if self.storing:
                    self.waiting.append(each)
                case PushDirectory() | _:
                    pass
        for event in self.brain.take_events():
            self.kinds.append(event.kind)
            self.sentences.append(event.happening.sentence())

    def settle(self) -> None:
        """The store takes what waits, and clients that obey do as they were told."""
        while self.waiting or (self.obeying and self.orders):
            waiting, self.waiting = self.waiting, []
            for each in waiting:
                if self.refusing and self.refusing in {write.key for write in each.writes}:
                    self.do(self.brain.handle(StoreFailed(each.write, "away"), self.now))
                    continue
                for write in each.writes:
                    if write.value is None:
                        self.store.pop((write.bucket, write.key), None)
                    else:
                        self.store[write.bucket, write.key] = write.value
                self.do(self.brain.handle(Stored(each.write), self.now))
            orders, self.orders = (self.orders, []) if self.obeying else ([], self.orders)
            for client, order in orders:
                if client in self.topics:
                    self.obey(client, order)

    def fail_writes(self) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            self.do(self.brain.handle(StoreFailed(each.write, "away"), self.now))

    def run(self, seconds: float) -> None:
        """Time passes; brokers are seen, and clients are heard of."""
        until = self.now + seconds
        while self.now < until:
            self.settle()
            assert self.brain.problems() == []
            self.now = min(until, max(self.now + 1e-3, min(self.brain.timer(), self.now + 0.5)))
            self.do(self.brain.handle_timer(self.now))
            if self.now >= self._reported + REPORTED_S:
                self._reported = self.now
                for client in self.topics:
                    self.sequences[client] += 1
                    report = Report(client=client, sequence=self.sequences[client], span_s=REPORTED_S)
                    self.do(self.brain.handle(ClientSaid(report), self.now))
        self.settle()

    def sample(self, *dead: str) -> None:
        """Every broker answers, but for the dead."""
        for number in range(1, len(self.federation.domains[DOMAIN].edges) + 1):
            name = broker(number)
            if name in dead:
                self.do(self.brain.handle(BrokerUnreachable(name, "refused"), self.now))
            else:
                sample = BrokerSample(
                    broker=name, started="then", messages_in=0, messages_out=0, bytes_in=0, bytes_out=0
                )
                self.do(self.brain.handle(BrokerSampled(sample), self.now))

    # -- operators

    def ask(self, operation: Operation) -> OperationAnswer:
        """What the leader says to it, when it has what it needs."""
        self._token += 1
        self.do(self.brain.handle(OperatorAsked(operation, self._token), self.now))
        self.settle()
        return self.answers[self._token]

    def apply(self, where: Mapping[str, str], **changes: object) -> PlanTaken:
        told = self.ask(PlanApplied(plan=answer(self.federation, where, **changes)))
        assert not told.problem, told.problem
        return msgspec.json.decode(told.result, type=PlanTaken)

    def shown(self, version: int = 0) -> PlansTold:
        told = self.ask(PlanShown(version=version))
        assert not told.problem, told.problem
        return msgspec.json.decode(told.result, type=PlansTold)

    def find(self, name: str, document: bytes) -> None:
        self.do(self.brain.handle(PlanFound(name, document), self.now))
        self.settle()

    # -- the directory

    def directory(self) -> dict[str, DirectoryRecord]:
        page = self.brain.directory_page(DirectoryQuestion(limit=1000), self.now)
        return {each.topic: each.record for each in page.topics if each.record is not None}

    def edges(self) -> dict[str, tuple[str, ...]]:
        return {topic: record.edges for topic, record in self.directory().items() if record.edges}
