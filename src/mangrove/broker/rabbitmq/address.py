"""Where a RabbitMQ is, and what of it is used: `amqp://user:password@host:port/vhost?exchange=…&management=…`.

How much may wait there for a gateway can be said as well, as `waiting_bytes`.
"""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from mangrove.model.address import Address

DEFAULT_EXCHANGE = "amq.topic"
GROUPS_EXCHANGE = "mangrove.groups"
"""A queue that is bound here is the queue group of its name."""
DEFAULT_VHOST = "/"
GUEST = "guest"
"""Whom a RabbitMQ knows that nobody has set up; it lets them in from its own machine alone."""
MAX_WAITING_BYTES = 1 << 30
AMQP_PORT, AMQPS_PORT, MANAGEMENT_PORT = 5672, 5671, 15672


class RabbitAddress(msgspec.Struct, frozen=True, kw_only=True):
    """One broker, one of its virtual hosts, and the exchange there that is federated."""

    host: str
    port: int
    encrypted: bool = False
    user: str = GUEST
    password: str = GUEST
    vhost: str = DEFAULT_VHOST
    exchange: str = DEFAULT_EXCHANGE
    management: str = ""
    """URL of its management pages."""
    waiting_bytes: int = MAX_WAITING_BYTES
    """How much may wait there for a gateway."""

    def __repr__(self) -> str:
        """Without the password."""
        return f"RabbitAddress({self.place!r}, vhost={self.vhost!r}, exchange={self.exchange!r})"

    @property
    def place(self) -> str:
        """Host and port."""
        return str(Address(self.host, self.port))


def parse_address(url: str) -> RabbitAddress:
    """Read a URL that was checked when the federation file was read."""
    parts = urlsplit(url)
    asked = parse_qs(parts.query)
    encrypted = parts.scheme == "amqps"
    host = parts.hostname or "127.0.0.1"
    return RabbitAddress(
        host=host,
        port=parts.port or (AMQPS_PORT if encrypted else AMQP_PORT),
        encrypted=encrypted,
        user=unquote(parts.username or GUEST),
        password=unquote(parts.password or GUEST),
        vhost=unquote(parts.path.removeprefix("/")) or DEFAULT_VHOST,
        exchange=asked.get("exchange", [DEFAULT_EXCHANGE])[0],
        management=asked.get("management", [f"http://{Address(host, MANAGEMENT_PORT)}"])[0],
        waiting_bytes=int(asked.get("waiting_bytes", [MAX_WAITING_BYTES])[0]),
    )
