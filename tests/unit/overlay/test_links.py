"""Is a link alive, and what does the network know of it: the monitor, and the link-state database."""

from __future__ import annotations

import math

import msgspec
import pytest
from tests.kit.engines import ad, federation, report, with_links

from mangrove.overlay.links.availability import Availability
from mangrove.overlay.links.liveness import LinkCondition, LinkMonitor, Timing
from mangrove.overlay.links.waits import Waits
from mangrove.overlay.network.link_state import LinkStateDatabase
from mangrove.overlay.protocol.control_messages import (
    Heartbeat,
    HeartbeatKind,
    LinkStateAck,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import Frame, FrameError, FrameType

# -- liveness ---------------------------------------------------------------------------------------------


def ack(sent: float, echo: float | None = None, held: float = 0.0) -> Heartbeat:
    return Heartbeat(kind=HeartbeatKind.TEST_ACK, number=1, sent=sent, received=0, echo=echo, held=held)


def regular(sent: float) -> Heartbeat:
    return Heartbeat(kind=HeartbeatKind.REGULAR, number=1, sent=sent, received=0)


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
    engine.timer()


# -- link state -------------------------------------------------------------------------------------------


def database() -> LinkStateDatabase:
    return LinkStateDatabase("a", 1, [("a", "b"), ("b", "c"), ("a", "c")])


def test_failures_are_told_at_once_and_delays_only_when_they_matter() -> None:
    own = database()
    assert own.advertise({"b": report(), "c": report()}, 0.0) is not None
    assert own.advertise({"b": report(delay_ms=10.5), "c": report()}, 1.0) is None
    assert own.advertise({"b": report(delay_ms=30), "c": report()}, 1.1) is not None
    assert own.advertise({"b": report(delay_ms=60), "c": report()}, 1.2) is None, "not too often"
    assert own.advertise({"b": report(up=False), "c": report()}, 1.21) is not None
    assert own.advertise({"b": report(up=False), "c": report()}, 10.0) is not None, "now and then anyway"
    assert own.failed_links() == {("a", "b")}


def test_a_link_is_down_if_one_end_says_so() -> None:
    own = database()
    own.advertise({"b": report(), "c": report()}, 0.0)
    assert own.receive(ad("b", 1, a=report(), c=report()))
    assert own.failed_links() == frozenset()
    assert own.receive(ad("b", 2, a=report(up=False), c=report(delay_ms=25)))
    assert own.failed_links() == {("a", "b")}
    assert own.measured().delays_ms["b", "c"] == 25


def test_stale_forged_and_foreign_advertisements_are_ignored() -> None:
    own = database()
    assert own.receive(ad("b", 5, a=report()))
    assert not own.receive(ad("b", 5, a=report(up=False))), "replayed"
    assert not own.receive(ad("b", 4, a=report(up=False))), "stale"
    assert not own.receive(ad("a", 9, b=report(up=False))), "nobody else speaks for this gateway"
    assert not own.receive(ad("z", 1, b=report())), "unknown gateway"
    assert not own.receive(ad("b", 6, z=report())), "unknown link"
    assert own.ignored == 3
    assert own.receive(ad("b", 1, epoch=2, a=report())), "a restarted gateway is not taken for a replay"


def test_flooding_is_repeated_until_acknowledged() -> None:
    own = database()
    mine = own.advertise({"b": report(), "c": report()}, 0.0)
    assert mine is not None
    assert own.peer_up("b", 0.0) == [mine]
    assert own.waiting("b")
    assert own.repeats(0.1) == []
    assert own.repeats(0.2) == [("b", mine)]
    own.acknowledge("b", LinkStateAck(origin="a", epoch=1, number=mine.number))
    assert not own.waiting("b")
    assert own.repeats(9.0) == []


def test_what_waits_and_what_fails_is_advertised() -> None:
    own = database()
    own.advertise({"b": report(), "c": report()}, 0.0)
    crowded = report(waits_ms={0: 40.0}, availability=0.9)
    assert own.advertise({"b": crowded, "c": report()}, 1.0) is not None, "a wait is a marked change"
    assert own.advertise({"b": crowded, "c": report()}, 2.0) is None
    measured = own.measured()
    assert measured.waits_ms == {("a", "b"): {0: 40.0}}
    assert measured.availability == {("a", "b"): 0.9}


@pytest.mark.parametrize(
    "wrong", [{"delay_ms": -1.0}, {"delay_ms": math.nan}, {"waits_ms": {0: math.inf}}, {"availability": 2.0}]
)
def test_impossible_figures_are_refused(wrong: dict[str, object]) -> None:
    told = {"up": True, "delay_ms": 1.0, **wrong}
    body = {"type": "ad", "origin": "b", "epoch": 1, "number": 1, "links": {"a": told}}
    with pytest.raises(FrameError, match="malformed"):
        control_body(Frame(FrameType.LINK_STATE, msgspec.msgpack.encode(body)))


def test_availability_forgets_slowly() -> None:
    link = Availability()
    link.change(up=False, now=0.0)
    assert link.share(100.0) == 1.0, "a link that was never up has no history"
    link.change(up=True, now=100.0)
    link.change(up=False, now=200.0)
    link.change(up=True, now=236.0)
    assert link.share(236.0) == pytest.approx(0.99, abs=1e-3), "a hundredth of an hour"
    assert link.share(236.0 + 5 * 3600) == pytest.approx(1.0, abs=1e-3)


def test_waits_follow_time_not_the_number_of_frames() -> None:
    few, many = Waits(), Waits()
    for _ in range(40):
        few.note(0, 0.2)
        for _ in range(50):
            many.note(0, 0.2)
        few.settle()
        many.settle()
    assert few.told_ms() == many.told_ms()
    assert few.told_ms()[0] == pytest.approx(200, rel=0.01)
    for _ in range(60):
        few.settle()
    assert few.told_ms() == {}, "nothing waits any more"


def test_the_only_way_is_not_given_up_in_haste() -> None:
    engine = with_links(federation(("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")), "c")
    waiting = {neighbour.name: neighbour.monitor.dead_interval_s for neighbour in engine.neighbours}
    assert waiting["a"] == waiting["b"] < 0.3
    assert waiting["d"] == 1.0, "nothing else leads to d"
    engine.receive("b", control_frame(ad("b", 1, a=report(up=False), c=report())), 1.0)
    assert engine.neighbours["a"].monitor.dead_interval_s < 0.3, "it may be a itself that has failed"
