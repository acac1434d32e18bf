"""Large frames on slow links go in pieces, so that an urgent one need not wait for the end of a large one.

A piece carries a part of a body and the number of its stream. The frame itself comes last, with the rest of
the body and the same number. Pieces are between two neighbours only: nobody else ever sees them.
"""

from __future__ import annotations

import msgspec

from mangrove.overlay.protocol.frames import Frame, FrameError, FrameType

MAX_STREAMS = 8
"""So many frames may have begun and be overtaken by others at the same time."""
MIN_PIECE_BYTES = 4096
FEWEST_PIECES = 1024
"""Pieces that may wait for the end of their frame, also where few bytes may; small ones take memory, too."""
MANAGEMENT_STREAM = (1 << 16) - 1
"""The stream of management frames in pieces, of which one at a time has begun; data uses the others."""
PIECE_S = 0.010
"""A piece takes about so long on the line."""

_GAIN = 0.25


class LinkRate:
    """How fast a link takes data, learnt while more waits than it takes."""

    def __init__(self) -> None:
        self._bytes_per_s: float | None = None
        self._taken = 0
        self._since: float | None = None

    def took(self, size_bytes: int) -> None:
        """Data left for the link."""
        self._taken += size_bytes

    def idle(self) -> None:
        """Nothing waits: the link could take more than there is."""
        self._since = None

    def settle(self, backlogged: bool, now: float) -> None:
        """Now and then: whether data waits. If it did all the time since the last time, the link was busy."""
        if backlogged and self._since is not None and now > self._since:
            rate = self._taken / (now - self._since)
            before = self._bytes_per_s
            self._bytes_per_s = rate if before is None else before + _GAIN * (rate - before)
        self._since = now if backlogged else None
        self._taken = 0

    @property
    def bytes_per_s(self) -> float | None:
        """How fast the link takes data; None as long as it was never too slow."""
        return self._bytes_per_s

    @property
    def piece_bytes(self) -> float:
        """Size of a piece; infinite as long as the link was never too slow."""
        if self._bytes_per_s is None:
            return float("inf")
        return max(MIN_PIECE_BYTES, PIECE_S * self._bytes_per_s)


class Cutting:
    """A large frame that has begun to leave."""

    def __init__(self, frame: Frame, rank: float, stream: int, now: float) -> None:
        self.rank = rank
        self.stream = stream
        self._frame = frame
        self._since = now
        self._position = 0

    def whole(self, now: float) -> Frame:
        """The frame that is being cut, as old as it is now."""
        return self._frame.older(now - self._since)

    def cut(self, size_bytes: int, now: float) -> tuple[Frame, bool]:
        """The next piece, and whether it is the last one: the frame itself with the rest of its body."""
        start, end = self._position, self._position + size_bytes
        self._position = end
        body = self._frame.body
        if end < len(body):
            return Frame(FrameType.PIECE, body[start:end], stream=self.stream), False
        return msgspec.structs.replace(self.whole(now), body=body[start:], stream=self.stream), True


class Joining:
    """What has come of frames that a neighbour sends in pieces. Bounded."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._most_pieces = max(FEWEST_PIECES, limit_bytes // MIN_PIECE_BYTES)
        self._streams: dict[int, list[bytes]] = {}
        self._bytes = 0
        self._pieces = 0

    def add(self, piece: Frame) -> None:
        """A piece came. FrameError if the neighbour sends more than is agreed."""
        parts = self._streams.setdefault(piece.stream, [])
        parts.append(piece.body)
        self._bytes += len(piece.body)
        self._pieces += 1
        if (
            len(self._streams) > MAX_STREAMS + (MANAGEMENT_STREAM in self._streams)
            or self._bytes > self._limit_bytes
            or self._pieces > self._most_pieces
        ):
            raise FrameError(
                f"{len(self._streams)} unfinished frames of {self._bytes} bytes in pieces ({self._pieces})"
            )

    def join(self, last: Frame) -> Frame:
        """The frame came with the rest of its body."""
        parts = self._streams.pop(last.stream, None)
        if parts is None:
            raise FrameError(f"the end of a frame (stream {last.stream}) whose beginning never came")
        self._bytes -= sum(map(len, parts))
        self._pieces -= len(parts)
        return msgspec.structs.replace(last, body=b"".join([*parts, last.body]), stream=0)

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        held = sum(len(part) for parts in self._streams.values() for part in parts)
        return [] if held == self._bytes else [f"{held} bytes of pieces, {self._bytes} are counted"]

    def clear(self) -> None:
        """A new connection: nothing has begun."""
        self._streams.clear()
        self._bytes = self._pieces = 0
