"""Connections by nats-py that are closed when they do not come about."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import nats.errors
from nats.aio.client import Client

CLOSE_S = 1.0
CANCEL_S, CANCEL_TIMES = 0.05, 20


async def connect_or_close(urls: str | list[str], **options: Any) -> Client:
    """What `nats.connect` does, but a connection that fails, or is no longer waited for, leaves no socket.

    The library closes a socket that it opened neither when it is cancelled nor, without reconnecting, when it
    is turned away.
    """
    client = Client()
    try:
        await client.connect(urls, **options)
    except BaseException:
        await close_in_time(client)
        raise
    return client


async def close_in_time(client: Client) -> None:
    """Close a connection, be the broker there or not, and leave neither a task nor a socket behind."""
    await end_attempts(client)
    with contextlib.suppress(TimeoutError, OSError, nats.errors.Error):
        async with asyncio.timeout(CLOSE_S):
            await client.close()
    writer: asyncio.StreamWriter | None = getattr(client._transport, "_io_writer", None)
    if writer is not None:
        writer.transport.abort()


async def end_attempts(client: Client) -> None:
    """Connect no more by itself.

    The library's own attempt to connect again swallows cancellations, goes on beside `close`, and may then
    open a socket that nobody closes: so it is ended before.
    """
    again: asyncio.Task[None] | None = client._reconnection_task
    for _ in range(CANCEL_TIMES):
        if again is None or again.done() or again is asyncio.current_task():
            break
        again.cancel()
        await asyncio.wait([again], timeout=CANCEL_S)
