"""The parts of the live overlay one by one: liveness, link state, queues, order, explicit routes."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.test_overlay import data, federation, learn, with_links

from mangrove.gateway.delivery_journal import DeliveryJournal
from mangrove.model.topics import Contract, Late, Order, TopicRules
from mangrove.overlay.availability import Availability
from mangrove.overlay.control_messages import (
    Heartbeat,
    HeartbeatKind,
    LinkReport,
    LinkStateAck,
    LinkStateAd,
    RouteAck,
    RouteSetup,
    control_body,
    control_frame,
)
from mangrove.overlay.delivery import Delivery
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.frames import Frame, FrameError, FrameType, Name
from mangrove.overlay.instructions import DeliverMessages, DropMessages, Instruction, SendFrame
from mangrove.overlay.laxity_queue import LaxityQueue
from mangrove.overlay.link_state import LinkStateDatabase
from mangrove.overlay.liveness import LinkCondition, LinkMonitor, Timing
from mangrove.overlay.outgoing import Outgoing
from mangrove.overlay.parked_frames import ParkedFrames
from mangrove.overlay.resequencer import Resequencer
from mangrove.overlay.waits import Waits

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


def report(
    up: bool = True,
    delay_ms: float = 10.0,
    waits_ms: dict[int, float] | None = None,
    availability: float = 1.0,
) -> LinkReport:
    return LinkReport(up=up, delay_ms=delay_ms, waits_ms=waits_ms or {}, availability=availability)


def ad(origin: str, number: int, epoch: int = 1, **links: LinkReport) -> LinkStateAd:
    return LinkStateAd(origin=origin, epoch=epoch, number=number, links=dict(links))


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


# -- frames that wait -------------------------------------------------------------------------------------


def frame(body: bytes = b"x", **fields: int) -> Frame:
    return Frame(FrameType.DATA, body, **fields)


def test_acknowledgements_are_cumulative_and_the_rest_is_given_up() -> None:
    outgoing = Outgoing(limit_bytes=100)
    frames = [frame(b"%d" % number) for number in range(6)]
    for each in frames:
        outgoing.push(each, None, 0.0)
    assert [outgoing.pull(0.0) for _ in range(5)] == frames[:5]
    outgoing.acknowledge(2)
    outgoing.acknowledge(1)
    assert outgoing.unacknowledged == 3
    given_up = outgoing.restart(0.5)
    assert [each.body for each in given_up] == [b"2", b"3", b"4", b"5"], "sent ones, then those that waited"
    assert {each.age_us for each in given_up} == {500_000}
    assert outgoing.pull(1.0) is None


def test_no_more_is_sent_than_can_be_kept_until_acknowledged() -> None:
    outgoing = Outgoing(limit_bytes=100)
    for _ in range(3):
        outgoing.push(frame(b"y" * 60), None, 0.0)
        outgoing.pull(0.0)
    assert (outgoing.unacknowledged, len(outgoing.waiting)) == (2, 1)
    outgoing.acknowledge(1)
    assert outgoing.pull(0.0) is not None


def test_acknowledgements_count_what_was_sent_not_what_was_meant_to_be() -> None:
    """An urgent frame overtakes, another one is displaced: neither disturbs what an acknowledgement means."""
    outgoing = Outgoing(limit_bytes=10)
    outgoing.push(frame(b"bulk"), None, 0.0)
    outgoing.push(frame(b"more"), None, 0.0)
    assert [lost.body for lost in outgoing.push(frame(b"alarm"), 1.0, 0.0)] == [b"more"]
    assert outgoing.pull(0.0) == frame(b"alarm")
    outgoing.acknowledge(1)
    assert [left.body for left in outgoing.restart(0.0)] == [b"bulk"]


def test_parked_frames_expire_or_come_back_older() -> None:
    parked = ParkedFrames(limit_bytes=100)
    assert parked.park(frame(b"a"), now=0.0, until=1.0) == []
    assert parked.park(frame(b"b"), now=0.0, until=5.0) == []
    assert parked.timer() == 1.0
    assert [late.body for late in parked.expired(2.0)] == [b"a"]
    (back,) = parked.release(3.0)
    assert (back.body, back.age_us) == (b"b", 3_000_000)
    assert [lost.body for lost in parked.park(frame(b"c" * 200), 0.0, 1.0)] == [b"c" * 200]


def test_the_most_urgent_leaves_first_and_the_least_urgent_is_displaced() -> None:
    queue = LaxityQueue(limit_bytes=6)
    assert queue.push(frame(b"later"), due=9.0, now=0.0) == []
    assert queue.push(frame(b"!"), due=1.0, now=0.0) == []
    assert [lost.body for lost in queue.push(frame(b"soon"), due=2.0, now=0.0)] == [b"later"]
    first, second = queue.pop(0.5), queue.pop(0.5)
    assert first is not None
    assert second is not None
    assert (first.frame.body, first.frame.age_us) == (b"!", 500_000)
    assert second.frame.body == b"soon"
    assert queue.pop(0.5) is None


def bodies(queue: LaxityQueue, now: float) -> list[bytes]:
    popped = []
    while (taken := queue.pop(now)) is not None:
        popped.append(taken.frame.body)
    return popped


def test_what_is_late_but_still_wanted_stays_urgent() -> None:
    queue = LaxityQueue(limit_bytes=100)
    queue.push(frame(b"bulk"), due=None, now=0.0)
    queue.push(frame(b"in time"), due=3.0, now=0.0)
    queue.push(frame(b"late"), due=1.0, now=0.0)
    assert bodies(queue, 2.0) == [b"late", b"in time", b"bulk"]


def test_what_is_of_no_use_any_more_is_not_sent() -> None:
    queue = LaxityQueue(limit_bytes=100)
    queue.push(frame(b"stale"), due=1.0, now=0.0, until=2.0)
    queue.push(frame(b"fresh"), due=2.9, now=0.0, until=4.0)
    assert bodies(queue, 3.0) == [b"fresh"]
    assert [lost.body for lost in queue.take_expired()] == [b"stale"]
    assert (queue.take_expired(), queue.held_bytes) == ([], 0)


@given(st.lists(st.integers(0, 5), max_size=30))
def test_equally_urgent_frames_keep_their_order(dues: list[int]) -> None:
    queue = LaxityQueue(limit_bytes=1 << 20)
    for number, due in enumerate(dues):
        queue.push(frame(b"%d" % number), due=float(due), now=0.0)
    assert [int(body) for body in bodies(queue, 0.0)] == sorted(
        range(len(dues)), key=lambda number: (dues[number], number)
    )
    assert queue.held_bytes == 0


# -- delivery ---------------------------------------------------------------------------------------------


def flow_frame(number: int) -> Frame:
    return frame(b"%d" % number, flow=1, flow_sequence=number, epoch=1)


@given(st.permutations(range(1, 9)))
def test_order_is_restored(arrival: list[int]) -> None:
    sequencer = Resequencer(hold_s=10)
    sequencer.arrived(flow_frame(0), 0.0)
    delivered = [int(f.body) for number in arrival for f in sequencer.arrived(flow_frame(number), 0.0)]
    assert delivered == list(range(1, 9))


def test_a_gap_is_given_up_after_the_hold() -> None:
    sequencer = Resequencer(hold_s=0.25)
    sequencer.arrived(flow_frame(1), 0.0)
    assert sequencer.arrived(flow_frame(3), 1.0) == []
    assert sequencer.arrived(flow_frame(4), 1.0) == []
    assert sequencer.expired(1.2) == []
    assert [f.body for f in sequencer.expired(1.3)] == [b"3", b"4"]
    assert [f.body for f in sequencer.arrived(flow_frame(2), 1.4)] == [b"2"], "late is better than lost"
    assert sequencer.timer() is None


def test_late_frames_are_dropped_or_delivered_as_the_contract_says() -> None:
    rules = TopicRules(
        (
            Contract(match="a", deadline_ms=100, late=Late.DROP),
            Contract(match="b", deadline_ms=100),
            Contract(match="c", order=Order.PUBLISHER),
        )
    )
    delivery = Delivery(federation(("a", "b"), topics=rules))
    fresh, late = 50_000, 150_000
    outcomes = [
        delivery.arrived(frame(flow_sequence=number, topic_class=topic, age_us=age, epoch=1), 0.0)
        for number, (topic, age) in enumerate([(0, fresh), (0, late), (1, late)])
    ]
    kinds = [type(outcome[0]) for outcome in outcomes]
    assert kinds == [DeliverMessages, DropMessages, DeliverMessages]
    assert delivery.late == {0: 1, 1: 1}


# -- explicit routes --------------------------------------------------------------------------------------

SQUARE = (("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"))
TWO_PATHS = TopicRules((Contract(match="x", paths=2, deadline_ms=50),))


def setups(instructions: list[Instruction]) -> list[RouteSetup]:
    bodies = [
        control_body(i.frame)
        for i in instructions
        if isinstance(i, SendFrame) and i.frame.type is FrameType.ROUTE
    ]
    return [body for body in bodies if isinstance(body, RouteSetup)]


def established(engine: OverlayEngine) -> list[RouteSetup]:
    asked = setups(learn(engine, "d", ["x"], "b"))
    for setup in asked:
        answer = RouteAck(origin="a", epoch=1, label=setup.label, path=setup.path, ok=True)
        engine.receive(setup.path[1], control_frame(answer), 1.0)
    return asked


def test_two_disjoint_paths_are_asked_for_and_used_once_acknowledged() -> None:
    source = with_links(federation(*SQUARE, topics=TWO_PATHS), "a")
    asked = setups(learn(source, "d", ["x"], "b"))
    assert {tuple(setup.path) for setup in asked} == {("a", "b", "d"), ("a", "c", "d")}
    flow = source.flows.flow_of("x")
    assert flow is not None
    flow.take(b"before")
    assert len(data(source, source.flush(1.0))) == 1, "by table until the routes stand"
    for setup in asked:
        answer = RouteAck(origin="a", epoch=1, label=setup.label, path=setup.path, ok=True)
        source.receive(setup.path[1], control_frame(answer), 1.0)
    flow.take(b"after")
    sent = [i for i in data(source, source.flush(1.0)) if isinstance(i, SendFrame)]
    assert {i.peer for i in sent} == {"b", "c"}
    assert {i.frame.label for i in sent} == {setup.label for setup in asked}
    assert len({i.frame.flow_sequence for i in sent}) == 1, "the same frame on both paths"


def test_transit_gateways_follow_labels_and_fall_back_on_tables() -> None:
    shape = federation(*SQUARE, topics=TWO_PATHS)
    source, transit = with_links(shape, "a"), with_links(shape, "b")
    setup = next(s for s in established(source) if s.path[1] == "b")
    passed_on = setups(transit.receive("a", control_frame(setup), 1.0))
    assert passed_on == [setup]
    labelled = frame(hop_limit=9, origin=0, epoch=1, flow_sequence=1, destinations=0b1000, label=setup.label)
    (sent,) = data(transit, transit.receive("a", labelled, 1.0))
    assert isinstance(sent, SendFrame)
    assert (sent.peer, sent.frame.label) == ("d", setup.label)
    again = data(transit, transit.peer_down("d", 1.0, "cut"))
    assert [i.peer for i in again if isinstance(i, SendFrame)] == ["a"]
    (repaired,) = data(transit, transit.receive("a", labelled, 1.1))
    assert isinstance(repaired, SendFrame)
    assert (repaired.peer, repaired.frame.label) == ("a", 0), "the way back is the only way left"


def test_only_the_route_that_misses_its_deadline_moves() -> None:
    rules = TopicRules((Contract(match="tight", deadline_ms=15), Contract(match="loose", deadline_ms=500)))
    engine = with_links(federation(*SQUARE, topics=rules), "a")
    learn(engine, "d", ["tight", "loose"], "b")
    assert engine.routes.sets == {}, "the way by table is fast enough for both"
    slow = ad("b", 1, a=report(delay_ms=1), d=report(delay_ms=40))
    assert setups(engine.receive("b", control_frame(slow), 2.0)) == [], "not while messages wait"
    for peer in "bc":
        engine.heard(peer, 2.1)
    asked = setups(engine.handle_timer(2.1))
    assert [setup.path for setup in asked] == [["a", "c", "d"]]
    assert {key[0] for key in engine.routes.sets} == {0}


def test_a_contract_that_cannot_be_met_is_reported_and_served_best_effort() -> None:
    rules = TopicRules((Contract(match="x", paths=2, deadline_ms=1),))
    engine = with_links(federation(*SQUARE, topics=rules), "a")
    established(engine)
    (routes,) = engine.routes.sets.values()
    assert "best achievable delay is 2.0 ms" in routes.unmet
    assert "ContractUnmet" in [event.kind for event in engine.events.recent]
    flow = engine.flows.flow_of("x")
    assert flow is not None
    flow.take(b"still flows")
    assert data(engine, engine.flush(1.0))


def test_route_messages_from_strangers_do_no_harm() -> None:
    transit = with_links(federation(*SQUARE), "b")
    nonsense: list[RouteSetup | RouteAck] = [
        RouteSetup(origin="a", epoch=1, label=1, path=["x", "y"]),
        RouteSetup(origin="a", epoch=1, label=1, path=["a", "b", "a", "b"]),
        RouteSetup(origin="a", epoch=1, label=1, path=[]),
        RouteAck(origin="z", epoch=1, label=1, path=["z", "q"], ok=True),
        RouteAck(origin="b", epoch=99, label=1, path=["b", "a"], ok=True),
    ]
    for message in nonsense:
        assert data(transit, transit.receive("a", control_frame(message), 1.0)) == []
    assert transit.labels.next_hop("a", 1, 1) is None


# -- the journal of deliveries ----------------------------------------------------------------------------


def test_the_journal_survives_its_process(tmp_path: Path) -> None:
    path = tmp_path / "delivered" / "a.ring"
    journal = DeliveryJournal(path, entries=4)
    for number in range(1, 7):
        journal.record(frame(origin=1, epoch=9, flow_sequence=number))
    # Not closed: a process that is killed closes nothing.
    again = DeliveryJournal(path, entries=4)
    assert sorted(again.names()) == [Name(1, 9, 0, number) for number in range(3, 7)]
    delivery = Delivery(federation(("a", "b")))
    delivery.remember(again.names())
    assert delivery.arrived(frame(origin=1, epoch=9, flow_sequence=6), 0.0) == []
    assert len(delivery.arrived(frame(origin=1, epoch=9, flow_sequence=7), 0.0)) == 1
    path.write_bytes(b"damaged")
    assert DeliveryJournal(path, entries=4).names() == []
    journal.close()
    again.close()


def test_the_only_way_is_not_given_up_in_haste() -> None:
    engine = with_links(federation(("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")), "c")
    waiting = {neighbour.name: neighbour.monitor.dead_interval_s for neighbour in engine.neighbours}
    assert waiting["a"] == waiting["b"] < 0.3
    assert waiting["d"] == 1.0, "nothing else leads to d"
    engine.receive("b", control_frame(ad("b", 1, a=report(up=False), c=report())), 1.0)
    assert engine.neighbours["a"].monitor.dead_interval_s < 0.3, "it may be a itself that has failed"
