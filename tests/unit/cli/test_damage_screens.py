"""What `mangrove demo damage` and its benchmark say at their end, and what they count as a failure."""

from __future__ import annotations

from io import StringIO

import msgspec
import pytest
from benchmarks import damage as benchmark
from rich.console import Console

from mangrove.cli.demonstration.damage import WITH, WITHOUT, failures, render
from mangrove.model.agents.usefulness import LimitStatus
from mangrove.model.congestion.parameters import Mode
from mangrove.model.congestion.rate_limit import LimitCause, RateLimit
from mangrove.testbed.damage.account import ClassAccount, DamageAccount
from mangrove.testbed.damage.scenario import DamageReport, Told


def account(useful: int, **alerts: int) -> DamageAccount:
    alert = {"offered": 500, "delivered": 500, "in_time": 500, "useful": 500, **alerts}
    return DamageAccount(
        seconds=20.0,
        classes={
            "alert": ClassAccount(**alert, worst_ms=90.0),
            "good": ClassAccount(offered=20_000, delivered=useful, useful=useful, useful_in_time=useful // 2),
            "medium": ClassAccount(offered=10_000, delivered=3_000),
            "useless": ClassAccount(offered=30_000, withheld=29_000, delivered=9_000, lost=7),
        },
    )


UNCONTROLLED = DamageReport(
    seed=1,
    mode=Mode.OFF,
    damage=0.3,
    damaged=("harbour-edge1", "harbour-edge2"),
    before=account(20_000),
    during=account(6_000),
    after=account(20_000),
    peak_utilisation=2.7,
    below_after_s=None,
    overloaded_again_s=0.0,
    limited_after_s=None,
    most_limits=0,
    lifted_after_s=0.0,
    congested=True,
    moves=(),
    cut_off=3,
)
CONTROLLED = msgspec.structs.replace(
    UNCONTROLLED,
    mode=Mode.CONGESTED,
    during=account(17_000),
    below_after_s=3.4,
    limited_after_s=1.9,
    most_limits=24,
    lifted_after_s=9.5,
    moves=("report.01 → harbour-edge2",),
    cut_off=0,
    limits=(
        LimitStatus(
            topic="report.03",
            publisher="mangrove-sdk useless-15",
            utility=0.0,
            offered_msg_s=20.5,
            limit=RateLimit(msg_s=1.0, cause=LimitCause.CONGESTION, reason="others are more useful"),
            brokers=("harbour-edge1",),
        ),
    ),
    story=(
        *(Told(float(number), f"Kind{number}", f"event number {number} of a story") for number in range(20)),
        Told(20.0, "Kind3", "event number 3 once more"),
    ),
)
REPORTS = {WITHOUT: UNCONTROLLED, WITH: CONTROLLED}


def test_the_end_fits_a_narrow_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    render(REPORTS)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(shown.split())
    for part in ("without control", "with control", "29,000", "100.0%", "2.7 times as many", "3.4 s"):
        assert part in words
    for part in ("9.5 s", "3 without control, 0 with it", "useless-15", "others are more useful"):
        assert part in words
    assert "event number 3 of a story (1 more of this kind)" in words
    assert "event number 11 of a story" in words
    assert "event number 12 of a story" not in words


def changed(**fields: object) -> dict[str, DamageReport]:
    return {WITHOUT: UNCONTROLLED, WITH: msgspec.structs.replace(CONTROLLED, **fields)}


def test_nothing_wrong_is_no_failure() -> None:
    assert failures(REPORTS) == []
    assert benchmark.missed({"cases": {benchmark.NO_ROOM: msgspec.to_builtins(REPORTS)}}) == []


FLAWS = [
    ({"during": account(17_000, in_time=499)}, "1 of 500 protected", "1 alerts of 500 not in time"),
    ({"during": account(7_000)}, "times as many useful", "times as many useful messages"),
    ({"below_after_s": None}, "did not come below", "below the threshold after never"),
    ({"lifted_after_s": None}, "limits were left", "limits gone after never"),
]


@pytest.mark.parametrize(("fields", "word", "missed"), FLAWS)
def test_what_went_wrong_is_named(fields: dict[str, object], word: str, missed: str) -> None:
    (problem,) = failures(changed(**fields))
    assert word in problem
    (line,) = benchmark.missed({"cases": {benchmark.NO_ROOM: msgspec.to_builtins(changed(**fields))}})
    assert missed in line


def test_the_benchmark_has_bars_of_its_own() -> None:
    slow = changed(below_after_s=5.1, overloaded_again_s=2.1, lifted_after_s=15.1, most_limits=0, moves=())
    lines = benchmark.missed({"cases": {benchmark.SOME_ROOM: msgspec.to_builtins(slow)}})
    assert len(lines) == 5
    out = StringIO()
    benchmark.render({"cases": {benchmark.SOME_ROOM: msgspec.to_builtins(slow)}}, Console(file=out, width=80))
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert "× 2.69" in out.getvalue()
