"""What leaves a domain is kept to the rates of contracts and clients; what is dropped is booked."""

from __future__ import annotations

from tests.kit.attachments import Head, identified, message

from mangrove.gateway.limits.departures import CLIENT_LIMITED, MAX_SUBJECTS, RATE_LIMITED
from mangrove.model.congestion.rate_limit import Limits as RateLimits
from mangrove.model.topics import Contract, Scope, TopicRules

ALICE, BOB = "alice-alice-", "bob-bob-bob-"
SLOW = TopicRules((Contract(match="slow.>", rate_msg_s=1.0), Contract(match="thin.>", rate_bytes_s=100.0)))


async def limited(rules: TopicRules | None = SLOW, client: RateLimits | None = None) -> Head:
    head = Head(rules=rules, client_limits=client, max_message_bytes=100_000)
    await head.connection.run()
    head.wanted_by("b", ">")
    return head


def sent(head: Head) -> int:
    head.connection.book()
    return head.ledger.history.totals.sent.total


async def test_what_exceeds_the_rate_of_a_contract_stays_and_is_booked() -> None:
    head = await limited()
    for _ in range(10):
        head.broker.publish(*(message("slow.x", b"%03d" % number) for number in range(100)))
    out = b"".join(head.messages_out())
    passed = out.count(b"LMSG")
    assert 1 <= passed <= 10, "a burst, and what a moment adds"
    assert out.startswith(message("slow.x", b"000")), "the first ones pass"
    assert head.ledger.dropped == {RATE_LIMITED: 1000 - passed}
    assert head.ledger.history.totals.dropped.topics == {"slow.x": 1000 - passed}
    assert sent(head) == passed, "what was dropped was not sent"
    assert head.ledger.history.totals.sent.topics == {"slow.x": passed}


async def test_each_subject_of_a_contract_has_the_rate_for_itself() -> None:
    head = await limited()
    head.broker.publish(*(message(f"slow.{number}") for number in range(50)))
    assert (sent(head), dict(head.ledger.dropped)) == (50, {})


async def test_bytes_of_payload_are_counted_and_headers_are_not() -> None:
    head = await limited()
    head.broker.publish(*(identified("thin.x", ALICE, b"y" * 10) for _ in range(100)))
    passed = sent(head)
    assert 1 <= passed <= 30, "5 bytes are saved at first, and a moment adds a few"
    assert head.ledger.dropped == {RATE_LIMITED: 100 - passed}


async def test_subjects_without_a_limit_lead_straight_to_their_flow() -> None:
    head = await limited()
    head.broker.publish(*(message("free") for _ in range(1000)))
    assert (sent(head), dict(head.ledger.dropped)) == (1000, {})
    assert len(head.connection.departures) == 0
    flows = {type(entry.flow).__name__ for entry in head.connection.sorter.known.values()}
    assert flows == {"OutboundFlow"}


async def test_requests_are_limited_as_other_messages_and_replies_are_not() -> None:
    head = await limited()
    for number in range(100):
        head.broker.publish(message("slow.ask", b"?", reply=f"_INBOX.{number}"))
    requests = head.ledger.history.totals.sent.requests
    assert 1 <= requests < 100
    assert head.ledger.dropped == {RATE_LIMITED: 100 - requests}
    for number in range(100):
        head.broker.publish(message(f"_MGR.c._INBOX.{number}"))
    assert head.ledger.history.totals.sent.requests == requests + 100


async def test_plain_publishers_are_one_and_sdk_publishers_are_told_apart() -> None:
    """A crowd of plain messages does not keep out the little that an SDK publisher says."""
    rules = TopicRules((Contract(match="slow.>", rate_msg_s=100.0),))
    head = await limited(rules)
    for _ in range(20):
        plain = [message("slow.x", b"p") for _ in range(50)]
        head.broker.publish(*plain, identified("slow.x", ALICE, b"a"), identified("slow.x", BOB, b"b"))
    out = b"".join(head.messages_out())
    assert out.count(ALICE.encode()) >= 1
    assert out.count(BOB.encode()) >= 1
    assert sent(head) + head.ledger.dropped[RATE_LIMITED] == 20 * 52


async def test_order_is_kept_among_what_passes_of_several_publishers() -> None:
    rules = TopicRules((Contract(match="slow.>", rate_msg_s=200.0),))
    head = await limited(rules)
    run = [identified("slow.x", (ALICE, BOB)[number % 2], b"<%d>" % number) for number in range(200)]
    head.broker.publish(*run)
    out = b"".join(head.messages_out())
    numbers = [number for number in range(200) if b"<%d>" % number in out]
    places = [out.index(b"<%d>" % number) for number in numbers]
    assert 0 < len(numbers) < 200
    assert places == sorted(places)
    assert out == b"".join(run[number] for number in numbers), "whole messages, as they came"


async def test_a_client_has_one_limit_for_all_its_subjects() -> None:
    head = await limited(TopicRules(), RateLimits(rate_msg_s=1.0))
    for number in range(50):
        head.broker.publish(identified(f"x.{number}", ALICE), identified(f"x.{number}", BOB))
    out = b"".join(head.messages_out())
    assert 1 <= out.count(ALICE.encode()) <= 10
    assert 1 <= out.count(BOB.encode()) <= 10
    assert head.ledger.dropped == {CLIENT_LIMITED: 100 - sent(head)}


async def test_plain_publishers_of_a_subject_count_as_one_client() -> None:
    head = await limited(TopicRules(), RateLimits(rate_msg_s=1.0))
    head.broker.publish(*(message("x") for _ in range(100)), *(message("y") for _ in range(100)))
    head.connection.book()
    assert set(head.ledger.sent.topics) == {"x", "y"}
    assert head.ledger.dropped == {CLIENT_LIMITED: 200 - sent(head)}


async def test_topics_that_stay_home_do_not_come_to_a_limit() -> None:
    rules = TopicRules((Contract(match="plant.>", scope=Scope.DOMAIN, rate_msg_s=1.0),))
    head = await limited(rules)
    head.broker.publish(*(message("plant.x") for _ in range(100)))
    assert (sent(head), dict(head.ledger.dropped)) == (0, {})


async def test_subjects_beyond_those_that_are_kept_share_one_limit() -> None:
    head = await limited()
    head.broker.publish(*(message(f"slow.{number}") for number in range(MAX_SUBJECTS + 500)))
    assert len(head.connection.departures) == MAX_SUBJECTS + 1
    passed = sent(head)
    assert MAX_SUBJECTS < passed < MAX_SUBJECTS + 100
    assert head.ledger.dropped == {RATE_LIMITED: MAX_SUBJECTS + 500 - passed}


async def test_every_message_is_either_sent_or_dropped_when_lines_are_learned_anew() -> None:
    head = await limited()
    for _ in range(20):
        head.broker.publish(*(message("slow.x") for _ in range(10)))
        head.wanted_by("c", "slow.x")
        head.broker.publish(*(identified("slow.x", ALICE) for _ in range(10)))
        head.connection.serve()
    assert sent(head) + head.ledger.dropped[RATE_LIMITED] == 400
    assert sent(head) < 100, "learning a line anew gives nobody a new limit"
