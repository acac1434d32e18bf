"""The desk for leave to be silent beside a head connection: who is held up, and who is refused."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from tests.kit.attachments import Head, message
from tests.kit.waiting import eventually

from mangrove.gateway.audience.desk import AudienceDesk
from mangrove.gateway.audience.leave_mark import NOTE_EVERY_S, LeaveMark
from mangrove.gateway.audience.leaves import BAD_REQUEST, Leaves
from mangrove.model.questions.audience import (
    LEAVE_S,
    MAX_QUESTION_BYTES,
    AudienceAnswer,
    AudienceRequest,
)
from mangrove.model.topics import TopicRules

ALICE = "alice-0001"
READY = message("_MGR.a._READY", b"", reply="_INBOX.1")


class Site(NamedTuple):
    head: Head
    desk: AudienceDesk

    def ask(self, *subjects: str, knows: int = 0) -> AudienceAnswer:
        request = AudienceRequest(client=ALICE, subjects=subjects, knows=knows)
        return self.desk.answer(msgspec.json.encode(request))


@pytest.fixture
async def site() -> Site:
    made: list[AudienceDesk] = []

    def desk_of(head: Head) -> AudienceDesk:
        leaves = Leaves(TopicRules(), head.engine.is_unwanted)
        made.append(
            AudienceDesk(
                "a",
                leaves,
                LeaveMark(None),
                lambda: (time.monotonic(), head.connection.subscribers_unknown),
            )
        )
        return made[0]

    head = Head(silence=desk_of)
    await head.connection.run()
    return Site(head, made[0])


async def test_a_subscriber_of_the_domain_is_ready_only_when_the_publisher_knows(site: Site) -> None:
    assert site.ask("x", "y").unwanted == ("x", "y")
    site.head.broker.subscribers(("x", "", True))
    site.head.broker.publish(READY)
    assert site.head.broker.written == []
    assert site.ask("y", knows=1).unwanted == ("y",)
    assert site.head.broker.written == [message("_INBOX.1", b"")]
    site.head.broker.publish(READY)
    assert len(site.head.broker.written) == 2, "nobody has to be waited for any more"


async def test_a_subscriber_of_another_domain_is_ready_only_when_the_publisher_knows(site: Site) -> None:
    site.ask("x")
    site.head.wanted_by("b", "x")
    site.head.connection.confirm((("b", 1, 1),))
    assert site.head.confirmations == []
    site.ask(knows=1)
    assert site.head.confirmations == [(("b", 1, 1),)]


async def test_what_was_held_back_is_not_confirmed_by_a_broker_that_was_lost_meanwhile(site: Site) -> None:
    site.ask("x")
    site.head.wanted_by("b", "x")
    site.head.connection.confirm((("b", 1, 1),))
    site.head.broker.owner.lost("gone")
    site.ask(knows=1)
    assert site.head.confirmations == []


@pytest.mark.parametrize(
    ("subject", "group"), [("x", ""), ("*", ""), (">", ""), ("x", "workers"), ("*", "g")]
)
async def test_every_kind_of_interest_counts(site: Site, subject: str, group: str) -> None:
    site.head.broker.subscribers((subject, group, True))
    assert site.ask("x").unwanted == ()
    site.head.broker.subscribers((subject, group, False))
    assert site.ask("x").unwanted == ("x",)


async def test_interest_of_other_domains_counts_also_in_groups(site: Site) -> None:
    site.head.wanted_by("b", "x.* workers", "y")
    assert site.ask("x.1", "y", "z").unwanted == ("z",)


async def test_nobody_gets_leave_while_the_broker_is_away_or_its_subscribers_are_not_back(site: Site) -> None:
    site.head.broker.subscribers(("y", "", True))
    site.head.broker.owner.lost("gone")
    assert site.ask("x").problem == "the head broker is away"
    await site.head.connection.run()
    assert site.ask("x").problem == "the head broker has not told all subscriptions yet"
    site.head.broker.subscribers(("y", "", True))
    assert site.ask("x", "y").unwanted == ("x",)


async def test_nobody_gets_leave_while_somebody_subscribes_who_cannot_be_understood(site: Site) -> None:
    site.head.broker.subscribers(("x", "g" * 300, True))
    assert site.ask("y").problem
    site.head.broker.owner.lost("gone")
    await site.head.connection.run()
    assert site.ask("y").unwanted == ("y",)


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"client": 5}',
        b'{"client": "alice-0001", "subjects": "x"}',
        b'{"client": "alice-0001", "subjects": [1]}',
        b'{"client": "alice-0001", "knows": 1e999}',
        b'{"client": "alice-0001", "subjects": ["' + b"x" * MAX_QUESTION_BYTES + b'"]}',
    ],
)
async def test_what_cannot_be_read_gets_no_leave_and_is_counted(site: Site, request_: bytes) -> None:
    assert site.desk.answer(request_) == AudienceAnswer(problem=BAD_REQUEST)
    assert site.desk.figures().refused == {BAD_REQUEST: 1}


async def test_figures_tell_of_leaves_and_of_those_who_are_awaited(site: Site) -> None:
    site.ask("x", "y")
    site.head.broker.subscribers(("x", "", True))
    site.head.broker.publish(READY)
    figures = site.desk.figures()
    assert (figures.clients, figures.leaves, figures.taken_back, figures.awaited) == (1, 1, 1, 1)


def test_a_mark_tells_for_how_long_leaves_of_an_earlier_life_may_last(tmp_path: Path) -> None:
    path = tmp_path / "leaves"
    assert LeaveMark(path).left_s() == 0.0
    LeaveMark(path).note(0.0)
    assert 0 < LeaveMark(path).left_s() <= LEAVE_S + NOTE_EVERY_S
    os.utime(path, (time.time() + 1e6,) * 2)
    assert LeaveMark(path).left_s() == LEAVE_S + NOTE_EVERY_S, "a clock that was set back holds nobody up"
    os.utime(path, (time.time() - 10,) * 2)
    assert LeaveMark(path).left_s() == 0.0
    assert LeaveMark(None).left_s() == 0.0


async def test_a_gateway_that_starts_anew_holds_confirmations_back_while_old_leaves_may_last(
    tmp_path: Path,
) -> None:
    LeaveMark(tmp_path / "leaves").note(0.0)
    leaves = Leaves(TopicRules(), lambda _: True)
    head = Head(
        silence=lambda _: AudienceDesk(
            "a", leaves, LeaveMark(tmp_path / "leaves"), lambda: (time.monotonic(), "")
        )
    )
    await head.connection.run()
    head.broker.publish(READY)
    head.wanted_by("b", "x")
    head.connection.confirm((("b", 1, 1),))
    assert (head.broker.written, head.confirmations) == ([], [])
    leaves.expire(time.monotonic() + LEAVE_S + 1)
    assert head.broker.written == [message("_INBOX.1", b"")]
    assert head.confirmations == [(("b", 1, 1),)]


class Mark(LeaveMark):
    """Of a life that ended a moment ago."""

    def __init__(self, left_s: float) -> None:
        super().__init__(None)
        self._left_s = left_s

    def left_s(self) -> float:
        return self._left_s


async def test_a_gateway_that_takes_over_after_a_while_holds_back_for_its_predecessors_leaves_alone() -> None:
    """What was held when it began to stand by is over, also when nobody has asked since."""
    desk = AudienceDesk("a", Leaves(TopicRules(), lambda _: True), Mark(0.02), lambda: (0.0, ""))

    async def nothing_awaited() -> bool:
        return desk.figures().awaited == 0

    assert desk.figures().awaited == 1
    await eventually(nothing_awaited, "the leaves of the life before should be over")
    told: list[float] = []
    began = time.monotonic()
    desk.hold(0.1)
    desk.when_known(lambda: told.append(time.monotonic() - began))
    await eventually(nothing_awaited, "those of the predecessor should be over")
    assert len(told) == 1
    assert told[0] >= 0.1
    desk.close()


async def test_one_user_cannot_speak_for_the_silent_publisher_of_another(site: Site) -> None:
    """Whoever knows a publisher's name and says that it knows is another one, under its own name."""
    request = AudienceRequest(client=ALICE, subjects=("x",))
    assert site.desk.answer(msgspec.json.encode(request), "pump").unwanted == ("x",)
    site.head.broker.subscribers(("x", "", True))
    site.head.broker.publish(READY)
    knows = msgspec.json.encode(AudienceRequest(client=ALICE, knows=1))
    site.desk.answer(knows, "thief")
    assert site.head.broker.written == [], "the publisher itself has not said that it knows"
    site.desk.answer(knows, "pump")
    assert site.head.broker.written == [message("_INBOX.1", b"")]
