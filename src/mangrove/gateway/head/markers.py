"""Markers of the site's probe on their way to its brokers, and who in the domain would see them."""

from __future__ import annotations

from collections import deque

from mangrove.broker.attachment import Attachment
from mangrove.gateway.head.inward.queue import HeadQueue
from mangrove.model.subjects import covers, egress_marker_subject
from mangrove.overlay.protocol.bodies import Message

MAX_WAITING_MARKERS = 64


class Markers:
    """Hands markers to the broker behind all that waits for it."""

    def __init__(self, domain: str, attachment: Attachment, queue: HeadQueue) -> None:
        self._subject = egress_marker_subject(domain)
        self._attachment = attachment
        self._queue = queue
        self._waiting: deque[bytes] = deque(maxlen=MAX_WAITING_MARKERS)
        self._onlookers: set[tuple[str, str]] = set()
        """Subscriptions in this domain under which markers fall."""

    @property
    def onlookers(self) -> bool:
        """Whether somebody in the domain would see markers."""
        return bool(self._onlookers)

    def interest(self, subject: str, group: str, wanted: bool) -> None:
        """A subscription came or went somewhere in this domain."""
        if subject[0] in "*>" and covers(subject, self._subject):
            change = self._onlookers.add if wanted else self._onlookers.discard
            change((subject, group))

    def send(self, payload: bytes) -> None:
        """Hand a marker over as soon as nothing else waits."""
        self._waiting.append(payload)
        self.release()

    def release(self) -> None:
        """The broker can take more."""
        while self._waiting and self._queue.flows:
            payload = self._waiting.popleft()
            message = Message(self._subject, "", -1, len(payload))
            line = message.line(message.subject, "")
            self._attachment.outlet(line, message, ()).take(b"%b\r\n%b\r\n" % (line, payload))

    def lost(self) -> None:
        """The broker is gone, and who subscribes is told anew."""
        self._onlookers.clear()
        self._waiting.clear()
