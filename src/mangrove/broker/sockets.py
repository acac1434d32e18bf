"""How our own TCP connections are set up."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", None)


def prepare(
    transport: asyncio.BaseTransport, *, high_water_bytes: int, unsent_bytes: int | None = None
) -> asyncio.Transport:
    """Send small messages at once, and say when so much waits to be sent.

    What the kernel holds unsent is in order of arrival; `unsent_bytes` keeps that short where urgency counts.
    """
    stream = cast("asyncio.Transport", transport)  # uvloop has classes of its own
    stream.set_write_buffer_limits(high=high_water_bytes)
    sock = stream.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if unsent_bytes is not None and _NOTSENT_LOWAT is not None:
            sock.setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, unsent_bytes)
    return stream
