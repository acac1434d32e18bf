"""The kinds of brokers that a domain may have, and how their URLs look.

What a kind can do is in its folder of `mangrove.broker`; here is only what a federation file needs to know.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class BrokerKind(StrEnum):
    """A kind of broker. Each has an entry in `mangrove.broker.kinds`."""

    NATS = "nats"
    RABBITMQ = "rabbitmq"


class BrokerUrls(msgspec.Struct, frozen=True):
    """How the addresses of a kind of broker are written."""

    client_scheme: str
    attach_scheme: str
    """Of the listener where gateways and edge brokers attach."""
    attach_port: int
    """Where that listener is if nobody says so."""
    encrypted_scheme: str = ""
    """Of clients that speak TLS from the first byte on; empty: the other one says nothing about that."""

    @property
    def client_schemes(self) -> tuple[str, ...]:
        """All that a client's URL may begin with."""
        return (self.client_scheme, self.encrypted_scheme) if self.encrypted_scheme else (self.client_scheme,)

    def scheme_of(self, *, encrypted: bool) -> str:
        """What a client's URL begins with."""
        return self.encrypted_scheme if encrypted and self.encrypted_scheme else self.client_scheme


BROKER_URLS = {
    BrokerKind.NATS: BrokerUrls("nats", "nats-leaf", 7422),
    BrokerKind.RABBITMQ: BrokerUrls("amqp", "amqp", 5672, "amqps"),
}
