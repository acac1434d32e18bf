"""How soon brokers are below the threshold, and limits gone, from what the agent says."""

from __future__ import annotations

import pytest

from mangrove.model.agents.load import BrokerLoad, LoadState, Metric
from mangrove.model.agents.status import AgentStatus
from mangrove.model.agents.usefulness import CongestionStatus
from mangrove.testbed.damage.watch import Watch


def status(overloaded: bool = False, limited: int = 0, state: str = "clear") -> AgentStatus:
    measured = LoadState.OVERLOAD if overloaded else LoadState.LOW
    edge = BrokerLoad(
        broker="edge",
        role="edge",
        state=measured,
        measured=measured,
        utilisation={Metric.OUTPUT: 2.5 if overloaded else 0.8},
    )
    return AgentStatus(
        domain="d",
        agent="a",
        term=1,
        leads=True,
        uptime_s=1.0,
        brokers=(edge,),
        congestion=CongestionStatus(state=state, limited=limited),
    )


def test_relief_counts_once_it_lasts_and_a_later_breach_apart() -> None:
    watch = Watch()
    watch.take(status(), 9.0)
    watch.cut_at = 10.0
    for at, overloaded in ((10.5, False), (11.0, True), (12.0, True), (13.0, False), (14.0, True)):
        watch.take(status(overloaded, limited=2, state="congested"), at)
    assert watch.below_at is None, "one second below it is no relief"
    for at, overloaded in (
        (15.0, False),
        (17.0, False),
        (18.0, False),
        (18.5, True),
        (19.0, True),
        (19.5, False),
    ):
        watch.take(status(overloaded, limited=3, state="congested"), at)
    assert watch.below_at == 15.0
    assert watch.overloaded_again_s == pytest.approx(1.0)
    assert watch.peak == 2.5
    assert watch.limited_at == 11.0 - 0.5
    assert watch.most_limits == 3
    assert watch.states == ["clear", "congested"]


def test_limits_are_gone_when_none_comes_back() -> None:
    watch = Watch()
    watch.cut_at = 0.0
    watch.take(status(True, limited=5), 1.0)
    watch.restored_at = 10.0
    for at, limited in ((11.0, 5), (12.0, 0), (13.0, 1), (14.0, 0), (15.0, 0)):
        watch.take(status(limited=limited), at)
    assert watch.lifted_at == 14.0


def test_without_overload_nothing_was_relieved() -> None:
    watch = Watch()
    watch.cut_at = 0.0
    for at in range(1, 9):
        watch.take(status(), float(at))
    assert (watch.below_at, watch.limited_at, watch.most_limits) == (None, None, 0)
