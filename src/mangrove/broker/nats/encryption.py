"""How a leaf-node connection to a nats-server becomes an encrypted one.

The server greets in the clear; then both sides go on under TLS, and who the caller is comes after that. What
the greeting says is believed as far as it goes: nothing may follow it in the clear, and a server that does
not want encryption where it is expected is left.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import cast

from mangrove.overlay.protocol.bodies import CRLF, WireError

MAX_GREETING_BYTES = 64 << 10
HANDSHAKE_S = 3.0


class _Greeting(asyncio.Protocol):
    """Waits for the one line that a server says in the clear."""

    def __init__(self) -> None:
        self.line: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop has classes of its own

    def data_received(self, data: bytes) -> None:
        """Take the line. Whoever writes more behind it wants something to pass as said under TLS."""
        self._held += data
        line, end, more = self._held.partition(CRLF)
        if more or len(self._held) > MAX_GREETING_BYTES or (end and not line.startswith(b"INFO ")):
            self._fail(WireError("the broker says more in the clear than its greeting"))
        elif end and not self.line.done():
            assert self._transport is not None
            self._transport.pause_reading()
            self.line.set_result(line)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._fail(exc or ConnectionResetError("the broker closed the connection before it greeted"))

    def _fail(self, error: Exception) -> None:
        if not self.line.done():
            self.line.set_exception(error)
            self.line.exception()  # whether anybody waits for it or not
        if self._transport is not None:
            self._transport.abort()


async def connect_encrypted(
    protocol: asyncio.Protocol, host: str, port: int, context: ssl.SSLContext
) -> None:
    """Connect, and hand the connection over to `protocol` once it is encrypted, with the greeting.

    OSError (of which ssl.SSLError is one) or WireError if that does not come about.
    """
    loop = asyncio.get_running_loop()
    transport, greeting = await loop.create_connection(_Greeting, host, port)
    try:
        async with asyncio.timeout(HANDSHAKE_S):
            line = await greeting.line
            transport.resume_reading()
            stream = await loop.start_tls(transport, greeting, context, server_hostname=host)
        if stream is None:
            raise ConnectionResetError("the broker closed the connection")
    except BaseException:
        transport.abort()
        raise
    stream.set_protocol(protocol)
    protocol.connection_made(stream)
    protocol.data_received(line + CRLF)
