"""Blocks of very many topics as blocks of items: nothing is lost in the adding up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.errors import InputError
from mangrove.pipelines.grouping import dealt_cube
from mangrove.pipelines.grouping.dealt_cube import (
    PLANES,
    Dealt,
    TopicTotals,
    deal,
    item_block,
    topic_totals,
)
from mangrove.pipelines.grouping.risk_error import EVEN_RISK, risk_error
from mangrove.pipelines.rates.blocks import BLOCK, narrow, wide
from mangrove.pipelines.reading.lake_reader import arrow_schema


def block_of(counts: np.ndarray, topics: list[str], domain: str = "a") -> dict[str, Any]:
    length_s, width = counts.shape
    minutes = counts.reshape(length_s // 60, 60, width).sum(axis=1)
    return {
        "date": "2026-03-02",
        "domain": domain,
        "start_s": 0,
        "length_s": length_s,
        "brokers": [f"b{number % 2}" for number in range(width)],
        "topics": topics,
        "counts": narrow(counts),
        "minutes": [narrow(minutes * (1 + plane)) for plane in range(len(PLANES))],
        "minute": [0, 1],
        "load": minutes.sum(axis=1),
        "rows": int((counts > 0).sum()),
        "repeated": 0,
        "differing": 0,
        "negative": 0,
        "first_s": 0,
        "last_s": length_s - 1,
    }


@settings(max_examples=30, deadline=None)
@given(width=st.integers(1, 12), items=st.integers(1, 5), seed=st.integers(0, 1000))
def test_streams_are_added_up_by_item(width: int, items: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 300, size=(120, width))
    topics = [f"t{number // 2}" for number in range(width)]  # of two brokers each
    numbers = {("a", topic): int(rng.integers(items)) for topic in sorted(set(topics))}
    names = [f"item{number}" for number in range(items)]
    block = block_of(counts, topics)
    found = item_block(block, numbers, names)
    pa.RecordBatch.from_pylist([found], schema=arrow_schema(BLOCK))
    kept = len(found["topics"])
    assert found["topics"] == sorted(set(found["topics"]))
    seen = wide(found["counts"], 120 * kept).reshape(120, kept)
    own = np.array([numbers["a", topic] for topic in topics])
    for column, name in enumerate(found["topics"]):
        assert (seen[:, column] == counts[:, own == names.index(name)].sum(axis=1)).all()
    for plane, data in enumerate(found["minutes"]):
        assert wide(data, 2 * kept).sum(dtype=np.int64) == (1 + plane) * counts.sum()


def totals(rates: dict[tuple[str, str], float]) -> TopicTotals:
    topics = sorted(rates)
    rate = np.array([rates[topic] for topic in topics])
    ones = np.ones(len(topics))
    return TopicTotals(topics, rate, ones, np.arange(len(topics), dtype=np.float64), ones, ones)


def test_topics_of_a_domain_are_dealt_among_themselves_and_averages_go_by_rate() -> None:
    rates = {("a", "x"): 9.0, ("a", "y"): 1.0, ("a", "z"): 3.0, ("b", "x"): 5.0}
    found = deal(totals(rates), 2)
    assert found.items == [("a", "x+2"), ("b", "x")]
    assert found.members == [[0, 1, 2], [3]]
    filters = found.averaged(found.totals.filters)
    assert filters.tolist() == pytest.approx([(9 * 0 + 1 * 1 + 3 * 2) / 13, 3.0])
    silent = Dealt(totals({("a", "x"): 0.0, ("a", "y"): 0.0}), np.array([0, 0]), [("a", "x+1")])
    assert silent.averaged(silent.totals.filters).tolist() == [0.5]


def test_more_topics_than_can_be_dealt_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealt_cube, "MAX_TOPICS", 2)
    with pytest.raises(InputError, match="3 topics; at most 2 can be profiled together"):
        deal(totals({("a", name): 1.0 for name in "xyz"}), 2)


def test_counts_of_a_topics_brokers_add_up() -> None:
    values = {name: [2, 4, 1] for name in PLANES} | {"rows": [2, 1, 1], "msgs_in": [6, 4, 0]}
    streams = pa.table({"domain": ["a"] * 3, "broker": ["1", "2", "1"], "topic": ["x", "x", "y"], **values})
    found = topic_totals(streams, seconds=10)
    assert found.topics == [("a", "x"), ("a", "y")]
    assert found.rate_msg_s.tolist() == [1.0, 0.0]
    assert found.replication.tolist() == [0.6, 1.0], "who says nothing goes by its subscribers"
    assert found.filters.tolist() == [5.0, 1.0]


def test_fewer_items_cost_risk_and_an_even_split_is_the_best() -> None:
    rng = np.random.default_rng(7)
    loads = rng.gamma(1.0, 1.0, size=400)
    factors = rng.normal(size=(400, 6)) * loads[:, None] * 0.3
    covariance = factors @ factors.T + np.diag(0.1 * loads)
    found = risk_error(loads, covariance, brokers=4)
    assert found is not None
    assert list(found.by_items) == ["400", "200", "100"]
    assert all(risk >= EVEN_RISK for risk in found.by_items.values())
    assert risk_error(loads[:6], covariance[:6, :6], brokers=4) is None
    assert risk_error(loads, np.zeros((400, 400)), brokers=4) is None
