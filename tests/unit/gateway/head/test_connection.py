"""The head connection against a broker in memory: where messages go, what is refused, what is booked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.kit.attachments import Head, message
from tests.kit.work import lines_of

from mangrove.gateway.head.connection import NOT_BACK
from mangrove.gateway.head.subscriptions import SUBSCRIBED_PER_TURN
from mangrove.model.topics import Contract, Queue, Scope, TopicRules
from mangrove.overlay.interest.interest_exchange import WITHDRAW_AFTER_S
from mangrove.overlay.protocol.bodies import WireError

HOLDOVER_S = 6.0


@pytest.fixture
async def head() -> Head:
    made = Head()
    await made.connection.run()
    return made


# -- outward ----------------------------------------------------------------------------------------------


async def test_messages_go_where_they_are_wanted_in_one_body_for_each_set_of_domains(head: Head) -> None:
    head.wanted_by("b", "x", "y")
    head.wanted_by("c", "y")
    head.broker.publish(message("x", b"1"), message("x", b"2"), message("y", b"3"), message("z", b"4"))
    assert sorted(head.flushed) == [
        (0b010, message("x", b"1") + message("x", b"2")),
        (0b110, message("y", b"3")),
    ]
    head.connection.book()
    assert head.ledger.sent.topics == {"x": 2, "y": 1}
    assert "z" not in head.ledger.sent.topics, "nobody wants it: it did not leave"


async def test_what_a_line_means_is_learned_anew_when_interest_changes(head: Head) -> None:
    head.wanted_by("b", "x")
    head.broker.publish(message("x"))
    head.wanted_by("c", "x")
    head.broker.publish(message("x"))
    assert [destinations for destinations, _ in head.flushed] == [0b010, 0b110]
    head.connection.book()
    assert head.ledger.history.totals.sent.topics == {"x": 2}


async def test_the_broker_is_asked_for_what_other_domains_want_and_again_when_it_is_back(head: Head) -> None:
    head.wanted_by("b", "x")
    assert head.broker.subscribed == ["_MGR.>", "x"]
    head.broker.subscribed.clear()
    head.broker.owner.lost("gone")
    head.connection.change_subscriptions(("y",), ())
    assert head.broker.subscribed == [], "a broker that is away is told when it is back"
    await head.connection.run()
    assert head.broker.subscribed == ["_MGR.>", "x"]
    head.connection.change_subscriptions((), ("x",))
    assert head.broker.subscribed == ["_MGR.>"]


async def test_a_request_gets_a_reply_subject_that_leads_back_and_is_no_topic(head: Head) -> None:
    head.wanted_by("b", "service")
    head.broker.publish(message("service", b"?", reply="_INBOX.1"))
    assert head.messages_out() == [message("service", b"?", reply="_MGR.a._INBOX.1")]
    assert head.ledger.sent.requests == 1
    assert not head.ledger.sent.topics


async def test_a_reply_goes_to_the_domain_of_the_requester_under_its_own_inbox(head: Head) -> None:
    head.broker.publish(message("_MGR.c._INBOX.1", b"!"))
    assert head.flushed == [(0b100, message("_INBOX.1", b"!"))]
    assert head.ledger.sent.requests == 1


async def test_a_reply_subject_that_was_rewritten_already_is_kept(head: Head) -> None:
    head.wanted_by("b", "service")
    head.broker.publish(message("service", b"?", reply="_MGR.c._INBOX.1"))
    assert head.messages_out() == [message("service", b"?", reply="_MGR.c._INBOX.1")]


@pytest.mark.parametrize("subject", ["$SYS.X", "_INBOX.1", "_MGR.nowhere.x", "_MGR.a.x"])
async def test_internal_subjects_and_replies_to_nowhere_stay(head: Head, subject: str) -> None:
    head.wanted_by("b", ">")
    head.broker.publish(message(subject))
    assert head.messages_out() == []


@pytest.mark.parametrize("subject", ["_MGR.b", "_MGR.b.", "_MGR.b.$SYS.X", "_MGR.", "_MGR.b._MGL"])
async def test_a_reply_that_the_other_side_would_refuse_does_not_spoil_its_frame(
    head: Head, subject: str
) -> None:
    """One client must not make the other side throw away everybody's messages of the same frame."""
    head.wanted_by("b", ">")
    head.broker.publish(message(subject), message("x"))
    assert head.messages_out() == [message("x")]
    assert head.ledger.dropped == {"a reply to a subject that nobody may answer to": 1}
    totals = head.ledger.history.totals
    assert (totals.dropped.requests, totals.sent.requests) == (1, 0)


async def test_topics_of_one_domain_stay_there() -> None:
    rules = TopicRules((Contract(match="plant.>", scope=Scope.DOMAIN),))
    head = Head(rules=rules)
    await head.connection.run()
    head.wanted_by("b", ">")
    head.broker.publish(message("plant.x"), message("alert"))
    assert head.messages_out() == [message("alert")]


async def test_messages_above_the_limit_are_refused_and_booked_under_their_topic(head: Head) -> None:
    head.wanted_by("b", "x")
    head.broker.publish(message("x", b"a" * 101), message("x", b"a" * 101), message("x", b"a" * 100))
    assert head.messages_out() == [message("x", b"a" * 100)]
    reason = "larger than the federation's limit of 100 bytes"
    assert head.ledger.dropped == {reason: 2}
    assert head.ledger.history.current.dropped.topics == {"x": 2}


async def test_a_subject_that_is_not_utf8_costs_its_message_and_not_the_connection(head: Head) -> None:
    head.wanted_by("b", ">")
    head.broker.publish(b"LMSG \xff\xfe 1\r\nx\r\n" * 3, message("x"))
    assert head.messages_out() == [message("x")]
    assert head.ledger.dropped == {"the subject is not UTF-8": 3}
    head.connection.book()
    totals = head.ledger.history.totals
    assert (totals.dropped.other, totals.sent.requests, dict(totals.sent.topics)) == (3, 0, {"x": 1})


@pytest.mark.parametrize(
    "garbage",
    [
        b"PUB x 1\r\nx\r\n",
        b"LMSG x\r\n",
        b"LMSG x -1\r\n\r\n",
        b"LMSG x 5\r\nabc\r\n",
        b"LMSG x 1\r\nxyLS+ z\r\n",
    ],
)
async def test_what_is_not_the_format_is_an_error_of_the_attachment(head: Head, garbage: bytes) -> None:
    head.wanted_by("b", ">")
    with pytest.raises(WireError):
        head.broker.publish(message("x"), garbage)


# -- inward -----------------------------------------------------------------------------------------------


async def test_bodies_reach_the_broker_as_they_came_runs_of_messages_whole(head: Head) -> None:
    body = message("x", b"1") + message("y", b"2") + message("x", b"3")
    head.connection.deliver(body)
    assert head.broker.written == [body]
    head.connection.book()
    assert head.ledger.delivered.topics == {"x": 2, "y": 1}


async def test_requests_and_replies_that_arrive_are_no_topics(head: Head) -> None:
    head.connection.deliver(message("service", reply="_MGR.b._INBOX.1") + message("_INBOX.2"))
    head.connection.book()
    assert len(head.broker.written) == 1
    assert (head.ledger.delivered.requests, dict(head.ledger.delivered.topics)) == (2, {})


async def test_queue_groups_are_handed_over_with_the_message(head: Head) -> None:
    head.broker.subscribers(("x", "workers", True), ("*", "others", True), ("y", "", True))
    both, one = message("x", groups=("others", "workers")), message("y", groups=("others",))
    head.connection.deliver(both)
    head.connection.deliver(one)
    assert head.broker.grouped == [(("others", "workers"), both), (("others",), one)]
    head.broker.subscribers(("*", "others", False))
    head.connection.deliver(both + one)
    assert head.broker.grouped[2:] == [(("workers",), both)]
    assert head.broker.written == [one]
    assert head.ledger.dropped == {"no member of the queue group is left": 2}


async def test_groups_that_a_message_does_not_name_are_served_elsewhere(head: Head) -> None:
    head.broker.subscribers(("x", "workers", True))
    head.connection.deliver(message("x"))
    assert (head.broker.grouped, head.broker.written) == ([], [message("x")])


async def test_with_local_each_every_domain_serves_its_own_groups() -> None:
    head = Head(rules=TopicRules((Contract(match="x", queue=Queue.LOCAL_EACH),)))
    await head.connection.run()
    head.broker.subscribers(("x", "workers", True))
    head.connection.deliver(message("x"), topic_class=0)
    assert head.broker.grouped == [(("workers",), message("x"))]
    head.broker.subscribers(("x", "audit", True))
    named = message("x", groups=("audit",))
    head.connection.deliver(named, topic_class=0)
    assert [groups for groups, _ in head.broker.grouped[1:]] == [("audit",)], "it is for these alone"
    head.wanted_by("b", "x workers")
    head.wanted_by("c", "x workers")
    head.broker.publish(message("x"))
    assert head.flushed == [(0b110, message("x"))]


async def test_a_message_names_the_groups_for_which_its_destination_is_the_nearest(head: Head) -> None:
    head.wanted_by("b", "x workers", "x audit")
    head.wanted_by("c", "x workers", "x")
    head.broker.publish(message("x", b"1"), message("x", b"2"))
    assert sorted(head.flushed) == [
        (0b010, b"".join(message("x", each, groups=("audit", "workers")) for each in (b"1", b"2"))),
        (0b100, message("x", b"1") + message("x", b"2")),
    ]
    head.connection.book()
    assert head.ledger.sent.topics == {"x": 2}, "booked once, however many flows they took"


async def test_a_local_member_serves_alone_and_the_others_when_it_has_left(head: Head) -> None:
    head.wanted_by("b", "x workers")
    head.broker.subscribers(("*", "workers", True))
    head.broker.publish(message("x"))
    assert head.flushed == []
    head.broker.subscribers(("*", "workers", False))
    head.broker.publish(message("x", reply="_INBOX.1"))
    assert head.messages_out() == [message("x", reply="_MGR.a._INBOX.1", groups=("workers",))]


async def test_what_comes_for_a_member_that_has_left_is_sent_on(head: Head) -> None:
    head.wanted_by("b", "x workers")
    head.broker.subscribers(("x", "audit", True))
    head.connection.deliver(message("x", groups=("audit", "workers")), 7)
    assert head.broker.grouped == [(("audit",), message("x", groups=("audit", "workers")))]
    assert head.flushed == [(0b010, message("x", groups=("workers",)))]
    assert head.ledger.sent_on == 1
    head.connection.deliver(message("x", groups=("workers",)), 1)
    assert head.messages_out()[1:] == [], "it has gone far enough"
    assert head.ledger.dropped == {"no member of the queue group is left": 1}


async def test_jobs_do_not_wait_for_a_broker_whose_members_are_given_up(head: Head) -> None:
    head.wanted_by("b", "x workers")
    head.broker.subscribers(("x", "workers", True))
    head.broker.owner.lost("gone")
    job, plain = message("x", groups=("workers",)), message("x", b"2")
    head.connection.deliver(job + plain)
    assert head.flushed == [], "they may come back"
    head.after(HOLDOVER_S)
    assert head.flushed == [(0b010, job)]
    head.connection.deliver(plain + job + b"LMSG cut", 5)
    assert head.messages_out() == [job, job]
    await head.connection.run()
    assert b"".join(head.broker.written) == plain + plain
    assert head.ledger.history.totals.malformed_bodies == 1


async def test_a_frame_whose_domain_is_lost_is_served_here_if_there_is_a_member(head: Head) -> None:
    head.wanted_by("b", "x workers", "x")
    head.broker.subscribers(("x", "workers", True))
    head.connection.retarget(message("x", groups=("workers",)), 0b010, 9)
    assert head.broker.grouped == [(("workers",), message("x", groups=("workers",)))]
    assert head.flushed == [(0b010, message("x"))], "plain subscribers there still get it"


@pytest.mark.parametrize("group", ["g" * 256, "bell\x07", "two words", "a\u2003b"])
async def test_a_group_with_an_odd_name_is_not_told_to_others_and_counted(head: Head, group: str) -> None:
    head.broker.subscribers(("x", group, True), ("y", "w.*", True), ("x", group, False))
    assert head.interest == [({"y w.*"}, set())]
    assert head.ledger.ignored == {"queue group whose name cannot be told to other domains": 1}


async def test_more_groups_than_a_message_can_name_are_counted(head: Head) -> None:
    head.wanted_by("b", *(f"x g{number:03}" for number in range(101)))
    head.broker.publish(message("x"))
    assert head.messages_out() == [message("x", groups=tuple(f"g{number:03}" for number in range(100)))]
    assert head.ledger.dropped == {"more than 100 queue groups in one domain want it": 1}


async def test_a_broker_that_names_groups_is_refused(head: Head) -> None:
    with pytest.raises(WireError):
        head.broker.publish(message("x", groups=("g",)))


@pytest.mark.parametrize(
    "bad",
    [
        message("$SYS.REQ.SERVER.PING"),
        message("$JS.API.STREAM.DELETE.x"),
        b"LMSG x | bell\x07 1\r\nx\r\n",
        b"LMSG x | " + b"g" * 256 + b" 1\r\nx\r\n",
        b"LMSG x |  1\r\nx\r\n",
        b"LMSG x & group 1\r\nx\r\n",
        b"LMSG x | " + b"g " * 101 + b"1\r\nx\r\n",
        b"LMSG x 1\r\nxyz\r\n",
        b"LMSG x 10\r\ncut off",
        b"LS+ >\r\n",
        b"LMSG \xff 1\r\nx\r\n",
        b"\r\n",
        b"garbage without an end of line",
    ],
)
async def test_a_malformed_body_is_refused_from_there_on_and_counted(head: Head, bad: bytes) -> None:
    head.connection.deliver(message("good") + bad + message("lost"))
    assert b"".join(head.broker.written) in (b"", message("good")), "never a byte of what is wrong"
    assert head.ledger.history.totals.malformed_bodies == 1
    assert not head.ledger.history.totals.dropped.topics, "there is no topic to book it under"
    head.connection.deliver(message("next"))
    assert head.broker.written[-1] == message("next")


# -- the broker is away -----------------------------------------------------------------------------------


async def test_messages_wait_while_the_broker_is_away_and_until_its_subscribers_are_back(head: Head) -> None:
    head.broker.subscribers(("x", "", True))
    head.broker.owner.lost("gone")
    head.connection.deliver(message("x", b"1"))
    assert not head.connection.connected
    await head.connection.run()
    assert head.connection.connected
    assert head.broker.written == [], "the broker is back, its subscribers are not"
    head.broker.subscribers(("x", "", True))
    assert head.broker.written == [message("x", b"1")]
    assert head.interest == [({"x"}, set())], "nothing flapped"


async def test_subscribers_that_do_not_come_back_are_given_up(head: Head) -> None:
    head.broker.subscribers(("x", "", True), ("y", "group", True))
    head.broker.owner.lost("gone")
    head.connection.deliver(message("x"))
    await head.connection.run()
    head.broker.subscribers(("x", "", True))
    assert head.broker.written == []
    head.after(HOLDOVER_S)
    assert head.broker.written == [message("x")]
    assert head.interest[-1] == (set(), {"y group"})
    head.connection.deliver(message("y", groups=("group",)))
    assert head.broker.grouped == [], "the group is gone with its subscribers"


async def test_queue_groups_are_those_of_the_time_of_delivery(head: Head) -> None:
    head.broker.subscribers(("x", "old", True))
    head.broker.owner.lost("gone")
    head.connection.deliver(message("x"))
    await head.connection.run()
    head.broker.subscribers(("x", "old", True), ("x", "new", True))
    named = message("x", b"2", groups=("new", "old"))
    head.connection.deliver(named)
    assert head.broker.grouped[-1] == (("new", "old"), named)


async def test_what_does_not_fit_while_the_broker_is_away_is_dropped_oldest_first_and_booked_once() -> None:
    head = Head(queue_bytes=2 * len(message("x", b"1")))
    for payload in (b"1", b"2", b"3"):
        head.connection.deliver(message("x", payload))
    head.connection.deliver(message("x", b"4", reply="r")[:-2])  # malformed, and it does not fit either
    await head.connection.run()
    head.connection.book()
    totals = head.ledger.history.totals
    assert totals.delivered.total + totals.dropped.total == 3, "each message is either delivered or dropped"
    assert head.ledger.dropped["queue to the head broker full"] == totals.dropped.topics["x"]
    assert head.broker.written[-1] == message("x", b"3")
    assert totals.malformed_bodies == 1


async def test_messages_for_queue_groups_that_are_dropped_are_booked_under_their_topic() -> None:
    head = Head(queue_bytes=10)
    await head.connection.run()
    head.broker.subscribers(("jobs", "workers", True))
    head.broker.owner.writable(False)
    head.connection.deliver(message("jobs", groups=("workers",)))
    totals = head.ledger.history.totals
    assert (dict(totals.dropped.topics), totals.malformed_bodies) == ({"jobs": 1}, 0)
    assert totals.delivered.total == 0


async def test_a_broker_that_is_full_stops_the_queue_in_order(head: Head) -> None:
    head.broker.full_after = 1
    for payload in (b"1", b"2", b"3"):
        head.connection.deliver(message("x", payload))
    assert head.broker.written == [message("x", b"1")]
    head.broker.full_after = 2
    head.broker.owner.writable(True)
    assert head.broker.written == [message("x", b"1"), message("x", b"2")]
    head.broker.full_after = None
    head.broker.owner.writable(True)
    assert head.broker.written == [message("x", payload) for payload in (b"1", b"2", b"3")]


# -- interest ---------------------------------------------------------------------------------------------


async def test_interest_is_passed_on_once_a_buffer_and_internal_subjects_never(head: Head) -> None:
    head.broker.subscribers(
        ("x", "", True), ("x", "group", True), ("$SYS.>", "", True), ("_INBOX.1", "", True)
    )
    assert head.interest == [({"x", "x group"}, set())]
    head.broker.subscribers(("x", "", False))
    head.after(WITHDRAW_AFTER_S)
    assert head.interest[1:] == [(set(), {"x"})], "the group still wants it"
    head.broker.subscribers(("x", "group", False))
    head.after(2 * WITHDRAW_AFTER_S)
    assert head.interest[2:] == [(set(), {"x group"})]


async def test_what_the_attachment_leaves_out_is_counted(head: Head) -> None:
    head.broker.owner.ignored("subscription that is not UTF-8")
    assert head.ledger.ignored == {"subscription that is not UTF-8": 1}


async def test_a_broker_that_is_back_is_told_in_slices_what_is_wanted(head: Head) -> None:
    count = 2 * SUBSCRIBED_PER_TURN + 1
    head.wanted_by("b", *(f"storm.{number}" for number in range(count)))
    while len(wanted := set(head.engine.wanted_elsewhere())) < count:
        head.after(0.0)
    head.broker.owner.lost("gone")
    head.broker.subscribed.clear()
    head.confirmations.clear()
    await head.connection.run()
    assert len(head.broker.subscribed) == SUBSCRIBED_PER_TURN + 1, "the replies', and one slice"
    head.connection.confirm((("b", 1, 99),))
    await asyncio.sleep(0)
    head.broker.owner.writable(False)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(head.broker.subscribed) == 2 * SUBSCRIBED_PER_TURN + 1, "a broker that is full waits"
    assert head.confirmations == [], "not all is subscribed to"
    head.broker.owner.writable(True)
    assert set(head.broker.subscribed) == {"_MGR.>", *wanted}
    assert head.confirmations == [(("b", 1, 99),)]


async def test_groups_that_change_in_one_buffer_are_compared_with_the_known_lines_once(head: Head) -> None:
    head.wanted_by("b", ">")
    head.broker.publish(*(message(f"x.{number}") for number in range(100)))
    assert len(head.connection.sorter.known) == 100

    def subscribe(count: int) -> Callable[[], None]:
        return lambda: head.broker.subscribers(
            *((f"y{count}.{number}.*", "g", True) for number in range(count))
        )

    few, many = lines_of(subscribe(1)), lines_of(subscribe(200))
    assert many < 100 * few + 200 * 60, "lines of our code, not one pass over all known lines for each"


# -- directions -------------------------------------------------------------------------------------------


async def test_who_asks_for_directions_is_told_and_nothing_leaves() -> None:
    head = Head(directions=b'{"domain":"a"}')
    await head.connection.run()
    head.wanted_by("b", ">")
    head.broker.publish(message("_MGR._WHERE", b"", reply="_INBOX.1"))
    assert head.broker.written == [message("_INBOX.1", b'{"domain":"a"}')]
    assert head.messages_out() == []
    assert not head.ledger.sent.requests


@pytest.mark.parametrize("reply", ["", "orders", "_MGR.b._INBOX.1"])
async def test_directions_go_to_an_inbox_of_this_domain_or_nowhere(reply: str) -> None:
    head = Head(directions=b"{}")
    await head.connection.run()
    head.wanted_by("b", ">")
    head.broker.publish(message("_MGR._WHERE", b"", reply=reply))
    assert head.broker.written == []
    assert head.messages_out() == []


async def test_a_gateway_that_has_no_directions_gives_none(head: Head) -> None:
    head.broker.publish(message("_MGR._WHERE", b"", reply="_INBOX.1"))
    assert head.broker.written == []


def test_where_another_broker_takes_the_heads_place_only_what_nobody_else_wants_waits() -> None:
    head = Head()
    head.connection.attached()
    head.broker.subscribers(("here", "", True), ("gone", "", True))
    head.connection.lost("killed")
    head.connection.attached(elsewhere=True)
    head.broker.subscribers(("here", "", True))
    head.connection.deliver(message("here", b"1") + message("gone", b"2") + message("here", b"3"))
    assert head.broker.written == [], "others may be about to come"
    head.after(0.6)
    assert b"".join(head.broker.written) == message("here", b"1") + message("here", b"3")
    head.connection.deliver(message("gone", b"4"))
    head.broker.subscribers(("gone", "", True))
    assert b"".join(head.broker.written[2:]) == message("gone", b"2") + message("gone", b"4")
    head.connection.book()
    assert head.ledger.delivered.topics == {"here": 2, "gone": 2}


def test_what_waits_for_subscribers_that_do_not_come_back_is_bounded_and_let_go() -> None:
    head = Head(queue_bytes=60)
    head.connection.attached()
    head.broker.subscribers(("gone", "", True))
    head.connection.lost("killed")
    head.connection.attached(elsewhere=True)
    head.after(0.6)
    for number in range(10):
        head.connection.deliver(message("gone", b"%d" % number))
    dropped = head.ledger.dropped[NOT_BACK]
    assert 0 < dropped < 10
    head.after(6)
    kept = b"".join(message("gone", b"%d" % number) for number in range(dropped, 10))
    assert b"".join(head.broker.written) == kept, "a broker without subscribers throws it away"


# -- standing by ------------------------------------------------------------------------------------------


async def standing_by(broker: str = "a-head") -> Head:
    """A gateway that stands by, attached to a broker of this name; others want `x` and `y`."""
    head = Head()
    head.wanted_by("b", "x")
    head.wanted_by("c", "y")
    head.engine.standing_by = True
    head.connection.attached(broker)
    return head


async def test_who_stands_by_is_subscribed_and_throws_away_what_the_other_gateway_carries() -> None:
    head = await standing_by()
    assert head.broker.subscribed == [], "it is not known where the other one is"
    head.connection.other_at("a-head")
    assert sorted(head.broker.subscribed) == ["_MGR.>", "x", "y"]
    head.connection.other_at("a-head")
    head.broker.publish(message("x", b"1"), message("_MGR.b._INBOX.1"), b"LMSG \xff 1\r\nx\r\n")
    assert head.messages_out() == []
    assert head.confirmations == [], "nobody is told anything"
    assert not head.ledger.dropped
    head.engine.standing_by = False
    head.connection.begin()
    assert head.confirmations, "the others hear that it is subscribed"
    head.broker.publish(message("x", b"2"))
    assert head.messages_out() == [message("x", b"2")]
    head.connection.book()
    assert head.ledger.sent.topics == {"x": 1}, "what was thrown away is the other one's"


async def test_who_stands_by_at_another_broker_subscribes_when_it_takes_over() -> None:
    head = await standing_by("a-edge1")
    head.connection.other_at("a-head")
    assert head.broker.subscribed == []
    head.engine.standing_by = False
    head.connection.begin()
    assert sorted(head.broker.subscribed) == ["_MGR.>", "x", "y"]


async def test_who_stands_by_unsubscribes_when_the_other_one_moves_and_follows_what_is_wanted() -> None:
    head = await standing_by()
    head.connection.other_at("a-head")
    head.connection.change_subscriptions(("z",), ("y",))
    assert sorted(head.broker.subscribed) == ["_MGR.>", "x", "z"]
    head.connection.change_subscriptions(("y",), ("z",))
    head.connection.other_at("a-edge1")
    assert head.broker.subscribed == []
    head.connection.other_at("")
    head.connection.other_at("a-head")
    assert sorted(head.broker.subscribed) == ["_MGR.>", "x", "y"]
