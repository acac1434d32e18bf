"""The failover experiment: the baseline does what OSPF does, and the comparison comes out as it should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mangrove.cli.measurement.evaluate import app
from mangrove.evaluation.baselines.ospf import Advertisement, OspfNode, OspfTimers, SimulatedRouters
from mangrove.evaluation.drawings.figures import draw_failover
from mangrove.evaluation.failover import FAST, SCHEMES, make_case, run_failover
from mangrove.evaluation.false_alarms import JITTERS, run_false_alarms

RING = {("a", "b"): 5.0, ("b", "c"): 5.0, ("c", "d"): 6.0, ("a", "d"): 6.0}
TIMERS = OspfTimers()


def routers() -> SimulatedRouters:
    net = SimulatedRouters(RING, seed=1, timers=TIMERS)
    net.run(20.0)
    return net


def test_routers_find_shortest_paths() -> None:
    net = routers()
    assert net.nodes["a"].next_hops == {"b": "b", "c": "b", "d": "d"}
    assert all(not net.failed(name) for name in net.nodes)
    net.publish("a", "c", b"x")
    net.run(net.now + 1.0)
    assert net.delivered == {("c", b"x"): 1}


def test_routers_go_round_a_dead_link_after_the_dead_interval_and_not_before() -> None:
    net = routers()
    net.black_hole("b", "c", swallow=True)
    net.run(net.now + TIMERS.dead_s - TIMERS.hello_s - 0.01)
    assert net.nodes["a"].next_hops["c"] == "b"
    net.publish("a", "c", b"lost")
    net.run(net.now + TIMERS.hello_s + 0.1)
    assert net.nodes["a"].next_hops["c"] == "d"
    assert net.failed("d") == {("b", "c")}
    net.publish("a", "c", b"x")
    net.run(net.now + 1.0)
    assert net.delivered == {("c", b"x"): 1}
    assert net.dropped["swallowed"] == 1


def test_routers_use_a_link_again_when_it_is_back() -> None:
    net = routers()
    net.black_hole("b", "c", swallow=True)
    net.run(net.now + 10.0)
    net.black_hole("b", "c", swallow=False)
    net.run(net.now + 10.0)
    assert net.nodes["a"].next_hops["c"] == "b"


def test_repeated_changes_hold_the_computation_back() -> None:
    node = OspfNode("a", {"b": 1.0}, OspfTimers(hello_s=1000.0, dead_s=4000.0), first_hello_s=1000.0)
    waits = []
    for number, now in enumerate((10.0, 10.01, 10.06, 10.5)):
        node.receive("b", Advertisement("b", number, ()), now)
        waits.append(round(node.timer() - now, 3))
        node.handle_timer(node.timer())
    assert waits == [0.0, 0.04, 0.09, 0.0]


@pytest.mark.parametrize("failure", ["link", "node"])
def test_a_case_cuts_the_way_of_its_pairs_and_leaves_them_connected(failure: str) -> None:
    case = make_case(6, 9, failure, seed=3)
    assert len(case.failure) == (2 if failure == "link" else 1)
    for source, receiver in case.pairs:
        way = case.tables[source].path(receiver)
        assert set(case.failure) <= set(way)
        assert failure == "link" or case.failure[0] not in (source, receiver)


def test_failover_loses_nothing_and_is_faster_than_fast_timers(tmp_path: Path) -> None:
    summaries = run_failover(range(1, 4), sizes=((6, 9),))
    for summary in summaries:
        assert summary.missed() == []
        assert summary.lost["ospf_equal"].mean > 0, "the baseline does not keep what it sends"
        assert summary.reconverged_ms["ospf_fast"].mean > 1000 * (FAST.dead_s - FAST.hello_s)
        assert summary.reconverged_ms["mangrove_two_paths"].mean < summary.reconverged_ms["mangrove"].mean
        assert set(summary.lost) == set(SCHEMES)
    file = tmp_path / "failover.png"
    draw_failover(summaries, file)
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_quiet_link_raises_no_alarm_and_a_jittery_one_few() -> None:
    rows = {row.jitter: row for row in run_false_alarms([1], hours=0.1)}
    assert rows.keys() == JITTERS.keys()
    assert rows["none"].per_hour.mean == 0
    assert rows["none"].detection_ms.mean < 125
    jittery = rows["uniform, 0 to 100 ms"]
    assert jittery.per_hour.mean < jittery.fixed_per_hour.mean / 10


def test_commands_print_json_and_people_tables() -> None:
    run = CliRunner().invoke
    document = json.loads(run(app, ["schedules", "--seeds", "2", "--json"]).stdout)
    assert (document["schedules"], document["broken"]) == (2, [])
    shown = run(app, ["schedules", "--seeds", "2", "--seed", "5", "--workers", "1"]).stdout
    assert "2 schedules from seed 5" in shown
    assert "schedules a minute were played" in shown
    assert "uniform" in run(app, ["false-alarms", "--seeds", "1", "--hours", "0.01"]).stdout
