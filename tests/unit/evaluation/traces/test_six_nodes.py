"""PCRT's six nodes: the latency trace, what is lost, and when the healed link is used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mangrove.errors import InputError
from mangrove.evaluation.confidence import Estimate
from mangrove.evaluation.traces.six_nodes import (
    ENDS_S,
    FAILS_S,
    HEALS_S,
    HOP_S,
    LINKS,
    NODES,
    SCHEMES,
    SixNodeResult,
    SixNodeSummary,
    run_once,
    run_six_nodes,
    six_node_federation,
)
from mangrove.routing.failover.tables import build_tables
from mangrove.routing.network.topology import graph_of_federation


def test_the_failing_link_is_on_the_only_shortest_way() -> None:
    tables = build_tables(graph_of_federation(six_node_federation()))
    assert tables.path("n1", "n3") == ("n1", "n2", "n3")
    colour = tables.book.resolve(links=[("n2", "n3")]).colour
    assert len(tables.path("n1", "n3", colour)) == 5
    assert len(NODES) == 6
    assert {name for link in LINKS for name in link} == set(NODES)


@pytest.mark.parametrize("scheme", ["mangrove", "mangrove_slow"])
def test_the_overlay_loses_nothing_and_comes_back(scheme: str) -> None:
    run = run_once(scheme, 1)
    assert run.lost == 0
    assert len(run.trace) == ENDS_S
    normal = [took for sent, took in run.trace if sent + 1 < FAILS_S or sent > HEALS_S + 6]
    assert all(took == pytest.approx(2 * HOP_S, abs=1e-6) for took in normal)
    around = [took for sent, took in run.trace if FAILS_S + 5 < sent < HEALS_S - 1]
    assert all(took == pytest.approx(4 * HOP_S, abs=1e-6) for took in around)
    assert 0 < run.healed < (1.5 if scheme == "mangrove" else 5)
    assert run.reconverged < (0.6 if scheme == "mangrove" else 4.5)


def test_routers_lose_what_is_sent_before_they_know() -> None:
    run = run_once("ospf", 1)
    assert 3 <= run.lost <= 5
    assert next(sent for sent, took in run.trace if took is None) >= FAILS_S
    assert run.lost - 1 <= run.reconverged <= run.lost + 1
    later = run_once("ospf_printed", 1)
    assert later.reconverged == pytest.approx(run.reconverged + 5.0, abs=0.1)
    assert later.healed > run.healed


def test_runs_repeat() -> None:
    assert run_once("ospf", 3) == run_once("ospf", 3)
    assert run_once("ospf", 3) != run_once("ospf", 4)


def test_bad_input() -> None:
    with pytest.raises(InputError):
        run_six_nodes([])


def test_findings_that_do_not_hold_are_told() -> None:
    def summary(scheme: str, time: float) -> SixNodeSummary:
        return SixNodeSummary(scheme, Estimate(time, None), Estimate(0.0, None), Estimate(time, None), ())

    result = SixNodeResult((1,), tuple(summary(scheme, 1.0) for scheme in SCHEMES))
    assert result.missed() == result.notes() == []
    slow = replace(result, schemes=(summary("mangrove", 9.0), *result.schemes[1:]))
    assert len(slow.missed()) == 2
    assert "healed link" in slow.missed()[1]
