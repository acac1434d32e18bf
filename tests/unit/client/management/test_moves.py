"""Whom subscriptions ask that move to another domain, without brokers."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.kit.waiting import eventually

from mangrove.broker.client_connection import ClientConnection
from mangrove.client.broker_pool import BrokerPool
from mangrove.client.legs import Legs
from mangrove.client.management import moves as module
from mangrove.client.management.link import ManagementLink
from mangrove.client.management.moves import SubscriptionMoves
from mangrove.client.subscription import Subscription
from mangrove.model.agents.registration import Assignment, Order
from mangrove.model.questions.interest_question import InterestAnswer

READY = InterestAnswer(stamp=(1, 1))
NOT_YET = InterestAnswer(stamp=None)


class Link:
    """A management broker whose gateway answers when a test says so."""

    made: list[Link]
    domain = "there"
    login = None
    user = ""

    def __init__(self, domain: str, urls: list[str], name: str, login: object) -> None:
        self.urls = urls
        self.asked = 0
        self.closed = False
        self.answers: asyncio.Queue[InterestAnswer] = asyncio.Queue()
        self.made.append(self)

    async def ask(self, subject: str, question: object, answer: object, timeout_s: float) -> InterestAnswer:
        assert not self.closed, "it would connect anew"
        self.asked += 1
        return await self.answers.get()

    async def close(self) -> None:
        assert not self.closed
        self.closed = True


class Target:
    """The broker that a subscription moves to."""

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> None:
        """Answered at once."""


class Home:
    """The management broker at home."""

    domain = "here"
    login = None


class Moved:
    """A subscription, of which orders are taken."""

    subject = "t"


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> SubscriptionMoves:
    Link.made = []
    monkeypatch.setattr(module, "ManagementLink", Link)
    nothing: Any = None
    home = cast("ManagementLink", Home())
    legs, pool, head = cast("Legs", nothing), cast("BrokerPool", nothing), cast("ClientConnection", nothing)
    return SubscriptionMoves(home, legs, pool, head, lambda _: "", lambda *_: None)


def order(management_url: str) -> Order:
    to = Assignment(broker="there-edge1", url="nats://there:1", epoch=1)
    return Order(
        term=1, session="s", key="k", to=to, domain="there", management_url=management_url, pause_s=0.5
    )


async def ask(moves: SubscriptionMoves, management_url: str) -> asyncio.Task[float]:
    """A subscription moves on an order, and has got as far as to ask whether it is in force."""
    subscription, target = cast("Subscription", Moved()), cast("ClientConnection", Target())
    wait = moves._in_force(subscription, "", order(management_url), target)
    asking = asyncio.create_task(cast("Any", wait()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return asking


async def test_the_gateway_is_asked_at_the_management_broker_that_the_latest_order_names(
    moves: SubscriptionMoves,
) -> None:
    first = await ask(moves, "nats://m1")
    second = await ask(moves, "nats://m1")
    (before,) = Link.made
    assert (before.urls, before.asked) == (["nats://m1"], 2)
    third = await ask(moves, "nats://m2")
    _, after = Link.made
    assert (after.urls, after.asked) == (["nats://m2"], 1)
    before.answers.put_nowait(NOT_YET)

    async def asked_again() -> bool:
        return after.asked == 2

    await eventually(asked_again, "the first asks at the other one")
    assert not before.closed, "somebody still waits for its answer"
    before.answers.put_nowait(READY)
    assert await second == 0.5
    await asyncio.sleep(0)
    assert before.closed
    after.answers.put_nowait(READY)
    after.answers.put_nowait(READY)
    assert await first == await third == 0.5
    assert not after.closed
    await moves.close()
    assert after.closed


async def test_who_asked_for_a_subscription_abroad_follows_to_the_other_management_broker(
    moves: SubscriptionMoves,
) -> None:
    (await ask(moves, "nats://m1")).cancel()
    readiness = moves.readiness_in("there")
    (await ask(moves, "nats://m2")).cancel()
    await asyncio.sleep(0.05)
    before, after = Link.made
    assert before.closed
    after.answers.put_nowait(READY)

    async def question(subject: str, timeout: float) -> None:
        """Answered at once."""

    assert await readiness.wait("t", "", 5.0, question)
    await moves.close()
