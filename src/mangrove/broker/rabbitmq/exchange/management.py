"""The management pages of a RabbitMQ: what is bound when a gateway attaches, which AMQP cannot tell."""

from __future__ import annotations

import asyncio
import base64
import ssl
from urllib.parse import quote, urlsplit

import msgspec

from mangrove.broker.rabbitmq.address import RabbitAddress
from mangrove.broker.rabbitmq.exchange.bindings import Binding, arguments_text
from mangrove.errors import MangroveError
from mangrove.model.unreadable import UNREADABLE

TIMEOUT_S = 10.0
MAX_PAGE_BYTES = 256 << 20
_READ_BYTES = 1 << 18
PASSING = (408, 429)
"""Answers of HTTP that blame the question, and yet mean that it came at a bad time."""


class PageError(MangroveError):
    """A page that cannot be had; `status` is HTTP's, or 0 if nobody answered."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status

    @property
    def refused(self) -> bool:
        """Whether to ask again would bring the same."""
        return 400 <= self.status < 500 and self.status not in PASSING


class _Listed(msgspec.Struct):
    destination: str
    destination_type: str
    routing_key: str
    arguments: dict[str, object] = {}


class _Exchange(msgspec.Struct):
    type: str


async def listed_bindings(
    address: RabbitAddress, exchange: str, tls: ssl.SSLContext | None = None, *, groups: bool = False
) -> list[Binding]:
    """Everything that is bound to an exchange; PageError if that cannot be told.

    With `groups`, each queue there is the queue group of its name.
    """
    vhost, name = quote(address.vhost, safe=""), quote(exchange, safe="")
    page = await fetch(address, f"/api/exchanges/{vhost}/{name}/bindings/source", tls)
    try:
        found = msgspec.json.decode(page, type=list[_Listed])
    except UNREADABLE as error:
        raise PageError(f"{address.management} tells what cannot be read: {error}") from None
    return [
        Binding(
            each.destination_type,
            each.destination,
            each.routing_key,
            arguments_text(each.arguments),
            each.destination if groups else "",
        )
        for each in found
    ]


async def exchange_type(address: RabbitAddress, tls: ssl.SSLContext | None = None) -> str:
    """Of which type the federated exchange is; PageError if that cannot be told."""
    vhost, name = quote(address.vhost, safe=""), quote(address.exchange, safe="")
    page = await fetch(address, f"/api/exchanges/{vhost}/{name}", tls)
    try:
        return msgspec.json.decode(page, type=_Exchange).type
    except UNREADABLE as error:
        raise PageError(f"{address.management} tells what cannot be read: {error}") from None


async def fetch(
    address: RabbitAddress,
    path: str,
    tls: ssl.SSLContext | None = None,
    *,
    method: str = "GET",
    content: bytes = b"",
) -> bytes:
    """One page, asked for as the user of the address; by HTTP/1.0, so that it ends with its connection."""
    parts = urlsplit(address.management)
    shown = base64.b64encode(f"{address.user}:{address.password}".encode()).decode()
    asked = f"{method} {path} HTTP/1.0\r\nHost: {parts.netloc}\r\nAuthorization: Basic {shown}\r\n"
    if content:
        asked += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    encryption = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(
                parts.hostname, parts.port, limit=_READ_BYTES, ssl=encryption
            )
            try:
                writer.write(asked.encode() + b"\r\n" + content)
                head = await reader.readuntil(b"\r\n\r\n")
                status = head.split(b" ", 2)[1]
                if not status.startswith(b"2"):
                    number = int(status) if status.isdigit() else 0
                    raise PageError(f"{parts.netloc} answers {number} to {method} {path}", number)
                body = bytearray()
                while part := await reader.read(_READ_BYTES):
                    body += part
                    if len(body) > MAX_PAGE_BYTES:
                        raise PageError(f"{path} is longer than {MAX_PAGE_BYTES} bytes")
                return bytes(body)
            finally:
                writer.close()
    except TimeoutError:
        raise PageError(f"{parts.netloc} does not answer within {TIMEOUT_S:g} s") from None
    except (OSError, ValueError, IndexError, EOFError, asyncio.LimitOverrunError) as error:
        raise PageError(f"{parts.netloc} cannot be asked: {error}") from None
