"""Is a link alive: tests, silence, jitter, false alarms, clocks."""

from __future__ import annotations

import pytest
from tests.kit.engines import ad, federation, let_time_pass, report, with_links

from mangrove.overlay.instructions import CloseLink
from mangrove.overlay.links.liveness import LinkCondition, LinkMonitor, Timing
from mangrove.overlay.protocol.control_messages import (
    Heartbeat,
    HeartbeatKind,
    control_frame,
)


def ack(sent: float, echo: float | None = None, held: float = 0.0) -> Heartbeat:
    return Heartbeat(kind=HeartbeatKind.TEST_ACK, sequence=1, sent=sent, received=0, echo=echo, held=held)


def regular(sent: float) -> Heartbeat:
    return Heartbeat(kind=HeartbeatKind.REGULAR, sequence=1, sent=sent, received=0)


def test_a_link_is_used_only_after_its_test() -> None:
    monitor = LinkMonitor(Timing())
    seen = [monitor.condition]
    monitor.connect(0.0)
    seen.append(monitor.condition)
    first = monitor.due(0.0, 0)
    assert first is not None
    assert first.kind is HeartbeatKind.TEST
    assert monitor.heartbeat(ack(0.01), 0.02)
    seen.append(monitor.condition)
    assert [condition.value for condition in seen] == ["failure", "testing", "normal"]


def test_silence_is_failure_and_recovery_takes_longer_each_time() -> None:
    monitor = LinkMonitor(Timing())
    now = 0.0
    holds = []
    for _ in range(4):
        monitor.connect(now)
        start = now
        while not monitor.heartbeat(ack(now), now):
            now += 0.05
        holds.append(now - start)
        for _ in range(40):
            now += 0.05
            monitor.heard(now)
            monitor.heartbeat(regular(now), now)
        assert monitor.dead_interval_s < 0.13, "a steady link is found dead soon"
        assert not monitor.dead(now + 0.12)
        now += 0.2
        assert monitor.dead(now)
        monitor.disconnect(now)
    assert holds[0] == 0.0
    assert holds[1] < holds[2] < holds[3], "a link that flaps is trusted less and less"


def test_the_dead_interval_follows_jitter() -> None:
    calm, jittery = LinkMonitor(Timing()), LinkMonitor(Timing())
    for monitor, swing in ((calm, 0.0), (jittery, 0.04)):
        monitor.connect(0.0)
        monitor.heartbeat(ack(0.0), 0.0)
        for number in range(200):
            now = 0.05 * number + (swing if number % 2 else 0.0)
            monitor.heard(now)
            monitor.heartbeat(regular(now), now)
    assert calm.dead_interval_s == pytest.approx(0.125)
    assert jittery.dead_interval_s > 0.2


def listen(monitor: LinkMonitor, now: float, seconds: float) -> float:
    """A new connection over which every heartbeat comes in time; returns when it ends."""
    monitor.connect(now)
    for _ in range(int(seconds / 0.05)):
        now += 0.05
        monitor.heard(now)
        testing = monitor.condition is LinkCondition.TESTING
        monitor.heartbeat(ack(now) if testing else regular(now), now)
    return now


def test_false_alarms_teach_patience_and_real_failures_do_not() -> None:
    monitor = LinkMonitor(Timing())
    intervals = []
    now = 0.0
    for silence in (0.3, 0.3, 30.0, 0.3, 0.3, 0.3):
        now = listen(monitor, now, 5.0)
        intervals.append(monitor.dead_interval_s)
        monitor.found_dead(now + monitor.dead_interval_s)
        monitor.disconnect(now + monitor.dead_interval_s)
        now += silence
    expected = [0.125, 0.175, 0.225, 0.225, 0.325, 0.525]
    assert intervals == pytest.approx(expected, abs=0.02), "doubled each time, but not by a real failure"
    listen(monitor, now, 3600.0)
    assert monitor.dead_interval_s < 0.135, "forgotten after an hour"


def test_round_trip_and_clock_offset() -> None:
    """The neighbour's clock is 100 s ahead, the link takes 20 ms each way, it answers after 5 ms."""
    monitor = LinkMonitor(Timing())
    monitor.connect(0.0)
    for number in range(50):
        sent = 0.05 * number
        monitor.heartbeat(ack(100 + sent + 0.025, echo=sent, held=0.005), sent + 0.045)
    assert monitor.rtt_s is not None
    assert monitor.rtt_s == pytest.approx(0.040)
    assert monitor.one_way_s == pytest.approx(0.020)
    assert monitor.offset_s == pytest.approx(100.0, abs=monitor.rtt_s / 2)


def test_own_stalls_are_not_held_against_the_link() -> None:
    shape = federation(("a", "b"))
    engine = with_links(shape, "a")
    engine.heard("b", 1.0)
    engine.handle_timer(1.0)
    due = engine.timer()
    assert not any(type(i).__name__ == "CloseLink" for i in engine.handle_timer(due + 3.0)), "we slept, not b"
    assert engine.timer() == engine.timer(), "asking changes nothing"


def test_a_stall_is_forgiven_once() -> None:
    """A neighbour appears right after a stall: timers are served twice, the silence of the others counts."""
    engine = with_links(federation(("a", "b"), ("a", "c"), ("b", "c")), "a")
    let_time_pass(engine, 0.0, 1.0, heard="bc")
    engine.peer_up("c", 1.5)  # the process slept for half a second before this
    engine.handle_timer(1.5)
    instructions = let_time_pass(engine, 1.5, 1.9, heard="c")
    assert [i for i in instructions if isinstance(i, CloseLink)], "b was silent for 0.4 s with us awake"


def test_the_only_way_is_not_given_up_in_haste() -> None:
    engine = with_links(federation(("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")), "c")
    waiting = {name: link.dead_interval_ms / 1000 for name, link in engine.status(1.0).links.items()}
    assert waiting["a"] == waiting["b"] < 0.3
    assert waiting["d"] == 1.0, "nothing else leads to d"
    engine.receive("b", control_frame(ad("b", 1, a=report(up=False), c=report())), 1.0)
    assert engine.status(1.0).links["a"].dead_interval_ms < 300, "it may be a itself that has failed"


def test_a_silent_link_is_given_up_and_announced() -> None:
    shape = federation(("a", "b"), ("a", "c"), ("b", "c"))
    source = with_links(shape, "a")
    instructions = let_time_pass(source, 0.0, 1.0, heard="b")
    kinds = {type(i).__name__ for i in instructions}
    assert "CloseLink" in kinds, "nothing was heard of c for a second"
    assert source.failed_links == {("a", "c")}
    assert source.usable("b")
    assert [event.kind for event in source.take_events()][-2:] == ["LinkFailed", "ColourChanged"]
