"""Frames for tests."""

from __future__ import annotations

from msgspec.structs import replace

from mangrove.overlay.protocol.frames import Frame, FrameType, Predecessor


class Seconds(float):
    """Patience that is the same for every frame."""

    def hold_s(self, frame: Frame) -> float:
        return float(self)


def frame(body: bytes = b"x", **fields: int | tuple[Predecessor, ...]) -> Frame:
    """A data frame, with these fields of its header."""
    return replace(Frame(FrameType.DATA, body), **fields)
