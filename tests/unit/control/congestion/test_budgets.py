"""What publishers that can be limited may use of a broker: what others use, and what heads add, set apart."""

from __future__ import annotations

import pytest

from mangrove.control.congestion.budgets import MAX_OVERHEAD, Budgets
from mangrove.control.congestion.surroundings import PublisherOffer, TopicOffer
from mangrove.model.agents.load import BrokerLoad, LoadState, Metric
from mangrove.model.balancing import Balancing

EDGE = "edge"
CAPACITY = 1_000_000.0


def measured(msg_s: float, bytes_s: float, capacity: float = CAPACITY) -> BrokerLoad:
    """An edge that gives out what it takes in, once."""
    return BrokerLoad(
        broker=EDGE,
        role="edge",
        state=LoadState.LOW,
        measured=LoadState.LOW,
        utilisation={Metric.OUTPUT: bytes_s / capacity},
        capacity={Metric.OUTPUT: capacity},
        messages_in_s=msg_s,
        messages_out_s=msg_s,
        bytes_in_s=bytes_s,
        bytes_out_s=bytes_s,
    )


def said(msg_s: float, size_bytes: float = 1000.0) -> list[TopicOffer]:
    publisher = PublisherOffer("p", 1.0, msg_s, msg_s, size_bytes)
    return [TopicOffer("t", 1.0, 1, (publisher,), {EDGE: 1.0})]


def left(load: BrokerLoad, offers: list[TopicOffer], later: BrokerLoad | None = None) -> float:
    budgets = Budgets(Balancing())
    budgets.look({EDGE: load}, offers, 0.0, -100.0)
    return budgets.of(later or load, 0.9).output


def test_what_others_say_is_background() -> None:
    # 800 messages, of which clients tell 500; all are as large as clients say.
    assert left(measured(800.0, 800_000.0), said(500.0)) == pytest.approx(600_000, rel=1e-3)


def test_what_heads_add_is_no_background_and_falls_with_what_is_said() -> None:
    # All messages are told of, and each is a fifth larger to the broker: of 900 kB, 750 may be payload.
    assert left(measured(700.0, 840_000.0), said(700.0)) == pytest.approx(750_000, rel=1e-3)
    # With three tenths of the capacity left it is the same part; as background, next to nothing were left.
    cut = measured(700.0, 840_000.0, 300_000.0)
    assert left(measured(700.0, 840_000.0), said(700.0), cut) == pytest.approx(225_000, rel=1e-3)


def test_figures_that_cannot_be_are_not_believed() -> None:
    huge = measured(700.0, 840_000.0)
    assert left(huge, said(700.0, 1.0)) <= 0.9 * CAPACITY / MAX_OVERHEAD
    assert left(measured(0.0, 0.0), said(0.0)) == pytest.approx(0.9 * CAPACITY, rel=1e-3)
    smaller = left(measured(700.0, 350_000.0), said(700.0))
    assert smaller == pytest.approx(0.9 * CAPACITY, rel=1e-3), "messages are not smaller than their payload"
