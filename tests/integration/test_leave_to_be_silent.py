"""A publisher's side of leave to be silent, with a management broker and a gateway that a test speaks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from tests.kit.management_broker import ManagementBroker, management_broker
from tests.kit.waiting import eventually

from mangrove.broker.client_connection import ConnectionCounts
from mangrove.broker.nats.client.outgoing import NatsOutlet, Outgoing
from mangrove.client.filtering import silence as module
from mangrove.client.filtering.publish_filter import PublishFilter
from mangrove.client.filtering.silence import Silence
from mangrove.client.management.link import ManagementLink
from mangrove.client.publishing import Outcome
from mangrove.model.congestion.terms import TopicTerms
from mangrove.model.questions.audience import (
    AudienceAnswer,
    AudienceRequest,
    Wanted,
    gateway_audience_subject,
    wanted_subject,
)

ASK_S = 0.02


class Gateway:
    """Gives leave on everything that is not wanted, and keeps all questions."""

    def __init__(self, connection: Client) -> None:
        self._connection = connection
        self.wanted: set[str] = set()
        self.asked: list[AudienceRequest] = []
        self.known = asyncio.Event()
        self.number = 0
        self.also: Callable[[AudienceRequest], list[str]] = lambda _: []
        """What comes to be wanted while a question is answered: said right behind the answer."""
        self.problem = ""
        self.lease_s = 3.0
        self.on_known: Callable[[], None] = lambda: None
        self.subscription: Subscription | None = None

    async def answer(self, message: Msg) -> None:
        request = msgspec.json.decode(message.data, type=AudienceRequest)
        self.asked.append(request)
        if self.number and request.knows >= self.number:
            self.on_known()
            self.known.set()
        unwanted = tuple(each for each in request.subjects if each not in self.wanted)
        answer = AudienceAnswer(
            unwanted=unwanted, number=self.number, lease_s=self.lease_s, problem=self.problem
        )
        if message.reply:
            await message.respond(msgspec.json.encode(answer))
        for subject in self.also(request):
            await self.want(subject)

    async def end(self) -> None:
        """As an older gateway that knows nothing of it."""
        assert self.subscription is not None
        await self.subscription.unsubscribe()
        await self._connection.flush()

    async def want(self, *subjects: str) -> None:
        self.wanted |= set(subjects)
        self.number += 1
        told = Wanted(number=self.number, subjects=subjects)
        where = wanted_subject("here", self.asked[-1].client)
        await self._connection.publish(where, msgspec.json.encode(told))
        await self._connection.flush()


class Site:
    """One client's filter and leave, and the gateway."""

    def __init__(self, broker: ManagementBroker, gateway: Gateway, link: ManagementLink) -> None:
        self.broker = broker
        self.gateway = gateway
        self.filter = PublishFilter([TopicTerms(match="always.>", always_send=True)])
        self.silence = Silence(link, self.filter)

    def publish(self, subject: str) -> Outcome:
        if self.filter.outlet(subject) is None:
            self.filter.add(subject, NatsOutlet(Outgoing(ConnectionCounts()), subject, b"%d%d"))
            self.silence.begin()
        outlet = self.filter.outlets.get(subject)
        outcome = Outcome.SENT if outlet else self.filter.judge(subject, 1, awaited=False)
        if outcome:
            outlet = self.filter.outlet(subject)
            assert outlet is not None
            outlet.publish(b"x", 1, 1)
            return outcome
        return self.filter.withhold(subject, outcome, 1)

    async def until(self, subject: str, outcome: Outcome) -> None:
        async def reached() -> bool:
            return self.publish(subject) is outcome

        await eventually(reached, f"{subject} should be {outcome.value}")


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr(module, "ASK_S", ASK_S)
    async with _site(tmp_path) as made:
        yield made


@asynccontextmanager
async def _site(directory: Path) -> AsyncIterator[Site]:
    async with management_broker(directory) as broker:
        connection = await broker.connect()
        gateway = Gateway(connection)
        subject = gateway_audience_subject("here")
        gateway.subscription = await connection.subscribe(subject, cb=gateway.answer)
        await connection.flush()
        link = ManagementLink("here", [broker.url], "test")
        assert await link.wait(5)
        made = Site(broker, gateway, link)
        try:
            yield made
        finally:
            await made.silence.close()
            await link.close()


async def test_who_listens_is_heard_of_at_once(site: Site) -> None:
    assert site.publish("a"), "the first message is sent before anything is asked"
    assert not site.gateway.asked
    await site.until("a", Outcome.UNWANTED)
    assert site.filter.withheld["a"].unwanted.messages >= 1
    found: list[Outcome] = []
    site.gateway.on_known = lambda: found.append(site.publish("a"))
    await site.gateway.want("a")
    await asyncio.wait_for(site.gateway.known.wait(), 5)
    assert found[0] is Outcome.SENT, "it says that it knows after it has begun to send"
    assert site.gateway.asked[-1].knows == 1
    assert "a" in site.filter.outlets, "nothing is in the way any more"


async def test_what_comes_to_be_wanted_while_leave_is_given_is_sent(site: Site) -> None:
    """The answer and `Wanted` come in one buffer: whoever takes the answer in later must not go silent."""
    subjects = [f"s.{number}" for number in range(40)]
    found: list[Outcome] = []

    def also(request: AudienceRequest) -> list[str]:
        return [each for each in request.subjects if each not in site.gateway.wanted][:2]

    site.gateway.also = also
    site.gateway.on_known = lambda: found.extend(site.publish(each) for each in site.gateway.wanted)
    for _ in range(400):
        for subject in subjects:
            site.publish(subject)
        await asyncio.sleep(ASK_S / 4)
        if site.gateway.wanted >= set(subjects):
            break
    await eventually(lambda: _true(bool(found)), "the client should say what it knows")
    assert site.gateway.wanted == set(subjects)
    assert set(found) == {Outcome.SENT}


async def _true(value: bool) -> bool:
    return value


async def test_nothing_is_withheld_without_an_answer(site: Site) -> None:
    site.gateway.problem = "not now"
    for _ in range(10):
        assert site.publish("a")
        await asyncio.sleep(ASK_S)

    async def asked() -> bool:
        assert site.publish("a")
        return bool(site.gateway.asked)

    await eventually(asked, "the client should ask")
    site.gateway.problem = ""
    await site.until("a", Outcome.UNWANTED)
    await site.broker.process.stop()
    await eventually(lambda: _true(bool(site.publish("a"))), "without its broker the client sends")
    assert not site.silence.subjects


async def test_a_gateway_that_knows_no_such_question_hears_it_seldom(site: Site) -> None:
    """The broker says that nobody answers: the client sends everything, and asks less and less often."""
    await site.gateway.end()
    for _ in range(40):
        assert site.publish("a")
        await asyncio.sleep(ASK_S / 4)
    assert not site.silence.subjects
    assert site.silence.questions <= 5


async def test_leave_that_is_not_renewed_runs_out(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.gateway.lease_s = 0.3
    await site.until("a", Outcome.UNWANTED)
    monkeypatch.setattr(module, "ASK_S", 1_000.0)
    await site.until("a", Outcome.SENT)


async def test_own_subscriptions_end_the_silence(site: Site) -> None:
    await site.until("a.b", Outcome.UNWANTED)
    subscription = object()
    site.silence.subscribed("a.*", subscription)
    for _ in range(10):
        assert site.publish("a.b")
        await asyncio.sleep(ASK_S)
    site.silence.unsubscribed("a.*", subscription)
    await site.until("a.b", Outcome.UNWANTED)


async def test_what_is_not_asked_about(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_S", 5 * ASK_S)
    await asyncio.sleep(5 * ASK_S)
    assert not site.gateway.asked, "who publishes nothing asks nothing"
    site.publish("always.x")
    await site.until("a", Outcome.UNWANTED)
    assert all("always.x" not in request.subjects for request in site.gateway.asked)
    await eventually(lambda: _true(not site.silence.subjects), "leave that is not used is given up")
    await site.until("a", Outcome.UNWANTED)
    await site.silence.close()
    await eventually(
        lambda: _true(not site.gateway.asked[-1].subjects), "the gateway should hear that nobody is silent"
    )


async def test_many_subjects_are_asked_about_in_turn(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SUBJECTS_A_QUESTION", 10)

    def publish() -> None:
        for number in range(30):
            site.publish(f"s.{number}")

    for _ in range(20):
        publish()
        await asyncio.sleep(ASK_S)

    async def asked() -> bool:
        publish()
        return bool(site.gateway.asked)

    await eventually(asked, "the client should ask")
    assert max(len(request.subjects) for request in site.gateway.asked) == 10
    assert len(site.silence.subjects) <= 10
