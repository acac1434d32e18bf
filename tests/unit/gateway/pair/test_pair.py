"""Two gateways' line over real sockets, with the gateways' part played by notebooks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import chain

import pytest
from tests.kit.engines import federation
from tests.kit.management_broker import management_broker
from tests.kit.waiting import eventually

from mangrove.gateway.pair.announcement import Announcement
from mangrove.gateway.pair.pair import Pair
from mangrove.host.ports import PortReservation
from mangrove.model.address import Address
from mangrove.model.gateway_settings import PairSettings
from mangrove.overlay.pair.messages import Figures, PairHello, Role, word_record
from mangrove.overlay.protocol.control_messages import Digest, InterestUpdate
from mangrove.overlay.protocol.frames import Name

FEDERATION = federation(("a", "b"))
UPDATE = InterestUpdate(origin="b", epoch=1, version=1, snapshot=True, added=["x"])


class Notebook:
    """A gateway that only writes down what it is told."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.names: list[Name] = []
        self.interest: list[InterestUpdate] = []
        self.roles: list[Role] = []
        self.others: list[str] = []
        pair.serve(self)

    def figures(self) -> Figures:
        return Figures(sent=11, delivered=22, broker="a-head")

    def other_at(self, broker: str) -> None:
        self.others.append(broker)

    def delivered_names(self) -> list[Name]:
        return [Name(0, 1, 1, 1)]

    def told_names(self, names: list[Name]) -> None:
        self.names += names

    def told_interest(self, update: InterestUpdate) -> bool:
        self.interest.append(update)
        return False

    def interest_digest(self) -> Digest:
        return Digest(known={})

    def interest_beyond(self, digest: Digest) -> Iterable[InterestUpdate]:
        return [UPDATE]

    def cleared(self) -> None:
        """Nothing was withheld."""

    async def follow(self) -> None:
        while True:
            change = await self.pair.changes.get()
            self.roles.append(change.role)
            if change.role is Role.TAKING_OVER:
                self.pair.take_over()
                self.pair.begun()
            elif change.role is Role.DISPLACED:
                self.pair.let_go()

    @property
    def role(self) -> Role | None:
        return self.roles[-1] if self.roles else None


def notebook(number: int, line: Address) -> Notebook:
    return Notebook(Pair(PairSettings(number=number, process=f"a-{number}", line=line), FEDERATION, "a"))


@asynccontextmanager
async def running(*books: Notebook) -> AsyncIterator[list[list[asyncio.Task[None]]]]:
    tasks = [[asyncio.create_task(book.pair.run()), asyncio.create_task(book.follow())] for book in books]
    try:
        yield tasks
    finally:
        for task in chain(*tasks):
            task.cancel()
        await asyncio.gather(*chain(*tasks), return_exceptions=True)


@pytest.fixture
async def line() -> AsyncIterator[Address]:
    with PortReservation() as ports:
        yield Address("127.0.0.1", ports.take("127.0.0.1"))


async def settled(first: Notebook, second: Notebook) -> None:
    async def both() -> bool:
        return (first.role, second.role) == (Role.ACTIVE, Role.STANDBY)

    await eventually(both, "the first should carry and the second stand by")


async def test_names_and_interest_are_told_and_a_dead_one_is_followed(line: Address) -> None:
    first, second = notebook(1, line), notebook(2, line)
    async with running(first, second):
        await settled(first, second)
        first.pair.tell_names([Name(0, 1, 1, 2), Name(0, 1, 1, 3)])
        first.pair._line._connection.close()  # type: ignore[union-attr]  # as the kernel does for the dead

        async def followed() -> bool:
            return second.role is Role.ACTIVE

        await eventually(followed, "the second should take over")
        assert [name.sequence for name in second.names][-2:] == [2, 3]
        assert UPDATE in second.interest
        assert (second.pair.status().sent_before, second.pair.status().delivered_before) == (11, 22)
        assert second.pair.epoch > 0

        async def displaced() -> bool:
            return first.role is Role.STANDBY

        await eventually(displaced, "the first should be told, and stand by")
        assert Role.DISPLACED in first.roles
        assert first.names, "and be told what was delivered"


async def test_one_that_stops_says_so(line: Address) -> None:
    first, second = notebook(1, line), notebook(2, line)
    async with running(first, second):
        await settled(first, second)
        first.pair.stop()
        assert not first.pair.may_deliver()

        async def followed() -> bool:
            return second.role is Role.ACTIVE

        await eventually(followed, "the second should take over")


async def test_strangers_are_turned_away_and_counted(line: Address) -> None:
    first, second = notebook(1, line), notebook(2, line)
    topology = FEDERATION.topology_hash()
    async with running(first, second):
        await settled(first, second)
        for greeting in (
            b"GET / HTTP/1.1\r\n\r\n",
            word_record(PairHello(federation="test", topology=topology, domain="b", number=2)),
            word_record(PairHello(federation="test", topology=topology, domain="a", number=1)),
            word_record(PairHello(federation="test", topology="older", domain="a", number=2)),
        ):
            reader, writer = await asyncio.open_connection(*line)
            writer.write(greeting)
            await reader.read()
            writer.close()
        assert first.pair.status().ignored == 4
        assert (first.role, second.role) == (Role.ACTIVE, Role.STANDBY)


async def test_two_that_cannot_hear_each_other_learn_it_from_the_management_broker(
    line: Address, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Both carry; the one that began earlier lets go as soon as it hears of the other."""
    with PortReservation() as ports:
        nowhere = Address("127.0.0.1", ports.take("127.0.0.1"))
        first, second = notebook(1, line), notebook(2, nowhere)
        async with management_broker(tmp_path_factory.mktemp("broker")) as broker, running(first, second):

            async def both_carry() -> bool:
                return (first.role, second.role) == (Role.ACTIVE, Role.ACTIVE)

            await eventually(both_carry, "both should carry")
            async with asyncio.TaskGroup() as tasks:
                said = []
                for book in (first, second):
                    announcement, connection = Announcement("a", book.pair), await broker.connect()
                    await announcement.subscribe(connection)
                    said.append(tasks.create_task(announcement.deliver(connection)))

                async def displaced() -> bool:
                    return Role.DISPLACED in first.roles

                await eventually(displaced, "the earlier one should let go")
                assert Role.DISPLACED not in second.roles
                for task in said:
                    task.cancel()


async def test_an_epoch_far_ahead_of_all_clocks_displaces_nobody(line: Address) -> None:
    first = notebook(1, line)
    async with running(first):

        async def carries() -> bool:
            return first.role is Role.ACTIVE

        await eventually(carries, "it should carry")
        first.pair.learned(1 << 62)
        assert first.pair.status().ignored == 1
        assert first.pair.may_deliver()
