"""What was said of late is said again at a mirror: some at a time, so that nothing else has to wait for it.

A publisher of thousands of messages a second would otherwise be busy for tens of milliseconds with its own
window, and its subscribers with throwing away copies, just when a broker has failed. Until a repetition has
caught up with what is said meanwhile, nothing else of its topics is sent that way, so order is kept.
"""

from __future__ import annotations

from mangrove.broker.client_connection import ClientConnection, Outlet
from mangrove.client.mirroring.link import MirrorLink
from mangrove.client.mirroring.mirrored_wire import MirroredTopic
from mangrove.client.mirroring.window import Said, Window
from mangrove.model.shared_names import MIRROR_PREFIX

MESSAGES_AT_ONCE = 256
PAUSE_S = 0.005


class Repetition:
    """Some topics on one connection to a mirror."""

    def __init__(
        self,
        link: MirrorLink,
        wire: ClientConnection,
        topics: dict[str, MirroredTopic],
        since_ns: int,
        first: int,
    ) -> None:
        """`first` is the number in the window with which it begins; older than `since_ns` is left out."""
        self.link = link
        self.topics = topics
        self._wire = wire
        self._since_ns = since_ns
        self._next = first
        self._outlets: dict[str, Outlet] = {}
        self.said = 0

    @property
    def broken(self) -> bool:
        """Whether the connection is gone."""
        return self.link.wire is not self._wire

    def go_on(self, window: Window) -> bool:
        """Say some more; whether it has caught up. Raises `BrokerAwayError` if the broker takes no more."""
        self._next = max(self._next, window.first)
        some = window.some(self._next, MESSAGES_AT_ONCE)
        self._next += len(some)
        for said in some:
            topic = self.topics.get(said.subject)
            if topic is not None and said.at_ns >= self._since_ns:
                self._say(said, topic)
                self.said += 1
        return len(some) < MESSAGES_AT_ONCE

    def _say(self, said: Said, topic: MirroredTopic) -> None:
        subject = MIRROR_PREFIX + said.subject
        if said.head:
            self._wire.publish(subject, said.payload, head=said.head)
            return
        outlet = self._outlets.get(subject)
        if outlet is None:
            outlet = self._outlets[subject] = self._wire.outlet(subject, topic.head_form)
        outlet.publish(said.payload, said.first, said.at_ns)
