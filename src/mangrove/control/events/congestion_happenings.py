"""What happens when capacity is short: who must say less and why, who may speak again, who cannot keep up."""

from __future__ import annotations

from typing import ClassVar

from mangrove.control.events.wording import are, counted, listed
from mangrove.model.events.happening import Happening, Tone, kinds_by_name


class PublishersLimited(Happening, frozen=True, kw_only=True):
    """Publishers must say less, the least useful first."""

    tone: ClassVar[Tone] = Tone.BAD
    topics: int
    publishers: int
    """Limits in force from now on, with those of before."""
    stopped: int
    """Of them, those that may say only what they can be judged by."""
    brokers: tuple[str, ...]
    """With what they are short of."""
    examples: tuple[str, ...]
    """Of those that are new or lower, the least important."""

    def sentence(self) -> str:
        """How many, for whose sake, and some of them."""
        who = f"{counted(self.publishers, 'publisher')} of {counted(self.topics, 'topic')}"
        return (
            f"{who} {are(self.publishers)} limited, {self.stopped} to a probe, "
            f"for the sake of {listed(self.brokers)}: {'; '.join(self.examples)}"
        )


class LimitsRaised(Happening, frozen=True, kw_only=True):
    """There is room: limits are raised or gone, the most important first."""

    tone: ClassVar[Tone] = Tone.GOOD
    publishers: int
    left: int
    """Limits that are still in force."""
    examples: tuple[str, ...]

    def sentence(self) -> str:
        """How many, and what is left."""
        some = listed(self.examples)
        who = counted(self.publishers, "publisher")
        return f"{who} may say more ({some}); {self.left} {are(self.left)} still limited"


class CongestionOver(Happening, frozen=True, kw_only=True):
    """Nobody is limited any more."""

    tone: ClassVar[Tone] = Tone.GOOD

    def sentence(self) -> str:
        """That it is so."""
        return "nobody is limited any more"


class ProtectedTooMuch(Happening, frozen=True, kw_only=True):
    """What must not be limited is alone more than a broker can carry."""

    tone: ClassVar[Tone] = Tone.BAD
    broker: str
    lacking: dict[str, float]
    """By metric, in its own unit."""

    def sentence(self) -> str:
        """Where, and by how much."""
        amounts = listed(f"{metric} by {amount:.0f}/s" for metric, amount in self.lacking.items())
        return f"protected topics alone exceed what {self.broker} can carry: {amounts}"


class CapacityTold(Happening, frozen=True, kw_only=True):
    """Somebody has told what a broker can carry from now on."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    broker: str
    bandwidth: float
    matching: float

    def sentence(self) -> str:
        """Which parts are left."""
        if self.bandwidth == 1.0 and self.matching == 1.0:
            return f"{self.broker} can carry again what its file says"
        return (
            f"{self.broker} can carry {self.bandwidth:.0%} of its bandwidth "
            f"and {self.matching:.0%} of its messages"
        )


class SubscriberSlow(Happening, frozen=True, kw_only=True):
    """A subscriber cannot keep up."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    client: str
    broker: str
    subject: str
    pending: int
    plain: bool
    """Then `pending` are bytes at the broker, else messages in the client."""
    lost: int = 0

    def sentence(self) -> str:
        """Who, and how far behind."""
        waiting = f"{self.pending} {'bytes at the broker' if self.plain else 'messages'}"
        what = self.subject or "its topics"
        return f"{self.client} at {self.broker} cannot keep up with {what}: {waiting} wait"


class SubscriberKeepsUp(Happening, frozen=True, kw_only=True):
    """A subscriber that was slow keeps up again, or is gone."""

    tone: ClassVar[Tone] = Tone.GOOD
    client: str
    broker: str
    subject: str
    gone: bool = False

    def sentence(self) -> str:
        """Who."""
        if self.gone:
            return (
                f"{self.client}, which was slow on {self.subject or 'its topics'}, is gone from {self.broker}"
            )
        return f"{self.client} at {self.broker} keeps up with {self.subject or 'its topics'} again"


class SlowClientDisconnected(Happening, frozen=True, kw_only=True):
    """A plain client was disconnected before its broker would have cut it off without a word."""

    tone: ClassVar[Tone] = Tone.BAD
    client: str
    cid: int
    broker: str
    subject: str
    pending_bytes: int

    def sentence(self) -> str:
        """Who, and why."""
        return (
            f"{self.client} (connection {self.cid}) is disconnected from {self.broker}: "
            f"{self.pending_bytes} bytes wait for it, and {self.subject} has `slow: disconnect`"
        )


class PlainPublisherDisconnected(Happening, frozen=True, kw_only=True):
    """A plain client said more than its limit, look after look."""

    tone: ClassVar[Tone] = Tone.BAD
    client: str
    cid: int
    broker: str
    messages_s: float
    bytes_s: float
    limit: str

    def sentence(self) -> str:
        """Who, how much, and what is allowed."""
        return (
            f"{self.client} (connection {self.cid}) is disconnected from {self.broker}: it published "
            f"{self.messages_s:.0f} msg/s, {self.bytes_s:.0f} bytes/s, and {self.limit} is allowed"
        )


CONGESTION = kinds_by_name(
    PublishersLimited,
    LimitsRaised,
    CongestionOver,
    ProtectedTooMuch,
    CapacityTold,
    SubscriberSlow,
    SubscriberKeepsUp,
    SlowClientDisconnected,
    PlainPublisherDisconnected,
)
