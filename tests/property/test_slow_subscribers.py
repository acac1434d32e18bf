"""Policies for slow subscribers against simple models: nothing unaccounted for, limits and order kept."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.received import received

from mangrove.client.message import Message, MessageIds, size_of
from mangrove.client.pending.latest import LatestOnly
from mangrove.client.pending.least_useful import DropLeastUseful
from mangrove.client.pending.oldest import CutOff, DropOldest
from mangrove.client.pending.waiting import Waiting
from mangrove.client.usefulness.judge import Judge
from mangrove.model.shared_names import UTILITY_HEADER

UTILITIES = (0.0, 0.25, 0.5, 0.75, 1.0)
Arrivals = list[tuple[int, float, int]]
"""Subject, utility, size."""

ARRIVAL = st.tuples(st.integers(0, 3), st.sampled_from(UTILITIES), st.integers(0, 60))
STEPS = st.lists(st.one_of(st.lists(ARRIVAL, min_size=1, max_size=12), st.integers(1, 8)), max_size=25)
"""Buffers that come, and numbers of messages that are read."""


class Run:
    """Plays steps on one policy and keeps the account."""

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        waiting.take_back = self.take_back
        self.ids = MessageIds()
        self.came: list[Message] = []
        self.read: list[Message] = []
        self.lost: list[Message] = []
        self.in_hand: list[Message] = []
        self.utility: dict[int, float] = {}

    def arrive(self, arrivals: Arrivals) -> list[Message]:
        """Feed a buffer as a subscription does; what is lost."""
        messages = []
        for subject, utility, size in arrivals:
            message = received(f"s.{subject}", b"x" * size, {UTILITY_HEADER: f"{utility}"}, self.ids)
            self.utility[id(message)] = utility
            messages.append(message)
        self.came += messages
        lost = self.waiting.put(messages, sum(map(size_of, messages)))
        self.lost += lost
        return lost

    def take_back(self) -> list[Message]:
        """As a subscription does."""
        in_hand, self.in_hand = self.in_hand, []
        return in_hand

    def take(self, count: int) -> None:
        """Read messages."""
        for _ in range(count):
            if not self.in_hand:
                self.in_hand = list(self.waiting.take())
            if self.in_hand:
                self.read.append(self.in_hand.pop(0))

    def waits(self) -> list[Message]:
        """Everything that is still to be read; takes it out."""
        before = len(self.read)
        self.take(len(self.came))
        rest = self.read[before:]
        del self.read[before:]
        return rest

    def check(self) -> None:
        """After every step."""
        waiting = self.waiting
        assert waiting.messages <= waiting.max_messages
        assert waiting.size_bytes <= waiting.max_bytes or waiting.messages == 1
        assert waiting.size_bytes >= 0
        assert len(self.came) == len(self.read) + len(self.lost) + len(self.in_hand) + waiting.messages

    def check_end(self) -> None:
        """Every message was read or lost, none both, none twice."""
        rest = self.waits()
        assert self.waiting.messages == 0
        assert self.waiting.size_bytes == 0
        everything = [id(message) for message in (*self.read, *rest, *self.lost)]
        assert sorted(everything) == sorted(id(message) for message in self.came)
        self.read += rest

    def places(self, messages: Sequence[Message]) -> list[int]:
        """Their places among all that came."""
        places = {id(message): place for place, message in enumerate(self.came)}
        return [places[id(message)] for message in messages]


def play(run: Run, steps: list[Arrivals | int]) -> None:
    for step in steps:
        if isinstance(step, int):
            run.take(step)
        else:
            run.arrive(step)
        run.check()


LIMITS = st.tuples(st.integers(1, 20), st.sampled_from((300, 1500, 1 << 20)))


@settings(max_examples=60)
@given(STEPS, LIMITS)
def test_the_oldest_go_first(steps: list[Arrivals | int], limits: tuple[int, int]) -> None:
    run = Run(DropOldest(*limits))
    play(run, steps)
    run.check_end()
    assert run.places(run.read) == sorted(run.places(run.read))
    assert run.places(run.lost) == sorted(run.places(run.lost))


@settings(max_examples=60)
@given(STEPS, st.integers(1, 20))
def test_with_a_limit_in_messages_the_last_ones_are_there(steps: list[Arrivals | int], most: int) -> None:
    run = Run(DropOldest(most, 1 << 30))
    play(run, steps)
    unread = run.came[len(run.read) :]
    kept = min(most, len(run.came) - len(run.read) - len(run.lost))
    assert [id(each) for each in run.waits()][-kept:] == [id(each) for each in unread[len(unread) - kept :]]


@settings(max_examples=60)
@given(STEPS, LIMITS)
def test_nothing_that_was_taken_in_is_lost_before_the_cut(
    steps: list[Arrivals | int], limits: tuple[int, int]
) -> None:
    run = Run(CutOff(*limits))
    for step in steps:
        if isinstance(step, int):
            run.take(step)
        elif run.arrive(step):
            break
        run.check()
    run.check_end()
    assert run.places([*run.read, *run.lost]) == list(range(len(run.came)))


@settings(max_examples=60)
@given(STEPS, LIMITS)
def test_the_last_of_each_subject_is_read(steps: list[Arrivals | int], limits: tuple[int, int]) -> None:
    run = Run(LatestOnly(*limits))
    play(run, steps)
    waiting = run.waiting.messages
    run.check_end()
    for subject in {message.subject for message in run.came}:
        places = run.places([message for message in run.read if message.subject == subject])
        assert places == sorted(places)
    rest = run.read[len(run.read) - waiting :]
    assert len({message.subject for message in rest}) == len(rest)
    for message in rest:
        last = [each for each in run.came if each.subject == message.subject][-1]
        assert message is last


@settings(max_examples=100)
@given(STEPS, st.integers(1, 20))
def test_the_least_useful_go_first_and_of_equals_the_older(steps: list[Arrivals | int], most: int) -> None:
    """Against a model that sorts everything at every step."""
    run = Run(DropLeastUseful(most, 1 << 30, Judge("s.*", frozenset())))
    model: list[tuple[int, float, int]] = []  # place, utility, id
    for step in steps:
        if isinstance(step, int):
            before = len(run.read)
            run.take(step)
            read = [id(message) for message in run.read[before:]]
            assert read == [one[2] for one in model[: len(read)]]
            del model[: len(read)]
        else:
            first = len(run.came)
            lost = run.arrive(step)
            for place, message in enumerate(run.came[first:], first):
                model.append((place, run.utility[id(message)], id(message)))
            excess = max(len(model) - most, 0)
            least = heapq.nsmallest(excess, model, key=lambda one: (one[1], one[0]))
            assert [id(message) for message in lost] == [one[2] for one in sorted(least)]
            model = [one for one in model if one not in least]
        run.check()
    run.check_end()
    assert run.places(run.read) == sorted(run.places(run.read))


@settings(max_examples=60)
@given(STEPS, LIMITS)
def test_the_least_useful_within_limits_in_bytes(
    steps: list[Arrivals | int], limits: tuple[int, int]
) -> None:
    run = Run(DropLeastUseful(*limits, Judge("s.*", frozenset())))
    play(run, steps)
    run.check_end()
    assert run.places(run.read) == sorted(run.places(run.read))
