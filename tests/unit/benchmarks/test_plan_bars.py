"""The bars of the benchmark of plans are judged as they are written."""

from __future__ import annotations

import io

import msgspec
from benchmarks import plans
from rich.console import Console

from mangrove.testbed.plans.scenario import EdgeFigures, LoopReport
from mangrove.testbed.plans.workload import Account

EXACT = Account(published=1000, lost=0, duplicated=0, reordered=0)


def edges(predicted: float, measured: float) -> tuple[EdgeFigures, ...]:
    return tuple(
        EdgeFigures(
            broker=f"here-edge{number}",
            mean_msg_s=120.0,
            deviation_msg_s=30.0,
            predicted=predicted,
            measured=measured,
            seconds=100,
        )
        for number in (1, 2, 3)
    )


def result(
    before: tuple[float, float], after: tuple[float, float], account: Account = EXACT
) -> dict[str, object]:
    report = LoopReport(
        capacity_msg_s=168.0,
        before=edges(*before),
        after=edges(*after),
        moved_topics=6,
        moved_subscriptions=6,
        apply_s=2.0,
        account=account,
    )
    return {"report": msgspec.to_builtins(report)}


def test_a_loop_that_does_what_it_promised_misses_nothing() -> None:
    good = result((0.16, 0.15), (0.05, 0.04))
    assert plans.missed(good) == []
    text = io.StringIO()
    plans.render(good, Console(file=text, width=80, highlight=False))
    assert "after / before: predicted 0.31, measured 0.27" in text.getvalue()


def test_what_is_lost_not_rarer_or_not_as_promised_is_said() -> None:
    lossy = Account(published=1000, lost=1, duplicated=0, reordered=0)
    assert plans.missed(result((0.16, 0.15), (0.05, 0.04), lossy)) == ["1 lost, 0 twice, 0 out of order"]
    (worse,) = plans.missed(result((0.16, 0.15), (0.15, 0.16)))
    assert "16.0% of the time after, 15.0% before" in worse
    (other,) = plans.missed(result((0.5, 0.45), (0.01, 0.3)))
    assert other == "after: 30.0% measured, 1.0% predicted"
