"""Of what waits, only the last message of each subject."""

from __future__ import annotations

from collections import OrderedDict

from mangrove.client.message import Message, size_of
from mangrove.client.pending.waiting import NOTHING, nothing


class LatestOnly:
    """A newer message takes the place of an older one of its subject.

    The place, not the end of the queue: a subject that changes faster than the reader comes round would never
    be read otherwise. With more subjects than may wait, those that wait longest are left out.
    """

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self.taken_in = 0
        self.take_back = nothing
        self._latest: OrderedDict[str, tuple[int, Message]] = OrderedDict()

    @property
    def messages(self) -> int:
        """See `Waiting`."""
        return len(self._latest)

    def put(self, messages: list[Message], size_bytes: int) -> list[Message]:
        """See `Waiting`."""
        latest = self._latest
        lost: list[tuple[int, Message]] = []
        for number, message in enumerate(messages, self.taken_in):
            earlier = latest.get(message.subject)
            if earlier is not None:
                lost.append(earlier)
                self.size_bytes -= size_of(earlier[1])
            latest[message.subject] = number, message
            self.size_bytes += size_of(message)
        self.taken_in += len(messages)
        while len(latest) > 1 and (len(latest) > self.max_messages or self.size_bytes > self.max_bytes):
            _, earliest = latest.popitem(last=False)
            lost.append(earliest)
            self.size_bytes -= size_of(earliest[1])
        lost.sort(key=_number)
        return [message for _, message in lost]

    def take(self) -> list[Message]:
        """One at a time: what is in hand can no longer be replaced."""
        if not self._latest:
            return NOTHING
        _, (_, message) = self._latest.popitem(last=False)
        self.size_bytes -= size_of(message)
        return [message]

    @property
    def before_first(self) -> int:
        """See `Waiting`."""
        return next(iter(self._latest.values()))[0] if self._latest else self.taken_in


def _number(numbered: tuple[int, Message]) -> int:
    return numbered[0]
