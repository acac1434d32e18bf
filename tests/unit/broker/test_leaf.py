"""The leaf-node protocol on a transport in memory: control lines, messages in pieces, foreign bytes."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest
from tests.kit.attachments import message
from tests.kit.leaf_nodes import INFO, Attached

from mangrove.broker.kinds import kind_of
from mangrove.broker.nats.leaf import INTEREST_PER_TURN, MAX_INTEREST_WAITING, RUNS_PER_BUFFER
from mangrove.model.broker_kinds import BROKER_URLS, BrokerKind
from mangrove.overlay.protocol.bodies import Message, parse_message_line


async def test_the_greeting_gives_credentials_and_the_answer_makes_it_attached() -> None:
    attached = Attached()
    attached.protocol.data_received(INFO[:20])
    assert attached.wire.take() == b"", "half a line says nothing"
    attached.protocol.data_received(INFO[20:])
    connect = attached.wire.take()
    assert connect.startswith(b"CONNECT {")
    assert b'"user":"user","pass":"pass!"' in connect
    assert connect.endswith(b"}\r\nPING\r\n")
    assert not attached.head.connection.connected
    attached.protocol.data_received(b"PONG\r\n")
    assert attached.head.connection.connected
    assert attached.wire.take() == b"LS+ _MGR.>\r\n"


async def test_interest_arrives_with_and_without_groups() -> None:
    attached = Attached().greeted()
    attached.protocol.data_received(b"LS+ x\r\nLS+ y workers 2\r\nPING\r\nLS- x\r\n")
    assert attached.head.interest == [({"y workers"}, set())], "x came and went before anybody was told"
    assert attached.wire.take().endswith(b"PONG\r\n")
    attached.head.connection.deliver(message("y", groups=("workers",)))
    assert attached.wire.take() == b"LMSG y | workers 1\r\nx\r\n"


async def test_a_subscription_that_is_not_utf8_is_left_out_and_counted() -> None:
    attached = Attached().greeted()
    attached.protocol.data_received(b"LS+ \xff\xfe\r\nLS+ x\r\n")
    assert attached.head.interest == [({"x"}, set())]
    assert attached.head.ledger.ignored == {"subscription that is not UTF-8": 1}
    assert not attached.wire.closed


@pytest.mark.parametrize("cut", range(1, 60, 7))
async def test_a_message_in_two_pieces_is_sent_on_whole(cut: int) -> None:
    attached = Attached().greeted()
    attached.head.wanted_by("b", "x")
    stream = message("x", b"1" * 40) + b"LS+ z\r\n" + message("x", b"2")
    attached.protocol.data_received(stream[:cut])
    attached.protocol.data_received(stream[cut:])
    assert b"".join(attached.head.messages_out()) == message("x", b"1" * 40) + message("x", b"2")
    assert attached.head.interest == [({"z"}, set())]


@pytest.mark.parametrize(
    "garbage",
    [b"LMSG x 2\r\nabc\r\n", b"LMSG x | g 1\r\nx\r\n", b"MSG x 1 1\r\nx\r\n", b"INFO {\r\n", b"x" * 40_000],
)
async def test_a_broker_that_does_not_speak_the_protocol_loses_the_connection(garbage: bytes) -> None:
    attached = Attached().greeted()
    attached.protocol.data_received(garbage)
    assert attached.wire.closed
    attached.protocol.connection_lost(None)
    assert not attached.head.connection.connected
    assert attached.protocol.closed.is_set()


async def test_a_broker_without_headers_is_refused() -> None:
    attached = Attached()
    attached.protocol.data_received(b'INFO {"server_name":"s","version":"1","headers":false}\r\n')
    assert attached.wire.closed


async def test_a_full_socket_makes_messages_wait() -> None:
    attached = Attached().greeted()
    attached.wire.take()
    attached.protocol.pause_writing()
    attached.head.connection.deliver(message("x"))
    assert attached.wire.take() == b""
    attached.protocol.resume_writing()
    assert attached.wire.take() == message("x")


def test_queue_groups_are_named_in_the_line() -> None:
    plain, headers = Message("a", "", -1, 5), Message("a", "r", 12, 20)
    assert plain.line("a", "", ("g", "h")) == b"LMSG a | g h 5"
    assert headers.line("a", "r", ("g",)) == b"HMSG a + r g 12 20"
    assert parse_message_line(plain.line("a", "")) == plain


def test_every_kind_has_an_entry_and_urls() -> None:
    assert set(BROKER_URLS) == set(BrokerKind)
    assert all(kind_of(kind) is kind_of(kind) for kind in BrokerKind)


async def test_messages_behind_a_storm_of_subscriptions_do_not_wait_for_it() -> None:
    attached = Attached().greeted()
    attached.head.wanted_by("b", "x")
    storm = b"".join(b"LS+ storm.%d\r\n" % number for number in range(10 * INTEREST_PER_TURN))
    attached.protocol.data_received(storm + message("x"))
    assert attached.head.messages_out() == [message("x")]
    assert len(attached.head.engine._local) == INTEREST_PER_TURN, "the first slice"
    attached.protocol.data_received(message("x", b"y"))
    assert attached.head.messages_out() == [message("x"), message("x", b"y")]
    assert attached.protocol._interest_waiting
    await turns(12)
    assert not attached.protocol._interest_waiting
    assert len(attached.head.engine._local) == 10 * INTEREST_PER_TURN


async def test_nothing_more_is_read_while_too_many_subscriptions_wait() -> None:
    attached = Attached().greeted()
    count = MAX_INTEREST_WAITING + 3 * INTEREST_PER_TURN
    attached.protocol.data_received(b"".join(b"LS+ storm.%d\r\n" % number for number in range(count)))
    assert attached.wire.reading is False
    await turns(3)
    assert attached.wire.reading
    attached.protocol.connection_lost(None)
    await turns(3)
    assert len(attached.head.engine._local) < count, "a connection that is gone says nothing more"


async def turns(count: int) -> None:
    """Let the event loop go round."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_storm_of_one_subject_costs_one_change_and_a_question_is_answered_meanwhile() -> None:
    attached = Attached().greeted()
    again = b"".join(b"LS+ x workers %d\r\n" % count for count in range(10 * INTEREST_PER_TURN))
    others = b"".join(b"LS+ _INBOX.%d\r\n" % count for count in range(10 * INTEREST_PER_TURN))
    attached.protocol.data_received(again + others)
    assert len(attached.protocol._interest_waiting) == 9 * INTEREST_PER_TURN + 1
    answers: list[int] = []
    asyncio.get_running_loop().call_soon(
        lambda: answers.append(attached.head.engine.status(monotonic()).interest["a"])
    )
    await turns(2)
    assert answers == [1]
    assert attached.protocol._interest_waiting
    await turns(12)
    assert attached.head.engine.queue_groups("x") == ("workers",)
    assert attached.head.interest == [({"x workers"}, set())], "said again and again, told once"


async def test_who_flaps_without_end_costs_one_change() -> None:
    attached = Attached().greeted()
    flaps = b"LS+ x\r\nLS- x\r\n" * (10 * INTEREST_PER_TURN)
    attached.protocol.data_received(flaps + b"LS+ y\r\n")
    assert not attached.protocol._interest_waiting
    assert attached.head.interest == [({"y"}, set())]
    attached.protocol.data_received(flaps + b"LS+ x\r\n")
    assert attached.head.interest[1:] == [({"x"}, set())]


async def test_a_question_is_answered_behind_the_subscriptions_that_came_before_it() -> None:
    attached = Attached().greeted()
    attached.wire.take()
    storm = b"".join(b"LS+ storm.%d\r\n" % number for number in range(3 * INTEREST_PER_TURN))
    attached.protocol.data_received(storm + b"LMSG _MGR.a._READY _INBOX.me 0\r\n\r\n")
    assert attached.wire.take() == b""
    await turns(5)
    assert len(attached.head.engine._local) == 3 * INTEREST_PER_TURN
    assert attached.wire.take() == b"LMSG _INBOX.me 0\r\n\r\n"
    attached.protocol.data_received(b"LMSG _MGR.a._READY _INBOX.me 0\r\n\r\n")
    await turns(2)
    assert attached.wire.take() == b"LMSG _INBOX.me 0\r\n\r\n", "nothing came before it"


@pytest.mark.parametrize("reply", ["$SYS.x", "_MGL", "x", "_MGR.b.x"])
async def test_a_question_is_answered_to_inboxes_only(reply: str) -> None:
    attached = Attached().greeted()
    attached.wire.take()
    attached.protocol.data_received(b"LMSG _MGR.a._READY %b 0\r\n\r\n" % reply.encode())
    await turns(2)
    assert attached.wire.take() == b""


async def test_messages_between_runs_of_subscriptions_are_sorted_however_many_there_are() -> None:
    attached = Attached().greeted()
    attached.head.wanted_by("b", "x")
    count = 3 * RUNS_PER_BUFFER
    mixed = b"".join(
        b"LS+ s.%d\r\nLS- gone.%d\r\n%bPING\r\n" % (number, number, message("x", b"LS+ %d\r\n" % number))
        for number in range(count)
    )
    attached.wire.take()
    for start in range(0, len(mixed), 1009):  # lines and messages are cut anywhere
        attached.protocol.data_received(mixed[start : start + 1009])
    await turns(3)
    assert b"".join(attached.head.messages_out()) == b"".join(
        message("x", b"LS+ %d\r\n" % number) for number in range(count)
    )
    assert len(attached.head.engine._local) == count
    assert attached.wire.take() == b"PONG\r\n" * count
    attached.protocol.data_received(mixed)
    assert len(b"".join(attached.head.messages_out())) == 2 * sum(
        len(message("x", b"LS+ %d\r\n" % number)) for number in range(count)
    )
