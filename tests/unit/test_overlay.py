"""The overlay's parts one by one: frames, interest, de-duplication, forwarding, the engine's greeting."""

from __future__ import annotations

import msgspec
import pytest

from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.topics import Contract, Scope, TopicRules
from mangrove.overlay.engine import (
    ChangeSubscriptions,
    DeliverMessages,
    DropMessages,
    OverlayEngine,
    SendFrame,
)
from mangrove.overlay.frames import (
    HEADER,
    MAGIC,
    Digest,
    Frame,
    FrameDecoder,
    FrameError,
    FrameType,
    Hello,
    InterestUpdate,
    control_frame,
)
from mangrove.overlay.interest import InterestDatabase
from mangrove.overlay.local_interest import LocalInterest
from mangrove.overlay.seen_frames import SeenFrames, Verdict
from mangrove.routing.forwarding import shortest_forwarding


def federation(*pairs: tuple[str, str], topics: TopicRules | None = None) -> Federation:
    names = sorted({name for pair in pairs for name in pair})
    return Federation(
        name="test",
        domains={name: Domain(name=name, base_port=1) for name in names},
        links=tuple(Link(between=pair, delay_ms=1) for pair in pairs),
        topics=topics or TopicRules(),
    )


def engine(shape: Federation, domain: str, epoch: int = 1) -> OverlayEngine:
    return OverlayEngine(shape, domain, epoch, shortest_forwarding(domain, shape))


# -- frames -----------------------------------------------------------------------------------------------


def test_garbage_is_refused_at_the_first_byte() -> None:
    with pytest.raises(FrameError, match="garbage"):
        FrameDecoder().feed(b"GET / HTTP/1.1\r\n")


def test_unknown_type_and_excessive_sizes_are_refused() -> None:
    with pytest.raises(FrameError, match="unknown frame type 99"):
        FrameDecoder().feed(HEADER.pack(MAGIC, 99, 1, 0, 0, 0, 0, 0, 0))
    with pytest.raises(FrameError, match="beyond the limits"):
        FrameDecoder().feed(HEADER.pack(MAGIC, FrameType.DATA, 1, 2**31, 0, 0, 0, 0, 0))


def test_a_truncated_frame_is_noticed() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(Frame(FrameType.DATA, b"body").encode()[:-1]) == []
    assert decoder.held_bytes == HEADER.size + 3


def test_malformed_control_bodies_are_refused() -> None:
    peer = engine(federation(("a", "b")), "a")
    for frame_type in (FrameType.INTEREST, FrameType.DIGEST, FrameType.GOODBYE, FrameType.HELLO):
        with pytest.raises(FrameError, match="malformed"):
            peer.receive("b", Frame(frame_type, b"\xc1not msgpack"))


# -- greeting ---------------------------------------------------------------------------------------------


def test_a_peer_of_the_same_federation_is_greeted() -> None:
    shape = federation(("a", "b"))
    assert engine(shape, "a").greet(engine(shape, "b").hello(), None) == "b"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"protocol": 99}, "protocol 99"),
        ({"federation": "other"}, "federation 'other'"),
        ({"topology": "0" * 24}, "another federation file"),
        ({"domain": "c"}, "no link between 'a' and 'c'"),
        ({"domain": "a"}, "no link between 'a' and 'a'"),
    ],
)
def test_strangers_are_refused_with_the_reason(change: dict[str, object], reason: str) -> None:
    shape = federation(("a", "b"), ("b", "c"))
    fields: dict[str, object] = {
        "protocol": 1,
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


def test_duplicates_stale_epochs_and_old_frames() -> None:
    seen = SeenFrames(window=4)
    assert seen.check(0, 1, 1) is Verdict.NEW
    assert seen.check(0, 1, 1) is Verdict.DUPLICATE
    assert seen.check(1, 1, 1) is Verdict.NEW, "origins are apart"
    assert seen.check(0, 2, 1) is Verdict.NEW, "a restarted origin is not taken for a replay"
    assert seen.check(0, 1, 2) is Verdict.STALE_EPOCH
    assert seen.check(0, 2, 100) is Verdict.NEW
    assert seen.check(0, 2, 97) is Verdict.NEW
    assert seen.check(0, 2, 96) is Verdict.TOO_OLD


def learn(receiver: OverlayEngine, author: str, subjects: list[str], peer: str) -> list[object]:
    snapshot = InterestUpdate(origin=author, epoch=1, version=1, snapshot=True, added=subjects)
    return list(receiver.receive(peer, control_frame(snapshot)))


def test_a_message_goes_to_those_who_want_it() -> None:
    shape = federation(
        ("a", "b"), ("b", "c"), topics=TopicRules((Contract(match="home.>", scope=Scope.DOMAIN),))
    )
    source = engine(shape, "a")
    assert ChangeSubscriptions(("x.*",), ()) in learn(source, "c", ["x.*"], "b")
    assert source.flows.flow_of("y") is None
    assert source.flows.flow_of("home.x") is None
    flow = source.flows.flow_of("x.1")
    assert flow is not None
    flow.take(b"LMSG x.1 0\r\n\r\n")
    (sent,) = source.flush()
    assert isinstance(sent, SendFrame)
    assert (sent.peer, sent.frame.destinations) == ("b", 0b100)
    transit = engine(shape, "b")
    (forwarded,) = transit.receive("a", sent.frame)
    assert isinstance(forwarded, SendFrame)
    assert (forwarded.peer, forwarded.frame.hop_limit) == ("c", sent.frame.hop_limit - 1)
    destination = engine(shape, "c")
    assert destination.receive("b", forwarded.frame) == [DeliverMessages(forwarded.frame)]
    assert destination.receive("b", forwarded.frame) == [], "the same frame again is a duplicate"
    assert destination.verdicts[Verdict.DUPLICATE] == 1


def test_frames_with_no_way_on_are_counted() -> None:
    shape = federation(("a", "b"), ("b", "c"))
    transit = engine(shape, "b")
    worn_out = Frame(FrameType.DATA, b"", 1, 0, 0, 1, 1, 0b100)
    assert transit.receive("a", worn_out) == [DropMessages(worn_out, "hop limit reached")]
    own = Frame(FrameType.DATA, b"", 5, 1, 0, 1, 1, 0b100)
    assert transit.receive("a", own) == [DropMessages(own, "returned to its origin")]
    with pytest.raises(FrameError, match="unknown here"):
        transit.receive("a", Frame(FrameType.DATA, b"", 5, 0, 0, 1, 1, 1 << 40))
    islands = federation(("a", "b"), ("c", "d"))
    cut_off = Frame(FrameType.DATA, b"", 5, 0, 0, 1, 1, 0b100)
    assert engine(islands, "b").receive("a", cut_off) == [
        DropMessages(cut_off.towards(0b100), "no path to destination")
    ]


def test_subscriptions_are_shared_between_domains() -> None:
    shape = federation(("a", "b"), ("a", "c"))
    hub = engine(shape, "a")
    assert ChangeSubscriptions(("x",), ()) in learn(hub, "b", ["x"], "b")
    assert ChangeSubscriptions((), ()) in learn(hub, "c", ["x"], "c")
    gone = InterestUpdate(origin="b", epoch=1, version=2, snapshot=False, added=[], removed=["x"])
    assert ChangeSubscriptions((), ()) in hub.receive("b", control_frame(gone))
    gone = InterestUpdate(origin="c", epoch=1, version=2, snapshot=False, added=[], removed=["x"])
    assert ChangeSubscriptions((), ("x",)) in hub.receive("c", control_frame(gone))
    assert hub.subscribed == []


def test_domain_scoped_interest_is_not_advertised() -> None:
    rules = TopicRules((Contract(match="plant.>", scope=Scope.DOMAIN),))
    own = engine(federation(("a", "b"), topics=rules), "a")
    own.peer_up("b")
    assert own.change_local_interest(["plant.x"], []) == []
    (flooded,) = own.change_local_interest(["other"], [])
    assert isinstance(flooded, SendFrame)


# -- forwarding -------------------------------------------------------------------------------------------


def test_shortest_paths_prefer_the_cheaper_detour() -> None:
    shape = federation(("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"))
    costs = dict(zip(("ab", "bc", "ac", "cd"), (1.0, 1.0, 5.0, 1.0), strict=True))
    links = tuple(Link(between=link.between, delay_ms=costs["".join(link.between)]) for link in shape.links)
    shape = msgspec.structs.replace(shape, links=links)
    assert shortest_forwarding("a", shape).split(0b1110) == (("b", 0b1110),)
    fewer = msgspec.structs.replace(shape, links=links[2:])
    assert shortest_forwarding("a", fewer).split(0b1110) == (("c", 0b1100),)
    assert shortest_forwarding("a", fewer).reachable() == 0b1100
