"""The kinds of brokers as their clients see them: one entry for each.

Apart from `kinds`, so that a program that only publishes and subscribes does not load what starts, attaches
to and watches brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mangrove.broker.client_connection import ClientConnection, ClientConnectionOwner
from mangrove.broker.nats.client.connection import NatsClientConnection
from mangrove.host.keys.login import LoginSource
from mangrove.model.broker_kinds import BrokerKind


class ClientKind(Protocol):
    """Makes connections to the brokers of one kind."""

    def __call__(
        self,
        urls: Sequence[str],
        name: str,
        owner: ClientConnectionOwner | None = None,
        *,
        login: LoginSource | None = None,
        marker_prefix: str = "",
    ) -> ClientConnection:
        """A connection to one of the brokers at these URLs, tried in this order; it is not made yet.

        A `login` is asked for at every attempt; without one brokers that let anybody in are connected to.
        Under `marker_prefix` the user may publish what it needs to log in anew without a gap.
        """


CLIENT_KINDS: dict[BrokerKind, ClientKind] = {BrokerKind.NATS: NatsClientConnection}


def client_connection(
    kind: BrokerKind,
    urls: Sequence[str],
    name: str,
    owner: ClientConnectionOwner | None = None,
    *,
    login: LoginSource | None = None,
    marker_prefix: str = "",
) -> ClientConnection:
    """A connection to brokers of this kind; others than the first are loaded where there are any."""
    if kind is BrokerKind.RABBITMQ and kind not in CLIENT_KINDS:
        from mangrove.broker.rabbitmq.codec import require_codec

        require_codec()
        from mangrove.broker.rabbitmq.client.connection import RabbitClientConnection

        CLIENT_KINDS[kind] = RabbitClientConnection
    return CLIENT_KINDS[kind](urls, name, owner, login=login, marker_prefix=marker_prefix)
