"""A broker that is short of memory or disk says that it takes nothing; a full socket is another matter."""

from __future__ import annotations

from pamqp import commands, frame

from mangrove.broker.rabbitmq.address import RabbitAddress
from mangrove.broker.rabbitmq.wire.connection import AmqpConnection


async def test_room_in_the_socket_is_none_in_the_broker_and_the_other_way_round() -> None:
    connection = AmqpConnection(RabbitAddress(host="127.0.0.1", port=1), "client")
    told: list[bool] = []
    connection.on_writable = told.append
    connection.data_received(frame.marshal(commands.Connection.Blocked("low on memory"), 0))
    connection.pause_writing()
    connection.resume_writing()
    assert connection.blocked
    assert told == [False, False, False]
    connection.pause_writing()
    connection.data_received(frame.marshal(commands.Connection.Unblocked(), 0))
    assert not connection.blocked
    assert told[3:] == [False, False]
    connection.resume_writing()
    assert told[5:] == [True]
