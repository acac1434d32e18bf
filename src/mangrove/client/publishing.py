"""What became of what was published, and how much it was."""

from __future__ import annotations

from enum import Enum

import msgspec

from mangrove.errors import MangroveError
from mangrove.model.congestion.rate_limit import RateLimit


class Outcome(Enum):
    """What became of a message that was to be published. Only `SENT` is true."""

    SENT = "sent"
    """It is on its way."""
    LIMITED = "limited"
    """It was not sent: a limit is reached (see `Connection.limits`)."""
    UNWANTED = "unwanted"
    """It was not sent: nobody in the federation subscribes to its subject."""
    KEPT = "kept"
    """No broker takes it at the moment: it waits for one (see `Connection.offline`)."""

    def __bool__(self) -> bool:
        return self is Outcome.SENT


class WhenLimited(Enum):
    """What `publish` does with a message beyond a limit; it is never sent."""

    DROP = "drop"
    """Tells so by `Outcome.LIMITED`."""
    WAIT = "wait"
    """Waits until it may be sent. `publish_nowait` cannot, and returns `Outcome.LIMITED`."""
    RAISE = "raise"
    """Raises LimitedError."""


class LimitedError(MangroveError):
    """A message beyond a limit; it was not sent."""

    def __init__(self, subject: str, limit: RateLimit | None) -> None:
        self.subject = subject
        self.limit = limit
        why = "" if limit is None else f" ({_told(limit)})"
        super().__init__(
            f"the limit of what may be published on {subject} is reached{why}",
            hint="publish less, wait, or raise the limit in the federation file",
        )


def _told(limit: RateLimit) -> str:
    rates = [
        f"{rate:,.6g} {unit}"
        for rate, unit in ((limit.msg_s, "messages/s"), (limit.bytes_s, "bytes/s"))
        if rate is not None
    ]
    return f"{limit.cause.value}: {' and '.join(rates)}" + (f", {limit.reason}" if limit.reason else "")


class Published(msgspec.Struct):
    """How much was published, in messages and bytes of payload."""

    messages: int = 0
    size_bytes: int = 0

    def add(self, size_bytes: int) -> None:
        """One message more."""
        self.messages += 1
        self.size_bytes += size_bytes


class Withheld(msgspec.Struct):
    """How much was not sent on a subject, or not at once, by reason."""

    limited: Published = msgspec.field(default_factory=Published)
    """A limit was reached."""
    unwanted: Published = msgspec.field(default_factory=Published)
    """Nobody in the federation subscribed."""
    delayed: Published = msgspec.field(default_factory=Published)
    """What had to wait for a limit, with `when_limited="wait"`, and was sent then."""

    def __bool__(self) -> bool:
        return any(each.messages for each in (self.limited, self.unwanted, self.delayed))

    def add(self, outcome: Outcome, size_bytes: int) -> None:
        """One message more."""
        (self.unwanted if outcome is Outcome.UNWANTED else self.limited).add(size_bytes)
