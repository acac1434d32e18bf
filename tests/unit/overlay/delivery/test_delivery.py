"""What arrives late is treated as its contract says."""

from __future__ import annotations

from tests.kit.engines import federation
from tests.kit.frames import Seconds, frame

from mangrove.model.topics import Contract, Late, Order, TopicRules
from mangrove.overlay.delivery.delivery import Delivery
from mangrove.overlay.instructions import DeliverMessages, DropMessages


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
    assert delivery.late == {0: 1, 1: 1}
