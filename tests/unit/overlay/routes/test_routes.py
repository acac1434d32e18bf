"""Routes of a contract's own: asked for, used, followed by label, moved, reported."""

from __future__ import annotations

from tests.kit.engines import ad, data, federation, learn, report, with_links
from tests.kit.frames import frame

from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import Instruction, SendFrame
from mangrove.overlay.protocol.control_messages import (
    RouteAck,
    RouteSetup,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import FrameType

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
    ((flow, _),) = source.route("x")
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
    assert len({i.frame.sequence for i in sent}) == 1, "the same frame on both paths"


def test_transit_gateways_follow_labels_and_fall_back_on_tables() -> None:
    shape = federation(*SQUARE, topics=TWO_PATHS)
    source, transit = with_links(shape, "a"), with_links(shape, "b")
    setup = next(s for s in established(source) if s.path[1] == "b")
    passed_on = setups(transit.receive("a", control_frame(setup), 1.0))
    assert passed_on == [setup]
    labelled = frame(hop_limit=9, origin=0, epoch=1, sequence=1, destinations=0b1000, label=setup.label)
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
    ((flow, _),) = engine.route("x")
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
    assert transit._labels.next_hop("a", 1, 1) is None
