"""What one connection brings for a hand-over, messages and markers, in the order in which it came."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from mangrove.broker.client_connection import ClientConnection, Subscribed
from mangrove.client.message import Message
from mangrove.client.migration.leg import Origin
from mangrove.model.subjects import MOVE_PREFIX

_MARKER = re.compile(rb"(head|old|new) (\d{1,9})")


class Marker(NamedTuple):
    """A marker that came."""

    origin: Origin
    number: int


def marker_payload(origin: Origin, number: int) -> bytes:
    """What a marker says."""
    return f"{origin.value} {number}".encode()


Coming = Callable[[list[Message | Marker]], None]


class InOrder:
    """Listens at one connection to a subject and to markers.

    A connection hands over what a buffer held subscription by subscription; but it makes messages in their
    order, and so they are noted when they are made.
    """

    def __init__(
        self, wire: ClientConnection, make: Callable[[str, bytes, bytes, str], Message], coming: Coming
    ) -> None:
        self.wire = wire
        self._make = make
        self._coming = coming
        self._came: list[Message | Marker] = []
        self._markers: Subscribed | None = None

    def subscribe(self, subject: str, group: str) -> Subscribed:
        """Subscribe, and take what comes."""
        return self.wire.subscribe(subject, self._hand_over, queue=group, form=self._note)

    def take_over(self, handle: Subscribed) -> None:
        """Take what comes for a subscription that is there already."""
        self.wire.redirect(handle, self._hand_over, form=self._note)

    def listen(self, marker_subject: str) -> None:
        """Also take markers."""
        self._markers = self.wire.subscribe(marker_subject, self._hand_over, form=self._note_marker)

    def end(self) -> None:
        """Take no more markers."""
        if self._markers is not None:
            self.wire.unsubscribe(self._markers)
            self._markers = None

    def _note(self, subject: str, data: bytes, head: bytes, reply: str, origin: Any) -> None:
        if not subject.startswith(MOVE_PREFIX):  # a subscription to everything gets markers as well
            self._came.append(self._make(subject, data, head, reply))

    def _note_marker(self, subject: str, data: bytes, head: bytes, reply: str, origin: Any) -> None:
        found = _MARKER.fullmatch(data)
        if found is not None:
            self._came.append(Marker(Origin(found[1].decode()), int(found[2])))

    def _hand_over(self, made: list[Any], size_bytes: int) -> None:
        came, self._came = self._came, []
        if came:
            self._coming(came)
