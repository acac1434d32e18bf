"""Messages of a RabbitMQ's publishers as bodies of the federation: gathered for a buffer, sorted together."""

from __future__ import annotations

from collections.abc import Callable

from mangrove.broker.attachment import Sorter
from mangrove.broker.rabbitmq.exchange.patterns import is_subject
from mangrove.broker.rabbitmq.messages.properties import Described, read_properties
from mangrove.broker.rabbitmq.messages.repeats import Repeats
from mangrove.broker.rabbitmq.messages.replies import ReplyTokens, is_way_back
from mangrove.broker.rabbitmq.wire.frames import Delivery
from mangrove.model.subjects import REPLY_PREFIX, is_internal

MAX_KNOWN = 1 << 14
ODD_KEY = "routing key that is no subject"
ODD_PROPERTIES = "message whose properties cannot be read"
ODD_HEADER = "header that is not text"
ODD_ANSWER = "answer that does not repeat its correlation id"


class Inbound:
    """Makes bodies of deliveries."""

    def __init__(self, sorter: Sorter, ignored: Callable[[str], None], tokens: ReplyTokens) -> None:
        self._sorter = sorter
        self._ignored = ignored
        self._tokens = tokens
        self._gathered: list[bytes] = []
        self._sound: dict[bytes, bool] = {}
        self._described: dict[bytes, Described] = {}
        """Properties met before: most publishers always give the same."""
        self.repeats = Repeats()

    def published(self, delivery: Delivery) -> None:
        """A message on a subject that another domain wants."""
        if not self._is_sound(delivery.key):
            self._ignored(ODD_KEY)
            return
        described = self._describe(delivery.properties)
        if described is None:
            return
        identity = described.message_id
        if identity and self.repeats.is_repeated(
            identity, delivery.key, delivery.body, marked=delivery.redelivered
        ):
            return
        reply = ""
        if described.reply_to:
            reply = self._tokens.subject(described.reply_to, described.correlation_id)
        self._gather(delivery.key, reply, described.head, delivery.body)

    def answered(self, delivery: Delivery) -> None:
        """The answer of somebody here to a request from another domain."""
        described = self._describe(delivery.properties)
        if described is None:
            return
        if not is_way_back(described.correlation_id):
            self._ignored(ODD_ANSWER)
            return
        self._gather(described.correlation_id.encode(), "", described.head, delivery.body)

    def hand_over(self) -> None:
        """Sort all that was gathered."""
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._sorter.take(b"".join(gathered))

    def _gather(self, subject: bytes, reply: str, head: bytes, body: bytes) -> None:
        way = b"%b " % reply.encode() if reply else b""
        if head:
            sizes = b"%d %d" % (len(head), len(head) + len(body))
            self._gathered.append(b"HMSG %b %b%b\r\n%b%b\r\n" % (subject, way, sizes, head, body))
        else:
            self._gathered.append(b"LMSG %b %b%d\r\n%b\r\n" % (subject, way, len(body), body))

    def _is_sound(self, key: bytes) -> bool:
        known = self._sound.get(key)
        if known is None:
            try:
                known = _may_leave(key.decode())
            except UnicodeDecodeError:
                known = False
            if len(self._sound) >= MAX_KNOWN:
                self._sound.clear()
            self._sound[key] = known
        return known

    def _describe(self, properties: bytes) -> Described | None:
        described = self._described.get(properties)
        if described is None:
            try:
                described = read_properties(properties)
            except ValueError:
                self._ignored(ODD_PROPERTIES)
                return None
            if not (described.message_id or described.correlation_id):
                if len(self._described) >= MAX_KNOWN:
                    self._described.clear()
                self._described[properties] = described
        for _ in range(described.left_out):
            self._ignored(ODD_HEADER)
        return described


def _may_leave(key: str) -> bool:
    """Whether a routing key is a subject that others may hear: one of applications, or a way back to them."""
    return is_subject(key) and (not is_internal(key) or key.startswith(REPLY_PREFIX))
