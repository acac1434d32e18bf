"""The bars of the benchmark of a slow subscriber."""

from __future__ import annotations

from io import StringIO
from typing import Any

import msgspec
import pytest
from benchmarks import slow
from rich.console import Console

from mangrove.testbed.slow.comparison import FloodOutcome, PolicyOutcome, SlowReport, Turn
from mangrove.testbed.slow.stream import TENTH, UTILITIES, draw_kinds


def result(
    *, p99_ms: tuple[float, ...] = (2.0, 2.2, 2.4, 2.1), sdk_cut_off: int = 0, **flaw: Any
) -> dict[str, object]:
    """A good run but for what is given; turns are without, with, with, without."""
    slowly = (False, True, True, False)
    outcome = PolicyOutcome(
        policy="drop-least-useful",
        came=1000,
        read=100,
        lost=900,
        notices=90,
        exact=True,
        useful_read=0.99,
        usefulness=0.98,
    )
    report = SlowReport(
        turns=[Turn(each, 99, 99, 1.0, p99) for each, p99 in zip(slowly, p99_ms, strict=True)],
        policies=[
            msgspec.structs.replace(outcome, **flaw),
            msgspec.structs.replace(outcome, policy="drop-oldest", useful_read=0.1, usefulness=0.2),
            msgspec.structs.replace(outcome, policy="disconnect", cut_off=True),
        ],
        floods=[FloodOutcome("nats-py", 3000, 800, 0, 1), FloodOutcome("sdk", 3000, 300, 2700, sdk_cut_off)],
    )
    document: dict[str, object] = msgspec.to_builtins(report)
    return document


@pytest.mark.parametrize(
    ("flaw", "words"),
    [
        ({}, None),
        ({"p99_ms": (2.0, 4.0, 4.2, 2.0)}, "2.05 times"),
        ({"p99_ms": (2.0, 4.5, 4.5, 4.0)}, None),  # as noisy without a slow one
        ({"exact": False}, "100 read and 900 lost"),
        ({"useful_read": 0.5}, "50% of the most useful"),
        ({"usefulness": 0.5}, "50% of the possible"),
        ({"cut_off": True}, "cut off"),
        ({"sdk_cut_off": 1}, "flood"),
    ],
)
def test_bars(flaw: dict[str, Any], words: str | None) -> None:
    document = result(**flaw)
    missed = slow.missed(document)
    assert (words is None) == (not missed)
    if words is not None:
        assert words in " ".join(missed)
    out = StringIO()
    slow.render(document, Console(file=out, width=80))
    assert "reads a tenth" in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= 80


def test_one_in_ten_is_useful() -> None:
    kinds = draw_kinds(3, 1000)
    assert draw_kinds(3, 1000) == kinds != draw_kinds(4, 1000)
    assert UTILITIES == (1.0, 0.25, 0.0)
    for start in range(0, 1000, TENTH):
        assert kinds[start : start + TENTH].count(0) == 1
