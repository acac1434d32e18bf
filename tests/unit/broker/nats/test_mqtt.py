"""What a gateway writes for MQTT subscribers beside the plain message, on a transport in memory."""

from __future__ import annotations

import asyncio
import re

import pytest
from tests.kit.leaf_nodes import INFO, Attached

AT_LEAST_ONCE = b"NATS/1.0\r\nNmqtt-Pub:1\r\n\r\n"
EXACTLY_ONCE = b"NATS/1.0\r\nNmqtt-Pub:2\r\n\r\n"


def body(subject: str, header: bytes, payload: bytes) -> bytes:
    size = len(header) + len(payload)
    return f"HMSG {subject} {len(header)} {size}\r\n".encode() + header + payload + b"\r\n"


ID = re.compile(rb"Nats-Msg-Id:([0-9a-f]{26})\r\n")


def stored(subject: str, header: bytes, payload: bytes) -> bytes:
    """A message for the store, its id replaced by one that is always the same."""
    with_id = header[:-2] + b"Nats-Msg-Id:" + b"0" * 26 + b"\r\n\r\n"
    return body(f"$MQTT.msgs.{subject} _MGR.@stored", with_id, payload)


def without_ids(data: bytes) -> bytes:
    return ID.sub(b"Nats-Msg-Id:" + b"0" * 26 + b"\r\n", data)


def come_back(attached: Attached, *lines: bytes) -> bytes:
    """The broker goes away and comes back; what it is told first."""
    attached.protocol.connection_lost(None)
    attached.reconnected()
    attached.protocol.data_received(INFO + b"".join(lines) + b"PONG\r\n")
    _, _, told = attached.wire.take().partition(b"PING\r\n")
    return told


def attached_with_store() -> Attached:
    attached = Attached().greeted()
    attached.protocol.data_received(b"LS+ $MQTT.msgs.>\r\n")
    attached.wire.take()
    return attached


@pytest.mark.parametrize("header", [AT_LEAST_ONCE, EXACTLY_ONCE])
async def test_what_has_a_qos_is_also_stored(header: bytes) -> None:
    attached = attached_with_store()
    messages = body("a.b", header, b"one") + body("a.b", header, b"two")
    attached.head.connection.deliver(messages)
    written = attached.wire.take()
    expected = messages + stored("a.b", header, b"one") + stored("a.b", header, b"two")
    assert without_ids(written) == expected
    assert len(set(ID.findall(written))) == 2, "each has an id of its own"


@pytest.mark.parametrize(
    "header",
    [
        b"NATS/1.0\r\nNmqtt-Pub:0\r\n\r\n",
        b"NATS/1.0\r\nNmqtt-Pub:9\r\n\r\n",
        b"NATS/1.0\r\nXmqtt-Pub:1\r\n\r\n",
        b"NATS/1.0\r\nNmqtt-Pub:1 \r\n\r\n",
        b"NATS/1.0\r\nNmqtt-Pub:1\r\nA:b\r\n\r\n",
    ],
)
async def test_other_headers_are_only_handed_on(header: bytes) -> None:
    attached = attached_with_store()
    message = body("a.b", header, b"one")
    attached.head.connection.deliver(message)
    assert attached.wire.take() == message


async def test_the_qos_is_looked_at_message_by_message() -> None:
    attached = attached_with_store()
    plain = body("a", b"NATS/1.0\r\nNmqtt-Pub:0\r\n\r\n", b"x")
    messages = plain + body("a", AT_LEAST_ONCE, b"y") + plain
    attached.head.connection.deliver(messages)
    assert without_ids(attached.wire.take()) == messages + stored("a", AT_LEAST_ONCE, b"y")


async def test_without_a_store_nothing_is_written_to_it() -> None:
    attached = attached_with_store()
    attached.protocol.data_received(b"LS- $MQTT.msgs.>\r\n")
    message = body("a", AT_LEAST_ONCE, b"y")
    attached.head.connection.deliver(message)
    assert attached.wire.take() == message


async def test_what_the_store_refuses_is_counted_with_its_reason() -> None:
    attached = attached_with_store()
    attached.head.connection.deliver(body("a", AT_LEAST_ONCE, b"y") * 3)
    good = b'{"stream":"$MQTT_msgs", "seq":1}'
    bad = b'{"error":{"code":503,"description":"insufficient resources"},"stream":"","seq":0}'
    for answer in (good, bad):
        attached.protocol.data_received(b"LMSG _MGR.@stored %d\r\n%s\r\n" % (len(answer), answer))
    dropped = attached.head.ledger.dropped
    assert dropped == {"not stored for MQTT subscribers: insufficient resources": 1}
    attached.wire.take()
    again = come_back(attached, b"LS+ $MQTT.msgs.>\r\n")
    assert ID.findall(again), "what was not confirmed is written again"
    assert len(dropped) == 1, "and is not lost"


async def test_forged_confirmations_fill_neither_the_books_nor_the_table_of_lines() -> None:
    attached = attached_with_store()
    for number in range(100):
        forged = b'{"error":{"description":"%d"}}' % number + b" " * 10 * number
        attached.protocol.data_received(b"LMSG _MGR.@stored %d\r\n%s\r\n" % (len(forged), forged))
    dropped = attached.head.ledger.dropped
    assert (len(dropped), sum(dropped.values())) == (21, 100)
    assert len(attached.head.connection.sorter.known) < 60
    assert not attached.wire.closed


async def test_a_store_that_says_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    attached = attached_with_store()
    now = [100.0]
    monkeypatch.setattr("mangrove.broker.nats.mqtt.monotonic", lambda: now[0])
    for at in (100.0, 109.0, 111.0):
        now[0] = at
        attached.head.connection.deliver(body("a", AT_LEAST_ONCE, b"y"))
    assert attached.head.ledger.dropped == {"not confirmed for MQTT subscribers within 10 s": 2}


async def test_another_domain_cannot_name_the_store_itself() -> None:
    attached = attached_with_store()
    attached.head.connection.deliver(body("$MQTT.msgs.a", AT_LEAST_ONCE, b"y"))
    assert attached.wire.take() == b""
    assert attached.head.ledger.history.totals.malformed_bodies == 1


async def test_what_was_not_confirmed_is_written_again_before_anything_else() -> None:
    attached = attached_with_store()
    attached.head.connection.deliver(b"".join(body("a", EXACTLY_ONCE, b"%d" % n) for n in range(4)))
    written = attached.wire.take()
    attached.protocol.data_received(b'LMSG _MGR.@stored 9\r\n{"seq":1}\r\n' * 2)
    again = come_back(attached, b"LS+ $MQTT.msgs.>\r\n")
    assert ID.findall(again) == ID.findall(written)[2:], "by the ids that they had"
    first = b"LS+ _MGR.@stored\r\n" + stored("a", EXACTLY_ONCE, b"2") + stored("a", EXACTLY_ONCE, b"3")
    assert without_ids(again).startswith(first)
    attached.protocol.data_received(b'LMSG _MGR.@stored 9\r\n{"seq":1}\r\n' * 2)
    assert ID.findall(come_back(attached, b"LS+ $MQTT.msgs.>\r\n")) == []
    assert attached.head.ledger.dropped == {}


async def test_what_was_not_confirmed_is_counted_if_there_is_no_store_any_more() -> None:
    attached = attached_with_store()
    attached.head.connection.deliver(body("a", EXACTLY_ONCE, b"x") * 3)
    assert ID.findall(come_back(attached)) == []
    assert attached.head.ledger.dropped == {"the broker came back without a store for MQTT": 3}


async def test_only_so_much_is_kept_for_another_time(monkeypatch: pytest.MonkeyPatch) -> None:
    attached = attached_with_store()
    one = len(stored("a", AT_LEAST_ONCE, b"x"))
    monkeypatch.setattr("mangrove.broker.nats.mqtt.MAX_KEPT_BYTES", 3 * one)
    attached.head.connection.deliver(body("a", AT_LEAST_ONCE, b"x") * 10)
    attached.protocol.data_received(b'LMSG _MGR.@stored 9\r\n{"seq":1}\r\n' * 2)
    again = come_back(attached, b"LS+ $MQTT.msgs.>\r\n")
    assert len(ID.findall(again)) == 3
    assert attached.head.ledger.dropped == {"the broker went away before it confirmed a message for MQTT": 5}


async def test_the_store_is_known_before_a_storm_of_subscriptions_is_digested() -> None:
    attached = Attached()
    storm = b"".join(b"LS+ s.%d\r\n" % number for number in range(5_000))
    attached.protocol.data_received(INFO + storm + b"LS+ $MQTT.msgs.>\r\nPONG\r\n")
    attached.wire.take()
    attached.head.connection.deliver(body("a", AT_LEAST_ONCE, b"x"))
    assert ID.findall(attached.wire.take()), "a message that comes at once is stored"


async def test_from_another_broker_the_store_is_waited_for_and_told_what_came_meanwhile() -> None:
    attached = attached_with_store()
    attached.head.connection.deliver(body("a", EXACTLY_ONCE, b"0"))
    before = ID.findall(attached.wire.take())
    attached.protocol.connection_lost(None)
    attached.reconnected(elsewhere=True)
    attached.protocol.data_received(INFO + b"PONG\r\n")
    attached.head.connection.deliver(body("a", EXACTLY_ONCE, b"1"))
    written = attached.wire.take()
    assert body("a", EXACTLY_ONCE, b"1") in written
    assert ID.findall(written) == [], "the head is away, and its store"
    attached.protocol.data_received(b"LS+ $MQTT.msgs.>\r\n")
    again = attached.wire.take()
    assert ID.findall(again)[:1] == before
    assert without_ids(again).endswith(stored("a", EXACTLY_ONCE, b"0") + stored("a", EXACTLY_ONCE, b"1"))
    assert attached.head.ledger.dropped == {}


async def test_a_store_that_is_back_is_told_twice_in_case_it_was_not_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mangrove.broker.nats.mqtt.REPEAT_S", 0.01)
    attached = attached_with_store()
    attached.protocol.data_received(b"LS- $MQTT.msgs.>\r\n")
    attached.head.connection.deliver(body("a", EXACTLY_ONCE, b"0"))
    attached.protocol.data_received(b"LS+ $MQTT.msgs.>\r\n")
    ids = ID.findall(attached.wire.take())
    await asyncio.sleep(0.05)
    assert ID.findall(attached.wire.take()) == ids, "under the same id, so it is stored once"
    attached.protocol.data_received(b'LMSG _MGR.@stored 9\r\n{"seq":1}\r\n' * 2)
    assert ID.findall(come_back(attached, b"LS+ $MQTT.msgs.>\r\n")) == []
