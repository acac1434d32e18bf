"""What `mangrove load` and `mangrove directory` print: readable on 80 columns, with all that matters."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from mangrove.cli.federation.directory import show_directory
from mangrove.cli.federation.load_tables import load_tables
from mangrove.model.agents.directory import Advertised, DirectoryRecord, ServedTopic
from mangrove.model.agents.load import BrokerLoad, ClusterLoad, LoadState, Metric, Trigger
from mangrove.model.agents.status import AgentStatus, MoveStatus, PeerStatus, SessionStatus

SITE = "seattle-manufacturing-campus"


def broker(number: int, state: LoadState, **more: object) -> BrokerLoad:
    return BrokerLoad(
        broker=f"{SITE}-edge{number}",
        role="edge",
        state=state,
        measured=LoadState.OVERLOAD if state is LoadState.BUSY else state,
        utilisation={Metric.INPUT: 0.123, Metric.OUTPUT: 0.987, Metric.MATCHING: 0.5},
        headroom=-0.037,
        messages_in_s=12_345.0,
        messages_out_s=123_456.0,
        pending_bytes=12_345_678,
        cpu_percent=98.0,
        connections=1_234,
        **more,  # type: ignore[arg-type]
    )


STATUS = AgentStatus(
    domain=SITE,
    agent=f"{SITE}-agent",
    term=3_616_170,
    leads=True,
    uptime_s=10.0,
    brokers=(
        broker(1, LoadState.LOW),
        broker(
            2,
            LoadState.BUSY,
            session="s-17",
            overloaded=(Metric.OUTPUT,),
            triggers=(Trigger.PENDING,),
        ),
        BrokerLoad(
            broker=f"{SITE}-edge3",
            role="edge",
            state=LoadState.LOW,
            measured=LoadState.LOW,
            reachable=False,
            problem="no servers available",
        ),
    ),
    peers=(
        PeerStatus(
            domain="denver",
            online=True,
            load=ClusterLoad(head=LoadState.LOW, edges=LoadState.HIGH, headroom=0.25),
            load_age_s=2.0,
            accepts=True,
        ),
        PeerStatus(domain="orlando", online=False),
    ),
    sessions=(
        SessionStatus(
            id="s-17",
            broker=f"{SITE}-edge2",
            state="migrating",
            scope="domain",
            metrics=("output",),
            since_s=3.0,
            moves=(MoveStatus(topic="plant.one", to=f"{SITE}-edge1", subscriptions=5, confirmed=3),),
        ),
    ),
    clients=1_000,
    subscriptions=20_000,
    records=100_000,
    congested=(f"{SITE}-edge2",),
    refused={"a seal that is not the client's": 4},
    store_problem="the store did not take a write within 2.0 s",
)


def load_screen(width: int) -> str:
    out = StringIO()
    console = Console(file=out, width=width)
    for table in load_tables({SITE: STATUS}):
        table.show(console)
    return out.getvalue()


def test_load_fits_80_columns_and_tells_what_matters() -> None:
    text = load_screen(80)
    assert max(map(len, text.splitlines())) <= 80
    for word in ("leads", "busy", "98.7%", "-3.7%", "unreachable", "overloaded: output, pending"):
        assert word in text
    for word in ("no servers available", "3/5", "plant.one", "online", "offline", "25.0%", "Congestion"):
        assert word in text
    assert "a seal that is not the client's" in text
    assert "the store did not take a write" in text


def test_load_shows_everything_on_a_wide_screen() -> None:
    text = load_screen(200)
    for word in ("12,345", "123,456", "12 MB", "20,000", "100,000", "in s-17, measured overload"):
        assert word in text
    assert "also:" not in text


def test_the_directory_says_who_serves_what_since_when_and_why() -> None:
    topics = [
        ServedTopic(
            topic="plant.9.oil",
            record=DirectoryRecord(
                topic="plant.9.oil",
                domain=SITE,
                epoch=1,
                edges=(f"{SITE}-edge1", f"{SITE}-edge2"),
                publish_at=f"{SITE}-edge1",
                since=1.0,
                decision="seattle-agent-17",
            ),
            published_by=(Advertised(topic="plant.9.oil", source="denver", epoch=1),),
            subscribers=1_234,
            subscriber_class="Sr",
            deadline_ms=150.0,
        ),
        ServedTopic(topic="plant.>"),
    ]
    out = StringIO()
    show_directory({SITE: topics, "empty": []}, {SITE}, "", Console(file=out, width=80))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for word in ("plant.9.oil", "denver", "1970-01-01", "agent-17", "--limit", "published at"):
        assert word in text
    assert "the directory of empty has nothing yet" in text
