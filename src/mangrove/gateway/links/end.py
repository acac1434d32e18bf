"""The near end of the link to one neighbour."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mangrove.overlay.protocol.frames import Frame

if TYPE_CHECKING:
    from mangrove.gateway.links.connection import LinkConnection

BATCH_BYTES = 1 << 13
"""A write costs more than all else that a small frame needs."""


class LinkEnd:
    """Its counters, and its connection if there is one."""

    def __init__(self, peer: str, pull: Callable[[str, float], Frame | None]) -> None:
        """`pull` gives the next frame to send, or None."""
        self.peer = peer
        self._pull = pull
        self.connection: LinkConnection | None = None
        self.writable = False
        self.frames_out = self.frames_in = self.bytes_out = self.bytes_in = 0
        self.connects = 0
        self.renewals = 0
        self.epoch = 0
        self.last_error = ""

    def serve(self, now: float) -> None:
        """Send what waits, the most urgent first, while the socket can take it; small frames in one go."""
        while self.writable and self.connection is not None:
            buffers: list[bytes] = []
            size_bytes = 0
            while size_bytes < BATCH_BYTES and (frame := self._pull(self.peer, now)) is not None:
                head = frame.head()
                buffers += (head, frame.body)
                size_bytes += len(head) + len(frame.body)
            if not buffers:
                return
            self.frames_out += len(buffers) // 2
            self.bytes_out += size_bytes
            self.connection.write(buffers)

    def resume(self, now: float) -> None:
        """The socket can take more."""
        self.writable = True
        self.serve(now)

    def send(self, frame: Frame) -> None:
        """Write a frame, whatever waits."""
        if self.connection is None:
            return  # the engine knows, or will be told with the next event
        head = frame.head()
        self.frames_out += 1
        self.bytes_out += len(head) + len(frame.body)
        self.connection.write([head, frame.body])

    def loss_ratio(self) -> float | None:
        """What share of the present connection's segments had to be sent again."""
        return self.connection.loss_ratio() if self.connection is not None else None

    @property
    def secured(self) -> bool:
        """Whether the peer has proven who it is, and all that is said is encrypted."""
        return self.connection is not None and self.connection.proof is not None

    def shut(self) -> None:
        """There is no connection."""
        self.connection = None
        self.writable = False
