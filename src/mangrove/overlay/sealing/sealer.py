"""Who seals bodies, as the engine sees it: the keys are the shell's, and the engine knows none."""

from __future__ import annotations

from typing import Protocol

from mangrove.overlay.protocol.frames import Frame
from mangrove.overlay.sealing.sealed_body import MAGIC, sealed_bytes


class Sealer(Protocol):
    """Seals the bodies of frames that begin here.

    A sealed body is as long as `sealed_bytes` says, whatever the keys are: recordings hold no bodies, and
    what an engine does with a frame depends on its length.
    """

    def seal(self, frame: Frame) -> bytes:
        """The body of a new frame, sealed for its destinations."""


class BlankSealer:
    """A sealer for recordings that are told again: bodies as long as sealed ones, which say nothing."""

    def seal(self, frame: Frame) -> bytes:
        """A body of the right length."""
        length = sealed_bytes(len(frame.body), frame.destinations.bit_count())
        return MAGIC + bytes(length - len(MAGIC))
