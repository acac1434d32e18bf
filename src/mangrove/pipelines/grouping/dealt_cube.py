"""The cube of very many topics with items in the place of topics, so that all that follows is as for few.

Totals of all streams over the history come first: one row for each, by which topics are dealt to items, those
of each domain among themselves. Then the matrices of every block are added up by item where the block is. The
largest thing that anybody holds is a block, a matrix of items by items, and the list of topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mangrove.errors import InputError
from mangrove.pipelines.grouping.dealt_items import dealt
from mangrove.pipelines.rates.blocks import BLOCK, COUNTS, MINUTE_S, narrow, wide
from mangrove.pipelines.reading.lake_reader import arrow_schema
from mangrove.planning.problem.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_TOPICS = 100_000
ITEMS = 2_000
PLANES = ("rows", *COUNTS)
TOTALS = "domain string, broker string, topic string, " + ", ".join(f"{name} bigint" for name in PLANES)


@dataclass(frozen=True, slots=True, eq=False)
class TopicTotals:
    """Figures of each topic over the whole history, in order of (domain, topic)."""

    topics: list[tuple[str, str]]
    rate_msg_s: FloatArray
    replication: FloatArray
    filters: FloatArray
    subscribers: FloatArray
    message_bytes: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Dealt:
    """Which item each topic is in."""

    totals: TopicTotals
    item_of: IntArray
    items: list[tuple[str, str]]
    """domain, and a name: a topic's own, or `plant.a+12` for a topic and twelve others"""

    @property
    def members(self) -> list[list[int]]:
        """Numbers of the topics of each item."""
        found: list[list[int]] = [[] for _ in self.items]
        for number, item in enumerate(self.item_of.tolist()):
            found[item].append(number)
        return found

    @property
    def streams(self) -> list[tuple[str, str, str]]:
        """Of the cube of items: no broker is told apart."""
        return sorted((domain, "", name) for domain, name in self.items)

    def table(self) -> pa.Table:
        """Every topic with its item, and its figures over the history."""
        return pa.table(
            {
                "domain": [domain for domain, _ in self.totals.topics],
                "topic": [topic for _, topic in self.totals.topics],
                "item": [self.items[item][1] for item in self.item_of.tolist()],
                "rate": self.totals.rate_msg_s,
                "replication": self.totals.replication,
                "filters": self.totals.filters,
                "subscribers": self.totals.subscribers,
                "message_bytes": self.totals.message_bytes,
            }
        )

    def averaged(self, values: FloatArray) -> FloatArray:
        """Of an item's topics, by rate; plain where none has any messages."""
        count = len(self.items)
        rate = np.bincount(self.item_of, weights=self.totals.rate_msg_s, minlength=count)
        weighted = np.bincount(self.item_of, weights=self.totals.rate_msg_s * values, minlength=count)
        plain = np.bincount(self.item_of, weights=values, minlength=count) / np.bincount(self.item_of)
        return np.where(rate > 0, weighted / np.where(rate > 0, rate, 1.0), plain)

    def cube(self, cube: DataFrame) -> DataFrame:
        """Blocks of items."""
        numbers = {topic: int(item) for topic, item in zip(self.totals.topics, self.item_of, strict=True)}
        names = [name for _, name in self.items]

        def by_item(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            schema = arrow_schema(BLOCK)
            for batch in batches:
                for row in range(batch.num_rows):
                    (block,) = batch.slice(row, 1).to_pylist()
                    yield pa.RecordBatch.from_pylist([item_block(block, numbers, names)], schema=schema)

        return cube.mapInArrow(by_item, BLOCK)


def item_block(
    block: dict[str, Any], numbers: dict[tuple[str, str], int], names: Sequence[str]
) -> dict[str, Any]:
    """A block with the streams of an item added up; no broker is told apart."""
    width = len(block["topics"])
    if not width:
        return block
    own = np.array([numbers[block["domain"], topic] for topic in block["topics"]])
    present, column = np.unique(own, return_inverse=True)
    order = np.argsort(column, kind="stable")
    first = np.searchsorted(column[order], np.arange(len(present)))

    def added(data: bytes, length: int) -> bytes:
        cells = wide(data, length * width).reshape(length, width)
        return narrow(np.add.reduceat(cells[:, order], first, axis=1, dtype=np.int64))

    return {
        **block,
        "brokers": [""] * len(present),
        "topics": [names[item] for item in present.tolist()],
        "counts": added(block["counts"], block["length_s"]),
        "minutes": [added(plane, block["length_s"] // MINUTE_S) for plane in block["minutes"]],
    }


def dealt_topics(cube: DataFrame, seconds: int) -> Dealt:
    """Deal the topics of a cube of so many seconds to items."""
    return deal(topic_totals(stream_totals(cube).toArrow(), seconds), ITEMS)


def deal(totals: TopicTotals, items: int) -> Dealt:
    """Topics of one domain are dealt among themselves; each gets items by its number of topics."""
    domains = [domain for domain, _ in totals.topics]
    if len(domains) > MAX_TOPICS:
        raise InputError(
            f"{len(domains):,} topics; at most {MAX_TOPICS:,} can be profiled together",
            hint="profile the domains one by one with --domain",
        )
    item_of = np.empty(len(domains), dtype=np.int64)
    named: list[tuple[str, str]] = []
    known = set(totals.topics)
    for domain in dict.fromkeys(domains):
        own = np.flatnonzero(np.array([each == domain for each in domains]))
        count = max(1, items * len(own) // len(domains))
        local = dealt(totals.rate_msg_s[own], count)
        item_of[own] = len(named) + local
        sizes = np.bincount(local)
        _, first = np.unique(local, return_index=True)
        for place, size in zip(first.tolist(), sizes.tolist(), strict=True):
            topic = totals.topics[own[place]][1]
            named.append((domain, topic if size == 1 else _group_name(topic, size, known, domain)))
    # In the order of their names, as topics are everywhere.
    order = sorted(range(len(named)), key=named.__getitem__)
    place = np.empty(len(named), dtype=np.int64)
    place[order] = np.arange(len(named))
    return Dealt(totals, place[item_of], [named[each] for each in order])


def _group_name(topic: str, size: int, known: set[tuple[str, str]], domain: str) -> str:
    """A name that no topic of the domain has."""
    name = f"{topic}+{size - 1}"
    while (domain, name) in known:
        name += "+"
    known.add((domain, name))
    return name


def stream_totals(cube: DataFrame) -> DataFrame:
    """Rows and counts of each stream over all blocks."""
    from pyspark.sql import functions as f

    def of_blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(TOTALS)
        for batch in batches:
            for block in batch.to_pylist():
                yield _block_totals(block, schema)

    parts = cube.where("rows > 0").select("domain", "length_s", "brokers", "topics", "minutes")
    summed = [f.sum(name).alias(name) for name in PLANES]
    return parts.mapInArrow(of_blocks, TOTALS).groupBy("domain", "broker", "topic").agg(*summed)


def _block_totals(block: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    width, minutes = len(block["topics"]), block["length_s"] // MINUTE_S
    planes: list[NDArray[np.int64]] = [
        wide(plane, minutes * width).reshape(minutes, width).sum(axis=0, dtype=np.int64)
        for plane in block["minutes"]
    ]
    columns = [[block["domain"]] * width, block["brokers"], block["topics"], *planes]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, kind.type) for values, kind in zip(columns, schema, strict=True)], schema=schema
    )


def topic_totals(streams: pa.Table, seconds: int) -> TopicTotals:
    """Totals of streams as figures of topics; counts of a topic's brokers add up."""
    pairs = list(zip(streams["domain"].to_pylist(), streams["topic"].to_pylist(), strict=True))
    topics = sorted(set(pairs))
    numbers = {topic: number for number, topic in enumerate(topics)}
    own = np.array([numbers[pair] for pair in pairs], dtype=np.int64)
    by_stream = {name: streams[name].to_numpy().astype(np.float64) for name in PLANES}

    def summed(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(own, weights=values, minlength=len(topics)), dtype=np.float64)

    def averaged(name: str) -> FloatArray:
        return summed(by_stream[name] / np.maximum(by_stream["rows"], 1.0))

    messages = summed(by_stream["msgs_in"])
    some = np.maximum(messages, 1.0)
    subscribers = averaged("subscribers")
    return TopicTotals(
        topics,
        messages / seconds,
        replication=np.where(messages > 0, summed(by_stream["msgs_out"]) / some, subscribers),
        filters=averaged("filters"),
        subscribers=subscribers,
        message_bytes=summed(by_stream["bytes_in"]) / some,
    )
