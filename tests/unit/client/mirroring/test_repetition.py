"""What is said again comes in order before what follows it, however they interleave, and some at a time."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from mangrove.broker.client_connection import BrokerAwayError, Outlet
from mangrove.client.mirroring import repetition as repetition_module
from mangrove.client.mirroring.publishers import MirroredPublishers
from mangrove.model.shared_names import MIRROR_PREFIX
from mangrove.model.topics import Mirror


class Way:
    """A connection that writes down the numbers of what it is given, by subject."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, int]] = []
        self.away = False
        self.connected = True

    def outlet(self, subject: str, head_form: bytes) -> Outlet:
        way = self

        class Numbers:
            messages = size_bytes = 0

            def publish(self, payload: bytes, first: int, second: int) -> None:
                if way.away:
                    raise BrokerAwayError("away")
                way.taken.append((subject, first))

        return Numbers()

    def numbers(self) -> list[int]:
        return [number for _, number in self.taken]


class Link:
    def __init__(self, wire: Way | None) -> None:
        self.broker = "mirror"
        self.wire = wire


class Doubts:
    def silent(self, wire: object) -> bool:
        return False


class Publisher:
    """One standby topic, published with rising numbers."""

    def __init__(self) -> None:
        self.primary, self.mirror = Way(), Way()
        self.link = Link(self.mirror)
        self.calls = 0
        self.publishers = MirroredPublishers(
            self.primary,  # type: ignore[arg-type]
            b"",
            lambda: [self.link],  # type: ignore[list-item]
            Doubts(),
            self._go_on,
        )
        self.publishers.follow("t", Mirror.STANDBY, frozenset({"mirror"}), 0.0)
        self._outlet = self.publishers.routed("t", self.primary).outlet("t", b"")  # type: ignore[arg-type]
        self.said = 0

    def _go_on(self) -> None:
        self.calls += 1

    def say(self, many: int) -> None:
        for _ in range(many):
            self._outlet.publish(b"x", self.said, time.time_ns())
            self.said += 1

    def doubt(self) -> None:
        self.publishers.doubtful(self.primary, 1.0)


@given(
    before=st.integers(0, 700),
    steps=st.lists(st.one_of(st.integers(1, 300), st.none()), max_size=12),
)
def test_the_mirror_has_everything_once_and_in_order(before: int, steps: list[int | None]) -> None:
    """A number: so many messages are published; None: a turn of the repetition."""
    publisher = Publisher()
    publisher.say(before)
    assert publisher.mirror.taken == [], "nothing is said twice while all is well"
    publisher.doubt()
    publisher.primary.away = True  # what cannot be said there is said at the mirror
    for step in steps:
        if step is None:
            publisher.publishers.say_more(1.0)
        else:
            publisher.say(step)
    for _ in range(20):
        publisher.publishers.say_more(1.0)
    assert publisher.mirror.numbers() == list(range(publisher.said))
    assert {subject for subject, _ in publisher.mirror.taken} <= {MIRROR_PREFIX + "t"}
    taken = len(publisher.mirror.taken)
    publisher.say(1)
    assert len(publisher.mirror.taken) == taken + 1, "it has caught up"


def test_it_is_said_some_at_a_time() -> None:
    publisher = Publisher()
    publisher.say(2 * repetition_module.MESSAGES_AT_ONCE + 1)
    publisher.doubt()
    assert len(publisher.mirror.taken) == repetition_module.MESSAGES_AT_ONCE
    assert publisher.calls == 1
    publisher.publishers.say_more(1.0)
    publisher.publishers.say_more(1.0)
    assert publisher.calls == 2, "nothing is left after the third turn"
    assert publisher.mirror.numbers() == list(range(publisher.said))


def test_a_mirror_that_is_lost_or_full_meanwhile_ends_it() -> None:
    for change in ("lost", "full"):
        publisher = Publisher()
        publisher.say(600)
        publisher.doubt()
        if change == "lost":
            publisher.link.wire = None
        else:
            publisher.mirror.away = True
        publisher.publishers.say_more(1.0)
        publisher.publishers.say_more(1.0)
        assert publisher.calls == 1
        assert publisher.publishers.counts["too much to say again"] == (change == "full")
