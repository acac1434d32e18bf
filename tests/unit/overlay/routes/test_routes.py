"""Routes of a contract's own: asked for, used, followed by label, moved, reported."""

from __future__ import annotations

import msgspec
from tests.kit.engines import ad, data, federation, learn, let_time_pass, report, with_links
from tests.kit.frames import frame

from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import Instruction, SendFrame
from mangrove.overlay.protocol.control_messages import (
    RouteAck,
    RouteMessage,
    RouteSetup,
    RouteTeardown,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import FrameType
from mangrove.overlay.routes.establishment import REFRESH_S
from mangrove.overlay.routes.transit_labels import LEASE_S

SQUARE = (("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"))

TWO_PATHS = TopicRules((Contract(match="x", paths=2, deadline_ms=50),))


def setups(instructions: list[Instruction]) -> list[RouteSetup]:
    bodies = [
        control_body(i.frame)
        for i in instructions
        if isinstance(i, SendFrame) and i.frame.type is FrameType.ROUTE
    ]
    return [body for body in bodies if isinstance(body, RouteSetup)]


def answer_to(setup: RouteSetup, reason: str = "") -> RouteAck:
    return RouteAck(
        origin=setup.origin,
        epoch=setup.epoch,
        label=setup.label,
        version=setup.version,
        path=setup.path,
        ok=not reason,
        reason=reason,
    )


def established(engine: OverlayEngine) -> list[RouteSetup]:
    asked = setups(learn(engine, "d", ["x"], "b"))
    for setup in asked:
        engine.receive(setup.path[1], control_frame(answer_to(setup)), 1.0)
    return asked


def test_two_disjoint_paths_are_asked_for_and_used_once_acknowledged() -> None:
    source = with_links(federation(*SQUARE, topics=TWO_PATHS), "a")
    asked = setups(learn(source, "d", ["x"], "b"))
    assert {tuple(setup.path) for setup in asked} == {("a", "b", "d"), ("a", "c", "d")}
    ((flow, *_),) = source.route("x")
    assert flow is not None
    flow.take(b"before")
    assert len(data(source, source.flush(1.0))) == 1, "by table until the routes stand"
    for setup in asked:
        source.receive(setup.path[1], control_frame(answer_to(setup)), 1.0)
    flow.take(b"after")
    sent = [i for i in data(source, source.flush(1.0)) if isinstance(i, SendFrame)]
    assert {i.peer for i in sent} == {"b", "c"}
    assert {i.frame.label for i in sent} == {setup.label for setup in asked}
    assert len({i.frame.sequence for i in sent}) == 1, "the same frame on both paths"


def test_transit_gateways_follow_labels_and_fall_back_on_tables() -> None:
    shape = federation(*SQUARE, topics=TWO_PATHS)
    source, transit = with_links(shape, "a"), with_links(shape, "b")
    setup = next(s for s in established(source) if s.path[1] == "b")
    passed_on = setups(transit.receive("a", control_frame(setup), 1.0))
    assert passed_on == [setup]
    labelled = frame(hop_limit=9, origin=0, epoch=1, sequence=1, destinations=0b1000, label=setup.label)
    (early,) = data(transit, transit.receive("a", labelled, 1.0))
    assert isinstance(early, SendFrame)
    assert early.frame.label == 0, "by table until the next hop has acknowledged"
    transit.receive("d", control_frame(answer_to(setup)), 1.0)
    (sent,) = data(transit, transit.receive("a", labelled, 1.0))
    assert isinstance(sent, SendFrame)
    assert (sent.peer, sent.frame.label) == ("d", setup.label)
    again = data(transit, transit.peer_down("d", 1.0, "cut"))
    assert {i.peer for i in again if isinstance(i, SendFrame)} == {"a"}
    (repaired,) = data(transit, transit.receive("a", labelled, 1.1))
    assert isinstance(repaired, SendFrame)
    assert (repaired.peer, repaired.frame.label) == ("a", 0), "the way back is the only way left"


def test_only_the_route_that_misses_its_deadline_moves() -> None:
    rules = TopicRules((Contract(match="tight", deadline_ms=15), Contract(match="loose", deadline_ms=500)))
    engine = with_links(federation(*SQUARE, topics=rules), "a")
    learn(engine, "d", ["tight", "loose"], "b")
    assert engine.status(1.0).routes == (), "the way by table is fast enough for both"
    slow = ad("b", 1, a=report(delay_ms=1), d=report(delay_ms=40))
    assert setups(engine.receive("b", control_frame(slow), 2.0)) == [], "not while messages wait"
    for peer in "bc":
        engine.heard(peer, 2.1)
    asked = setups(engine.handle_timer(2.1))
    assert [setup.path for setup in asked] == [["a", "c", "d"]]
    assert {route.topic for route in engine.status(2.1).routes} == {"tight"}


def test_a_contract_that_cannot_be_met_is_reported_and_served_best_effort() -> None:
    rules = TopicRules((Contract(match="x", paths=2, deadline_ms=1),))
    engine = with_links(federation(*SQUARE, topics=rules), "a")
    established(engine)
    assert all("best achievable delay is 2.0 ms" in route.unmet for route in engine.status(1.0).routes)
    assert "ContractUnmet" in [event.kind for event in engine.take_events()]
    ((flow, *_),) = engine.route("x")
    assert flow is not None
    flow.take(b"still flows")
    assert data(engine, engine.flush(1.0))


def test_route_messages_from_strangers_do_no_harm() -> None:
    transit = with_links(federation(*SQUARE, topics=TWO_PATHS), "b")
    transit.receive("a", control_frame(ad("a", 1, epoch=7, b=report(delay_ms=1), c=report(delay_ms=1))), 1.0)
    epoch = 7
    good = RouteSetup(origin="a", epoch=epoch, label=1, version=1, path=["a", "b", "d"], topic_class=0)
    replace = msgspec.structs.replace
    forged: list[tuple[str, RouteMessage]] = [
        ("a", replace(good, path=["x", "y"])),
        ("a", replace(good, path=["a", "b", "a", "b"])),
        ("a", replace(good, path=[])),
        ("a", replace(good, path=["c", "a", "b", "d"])),
        ("a", replace(good, path=["b", "a"], origin="b")),
        ("a", replace(good, path=["a", "b", "c"])),
        ("d", good),
        ("a", replace(good, path=["a", "c", "d", "b"])),
        ("a", replace(good, topic_class=1)),
        ("a", replace(good, topic_class=-1)),
        ("a", replace(good, epoch=epoch - 1)),
        ("a", replace(good, epoch=epoch + 1)),
        ("d", answer_to(good)),
        ("a", answer_to(replace(good, origin="z", path=["z", "q"]))),
        ("a", answer_to(replace(good, origin="b", epoch=99, path=["b", "a"]))),
        ("d", RouteTeardown(origin="a", epoch=epoch, label=1, version=1, path=["a", "b", "d"])),
    ]
    for peer, message in forged:
        assert transit.receive(peer, control_frame(message), 1.0) == []
    assert transit._labels.next_hop("a", epoch, 1) is None
    ignored = transit.status(1.0).ignored
    assert sum(count for what, count in ignored.items() if "route message" in what) == len(forged)
    assert setups(transit.receive("a", control_frame(good), 1.0)) == [good]
    contradiction = replace(good, path=["a", "b", "a"])
    transit.receive("a", control_frame(contradiction), 1.0)
    assert setups(transit.receive("a", control_frame(good), 1.0)) == [good]


def test_a_label_that_is_not_refreshed_expires() -> None:
    transit = with_links(federation(*SQUARE, topics=TWO_PATHS), "b")
    setup = RouteSetup(origin="a", epoch=1, label=1, version=1, path=["a", "b", "d"], topic_class=0)
    transit.receive("a", control_frame(setup), 1.0)
    transit.receive("d", control_frame(answer_to(setup)), 1.0)
    for refreshed in (20.0, 40.0):
        let_time_pass(transit, transit.timer(), refreshed, heard="ad")
        transit.receive("a", control_frame(setup), refreshed)
    let_time_pass(transit, 40.0, 40.0 + LEASE_S - 1, heard="ad")
    assert transit._labels.next_hop("a", 1, 1) == "d"
    let_time_pass(transit, 40.0 + LEASE_S - 1, 40.0 + LEASE_S + 2, heard="ad")
    assert transit._labels.next_hop("a", 1, 1) is None
    assert len(transit._labels) == 0


def test_routes_are_refreshed_and_given_up_when_nobody_answers() -> None:
    source = with_links(federation(*SQUARE, topics=TWO_PATHS), "a")
    asked = established(source)
    said = setups(let_time_pass(source, 1.0, 1.0 + REFRESH_S + 1, heard="bc"))
    assert sorted(said, key=lambda setup: setup.label) == sorted(asked, key=lambda setup: setup.label)
    kinds = [event.kind for event in source.take_events()]
    assert "RouteRetired" not in kinds
    let_time_pass(source, 2.0 + REFRESH_S, 2.0 + REFRESH_S + LEASE_S, heard="bc")
    said_of = [getattr(event.happening, "reason", event.kind) for event in source.take_events()]
    assert said_of.count("nobody answers when it is refreshed") == 2
    assert "RouteRequested" in said_of, "and asked for anew"


def test_a_route_moves_under_its_label_and_only_the_first_hop_is_taken_back() -> None:
    rules = TopicRules((Contract(match="x", deadline_ms=15),))
    source = with_links(federation(*SQUARE, ("a", "e"), ("e", "d"), topics=rules), "a")
    learn(source, "d", ["x"], "b")
    slow_b = ad("b", 1, a=report(delay_ms=1), d=report(delay_ms=40))
    source.receive("b", control_frame(slow_b), 2.0)
    (asked,) = setups(let_time_pass(source, 2.0, 2.2, heard="bce"))
    assert (asked.path, asked.topic_class, asked.deadline_ms) == (["a", "e", "d"], 0, 15)
    source.receive("e", control_frame(answer_to(asked)), 2.2)
    slow = ad("e", 1, a=report(delay_ms=1), d=report(delay_ms=40))
    source.receive("e", control_frame(slow), 3.0)
    (moved,) = setups(let_time_pass(source, 3.0, 3.2, heard="bce"))
    assert moved.path == ["a", "c", "d"]
    assert moved.label == asked.label
    assert moved.version > asked.version
    assert source.active_paths(0, "d") == [("a", "e", "d")], "the old path serves until the new one stands"
    said = source.receive("c", control_frame(answer_to(moved)), 3.3)
    assert source.active_paths(0, "d") == [("a", "c", "d")]
    (farewell,) = [control_body(i.frame) for i in said if isinstance(i, SendFrame) and i.peer == "e"]
    assert isinstance(farewell, RouteTeardown)
    assert (farewell.label, farewell.version) == (asked.label, asked.version)


def test_a_move_that_is_refused_leaves_the_old_path_in_force() -> None:
    rules = TopicRules((Contract(match="x", deadline_ms=15),))
    source = with_links(federation(*SQUARE, ("a", "e"), ("e", "d"), topics=rules), "a")
    learn(source, "d", ["x"], "b")
    source.receive("b", control_frame(ad("b", 1, a=report(delay_ms=1), d=report(delay_ms=40))), 2.0)
    (asked,) = setups(let_time_pass(source, 2.0, 2.2, heard="bce"))
    source.receive("e", control_frame(answer_to(asked)), 2.2)
    source.receive("e", control_frame(ad("e", 1, a=report(delay_ms=1), d=report(delay_ms=40))), 3.0)
    (moved,) = setups(let_time_pass(source, 3.0, 3.2, heard="bce"))
    (again,) = setups(source.receive("c", control_frame(answer_to(moved, "too many")), 3.3))
    assert (again.path, again.label) == (asked.path, asked.label)
    assert again.version > moved.version, "who has changed already changes back"
    assert source.active_paths(0, "d") == [("a", "e", "d")]
