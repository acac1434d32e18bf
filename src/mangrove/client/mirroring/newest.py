"""What publishers tell of their last messages, and what a subscriber still waits for."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mangrove.broker.message_ids import ID_BYTES, PREFIX_BYTES
from mangrove.model.unreadable import UNREADABLE

BEAT_S = 0.2
"""Between two tellings of one publisher, while it publishes."""
BEHIND_S = 0.3
"""A message that was told of comes the primary way within this time, or that way is taken for broken."""
MAX_SUBJECTS = 500
"""In one telling; others have their turn in the next."""
MAX_AWAITED = 1 << 12


class Newest(msgspec.Struct, frozen=True):
    """The id of the last message on each subject."""

    ids: dict[str, str]


_newest = msgspec.msgpack.Decoder(Newest)


def encode(ids: dict[str, str]) -> bytes:
    """As it is published."""
    return msgspec.msgpack.encode(Newest(ids))


def decode(data: bytes) -> Iterable[tuple[str, bytes]]:
    """Subjects and ids that make sense; ValueError if nothing does."""
    try:
        told = _newest.decode(data)
    except UNREADABLE as error:
        raise ValueError(str(error)) from None
    pairs = list(told.ids.items())[:MAX_SUBJECTS]
    return [(subject, identity.encode()) for subject, identity in pairs if len(identity) == ID_BYTES]


class Awaited:
    """Messages that are there and have not come yet, one for each subject and publisher."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, bytes], tuple[bytes, float]] = {}

    def wait_for(self, subject: str, identity: bytes, now: float) -> None:
        """A message was published; what is waited for already is waited for first."""
        if len(self._since) < MAX_AWAITED:
            self._since.setdefault((subject, identity[:PREFIX_BYTES]), (identity, now))

    def waiting(self) -> list[tuple[str, bytes]]:
        """All of them."""
        return [(subject, identity) for (subject, _), (identity, _) in self._since.items()]

    def came(self, subject: str, identity: bytes) -> None:
        """One has come, or is not waited for any longer."""
        self._since.pop((subject, identity[:PREFIX_BYTES]), None)

    def overdue(self, now: float) -> bool:
        """Whether one is waited for too long."""
        return any(now >= since + BEHIND_S for _, since in self._since.values())

    def clear(self) -> None:
        """Something was done about it."""
        self._since.clear()
