"""Engines with keys: each control message is believed from its origin alone, and the story names the liar."""

from __future__ import annotations

import msgspec
import pytest
from tests.kit.engines import federation, report
from tests.kit.signed_engines import (
    BEGAN_NS,
    SECOND_NS,
    SQUARE,
    Clock,
    KeyBook,
    refused,
    sent_to,
)

from mangrove.model.questions.endangered import MAX_REGIONS, AvoidRequest
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import DeliverMessages, DropMessages, Instruction, SendFrame
from mangrove.overlay.interest.interest_database import MAX_ASSEMBLIES
from mangrove.overlay.protocol.control_messages import (
    DangerNotice,
    Digest,
    Goodbye,
    InterestUpdate,
    LinkReport,
    LinkStateAck,
    LinkStateAd,
    RouteAck,
    RouteSetup,
    RouteTeardown,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import Frame, FrameError, FrameType, Predecessor
from mangrove.overlay.protocol.signed import Signed
from mangrove.overlay.protocol.signed_bodies import signed_frame, signed_message
from mangrove.overlay.routes.transit_labels import LINGER_S
from mangrove.overlay.sides.data_side import MISPLACED
from mangrove.overlay.trust.frame_tags import content, tags_for
from mangrove.overlay.trust.notary import MAX_APART_S
from mangrove.overlay.trust.refusals import BURST

DOWN, UP = report(up=False), report()


@pytest.fixture
def book() -> KeyBook:
    return KeyBook()


@pytest.fixture
def reader(book: KeyBook) -> OverlayEngine:
    """The gateway of a; its neighbours are b and d, and c is behind both."""
    return book.engine("a")


def tell(engine: OverlayEngine, peer: str, frame: Frame, now: float = 1.0) -> list[Instruction]:
    return engine.receive(peer, frame, now)


def introduce(book: KeyBook, engine: OverlayEngine, *names: str) -> None:
    """Let the gateway hear of the lives of others."""
    for name in names:
        neighbours = {link.other(name): UP for link in SQUARE.links_of(name)}
        tell(engine, "b", book.ad(name, 1, neighbours), 0.5)


# -- link state -------------------------------------------------------------------------------------------


def test_what_its_origin_has_signed_is_believed_and_passed_on_as_it_was_signed(
    book: KeyBook, reader: OverlayEngine
) -> None:
    frame = book.ad("c", b=DOWN, d=UP)
    instructions = tell(reader, "b", frame)
    assert reader.failed_links == {("b", "c")}
    (passed,) = [body for body in sent_to("d", instructions) if isinstance(body, Signed)]
    assert passed == control_body(frame)
    assert any(isinstance(body, LinkStateAck) for body in sent_to("b", instructions))
    assert not refused(reader)
    assert reader.credential_of("c") == book.keys["c"].credential


@pytest.mark.parametrize("by", ["b", "a", "d"])
def test_link_state_in_anothers_name_is_refused(book: KeyBook, reader: OverlayEngine, by: str) -> None:
    tell(reader, "b", book.ad("c", by=by, b=DOWN, d=DOWN))
    assert not reader.failed_links
    (event,) = refused(reader)
    assert (event.peer, event.origin, event.what) == ("b", "c", "link state")
    assert "has not signed it" in event.reason
    assert any("link state from b in the name of c" in what for what in reader.status(1.0).ignored)


def test_altered_words_are_refused(book: KeyBook, reader: OverlayEngine) -> None:
    signed = control_body(book.ad("c", b=UP, d=UP))
    assert isinstance(signed, Signed)
    told = signed_message(FrameType.LINK_STATE, signed)
    other = msgspec.structs.replace(told, links={"b": DOWN})
    forged = msgspec.structs.replace(signed, said=msgspec.msgpack.encode(other))
    tell(reader, "b", signed_frame(FrameType.LINK_STATE, forged))
    later = msgspec.structs.replace(signed, at_ns=signed.at_ns + 1)
    tell(reader, "b", signed_frame(FrameType.LINK_STATE, later))
    assert not reader.failed_links
    assert len(list(reader.evidence())) == 0


def test_unsigned_link_state_is_refused(reader: OverlayEngine) -> None:
    ad = LinkStateAd(origin="c", epoch=BEGAN_NS, sequence=1, links={"b": DOWN})
    tell(reader, "b", control_frame(ad))
    assert not reader.failed_links
    assert "not signed" in refused(reader)[0].reason


@pytest.mark.parametrize("links", [{"a": DOWN}, {"nowhere": DOWN}])
def test_nobody_tells_of_links_that_are_not_its_own(
    book: KeyBook, reader: OverlayEngine, links: dict[str, LinkReport]
) -> None:
    tell(reader, "b", book.ad("c", 1, links))
    assert not reader.failed_links
    assert "cannot say this" in refused(reader)[0].reason


def test_what_is_known_costs_no_signature(book: KeyBook, reader: OverlayEngine) -> None:
    frame = book.ad("c", b=UP, d=UP)
    tell(reader, "b", frame)
    verified = book.verified
    for _ in range(5):
        tell(reader, "d", frame)
    assert book.verified == verified


def test_who_brings_too_much_that_is_wrong_costs_little(book: KeyBook, reader: OverlayEngine) -> None:
    for sequence in range(1, 200):
        tell(reader, "b", book.ad("c", sequence, by="b", b=DOWN))
    assert book.verified == BURST
    tell(reader, "d", book.ad("c", 200, b=DOWN))
    assert reader.failed_links == {("b", "c")}, "what an honest neighbour brings is believed meanwhile"


# -- replay -----------------------------------------------------------------------------------------------


def test_an_old_number_is_no_news(book: KeyBook, reader: OverlayEngine) -> None:
    old, new = book.ad("c", 1, b=DOWN), book.ad("c", 2, b=UP)
    tell(reader, "b", new)
    tell(reader, "b", old)
    tell(reader, "d", book.ad("c", 9, life=-5, b=DOWN))
    assert not reader.failed_links


def test_the_last_word_of_a_dead_gateway_is_believed_for_a_while_only(book: KeyBook) -> None:
    last = book.ad("c", 7, b=DOWN, d=UP)
    book.clock.advance(MAX_APART_S - 1)
    soon = book.engine("a")
    tell(soon, "b", last)
    assert soon.failed_links == {("b", "c")}
    book.clock.advance(2)
    late = book.engine("a")
    tell(late, "b", last)
    assert not late.failed_links
    assert "too long ago" in refused(late)[0].reason


def test_clocks_matter_at_the_beginning_of_a_life_alone(book: KeyBook, reader: OverlayEngine) -> None:
    """A gateway whose clock stands still, or is set wrong, goes on being believed."""
    tell(reader, "b", book.ad("c", 1, b=UP))
    next_one = book.ad("c", 2, b=DOWN)
    book.clock.advance(10 * MAX_APART_S)
    tell(reader, "b", next_one)
    assert reader.failed_links == {("b", "c")}


def test_a_clock_that_is_far_ahead_is_refused_and_named(book: KeyBook) -> None:
    ahead = Clock()
    ahead.advance(3600)
    signed = book.trust("c", ahead).signed(
        msgspec.msgpack.encode(LinkStateAd(origin="c", epoch=BEGAN_NS, sequence=1, links={"b": DOWN}))
    )
    reader = book.engine("a")
    tell(reader, "b", signed_frame(FrameType.LINK_STATE, signed))
    assert not reader.failed_links
    assert "-3600 s ago" in refused(reader)[0].reason


def test_a_later_life_of_the_own_domain_is_told_apart_from_a_lie(
    book: KeyBook, reader: OverlayEngine
) -> None:
    tell(reader, "b", book.ad("a", 1, life=5, b=DOWN))
    tell(reader, "b", book.ad("a", 1, life=6, by="b", b=DOWN))
    true, false = refused(reader)
    assert "later life of this domain" in true.reason
    assert "has not signed it" in false.reason
    assert not reader.failed_links


# -- interest ---------------------------------------------------------------------------------------------


def wants(book: KeyBook, reader: OverlayEngine) -> None:
    """c wants x and y."""
    introduce(book, reader, "c")
    tell(reader, "b", control_frame(book.update("c", 1, ["x", "y"], snapshot=True)))
    assert reader.wanted_elsewhere() == ["x", "y"]


def test_changes_and_tables_are_believed_if_signed(book: KeyBook, reader: OverlayEngine) -> None:
    wants(book, reader)
    change = book.update("c", 2, ["z"], removed=["x"], table=["y", "z"])
    passed = tell(reader, "b", control_frame(change))
    assert reader.wanted_elsewhere() == ["y", "z"]
    assert change in sent_to("d", passed)
    answer = tell(reader, "d", control_frame(Digest(known={})))
    (told,) = [
        body for body in sent_to("d", answer) if isinstance(body, InterestUpdate) and body.origin == "c"
    ]
    assert told.statement == change.statement, "a table is proven by the last statement"
    reader.validate()


def test_a_change_that_does_not_lead_to_the_table_signed_with_it_is_refused(
    book: KeyBook, reader: OverlayEngine
) -> None:
    """Else who believes its origin would pass on a table that all others take for forged, and be blamed."""
    wants(book, reader)
    for removed in ([], ["x"], ["z"]):
        odd = book.update("c", 2, ["z"], removed=removed, table=["x", "other"])
        passed = tell(reader, "b", control_frame(odd))
        assert not [body for body in sent_to("d", passed) if isinstance(body, InterestUpdate)]
        assert reader.wanted_elsewhere() == ["x", "y"]
        reader.validate()
    assert {(event.peer, event.origin) for event in refused(reader)} == {("b", "c")}
    tell(reader, "b", control_frame(book.update("c", 2, ["z"], removed=["x"], table=["y", "z"])))
    assert reader.wanted_elsewhere() == ["y", "z"], "what was refused has left no trace"
    reader.validate()


def test_interest_in_anothers_name_is_refused(book: KeyBook, reader: OverlayEngine) -> None:
    wants(book, reader)
    true = book.update("c", 2, ["z"], table=["x", "y", "z"])
    lies = [
        book.update("c", 2, ["lie"], table=["x", "y", "lie"], by="b"),
        msgspec.structs.replace(true, added=["lie"]),
        msgspec.structs.replace(true, removed=["x"]),
        msgspec.structs.replace(true, version=3),
        msgspec.structs.replace(true, statement=None),
        msgspec.structs.replace(true, snapshot=True, added=["x", "y", "z", "lie"]),
        msgspec.structs.replace(true, snapshot=True, added=["x", "y"]),
    ]
    for lie in lies:
        tell(reader, "b", control_frame(lie))
        assert reader.wanted_elsewhere() == ["x", "y"]
    assert {(event.peer, event.origin) for event in refused(reader)} == {("b", "c")}
    tell(reader, "d", control_frame(true))
    assert reader.wanted_elsewhere() == ["x", "y", "z"]
    reader.validate()


def test_a_statement_of_one_kind_does_not_pass_for_another(book: KeyBook, reader: OverlayEngine) -> None:
    signed = book.update("c", 1, ["x"]).statement
    assert signed is not None
    tell(reader, "b", signed_frame(FrameType.LINK_STATE, signed))
    (event,) = refused(reader)
    assert "cannot say this" in event.reason


def test_words_that_cannot_be_read_do_not_cut_off_who_hands_them_on(
    book: KeyBook, reader: OverlayEngine
) -> None:
    """Whether they can be read may depend on the reader: an honest neighbour may have believed them."""
    said = b"\x92\xaalink_state" + b"\x91" * 5_000 + b"\xc0"
    for frame_type in (FrameType.LINK_STATE, FrameType.ROUTE, FrameType.VERSIONS):
        signed = Signed(said=said, at_ns=BEGAN_NS, signature=b"s" * 64, credential=b"c")
        assert tell(reader, "b", signed_frame(frame_type, signed)) == []
    assert {event.peer for event in refused(reader)} == {"b"}
    with pytest.raises(FrameError, match="malformed"):
        tell(reader, "b", Frame(FrameType.GOODBYE, b"\x81\xa4deep" + b"\x91" * 5_000 + b"\xc0"))


def test_an_origin_that_wants_what_nobody_may_want_is_refused_whole(
    book: KeyBook, reader: OverlayEngine
) -> None:
    wants(book, reader)
    tell(reader, "b", control_frame(book.update("c", 2, ["good", "$SYS.>"])))
    assert reader.wanted_elsewhere() == ["x", "y"]
    assert "cannot say this" in refused(reader)[0].reason


def test_an_honest_gateway_does_not_sign_what_others_would_refuse(book: KeyBook) -> None:
    author, reader = book.engine("b"), book.engine("a")
    tell(reader, "b", book.ad("b", a=UP, c=UP))
    for subject in ("good", "$JS.API.x", "bad subject here"):
        author.change_local_interest(subject, "", True)
    for body in sent_to("a", author.flush(1.0)):
        tell(reader, "b", control_frame(body))
    # There was no base for the change: the whole table is asked for and comes.
    digest = control_frame(Digest(known={}))
    for body in sent_to("a", author.receive("a", digest, 1.0)):
        if isinstance(body, InterestUpdate):
            tell(reader, "b", control_frame(body))
    assert reader.wanted_elsewhere() == ["good"]
    assert not refused(reader)
    author.validate()


def test_interest_waits_for_the_life_of_its_gateway(book: KeyBook, reader: OverlayEngine) -> None:
    """What comes before the advertisement is not believed, and asked for when that has come."""
    table = control_frame(book.update("c", 1, ["x"], snapshot=True))
    tell(reader, "b", table)
    assert reader.wanted_elsewhere() == []
    instructions = tell(reader, "d", book.ad("c", b=UP, d=UP))
    assert any(isinstance(body, Digest) for body in sent_to("b", instructions))
    tell(reader, "b", table)
    assert reader.wanted_elsewhere() == ["x"]
    assert not refused(reader)


def test_interest_of_a_life_that_is_over_is_not_brought_back(book: KeyBook) -> None:
    """A gateway that has just started is told of a dead one's interest, which all others forgot."""
    reader = book.engine("a")
    old = control_frame(book.update("c", 3, ["old"], snapshot=True, life=-SECOND_NS))
    tell(reader, "b", old)
    introduce(book, reader, "c")
    tell(reader, "b", old)
    assert reader.wanted_elsewhere() == []


def test_boasting_neighbours_learn_nothing_and_hide_nothing(book: KeyBook, reader: OverlayEngine) -> None:
    wants(book, reader)
    boast = control_frame(Digest(known=dict.fromkeys("abcd", (1 << 62, 1 << 62))))
    assert sent_to("b", tell(reader, "b", boast)) == []
    change = control_frame(book.update("c", 2, ["z"], table=["x", "y", "z"]))
    tell(reader, "d", change)
    assert reader.wanted_elsewhere() == ["x", "y", "z"]


def test_new_keys_sign_everything_anew(book: KeyBook) -> None:
    author, reader = book.engine("b"), book.engine("a")
    tell(reader, "b", book.ad("b", a=UP, c=UP))
    author.change_local_interest("x", "", True)
    author.flush(1.0)
    told = author.renew_keys(book.renew("b"), 2.0)
    bodies = sent_to("a", told)
    assert any(isinstance(body, Signed) for body in bodies), "the link state is told again"
    fresh = book.engine("a")
    for each in [*told, *author.receive("a", control_frame(Digest(known={})), 2.0)]:
        if isinstance(each, SendFrame) and each.peer == "a":
            tell(fresh, "b", each.frame, 2.0)
    assert fresh.wanted_elsewhere() == ["x"]
    assert not refused(fresh)


# -- routes -----------------------------------------------------------------------------------------------

PATH = ["b", "a", "d"]


def setup(version: int = 1, path: list[str] | None = None, **more: object) -> RouteSetup:
    origin = (path or PATH)[0]
    found = RouteSetup(
        origin=origin, epoch=BEGAN_NS, label=1, path=path or PATH, version=version, topic_class=0
    )
    return msgspec.structs.replace(found, **more)


def test_a_set_up_goes_on_as_its_origin_signed_it(book: KeyBook, reader: OverlayEngine) -> None:
    frame = signed_frame(FrameType.ROUTE, book.signed("b", setup()))
    assert control_body(frame) in sent_to("d", tell(reader, "b", frame))
    assert list(reader.transit_routes()) == [("b", BEGAN_NS, 1, 1, tuple(PATH))]


def test_set_ups_with_a_false_origin_are_refused(book: KeyBook, reader: OverlayEngine) -> None:
    path = ["c", "b", "a", "d"]
    for frame in (
        signed_frame(FrameType.ROUTE, book.signed("b", setup(path=path))),
        control_frame(setup(path=path)),
        signed_frame(FrameType.ROUTE, book.signed("b", setup(path=["c", "d", "a"]))),
    ):
        assert tell(reader, "b", frame) == []
    assert list(reader.transit_routes()) == []
    assert {event.origin for event in refused(reader)} == {"c"}


def test_an_old_set_up_is_not_brought_back(book: KeyBook, reader: OverlayEngine) -> None:
    frame = signed_frame(FrameType.ROUTE, book.signed("b", setup()))
    book.clock.advance(MAX_APART_S + 1)
    tell(reader, "b", frame)
    assert list(reader.transit_routes()) == []


def test_only_the_next_hop_answers(book: KeyBook, reader: OverlayEngine) -> None:
    tell(reader, "b", signed_frame(FrameType.ROUTE, book.signed("b", setup())))
    answer = RouteAck(origin="b", epoch=BEGAN_NS, label=1, path=PATH, version=1, ok=True)
    assert tell(reader, "b", control_frame(answer)) == []
    assert refused(reader)[0].what == "route"
    assert answer in sent_to("b", tell(reader, "d", control_frame(answer)))


def test_only_who_is_before_on_the_path_tears_down_and_only_what_stands(
    book: KeyBook, reader: OverlayEngine
) -> None:
    tell(reader, "b", signed_frame(FrameType.ROUTE, book.signed("b", setup())))
    tell(
        reader,
        "d",
        control_frame(RouteAck(origin="b", epoch=BEGAN_NS, label=1, path=PATH, version=1, ok=True)),
    )
    end = RouteTeardown(origin="b", epoch=BEGAN_NS, label=1, path=PATH, version=1)
    assert tell(reader, "d", control_frame(end)) == []
    later = msgspec.structs.replace(end, version=99)
    assert tell(reader, "b", control_frame(later)) == []
    assert end in sent_to("d", tell(reader, "b", control_frame(end)))


def test_a_route_torn_down_by_a_hop_before_loses_nothing_and_comes_back(
    book: KeyBook, reader: OverlayEngine
) -> None:
    """All that a hostile transit gains is less than it can have by silence (0152)."""
    answer = RouteAck(origin="b", epoch=BEGAN_NS, label=1, path=PATH, version=1, ok=True)
    introduce(book, reader, "b")

    def establish(now: float) -> None:
        tell(reader, "b", signed_frame(FrameType.ROUTE, book.signed("b", setup())), now)
        tell(reader, "d", control_frame(answer), now)
        assert [route[4] for route in reader.transit_routes()] == [tuple(PATH)]

    establish(1.0)
    end = RouteTeardown(origin="b", epoch=BEGAN_NS, label=1, path=PATH, version=1)
    tell(reader, "b", control_frame(end), 1.0)
    gone = 1.0 + LINGER_S + 0.1
    reader._labels.expire(gone)
    assert list(reader.transit_routes()) == []
    passed = tell(reader, "b", data("b", "d", label=1), gone)
    assert not any(isinstance(each, DropMessages) for each in passed)
    frame = reader.pull("d", gone)
    assert frame is not None, "it goes by table"
    assert frame.label == 0
    establish(gone)


# -- data -------------------------------------------------------------------------------------------------


def data(origin: str, destination: str, **more: int) -> Frame:
    order = SQUARE.domain_order
    return Frame(
        FrameType.DATA,
        b"body",
        hop_limit=8,
        origin=order.index(origin),
        epoch=more.get("epoch", BEGAN_NS),
        destinations=1 << order.index(destination),
        label=more.get("label", 0),
        flow_id=1,
        sequence=1,
    )


def test_nothing_is_delivered_in_the_name_of_the_receiver(reader: OverlayEngine) -> None:
    assert any(
        isinstance(each, DropMessages) and each.reason == MISPLACED
        for each in tell(reader, "b", data("a", "a"))
    )
    assert refused(reader)[0].what == "data"


def test_own_frames_that_come_back_go_on_as_they_were(book: KeyBook, reader: OverlayEngine) -> None:
    """A repair on the way may lead through the origin; but others may not speak through it."""
    introduce(book, reader, "d")
    own = tagged(book, data("a", "d"))
    changed = msgspec.structs.replace(own, body=b"another")
    assert not any(isinstance(each, DropMessages) for each in tell(reader, "b", own))
    for false in (
        changed,
        data("a", "d"),
        tagged(book, data("a", "d"), by="b"),
        tagged(book, data("a", "d", epoch=BEGAN_NS + 1)),
    ):
        assert any(isinstance(each, DropMessages) for each in tell(reader, "b", false))


def test_who_is_told_by_the_origin_itself_needs_no_tag(book: KeyBook, reader: OverlayEngine) -> None:
    introduce(book, reader, "b")
    assert not delivered(tell(reader, "d", data("b", "a")))
    assert delivered(tell(reader, "b", data("b", "a")))


def test_tags_are_for_those_beyond_the_neighbour(book: KeyBook, reader: OverlayEngine) -> None:
    introduce(book, reader, "b", "c", "d")
    notary = reader._notary
    both = msgspec.structs.replace(data("a", "b"), destinations=0b1110)
    assert notary.with_tags(data("a", "b"), "b").tags == ()
    assert [tag.destination for tag in notary.with_tags(both, "b").tags] == [2, 3]
    assert [tag.destination for tag in notary.with_tags(both, "d").tags] == [1, 2]
    assert notary.with_tags(both, "b").tags[0] == notary.with_tags(both, "d").tags[1]
    jobs = msgspec.structs.replace(data("a", "b"), type=FrameType.JOBS)
    assert [tag.destination for tag in notary.with_tags(jobs, "b").tags] == [1]
    assert notary.with_tags(notary.with_tags(both, "b"), "d").tags != ()
    assert {tag.destination for tag in notary.with_tags(notary.with_tags(both, "b"), "d").tags} == {1, 2, 3}


def test_frames_under_a_label_come_from_where_its_set_up_came(book: KeyBook, reader: OverlayEngine) -> None:
    for path in (PATH, ["b", "a"]):
        tell(reader, "b", signed_frame(FrameType.ROUTE, book.signed("b", setup(path=path, label=len(path)))))
    introduce(book, reader, "b")
    for label, destination in ((3, "d"), (2, "a")):
        good = tell(reader, "b", tagged(book, data("b", destination, label=label)))
        bad = tell(reader, "d", tagged(book, data("b", destination, label=label)))
        assert not any(isinstance(each, DropMessages) for each in good)
        assert any(isinstance(each, DropMessages) and each.reason == MISPLACED for each in bad)
    unknown = tell(reader, "d", tagged(book, data("b", "a", label=9)))
    assert not any(isinstance(each, DropMessages) for each in unknown)


def tagged(book: KeyBook, frame: Frame, by: str = "") -> Frame:
    """A frame as its origin sends it, or as another does in its name."""
    origin = by or SQUARE.domain_order[frame.origin]
    places = [place for place in range(4) if frame.destinations >> place & 1]
    credentials = {place: book.keys[SQUARE.domain_order[place]].credential for place in places}
    return msgspec.structs.replace(
        frame, tags=tags_for(frame, content(frame), credentials, book.trust(origin))
    )


def delivered(instructions: list[Instruction]) -> bool:
    return any(isinstance(each, DeliverMessages) for each in instructions)


def test_a_message_is_delivered_in_the_name_of_who_sent_it_alone(
    book: KeyBook, reader: OverlayEngine
) -> None:
    introduce(book, reader, "c")
    true = tagged(book, data("c", "a"))
    lies = [
        data("c", "a"),
        tagged(book, data("c", "a"), by="b"),
        *(
            msgspec.structs.replace(true, **change)
            for change in (
                {"body": b"else"},
                {"sequence": 2},
                {"flow_id": 2},
                {"epoch": BEGAN_NS + 1},
                {"topic_class": 1},
                {"type": FrameType.JOBS},
                {"predecessors": (Predecessor(7, 1, 1),)},
                {"origin": SQUARE.domain_order.index("d")},
            )
        ),
    ]
    for lie in lies:
        assert not delivered(tell(reader, "b", lie)), lie
    assert refused(reader)[0].what == "data"
    on_the_way = msgspec.structs.replace(true, hop_limit=3, age_us=7, way=9)
    assert delivered(tell(reader, "b", on_the_way)), "what changes on the way is no lie"


def test_nobody_pushes_true_frames_out_of_the_window(book: KeyBook, reader: OverlayEngine) -> None:
    """A frame far ahead in the same flow would make the next ones look like old duplicates."""
    introduce(book, reader, "c")
    for number in range(1, 20):
        frame = msgspec.structs.replace(data("c", "a"), sequence=number)
        ahead = msgspec.structs.replace(frame, sequence=number + (1 << 40))
        assert not delivered(tell(reader, "b", ahead))
        assert delivered(tell(reader, "d", tagged(book, frame)))


def test_frames_that_were_under_way_when_keys_changed_are_delivered(
    book: KeyBook, reader: OverlayEngine
) -> None:
    introduce(book, reader, "c")
    before = tagged(book, data("c", "a"))
    book.renew("c")
    tell(reader, "b", book.ad("c", 2, b=UP, d=UP))
    after = tagged(book, msgspec.structs.replace(data("c", "a"), sequence=2))
    assert delivered(tell(reader, "d", before))
    assert delivered(tell(reader, "b", after))
    assert reader.credential_of("c") == book.keys["c"].credential


def test_engines_tag_what_they_send(book: KeyBook, reader: OverlayEngine) -> None:
    wants(book, reader)
    (route,) = reader.route("x")
    route.flow.take(b"message")
    reader.flush(2.0)
    frames = [frame for peer in ("b", "d") if (frame := reader.pull(peer, 2.0)) is not None]
    (sent,) = [frame for frame in frames if frame.type is FrameType.DATA]
    receiver = book.engine("c")
    tell(receiver, "b", book.ad("a", b=UP, d=UP))
    assert delivered(tell(receiver, "b", sent))


# -- regions and goodbyes ---------------------------------------------------------------------------------


def notice(**more: object) -> DangerNotice:
    found = DangerNotice(
        name="storm", version=BEGAN_NS, told_at="c", centre=(0.0, 0.0), radius_km=10.0, left_s=7200.0
    )
    return msgspec.structs.replace(found, **more)


def danger(book: KeyBook, told: DangerNotice, by: str = "c", left_s: float | None = None) -> Frame:
    signed = msgspec.structs.replace(book.signed(by, told), left_s=left_s)
    return signed_frame(FrameType.LINK_STATE, signed)


def test_regions_are_endangered_by_whom_was_told_alone(book: KeyBook, reader: OverlayEngine) -> None:
    tell(reader, "b", danger(book, notice(), by="b"))
    tell(reader, "b", control_frame(notice()))
    tell(reader, "b", danger(book, notice(version=1 << 62)))
    assert not reader.endangered(1.0)
    assert len(refused(reader)) == 3
    instructions = tell(reader, "b", danger(book, notice(), left_s=6000.0))
    (region,) = reader.endangered(1.0)
    assert (region.told_at, round(region.left_s)) == ("c", 6900), "as much as clocks that agree allow"
    assert any(isinstance(body, Signed) for body in sent_to("d", instructions))


def test_who_passes_a_notice_on_cannot_make_it_end(book: KeyBook, reader: OverlayEngine) -> None:
    short = notice(left_s=200.0)
    tell(reader, "b", danger(book, short, left_s=0.0))
    assert not reader.endangered(1.0)
    tell(reader, "d", danger(book, short, left_s=199.0))
    (region,) = reader.endangered(1.0)
    assert round(region.left_s) == 199
    tell(reader, "b", danger(book, short, left_s=0.0))
    assert reader.endangered(1.0)


def test_an_old_end_does_not_end_a_region_that_is_declared_again() -> None:
    shape = msgspec.structs.replace(
        SQUARE,
        domains={
            name: msgspec.structs.replace(domain, location=(float(place), 0.0))
            for place, (name, domain) in enumerate(SQUARE.domains.items())
        },
    )
    book = KeyBook(shape)
    author, reader = book.engine("b"), book.engine("a")
    declared = AvoidRequest(name="storm", centre=(0.0, 0.0), radius_km=10.0, for_s=20.0)
    author.avoid(declared, 1.0)
    (ended,) = [
        each.frame
        for each in author.avoid(AvoidRequest(name="storm"), 2.0)
        if isinstance(each, SendFrame) and each.peer == "a" and isinstance(control_body(each.frame), Signed)
    ]
    book.clock.advance(200)
    author.handle_timer(200.0)
    for each in author.avoid(declared, 200.0):
        if isinstance(each, SendFrame) and each.peer == "a":
            tell(reader, "b", each.frame, 200.0)
    assert reader.endangered(200.0)
    tell(reader, "b", ended, 200.0)
    assert reader.endangered(200.0)


def test_a_gateway_is_displaced_only_by_what_its_successor_has_signed(book: KeyBook) -> None:
    """Of two gateways of a domain, a neighbour turns the earlier one away, and proves that it must."""
    earlier, neighbour = book.engine("b"), book.engine("a")
    later = BEGAN_NS + 5
    assert neighbour.goodbye("displaced", "b", later).displaced_by == 0, "nothing proves it yet"
    tell(neighbour, "b", book.ad("b", life=5, a=UP, c=UP))
    true = neighbour.goodbye("displaced", "b", later)
    assert earlier.displacement(true) == later
    assert earlier.displacement(Goodbye(reason="a lie", displaced_by=later)) == 0
    proof = true.proof
    assert earlier.displacement(Goodbye(reason="a lie", displaced_by=later + 1, proof=proof)) == 0
    forged = control_body(book.ad("b", life=9, by="a", a=UP))
    assert isinstance(forged, Signed)
    assert earlier.displacement(Goodbye(reason="a lie", displaced_by=BEGAN_NS + 9, proof=forged)) == 0


def test_a_gateway_without_keys_takes_nothing_signed(book: KeyBook) -> None:
    plain = OverlayEngine(SQUARE, "a", 1)
    plain.peer_up("b", 0.0)
    with pytest.raises(FrameError, match="no keys"):
        tell(plain, "b", book.ad("c", b=DOWN))


def test_malformed_text_closes_the_link_and_nothing_more(reader: OverlayEngine) -> None:
    with pytest.raises(FrameError):
        tell(reader, "b", Frame(FrameType.GOODBYE, b"\x81\xa6reason\xa1\xff"))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_absurd_clocks_of_a_neighbour_are_not_taken_over(reader: OverlayEngine, value: float) -> None:
    """They would be told to the others as the delay of the link, and make honest words malformed."""
    body = msgspec.msgpack.encode(
        {"kind": "regular", "sequence": 2, "sent": 0.0, "received": 0, "echo": value, "held": 0.0}
    )
    with pytest.raises(FrameError):
        tell(reader, "b", Frame(FrameType.HEARTBEAT, body))


def test_one_domain_does_not_use_up_the_room_for_regions(book: KeyBook, reader: OverlayEngine) -> None:
    for number in range(MAX_REGIONS + 5):
        tell(reader, "b", danger(book, notice(name=f"storm-{number}")))
    assert len(reader.endangered(1.0)) == MAX_REGIONS
    tell(reader, "b", danger(book, notice(name="true", told_at="d"), by="d"))
    assert any(region.name == "true" for region in reader.endangered(1.0))


def test_tables_that_are_begun_and_never_ended_are_bounded(book: KeyBook) -> None:
    names = [f"s{number}" for number in range(20)]
    shape = federation(*(("a", name) for name in names))
    book = KeyBook(shape)
    reader = book.engine("a")
    for name in names:
        tell(reader, "s0", book.ad(name, a=UP))
        begun = msgspec.structs.replace(book.update(name, 1, ["x"], snapshot=True), last=False)
        tell(reader, "s0", control_frame(begun))
    assert len(reader._remote.interest._assemblies) == MAX_ASSEMBLIES


def test_one_origin_does_not_use_up_all_labels(
    book: KeyBook, reader: OverlayEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader._labels, "_most_of_one", 10)
    for label in range(1, 15):
        tell(reader, "b", signed_frame(FrameType.ROUTE, book.signed("b", setup(label=label))))
    assert len(list(reader.transit_routes())) == 10
    other = setup(path=["d", "a", "b"])
    tell(reader, "d", signed_frame(FrameType.ROUTE, book.signed("d", other)))
    assert ("d", BEGAN_NS, 1, 1, ("d", "a", "b")) in list(reader.transit_routes())
