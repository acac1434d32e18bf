"""The parts of the live overlay one by one: queues, order, explicit routes, the journal."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.kit.engines import ad, data, federation, learn, report, with_links

from mangrove.gateway.delivery_journal import DeliveryJournal
from mangrove.model.topics import Contract, Late, Order, TopicRules
from mangrove.overlay.delivery.delivery import Delivery
from mangrove.overlay.delivery.resequencer import Resequencer
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.forwarding.parked_frames import ParkedFrames
from mangrove.overlay.instructions import DeliverMessages, DropMessages, Instruction, SendFrame
from mangrove.overlay.links.laxity_queue import LaxityQueue
from mangrove.overlay.links.outgoing import Outgoing
from mangrove.overlay.protocol.control_messages import (
    RouteAck,
    RouteSetup,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import Frame, FrameType, Name

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
