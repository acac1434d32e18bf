"""Any client of a RabbitMQ can send properties that nobody can read: they cost one message, no connection."""

from __future__ import annotations

import struct

import pytest
from tests.kit.attachments import Head

from mangrove.broker.attachment import AttachmentOwner
from mangrove.broker.rabbitmq.attachment import ODD_EVENT, RabbitAttachment
from mangrove.broker.rabbitmq.exchange.bindings import CREATED
from mangrove.broker.rabbitmq.exchange.topology import EVENTS, OUT
from mangrove.broker.rabbitmq.messages.inbound import ODD_PROPERTIES
from mangrove.broker.rabbitmq.messages.properties import HEADERS, read_properties, read_table
from mangrove.broker.rabbitmq.wire.frames import Delivery


def with_table(entries: bytes) -> bytes:
    """Flags and a header table."""
    return struct.pack(">HL", HEADERS, len(entries)) + entries


def nested(levels: int) -> bytes:
    """Tables in tables: seven bytes a level."""
    entries = b""
    for _ in range(levels):
        entries = b"\x01tF" + struct.pack(">L", len(entries)) + entries
    return entries


UNREADABLE = {
    "nested": with_table(nested(5_000)),
    "name that is no text": with_table(b"\x01\xffS\x00\x00\x00\x01x"),
    "cut off": with_table(b"\x01tS\x00\x00")[:-1],
    "no such kind": with_table(b"\x01t?\x00"),
    "no flags": b"",
}


@pytest.mark.parametrize("properties", UNREADABLE.values(), ids=UNREADABLE)
def test_they_are_told_by_one_error(properties: bytes) -> None:
    for read in (read_properties, read_table):
        with pytest.raises(ValueError):
            read(properties)


@pytest.mark.parametrize("properties", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_gateway_counts_them(properties: bytes) -> None:
    attached: list[RabbitAttachment] = []

    def attach(owner: AttachmentOwner) -> RabbitAttachment:
        attached.append(RabbitAttachment("gateway", "amqp://127.0.0.1:1", owner))
        return attached[0]

    head = Head(attach=attach)
    attached[0]._delivered(
        [
            Delivery(OUT, 1, False, b"a.b", properties, b"body"),
            Delivery(EVENTS, 1, False, CREATED, properties, b""),
        ]
    )
    assert head.ledger.ignored == {ODD_PROPERTIES: 1, ODD_EVENT: 1}
