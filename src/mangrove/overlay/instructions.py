"""What the protocol engine tells its shell to do."""

from __future__ import annotations

from dataclasses import dataclass

from mangrove.overlay.frames import Frame


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Send a frame to a neighbour.

    `due` orders what waits for the link: the time by which the frame should leave to arrive in time (its
    laxity). Control frames have none and go first.
    """

    peer: str
    frame: Frame
    due: float = float("-inf")


@dataclass(frozen=True, slots=True)
class CloseLink:
    """Close the connection to a neighbour and forget what waits for it: it is sent another way."""

    peer: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeliverMessages:
    """Write the messages of a frame to the head broker."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class ChangeSubscriptions:
    """Change what the gateway subscribes to at its head broker."""

    add: tuple[str, ...]
    remove: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropMessages:
    """Messages of a frame end here; count them under `reason`."""

    frame: Frame
    reason: str


Instruction = SendFrame | CloseLink | DeliverMessages | ChangeSubscriptions | DropMessages
