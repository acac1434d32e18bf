"""An engine that stands by learns what is wanted, says nothing, and begins with a later epoch."""

from __future__ import annotations

import msgspec
import pytest
from tests.kit.engines import data, engine, federation, learn, want, with_links
from tests.kit.signed_engines import BEGAN_NS, SQUARE, KeyBook, sent_to

from mangrove.model.federation import Federation
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.events.happenings import GatewayTookOver
from mangrove.overlay.instructions import ChangeSubscriptions, DeliverMessages, SendFrame
from mangrove.overlay.protocol.control_messages import (
    Digest,
    Heartbeat,
    HeartbeatKind,
    InterestUpdate,
    LinkStateAd,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import Frame, FrameType
from mangrove.overlay.sides.accounts import InvariantError

PAIR = federation(("a", "b"), ("b", "c"))


def standing_by(shape: Federation = PAIR) -> OverlayEngine:
    return OverlayEngine(shape, "a", 5, process="a-gateway2", standing_by=True)


def update(version: int, *added: str, snapshot: bool = False) -> InterestUpdate:
    return InterestUpdate(origin="b", epoch=1, version=version, snapshot=snapshot, added=list(added))


def test_who_stands_by_has_little_to_do_and_notes_nothing() -> None:
    waiting = standing_by()
    assert waiting.timer() == float("inf")
    assert waiting.handle_timer(1.0) == []
    assert waiting.take_events() == []


def test_interest_is_overheard_and_a_gap_is_asked_for() -> None:
    carrying, waiting = with_links(PAIR, "a"), standing_by()
    learn(carrying, "b", ["x", "y"], "b")
    for part in carrying.interest_beyond(waiting.interest_digest()):
        instructions, gap = waiting.overhear(part, 1.0)
        assert not gap
    assert any(isinstance(each, ChangeSubscriptions) for each in instructions)
    assert sorted(waiting.wanted_elsewhere()) == ["x", "y"]
    _, gap = waiting.overhear(update(99, "z"), 1.1)
    assert gap
    assert list(carrying.interest_beyond(carrying.interest_digest())) == []


def test_the_own_domains_interest_is_told_by_nobody_else() -> None:
    carrying, waiting = with_links(PAIR, "a"), standing_by()
    want(carrying, "own")
    assert [part.origin for part in carrying.interest_beyond(waiting.interest_digest())] == []


def test_a_life_that_begins_is_told_to_neighbours_with_all_that_is_wanted() -> None:
    waiting = standing_by()
    want(waiting, "here")
    waiting.begin(9, "the other gateway has died", 2.0)
    (event,) = (each for each in waiting.take_events() if isinstance(each.happening, GatewayTookOver))
    assert event.id.startswith("a-gateway2-")
    hello = control_body(waiting.hello())
    assert getattr(hello, "epoch", None) == 9
    neighbour = with_links(PAIR, "b")
    told = [*waiting.peer_up("b", 2.0)]
    digest = neighbour.peer_up("a", 2.0, successor=True)
    for instruction in digest:
        if isinstance(instruction, SendFrame):
            told += waiting.receive("b", instruction.frame, 2.0)
    bodies = [control_body(each.frame) for each in told if isinstance(each, SendFrame)]
    ads = [body for body in bodies if isinstance(body, LinkStateAd) and body.origin == "a"]
    updates = [body for body in bodies if isinstance(body, InterestUpdate) and body.origin == "a"]
    assert {ad.epoch for ad in ads} == {9}
    assert [(each.epoch, each.added) for each in updates] == [(9, ["here"])]
    with pytest.raises(InvariantError):
        waiting.begin(10, "again", 3.0)


def test_what_the_other_one_delivered_is_not_delivered_again() -> None:
    sender, waiting = with_links(PAIR, "b"), standing_by()
    learn(sender, "a", ["x"], "a")
    frames: list[Frame] = []
    for number in range(3):
        (route,) = sender.route("x")
        route.flow.take(b"LMSG x 1\r\n%d\r\n" % number)
        frames += [each.frame for each in data(sender, sender.flush(1.0)) if isinstance(each, SendFrame)]
    waiting.remember(frame.name for frame in frames[:2])
    waiting.begin(9, "the other gateway is silent", 2.0)
    waiting.peer_up("b", 2.0)
    delivered = [
        each.frame.body
        for frame in frames
        for each in waiting.receive("b", frame, 2.1)
        if isinstance(each, DeliverMessages)
    ]
    assert delivered == [b"LMSG x 1\r\n2\r\n"]


def test_a_link_is_not_made_to_wait_because_a_gateway_at_its_end_failed() -> None:
    for successor, usable in ((True, True), (False, False)):
        neighbour = with_links(PAIR, "b")
        neighbour.peer_down("a", 5.0, "it died")
        neighbour.peer_up("a", 5.0, successor=successor)
        answer = Heartbeat(kind=HeartbeatKind.TEST_ACK, sequence=1, sent=5.0, received=0)
        neighbour.receive("a", control_frame(answer), 5.01)
        assert neighbour.usable("a") is usable


def test_an_engine_of_a_lone_gateway_is_as_ever() -> None:
    alone = engine(PAIR, "a")
    assert not alone.standing_by
    assert control_body(alone.hello()) == msgspec.structs.replace(control_body(alone.hello()), epoch=1)
    assert alone.hello().type is FrameType.HELLO


def test_one_of_two_with_keys_takes_over_what_others_have_signed() -> None:
    """It has no advertisements while it stands by; the other gateway of its domain is trusted."""
    book = KeyBook()
    second = OverlayEngine(SQUARE, "a", BEGAN_NS, standing_by=True, trust=book.trust("a"))
    update = book.update("c", 1, ["x"], snapshot=True)
    second.overhear(update, 1.0)
    second.overhear(book.update("c", 2, ["lie"], table=["x", "lie"], by="d"), 1.0)
    assert second.wanted_elsewhere() == ["x"]
    second.begin(BEGAN_NS + 5, "the other one died", 2.0)
    second.peer_up("d", 2.0)
    answer = second.receive("d", control_frame(Digest(known={})), 2.0)
    told = [body for body in sent_to("d", answer) if isinstance(body, InterestUpdate)]
    assert {each.origin: each.epoch for each in told} == {"a": BEGAN_NS + 5, "c": BEGAN_NS}
    assert next(each for each in told if each.origin == "c").statement == update.statement
    assert all(each.statement is not None for each in told)
    second.validate()
