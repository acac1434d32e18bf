"""Deadlines run from publish to delivery: the time inside the first and the last site counts."""

from __future__ import annotations

import msgspec
import pytest
from tests.kit.engines import ad, data, federation, learn, let_time_pass, report, want, with_links

from mangrove.model.topics import Contract, Late, TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import DeliverMessages, DropMessages, SendFrame
from mangrove.overlay.protocol.control_messages import LinkStateAd, SiteReport, control_body, control_frame
from mangrove.overlay.protocol.frames import Frame, FrameType

RULES = TopicRules(
    (Contract(match="alarm", deadline_ms=50), Contract(match="price", deadline_ms=50, late=Late.DROP))
)
PAIR = federation(("a", "b"), topics=RULES)
TRIANGLE = federation(("a", "b"), ("a", "c"), ("b", "c"), topics=RULES)


def publish(source: OverlayEngine, subject: str, now: float) -> Frame:
    (route,) = source.route(subject)
    route.flow.take(b"x")
    (sent,) = [each for each in data(source, source.flush(now), now) if isinstance(each, SendFrame)]
    return sent.frame


def arrive(target: OverlayEngine, subject_class: int, age_ms: float, sequence: int = 1) -> list[object]:
    frame = Frame(
        FrameType.DATA,
        b"x",
        hop_limit=3,
        origin=0,
        topic_class=subject_class,
        epoch=1,
        destinations=0b10,
        age_us=int(1000 * age_ms),
        flow_id=1,
        sequence=sequence,
    )
    return list(target.receive("a", frame, 2.0))


def test_messages_are_as_old_as_the_way_to_the_gateway_took() -> None:
    source = with_links(PAIR, "a")
    learn(source, "b", ["alarm"], "b")
    assert publish(source, "alarm", 1.0).age_us == 0
    source.site_measured(ingress_ms=7.5, egress_ms=0.0, now=1.0)
    assert publish(source, "alarm", 1.1).age_us == 7500


def test_the_way_to_the_subscriber_counts_as_delay_and_as_late() -> None:
    target = with_links(PAIR, "b")
    want(target, "alarm")
    arrive(target, 0, age_ms=40)
    (arrival,) = target.status(2.0).arrivals
    assert arrival.late == 0
    assert arrival.observed_ms == pytest.approx(40, abs=1)
    target.site_measured(ingress_ms=0.0, egress_ms=20.0, now=2.0)
    (delivered,) = arrive(target, 0, age_ms=40, sequence=2)
    assert isinstance(delivered, DeliverMessages)
    (arrival,) = target.status(2.0).arrivals
    assert arrival.late == 1
    assert arrival.observed_ms == pytest.approx(41, abs=1)


def test_nothing_is_thrown_away_because_of_an_estimate() -> None:
    target = with_links(PAIR, "b")
    want(target, "price")
    target.site_measured(ingress_ms=0.0, egress_ms=20.0, now=2.0)
    (kept,) = arrive(target, 1, age_ms=40)
    (thrown,) = arrive(target, 1, age_ms=51, sequence=2)
    assert isinstance(kept, DeliverMessages)
    assert isinstance(thrown, DropMessages)
    assert [arrival.late for arrival in target.status(2.0).arrivals] == [2]


def test_a_marked_change_is_told_to_the_network() -> None:
    source = with_links(PAIR, "a")
    let_time_pass(source, 0.02, 1.0, heard=["b"])
    told = source.site_measured(ingress_ms=1.0, egress_ms=30.0, now=1.6)
    ads = [
        body
        for each in told
        if isinstance(each, SendFrame) and isinstance(body := control_body(each.frame), LinkStateAd)
    ]
    assert [each.site for each in ads] == [SiteReport(ingress_ms=1.0, egress_ms=30.0)]
    assert not source.site_measured(ingress_ms=1.2, egress_ms=31.0, now=2.2), "hardly anything has changed"


def slow_inside(origin: str, sequence: int, egress_ms: float, **delays: float) -> LinkStateAd:
    links = {peer: report(delay_ms=delay) for peer, delay in delays.items()}
    return msgspec.structs.replace(ad(origin, sequence), links=links, site=SiteReport(egress_ms=egress_ms))


def test_a_destination_that_is_slow_inside_is_named_and_met_again() -> None:
    source = with_links(TRIANGLE, "a")
    learn(source, "b", ["alarm"], "b")
    source.receive("b", control_frame(slow_inside("b", 1, 75.0, a=1.0, c=1.0)), 1.0)
    let_time_pass(source, 1.0, 1.5, heard=["b", "c"])
    routes = source.status(1.5).routes
    assert {route.unmet for route in routes} == {
        "best achievable delay is 76.0 ms, the deadline 50 ms, 75.0 ms of it inside b"
    }
    source.receive("b", control_frame(slow_inside("b", 2, 1.0, a=1.0, c=1.0)), 2.0)
    let_time_pass(source, 2.0, 2.5, heard=["b", "c"])
    assert not any(route.unmet for route in source.status(2.5).routes)
    source.validate()


def test_what_passes_a_site_does_not_go_through_its_brokers() -> None:
    """c is slow inside; as transit that does not matter, as destination it does."""
    source = with_links(TRIANGLE, "a")
    for subject, domain in (("alarm", "b"), ("price", "c")):
        learn(source, domain, [subject], domain)
    source.receive("b", control_frame(ad("b", 1, a=report(delay_ms=60.0), c=report(delay_ms=2.0))), 1.0)
    source.receive("c", control_frame(slow_inside("c", 1, 75.0, a=2.0, b=2.0)), 1.0)
    let_time_pass(source, 1.0, 1.5, heard=["b", "c"])
    found = {route.destination: route for route in source.status(1.5).routes}
    assert found["b"].path == ("a", "c", "b")
    assert not found["b"].unmet
    assert "inside c" in found["c"].unmet
