"""Subscribers that select, at a gateway: what leaves, who is named, what the others hear of them."""

from __future__ import annotations

import pytest
from tests.kit.attachments import FakeAttachment, Head, message
from tests.kit.leaf_nodes import INFO, Attached

from mangrove.broker.attachment import AttachmentOwner
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.model.congestion.rate_limit import Limits
from mangrove.model.names.mapping import NameMapping
from mangrove.model.selectors.group_names import selecting_group
from mangrove.model.selectors.selector import Selector
from mangrove.overlay.instructions import ForgetRoutes
from mangrove.overlay.protocol.bodies import Message
from mangrove.overlay.protocol.control_messages import InterestUpdate, control_frame


def group(tag: str, where: str = "n > 1") -> str:
    return selecting_group(tag, Selector(where))


def headed(subject: str, number: int, reply: str = "") -> bytes:
    head = b"NATS/1.0\r\nn: %d\r\n\r\n" % number
    line = Message(subject, reply, len(head), len(head)).line(subject, reply)
    return b"%b\r\n%b\r\n" % (line, head)


@pytest.fixture
async def head() -> Head:
    made = Head()
    await made.connection.run()
    return made


# -- outward ----------------------------------------------------------------------------------------------


async def test_each_domain_gets_what_it_selects_in_order_and_the_rest_is_kept_back(head: Head) -> None:
    head.wanted_by("b", f"x {group('b')}", f"x {group('b', 'n = 0')}")
    head.wanted_by("c", f"x {group('c', 'n > 3')}")
    head.broker.publish(*(headed("x", number) for number in (0, 1, 2, 1, 4)), message("x"))
    assert head.flushed == [
        (0b010, headed("x", 0) + headed("x", 2) + headed("x", 4)),
        (0b100, headed("x", 4)),
    ]
    head.connection.book()
    assert head.ledger.sent.topics == {"x": 3}
    assert head.ledger.kept_back.topics == {"x": 3 + 5}
    assert not head.ledger.dropped, "that nobody wants it is no loss"


async def test_a_plain_subscriber_counts_from_the_next_message_on(head: Head) -> None:
    head.wanted_by("b", f"x {group('b')}")
    head.broker.publish(headed("x", 1))
    more = InterestUpdate(origin="b", epoch=1, version=2, snapshot=False, added=["*"])
    for instruction in head.engine.receive("b", control_frame(more), 1.0):
        if isinstance(instruction, ForgetRoutes):
            head.connection.forget_routes(instruction.subjects)
    head.broker.publish(headed("x", 1), headed("x", 2))
    head.connection.book()
    assert head.flushed == [(0b010, headed("x", 1) + headed("x", 2))]
    assert (head.ledger.sent.topics, head.ledger.kept_back.topics) == ({"x": 2}, {"x": 1})


async def test_requests_are_selected_too_and_are_no_topics(head: Head) -> None:
    head.wanted_by("b", f"x {group('b')}")
    head.broker.publish(headed("x", 1, "_INBOX.1"), headed("x", 2, "_INBOX.2"))
    assert head.flushed == [(0b010, headed("x", 2, "_MGR.a._INBOX.2"))]
    head.connection.book()
    assert (head.ledger.sent.requests, len(head.ledger.sent)) == (1, 0)


async def test_what_is_limited_is_booked_once() -> None:
    head = Head(client_limits=Limits(rate_msg_s=1.0))
    await head.connection.run()
    head.wanted_by("b", f"x {group('b')}")
    head.broker.publish(*(headed("x", number) for number in (1, 2, 3)))
    head.connection.book()
    dropped = sum(head.ledger.dropped.values())
    assert dropped
    assert head.ledger.sent.total + head.ledger.kept_back.total + dropped == 3


# -- inward -----------------------------------------------------------------------------------------------


async def test_whoever_selects_is_named_and_the_others_hear_of_a_selector_once(head: Head) -> None:
    one, two, other = group("1"), group("2"), group("3", "n = 0")
    head.broker.subscribers(("x", one, True), ("x", two, True), ("*", other, True), ("x", "workers", True))
    assert head.interest[-1][0] == {f"x {group('a')}", f"* {group('a', 'n = 0')}", "x workers"}
    head.connection.deliver(message("x", groups=("workers",)))
    named = [groups for groups, _ in head.broker.grouped]
    assert named == [("workers", one, two, other)]
    head.broker.subscribers(("x", one, False))
    head.connection.deliver(message("x"))
    named = [groups for groups, _ in head.broker.grouped]
    assert named[1:] == [(two, other)]
    heard = len(head.interest)
    head.broker.subscribers(("x", two, False))
    head.after(1.0)
    assert head.interest[heard:] == [(set(), {f"x {group('a')}"})]


async def test_gateways_that_know_nothing_of_selectors_may_name_them_as_groups(head: Head) -> None:
    head.broker.subscribers(("x", group("1"), True))
    head.connection.deliver(message("x", groups=(group("a"),)))
    assert head.broker.grouped == [((group("1"),), message("x", groups=(group("a"),)))]
    assert not head.ledger.dropped


async def test_who_selects_is_still_named_while_a_broker_that_was_away_tells_who_is_there(head: Head) -> None:
    one, two = group("1"), group("2")
    head.broker.subscribers(("x", one, True), ("x", two, True))
    head.broker.owner.lost("gone")
    head.broker.owner.attached()
    head.broker.subscribers(("x", one, True))
    head.connection.serve()
    head.connection.deliver(message("x"))
    assert head.broker.grouped[-1][0] == (one, two), "whom it has not told of yet misses nothing"
    head.broker.owner.lost("gone")
    assert len(head.connection.selecting) == 1, "who did not come back is forgotten in the end"


async def test_whoever_selects_is_known_before_a_storm_of_subscriptions_is_digested() -> None:
    attached = Attached()
    storm = b"".join(b"LS+ s.%d\r\n" % number for number in range(5_000))
    attached.protocol.data_received(INFO + storm + f"LS+ x {group('1')} 1\r\n".encode() + b"PONG\r\n")
    attached.wire.take()
    attached.head.connection.deliver(message("x"))
    assert f"LMSG x | {group('1')} 1\r\nx\r\n".encode() in attached.wire.take()


async def test_under_other_names_who_selects_is_asked_for_like_any_subscriber() -> None:
    site = SiteNames([NameMapping(local="plant.>", federation="site.>")])
    brokers: list[FakeAttachment] = []

    def attach(owner: AttachmentOwner) -> FakeAttachment:
        brokers.append(FakeAttachment(owner))
        return brokers[-1]

    def told(group: str) -> set[str]:
        head = Head(names=site, attach=attach)
        brokers[-1].owner.attached()
        brokers[-1].subscribers((">", group, True))
        return {want.partition(" ")[0] for want in head.interest[-1][0]}

    assert told(group("1")) == told("") != told("workers")
