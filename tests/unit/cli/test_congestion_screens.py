"""What `mangrove load` says of congestion: states, limits and why, usefulness, slow ones; on 80 columns."""

from __future__ import annotations

from io import StringIO

import msgspec
from rich.console import Console

from mangrove.cli.federation.load_tables import load_tables
from mangrove.model.agents.status import AgentStatus
from mangrove.model.agents.usefulness import (
    CongestionStatus,
    LimitStatus,
    SlowSubscriber,
    TopicUsefulness,
)
from mangrove.model.congestion.rate_limit import LimitCause, RateLimit

SITE = "seattle-manufacturing-campus"
EDGE = f"{SITE}-edge2"
CONGESTION = CongestionStatus(
    state="congested",
    since_s=12.0,
    why="the output of its edges is short",
    topics=(
        TopicUsefulness(
            topic="plant.gossip",
            utility=0.02,
            importance=0.1,
            subscribers=9,
            publishers=3,
            offered_msg_s=1234.0,
            allowed_msg_s=1.0,
        ),
        TopicUsefulness(
            topic="plant.alarms", utility=0.5, importance=9.0, subscribers=4, publishers=1, protected=True
        ),
    ),
    limits=tuple(
        LimitStatus(
            topic="plant.gossip",
            publisher=f"chatter-{number}",
            utility=None if number == 3 else 0.02,
            offered_msg_s=411.0,
            limit=RateLimit(msg_s=1.0, cause=LimitCause.CONGESTION, reason="others are more useful"),
            brokers=(EDGE,),
            since_s=3.0,
            probing=number == 1,
        )
        for number in range(1, 31)
    ),
    limited=1030,
    slow=(
        SlowSubscriber(
            client="k1", name="desk-7", broker=EDGE, subject="plant.>", pending=812, lost=44, oldest_s=3.25
        ),
        SlowSubscriber(client="cid 9", name="", broker=EDGE, pending=7_654_321, plain=True),
    ),
    capacities={EDGE: (0.3, 1.0)},
    votes=96,
    refused={"a vote from the future": 2},
)
STATUS = AgentStatus(
    domain=SITE,
    agent=f"{SITE}-agent",
    term=1,
    leads=True,
    uptime_s=10.0,
    brokers=(),
    congested=(EDGE,),
    refused={"a vote from the future": 1, "a bad seal": 5},
    congestion=CONGESTION,
)


def screen(status: AgentStatus, width: int) -> str:
    out = StringIO()
    for table in load_tables({SITE: status}):
        table.show(Console(file=out, width=width))
    return out.getvalue()


def test_everything_that_matters_fits_80_columns() -> None:
    text = screen(STATUS, 80)
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    for part in ("congested", "Lowered capacities", "30%", "100%", "1,030", "chatter-1", "protected"):
        assert part in words
    for part in (
        "congestion: others are more useful",
        "stopped, but for a probe",
        "Slow subscribers",
        "desk-7",
    ):
        assert part in words
    for part in ("812", "44", "7,654 kB", "cid 9", "a vote from the future", "a bad seal"):
        assert part in words
    assert "no other broker has room" in words
    assert "the output of its edges is short" in words


def test_long_lists_are_cut_and_counted() -> None:
    text = screen(STATUS, 120)
    assert "chatter-20" in text
    assert "chatter-21" not in text
    assert "… and 1,010 more; --json has everything" in text


def test_the_most_important_topics_stand_first() -> None:
    text = screen(STATUS, 200)
    usefulness = text[text.index("Usefulness") :]
    assert usefulness.index("plant.alarms") < usefulness.index("plant.gossip")


def test_refusals_of_both_kinds_are_added_up() -> None:
    text = screen(STATUS, 120)
    refused = text[text.index("Refused") :]
    assert " 3 " in refused.split("a vote from the future")[0].splitlines()[-1]


def test_without_congestion_there_is_nothing_to_say() -> None:
    calm = msgspec.structs.replace(STATUS, congested=(), congestion=CongestionStatus(), refused={})
    text = screen(calm, 80)
    for title in ("Congestion", "Limits", "Usefulness", "Slow", "Lowered", "Refused"):
        assert title not in text
