"""Pages that brokers show of themselves by HTTP, and whether anybody listens at all."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from mangrove.errors import MangroveError

TIMEOUT_S = 2.0
MAX_PAGE_BYTES = 16 << 20
_READ_BYTES = 1 << 18


class PageTooLargeError(MangroveError):
    """A monitoring page that is longer than the reader is willing to hold."""


async def fetch(url: str, *, max_bytes: int = MAX_PAGE_BYTES, timeout_s: float = TIMEOUT_S) -> bytes | None:
    """A monitoring page, or None if it cannot be had. A page of more than `max_bytes` raises.

    Asked for by HTTP/1.0, so that it ends with its connection and comes in one piece.
    """
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=_READ_BYTES)
            try:
                writer.write(f"GET {target} HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                if b" 200 " not in head.partition(b"\r\n")[0]:
                    return None
                body = bytearray()
                while part := await reader.read(_READ_BYTES):
                    body += part
                    if len(body) > max_bytes:
                        raise PageTooLargeError(f"{url} is longer than {max_bytes} bytes")
                return bytes(body)
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None


async def port_answers(host: str, port: int, timeout_s: float = TIMEOUT_S) -> bool:
    """Whether somebody listens there."""
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
