"""Whoever is told that its subscription is ready hears every publisher, whatever was lost or late.

Publishers that keep to the rules ask, hear and answer through a management broker that delays and loses what
it likes. Nobody may be confirmed while a publisher still thinks that nobody listens.
"""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.gateway.audience.leaves import Leaves
from mangrove.gateway.audience.subject_tree import SubjectTree
from mangrove.model.questions.audience import LEAVE_S, AudienceAnswer, AudienceRequest, Wanted
from mangrove.model.subjects import covers
from mangrove.model.topics import TopicRules

SUBJECTS = ("a.b", "a.c", "b.c", "b")
PATTERNS = (*SUBJECTS, "a.*", "*.c", "a.>", ">", "c.>")


class Publisher:
    """One that keeps to the rules of `model.questions.audience`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.knows = 0
        self.until: dict[str, float] = {}
        self.newer: dict[int, tuple[str, ...]] = {}

    def ask(self, subjects: tuple[str, ...]) -> AudienceRequest:
        self.until = {subject: until for subject, until in self.until.items() if subject in subjects}
        return AudienceRequest(client=self.name, subjects=subjects, knows=self.knows)

    def answered(self, answer: AudienceAnswer, asked_at: float) -> None:
        taken = {subject for number, each in self.newer.items() if number > answer.number for subject in each}
        self.until = {subject: asked_at + LEAVE_S for subject in answer.unwanted if subject not in taken}

    def heard(self, wanted: Wanted) -> None:
        self.newer[wanted.number] = wanted.subjects
        self.knows = max(self.knows, wanted.number)
        for subject in wanted.subjects:
            self.until.pop(subject, None)

    def silent_on(self, pattern: str, now: float) -> bool:
        return any(until > now and covers(pattern, subject) for subject, until in self.until.items())


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.interest: dict[int, str] = {}
        self.subscriptions = 0
        self.leaves = Leaves(TopicRules(), self.unwanted)
        self.publishers = [Publisher(f"publisher-{number}") for number in range(3)]
        self.to_gateway: list[tuple[Publisher, AudienceRequest, float]] = []
        self.to_clients: list[tuple[Publisher, object, float]] = []
        self.confirmed = self.silences = 0

    def unwanted(self, subject: str) -> bool:
        return not any(covers(pattern, subject) for pattern in self.interest.values())

    def ask(self) -> None:
        publisher = self.random.choice(self.publishers)
        subjects = tuple(self.random.sample(SUBJECTS, self.random.randint(0, len(SUBJECTS))))
        self.to_gateway = [each for each in self.to_gateway if each[0] is not publisher]
        self.to_clients = [
            each for each in self.to_clients if each[0] is not publisher or isinstance(each[1], Wanted)
        ]
        self.to_gateway.append((publisher, publisher.ask(subjects), self.now))

    def serve(self) -> None:
        if self.to_gateway:
            publisher, request, asked_at = self.to_gateway.pop(self.random.randrange(len(self.to_gateway)))
            answer = self.leaves.ask(request, self.now, self.now, "")
            self.to_clients.append((publisher, answer, asked_at))

    def hear(self) -> None:
        if self.to_clients:
            publisher, word, asked_at = self.to_clients.pop(self.random.randrange(len(self.to_clients)))
            if isinstance(word, Wanted):
                publisher.heard(word)
            elif isinstance(word, AudienceAnswer):
                publisher.answered(word, asked_at)
                self.silences += bool(publisher.until)

    def lose(self) -> None:
        for queue in (self.to_gateway, self.to_clients):
            if queue and self.random.random() < 0.5:
                queue.pop(self.random.randrange(len(queue)))

    def subscribe(self) -> None:
        pattern = self.random.choice(PATTERNS)
        self.subscriptions += 1
        number = self.subscriptions
        self.interest[number] = pattern
        self.leaves.wanted(pattern)
        names = {publisher.name: publisher for publisher in self.publishers}
        self.to_clients += [(names[name], word, 0.0) for name, word in self.leaves.notices(self.now)]
        self.leaves.when_known(lambda: self.ready(number, pattern))

    def ready(self, number: int, pattern: str) -> None:
        self.confirmed += 1
        if number in self.interest:
            for publisher in self.publishers:
                assert not publisher.silent_on(pattern, self.now), f"{publisher.name} on {pattern}"

    def unsubscribe(self) -> None:
        if self.interest:
            del self.interest[self.random.choice(list(self.interest))]

    def wait(self) -> None:
        self.now += self.random.choice((0.01, 0.3, 1.0, LEAVE_S))
        self.leaves.expire(self.now)


STEPS = (World.ask, World.serve, World.hear, World.lose, World.subscribe, World.unsubscribe, World.wait)
WEIGHTS = (4, 4, 4, 1, 1, 2, 2)


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_nobody_is_confirmed_while_a_publisher_is_silent(seed: int) -> None:
    world = World(seed)
    for step in world.random.choices(STEPS, WEIGHTS, k=300):
        step(world)
        assert world.leaves.problems() == []
    world.now += 2 * LEAVE_S
    world.leaves.expire(world.now)
    assert world.leaves.awaited == 0


def test_the_world_above_is_one_in_which_publishers_are_silent_and_subscribers_wait() -> None:
    worlds = [World(seed) for seed in range(20)]
    for world in worlds:
        for step in world.random.choices(STEPS, WEIGHTS, k=300):
            step(world)
    assert sum(world.silences for world in worlds) > 100
    assert sum(world.confirmed for world in worlds) > 100
    assert sum(world.leaves.taken_back for world in worlds) > 100


@settings(max_examples=100, deadline=None)
@given(
    subjects=st.sets(st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(".".join), max_size=20),
    removed=st.sets(st.integers(0, 19)),
    pattern=st.lists(st.sampled_from(("a", "b", "*")), max_size=4),
    rest=st.booleans(),
)
def test_a_tree_finds_what_a_pattern_covers(
    subjects: set[str], removed: set[int], pattern: list[str], rest: bool
) -> None:
    tokens = [*pattern, ">"] if rest or not pattern else pattern
    tree = SubjectTree()
    for subject in sorted(subjects):
        tree.add(subject)
    left = {subject for number, subject in enumerate(sorted(subjects)) if number not in removed}
    for subject in subjects - left:
        tree.remove(subject)
    found = tree.under(".".join(tokens), 10_000)
    assert found is not None
    assert sorted(found[0]) == sorted(subject for subject in left if covers(".".join(tokens), subject))
