"""The gateway's books: what was carried and what was dropped, by topic and reason."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

from mangrove.overlay.protocol.bodies import DISCARD, Entry, WireError, parse_message_line, scan

log = logging.getLogger(__name__)

MAX_TOPICS = 10_000
OTHER_TOPICS = "(other topics)"


class Ledger:
    """Counts by topic, in a bounded number of topics."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.delivered: Counter[str] = Counter()
        self.dropped: Counter[tuple[str, str]] = Counter()

    def drop(self, topic: str, reason: str, count: int = 1) -> None:
        """Book a loss; the first of each kind is also logged."""
        key = (topic, reason)
        if len(self.dropped) >= MAX_TOPICS and key not in self.dropped:
            key = (OTHER_TOPICS, reason)
        if key not in self.dropped:
            log.warning("dropped a message on %s: %s (further ones are only counted)", topic, reason)
        self.dropped[key] += count

    def drop_body(self, body: bytes, reason: str) -> None:
        """Book the loss of all messages in a frame's body."""
        for topic, count in topics_in(body).items():
            self.drop(topic, reason, count)

    @staticmethod
    def fold(entries: Iterable[Entry], into: Counter[str]) -> None:
        """Move the counts of control lines into the books."""
        for entry in entries:
            if entry.count and entry.topic:
                topic = entry.topic if len(into) < MAX_TOPICS or entry.topic in into else OTHER_TOPICS
                into[topic] += entry.count
                entry.count = 0


def topics_in(body: bytes) -> Counter[str]:
    """How many messages of each topic a body holds. Only used for what is lost, so its cost is not hot."""
    topics: Counter[str] = Counter()
    known: dict[bytes, Entry] = {}

    def resolve(line: bytes) -> Entry:
        message = parse_message_line(line)
        entry = known[line] = Entry(message.skip, DISCARD, message.subject)
        return entry

    try:
        scan(body, known, resolve)
    except WireError:
        topics["(malformed)"] += 1
    for entry in known.values():
        topics[entry.topic] += entry.count
    return topics
