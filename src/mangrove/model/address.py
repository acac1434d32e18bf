"""Where a process listens: a host and a port, written `host:port`, an IPv6 host in brackets."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple, Self

from mangrove.errors import InputError

MAX_PORT = 65535
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


class AddressError(InputError, ValueError):
    """A text that is no address; also a ValueError, which is what validators of documents expect."""


class Address(NamedTuple):
    """A host and a port; in JSON, and to sockets, a pair."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `host:port` or `[IPv6]:port`, or raise AddressError."""
        host, _, port = text.rpartition(":")
        if not (port.isascii() and port.isdigit() and 1 <= int(port) <= MAX_PORT):
            raise AddressError(f"host:port is expected, with a port from 1 to {MAX_PORT}")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
            if not _is_ip(host, version=6):
                raise AddressError("only an IPv6 address goes in brackets")
        elif ":" in host:  # `::1:7000` may or may not end in a port
            raise AddressError("an IPv6 address goes in brackets: [address]:port is expected")
        return cls(checked_host(host), int(port))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def checked_host(text: str) -> str:
    """`text` if it is an IP address or a host name, else AddressError."""
    if not _is_ip(text) and not _HOST_NAME.fullmatch(text):
        raise AddressError("an IP address or a host name is expected")
    return text


def _is_ip(text: str, version: int | None = None) -> bool:
    try:
        return ipaddress.ip_address(text).version == version or version is None
    except ValueError:
        return False
