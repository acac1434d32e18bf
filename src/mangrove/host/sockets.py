"""How our own TCP connections are set up."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from typing import cast

_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", None)
_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", None)
_KEEP_IDLE = getattr(socket, "TCP_KEEPIDLE", None)


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


def expect_answers(transport: asyncio.BaseTransport, within_s: float) -> None:
    """Have the kernel close a connection whose far end acknowledges nothing for so long: its host is gone.

    Every second without traffic is asked for a sign, so that also who only listens notices. A process that
    hangs on a machine that lives is not noticed by this: its kernel answers for it.
    """
    sock = transport.get_extra_info("socket")
    if sock is None or _USER_TIMEOUT is None or _KEEP_IDLE is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, _KEEP_IDLE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    sock.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, int(within_s * 1000))


# Places in Linux's `struct tcp_info`: tcpi_total_retrans and tcpi_data_segs_out.
_TCP_INFO_BYTES = 160
_TOTAL_RETRANSMITTED_AT = 100
_DATA_SEGMENTS_OUT_AT = 156


def retransmitted_share(transport: asyncio.BaseTransport) -> float | None:
    """What share of the data segments TCP had to send again: the loss on the way, as far as one end sees it.

    None where the system does not tell.
    """
    sock = transport.get_extra_info("socket")
    if sock is None or not sys.platform.startswith("linux"):
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except OSError:
        return None
    if len(info) < _TCP_INFO_BYTES:
        return None
    (again,) = struct.unpack_from("=I", info, _TOTAL_RETRANSMITTED_AT)
    (sent,) = struct.unpack_from("=I", info, _DATA_SEGMENTS_OUT_AT)
    return float(again / sent) if sent else 0.0
