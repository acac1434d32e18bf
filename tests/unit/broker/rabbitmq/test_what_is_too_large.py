"""Headers are one frame of AMQP, names have 255 bytes: a broker hangs up on who sends larger ones."""

from __future__ import annotations

from typing import cast

import pytest
from tests.kit.attachments import Head

from mangrove.broker.attachment import AttachmentOwner
from mangrove.broker.client_connection import NotCarriedError
from mangrove.broker.message_heads import encode_head
from mangrove.broker.rabbitmq.attachment import NOBODY_ASKED, TOO_LONG, RabbitAttachment
from mangrove.broker.rabbitmq.client.connection import RabbitClientConnection
from mangrove.broker.rabbitmq.messages.outlets import HEAD_TOO_LARGE, HeadOutlet
from mangrove.broker.rabbitmq.messages.properties import PropertyWriter
from mangrove.broker.rabbitmq.messages.publisher import Publisher
from mangrove.broker.rabbitmq.wire.connection import FRAME_MAX, AmqpConnection
from mangrove.overlay.protocol.bodies import Message

LARGE = encode_head({"Note": "x" * FRAME_MAX})
SMALL = encode_head({"Note": "x" * (FRAME_MAX - 1_000)})


class Line:
    """What a publisher needs of a connection."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


async def test_a_gateway_counts_them_and_publishes_the_others() -> None:
    counted: list[tuple[str, int, str]] = []
    publisher = Publisher(lambda _: None, lambda reason, count: counted.append((reason, count, "")))
    line = Line()
    publisher.attached(cast("AmqpConnection", line))
    for head in (LARGE, SMALL):
        message = Message("a.b", "", len(head), len(head) + 4)
        control = message.line("a.b", "")
        outlet = HeadOutlet(
            publisher,
            PropertyWriter("gateway"),
            control,
            message,
            b"method",
            FRAME_MAX,
            lambda reason, count, topic: counted.append((reason, count, topic)),
        )
        outlet.take((control + b"\r\n" + head + b"body\r\n") * 3)
    assert counted == [(HEAD_TOO_LARGE, 1, "a.b")] * 3
    assert line.written.count(b"method") == 3
    assert publisher.unconfirmed == 3


async def test_a_gateway_books_what_cannot_be_carried_under_its_topic() -> None:
    attached: list[RabbitAttachment] = []

    def attach(owner: AttachmentOwner) -> RabbitAttachment:
        attached.append(RabbitAttachment("gateway", "amqp://127.0.0.1:1", owner))
        return attached[0]

    head = Head(attach=attach)
    subject = "long." + "x" * 251
    for message in (
        Message(subject, "", -1, 4),
        Message("a.b", f"_MGR.geneva.{subject}", -1, 4),
        Message("_AMQP.forged", "", -1, 4),
    ):
        line = message.line(message.subject, message.reply)
        attached[0].outlet(line, message, ()).take((line + b"\r\nbody\r\n") * 2)
    assert head.ledger.dropped == {TOO_LONG: 4, NOBODY_ASKED: 2}
    dropped = head.ledger.history.totals.dropped
    assert (dict(dropped.topics), dropped.requests) == ({subject: 2, "a.b": 2}, 2)


async def test_a_client_is_told_so() -> None:
    connection = RabbitClientConnection(["amqp://127.0.0.1:1"], "client")
    connection.publish("a.b", b"body", head=SMALL)
    with pytest.raises(NotCarriedError, match="headers"):
        connection.publish("a.b", b"body", head=LARGE)


async def test_a_queue_group_of_a_longer_name_is_refused_at_once() -> None:
    connection = RabbitClientConnection(["amqp://127.0.0.1:1"], "client")
    connection.subscribe("a.b", lambda _, __: None, queue="g" * 255)
    with pytest.raises(NotCarriedError, match="queue group"):
        connection.subscribe("a.b", lambda _, __: None, queue="g" * 256)
