"""Second copies at a gateway: taken in at edges, handed out where they are wanted, booked once."""

from __future__ import annotations

from functools import partial
from time import monotonic

import pytest
from tests.kit.access import rule, rules
from tests.kit.attachments import FakeAttachment, Head, identified, message

from mangrove.gateway.mirroring.mirror_plane import UNREADABLE, MirrorPlane
from mangrove.model.access.rules import AccessRules, Action
from mangrove.model.shared_names import MIRROR_AGAIN, MIRROR_PREFIX
from mangrove.model.topics import Contract, Mirror, TopicRules

RULES = TopicRules(
    (
        Contract(match="twice.>", mirror=Mirror.BOTH),
        Contract(match="ready.>", mirror=Mirror.STANDBY),
        Contract(match="limited.>", mirror=Mirror.BOTH, rate_msg_s=1.0),
    )
)
TWICE, READY, ONCE = 0, 1, 3


class Mirrored:
    """A head connection with two edges for second copies, all in memory."""

    def __init__(self, access: AccessRules | None = None) -> None:
        self.edges: dict[str, FakeAttachment] = {}
        self.head = Head(
            rules=RULES, max_message_bytes=200, queue_bytes=100_000, mirrors=self._mirrors, access=access
        )
        self.plane = self._plane
        for edge in self.plane.edges:
            edge.attached()
        self.head.connection.attached()

    def _mirrors(self, head: Head) -> MirrorPlane:
        self._plane = MirrorPlane(
            head.engine,
            {name: partial(self._attach, name) for name in ("edge1", "edge2")},
            head.ledger,
            max_message_bytes=200,
            buffer_done=head._flush,
        )
        return self._plane

    def _attach(self, name: str, owner: object) -> FakeAttachment:
        self.edges[name] = FakeAttachment(owner)  # type: ignore[arg-type]
        return self.edges[name]

    def deliver(self, topic_class: int, *messages: bytes) -> None:
        self.head.connection.deliver(b"".join(messages), topic_class=topic_class)


def numbered(subject: str, count: int, payload: bytes = b"x", reply: str = "") -> bytes:
    return identified(subject, "publisher001", payload, reply).replace(b".%011x" % 1, b".%011x" % count)


def test_whichever_copy_comes_first_leaves_and_is_booked_once() -> None:
    site = Mirrored()
    site.head.wanted_by("b", "twice.x")
    assert site.edges["edge1"].subscribed == [MIRROR_AGAIN, f"{MIRROR_PREFIX}twice.x"]
    first, second = numbered("twice.x", 1), numbered("twice.x", 2)
    site.head.broker.publish(first)
    site.edges["edge2"].publish(
        numbered(f"{MIRROR_PREFIX}twice.x", 1), numbered(f"{MIRROR_PREFIX}twice.x", 2)
    )
    site.head.broker.publish(first, second)
    assert site.head.messages_out() == [first, second]
    site.head.connection.book()
    assert site.head.ledger.sent.topics == {"twice.x": 2}
    assert site.plane.figures().repeated_departing == 3


def test_a_request_that_was_published_twice_is_sent_once() -> None:
    site = Mirrored()
    site.head.wanted_by("b", "twice.x")
    site.edges["edge1"].publish(numbered(f"{MIRROR_PREFIX}twice.x", 1, reply="_INBOX.1"))
    site.head.broker.publish(numbered("twice.x", 1, reply="_INBOX.1"))
    (only,) = site.head.messages_out()
    assert b" _MGR.a._INBOX.1 " in only
    assert site.head.ledger.sent.requests == 1


def test_a_limit_counts_a_message_once_and_a_copy_does_not_slip_by() -> None:
    site = Mirrored()
    site.head.wanted_by("b", "limited.x")
    for number in range(10):
        site.head.broker.publish(numbered("limited.x", number))
        site.edges["edge1"].publish(numbered(f"{MIRROR_PREFIX}limited.x", number))
    out = len(site.head.messages_out())
    assert out < 10
    assert site.head.ledger.sent.topics == {"limited.x": out}
    assert sum(site.head.ledger.dropped.values()) == 10 - out, "each is dropped once"


def test_what_may_not_leave_leaves_by_no_copy_and_is_counted_once() -> None:
    site = Mirrored(rules(rule("may_not", "twice.x", actions=(Action.PUBLISH,))))
    site.head.wanted_by("b", "twice.>")
    site.edges["edge1"].publish(numbered(f"{MIRROR_PREFIX}twice.x", 1))
    site.head.broker.publish(numbered("twice.x", 1), numbered("twice.y", 2))
    assert site.head.messages_out() == [numbered("twice.y", 2)]
    assert [row.count for row in site.head.border_book.figures()] == [1]


def test_what_may_not_enter_reaches_neither_the_head_nor_an_edge() -> None:
    site = Mirrored(rules(rule("may_not", "twice.x", actions=(Action.PUBLISH,), domain="b")))
    site.edges["edge2"].subscribers((f"{MIRROR_PREFIX}twice.*", "", True))
    for origin in ("b", "c"):
        body = numbered("twice.x", 1, origin.encode()) + numbered("twice.y", ord(origin))
        site.head.connection.deliver(body, topic_class=TWICE, origin=origin)
    assert b"".join(site.head.broker.written) == (
        numbered("twice.y", ord("b")) + numbered("twice.x", 1, b"c") + numbered("twice.y", ord("c"))
    )
    copies = b"".join(site.edges["edge2"].written)
    assert (copies.count(b"twice.x "), copies.count(b"twice.y ")) == (1, 2)
    assert [row.count for row in site.head.border_book.figures()] == [1]


@pytest.mark.parametrize(
    "stray",
    [
        numbered(f"{MIRROR_PREFIX}once.x", 1),
        numbered(f"{MIRROR_PREFIX}_INBOX.x", 1),
        numbered(f"{MIRROR_PREFIX}twice.x", 1, b"y" * 200),
        message(f"{MIRROR_PREFIX}twice.x"),
    ],
    ids=["no mirror", "internal", "too large", "without an id"],
)
def test_copies_that_nobody_should_have_made_go_nowhere_and_are_not_booked(stray: bytes) -> None:
    site = Mirrored()
    site.head.wanted_by("b", ">")
    site.edges["edge1"].publish(stray)
    site.head.connection.book()
    assert site.head.messages_out() == []
    assert not site.head.ledger.sent.total
    assert not site.head.ledger.dropped


def test_what_arrives_goes_to_the_head_and_to_the_edges_that_want_the_copy() -> None:
    site = Mirrored()
    site.edges["edge2"].subscribers((f"{MIRROR_PREFIX}twice.*", "", True))
    arrived = numbered("twice.x", 1) + numbered("twice.x", 2)
    site.deliver(TWICE, arrived)
    site.deliver(TWICE, arrived)
    assert b"".join(site.head.broker.written) == arrived, "once, though it came by two ways"
    copies = numbered(f"{MIRROR_PREFIX}twice.x", 1) + numbered(f"{MIRROR_PREFIX}twice.x", 2)
    assert site.edges["edge2"].written == [copies]
    assert site.edges["edge1"].written == []
    site.head.connection.book()
    assert site.head.ledger.delivered.topics == {"twice.x": 2}
    assert site.plane.figures().repeated_arriving == 2
    site.edges["edge2"].subscribers((f"{MIRROR_PREFIX}twice.*", "", False))
    site.deliver(TWICE, numbered("twice.x", 3))
    assert len(site.edges["edge2"].written) == 1


def test_copies_are_handed_out_while_the_head_is_away() -> None:
    site = Mirrored()
    site.edges["edge2"].subscribers((f"{MIRROR_PREFIX}twice.x", "", True))
    site.head.broker.subscribers(("twice.x", "", True))
    site.head.connection.lost("killed")
    site.deliver(TWICE, numbered("twice.x", 1))
    assert site.head.broker.written == []
    assert site.edges["edge2"].written == [numbered(f"{MIRROR_PREFIX}twice.x", 1)]


def test_what_has_no_id_arrives_by_the_head_alone_and_every_time() -> None:
    site = Mirrored()
    site.edges["edge1"].subscribers((f"{MIRROR_PREFIX}>", "", True))
    site.deliver(TWICE, message("twice.x"), message("twice.x"))
    assert b"".join(site.head.broker.written) == 2 * message("twice.x")
    assert site.edges["edge1"].written == []


def test_topics_that_are_not_mirrored_are_not_looked_into() -> None:
    site = Mirrored()
    site.edges["edge1"].subscribers((f"{MIRROR_PREFIX}>", "", True))
    body = numbered("once.x", 1) * 2
    site.deliver(ONCE, body)
    assert b"".join(site.head.broker.written) == body
    assert site.edges["edge1"].written == []
    assert not site.plane._arriving_lines.known


def test_a_body_that_cannot_be_read_is_delivered_up_to_there_and_counted_once() -> None:
    site = Mirrored()
    site.deliver(TWICE, numbered("twice.x", 1), numbered("twice.y", 2), b"nonsense\r\n")
    assert b"".join(site.head.broker.written) == numbered("twice.x", 1)
    assert site.head.ledger.history.current.malformed_bodies == 1


def test_an_edge_that_takes_no_more_goes_without_and_that_is_counted() -> None:
    site = Mirrored()
    site.edges["edge1"].subscribers((f"{MIRROR_PREFIX}>", "", True))
    site.plane.edges[0].writable(False)
    site.deliver(TWICE, numbered("twice.x", 1))
    site.plane.edges[0].writable(True)
    site.deliver(TWICE, numbered("twice.x", 2))
    assert site.edges["edge1"].written == [numbered(f"{MIRROR_PREFIX}twice.x", 2)]
    assert site.plane.figures().left_out == 1


def test_on_standby_copies_are_made_when_somebody_asks_and_for_a_while_after() -> None:
    site = Mirrored()
    for edge in site.edges.values():
        edge.subscribers((f"{MIRROR_PREFIX}ready.>", "", True))
    site.deliver(READY, numbered("ready.x", 1), numbered("ready.y", 2))
    assert not any(edge.written for edge in site.edges.values())
    site.edges["edge2"].publish(message(MIRROR_AGAIN, b"ready.x"))
    assert site.edges["edge2"].written == [numbered(f"{MIRROR_PREFIX}ready.x", 1)]
    site.deliver(READY, numbered("ready.y", 3))
    assert site.edges["edge2"].written[1:] == [numbered(f"{MIRROR_PREFIX}ready.y", 3)]
    assert site.edges["edge1"].written == []
    site.plane.edges[1].doubled_until = 0.0
    site.deliver(READY, numbered("ready.y", 4))
    assert len(site.edges["edge2"].written) == 2


@pytest.mark.parametrize("asked", [b"", b"a b", b"\xff", b"x" * 5000, b"..", b">.x"])
def test_a_request_that_cannot_be_read_changes_nothing(asked: bytes) -> None:
    site = Mirrored()
    site.edges["edge2"].subscribers((f"{MIRROR_PREFIX}ready.>", "", True))
    site.deliver(READY, numbered("ready.x", 1))
    site.edges["edge2"].publish(message(MIRROR_AGAIN, asked))
    assert site.edges["edge2"].written == []
    assert site.plane.edges[1].doubled_until < 0
    assert site.head.ledger.ignored == {UNREADABLE: 1}


@pytest.mark.parametrize("how", ["doubted", "lost"])
def test_on_standby_a_head_in_doubt_makes_the_gateway_say_and_ask_again(how: str) -> None:
    site = Mirrored()
    site.head.wanted_by("b", "ready.x", "twice.x")
    site.edges["edge1"].subscribers((f"{MIRROR_PREFIX}ready.x", "", True))
    site.deliver(READY, numbered("ready.x", 1))
    if how == "doubted":
        site.head.connection.doubted(True)
    else:
        site.head.connection.lost("killed")
    assert site.edges["edge1"].written == [
        numbered(f"{MIRROR_PREFIX}ready.x", 1),
        message(MIRROR_AGAIN, b"ready.>"),
    ]
    assert site.edges["edge2"].written == [message(MIRROR_AGAIN, b"ready.>")]


def test_while_the_head_is_in_doubt_messages_wait_for_it() -> None:
    site = Mirrored()
    site.head.connection.doubted(True)
    site.deliver(ONCE, message("once.x"))
    assert site.head.broker.written == []
    site.head.connection.doubted(False)
    assert site.head.broker.written == [message("once.x")]


def test_whoever_holds_on_to_second_copies_is_wanted_for_though_the_head_knows_nobody() -> None:
    site = Mirrored()
    site.head.broker.subscribers(("twice.x", "", True))
    site.edges["edge2"].subscribers((f"{MIRROR_PREFIX}twice.x", "", True))
    site.head.broker.subscribers(("twice.x", "", False))
    assert site.head.interest == [({"twice.x"}, set())], "the primary broker died; nothing is withdrawn"
    site.edges["edge2"].subscribers((f"{MIRROR_PREFIX}twice.x", "", False))
    site.head.after(10)
    assert site.head.interest[1:] == [(set(), {"twice.x"})]
    site.edges["edge1"].subscribers((f"{MIRROR_PREFIX}twice.x", "", True))
    assert site.head.interest[2:] == [({"twice.x"}, set())]
    site.plane.edges[0].lost("killed")
    assert site.head.engine.is_unwanted("twice.x")


def test_subscribers_at_mirrors_are_still_wanted_for_when_the_head_is_given_up() -> None:
    site = Mirrored()
    site.edges["edge2"].subscribers((f"{MIRROR_PREFIX}twice.x", "", True))
    site.head.broker.subscribers(("once.x", "", True))
    site.head.connection.lost("killed")
    site.head.connection.attached(elsewhere=True)
    site.head.after(0.6)
    site.deliver(TWICE, numbered("twice.x", 1))
    assert site.head.broker.written == [numbered("twice.x", 1)]
    site.head.after(20)
    withdrawn = set().union(*(removed for _, removed in site.head.interest))
    assert withdrawn == {"once.x"}


@pytest.mark.parametrize("made_by", ["the SDK", "somebody else"])
def test_what_left_the_domain_and_comes_back_is_not_delivered(made_by: str) -> None:
    """A gateway that takes over sends second copies again that the one before may have handed out here."""
    site = Mirrored()
    site.head.wanted_by("b", "twice.x")
    went, came = (numbered("twice.x", number) for number in (1, 2))
    if made_by == "somebody else":
        went, came = (each.replace(b"\r\nMangrove-Id: ", b"\r\nMangrove-Id:\t") for each in (went, came))
    site.head.broker.publish(went)
    site.deliver(TWICE, went, came)
    assert b"".join(site.head.broker.written) == came
    assert site.plane.figures().repeated_arriving == 1


@pytest.mark.parametrize(("later_s", "kept"), [(1.0, True), (3600.0, False)])
def test_a_gateway_that_stands_by_keeps_copies_and_sends_the_late_ones_when_it_takes_over(
    monkeypatch: pytest.MonkeyPatch, later_s: float, kept: bool
) -> None:
    """What is older has been sent by the one before, or is lost; its id may be forgotten elsewhere."""
    site = Mirrored()
    site.head.wanted_by("b", "twice.x")
    site.head.engine.standing_by = True
    messages = [numbered("twice.x", 1), numbered("twice.x", 2)]
    site.edges["edge1"].publish(*(numbered(f"{MIRROR_PREFIX}twice.x", number) for number in (1, 2)))
    assert site.head.messages_out() == []
    site.head.engine.standing_by = False
    now = monotonic() + later_s
    monkeypatch.setattr("mangrove.gateway.mirroring.mirror_plane.monotonic", lambda: now)
    site.plane.begin()
    assert b"".join(site.head.messages_out()) == (b"".join(messages) if kept else b"")
    site.head.broker.publish(*messages)
    assert b"".join(site.head.messages_out()) == b"".join(messages)
