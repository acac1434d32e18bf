"""Frames for tests."""

from __future__ import annotations

from mangrove.overlay.protocol.frames import Frame, FrameType


def frame(body: bytes = b"x", **fields: int) -> Frame:
    """A data frame, with these fields of its header."""
    return Frame(FrameType.DATA, body, **fields)
