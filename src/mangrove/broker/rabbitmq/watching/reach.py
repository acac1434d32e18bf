"""Whether a RabbitMQ that somebody else runs can be joined, and what it lacks."""

from __future__ import annotations

import secrets

from pamqp import commands

from mangrove.broker.rabbitmq.address import RabbitAddress, parse_address
from mangrove.broker.rabbitmq.exchange.management import PageError, exchange_type, listed_bindings
from mangrove.broker.rabbitmq.exchange.topology import EVENTS_EXCHANGE, NO_EVENTS, NOT_FOUND
from mangrove.broker.rabbitmq.logging_in import logged_in
from mangrove.broker.rabbitmq.wire.connection import AmqpConnection, AmqpError
from mangrove.errors import InputError
from mangrove.host.keys.login import LoginSource

ACCESS_REFUSED, NOT_ALLOWED = 403, 530
UNAUTHORIZED = 401
TOPIC = "topic"


async def rabbit_problem(url: str, login: LoginSource | None = None) -> str:
    """Why a gateway could not attach, with what to do about it; empty if it can."""
    address, tls = parse_address(url), None
    if login is not None:
        try:
            shown = login()
        except InputError as error:
            return error.message
        address, tls = logged_in(address, shown), shown.tls
    connection = AmqpConnection(address, "mangrove looks")
    try:
        await connection.open(tls)
        problem = await _lacks(connection, address)
    except AmqpError as error:
        problem = _refusal(error, address)
    finally:
        await connection.close()
    if problem:
        return problem
    try:
        found = await exchange_type(address, tls)
        await listed_bindings(address, address.exchange, tls)
    except PageError as error:
        return _page_problem(error, address)
    if found != TOPIC:
        return (
            f"{address.place}: the exchange {address.exchange!r} is of type {found}, and knows no patterns; "
            "name one of type topic as `exchange`, or leave that out for amq.topic"
        )
    return ""


async def _lacks(connection: AmqpConnection, address: RabbitAddress) -> str:
    for exchange, missing in (
        (address.exchange, f"it has no exchange {address.exchange!r} in the virtual host {address.vhost!r}"),
        (EVENTS_EXCHANGE, NO_EVENTS),
    ):
        try:
            await connection.call(commands.Exchange.Declare(exchange=exchange, passive=True))
        except AmqpError as error:
            if error.code == NOT_FOUND:
                return f"{address.place}: {missing}"
            raise
    # What a gateway declares has such names; this queue ends with the connection.
    queue = f"mangrove.look-{secrets.token_hex(4)}"
    await connection.call(commands.Queue.Declare(queue=queue, exclusive=True, auto_delete=True))
    await connection.call(commands.Queue.Bind(queue=queue, exchange=address.exchange, routing_key=queue))
    return ""


def _refusal(error: AmqpError, address: RabbitAddress) -> str:
    if error.code == ACCESS_REFUSED:
        return (
            f"{address.place} does not let {address.user!r} in, or do what a gateway does: {error.message}; "
            "check `credentials`, and give the user all permissions in the virtual host "
            f"(rabbitmqctl set_permissions -p {address.vhost} {address.user} '.*' '.*' '.*')"
        )
    if error.code == NOT_ALLOWED:
        return f"{address.place} has no virtual host {address.vhost!r} for {address.user!r}: {error.message}"
    return f"{error.message}; is it running, and are the address, its scheme and `ca_file` right?"


def _page_problem(error: PageError, address: RabbitAddress) -> str:
    if error.status == UNAUTHORIZED:
        return (
            f"{address.management} does not show {address.user!r} what is bound; "
            f"run `rabbitmqctl set_user_tags {address.user} monitoring`"
        )
    return (
        f"its management pages cannot be had: {error.message}; run `rabbitmq-plugins enable "
        "rabbitmq_management` there, and name them as `monitor` if they are not on port 15672"
    )
