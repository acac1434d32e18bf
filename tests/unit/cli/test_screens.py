"""What commands print on a screen of 80 columns: nothing wraps, nothing that matters is cut."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

from rich.console import Console
from tests.kit.command import mangrove

from mangrove.cli.demonstration.demo import what_arrived
from mangrove.cli.federation.status_tables import show_status
from mangrove.model.hosting.broker_status import BrokerStatus
from mangrove.model.status import (
    AskStatus,
    DomainStatus,
    FederationStatus,
    GatewayStatus,
    LinkStatus,
    RouteStatus,
)
from mangrove.testbed.traffic import StreamReport

ROOT = Path(__file__).parents[3]
SITES = [f"seattle-manufacturing-campus-{place}" for place in range(4)]


def link(peer: str, *, up: bool = True) -> LinkStatus:
    return LinkStatus(
        peer=peer,
        up=up,
        state="normal" if up else "failure",
        rtt_ms=30.8,
        jitter_ms=1.1,
        dead_interval_ms=125.0,
        clock_offset_ms=0.0,
        clock_error_ms=0.1,
        failures=0,
        availability=1.0,
        loss_ratio=0.0,
        waits_ms={},
        unacknowledged=0,
        frames_out=1_234_567,
        frames_in=1_234_567,
        bytes_out=1,
        bytes_in=1,
        queued_bytes=12_345_678,
        reconnects=0,
        last_error="" if up else "no sign of life for 125 ms",
    )


def gateway(site: str) -> GatewayStatus:
    route = RouteStatus(
        topic="alert.>",
        destination=SITES[0],
        path=tuple(SITES),
        active=True,
        predicted_ms=31.5,
        deadline_ms=150.0,
    )
    return GatewayStatus(
        domain=site,
        epoch=1,
        uptime_s=12.0,
        head_connected=True,
        links=tuple(link(peer, up=peer != SITES[3]) for peer in SITES if peer != site),
        interest={site: 3},
        subscribed=3,
        sent=1_000_000,
        delivered=1_000_000,
        duplicates=0,
        colour=1,
        failed_links=(),
        parked_bytes=0,
        routes=(route,),
        arrivals=(),
        drops=(),
        asks=(AskStatus(topic="alert.>", role="subscriber", sessions=1_000, paths=3, resiliency=0.9999),),
    )


def federation() -> FederationStatus:
    return FederationStatus(
        federation="campus",
        domains=tuple(
            DomainStatus(
                domain=site,
                brokers=tuple(
                    BrokerStatus(name=f"{site}-{role}", role=role, url="", reachable=True)
                    for role in ("head", "edge1", "edge2", "management")
                ),
                gateway=gateway(site),
            )
            for site in SITES
        ),
    )


def screen(width: int) -> list[str]:
    out = StringIO()
    show_status(federation(), Console(file=out, width=width))
    return out.getvalue().splitlines()


def test_status_shows_what_is_asked_for_beyond_the_contracts() -> None:
    shown = "\n".join(screen(80))
    assert "Asked for beyond the contracts" in shown
    assert "subscribers" in shown
    assert "0.9999" in shown


def test_status_tells_all_brokers_apart_on_80_columns() -> None:
    lines = screen(80)
    assert max(map(len, lines)) <= 80
    start = lines.index("Brokers of campus")
    brokers = [line.split()[0] for line in lines[start : lines.index("", start)] if " up " in line]
    assert len(brokers) == 16
    assert len(set(brokers)) == 16


def test_status_has_one_line_for_a_link_and_its_trouble_beneath() -> None:
    lines = screen(80)
    links = [line for line in lines if "30.8" in line]
    assert len(links) == 12
    assert all("12,345,678 B" in line for line in links)
    assert lines.count("  note: no sign of life for 125 ms") == 3
    assert any(line.startswith("at ") and "frames out" in line for line in lines)


def test_status_shows_everything_on_140_columns() -> None:
    text = "\n".join(screen(140))
    assert "columns also" not in text
    assert all(f"{site}-management" in text for site in SITES)


def test_an_allocation_of_long_names_fits_80_columns(tmp_path: Path) -> None:
    items = [f"plant.line{line:03d}.sensor{sensor}.temperature" for line in range(4) for sensor in range(5)]
    brokers = [f"{site}-edge{edge}" for site in SITES[:2] for edge in (1, 2)]
    problem = {
        "items": items,
        "mean_rate": [100.0] * len(items),
        "covariance": [[25.0 if i == j else 0.0 for j in range(len(items))] for i in range(len(items))],
        "brokers": brokers,
        "capacity": [1000.0] * len(brokers),
    }
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(problem))
    done = mangrove("plan", "allocate", path, "--solver", "round-robin", environment={"COLUMNS": "80"})
    assert not done.returncode, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if re.search(r"\b500\b.*\b1000\b", line)]
    assert len({line.split()[0] for line in rows}) == len(brokers)
    shown = " ".join(line.strip() for line in lines)
    assert all(item in shown for item in items)


def test_the_account_in_the_readme_is_what_the_demo_prints() -> None:
    figures = {"lost": 0, "duplicated": 0}
    reports = [
        StreamReport(
            topic="alert.tsunami",
            publisher="seattle",
            subscribers=("a", "b", "c"),
            deadline_ms=100.0,
            sent=400,
            delivered=1200,
            in_time=1200,
            p50_ms=32.0,
            p99_ms=42.0,
            **figures,
        ),
        StreamReport(
            topic="market.quotes",
            publisher="washington",
            subscribers=("a", "b", "c", "d"),
            deadline_ms=150.0,
            sent=4000,
            delivered=16000,
            in_time=16000,
            p50_ms=27.0,
            p99_ms=38.0,
            **figures,
        ),
    ]
    printed = ["".join(part.text for part in line) for line in what_arrived(reports).lines(80)]
    assert "\n".join(printed[1:]) in (ROOT / "README.md").read_text()
