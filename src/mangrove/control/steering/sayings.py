"""What was decided last of each topic's new subscribers, in words for people."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

MAX_SAYINGS = 10_000


class Saying(msgspec.Struct, frozen=True):
    """One decision."""

    text: str
    event: str = ""
    """That tells more of it."""


class Sayings:
    """Of the topics that were looked at last."""

    def __init__(self) -> None:
        self._sayings: OrderedDict[str, Saying] = OrderedDict()

    def say(self, topic: str, text: str, event: str = "") -> None:
        """This was decided."""
        self._sayings[topic] = Saying(text, event)
        self._sayings.move_to_end(topic)
        while len(self._sayings) > MAX_SAYINGS:
            self._sayings.popitem(last=False)

    def of(self, topic: str) -> Saying | None:
        """What was decided of a topic, if anything was lately."""
        return self._sayings.get(topic)
