"""The border of a domain: what leaves and enters by the rules, and every way round them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.access import rule, rules
from tests.kit.attachments import Head, message

from mangrove.gateway.head.inward.lines import MACHINERY, NO_WAY_BACK, STAYS_HOME
from mangrove.gateway.head.outward.lines import NO_INBOX
from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.access.refusals import Crossing
from mangrove.model.access.rules import AccessRules, Action
from mangrove.model.topics import Contract, Scope, TopicRules

PUBLISH, SUBSCRIBE = (Action.PUBLISH,), (Action.SUBSCRIBE,)
SECRET = rules(rule("may_not", "secret.>"))
"""Nobody may publish or hear it."""
NOT_FROM_B = rules(rule("may_not", "news.>", actions=PUBLISH, domain="b"))
NOT_TO_B = rules(rule("may_not", "news.>", actions=PUBLISH, domain="a", to=("b",)))
NOT_OF_B = rules(rule("may_not", "news.>", actions=SUBSCRIBE, domain="a", origins=("b",)))


async def head_with(access: AccessRules, topics: TopicRules | None = None) -> Head:
    made = Head(access=access, rules=topics)
    await made.connection.run()
    return made


def refused(head: Head) -> dict[tuple[str, Crossing, str], int]:
    return {(row.rule, row.crossing, row.domain): row.count for row in head.border_book.figures()}


def written_in(directory: Path) -> str:
    """What stands in the only file of a directory."""
    (only,) = directory.iterdir()
    return only.read_text()


# -- leaving ----------------------------------------------------------------------------------------------


async def test_what_may_not_leave_for_a_domain_goes_to_the_others() -> None:
    head = await head_with(NOT_TO_B)
    for domain in "bc":
        head.wanted_by(domain, ">")
    head.broker.publish(message("news.x"), message("news.x"), message("other"))
    assert sorted(head.flushed) == [(0b100, message("news.x") * 2), (0b110, message("other"))]
    assert refused(head) == {("access[0]", Crossing.LEAVE, "b"): 2}
    head.connection.book()
    assert head.ledger.sent.topics == {"news.x": 2, "other": 1}


async def test_what_may_not_leave_at_all_is_counted_and_not_booked_as_sent() -> None:
    head = await head_with(rules(rule("may_not", "news.>", actions=PUBLISH, domain="a")))
    head.wanted_by("b", "*.x", "news.x")
    head.broker.publish(message("news.x", b"1"), message("news.x", b"22", reply="_INBOX.1"))
    assert head.flushed == []
    assert refused(head) == {("access[0]", Crossing.LEAVE, "b"): 2}
    head.connection.book()
    assert (head.ledger.sent.topics, head.ledger.sent.requests) == ({}, 0)


@pytest.mark.parametrize("subject", ["_INBOX.x", "$MQTT.msgs.x", "$foo.bar", "plant.valve"])
async def test_what_stays_home_anyway_is_no_refusal(subject: str) -> None:
    head = await head_with(SECRET, TopicRules((Contract(match="plant.>", scope=Scope.DOMAIN),)))
    head.wanted_by("b", ">")
    head.broker.publish(message(subject))
    assert (head.flushed, refused(head), head.ledger.dropped) == ([], {}, {})


async def test_interest_in_what_may_not_leave_is_not_listened_to() -> None:
    head = await head_with(NOT_TO_B)
    assert not head.engine.wanted_elsewhere()
    head.wanted_by("b", "news.x", "news.>", "other")
    assert sorted(head.engine.wanted_elsewhere()) == ["other"]
    head.wanted_by("c", "news.x")
    assert sorted(head.engine.wanted_elsewhere()) == ["news.x", "other"]
    head.engine.validate()


async def test_interest_in_what_may_not_enter_is_not_told() -> None:
    head = await head_with(SECRET)
    head.broker.subscribers(
        ("secret.x", "", True), ("secret.>", "group", True), (">", "", True), ("x", "", True)
    )
    assert head.interest == [({">", "x"}, set())]
    assert head.engine.interest_stamp("secret.x", "") is not None, "nobody is waited for"
    head.broker.subscribers(("secret.x", "", False), ("x", "", False))
    head.after(1.0)
    assert head.interest[1:] == [(set(), {"x"})]


async def test_members_of_queue_groups_are_not_served_where_it_may_not_go() -> None:
    head = await head_with(rules(rule("may_not", "jobs.>", actions=SUBSCRIBE, domain="b")))
    head.wanted_by("b", "jobs.x workers", "> workers")
    head.wanted_by("c", "jobs.x workers")
    head.broker.publish(message("jobs.x"))
    assert head.flushed == [(0b100, message("jobs.x", groups=("workers",)))]


# -- entering ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", [NOT_FROM_B, NOT_OF_B])
async def test_what_may_not_enter_from_a_domain_enters_from_others(access: AccessRules) -> None:
    head = await head_with(access)
    for origin in ("b", "c", "b"):
        head.connection.deliver(message("news.x") * 2 + message("other"), origin=origin)
    both = message("news.x") * 2 + message("other")
    assert b"".join(head.broker.written) == message("other") + both + message("other")
    assert refused(head) == {("access[0]", Crossing.ENTER, "b"): 4}
    head.connection.book()
    assert head.ledger.delivered.topics == {"news.x": 2, "other": 3}


async def test_what_comes_back_to_its_own_domain_passes_no_border_but_a_stranger_in_its_name_does() -> None:
    head = await head_with(rules(between="deny"))
    for origin in ("", "a", ""):
        head.connection.deliver(message("news.x"), origin=origin)
    assert head.broker.written == [message("news.x")] * 2
    assert refused(head) == {("access.between", Crossing.ENTER, "a"): 1}


async def test_refusals_are_audited_by_rule(tmp_path: Path) -> None:
    audit = AuditLog.at(str(tmp_path / "a-gateway.jsonl"))
    head = Head(access=NOT_FROM_B, audit=audit)
    await head.connection.run()
    for number in range(25):
        head.connection.deliver(message(f"news.{number}") * 2, origin="b")
    assert audit.figures().counts == {"access refused": 50}
    audit.close()
    text = written_in(tmp_path)
    assert all(fact in text for fact in ("access refused", "access[0]", "enter", "news.0"))
    assert len(text.splitlines()) < 5, "what repeats itself is one entry"


async def test_what_waited_for_the_broker_is_judged_by_where_it_came_from() -> None:
    head = await head_with(NOT_FROM_B)
    head.connection.writable(False)
    head.connection.deliver(message("news.x"), origin="b")
    head.connection.deliver(message("news.x", b"good"), origin="c")
    assert head.broker.written == []
    head.connection.writable(True)
    assert head.broker.written == [message("news.x", b"good")]


async def test_without_a_rule_for_it_a_default_may_refuse_what_comes_and_goes() -> None:
    closed = rules(rule("may", "open.>", domain="b"), rule("may", "open.>", domain="a"), between="deny")
    head = await head_with(closed)
    head.wanted_by("b", ">")
    head.wanted_by("c", ">")
    head.broker.publish(message("open.x"), message("shut.x"))
    assert head.flushed == [(0b010, message("open.x"))]
    head.connection.deliver(message("open.x") + message("shut.x"), origin="b")
    assert head.broker.written == [message("open.x")]
    assert refused(head) == {
        ("access.between", Crossing.LEAVE, "b"): 1,
        ("access.between", Crossing.ENTER, "b"): 1,
    }, "what c wants may not go there at all, and was not listened to"


# -- ways round it ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("subject", ["secret.*", "secret.>", ">", "*.x", "secret.x.y"])
async def test_wildcards_in_a_published_subject_lead_round_no_rule(subject: str) -> None:
    head = await head_with(SECRET)
    head.wanted_by("b", ">")
    head.broker.publish(message(subject))
    assert head.flushed == []
    head.connection.deliver(message(subject), origin="b")
    assert head.broker.written == []


@pytest.mark.parametrize(
    "subject", ["_MGR.b.secret.x", "_MGR.b.news.x", "_MGR.b._MGM.x", "_MGR.b._MGR.c.x", "_MGR.b.$SYS.x"]
)
async def test_a_reply_leads_to_an_inbox_and_nowhere_else(subject: str) -> None:
    head = await head_with(SECRET)
    head.broker.publish(message(subject))
    assert (head.flushed, head.ledger.dropped) == ([], {NO_INBOX: 1})
    head.broker.publish(message("_MGR.b._INBOX.1"))
    assert head.flushed == [(0b010, message("_INBOX.1"))]


@pytest.mark.parametrize("subject", ["_MGR.b._MGM.x", "_MGR.b._MGR.c.x", "_MGR.b._MGL"])
async def test_a_reply_never_leads_to_the_machinery_also_without_rules(subject: str) -> None:
    head = await head_with(AccessRules())
    head.broker.publish(message(subject))
    assert (head.flushed, head.ledger.dropped) == ([], {NO_INBOX: 1})
    head.broker.publish(message("_MGR.b.any.subject"))
    assert head.flushed == [(0b010, message("any.subject"))], "without rules, answers may lead anywhere"


async def test_second_copies_and_other_machinery_do_not_enter() -> None:
    head = await head_with(AccessRules())
    for subject in ("_MGR._MIRROR.alert.x", "_MGM.x", "_MGR._WHERE"):
        head.connection.deliver(message(subject) + message("fine"), origin="b")
    assert b"".join(head.broker.written) == message("fine") * 3
    assert head.ledger.dropped == {MACHINERY: 3}


@pytest.mark.parametrize(
    "reply", ["plant.valve", "$JS.API.STREAM.DELETE.x", "_MGR._MIRROR.x", "_MGR.nowhere.x"]
)
async def test_answers_are_not_led_astray_by_another_domain(reply: str) -> None:
    head = await head_with(AccessRules())
    head.connection.deliver(message("service", reply=reply), origin="b")
    assert (head.broker.written, head.ledger.dropped) == ([], {NO_WAY_BACK: 1})
    head.connection.deliver(message("service", reply="_MGR.b._INBOX.1"), origin="b")
    assert len(head.broker.written) == 1


async def test_a_client_cannot_name_a_reply_that_leads_astray_elsewhere() -> None:
    head = await head_with(AccessRules())
    head.wanted_by("b", "service")
    head.broker.publish(
        message("service", reply="_MGR._MIRROR.x"), message("service", reply="_MGR.c._INBOX.2")
    )
    assert head.flushed == [(0b010, message("service", reply="_MGR.c._INBOX.2"))]
    assert head.ledger.dropped == {NO_INBOX: 1}


async def test_topics_that_stay_home_do_not_enter_either() -> None:
    topics = TopicRules((Contract(match="plant.>", scope=Scope.DOMAIN),))
    head = await head_with(AccessRules(), topics)
    head.connection.deliver(message("plant.valve") + message("fine"), origin="b")
    assert (head.broker.written, head.ledger.dropped) == ([message("fine")], {STAYS_HOME: 1})


async def test_headers_and_bodies_decide_nothing() -> None:
    head = await head_with(SECRET)
    head.wanted_by("b", ">")
    body = b"PUB secret.x 1\r\nx\r\nLMSG secret.x 1\r\nx"
    head.broker.publish(message("open.x", body))
    assert head.flushed == [(0b010, message("open.x", body))]
    head.connection.deliver(message("open.x", body), origin="b")
    assert head.broker.written == [message("open.x", body)], "one message, whatever its body looks like"


async def test_letters_are_told_whose_frame_they_came_in() -> None:
    took: list[tuple[str, bytes]] = []

    class Box:
        def take_from(self, origin: str, messages: bytes) -> None:
            took.append((origin, messages))

    head = Head(access=SECRET, letters=Box())
    await head.connection.run()
    for origin in "bcb":
        head.connection.deliver(message("_MGL", origin.encode()), origin=origin)
    assert took == [(origin, message("_MGL", origin.encode())) for origin in "bcb"]
