"""What the protocol engine tells its shell to do."""

from __future__ import annotations

import msgspec

from mangrove.model.federation import Federation
from mangrove.model.versions.document import FederationDocument
from mangrove.model.versions.kept import KeptVersions
from mangrove.overlay.protocol.control_messages import ControlBody, control_frame
from mangrove.overlay.protocol.frames import Frame


class SendFrame(msgspec.Struct, frozen=True, gc=False):
    """Send a control frame to a neighbour, ahead of all data that waits."""

    peer: str
    frame: Frame


class ServeLink(msgspec.Struct, frozen=True, gc=False):
    """Data waits for a neighbour: pull it from the engine for as long as the socket takes it."""

    peer: str


class CloseLink(msgspec.Struct, frozen=True, gc=False):
    """Close the connection to a neighbour. The engine knows that it is gone; do not tell it again."""

    peer: str
    reason: str


class DeliverMessages(msgspec.Struct, frozen=True, gc=False):
    """Write the messages of a frame to the head broker."""

    frame: Frame


class HandToAgent(msgspec.Struct, frozen=True, gc=False):
    """The agent of a neighbour has something to say to the agent of this domain."""

    peer: str
    frame: Frame


class ChangeSubscriptions(msgspec.Struct, frozen=True, gc=False):
    """Change what the gateway subscribes to at its head broker."""

    add: tuple[str, ...]
    remove: tuple[str, ...]


class ForgetRoutes(msgspec.Struct, frozen=True, gc=False):
    """Other domains than before want these subjects or patterns: what `route` said of them is out of date."""

    subjects: tuple[str, ...]


class ConfirmSubscriptions(msgspec.Struct, frozen=True, gc=False):
    """When the head broker has taken all subscriptions so far, call `subscriptions_confirmed` with this:
    domains, and up to which version of their interest (epoch, number) was acted upon."""

    applied: tuple[tuple[str, int, int], ...]


class ServeHead(msgspec.Struct, frozen=True, gc=False):
    """The head broker's subscribers are back, or given up: what waits for the broker may go."""


class ResetTimer(msgspec.Struct, frozen=True, gc=False):
    """Something is due earlier than the engine's timer said: ask it again."""


class DropMessages(msgspec.Struct, frozen=True, gc=False):
    """Messages of a frame end here; count them under `reason`."""

    frame: Frame
    reason: str


class RetargetMessages(msgspec.Struct, frozen=True, gc=False):
    """The messages of a frame name queue groups, and their destination is lost: ask `retarget` for each.

    If nobody else serves any of them, `wait` keeps the frame.
    """

    frame: Frame


class KeepVersions(msgspec.Struct, frozen=True, gc=False):
    """Write this down, so that it outlives this process, and send what is to follow `then`.

    Messages go on meanwhile, unless it must be written `at_once`, before anything else is done.
    """

    kept: KeptVersions
    then: tuple[SendFrame, ...] = ()
    at_once: bool = False


class AdoptDocument(msgspec.Struct, frozen=True, gc=False):
    """Another version of the federation document is in force; the engine acts by it already."""

    document: FederationDocument


class MakeTables(msgspec.Struct, frozen=True, gc=False):
    """Make the failover tables of these domains and links, beside all else, and hand them to the engine."""

    federation: Federation
    version: int


Instruction = (
    SendFrame
    | ServeLink
    | CloseLink
    | DeliverMessages
    | HandToAgent
    | ChangeSubscriptions
    | ForgetRoutes
    | ConfirmSubscriptions
    | ServeHead
    | ResetTimer
    | DropMessages
    | RetargetMessages
    | KeepVersions
    | AdoptDocument
    | MakeTables
)


def send_control(peer: str, body: ControlBody) -> SendFrame:
    """Send a control message."""
    return SendFrame(peer, control_frame(body))
