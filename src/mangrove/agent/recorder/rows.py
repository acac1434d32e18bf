"""One second of a domain as rows of the lake's tables.

Which source counts: what the gateway carried is counted by the gateway, completely; what the domain's own
subscribers get is seen by the tap, scaled up; copies handed out come from the brokers' subscriptions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from mangrove.agent.recorder.counters import Counters
from mangrove.broker.nats.subscriptions import Subscriptions
from mangrove.broker.nats.tap import Slice
from mangrove.model.status import DomainStatus
from mangrove.model.subjects import matches
from mangrove.model.telemetry import LATENCY_BINS
from mangrove.model.topics import TopicRules

Rows = list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class Second:
    """What was found for one second."""

    ts: datetime
    domain: str
    rules: TopicRules
    counters: Counters
    status: DomainStatus
    subscriptions: Mapping[str, Subscriptions]
    seen: Slice

    def row(self, **columns: object) -> dict[str, object]:
        """A row of this second."""
        return {"ts": self.ts, "domain": self.domain, **columns}

    def since(self, *key: object, total: int) -> int:
        """Increase of a counter."""
        return self.counters.since(key, total)


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
    gateway = second.status.gateway
    arrived: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    if gateway is not None:
        for topic, total in gateway.busiest_delivered.items():
            arrived[topic] = second.counters.since_known(("arrived", topic), total)
        for drop in gateway.drops:
            dropped[drop.topic] += second.counters.since_known(("drop", drop.topic, drop.reason), drop.count)
    rows = []
    for topic in sorted({t for t, n in (arrived + dropped).items() if n} | second.seen.topics.keys()):
        contract = second.rules.contract_of(topic)
        seen = second.seen.topics.get(topic)
        latencies = seen.latencies_ms if seen is not None else []
        deadline = contract.deadline_ms
        remote = arrived[topic] or dropped[topic]
        rows.append(
            second.row(
                topic=topic,
                route=f"*>{second.domain}" if remote else f"{second.domain}>{second.domain}",
                contract=contract.match,
                deadline_ms=deadline,
                delivered=max(arrived[topic], second.seen.scaled(seen.messages) if seen is not None else 0),
                measured=len(latencies),
                in_time=sum(deadline is None or latency <= deadline for latency in latencies),
                dropped=dropped[topic],
                latency_histogram=seen.histogram() if seen is not None else [0] * LATENCY_BINS,
            )
        )
    return rows


def rate_rows(second: Second, head: str) -> Rows:
    """`topic_rates`: publications at the head, copies handed out where the subscribers are."""
    entered: dict[str, tuple[int, int]] = {
        topic: (second.seen.scaled(count.messages), second.seen.scaled(count.size_bytes))
        for topic, count in second.seen.topics.items()
    }
    gateway = second.status.gateway
    if gateway is not None:
        for topic, total in gateway.busiest_sent.items():
            sent = second.counters.since_known(("sent", topic), total)
            # Wanted elsewhere and not here: only the gateway sees it, and it knows no sizes.
            if sent and topic not in entered:
                entered[topic] = (sent, 0)
    rows = []
    for broker, held in second.subscriptions.items():
        handed = _handed_out(second, broker, held)
        for topic in sorted(entered):
            subscribers, filters = held.matching(topic)
            if broker != head and not subscribers:
                continue
            messages, size_bytes = entered[topic]
            out = _copies(topic, messages, entered, handed)
            rows.append(
                second.row(
                    broker=broker,
                    topic=topic,
                    msgs_in=messages if broker == head else 0,
                    bytes_in=size_bytes if broker == head else 0,
                    msgs_out=out,
                    bytes_out=round(out * size_bytes / messages) if messages else 0,
                    subscribers=subscribers,
                    filters=filters,
                )
            )
    return rows


def _handed_out(second: Second, broker: str, held: Subscriptions) -> Counter[str]:
    """Messages handed to subscribers of each pattern in this second."""
    handed: Counter[str] = Counter()
    for key, (pattern, total) in held.handed.items():
        handed[pattern] += second.counters.since_known(("handed", broker, *key), total)
    return handed


def _copies(
    topic: str,
    messages: int,
    entered: Mapping[str, tuple[int, int]],
    handed: Counter[str],
) -> int:
    """A topic's share of what the patterns that match it were handed, by the messages of each topic."""
    copies = 0.0
    for pattern, count in handed.items():
        if count and matches(pattern, topic):
            total = sum(number for other, (number, _) in entered.items() if matches(pattern, other))
            copies += count * messages / total if total else 0.0
    return round(copies)
