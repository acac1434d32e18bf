"""The telemetry lake: its tables, their columns, and the latency histogram.

These are plain values. The writer renders them as Arrow schemas, the jobs as Spark schemas and the reference
page as a table, so that there is one description of each column.

A lake is a directory: `LAKE/<table>/date=YYYY-MM-DD/domain=NAME/*.parquet`. A row describes one second (or
one moment, for `events`); counts are what happened *in* that second, never running totals, so a second
without a row is a second in which nothing was seen.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum

SCHEMA_VERSION = 1
VERSION_KEY = "mangrove.schema_version"
"""Key in a Parquet file's metadata. A file without it comes from another writer; it is read as version 1."""
REPLACES_KEY = "mangrove.replaces"
"""Key in a Parquet file's metadata: names of the smaller files whose rows it holds, one on each line."""

# Upper bounds of the latency bins in milliseconds, ten for each factor of ten from 0.1 ms to 100 s. A latency
# falls in the first bin whose bound is not below it; one more bin takes what is longer than the last bound.
LATENCY_BOUNDS_MS = tuple(round(10 ** (step / 10 - 1), 6) for step in range(61))
LATENCY_BINS = len(LATENCY_BOUNDS_MS) + 1


class ColumnType(StrEnum):
    """Types that the lake uses."""

    TIMESTAMP = "timestamp (UTC, microseconds)"
    TEXT = "text"
    COUNT = "64-bit integer"
    NUMBER = "double"
    FLAG = "boolean"
    HISTOGRAM = "list of 64-bit integers"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Only an `optional` column may hold nulls."""

    name: str
    type: ColumnType
    meaning: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the lake; `key` names the columns that tell its rows apart."""

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        """The column of that name."""
        return next(column for column in self.columns if column.name == name)


_TS = Column("ts", ColumnType.TIMESTAMP, "the second that the row describes")
_DOMAIN = Column("domain", ColumnType.TEXT, "the domain; also a directory of the path")

TOPIC_RATES = Table(
    "topic_rates",
    "What each broker carried of each topic.",
    ("ts", "domain", "broker", "topic"),
    (
        _TS,
        _DOMAIN,
        Column("broker", ColumnType.TEXT, "the broker"),
        Column("topic", ColumnType.TEXT, "the topic (a literal subject)"),
        Column(
            "msgs_in",
            ColumnType.COUNT,
            "messages that entered the domain at this broker, from publishers or from the gateway; what "
            "comes from another broker of the domain is not counted again, so brokers may be summed up",
        ),
        Column("bytes_in", ColumnType.COUNT, "their size, headers included"),
        Column(
            "msgs_out",
            ColumnType.COUNT,
            "copies handed to subscribers attached to this broker; at a broker with more than 2,000 "
            "subscriptions, a mean over the seconds between two looks at them",
        ),
        Column("bytes_out", ColumnType.COUNT, "their size, headers included"),
        Column("subscribers", ColumnType.COUNT, "subscriptions at this broker that match the topic"),
        Column("filters", ColumnType.COUNT, "distinct patterns among these subscriptions"),
    ),
)

LINK_SAMPLES = Table(
    "link_samples",
    "Each overlay link, seen from one end.",
    ("ts", "domain", "peer"),
    (
        _TS,
        _DOMAIN,
        Column("peer", ColumnType.TEXT, "the domain at the other end"),
        Column("up", ColumnType.FLAG, "whether the link carries frames"),
        Column("frames_out", ColumnType.COUNT, "frames sent"),
        Column("frames_in", ColumnType.COUNT, "frames received"),
        Column("bytes_out", ColumnType.COUNT, "bytes sent"),
        Column("bytes_in", ColumnType.COUNT, "bytes received"),
        Column("queued_bytes", ColumnType.COUNT, "bytes that waited at the end of the second"),
        Column("reconnects", ColumnType.COUNT, "connections made anew"),
        Column("rtt_ms", ColumnType.NUMBER, "round-trip time by heartbeats; empty if unknown", optional=True),
    ),
)

BROKER_SAMPLES = Table(
    "broker_samples",
    "Each broker, from its own monitoring page, and how its head was sampled.",
    ("ts", "domain", "broker"),
    (
        _TS,
        _DOMAIN,
        Column("broker", ColumnType.TEXT, "the broker"),
        Column("role", ColumnType.TEXT, "`head`, `edge` or `management`"),
        Column("reachable", ColumnType.FLAG, "whether it answered"),
        Column("connections", ColumnType.COUNT, "clients connected"),
        Column("subscriptions", ColumnType.COUNT, "subscriptions held"),
        Column("msgs_in", ColumnType.COUNT, "messages received, from anywhere"),
        Column("msgs_out", ColumnType.COUNT, "messages sent, to anywhere"),
        Column("bytes_in", ColumnType.COUNT, "bytes received"),
        Column("bytes_out", ColumnType.COUNT, "bytes sent"),
        Column("slow_consumers", ColumnType.COUNT, "clients cut off because they did not keep up"),
        Column("memory_bytes", ColumnType.COUNT, "resident memory"),
        Column("cpu_percent", ColumnType.NUMBER, "processor use; 100 is one core"),
        Column(
            "tap_share",
            ColumnType.NUMBER,
            "share of the second in which the tap listened at this broker; 0 when it was off",
        ),
        Column("tap_messages", ColumnType.COUNT, "messages that the tap counted"),
        Column(
            "tap_error_ratio",
            ColumnType.NUMBER,
            "expected relative error of the scaled-up message count (one standard deviation); "
            "empty when the tap was off or saw nothing",
            optional=True,
        ),
    ),
)

DELIVERIES = Table(
    "deliveries",
    "Arrivals of each topic in each domain by route, against the topic's contract.",
    ("ts", "domain", "topic", "route"),
    (
        _TS,
        Column("domain", ColumnType.TEXT, "the domain of arrival; also a directory of the path"),
        Column("topic", ColumnType.TEXT, "the topic"),
        Column("route", ColumnType.TEXT, "`origin>destination`; the origin is `*` when it is not known"),
        Column("contract", ColumnType.TEXT, "pattern of the contract that governs the topic"),
        Column("deadline_ms", ColumnType.NUMBER, "the contract's deadline; empty for none", optional=True),
        Column("delivered", ColumnType.COUNT, "messages that arrived"),
        Column("measured", ColumnType.COUNT, "those whose latency was measured"),
        Column("in_time", ColumnType.COUNT, "measured ones within the deadline (all, without a deadline)"),
        Column(
            "dropped", ColumnType.COUNT, "messages dropped on the way, as booked by this domain's gateway"
        ),
        Column(
            "latency_histogram",
            ColumnType.HISTOGRAM,
            f"measured ones by latency: {LATENCY_BINS} bins, ten for each factor of ten from 0.1 ms to "
            "100 s, and one for what is longer",
        ),
    ),
)

EVENTS = Table(
    "events",
    "What changed.",
    ("ts", "domain", "subject", "kind"),
    (
        Column("ts", ColumnType.TIMESTAMP, "the moment at which the change was seen"),
        _DOMAIN,
        Column(
            "subject",
            ColumnType.TEXT,
            "a broker, `domain--domain` for a link, `recorder`, or the domain itself",
        ),
        Column(
            "kind",
            ColumnType.TEXT,
            "`broker_down`, `broker_up`, `link_down`, `link_up`, `gateway_down`, `gateway_up`, "
            "`agent_down`, `agent_up`, "
            "`counter_reset`, `counts_lost`, `clock_stepped_back`, `tap_off`, `tap_on`, "
            "`subscriptions_too_many`, `left_out`, `rows_lost`, `recorder_started`, `recorder_stopped`; "
            "`left_out` adds up, once a minute, what happened and is in no row",
        ),
        Column("detail", ColumnType.TEXT, "more, in words"),
    ),
)

CALIBRATION_RUNS = Table(
    "calibration_runs",
    "Saturated broker under one combination of subscribers, filters and message size.",
    ("ts", "domain", "broker_type", "replication", "filters", "message_bytes"),
    (
        _TS,
        Column("domain", ColumnType.TEXT, "where it was measured; also a directory of the path"),
        Column("broker_type", ColumnType.TEXT, "kind of broker and machine, e.g. `nats-server-2.12`"),
        Column("replication", ColumnType.NUMBER, "subscribers that get each message"),
        Column("filters", ColumnType.NUMBER, "further patterns held, which match none of the messages"),
        Column("message_bytes", ColumnType.COUNT, "payload of a message"),
        Column("messages", ColumnType.COUNT, "messages of the run"),
        Column("seconds", ColumnType.NUMBER, "from the first to the last message at the subscribers"),
        Column("processing_time_s", ColumnType.NUMBER, "seconds for each message at saturation"),
        Column("cpu_time_s", ColumnType.NUMBER, "the broker's processor time for each message"),
    ),
)

LOAD_SAMPLES = Table(
    "load_samples",
    "Each data broker against its capacity, as its domain's agent judges it.",
    ("ts", "domain", "broker"),
    (
        _TS,
        _DOMAIN,
        Column("broker", ColumnType.TEXT, "the broker"),
        Column("role", ColumnType.TEXT, "`head` or `edge`"),
        Column("reachable", ColumnType.FLAG, "whether it answers the agent"),
        Column("state", ColumnType.TEXT, "`low`, `high`, `overload`, or `busy` while in a session"),
        Column("measured", ColumnType.TEXT, "the same without regard to sessions"),
        Column("input", ColumnType.NUMBER, "bytes in against bandwidth; empty if not known", optional=True),
        Column("output", ColumnType.NUMBER, "bytes out against bandwidth; empty if not known", optional=True),
        Column("matching", ColumnType.NUMBER, "messages in against capacity, likewise", optional=True),
        Column("headroom", ColumnType.NUMBER, "what is left up to the high threshold", optional=True),
        Column("pending_bytes", ColumnType.COUNT, "bytes that wait for clients, where that is looked at"),
        Column("overloaded", ColumnType.TEXT, "metrics and triggers beyond their thresholds, with commas"),
        Column("session", ColumnType.TEXT, "the offload session that the broker is in, if any"),
    ),
)

OFFLOAD_SESSIONS = Table(
    "offload_sessions",
    "What an agent did to relieve a broker, when it was done with it.",
    ("ts", "domain", "session"),
    (
        Column("ts", ColumnType.TIMESTAMP, "the second in which its end was seen"),
        _DOMAIN,
        Column("session", ColumnType.TEXT, "the session"),
        Column("broker", ColumnType.TEXT, "the broker that was to lose load"),
        Column("scope", ColumnType.TEXT, "`domain` or `neighbours`: where room was looked for"),
        Column("metrics", ColumnType.TEXT, "what was beyond its threshold, with commas"),
        Column("seconds", ColumnType.NUMBER, "how long it took"),
        Column("outcome", ColumnType.TEXT, "how it ended, in words"),
        Column("topics", ColumnType.COUNT, "topics that were to move"),
        Column("subscriptions", ColumnType.COUNT, "their subscriptions"),
        Column("moved", ColumnType.COUNT, "those that did move"),
        Column("held_ms", ColumnType.NUMBER, "how much later its most delayed message came by moving"),
    ),
)

OPINIONS_S = 5
"""A row of `topic_opinions` stands for so many seconds."""

TOPIC_OPINIONS = Table(
    "topic_opinions",
    f"What subscribers think of a domain's topics, as its agent sums it up, every {OPINIONS_S} seconds.",
    ("ts", "domain", "topic"),
    (
        Column("ts", ColumnType.TIMESTAMP, f"the first of the {OPINIONS_S} seconds"),
        _DOMAIN,
        Column("topic", ColumnType.TEXT, "the topic"),
        Column(
            "utility", ColumnType.NUMBER, "mean over its publishers, from 0 to 1; 0.5 if nobody has judged"
        ),
        Column("importance", ColumnType.NUMBER, "utility for each part of a broker that it takes"),
        Column("subscribers", ColumnType.COUNT, "subscribers, here and elsewhere"),
        Column("publishers", ColumnType.COUNT, "publishers"),
        Column("protected", ColumnType.FLAG, "whether its contract forbids to limit it"),
        Column("offered_msg_s", ColumnType.NUMBER, "what its publishers would say"),
        Column("allowed_msg_s", ColumnType.NUMBER, "what they may say; empty: not limited", optional=True),
    ),
)

MESSAGE_TEXTS = Table(
    "message_texts",
    "Words of some messages, of topics whose contract says `sample_text`; for `pipeline semantics`.",
    ("ts", "domain", "topic"),
    (
        _TS,
        _DOMAIN,
        Column("topic", ColumnType.TEXT, "the topic"),
        Column(
            "words",
            ColumnType.TEXT,
            "what one of its messages said, with commas: its keywords, then the words of its text in their "
            "order; none with digits, 512 bytes at most",
        ),
    ),
)

TABLES = {
    table.name: table
    for table in (
        TOPIC_RATES,
        LINK_SAMPLES,
        BROKER_SAMPLES,
        DELIVERIES,
        EVENTS,
        CALIBRATION_RUNS,
        LOAD_SAMPLES,
        OFFLOAD_SESSIONS,
        TOPIC_OPINIONS,
        MESSAGE_TEXTS,
    )
}


def latency_bin(latency_ms: float) -> int:
    """The bin of a latency; a clock that is behind makes it negative, which counts as the shortest."""
    return 0 if math.isnan(latency_ms) else bisect_left(LATENCY_BOUNDS_MS, latency_ms)
