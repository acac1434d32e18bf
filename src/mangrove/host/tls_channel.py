"""TLS without a socket: bytes of the line go in, bytes of the line come out.

Whoever owns the socket writes what comes out at once. So nothing waits below the owner's own queue: no buffer
of a TLS transport in which an urgent frame would stand behind others, and what is said is in the kernel's
hands when `seal` has returned and the owner has written it.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable

READ_BYTES = 1 << 16
RECORD_BYTES = 1 << 14
"""The most that one record carries."""
HANDSHAKE_RECORD = 0x16
RECORD_HEAD_BYTES = 5
MAX_FIRST_RECORD_BYTES = 4096
"""A greeting of TLS (ClientHello) has 250 to 2,000 bytes."""


class NoTlsError(Exception):
    """The first bytes of a connection are no greeting of TLS."""


def first_record_bytes(data: bytes | bytearray) -> int:
    """How long the record is that a connection begins with; 0 as long as that does not show.

    NoTlsError if it is no greeting of TLS. It is looked at before anything is allocated for a stranger.
    """
    if data[:1] and data[0] != HANDSHAKE_RECORD:
        raise NoTlsError
    if data[1:2] and data[1] != 3:
        raise NoTlsError
    if len(data) < RECORD_HEAD_BYTES:
        return 0
    size_bytes = RECORD_HEAD_BYTES + int.from_bytes(data[3:5], "big")
    if size_bytes > MAX_FIRST_RECORD_BYTES:
        raise NoTlsError
    return size_bytes


class TlsChannel:
    """One side of a TLS connection. `ssl.SSLError` from any method ends it; `outgoing` then has the alert."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        self._from_line = ssl.MemoryBIO()
        self._to_line = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._from_line, self._to_line, server_side=server_side)
        self.established = False
        """Whether this side has seen all that it needs of the handshake."""
        self.ended = False
        """Whether the other side has said that it sends nothing more."""
        self.records_out = 0
        self.record_bytes = RECORD_BYTES
        """How much goes into one record: the receiver reads none of it before it has all."""

    def begin(self) -> bytes:
        """The caller's first bytes for the line."""
        self._shake_hands()
        return self.outgoing()

    def receive(self, data: bytes) -> bytes:
        """Bytes came from the line; what they say. `outgoing` may have an answer."""
        self._from_line.write(data)
        if not self.established and not self._shake_hands():
            return b""
        parts: list[bytes] = []
        while self._from_line.pending or self.tls.pending():
            try:
                part = self.tls.read(READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                part = b""
            if not part:
                self.ended = True
                break
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def seal(self, buffers: Iterable[bytes]) -> bytes:
        """What to write to the line so that the other side reads these buffers; few large records."""
        plain = b"".join(buffers)
        if len(plain) <= self.record_bytes:
            self.tls.write(plain)
            self.records_out += 1
        else:
            view = memoryview(plain)
            position = 0
            while position < len(plain):
                position += self.tls.write(view[position : position + self.record_bytes])
                self.records_out += 1
        return self._to_line.read()

    def outgoing(self) -> bytes:
        """What the handshake, or its failure, has for the line."""
        return self._to_line.read() if self._to_line.pending else b""

    def _shake_hands(self) -> bool:
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.established = True
        return True
