"""Ports that nobody else can take before our process listens on them.

A bound socket that does not listen keeps its port away from everybody but programs that, like nats-server and
asyncio servers, set SO_REUSEADDR. Held for as long as the federation runs, it also keeps the port free while
a broker restarts.
"""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

from mangrove.errors import MangroveError


class PortReservation:
    """A number of reserved ports; released together."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def take(self, host: str, port: int = 0) -> int:
        """Reserve a port, or any free one for 0."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        reserved = socket.socket(family, socket.SOCK_STREAM)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            reserved.bind((host, port))
        except OSError as error:
            reserved.close()
            raise MangroveError(f"cannot use port {port} on {host}: {error.strerror}") from None
        self._sockets.append(reserved)
        taken: int = reserved.getsockname()[1]
        return taken

    def release(self) -> None:
        """Give all ports back."""
        while self._sockets:
            self._sockets.pop().close()
