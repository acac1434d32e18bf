"""Edges and their subscribers with known traffic: what each broker truly carries, and what it would count."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from mangrove.control.load.detector import LoadDetector
from mangrove.control.offloading.problem import Audience
from mangrove.control.profile.profile import LoadProfile
from mangrove.model.agents.load import Amounts, BrokerLoad, BrokerSample
from mangrove.model.agents.registration import ClientRole, Report, Traffic, Wish
from mangrove.model.balancing import Balancing
from mangrove.model.subjects import matches
from mangrove.model.topics import TopicRules

SUBJECTS = tuple(f"{group}.{number}" for group in "abc" for number in range(4))
PATTERNS = (*SUBJECTS, "a.*", "b.>", ">")
EDGES = ("e0", "e1", "e2", "e3")
SOURCE = "e0"


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One client with one subscription."""

    name: str
    pattern: str
    edge: str
    queue: str = ""
    movable: bool = True
    deadline_ms: float | None = None


@dataclass(frozen=True)
class World:
    """Subjects with messages a second and a size, and who subscribes where."""

    published: dict[str, tuple[int, int]]
    subscribers: tuple[Subscriber, ...]
    audiences: dict[str, Audience] = field(default_factory=dict)

    def load(self, edge: str) -> Amounts:
        """What an edge carries: each message in once if anybody there wants it, and out to all who do."""
        here = [one for one in self.subscribers if one.edge == edge]
        input_, output, matching = 0, 0, 0
        for subject, (messages, size) in self.published.items():
            wanting = [one for one in here if matches(one.pattern, subject)]
            groups = {(one.pattern, one.queue) for one in wanting if one.queue}
            copies = len(groups) + sum(not one.queue for one in wanting)
            input_ += messages * size if copies else 0
            matching += messages if copies else 0
            output += messages * size * copies
        return Amounts(input_, output, matching)

    def received(self) -> dict[str, Traffic]:
        """What each client is handed in a second; the members of a queue group share it."""
        groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for one in self.subscribers:
            groups[one.edge, one.pattern, one.queue or one.name].append(one.name)
        found = {one.name: [0, 0] for one in self.subscribers}
        for (_, pattern, _), members in groups.items():
            for subject, (messages, size) in self.published.items():
                if matches(pattern, subject):
                    for place, name in enumerate(members):
                        share = messages // len(members) + (place < messages % len(members))
                        found[name][0] += share
                        found[name][1] += share * size
        return {name: Traffic(*each) for name, each in found.items()}

    def moved(self, clients: set[str], to: str) -> World:
        """The world after these clients have moved; an edge of no name is away from all."""
        return replace(
            self,
            subscribers=tuple(
                replace(one, edge=to) if one.name in clients else one for one in self.subscribers
            ),
        )

    def profile(self, balancing: Balancing) -> LoadProfile:
        """What an agent knows from the clients' reports."""
        profile = LoadProfile(balancing, TopicRules())
        received = self.received()
        for one in self.subscribers:
            wish = Wish(
                key="s",
                role=ClientRole.SUBSCRIBER,
                subject=one.pattern,
                queue=one.queue,
                movable=one.movable,
                deadline_ms=one.deadline_ms,
            )
            profile.place(one.name, wish, one.edge)
            report = Report(client=one.name, sequence=1, span_s=1.0, received={"s": received[one.name]})
            assert profile.report(report) == ""
        return profile

    def measured(self, edge: str, capacity: Amounts, balancing: Balancing) -> BrokerLoad:
        """What a detector says of an edge that has carried its load for a second."""
        detector = LoadDetector(edge, "edge", capacity, balancing)
        load = self.load(edge)
        for second in (0, 1):
            sample = BrokerSample(
                broker=edge,
                started="once",
                messages_in=int(load.matching) * second,
                messages_out=0,
                bytes_in=int(load.input) * second,
                bytes_out=int(load.output) * second,
            )
            told = detector.sample(sample, float(second))
        return told


@st.composite
def worlds(draw: st.DrawFn, *, patterns: tuple[str, ...] = PATTERNS) -> World:
    """A world whose source has subscribers."""
    published = {subject: (draw(st.integers(0, 2000)), draw(st.integers(1, 1000))) for subject in SUBJECTS}
    count = draw(st.integers(1, 14))
    subscribers = tuple(
        Subscriber(
            name=f"c{number}",
            pattern=draw(st.sampled_from(patterns)),
            edge=SOURCE if number == 0 else draw(st.sampled_from((SOURCE, SOURCE, *EDGES))),
            queue=draw(st.sampled_from(("", "", "", "g"))),
            movable=draw(st.sampled_from((True, True, True, False))),
            deadline_ms=draw(st.sampled_from((None, 100.0, 1000.0, 5000.0))),
        )
        for number in range(count)
    )
    audiences = {pattern: draw(st.sampled_from(list(Audience))) for pattern in patterns}
    return World(published, subscribers, audiences)
