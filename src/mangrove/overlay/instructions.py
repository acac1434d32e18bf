"""What the protocol engine tells its shell to do."""

from __future__ import annotations

from dataclasses import dataclass

from mangrove.overlay.frames import Frame


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Send a control frame to a neighbour, ahead of all data that waits."""

    peer: str
    frame: Frame


@dataclass(frozen=True, slots=True)
class ServeLink:
    """Data waits for a neighbour: pull it from its `Outgoing` for as long as the socket takes it."""

    peer: str


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


Instruction = SendFrame | ServeLink | CloseLink | DeliverMessages | ChangeSubscriptions | DropMessages
