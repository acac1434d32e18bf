"""What a client says to a RabbitMQ: everything is said until it is confirmed or refused, in its order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.broker.client_connection import BrokerAwayError, ConnectionCounts, Denial
from mangrove.broker.rabbitmq.client.answers import reply_subject, way_of
from mangrove.broker.rabbitmq.client.said import HEAD_TOO_LARGE, MAX_AWAY_BYTES, TOO_LARGE, SaidMessages
from mangrove.broker.rabbitmq.wire.connection import AmqpConnection, AmqpError
from mangrove.broker.rabbitmq.wire.frames import FRAME_EXTRA, FRAME_HEAD


class Line:
    """What is needed of a connection."""

    def __init__(self, frame_max: int = 131_072) -> None:
        self.frame_max = frame_max
        self.written = b""
        self.on_confirm: Callable[[int, bool, bool], None] = lambda _tag, _multiple, _taken: None
        self.on_writable: Callable[[bool], None] = lambda _: None

    def write(self, data: bytes) -> None:
        self.written += data


def attach(said: SaidMessages, frame_max: int = 131_072) -> Line:
    line = Line(frame_max)
    said.attach(cast("AmqpConnection", line))
    return line


ACTIONS = st.lists(
    st.one_of(
        st.just(("say", 0, False)),
        st.just(("turn", 0, False)),
        st.tuples(st.just("confirm"), st.integers(1, 12), st.booleans()),
        st.just(("lose", 0, False)),
        st.just(("find", 0, False)),
    ),
    max_size=40,
)


@given(ACTIONS)
def test_whatever_happens_all_is_confirmed_in_the_end(actions: list[tuple[str, int, bool]]) -> None:
    asyncio.run(_all_is_confirmed(actions))


async def _all_is_confirmed(actions: list[tuple[str, int, bool]]) -> None:
    said = SaidMessages(3, ConnectionCounts())
    line: Line | None = None
    sent = 0
    confirmed: set[int] = set()
    for action, number, multiple in [*actions, ("lose", 0, False), ("find", 0, False)]:
        if action == "say":
            said.add("a", b"", bytes((sent,)), b"")
            sent += 1
        elif action == "turn":
            said.write()
        elif action == "confirm" and line is not None and number <= len(line.written):
            line.on_confirm(number, multiple, True)
            confirmed |= set(line.written[:number] if multiple else line.written[number - 1 : number])
        elif action == "lose" and line is not None:
            assert list(line.written) == sorted(line.written), "in order at every broker"
            said.detach()
            line = None
        elif action == "find" and line is None:
            line = attach(said)
            assert not confirmed & set(line.written), "what was confirmed is not said again"
    assert line is not None
    said.write()
    assert set(range(sent)) == confirmed | set(line.written)
    assert said.taken(said.last) == (not line.written)
    line.on_confirm(len(line.written), True, True)
    assert said.taken(said.last)
    assert not said.full


async def test_what_is_refused_is_left_out_and_all_else_is_said_again() -> None:
    counts = ConnectionCounts()
    said = SaidMessages(3, counts)
    attach(said)
    for number, subject in enumerate(("open", "secret.x", "open", "secret.x")):
        said.add(subject, b"", b"%d" % number, b"")
    said.write()
    why = AmqpError("ACCESS_REFUSED - access to topic 'secret.x' in exchange 'amq.topic' refused", 403)
    assert said.refused(why) == Denial(publishing=True, subject="secret.x")
    said.detach()
    assert attach(said).written == b"02"
    said.add("large", b"", b"L", b"x" * 70_000)
    said.write()
    too_large = AmqpError(
        "PRECONDITION_FAILED - message size 70000 is larger than configured max size 65536", 406
    )
    assert said.refused(too_large) is None
    said.detach()
    assert attach(said).written == b"02"
    assert said.max_payload == 65536
    assert counts.errors[TOO_LARGE] == 1


async def test_the_next_broker_may_have_smaller_frames() -> None:
    """One that is larger ends the connection, as it would the one after that."""
    counts = ConnectionCounts()
    said = SaidMessages(3, counts)
    line = attach(said)
    said.add("many", b"m", b"H" * 4097, b"1")
    said.add("few", b"m", b"h" * 4096, b"2" * 10_000)
    said.write()
    assert [len(body) for body in bodies(line.written, b"m" + b"h" * 4096)] == [10_000]
    said.detach()
    next_line = attach(said, 4096)
    assert b"H" not in next_line.written
    cut = bodies(next_line.written, b"m" + b"h" * 4096)
    assert [len(body) for body in cut] == [4088, 4088, 1824]
    assert b"".join(cut) == b"2" * 10_000
    assert counts.errors == {HEAD_TOO_LARGE: 1}
    next_line.on_confirm(1, False, True)
    assert said.taken(said.last)


def bodies(written: bytes, head: bytes) -> list[bytes]:
    """What the body frames behind a head hold."""
    rest, found = written.partition(head)[2], []
    while rest:
        size = FRAME_HEAD.unpack_from(rest)[2]
        found.append(rest[FRAME_HEAD.size : FRAME_HEAD.size + size])
        rest = rest[size + FRAME_EXTRA :]
    return found


async def test_what_waits_for_a_broker_is_bounded_and_can_be_recalled() -> None:
    counts = ConnectionCounts()
    said = SaidMessages(3, counts)
    said.add("mine", b"", b"1", b"")
    said.add("other", b"", b"2", b"")
    said.recall({b"mine"})
    with pytest.raises(BrokerAwayError, match="the broker is away"):
        said.add("large", b"", b"L", b"x" * MAX_AWAY_BYTES)
    assert counts.unsent_messages == 1
    assert attach(said).written == b"2"
    said.close()
    with pytest.raises(BrokerAwayError, match="closed"):
        said.add("late", b"", b"3", b"")


@given(st.text(min_size=1).filter(lambda text: "\0" not in text), st.text())
def test_a_way_back_leads_where_it_came_from(queue: str, number: str) -> None:
    assert way_of(reply_subject(queue, number)) == (queue, number)


@pytest.mark.parametrize("subject", ["_AMQP.", "_AMQP.é", "_AMQP.AAAA", "_INBOX.x", "a.b"])
def test_what_is_no_way_back_is_none(subject: str) -> None:
    assert way_of(subject) is None
