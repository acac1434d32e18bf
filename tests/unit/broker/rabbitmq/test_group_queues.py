"""Queues of groups join when the management pages answer, however late, and are let go of when they end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.waiting import eventually

from mangrove.broker.rabbitmq.address import GROUPS_EXCHANGE, RabbitAddress
from mangrove.broker.rabbitmq.exchange import group_queues
from mangrove.broker.rabbitmq.exchange.bindings import Binding, BindingBook
from mangrove.broker.rabbitmq.exchange.group_queues import MAX_AT_ONCE, NOT_REACHED, GroupQueues
from mangrove.broker.rabbitmq.exchange.management import PageError
from mangrove.broker.rabbitmq.exchange.topology import Topology
from mangrove.broker.rabbitmq.wire.connection import AmqpConnection


def binding(queue: str, key: str = "jobs.*") -> Binding:
    return Binding("queue", queue, key, "", queue)


class Broker:
    """Its management pages, and what is bound to its exchange of groups; `answers` are statuses, then 200."""

    serving = "mangrove.oslo.serve"

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.listed: dict[str, list[Binding]] = {GROUPS_EXCHANGE: [], self.serving: []}
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        self.open = asyncio.Event()
        """Whether pages are answered at all."""
        self.open.set()
        self.home: Counter[str] = Counter()
        self.slow = asyncio.Event()
        """Whether binding is answered."""
        self.slow.set()
        self.told: dict[tuple[str, str], bool] = {}
        self.ignored: Counter[str] = Counter()
        self.book = BindingBook(self._tell, lambda: None)
        self.groups = GroupQueues(self.book, cast("Topology", self), self._ignore)

    def _tell(self, pattern: str, group: str, wanted: bool) -> None:
        self.told[group, pattern] = wanted

    def _ignore(self, what: str) -> None:
        self.ignored[what] += 1

    @property
    def members(self) -> set[str]:
        return {group for (group, _), wanted in self.told.items() if wanted}

    async def begin(self, *home: str) -> list[Binding]:
        self.home = Counter(home)
        connection = cast("AmqpConnection", object())
        ready = await self.groups.begin(
            RabbitAddress(host="broker", port=5672), None, connection, home, lambda: None
        )
        self.book.begin(ready)
        return ready

    async def bind_home(self, _: object, key: str) -> None:
        self.home[key] = 1
        await self.slow.wait()

    def unbind_home(self, _: object, key: str) -> None:
        del self.home[key]

    async def fetch(self, address: object, path: str, tls: object, *, method: str, content: bytes) -> bytes:
        self.asked.append(path.rpartition("/")[2])
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.open.wait()
            await asyncio.sleep(0)
        finally:
            self.at_once -= 1
        if self.answers and (status := self.answers.pop(0)) != 200:
            raise PageError("the page cannot be had", status)
        return b""

    async def listed_bindings(
        self, address: object, exchange: str, tls: object, *, groups: bool = False
    ) -> list[Binding]:
        return self.listed[exchange]

    async def have(self, *members: str) -> None:
        async def told() -> bool:
            return self.members == set(members)

        await eventually(told, f"{members} should be known")


@pytest.fixture
async def broker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    broker = Broker()
    monkeypatch.setattr(group_queues, "fetch", broker.fetch)
    monkeypatch.setattr(group_queues, "listed_bindings", broker.listed_bindings)
    monkeypatch.setattr(group_queues, "RETRY_S", 0.01)
    monkeypatch.setattr(group_queues, "MAX_RETRY_S", 0.02)
    yield broker
    broker.groups.end()
    await asyncio.sleep(0.01)
    assert {task.get_name() for task in asyncio.all_tasks()}.isdisjoint({"join a group"})


async def test_a_page_that_fails_is_asked_again_until_it_answers(broker: Broker) -> None:
    await broker.begin()
    broker.answers = [0, 503, 429, 500]
    broker.groups.created(binding("workers"))
    await broker.have("workers")
    assert broker.asked == ["workers"] * 5
    assert broker.ignored == {NOT_REACHED: 1}, "it is told once"
    assert broker.home == {"jobs.*": 1}


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_what_is_refused_is_not_asked_again_before_somebody_binds_it_anew(
    broker: Broker, status: int
) -> None:
    await broker.begin()
    broker.answers = [status]
    broker.groups.created(binding("alone"))
    await asyncio.sleep(0.1)
    assert broker.asked == ["alone"]
    assert broker.ignored == {NOT_REACHED: 1}
    assert not broker.members
    assert not broker.home
    broker.groups.created(binding("alone", "more.*"))
    await broker.have("alone")
    assert set(broker.told) == {("alone", "jobs.*"), ("alone", "more.*")}


async def test_few_pages_are_asked_side_by_side(broker: Broker) -> None:
    await broker.begin()
    names = [f"workers{number}" for number in range(100)]
    for name in names:
        broker.groups.created(binding(name))
    await broker.have(*names)
    assert broker.most_at_once == MAX_AT_ONCE


async def test_a_gateway_is_attached_before_all_queues_are_reached(broker: Broker) -> None:
    """What was reached before is told at once, as far as the domain's own messages come to it."""
    old, new_key, new = binding("old"), binding("old", "new.*"), binding("new")
    broker.listed = {
        GROUPS_EXCHANGE: [old, new_key, new],
        broker.serving: [Binding("queue", "old", ""), Binding("queue", "gone", "")],
    }
    broker.open.clear()
    async with asyncio.timeout(1.0):
        assert await broker.begin("jobs.*", "stale.*") == [old]
    assert broker.home == {"jobs.*": 1}, "nobody wants the other any more"
    await asyncio.sleep(0.01)
    assert {place for place, wanted in broker.told.items() if wanted} == {("old", "jobs.*"), ("old", "new.*")}
    assert broker.asked == ["new"]
    broker.open.set()
    await broker.have("old", "new")


async def test_a_queue_that_goes_is_asked_for_no_more_and_one_that_returns_is_reached_anew(
    broker: Broker,
) -> None:
    await broker.begin()
    broker.open.clear()
    broker.groups.created(binding("workers"))
    await asyncio.sleep(0.01)
    broker.groups.deleted(binding("workers"))
    broker.groups.created(binding("workers"))
    await asyncio.sleep(0.01)
    assert broker.asked == ["workers"] * 2, "the first may have been about the queue that is gone"
    broker.open.set()
    await broker.have("workers")
    broker.groups.deleted(binding("workers"))
    await broker.have()
    assert not broker.home
    broker.groups.created(binding("workers"))
    await broker.have("workers")
    assert len(broker.asked) == 3


async def test_a_binding_that_goes_while_its_messages_are_asked_for_leaves_nothing(broker: Broker) -> None:
    await broker.begin()
    broker.slow.clear()
    broker.groups.created(binding("workers"))
    await asyncio.sleep(0.01)
    assert broker.home == {"jobs.*": 1}
    broker.groups.deleted(binding("workers"))
    await asyncio.sleep(0.01)
    assert not broker.home
    assert not broker.members


async def test_when_the_connection_is_over_nothing_is_asked_any_more(broker: Broker) -> None:
    await broker.begin()
    broker.answers = [0] * 1000
    broker.groups.created(binding("workers"))
    await asyncio.sleep(0.02)
    broker.groups.end()
    broker.groups.created(binding("late"))
    asked = len(broker.asked)
    await asyncio.sleep(0.1)
    assert broker.asked == ["workers"] * asked


class Key(str):
    """A key that counts how often it is looked at."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        Key.looks += 1
        return str.__hash__(self)

    __eq__ = str.__eq__


async def test_to_let_go_of_one_binding_takes_no_look_at_the_others(broker: Broker) -> None:
    bindings = [binding(f"q{number}", Key(f"jobs.{number}")) for number in range(500)]
    broker.listed = {
        GROUPS_EXCHANGE: bindings,
        broker.serving: [Binding("queue", each.name, "") for each in bindings],
    }
    assert len(await broker.begin(*(each.key for each in bindings))) == 500
    Key.looks = 0
    broker.groups.deleted(bindings[0])
    assert Key.looks < 50
    assert len(broker.home) == 499


PLACES = st.tuples(st.sampled_from(["q1", "q2"]), st.sampled_from(["a", "b", "c"]))


@given(st.lists(st.tuples(PLACES, st.sampled_from(["bind", "unbind", "wait", "fail"]))))
def test_the_domains_own_messages_come_by_the_keys_that_are_bound_and_by_no_others(
    steps: list[tuple[tuple[str, str], str]],
) -> None:
    async def run() -> None:
        broker = Broker()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(group_queues, "fetch", broker.fetch)
            patch.setattr(group_queues, "listed_bindings", broker.listed_bindings)
            patch.setattr(group_queues, "RETRY_S", 0.0)
            bound: set[tuple[str, str]] = set()
            await broker.begin()
            for place, what in steps:
                if what == "bind":
                    bound.add(place)
                    broker.groups.created(binding(*place))
                elif what == "unbind":
                    bound.discard(place)
                    broker.groups.deleted(binding(*place))
                elif what == "fail":
                    broker.answers.append(503)
                else:
                    await asyncio.sleep(0)
            for _ in range(50 + 10 * len(steps)):
                await asyncio.sleep(0)
            assert {place for place, wanted in broker.told.items() if wanted} == bound
            assert set(broker.home) == {key for _, key in bound}
            broker.groups.end()
            await asyncio.sleep(0)

    asyncio.run(run())
