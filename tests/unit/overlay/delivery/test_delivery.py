"""What arrives late is treated as its contract says."""

from __future__ import annotations

from tests.kit.engines import federation
from tests.kit.frames import Seconds, frame

from mangrove.model.topics import Contract, Late, Order, TopicRules
from mangrove.overlay.delivery.delivery import Delivery
from mangrove.overlay.instructions import DeliverMessages, DropMessages, ResetTimer


def test_late_frames_are_dropped_or_delivered_as_the_contract_says() -> None:
    rules = TopicRules(
        (
            Contract(match="a", deadline_ms=100, late=Late.DROP),
            Contract(match="b", deadline_ms=100),
            Contract(match="c", order=Order.PUBLISHER),
        )
    )
    delivery = Delivery(federation(("a", "b"), topics=rules), own_bit=1, patience=Seconds(0.25))
    fresh, late = 50_000, 150_000
    outcomes = [
        delivery.arrived(frame(sequence=number, topic_class=topic, age_us=age, epoch=1), 0.0)
        for number, (topic, age) in enumerate([(0, fresh), (0, late), (1, late)])
    ]
    kinds = [type(outcome[0]) for outcome in outcomes]
    assert kinds == [DeliverMessages, DropMessages, DeliverMessages]
    assert delivery.late == {("a", 0): 1, ("a", 1): 1}
    assert {key: each.count for key, each in delivery.delays.items()} == {("a", 0): 2, ("a", 1): 1}


def test_classes_that_nobody_knows_are_counted_as_one() -> None:
    """A domain may name any of 65,536 in its frames; no more accounts are kept than there are contracts."""
    rules = TopicRules((Contract(match="a", order=Order.NONE),))
    delivery = Delivery(federation(("a", "b"), topics=rules), own_bit=1, patience=Seconds(0.25))
    for number in range(1, 200):
        arriving = frame(flow_id=number, sequence=1, topic_class=number - 1, age_us=1_000)
        assert delivery.arrived(arriving, 0.0) == [DeliverMessages(arriving)]
        assert delivery.arrived(arriving, 0.0) == []
    assert set(delivery.delays) == set(delivery.observed_ms) == {("a", 0), ("a", rules.unmatched)}
    assert delivery.copies == {("a", 0): 1, ("a", rules.unmatched): 198}


def test_frames_wait_for_their_turn_unless_the_contract_says_none() -> None:
    rules = TopicRules((Contract(match="loose", order=Order.NONE),))
    delivery = Delivery(federation(("a", "b"), topics=rules), own_bit=1, patience=Seconds(0.25))
    first, second, third = (frame(flow_id=1, sequence=number, topic_class=1) for number in (1, 2, 3))
    assert delivery.arrived(first, 0.0) == [DeliverMessages(first)]
    assert delivery.arrived(third, 0.1) == [ResetTimer()], "something is due before the next heartbeat"
    assert delivery.arrived(third, 0.1) == [], "a duplicate"
    assert delivery.copies == {("a", 1): 1}
    assert delivery.arrived(second, 0.1) == [DeliverMessages(second), DeliverMessages(third)]
    loose = frame(flow_id=2, sequence=2)
    assert delivery.arrived(loose, 0.2) == [DeliverMessages(loose)]


def test_the_time_that_a_frame_was_held_counts() -> None:
    rules = TopicRules((Contract(match="a", deadline_ms=100, late=Late.DROP),))
    delivery = Delivery(federation(("a", "b"), topics=rules), own_bit=1, patience=Seconds(0.25))
    delivery.arrived(frame(flow_id=1, sequence=1), 0.0)
    assert delivery.arrived(frame(flow_id=1, sequence=3, age_us=50_000), 0.0) == [ResetTimer()]
    (instruction,) = delivery.expire(0.25)
    assert isinstance(instruction, DropMessages), "patience that knew no deadline made it late"
    assert (instruction.reason, delivery.late) == ("late", {("a", 0): 1})
