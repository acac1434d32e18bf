"""Two gateways' line over real sockets, with the gateways' part played by notebooks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from time import monotonic

import pytest
from tests.kit.management_broker import management_broker
from tests.kit.pair_notebooks import FEDERATION, UPDATE, notebook, running, settled
from tests.kit.waiting import eventually

from mangrove.gateway.pair.announcement import Announcement
from mangrove.host.ports import PortReservation
from mangrove.model.address import Address
from mangrove.model.versions.kept import Ballot, KeptVersions
from mangrove.overlay.pair.messages import PairHello, Role, word_record
from mangrove.overlay.protocol.frames import Name


@pytest.fixture
async def line() -> AsyncIterator[Address]:
    with PortReservation() as ports:
        yield Address("127.0.0.1", ports.take("127.0.0.1"))


async def test_names_and_interest_are_told_and_a_dead_one_is_followed(line: Address) -> None:
    first, second = notebook(1, line), notebook(2, line)
    async with running(first, second):
        await settled(first, second)
        assert set(second.versions) == {KeptVersions(promised=Ballot(3, "a"))}, "told who carries, and this"
        first.pair.tell_versions(KeptVersions(promised=Ballot(4, "a")))
        first.pair.tell_names([Name(0, 1, 1, 2), Name(0, 1, 1, 3)])
        first.pair._line._connection.close()  # type: ignore[union-attr]  # as the kernel does for the dead

        async def followed() -> bool:
            return second.role is Role.ACTIVE

        await eventually(followed, "the second should take over")
        assert [name.sequence for name in second.names][-2:] == [2, 3]
        assert UPDATE in second.interest
        assert second.versions[-1] == KeptVersions(promised=Ballot(4, "a"))
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


async def test_what_is_withheld_is_delivered_also_if_the_answer_was_there_before_it_was_read(
    line: Address,
) -> None:
    """A gateway that was held up has asked, and what arrives meets the answer in the same moment."""
    first, second = notebook(1, line), notebook(2, line)
    async with running(first, second):
        await settled(first, second)
        first.pair._roles._fence(monotonic())  # as when it was held up
        first.pair._serve()  # asks
        second.pair._line.read()  # the question, which is answered at once
        first.deliver("in one turn with the answer")
        first.deliver("after it")

        async def all_delivered() -> bool:
            return not first.withheld

        await eventually(all_delivered, "what was withheld should be delivered")
        assert first.delivered == ["in one turn with the answer", "after it"]


async def test_what_was_withheld_goes_before_what_comes_after_it(line: Address) -> None:
    first, second = notebook(1, line), notebook(2, line)
    async with running(first, second):
        await settled(first, second)
        roles = first.pair._roles
        roles._fence(monotonic())
        first.deliver("withheld")
        assert first.withheld == ["withheld"]
        # The other one does not answer in time, and the next message is there before anything else is due.
        roles._fenced_at = monotonic() - roles._timing.fence_s
        first.deliver("after it")

        async def all_delivered() -> bool:
            return not first.withheld

        await eventually(all_delivered, "what was withheld should be delivered")
        assert first.delivered == ["withheld", "after it"]
