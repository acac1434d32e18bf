"""The seam between the SDK and one broker, whatever kind of broker that is.

A connection belongs to the broker's kind: it finds a broker in a list of URLs, comes back to one whenever it
is lost, and says all subscriptions again. Messages cross the seam in whole buffers: a sink gets everything
that one buffer held for its subscription as one list. All calls, in both directions, are made in the event
loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable
from typing import Any, Protocol

import msgspec

from mangrove.errors import MangroveError


class BrokerAwayError(MangroveError):
    """There is no broker, and no more room for what waits for one; or the connection was closed."""


class LoginRefusedError(BrokerAwayError):
    """The broker does not know the user, or is not to be believed itself."""


class NotAllowedError(MangroveError):
    """The rules of the federation do not let this client publish on, or subscribe to, a subject."""

    def __init__(self, what: str, subject: str, others: int = 0) -> None:
        self.what = what
        self.subject = subject
        more = f", and {others} other subjects" if others else ""
        super().__init__(
            f"not allowed {what} {subject}{more}",
            hint="`mangrove access explain CLIENT SUBJECT` tells which rule decides",
        )

    def again(self, others: int = 0) -> NotAllowedError:
        """The same for another who is told; errors that are raised keep where they were."""
        return NotAllowedError(self.what, self.subject, others)


class NotCarriedError(MangroveError):
    """Brokers of this kind cannot carry a message as it is, however often it is tried."""


class NoResponderError(MangroveError):
    """The broker says that nobody listens to what was asked."""


class RawMessage(msgspec.Struct, frozen=True, gc=False):
    """A message as a broker delivered it; `head` is its header block as in a frame's body, or empty."""

    subject: str
    data: bytes
    head: bytes
    reply: str
    origin: Any = None
    """What the subscriber gave along, the same for all messages of a subscription."""


Form = Callable[[str, bytes, bytes, str, Any], Any]
"""Makes a message of subject, data, head, reply and origin: `RawMessage`, or what looks like it.

A bound method may note the message itself and make none; while there is one, a connection does not log in
anew.
"""

Sink = Callable[[list[Any], int], None]
"""Takes all messages that one buffer held for a subscription, and how many bytes they were on the wire."""


class Subscribed(Protocol):
    """A subscription at one broker connection; it outlives the loss of a broker."""

    @property
    def subject(self) -> str:
        """What is subscribed to."""

    @property
    def queue(self) -> str:
        """The queue group, or an empty string."""


class Denial(msgspec.Struct, frozen=True):
    """A broker does not let a client publish or subscribe."""

    publishing: bool
    subject: str
    """What it is about; empty if only a `reply` was named."""
    queue: str = ""
    reply: str = ""
    sid: int | None = None
    """The number of the subscription, where the broker gives it."""

    def __str__(self) -> str:
        if self.publishing:
            return f"publish {self.subject}" if self.subject else f"publish with reply to {self.reply}"
        return f"subscribe {self.subject}" + (f" in {self.queue}" if self.queue else "")

    @property
    def error(self) -> NotAllowedError:
        """For who asked for it."""
        what = "to publish on" if self.publishing else "to subscribe to"
        return NotAllowedError(what, self.subject or self.reply)


OnDenied = Callable[[Denial, "Subscribed | None"], None]
"""Told what a broker does not allow, and the subscription if it is about one."""


class Outlet(Protocol):
    """Publishes on one subject with heads that differ in two numbers alone: the way for most messages."""

    messages: int
    """Messages published so far."""
    size_bytes: int
    """Bytes of payload published so far."""

    def publish(self, payload: bytes, first: int, second: int) -> None:
        """Publish as `ClientConnection.publish` does."""


class ConnectionCounts(msgspec.Struct):
    """What happened to one connection."""

    received_messages: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    connects: int = 0
    """How often a broker accepted the connection."""
    renewals: int = 0
    """How often it logged in anew, by another key, without being lost."""
    not_renewed: int = 0
    """How often that did not come about; it is tried again."""
    lost: Counter[str] = msgspec.field(default_factory=Counter)
    """Why brokers were lost, by one of few reasons."""
    errors: Counter[str] = msgspec.field(default_factory=Counter)
    """What brokers complained of, by one of few words."""
    denied: Counter[str] = msgspec.field(default_factory=Counter)
    """How often a rule kept something from being published or subscribed to, by what; bounded."""
    unsent_messages: int = 0
    """Messages that were refused because no broker was there and the room was full."""


class ClientConnectionOwner(Protocol):
    """What the owner of a connection is told."""

    def lost(self, url: str, reason: str) -> None:
        """The broker is gone; the connection looks for another by itself."""

    def back(self, url: str) -> None:
        """A broker is there again and has been told all subscriptions."""


class ClientConnection(Protocol):
    """A connection to one of several brokers that is made again whenever it breaks."""

    @property
    def counts(self) -> ConnectionCounts:
        """What happened so far."""

    @property
    def full(self) -> bool:
        """Whether publishers should wait for `drained` before they publish; not while no broker is there."""

    @property
    def connected(self) -> bool:
        """Whether a broker is there."""

    @property
    def closed(self) -> bool:
        """Whether it was ended for good."""

    @property
    def url(self) -> str:
        """The broker that is, or was last, connected, without its user info; empty before the first."""

    @property
    def max_payload(self) -> int:
        """The largest message, head and payload, that the broker takes."""

    @property
    def client_id(self) -> int:
        """The number by which the broker's own pages call this connection; 0 if it does not say."""

    @property
    def server_id(self) -> str:
        """The broker's own name for itself."""

    async def connect(self, timeout_s: float) -> None:
        """Connect to the first broker that takes us. BrokerAwayError tells why none did."""

    def begin(self) -> None:
        """Look for a broker from now on, as if one had just been lost, if none was found so far."""

    def go_on_at(self, urls: Iterable[str]) -> None:
        """Try these brokers, too, when the present one is lost. ValueError if a URL is malformed."""

    async def close(self) -> None:
        """Send what waits, disconnect, and end everything. Closing twice is no error."""

    def publish(self, subject: str, payload: bytes, *, reply: str = "", head: bytes = b"") -> None:
        """Publish; it leaves at the end of the event loop's turn.

        While the broker is away a bounded amount waits for the next one; BrokerAwayError when that is full.
        Who publishes much waits for `drained` whenever `full`, or gets the same error. The subject is valid.
        """

    def recall(self, subjects: Container[bytes]) -> None:
        """Forget what waits for the next broker of these subjects: who published it says it again himself."""

    def outlet(self, subject: str, head_form: bytes) -> Outlet:
        """A quick way to publish on a subject.

        `head_form` makes a head of two numbers by `%`; whatever they are, it must be equally long.
        """

    async def drained(self) -> None:
        """Hand what waits to the broker, and wait until there is room for more or the broker is lost."""

    def subscribe(
        self, subject: str, sink: Sink, *, queue: str = "", form: Form = RawMessage, origin: Any = None
    ) -> Subscribed:
        """Ask for the messages of a subject or pattern; the broker has heard of it after `flush`."""

    def redirect(
        self, subscribed: Subscribed, sink: Sink, *, form: Form = RawMessage, origin: Any = None
    ) -> None:
        """Hand what comes from the next buffer on to another sink, in another form.

        Forms are called in the order in which messages come, over all subscriptions of the connection.
        """

    def unsubscribe(self, subscribed: Subscribed) -> None:
        """End a subscription; its sink is not called any more. Ending it twice is no error."""

    async def flush(self, timeout_s: float) -> None:
        """Wait until the broker has taken all that was said so far; if it is away, for its return first.

        TimeoutError if that takes too long, BrokerAwayError if the broker is lost meanwhile.
        """

    def denial(self, subscribed: Subscribed) -> Denial | None:
        """Why the broker serves a subscription no more, or never did; None if it does."""

    def when_denied(self, told: OnDenied | None) -> None:
        """Whom to tell, in the event loop, when the broker does not allow something."""

    def probe(self) -> None:
        """Have the broker say something, if it is there; `counts.received_bytes` tells whether it did."""

    def abandon(self, reason: str) -> None:
        """Take the broker for dead and look for the next one, as if it had closed the connection."""

    async def request(
        self,
        subject: str,
        payload: bytes,
        *,
        timeout_s: float,
        head: bytes = b"",
        form: Form = RawMessage,
        origin: Any = None,
    ) -> Any:
        """The first answer. NoResponderError if nobody listens, TimeoutError if nobody answers.

        NotAllowedError if a rule forbids to ask.
        """
