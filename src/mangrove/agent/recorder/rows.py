"""One second of a domain as rows of the lake's tables.

Which source counts: what the gateway carried is counted by the gateway, completely; what the domain's own
subscribers get is seen by the tap, scaled up; copies handed out come from the brokers' subscriptions.

A second has rows for a bounded number of topics, the busiest. The others, and all that has no topic to be
booked under, are added up as omissions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from heapq import nlargest

import msgspec

from mangrove.agent.recorder.counters import Counters
from mangrove.agent.recorder.omissions import Omissions
from mangrove.broker.nats.subscriptions import Subscriptions
from mangrove.broker.nats.tap import Slice
from mangrove.model.status import DomainStatus
from mangrove.model.telemetry import LATENCY_BINS
from mangrove.model.topic_counts import TopicCounts, TopicTally
from mangrove.model.topics import TopicRules

MAX_TOPICS = 1000
"""Topics of a domain that get rows for one second."""
MAX_RATE_TOPICS = 5000
"""Those that get rows of `topic_rates`, which are short: as many as the tap can tell apart in a second."""
# Counts of the gateway that took longer than this are not the rate of one second.
SECOND_AT_MOST_S = 2.0
MAX_SPREAD_S = 5.0

Rows = list[dict[str, object]]

_NO_LATENCIES = [0] * LATENCY_BINS


class Second(msgspec.Struct, frozen=True):
    """What was found for one second."""

    ts: datetime
    domain: str
    rules: TopicRules
    counters: Counters
    status: DomainStatus
    subscriptions: Mapping[str, Subscriptions]
    seen: Slice
    counts: TopicCounts | None
    """What the gateway carried since the last look; None if it did not tell."""
    omissions: Omissions
    max_topics: int = MAX_TOPICS
    max_rate_topics: int = MAX_RATE_TOPICS
    arrived_before: frozenset[str] = frozenset()
    """Topics that came by the gateway in the second before: the tap sees the last of them a little later."""

    def row(self, **columns: object) -> dict[str, object]:
        """A row of this second."""
        return {"ts": self.ts, "domain": self.domain, **columns}

    def since(self, *key: object, total: int) -> int:
        """Increase of a counter."""
        return self.counters.since(key, total)

    def carried(self, name: str) -> Mapping[str, int]:
        """What the gateway carried (`sent`, `delivered`) or `dropped`, by topic; the rest is an omission."""
        if self.counts is None:
            return {}
        tally: TopicTally = getattr(self.counts, name)
        self.omissions.add(f"requests and replies {name}", tally.requests)
        self.omissions.add(f"messages {name} of topics that the gateway did not tell apart", tally.other)
        return {topic: count for topic, count in tally.topics.items() if count}

    def busiest(self, table: str, messages: Mapping[str, int], most: int) -> list[str]:
        """The topics that get rows, in order: at most so many."""
        if len(messages) <= most:
            return sorted(messages)
        kept = set(nlargest(most, messages, key=lambda topic: (messages[topic], topic)))
        left_out = sum(count for topic, count in messages.items() if topic not in kept)
        self.omissions.level(f"topics in a second without rows in {table}", len(messages) - len(kept))
        self.omissions.add(f"messages of topics without rows in {table}", left_out)
        return sorted(kept)


def sample_rows(second: Second, head: str) -> Rows:
    """`broker_samples`."""
    rows = []
    for broker in second.status.brokers:
        tapped = broker.name == head
        columns: dict[str, object] = {
            "broker": broker.name,
            "role": broker.role,
            "reachable": broker.reachable,
        }
        for name, total in (
            ("msgs_in", broker.messages_in),
            ("msgs_out", broker.messages_out),
            ("bytes_in", broker.bytes_in),
            ("bytes_out", broker.bytes_out),
            ("slow_consumers", broker.slow_consumers),
        ):
            columns[name] = second.since(broker.name, name, total=total) if broker.reachable else 0
        columns |= {
            "connections": broker.connections,
            "subscriptions": broker.subscriptions,
            "memory_bytes": broker.memory_bytes,
            "cpu_percent": broker.cpu_percent,
            "tap_share": second.seen.share if tapped else 0.0,
            "tap_messages": second.seen.messages if tapped else 0,
            "tap_error_ratio": second.seen.error_ratio if tapped else None,
        }
        rows.append(second.row(**columns))
    return rows


def link_rows(second: Second) -> Rows:
    """`link_samples`."""
    rows = []
    gateway = second.status.gateway
    for link in gateway.links if gateway is not None else ():
        counted = {
            name: second.since("link", link.peer, name, total=getattr(link, name))
            for name in ("frames_out", "frames_in", "bytes_out", "bytes_in", "reconnects")
        }
        state = {"up": link.up, "queued_bytes": link.queued_bytes, "rtt_ms": link.rtt_ms}
        rows.append(second.row(peer=link.peer, **state, **counted))
    return rows


def delivery_rows(second: Second) -> Rows:
    """`deliveries`: what arrived by the gateway, and what was published and wanted in the domain itself."""
    arrived = second.carried("delivered")
    dropped = second.carried("dropped")
    counts: dict[str, int] = {}
    for topic in arrived.keys() | dropped.keys() | second.seen.topics.keys():
        seen = second.seen.topics.get(topic)
        tapped = second.seen.scaled(seen.messages) if seen is not None else 0
        counts[topic] = max(arrived.get(topic, 0), tapped) + dropped.get(topic, 0)
    rows = []
    for topic in second.busiest("deliveries", counts, second.max_topics):
        contract = second.rules.contract_of(topic)
        seen = second.seen.topics.get(topic)
        latencies = seen.latencies_ms if seen is not None else []
        deadline = contract.deadline_ms
        remote = topic in arrived or topic in dropped or topic in second.arrived_before
        rows.append(
            second.row(
                topic=topic,
                route=f"*>{second.domain}" if remote else f"{second.domain}>{second.domain}",
                contract=contract.match,
                deadline_ms=deadline,
                delivered=counts[topic] - dropped.get(topic, 0),
                measured=len(latencies),
                in_time=sum(deadline is None or latency <= deadline for latency in latencies),
                dropped=dropped.get(topic, 0),
                latency_histogram=seen.histogram() if seen is not None else _NO_LATENCIES,
            )
        )
    return rows


def rate_rows(second: Second, head: str) -> Rows:
    """`topic_rates`: publications at the head, copies handed out where the subscribers are."""
    entered: dict[str, tuple[int, int]] = {
        topic: (second.seen.scaled(count.messages), second.seen.scaled(count.size_bytes))
        for topic, count in second.seen.topics.items()
    }
    for topic, sent in _sent_in_a_second(second).items():
        # Wanted elsewhere and not here: only the gateway sees it, and it knows no sizes.
        if topic not in entered:
            entered[topic] = (sent, 0)
    messages_of = {topic: messages for topic, (messages, _) in entered.items()}
    topics = second.busiest("topic_rates", messages_of, second.max_rate_topics)
    rows = []
    for broker, held in second.subscriptions.items():
        matching = {topic: held.matching(topic) for topic in entered}
        copies = _copies(entered, matching, held.handed_per_s)
        for topic in topics:
            patterns = matching[topic]
            if broker != head and not patterns:
                continue
            messages, size_bytes = entered[topic]
            out = round(copies[topic])
            rows.append(
                second.row(
                    broker=broker,
                    topic=topic,
                    msgs_in=messages if broker == head else 0,
                    bytes_in=size_bytes if broker == head else 0,
                    msgs_out=out,
                    bytes_out=round(out * size_bytes / messages) if messages else 0,
                    subscribers=sum(held.count[pattern] for pattern in patterns),
                    filters=len(patterns),
                )
            )
    # A look that was late by a second or two leaves no hole: what only the gateway saw is spread evenly.
    late = [row for row in rows if row["broker"] == head and row["topic"] not in second.seen.topics]
    for back in range(1, _missed_seconds(second) + 1):
        rows += [{**row, "ts": second.ts - timedelta(seconds=back)} for row in late]
    return rows


def _missed_seconds(second: Second) -> int:
    """Seconds before this one that had no look of their own, if they are few."""
    span_s = second.counts.span_s if second.counts is not None else 0.0
    return round(span_s) - 1 if SECOND_AT_MOST_S < span_s <= MAX_SPREAD_S else 0


def _sent_in_a_second(second: Second) -> Mapping[str, int]:
    """What the gateway sent of each topic. Counts of a longer time are brought down to a second's."""
    sent = second.carried("sent")
    span_s = second.counts.span_s if second.counts is not None else 0.0
    if span_s <= SECOND_AT_MOST_S:
        return sent
    mean = {topic: round(count / span_s) for topic, count in sent.items()}
    told = (1 + _missed_seconds(second)) * sum(mean.values())
    second.omissions.add("messages sent in seconds without a look", max(0, sum(sent.values()) - told))
    return {topic: count for topic, count in mean.items() if count}


def _copies(
    entered: Mapping[str, tuple[int, int]],
    matching: Mapping[str, set[str]],
    handed_per_s: Mapping[str, float],
) -> dict[str, float]:
    """Each topic's share of what the patterns that match it were handed, by the messages of each topic."""
    messages_under: Counter[str] = Counter()
    for topic, (messages, _) in entered.items():
        for pattern in matching[topic]:
            messages_under[pattern] += messages
    return {
        topic: sum(
            handed_per_s.get(pattern, 0.0) * messages / messages_under[pattern]
            for pattern in matching[topic]
            if messages_under[pattern]
        )
        for topic, (messages, _) in entered.items()
    }
