"""The overlay's parts one by one: frames, interest, de-duplication, forwarding, the engine's greeting."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.engines import data, engine, federation, learn, with_links

from mangrove.model.federation import Link
from mangrove.model.topics import Contract, Late, Scope, TopicRules
from mangrove.overlay.delivery.seen_frames import SeenFrames, Verdict
from mangrove.overlay.instructions import (
    ChangeSubscriptions,
    DeliverMessages,
    DropMessages,
    SendFrame,
)
from mangrove.overlay.interest.interest_database import InterestDatabase
from mangrove.overlay.interest.local_interest import LocalInterest
from mangrove.overlay.network.link_state import Measured
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.protocol.control_messages import (
    Digest,
    Heartbeat,
    HeartbeatKind,
    Hello,
    InterestUpdate,
    control_frame,
)
from mangrove.overlay.protocol.frames import (
    HEADER,
    MAGIC,
    PROTOCOL_VERSION,
    Frame,
    FrameDecoder,
    FrameError,
    FrameType,
    Name,
)

# -- frames -----------------------------------------------------------------------------------------------


def test_garbage_is_refused_at_the_first_byte() -> None:
    with pytest.raises(FrameError, match="garbage"):
        FrameDecoder().feed(b"GET / HTTP/1.1\r\n")


def test_unknown_type_and_excessive_sizes_are_refused() -> None:
    with pytest.raises(FrameError, match="unknown frame type 99"):
        FrameDecoder().feed(HEADER.pack(MAGIC, 99, 1, *[0] * 10))
    with pytest.raises(FrameError, match="beyond the limits"):
        FrameDecoder().feed(HEADER.pack(MAGIC, FrameType.DATA, 1, 2**31, *[0] * 9))


def test_a_truncated_frame_is_noticed() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(Frame(FrameType.DATA, b"body").encode()[:-1]) == []
    assert decoder.held_bytes == HEADER.size + 3


def test_malformed_control_bodies_are_refused() -> None:
    peer = engine(federation(("a", "b")), "a")
    for frame_type in set(FrameType) - {FrameType.DATA, FrameType.PIECE}:
        with pytest.raises(FrameError, match="malformed"):
            peer.receive("b", Frame(frame_type, b"\xc1not msgpack"), 0.0)


# -- greeting ---------------------------------------------------------------------------------------------


def test_a_peer_of_the_same_federation_is_greeted() -> None:
    shape = federation(("a", "b"))
    assert engine(shape, "a").greet(engine(shape, "b").hello(), None).domain == "b"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"protocol": 99}, "protocol 99"),
        ({"federation": "other"}, "federation 'other'"),
        ({"topology": "0" * 24}, "another federation file"),
        ({"domain": "c"}, "no link between 'a' and 'c'"),
        ({"domain": "a"}, "claims to be 'a'"),
    ],
)
def test_strangers_are_refused_with_the_reason(change: dict[str, object], reason: str) -> None:
    shape = federation(("a", "b"), ("b", "c"))
    fields: dict[str, object] = {
        "protocol": PROTOCOL_VERSION,
        "federation": "test",
        "topology": shape.topology_hash(),
        "domain": "b",
        "epoch": 1,
    } | change
    with pytest.raises(FrameError, match=reason):
        engine(shape, "a").greet(control_frame(Hello(**fields)), None)  # type: ignore[arg-type]


def test_the_called_domain_must_answer() -> None:
    shape = federation(("a", "b"), ("a", "c"))
    with pytest.raises(FrameError, match="called 'b', but 'c' answered"):
        engine(shape, "a").greet(engine(shape, "c").hello(), "b")
    with pytest.raises(FrameError, match="began with a DATA frame"):
        engine(shape, "a").greet(Frame(FrameType.DATA), None)


# -- interest ---------------------------------------------------------------------------------------------


def update(version: int, added: list[str], epoch: int = 1, snapshot: bool = False) -> InterestUpdate:
    return InterestUpdate(origin="b", epoch=epoch, version=version, snapshot=snapshot, added=added)


def test_interest_follows_versions_and_epochs() -> None:
    database = InterestDatabase("a", "ab", epoch=1)
    assert database.receive(update(1, ["x"]))[1], "a change without its base is a gap"
    change, gap = database.receive(update(1, ["x"], snapshot=True))
    assert change is not None
    assert (change.added, gap) == ({"x"}, False)
    assert database.receive(update(1, ["x"], snapshot=True)) == (None, False), "no news"
    assert database.receive(update(3, ["z"]))[1], "version 2 is missing"
    change, _ = database.receive(update(1, ["y"], epoch=2, snapshot=True))
    assert change is not None
    assert (change.added, change.removed) == ({"y"}, {"x"}), "a restarted gateway replaces what was known"
    assert database.receive(update(9, ["old"], epoch=1, snapshot=True)) == (None, False)


def test_nobody_speaks_for_another_domain() -> None:
    database = InterestDatabase("b", "ab", epoch=1)
    assert database.receive(update(5, ["x"], snapshot=True)) == (None, False)
    stranger = InterestDatabase("a", "ac", epoch=1)
    assert stranger.receive(update(5, ["x"], snapshot=True)) == (None, False)
    assert database.ignored_updates == stranger.ignored_updates == 1


def test_hostile_subjects_are_not_passed_to_the_broker() -> None:
    database = InterestDatabase("a", "ab", epoch=1)
    change, _ = database.receive(
        update(1, ["ok", "bad subject", "a\r\nPUB x 1", "$SYS.>", ""], snapshot=True)
    )
    assert change is not None
    assert change.added == {"ok"}
    assert database.refused_subjects == 4


def test_digest_shows_what_is_missing() -> None:
    database = InterestDatabase("a", "ab", epoch=7)
    database.change_local(["x"], [])
    assert [snapshot.added for snapshot in database.missing_from(Digest(known={}))] == [["x"]]
    assert database.missing_from(Digest(known={"a": (7, 1)})) == []
    assert database.missing_from(Digest(known={"a": (8, 0)})) == []


def test_local_interest_survives_a_short_absence_of_the_broker() -> None:
    interest = LocalInterest(holdover_s=5)
    interest.change("x", "", True)
    interest.change("y", "group", True)
    assert interest.take_changes() == ({"x", "y"}, set())
    interest.head_lost(now=100)
    interest.change("x", "", True)  # confirmed after the restart
    interest.expire(now=104)
    assert not interest.pending
    interest.expire(now=105)
    assert interest.take_changes() == (set(), {"y"})


def test_local_interest_ends_with_the_last_group() -> None:
    interest = LocalInterest()
    for group in ("", "g"):
        interest.change("x", group, True)
    interest.take_changes()
    interest.change("x", "", False)
    assert not interest.pending
    interest.change("x", "g", False)
    assert interest.take_changes() == (set(), {"x"})


# -- frames through the engine ----------------------------------------------------------------------------


def test_duplicates_restarts_and_old_frames() -> None:
    seen = SeenFrames(window=8, flows=4)
    assert seen.check(Name(0, 1, 1, 1)) is Verdict.NEW
    assert seen.check(Name(0, 1, 1, 1)) is Verdict.DUPLICATE
    assert seen.check(Name(1, 1, 1, 1)) is Verdict.NEW, "origins are apart"
    assert seen.check(Name(0, 2, 1, 1)) is Verdict.NEW, "a restarted origin is not taken for a replay"
    assert seen.check(Name(0, 1, 1, 2)) is Verdict.NEW, "what it sent before may come late"
    assert seen.check(Name(0, 2, 1, 100)) is Verdict.NEW
    assert seen.check(Name(0, 2, 1, 93)) is Verdict.NEW
    assert seen.check(Name(0, 2, 1, 92)) is Verdict.TOO_OLD
    assert seen.check(Name(0, 2, 2, 1)) is Verdict.NEW, "flows are apart"
    assert seen.check(Name(0, 2, 3, 1)) is Verdict.NEW
    assert seen.check(Name(0, 2, 1, 100)) is Verdict.DUPLICATE, "the flow heard of longest ago is forgotten"


@given(st.lists(st.integers(0, 60), max_size=200))
def test_a_flow_is_judged_as_by_a_perfect_memory_within_its_window(numbers: list[int]) -> None:
    seen, remembered = SeenFrames(window=16), set[int]()
    for number in numbers:
        verdict = seen.check(Name(0, 1, 1, number))
        if number <= max(remembered, default=-1) - 16:
            assert verdict is Verdict.TOO_OLD
        else:
            assert verdict is (Verdict.DUPLICATE if number in remembered else Verdict.NEW)
            remembered.add(number)


def test_a_message_goes_to_those_who_want_it() -> None:
    rules = TopicRules((Contract(match="home.>", scope=Scope.DOMAIN),))
    shape = federation(("a", "b"), ("b", "c"), topics=rules)
    source = with_links(shape, "a")
    assert ChangeSubscriptions(("x.*",), ()) in learn(source, "c", ["x.*"], "b")
    assert source.flows.flow_of("y") is None
    assert source.flows.flow_of("home.x") is None
    flow = source.flows.flow_of("x.1")
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
    assert destination.delivery.verdicts[Verdict.DUPLICATE] == 1


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
    flow = source.flows.flow_of("x")
    assert flow is not None
    for number in range(3):
        flow.take(b"%d" % number)
        (sent,) = data(source, source.flush(1.0))
        assert isinstance(sent, SendFrame)
        assert sent.peer == "c"
    acknowledgement = Heartbeat(kind=HeartbeatKind.REGULAR, number=2, sent=1.0, received=1)
    source.receive("c", control_frame(acknowledgement), 1.0)
    again = data(source, source.peer_down("c", 1.0, "cut"))
    assert [(i.peer, i.frame.body) for i in again if isinstance(i, SendFrame)] == [("b", b"1"), ("b", b"2")]


def test_a_silent_link_is_given_up_and_announced() -> None:
    shape = federation(("a", "b"), ("a", "c"), ("b", "c"))
    source = with_links(shape, "a")
    source.heard("b", 1.0)
    instructions = source.handle_timer(1.0)
    kinds = {type(i).__name__ for i in instructions}
    assert "CloseLink" in kinds, "nothing was heard of c for a second"
    assert source.live.failed == {("a", "c")}
    assert source.neighbours["b"].usable
    assert [event.kind for event in source.events.recent][-2:] == ["LinkFailed", "ColourChanged"]


def test_subscriptions_are_shared_between_domains() -> None:
    shape = federation(("a", "b"), ("a", "c"))
    hub = engine(shape, "a")
    assert ChangeSubscriptions(("x",), ()) in learn(hub, "b", ["x"], "b")
    assert ChangeSubscriptions((), ()) in learn(hub, "c", ["x"], "c")
    gone = InterestUpdate(origin="b", epoch=1, version=2, snapshot=False, added=[], removed=["x"])
    assert ChangeSubscriptions((), ()) in hub.receive("b", control_frame(gone), 1.0)
    gone = InterestUpdate(origin="c", epoch=1, version=2, snapshot=False, added=[], removed=["x"])
    assert ChangeSubscriptions((), ("x",)) in hub.receive("c", control_frame(gone), 1.0)
    assert hub.subscriptions.subscribed == []


def test_domain_scoped_interest_is_not_advertised() -> None:
    rules = TopicRules((Contract(match="plant.>", scope=Scope.DOMAIN),))
    own = with_links(federation(("a", "b"), topics=rules), "a")
    assert own.change_local_interest(["plant.x"], []) == []
    (flooded,) = own.change_local_interest(["other"], [])
    assert isinstance(flooded, SendFrame)


# -- forwarding -------------------------------------------------------------------------------------------


def test_shortest_paths_prefer_the_cheaper_detour() -> None:
    shape = federation(("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"))
    costs = dict(zip(("ab", "bc", "ac", "cd"), (1.0, 1.0, 5.0, 1.0), strict=True))
    links = tuple(Link(between=link.between, delay_ms=costs["".join(link.between)]) for link in shape.links)
    live = LiveMap(msgspec.structs.replace(shape, links=links), "a")
    assert live.forwarding.split(0b1110) == (("b", 0b1110),)
    assert live.rest_ms(0b1000, 0) == 3.0
    assert live.table_ms("d", 0) == 3.0
    live.update(frozenset({("a", "b")}), Measured(delays_ms={("a", "c"): 9.0}))
    assert live.forwarding.split(0b1110) == (("c", 0b1110),)
    assert live.table_ms("d", 0) == 10.0
    live.update(frozenset({("a", "b"), ("c", "d")}), Measured())
    assert not live.exact, "two links that share no site have no colour"
    assert live.forwarding.split(0b1110) == (("c", 0b0110),)
    assert live.forwarding.reachable() == 0b0110


def test_waits_count_in_their_direction_and_for_their_topics() -> None:
    live = LiveMap(federation(("a", "b"), ("b", "c"), ("a", "c")), "a")
    crowded, free, back = {0: 50.0}, {1: 0.7}, {0: 500.0}
    waits = {("a", "c"): crowded, ("b", "c"): free, ("c", "a"): back}
    assert live.update(frozenset(), Measured(waits_ms=waits)) == (False, True)
    assert live.table_ms("c", 0) == 51.0
    assert live.table_ms("c", 1) == 1.0
    assert live.rest_ms(0b100, 0) == 2.0, "through b"
    assert live.path_ms(("a", "b", "c"), 1) == 2.7
    assert live.path_ms(("c", "a"), 0) == 501.0
    assert live.update(frozenset(), Measured(waits_ms=waits)) == (False, False)
