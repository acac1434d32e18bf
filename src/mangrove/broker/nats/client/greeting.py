"""What a nats-server says of itself, how a client introduces itself, and where servers are."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import msgspec

from mangrove.host.keys.login import BrokerLogin
from mangrove.model.unreadable import UNREADABLE
from mangrove.overlay.protocol.bodies import WireError

DEFAULT_PORT = 4222
DEFAULT_MAX_PAYLOAD = 1 << 20


class ServerInfo(msgspec.Struct, frozen=True):
    """What we use of a server's INFO."""

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    max_payload: int = DEFAULT_MAX_PAYLOAD
    headers: bool = False
    tls_required: bool = False
    tls_available: bool = False
    nonce: str = ""
    """What a client signs to show that it holds its key."""
    client_id: int = 0
    connect_urls: list[str] = []
    ldm: bool = False
    """The server is about to go, and asks its clients to go elsewhere."""


def parse_info(text: bytes) -> ServerInfo:
    """An INFO line's document, or WireError."""
    try:
        info = msgspec.json.decode(text, type=ServerInfo)
    except UNREADABLE as error:
        raise WireError(f"malformed INFO from the broker: {error}") from None
    if info.max_payload <= 0:
        raise WireError(f"the broker says that messages may have {info.max_payload} bytes")
    return info


class ServerAddress(msgspec.Struct, frozen=True):
    """Where a server listens, and as whom a client comes."""

    host: str
    port: int
    tls: bool = False
    credentials: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'nats'}://{host}:{self.port}"


def parse_address(url: str) -> ServerAddress:
    """The address in a URL such as nats://user:password@host:4222; ValueError if it is none.

    A user without a password is a token.
    """
    parts = urlsplit(url if "://" in url else f"nats://{url}")
    if parts.scheme not in ("nats", "tls") or not parts.hostname:
        raise ValueError(f"{parts.scheme}://{parts.hostname or ''} is not the URL of a nats-server")
    credentials: tuple[tuple[str, str], ...] = ()
    if parts.username:
        user = unquote(parts.username)
        if parts.password is None:
            credentials = (("auth_token", user),)
        else:
            credentials = (("user", user), ("pass", unquote(parts.password)))
    return ServerAddress(parts.hostname, parts.port or DEFAULT_PORT, parts.scheme == "tls", credentials)


def connect_lines(
    name: str, address: ServerAddress, version: str, login: BrokerLogin | None = None, nonce: str = ""
) -> bytes:
    """How a client introduces itself; the first PONG means that it is accepted.

    What the address says of the user goes before a `login`.
    """
    options = {
        "verbose": False,
        "pedantic": False,
        "lang": "python-mangrove",
        "version": version,
        "protocol": 1,
        "headers": True,
        "no_responders": True,
        "echo": True,
        "name": name,
        **(dict(address.credentials) or ({} if login is None else login.shown(nonce))),
    }
    return b"CONNECT " + msgspec.json.encode(options) + b"\r\nPING\r\n"
