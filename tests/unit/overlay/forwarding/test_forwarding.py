"""Messages go to those who want them, and another way when the first is gone."""

from __future__ import annotations

import pytest
from tests.kit.engines import data, federation, learn, with_links

from mangrove.model.topics import Contract, Late, Scope, TopicRules
from mangrove.overlay.instructions import (
    ChangeSubscriptions,
    DeliverMessages,
    DropMessages,
    SendFrame,
)
from mangrove.overlay.protocol.control_messages import (
    Heartbeat,
    HeartbeatKind,
    control_frame,
)
from mangrove.overlay.protocol.frames import (
    Frame,
    FrameError,
    FrameType,
)


def test_a_message_goes_to_those_who_want_it() -> None:
    rules = TopicRules((Contract(match="home.>", scope=Scope.DOMAIN),))
    shape = federation(("a", "b"), ("b", "c"), topics=rules)
    source = with_links(shape, "a")
    assert ChangeSubscriptions(("x.*",), ()) in learn(source, "c", ["x.*"], "b")
    assert source.route("y") == ()
    assert source.route("home.x") == ()
    ((flow, *_),) = source.route("x.1")
    assert flow is not None
    flow.take(b"LMSG x.1 0\r\n\r\n")
    (sent,) = data(source, source.flush(1.0))
    assert isinstance(sent, SendFrame)
    assert (sent.peer, sent.frame.destinations) == ("b", 0b100)
    transit = with_links(shape, "b")
    (forwarded,) = data(transit, transit.receive("a", sent.frame, 1.0))
    assert isinstance(forwarded, SendFrame)
    assert (forwarded.peer, forwarded.frame.hop_limit) == ("c", sent.frame.hop_limit - 1)
    destination = with_links(shape, "c")
    (delivered,) = data(destination, destination.receive("b", forwarded.frame, 1.0))
    assert isinstance(delivered, DeliverMessages)
    assert delivered.frame.body == b"LMSG x.1 0\r\n\r\n"
    assert data(destination, destination.receive("b", forwarded.frame, 1.0)) == [], (
        "the same frame again is a duplicate"
    )
    assert destination.status(1.0).duplicates == 1


def test_frames_with_no_way_on_are_counted() -> None:
    shape = federation(("a", "b"), ("b", "c"))
    transit = with_links(shape, "b")
    worn_out = Frame(FrameType.DATA, b"", 1, 0, 0, 1, 0b100)
    (dropped,) = data(transit, transit.receive("a", worn_out, 1.0))
    assert isinstance(dropped, DropMessages)
    assert dropped.reason == "hop limit reached"
    with pytest.raises(FrameError, match="unknown here"):
        transit.receive("a", Frame(FrameType.DATA, b"", 5, 0, 0, 1, 1 << 40), 1.0)


def test_a_frame_that_a_repair_sends_back_through_its_origin_goes_on() -> None:
    shape = federation(("a", "b"), ("b", "c"))
    origin = with_links(shape, "b")
    returned = Frame(FrameType.DATA, b"", 5, 1, 0, 1, 0b100)
    (sent,) = data(origin, origin.receive("a", returned, 1.0))
    assert isinstance(sent, SendFrame)
    assert (sent.peer, sent.frame.hop_limit) == ("c", 4)


def test_frames_without_a_way_wait_until_their_time_is_up() -> None:
    shape = federation(
        ("a", "b"), ("b", "c"), topics=TopicRules((Contract(match=">", deadline_ms=500, late=Late.DROP),))
    )
    transit = with_links(shape, "b")
    transit.peer_down("c", 1.0, "gone")
    assert data(transit, transit.receive("a", Frame(FrameType.DATA, b"early", 5, 0, 0, 1, 0b100), 1.0)) == []
    transit.heard("a", 1.4)
    assert data(transit, transit.handle_timer(1.4)) == []
    transit.heard("a", 1.6)
    (dropped,) = data(transit, transit.handle_timer(1.6))
    assert isinstance(dropped, DropMessages)
    assert dropped.reason.startswith("expired")


def test_unacknowledged_frames_go_another_way_when_their_link_dies() -> None:
    shape = federation(("a", "b"), ("a", "c"), ("b", "c"))
    source = with_links(shape, "a")
    learn(source, "c", ["x"], "b")
    ((flow, *_),) = source.route("x")
    assert flow is not None
    for number in range(3):
        flow.take(b"%d" % number)
        (sent,) = data(source, source.flush(1.0))
        assert isinstance(sent, SendFrame)
        assert sent.peer == "c"
    acknowledgement = Heartbeat(kind=HeartbeatKind.REGULAR, sequence=2, sent=1.0, received=1)
    source.receive("c", control_frame(acknowledgement), 1.0)
    again = data(source, source.peer_down("c", 1.0, "cut"))
    assert [(i.peer, i.frame.body) for i in again if isinstance(i, SendFrame)] == [("b", b"1"), ("b", b"2")]
