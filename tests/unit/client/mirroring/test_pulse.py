"""A broker is silent after two questions without an answer; a client that was late itself saw nothing."""

from __future__ import annotations

from typing import cast

from mangrove.broker.client_connection import ClientConnection, ConnectionCounts
from mangrove.client.mirroring.pulse import LATE_S, LEAVE_TICKS, SILENT_TICKS, TICK_S, Pulses


class Wire:
    """A connection to a broker that answers, or does not."""

    def __init__(self) -> None:
        self.connected = True
        self.counts = ConnectionCounts()
        self.answers = True
        self.asked = 0
        self.abandoned = 0

    def probe(self) -> None:
        self.asked += 1
        self.counts.received_bytes += 6 * self.answers

    def abandon(self, reason: str) -> None:
        self.abandoned += 1
        self.connected = False


class Watched:
    """One connection that is looked at again and again."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.told: list[str] = []
        self.pulses = Pulses(lambda _: self.told.append("silent"), lambda _: self.told.append("speaks"))
        self.now = 0.0

    def tick(self, times: int = 1, late_s: float = 0.0) -> None:
        for _ in range(times):
            self.now += TICK_S + late_s
            self.pulses.tick([cast(ClientConnection, self.wire)], self.now)


def test_two_answers_missing_are_a_sign_and_one_is_not() -> None:
    watched = Watched()
    watched.tick(5)
    watched.wire.answers = False
    watched.tick(SILENT_TICKS)
    assert watched.told == []
    watched.tick()
    assert watched.told == ["silent"]
    assert watched.pulses.silent(watched.wire)
    watched.wire.answers = True
    watched.tick(2)
    assert watched.told == ["silent", "speaks"]
    assert watched.wire.asked == 5 + SILENT_TICKS + 3


def test_a_stall_of_ones_own_is_no_sign() -> None:
    watched = Watched()
    watched.tick(2)
    watched.wire.answers = False
    watched.tick(20, late_s=2 * LATE_S)
    assert watched.told == []
    assert watched.pulses.late == 20


def test_a_broker_that_stays_silent_is_left() -> None:
    watched = Watched()
    watched.tick()
    watched.wire.answers = False
    watched.tick(LEAVE_TICKS + 1)
    assert watched.wire.abandoned == 1
    watched.tick(3)
    assert watched.wire.abandoned == 1, "there is no connection to look at"
    assert not watched.pulses.silent(watched.wire)
