"""The bars of the benchmark of mirrors, and what counts as a repetition."""

from __future__ import annotations

from io import StringIO
from typing import Any

import msgspec
import pytest
from benchmarks import mirror
from rich.console import Console
from tests.kit.good_figures import GOOD

from mangrove.testbed.mirrors.account import Fault, Repetition
from mangrove.testbed.mirrors.series import NATIVE, FaultSeries
from mangrove.testbed.mirrors.site import BOTH, PLAIN, STANDBY


def result(stream: str = BOTH, paused_ms: float = 5.0, wanted: int = 2, **flaw: Any) -> dict[str, object]:
    """Two good repetitions of a fault but for what is given."""
    figures = dict.fromkeys((BOTH, STANDBY, PLAIN, NATIVE), GOOD)
    flawed = figures | {stream: msgspec.structs.replace(GOOD, **flaw)}
    repetitions = tuple(
        Repetition(fault=Fault.KILL, victim="head", figures=each, paused_ms=paused, waited_ms=paused)
        for each, paused in ((figures, 5.0), (flawed, paused_ms))
    )
    series = [FaultSeries(fault=Fault.KILL, repetitions=repetitions, not_begun=0)]
    return {"wanted": wanted, "series": msgspec.to_builtins(series)}


def test_a_good_run_misses_nothing() -> None:
    assert mirror.missed(result()) == []


@pytest.mark.parametrize(
    ("stream", "flaw", "told"),
    [
        (BOTH, {"lost": 1}, "SIGKILL, mirror: true: 1 lost, 0 duplicated"),
        (STANDBY, {"duplicated": 2}, "SIGKILL, mirror: standby: 0 lost, 2 duplicated"),
        (BOTH, {"longest_gap_ms": 50.0}, "SIGKILL, mirror: true: a gap of 50 ms, the bar is 50 ms"),
        (STANDBY, {"longest_gap_ms": 500.0}, "SIGKILL, mirror: standby: a gap of 500 ms, the bar is 500 ms"),
    ],
)
def test_each_bar_is_told_when_it_is_missed(stream: str, flaw: dict[str, Any], told: str) -> None:
    assert mirror.missed(result(stream, **flaw)) == [told]


@pytest.mark.parametrize("stream", [PLAIN, NATIVE])
def test_streams_without_a_mirror_are_reported_only(stream: str) -> None:
    assert mirror.missed(result(stream, lost=500, longest_gap_ms=3000.0)) == []


def test_a_repetition_in_which_the_publisher_paused_does_not_count() -> None:
    missed = mirror.missed(result(lost=9, paused_ms=20.5))
    assert missed == ["SIGKILL: only 1 of 2 repetitions count"]


@pytest.mark.parametrize("paused_ms", [5.0, 300.0])
def test_the_screen_fits_80_columns_and_names_every_stream(paused_ms: float) -> None:
    out = StringIO()
    mirror.render(result(lost=7000, paused_ms=paused_ms), Console(file=out, width=80))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert all(title in text for title in mirror.TITLES.values())
    assert "native median gap over that of mirror: true: 1.0" in text
