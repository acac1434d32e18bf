"""The gateway's books: what was carried and what was dropped, by topic and reason."""

from __future__ import annotations

import logging
from collections import Counter

from mangrove.gateway.count_history import CountHistory
from mangrove.gateway.tally import MAX_TOPICS, Tally
from mangrove.model.status import Drop
from mangrove.model.subjects import is_internal
from mangrove.overlay.protocol.bodies import DISCARD, Entry, WireError, parse_message_line, scan

log = logging.getLogger(__name__)

MAX_LOGGED = 1000


class Ledger:
    """Counts in bounded memory; what is dropped is also known by reason, completely."""

    def __init__(self, domain: str, epoch: int) -> None:
        self.history = CountHistory(domain, epoch)
        self.dropped: Counter[str] = Counter()
        """By reason."""
        self.ignored: Counter[str] = Counter()
        """What the head broker, or somebody at the management broker, said that was left out."""
        self.sent_on = 0
        """Messages for queue groups that another domain should have served; they may be served twice."""
        self.kept_back = Tally()
        """Copies that were not sent, because nobody in the domain that they were for wants them."""
        self._dropped_by_topic: Counter[tuple[str, str]] = Counter()
        self._logged: set[str] = set()

    @property
    def sent(self) -> Tally:
        """Where to book what leaves this domain."""
        return self.history.current.sent

    @property
    def delivered(self) -> Tally:
        """Where to book what arrived in this domain."""
        return self.history.current.delivered

    def keep_back(self, topic: str, count: int) -> None:
        """Book copies that subscribers elsewhere do not select: that is no loss."""
        self.kept_back.add(topic, count)

    def drop_body(self, body: bytes, reason: str) -> None:
        """Book the loss of all messages in a frame's body."""
        topics, malformed = topics_in(body)
        for topic, count in topics.items():
            self.drop(topic, reason, count)
        if malformed:
            self.refuse_body(reason)

    def drop(self, topic: str, reason: str, count: int = 1) -> None:
        """Book a loss. Subjects that are used once are no topics."""
        self.dropped[reason] += count
        if is_internal(topic):
            self.history.current.dropped.requests += count
            topic = "the subject of a request or reply"
        else:
            self.history.current.dropped.add(topic, count)
            key = (topic, reason)
            if len(self._dropped_by_topic) < MAX_TOPICS or key in self._dropped_by_topic:
                self._dropped_by_topic[key] += count
        self._log_first(f"dropped a message on {topic}: {reason}")

    def drop_sealed(self, match: str, reason: str, count: int) -> None:
        """Book the loss of messages that cannot be looked into: only their contract is known."""
        self.dropped[reason] += count
        self.history.current.dropped.other += count
        key = (f"{match} (sealed)", reason)
        if len(self._dropped_by_topic) < MAX_TOPICS or key in self._dropped_by_topic:
            self._dropped_by_topic[key] += count
        self._log_first(f"dropped a sealed message of {match}: {reason}")

    def drop_unnamed(self, reason: str, count: int) -> None:
        """Book a loss that has no topic."""
        self.dropped[reason] += count
        self.history.current.dropped.other += count
        self._log_first(f"dropped a message: {reason}")

    def refuse_body(self, reason: str) -> None:
        """Book a body, or the rest of one, that cannot be read or opened: nobody knows what it held."""
        self.history.current.malformed_bodies += 1
        self._log_first(f"dropped a body from another domain that cannot be read: {reason}")

    def ignore(self, what: str) -> None:
        """Book something that was left out and is no message."""
        self.ignored[what] += 1
        self._log_first(f"left out: {what}")

    def _log_first(self, text: str) -> None:
        if text not in self._logged and len(self._logged) < MAX_LOGGED:
            self._logged.add(text)
            log.warning("%s (further ones are only counted)", text)

    def largest_drops(self, number: int) -> tuple[Drop, ...]:
        """What was dropped most, by topic and reason."""
        return tuple(
            Drop(topic=topic, reason=reason, count=count)
            for (topic, reason), count in self._dropped_by_topic.most_common(number)
        )


def topics_in(body: bytes) -> tuple[Counter[str], bool]:
    """How many messages of each subject a body holds, and whether it ends in something else.

    Only used for what is lost, so its cost is not hot.
    """
    topics: Counter[str] = Counter()
    known: dict[bytes, Entry] = {}

    def resolve(line: bytes) -> Entry:
        message = parse_message_line(line)
        entry = known[line] = Entry(message.skip, DISCARD, message.subject)
        return entry

    try:
        malformed = scan(body, known, resolve) != len(body)
    except WireError:
        malformed = True
    for entry in known.values():
        if entry.count:
            topics[entry.topic] += entry.count
    return topics, malformed
