"""Blocks of time in numpy: rows of one domain become a matrix of messages by second and stream.

A covariance needs all topics of a second in one place, so rows must meet. A worker that reads rows packs
those of one block into one *piece*, as arrays in the narrowest type; the pieces of a block meet in a shuffle,
where repeated rows are found by counting. See docs/internals/pipelines.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mangrove.planning.problem.arrays import IntArray

COUNTS = ("msgs_in", "bytes_in", "msgs_out", "bytes_out", "subscribers", "filters")
MICROSECONDS = 1_000_000
MINUTE_S = 60
EPOCH = date(1970, 1, 1)
# Lengths that a day is cut into; a block has at most about so many rows.
LENGTHS_S = (3600, 1800, 1200, 600, 300, 120, 60)
BLOCK_ROWS = 1_500_000
# Nor does its matrix have more cells, whatever the number of streams, down to the shortest length.
BLOCK_CELLS = 30_000_000
# With at least one row for so many cells, matrices are laid out rather than counted together.
DENSE = 8
# Doubles hold every whole number up to here.
EXACT = 1 << 53
# Up to so many pairs of broker and topic are numbered through a table, which is cheaper than sorting.
TABLE_CELLS = 1 << 20

STREAMS = "brokers array<string>, topics array<string>"
PIECE = (
    f"date string, domain string, start_s bigint, {STREAMS}, rows bigint, negative bigint, data array<binary>"
)
BLOCK = (
    f"date string, domain string, start_s bigint, length_s bigint, {STREAMS}, counts binary, "
    "minutes array<binary>, minute array<bigint>, load array<bigint>, rows bigint, repeated bigint, "
    "differing bigint, negative bigint, first_s bigint, last_s bigint"
)


def block_seconds(rows_by_second: float) -> int:
    """How long blocks should be. Results do not depend on it."""
    return next((s for s in LENGTHS_S if s * rows_by_second <= BLOCK_ROWS), LENGTHS_S[-1])


def narrow(values: NDArray[Any]) -> bytes:
    """Non-negative integers as bytes of the narrowest type that holds them all."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0)))).tobytes()


def wide(data: bytes, size: int) -> NDArray[Any]:
    """The integers that `narrow` packed, in their narrow type."""
    return np.frombuffer(data, dtype=f"u{len(data) // size}" if size else "u1")


def pieces(batch: pa.RecordBatch, block_s: int) -> Iterator[dict[str, Any]]:
    """The rows of a batch by day and domain (of their directory) and block.

    Rows with a negative count are left out and counted.
    """
    if not batch.num_rows:
        return
    texts = [batch.column(name).dictionary_encode() for name in ("domain", "broker", "topic")]
    domain, broker, topic = (text.indices.to_numpy().astype(np.int64) for text in texts)
    domains, brokers, topics = (text.dictionary.to_pylist() for text in texts)
    ts_us = batch.column("ts").cast(pa.int64()).to_numpy()
    values = [batch.column(name).to_numpy() for name in COUNTS]
    negative = np.zeros(len(ts_us), dtype=bool)
    for each in values:
        if each.min() < 0:
            negative |= each < 0
    stream = broker * len(topics) + topic
    block = ts_us // (block_s * MICROSECONDS)
    day = batch.column("day").to_numpy().astype(np.int64)
    days = int(day.max() - day.min()) + 1
    group = ((block - block.min()) * len(domains) + domain) * days + day - day.min()
    alone = not (group != group[0]).any()
    for number in group[:1] if alone else np.unique(group):
        # Most batches are of one block and without fault: nothing is copied.
        whole = alone and not negative.any()
        chosen = slice(None) if whole else np.flatnonzero((group == number) & ~negative)
        present, own = _numbered(stream[chosen], len(brokers) * len(topics))
        some = int(np.argmax(group == number))
        start_s = int(block[some]) * block_s
        into_us = ts_us[chosen] - start_s * MICROSECONDS
        second = into_us // MICROSECONDS
        micros = into_us - second * MICROSECONDS
        key = second * max(len(present), 1) + own
        yield {
            "date": (EPOCH + timedelta(days=int(day[some]))).isoformat(),
            "domain": domains[domain[some]],
            "start_s": start_s,
            "brokers": [brokers[each // len(topics)] for each in present.tolist()],
            "topics": [topics[each % len(topics)] for each in present.tolist()],
            "rows": len(own),
            "negative": int(negative[group == number].sum()),
            "data": [narrow(each) for each in (key, micros, *(v[chosen] for v in values))],
        }


def blocks_of(parts: Sequence[dict[str, Any]], length_s: int) -> Iterator[dict[str, Any]]:
    """The block of these pieces, in whatever order they come.

    Several shorter ones, if very many streams would make its matrix too large. What was left out is told with
    the first.
    """
    streams = sorted(
        {stream for part in parts for stream in zip(part["brokers"], part["topics"], strict=True)}
    )
    width = len(streams)
    key, *others = _joined(parts, {stream: number for number, stream in enumerate(streams)})
    lengths = (s for s in LENGTHS_S if length_s % s == 0 and s * width <= BLOCK_CELLS)
    own_s = next(lengths, LENGTHS_S[-1])
    for begin_s in range(0, length_s, own_s):
        columns = [key, *others]
        if own_s < length_s:
            chosen = (key >= begin_s * width) & (key < (begin_s + own_s) * width)
            columns = [key[chosen] - begin_s * width, *(each[chosen] for each in others)]
        if begin_s and not len(columns[0]):
            continue
        yield {
            "date": parts[0]["date"],
            "domain": parts[0]["domain"],
            "start_s": parts[0]["start_s"] + begin_s,
            "length_s": own_s,
            "brokers": [broker for broker, _ in streams],
            "topics": [topic for _, topic in streams],
            "negative": 0 if begin_s else sum(part["negative"] for part in parts),
            **_counts(columns, parts[0]["start_s"] + begin_s, own_s, width),
        }


def _counts(columns: list[NDArray[Any]], start_s: int, length_s: int, width: int) -> dict[str, Any]:
    """What a block tells of its rows, whose keys count from its start."""
    rows = len(columns[0])
    columns, once, differing = _distinct(columns)
    key = columns[0]
    shape = length_s // MINUTE_S, width
    added_up = _laid_out if once and DENSE * rows >= length_s * width else _counted
    counts, planes = added_up(columns, length_s, width)
    load = planes[1].reshape(shape).sum(axis=1)
    busy = np.flatnonzero(planes[0].reshape(shape).any(axis=1))
    return {
        "counts": narrow(counts),
        "minutes": [narrow(plane) for plane in planes],
        "minute": start_s // MINUTE_S + busy,
        "load": load[busy],
        "rows": rows,
        "repeated": rows - len(key),
        "differing": differing,
        "first_s": start_s + int(key.min()) // width if rows else None,
        "last_s": start_s + int(key.max()) // width if rows else None,
    }


def _numbered(stream: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Which numbers occur, ascending, and the place of each row's among them."""
    if size > TABLE_CELLS:
        present, own = np.unique(stream, return_inverse=True)
        return present, own
    present = np.flatnonzero(np.bincount(stream, minlength=size))
    table = np.zeros(size, dtype=np.int64)
    table[present] = np.arange(len(present))
    return present, table[stream]


def _joined(parts: Sequence[dict[str, Any]], numbers: dict[tuple[str, str], int]) -> list[NDArray[Any]]:
    """Key, microseconds and counts of all pieces, with the streams of the block.

    All but the key stay in a narrow type: most of what this costs is touching memory.
    """
    width = len(numbers)
    rows = [part["rows"] for part in parts]
    columns = [
        np.concatenate([wide(part["data"][place], part["rows"]) for part in parts])
        for place in range(1, 2 + len(COUNTS))
    ]
    key = np.empty(sum(rows), dtype=np.int64)
    until = 0
    for part in parts:
        begin, until = until, until + part["rows"]
        key[begin:until] = wide(part["data"][0], part["rows"])
        own = [numbers[stream] for stream in zip(part["brokers"], part["topics"], strict=True)]
        if own != list(range(width)) and part["rows"]:
            second, stream = np.divmod(key[begin:until], len(own))
            key[begin:until] = second * width + np.array(own)[stream]
    return [key, *columns]


def _distinct(columns: list[NDArray[Any]]) -> tuple[list[NDArray[Any]], bool, int]:
    """One row for each stream and moment: of several, the one with the largest counts, whatever their order.

    Also whether every stream has at most one row for each second, and how many of the rows left out differ
    from those that stay, as after a clock that went back.
    """
    key, micros, *values = columns
    most = int(np.bincount(key).max(initial=0))
    if most <= 1:
        return columns, True, 0
    moment = key
    if micros.any():
        moment = key * MICROSECONDS + micros
        if len(np.unique(moment)) == len(moment):
            return columns, False, 0
    order = np.lexsort((*reversed(values), moment))
    last = np.flatnonzero(np.diff(moment[order], append=-1))
    kept = order[last]
    used = np.repeat(kept, np.diff(last, prepend=-1))
    differs = np.logical_or.reduce([each[order] != each[used] for each in values])
    return [column[kept] for column in columns], moment is key, int(differs.sum())


def _laid_out(columns: list[NDArray[Any]], length_s: int, width: int) -> tuple[NDArray[Any], list[IntArray]]:
    """Messages by second and stream, and rows and counts by minute, where no cell has two rows.

    Each count is laid out as a matrix, whose minutes are added as a whole.
    """
    key, _, *values = columns
    shape = length_s // MINUTE_S, MINUTE_S, width

    def laid_out(each: NDArray[Any]) -> NDArray[Any]:
        cells = np.zeros(length_s * width, dtype=each.dtype)
        cells[key] = each
        return cells

    def minutes(cells: NDArray[Any]) -> IntArray:
        return np.asarray(cells.reshape(shape).sum(axis=1, dtype=np.int64)).reshape(-1)

    rows, messages = laid_out(np.ones(len(key), dtype=np.uint8)), laid_out(values[0])
    return messages, [minutes(rows), minutes(messages), *(minutes(laid_out(each)) for each in values[1:])]


def _counted(columns: list[NDArray[Any]], length_s: int, width: int) -> tuple[NDArray[Any], list[IntArray]]:
    """The same row by row: for few rows in a large matrix, and for several rows in a cell."""
    key, _, *values = columns
    second, stream = np.divmod(key, max(width, 1))
    cell, size = second // MINUTE_S * width + stream, length_s // MINUTE_S * width
    planes = [np.bincount(cell, minlength=size), *(_added(cell, each, size) for each in values)]
    return _added(key, values[0], length_s * width), planes


def _added(cell: IntArray, values: NDArray[Any], size: int) -> IntArray:
    """Values summed by cell, exactly."""
    if int(values.max(initial=0)) * len(values) < EXACT:
        return np.asarray(np.bincount(cell, weights=values, minlength=size)).astype(np.int64)
    total = np.zeros(size, dtype=np.int64)
    np.add.at(total, cell, values.astype(np.int64, copy=False))
    return total
