"""What agents of two linked domains say to each other, on the link between their gateways.

Management frames go behind what keeps the network together (heartbeats, link state, routes) and before data.
They are few and small by a limit at both ends, go in pieces that no heartbeat need wait for, and have a
quarter of the bytes while data waits. They are kept nowhere: whoever sends them expects that some get lost,
and says it again. Nobody but the gateways of the two domains sees them.
"""

from __future__ import annotations

from collections import Counter, deque

from mangrove.overlay.protocol.frames import Frame, FrameType
from mangrove.overlay.protocol.pieces import MANAGEMENT_STREAM, Cutting

MAX_MANAGEMENT_BYTES = 64 << 10
MESSAGES_A_SECOND = 100.0
BYTES_A_SECOND = 768.0 * 1024
BURST_S = 2.0
"""What a silent agent may say at once: as much as in so much time."""
RECEIVED_FACTOR = 1.5
"""How much more is taken in than may be sent: what was held up on the way comes faster than it left."""
MAX_WAITING_BYTES = 256 << 10
SMALL_BYTES = 4096
"""Messages up to this size overtake larger ones: words of a session do not wait behind long lists."""
PIECE_BYTES = 8192
DATA_SHARE = 3
"""Bytes of data, if some waits, for each byte of management."""

EMPTY = "empty"
TOO_LARGE = f"larger than {MAX_MANAGEMENT_BYTES} bytes"
TOO_FAST = "faster than the limit"
LINK_DOWN = "the link is down"
LINK_LOST = "the link failed before it was sent"
QUEUE_FULL = "too much waits for the link"
CAME_TOO_FAST = "came faster than the limit"


class _Allowance:
    """A token bucket for messages and bytes at once."""

    def __init__(self, factor: float) -> None:
        self._messages_s = factor * MESSAGES_A_SECOND
        self._bytes_s = factor * BYTES_A_SECOND
        self._messages = self._messages_s * BURST_S
        self._bytes = self._bytes_s * BURST_S
        self._at = 0.0

    def take(self, size_bytes: int, now: float) -> bool:
        """Whether one more message of this size is within the limits."""
        passed = max(0.0, now - self._at)
        self._at = max(self._at, now)
        self._messages = min(self._messages_s * BURST_S, self._messages + passed * self._messages_s)
        self._bytes = min(self._bytes_s * BURST_S, self._bytes + passed * self._bytes_s)
        if self._messages < 1 or self._bytes < size_bytes:
            return False
        self._messages -= 1
        self._bytes -= size_bytes
        return True


class ManagementLine:
    """Management messages to and from one neighbour. What waits is bounded."""

    def __init__(self) -> None:
        self._may_send = _Allowance(1.0)
        self._may_come = _Allowance(RECEIVED_FACTOR)
        self._small: deque[bytes] = deque()
        self._large: deque[bytes] = deque()
        self._cutting: Cutting | None = None
        self._cut_bytes = 0
        """Size of the message that is being cut."""
        self._owed_bytes = 0
        """How much data goes, if some waits, before management may go again."""
        self.waiting_bytes = 0
        """Not zero as long as there is something to pull."""
        self.sent = self.received = self.sent_bytes = self.received_bytes = 0
        self.dropped: Counter[str] = Counter()

    def offer(self, body: bytes, now: float) -> bool:
        """A message waits for its turn; False if it was dropped instead."""
        if not body:
            self.dropped[EMPTY] += 1
        elif len(body) > MAX_MANAGEMENT_BYTES:
            self.dropped[TOO_LARGE] += 1
        elif not self._may_send.take(len(body), now):
            self.dropped[TOO_FAST] += 1
        elif self.waiting_bytes + len(body) > MAX_WAITING_BYTES:
            self.dropped[QUEUE_FULL] += 1
        else:
            (self._small if len(body) <= SMALL_BYTES else self._large).append(body)
            self.waiting_bytes += len(body)
            return True
        return False

    def came(self, frame: Frame, now: float) -> bool:
        """A message has come; False if it is dropped."""
        if not self._may_come.take(len(frame.body), now):
            self.dropped[CAME_TOO_FAST] += 1
            return False
        self.received += 1
        self.received_bytes += len(frame.body)
        return True

    def turn(self, data_waits: bool) -> bool:
        """Whether management goes next, if there is any."""
        return not (data_waits and self._owed_bytes > 0)

    def data_went(self, size_bytes: int) -> None:
        """Data was sent."""
        self._owed_bytes = max(0, self._owed_bytes - size_bytes)

    def pull(self, piece_bytes: float, now: float) -> Frame:
        """The next frame or piece; there is one."""
        frame = self._next(int(min(piece_bytes, PIECE_BYTES)), now)
        self._owed_bytes = DATA_SHARE * len(frame.body)
        return frame

    def _next(self, piece_bytes: int, now: float) -> Frame:
        if self._small:
            return self._whole(self._small.popleft())
        if self._cutting is None:
            body = self._large.popleft()
            if len(body) <= piece_bytes:
                return self._whole(body)
            self._cut_bytes = len(body)
            self._cutting = Cutting(Frame(FrameType.MANAGEMENT, body), 0.0, MANAGEMENT_STREAM, now)
        piece, last = self._cutting.cut(piece_bytes, now)
        if last:
            self._cutting = None
            self._left(self._cut_bytes)
        return piece

    def _whole(self, body: bytes) -> Frame:
        self._left(len(body))
        return Frame(FrameType.MANAGEMENT, body)

    def _left(self, size_bytes: int) -> None:
        self.waiting_bytes -= size_bytes
        self.sent += 1
        self.sent_bytes += size_bytes

    def restart(self) -> None:
        """The connection is gone, and with it what waited."""
        lost = len(self._small) + len(self._large) + (self._cutting is not None)
        if lost:
            self.dropped[LINK_LOST] += lost
        self._small.clear()
        self._large.clear()
        self._cutting = None
        self.waiting_bytes = self._owed_bytes = 0

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        held = sum(map(len, self._small)) + sum(map(len, self._large))
        held += self._cut_bytes if self._cutting is not None else 0
        if held != self.waiting_bytes:
            return [f"{held} bytes of management wait, {self.waiting_bytes} are counted"]
        return []
