"""What an agent lets into its domain: by subject and publisher, for as long as it says so."""

from __future__ import annotations

import math
from time import monotonic

import msgspec
import pytest
from tests.kit.attachments import Head, identified, message

from mangrove.gateway.ledger import Ledger
from mangrove.gateway.limits.arrivals import (
    CONGESTION,
    IMPOSSIBLE,
    MAX_ANSWER_BYTES,
    MAX_COUNTED,
    MAX_LIMITS,
    MAX_SHARES,
    OLD,
    TOO_MANY,
    UNTOUCHABLE,
    ArrivalLimits,
)
from mangrove.model.agents.usefulness import LIMITS_VALID_S, GatewayLimited, GatewayLimits
from mangrove.model.congestion.parameters import Congestion
from mangrove.model.congestion.rate_limit import RateLimit
from mangrove.model.topics import Contract, Scope, TopicRules

ALICE, BOB, CAROL = "alice-alice-", "bob-bob-bob-", "carol-carol-"
SILENCE = RateLimit(msg_s=0.0)
RULES = TopicRules(
    (
        Contract(match="alert.>", protected=True),
        Contract(match="soon.>", deadline_ms=100.0),
        Contract(match="home.>", scope=Scope.DOMAIN),
        Contract(match="job.>"),
    )
)


async def attached() -> Head:
    head = Head(rules=RULES, max_message_bytes=10_000)
    await head.connection.run()
    return head


def order(
    head: Head, limits: dict[str, dict[str, RateLimit]], epoch: int = 1, term: int = 1
) -> GatewayLimited:
    return head.connection.arrivals.order(GatewayLimits(term=term, epoch=epoch, limits=limits), monotonic())


def written(head: Head) -> bytes:
    return b"".join(head.broker.written)


async def test_named_publishers_have_their_own_limit_and_all_others_one_together() -> None:
    head = await attached()
    told = order(head, {"x": {ALICE: SILENCE, "*": RateLimit(msg_s=2.0)}})
    assert (told.term, told.epoch, told.limits, told.problem) == (1, 1, 2, "")
    for _ in range(20):
        head.connection.deliver(
            b"".join(identified("x", origin, b"12345") for origin in (ALICE, BOB, CAROL)) + message("y")
        )
    out = written(head)
    assert ALICE.encode() not in out
    others = out.count(BOB.encode()) + out.count(CAROL.encode())
    assert 1 <= others <= 20
    assert out.count(b" y ") == 20, "a subject that is not limited is not touched"
    head.connection.book()
    assert head.ledger.dropped == {CONGESTION: 60 - others}
    assert head.ledger.history.totals.delivered.topics == {"x": others, "y": 20}
    told = order(head, {"x": {ALICE: SILENCE, "*": RateLimit(msg_s=2.0)}})
    assert told.offered["x"] == {ALICE: (20, 100), BOB: (20, 100), CAROL: (20, 100)}
    assert told.withheld["x"][ALICE] == (20, 100)
    assert sum(count for count, _ in told.withheld["x"].values()) == 60 - others
    assert order(head, {"x": {ALICE: SILENCE}}).offered == {}, "since the last question"


async def test_who_is_neither_named_nor_covered_passes_and_is_counted() -> None:
    head = await attached()
    order(head, {"x": {ALICE: SILENCE}})
    head.connection.deliver(message("x", b"123") + identified("x", BOB))
    assert head.ledger.dropped == {}
    assert order(head, {}).offered == {"x": {"": (1, 3), BOB: (1, 1)}}
    head.connection.deliver(message("x", b"123"))
    assert order(head, {}).offered == {}, "subjects that are not limited any more are not counted"
    order(head, {"x": {"*": RateLimit()}}, epoch=2)
    head.connection.deliver(message("x", b"123") + identified("x", BOB))
    told = order(head, {"x": {"*": RateLimit()}}, epoch=2)
    assert (told.offered, told.withheld) == ({"x": {"": (1, 3), BOB: (1, 1)}}, {})


async def test_limits_hold_for_lines_that_were_known_before_and_end_when_they_are_lifted() -> None:
    head = await attached()
    head.connection.deliver(message("x"))
    order(head, {"x": {"*": SILENCE}})
    head.connection.deliver(message("x"))
    order(head, {}, epoch=2)
    head.connection.deliver(message("x"))
    assert head.broker.written == [message("x"), message("x")]
    head.connection.book()
    assert head.ledger.history.totals.delivered.topics == {"x": 2}
    assert head.ledger.dropped == {CONGESTION: 1}


async def test_limits_that_are_not_said_again_run_out_and_their_term_with_them() -> None:
    head = await attached()
    arrivals = head.connection.arrivals
    order(head, {"x": {"*": SILENCE}}, term=2**60)
    head.connection.deliver(message("x"))
    arrivals.expire(monotonic() + LIMITS_VALID_S - 1)
    assert arrivals.in_force == 1
    arrivals.expire(monotonic() + LIMITS_VALID_S + 1)
    assert arrivals.in_force == 0
    head.connection.deliver(message("x"))
    assert head.broker.written == [message("x")]
    assert order(head, {}, term=1).term == 1, "nobody keeps an agent out for ever with a number"


@pytest.mark.parametrize(("term", "epoch"), [(1, 9), (2, 4), (-1, 9), (2**62, 9)])
async def test_an_older_term_or_epoch_or_an_impossible_one_changes_nothing(term: int, epoch: int) -> None:
    head = await attached()
    order(head, {"x": {"*": SILENCE}}, term=2, epoch=5)
    told = order(head, {}, term=term, epoch=epoch)
    assert (told.term, told.epoch, told.limits) == (2, 5, 1)
    assert sum(head.ledger.ignored.values()) == 1
    assert set(head.ledger.ignored) <= {OLD, IMPOSSIBLE}
    assert order(head, {}, term=2, epoch=6).limits == 0


@pytest.mark.parametrize("subject", ["alert.fire", "soon.x", "home.x"])
async def test_what_congestion_control_leaves_alone_is_not_limited_whoever_asks(subject: str) -> None:
    head = await attached()
    assert order(head, {subject: {"*": SILENCE}}).limits == 0
    head.connection.deliver(message(subject))
    stays_home = subject == "home.x"  # from another domain it does not enter, limit or not
    assert head.broker.written == ([] if stays_home else [message(subject)])
    assert head.ledger.ignored == {UNTOUCHABLE: 1}


@pytest.mark.parametrize("subject", ["_INBOX.x", "$SYS.x", "", "a b", "x.>", "*", "a..b", "x" * 2000])
async def test_limits_on_what_is_no_topic_are_not_taken(subject: str) -> None:
    head = await attached()
    assert order(head, {subject: {"*": SILENCE}, "x": {"*": SILENCE}}).limits == 1
    assert head.ledger.ignored == {IMPOSSIBLE: 1}


@pytest.mark.parametrize(
    ("origin", "limit"),
    [
        ("*", RateLimit(msg_s=math.nan)),
        ("*", RateLimit(msg_s=-1.0)),
        ("*", RateLimit(bytes_s=math.inf)),
        ("short", SILENCE),
        ("far too long a name", SILENCE),
        ("kaputt\r\nxyz\n", SILENCE),
    ],
)
async def test_limits_with_impossible_figures_or_names_are_not_taken(origin: str, limit: RateLimit) -> None:
    head = await attached()
    assert order(head, {"x": {origin: limit}}).limits == 0
    assert head.ledger.ignored == {IMPOSSIBLE: 1}


async def test_requests_are_limited_and_counted_as_requests_and_replies_are_not() -> None:
    head = await attached()
    order(head, {"x": {"*": SILENCE}})
    head.connection.deliver(message("x", reply="_MGR.b._INBOX.1") + message("_INBOX.2"))
    assert head.broker.written == [message("_INBOX.2")]
    assert head.ledger.history.totals.delivered.requests == 1
    assert head.ledger.dropped == {CONGESTION: 1}


async def test_groups_without_a_member_here_are_served_elsewhere_whatever_is_limited_here() -> None:
    head = await attached()
    head.wanted_by("b", "job.x workers")
    order(head, {"job.x": {"*": SILENCE}})
    head.connection.deliver(message("job.x", groups=("workers",)))
    assert head.broker.written == []
    assert head.ledger.sent_on == 1


def test_orders_and_answers_are_bounded() -> None:
    ledger = Ledger("a", epoch=1)
    arrivals = ArrivalLimits(TopicRules(), Congestion(), ledger, lambda _: None)
    many = {f"s{number}": {"*": SILENCE, "": SILENCE} for number in range(MAX_LIMITS // 2 + 10)}
    assert arrivals.order(GatewayLimits(term=1, epoch=1, limits=many), 0.0).limits == MAX_LIMITS
    assert ledger.ignored == {TOO_MANY: 20}
    arrivals.order(GatewayLimits(term=1, epoch=1, limits={"s1": {"*": RateLimit(msg_s=1000.0)}}), 0.0)
    for number in range(100):
        arrivals._gates["s1"].admit(b"%012d" % number, 1, 1, 0.0)
    assert arrivals.room.left < MAX_SHARES
    long = "y" * 1000
    arrivals.order(GatewayLimits(term=1, epoch=2, limits={long: {"*": SILENCE}}), 0.0)
    assert arrivals.room.left == MAX_SHARES
    gate = arrivals._gates[long]
    for number in range(2 * MAX_COUNTED):
        gate.admit(b"%012d" % number, 1, 1, 1.0)
    told = arrivals.order(GatewayLimits(term=1, epoch=2, limits={}), 1.0)
    assert len(msgspec.json.encode(told)) <= MAX_ANSWER_BYTES
    assert told.offered[long]["*"] == (MAX_COUNTED, MAX_COUNTED)
