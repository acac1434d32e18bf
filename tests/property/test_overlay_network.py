"""Many engines on a network that cuts and restores links: interest agrees, and each message arrives once.

The production engines run here against an in-memory network; hypothesis chooses topology and events.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.test_overlay import federation

from mangrove.model.federation import Federation
from mangrove.overlay.engine import DeliverMessages, Instruction, OverlayEngine, SendFrame
from mangrove.overlay.frames import Frame
from mangrove.routing.forwarding import shortest_forwarding

NAMES = "abcde"
SUBJECTS = ("x.1", "x.2", "y")
PATTERNS = ("x.1", "x.*", "y", ">")


class OverlayNetwork(RuleBasedStateMachine):
    """Invariants: no message is delivered twice, none to a domain that never wanted it; all agree at rest."""

    @initialize(extra=st.sets(st.sampled_from(list(itertools.combinations(NAMES, 2))), max_size=4))
    def build(self, extra: set[tuple[str, str]]) -> None:
        chain = set(itertools.pairwise(NAMES))
        self.shape: Federation = federation(*sorted(chain | extra))
        self.links = [link.between for link in self.shape.links]
        self.up: set[tuple[str, str]] = set()
        self.epochs = Counter(dict.fromkeys(NAMES, 1))
        self.engines = {name: self.engine(name) for name in NAMES}
        self.wires: dict[tuple[str, str], deque[Frame]] = {}
        self.wanted: dict[str, set[str]] = {name: set() for name in NAMES}
        self.ever_wanted: dict[str, set[str]] = {name: set() for name in NAMES}
        self.delivered: Counter[tuple[str, bytes]] = Counter()
        self.number = 0
        for pair in self.links:
            self.connect(pair)

    def engine(self, name: str) -> OverlayEngine:
        return OverlayEngine(self.shape, name, self.epochs[name], shortest_forwarding(name, self.shape))

    def carry_out(self, name: str, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, SendFrame):
                wire = self.wires.get((name, instruction.peer))
                if wire is not None:
                    wire.append(instruction.frame)
            elif isinstance(instruction, DeliverMessages):
                self.delivered[name, instruction.frame.body] += 1

    def connect(self, pair: tuple[str, str]) -> None:
        self.up.add(pair)
        for near, far in (pair, pair[::-1]):
            self.wires[near, far] = deque()
        for near, far in (pair, pair[::-1]):
            self.carry_out(near, self.engines[near].peer_up(far))

    def disconnect(self, pair: tuple[str, str]) -> None:
        self.up.discard(pair)
        for near, far in (pair, pair[::-1]):
            del self.wires[near, far]
            self.engines[near].peer_down(far)

    def settle(self) -> None:
        for _ in range(100_000):
            busy = [ends for ends, wire in self.wires.items() if wire]
            if not busy:
                return
            for near, far in busy:
                frame = self.wires[near, far].popleft()
                self.carry_out(far, self.engines[far].receive(near, frame))
        raise AssertionError("frames circle for ever")

    @rule(name=st.sampled_from(NAMES), pattern=st.sampled_from(PATTERNS), wanted=st.booleans())
    def subscribe(self, name: str, pattern: str, wanted: bool) -> None:
        if wanted:
            self.wanted[name].add(pattern)
            self.ever_wanted[name].add(pattern)
            self.carry_out(name, self.engines[name].change_local_interest([pattern], []))
        else:
            self.wanted[name].discard(pattern)
            self.carry_out(name, self.engines[name].change_local_interest([], [pattern]))

    @rule(index=st.integers(0, 20))
    def toggle_link(self, index: int) -> None:
        pair = self.links[index % len(self.links)]
        if pair in self.up:
            self.disconnect(pair)
        else:
            self.connect(pair)

    @rule(name=st.sampled_from(NAMES))
    def restart(self, name: str) -> None:
        """A gateway dies and comes back with a new epoch and nothing in its memory."""
        mine = [pair for pair in self.up if name in pair]
        for pair in mine:
            self.disconnect(pair)
        self.epochs[name] += 1
        self.engines[name] = self.engine(name)
        self.engines[name].change_local_interest(self.wanted[name], [])
        for pair in mine:
            self.connect(pair)

    @rule(name=st.sampled_from(NAMES), subject=st.sampled_from(SUBJECTS))
    def publish(self, name: str, subject: str) -> None:
        flow = self.engines[name].flows.flow_of(subject)
        if flow is not None:
            self.number += 1
            body = f"{name} {subject} {self.number}".encode()
            flow.take(body)
            self.carry_out(name, self.engines[name].flush())

    @precondition(lambda self: len(self.up) == len(self.links))
    @rule(name=st.sampled_from(NAMES), subject=st.sampled_from(SUBJECTS))
    def publish_at_rest(self, name: str, subject: str) -> None:
        """With all links up and all news spread, exactly those who want a message get it, once."""
        self.settle()
        for knower, other in itertools.product(NAMES, NAMES):
            known = dict(self.engines[knower].interest.domains())
            subjects = known[other].subjects if other in known else set()
            assert subjects == self.wanted[other], f"{knower} does not know what {other} wants"
        before = self.number
        self.publish(name, subject)
        self.settle()
        if self.number == before:
            return
        body = f"{name} {subject} {self.number}".encode()
        receivers = {receiver for receiver in NAMES if self.delivered[receiver, body]}
        assert receivers == {
            other for other in NAMES if other != name and matches_any(self.wanted[other], subject)
        }

    @invariant()
    def nothing_twice_and_nothing_unwanted(self) -> None:
        for (name, body), count in self.delivered.items():
            source, subject, _ = body.decode().split()
            assert count == 1, f"{name} got {body!r} {count} times"
            assert source != name
            assert matches_any(self.ever_wanted[name], subject)


def matches_any(patterns: set[str], subject: str) -> bool:
    from mangrove.model.subjects import matches

    return any(matches(pattern, subject) for pattern in patterns)


TestOverlayNetwork = OverlayNetwork.TestCase
TestOverlayNetwork.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
