"""The bars of the benchmark of heads and gateways between two domains."""

from __future__ import annotations

from io import StringIO
from typing import Any

import msgspec
import pytest
from benchmarks import gateways
from rich.console import Console
from tests.kit.good_figures import GOOD

from mangrove.testbed.mirrors.pair import PairFault, PairRepetition
from mangrove.testbed.mirrors.site import BOTH, PLAIN, STANDBY


def result(fault: PairFault, stream: str, paused_ms: float = 5.0, **flaw: Any) -> dict[str, object]:
    """Good repetitions but for what is given."""
    good = dict.fromkeys((BOTH, STANDBY, PLAIN), GOOD)
    flawed = good | {stream: msgspec.structs.replace(GOOD, **flaw)}
    done = [PairRepetition(fault=each, figures=good, paused_ms=5.0) for each in PairFault]
    done.append(PairRepetition(fault=fault, figures=flawed, paused_ms=paused_ms))
    return {"repetitions": msgspec.to_builtins(done)}


@pytest.mark.parametrize(
    ("fault", "stream", "flaw", "told"),
    [
        (PairFault.HEAD_KILLED, BOTH, {"lost": 1}, ["head killed, mirror: true: 1 lost, 0 duplicated"]),
        (PairFault.HEAD_KILLED, PLAIN, {"lost": 9}, []),
        (PairFault.HEAD_KILLED, PLAIN, {"duplicated": 1}, ["head killed, no mirror: 0 lost, 1 duplicated"]),
        (PairFault.HEAD_KILLED, PLAIN, {"longest_gap_ms": 1999.0}, []),
        (
            PairFault.GATEWAY_KILLED,
            PLAIN,
            {"longest_gap_ms": 300.0},
            ["gateway killed, no mirror: a gap of 300 ms, the bar is 300 ms"],
        ),
    ],
)
def test_bars(fault: PairFault, stream: str, flaw: dict[str, Any], told: list[str]) -> None:
    assert gateways.missed(result(fault, stream, **flaw)) == told
    assert gateways.missed(result(fault, stream, paused_ms=160.0, **flaw)) == [], "it does not count"


def test_the_screen_fits_80_columns() -> None:
    out = StringIO()
    gateways.render(result(PairFault.GATEWAY_FROZEN, PLAIN, lost=12345), Console(file=out, width=80))
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert "12,345" in out.getvalue()
