"""Publishing while no broker can be reached: real servers that are killed and come back under load."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.waiting import eventually

import mangrove
from mangrove.broker.nats.server import nats_server
from mangrove.client import Connection, Message, NotConnectedError, Offline, OfflineState, Outcome
from mangrove.client import connection as connection_module
from mangrove.client.offline.kept import Reason
from mangrove.client.offline.spool import look_into
from mangrove.errors import InputError
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.model.congestion.terms import TopicTerms

HOST = "127.0.0.1"


class Site:
    """A nats-server at a port that stays its own, killed and started as a test wants."""

    def __init__(self, port: int, directory: Path) -> None:
        self.url = f"nats://{HOST}:{port}"
        self.process: ManagedProcess = nats_server("site", f'listen: "{HOST}:{port}"\n', directory)


@pytest.fixture(autouse=True)
def no_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none that could tell of contracts, so it is not waited for as long as usual."""
    monkeypatch.setattr(connection_module, "MEETING_S", 0.2)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    with PortReservation() as ports:
        site = Site(ports.take(HOST), tmp_path)
        yield site
        await site.process.stop()


class Received:
    """What a subscriber got, by subject, as numbers."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[int]] = defaultdict(list)
        self.subjects: list[str] = []

    async def take(self, message: Message) -> None:
        self.numbers[message.subject].append(int(message.data))
        self.subjects.append(message.subject)

    async def all_of(self, subject: str, count: int) -> None:
        async def came() -> bool:
            return len(self.numbers[subject]) >= count

        await eventually(came, f"{count} messages on {subject}", timeout_s=30)
        assert self.numbers[subject] == list(range(count)), "each once, in order"


async def empty(connection: Connection) -> None:
    async def sent() -> bool:
        return not connection.offline

    await eventually(sent, "nothing waits any longer", timeout_s=30)


async def away(connection: Connection) -> None:
    """Wait until the connection knows that its broker is gone."""

    async def gone() -> bool:
        return not connection.wire_of("x").connected

    await eventually(gone, "the broker is lost")


async def test_a_broker_killed_under_load_costs_nothing(site: Site) -> None:
    """Three times: what was under way is said again, what was kept is sent, all in order and once."""
    await site.process.start()
    received, told = Received(), list[OfflineState]()
    async with (
        mangrove.connect(site.url) as reader,
        mangrove.connect(site.url, offline=True, on_offline=told.append) as connection,
    ):
        await reader.subscribe("load.*", callback=received.take)
        outcomes: set[Outcome] = set()
        stop = asyncio.Event()
        sent = [0, 0]

        async def publish(which: int) -> None:
            while not stop.is_set():
                subject = f"load.{which}"
                headers = {"K": "v"} if which else None
                outcomes.add(await connection.publish(subject, b"%d" % sent[which], headers=headers))
                sent[which] += 1
                if not sent[which] % 10:
                    await asyncio.sleep(0.001)

        publishers = [asyncio.create_task(publish(which)) for which in range(2)]
        for _ in range(3):
            before = len(received.subjects)

            async def flows(before: int = before) -> bool:
                return len(received.subjects) > before + 500

            await eventually(flows, "messages flow")
            await site.process.kill()
            await away(connection)
            waiting = connection.offline.messages

            async def grows(waiting: int = waiting) -> bool:
                return connection.offline.messages > waiting + 100

            await eventually(grows, "messages wait")
            assert connection.offline.since is not None
            await site.process.start()
            await empty(connection)
        stop.set()
        await asyncio.gather(*publishers)
        await connection.flush(10)
        for which in range(2):
            await received.all_of(f"load.{which}", sent[which])
        assert outcomes == {Outcome.SENT, Outcome.KEPT}
        state = connection.offline
        assert (state.messages, state.size_bytes, state.since, dict(state.dropped)) == (0, 0, None, {})
        assert state.kept == state.sent > 300
        assert [each.messages > 0 for each in told] == [True, False] * 3
        assert connection.published()["load.0"].messages == sent[0], "each is counted once"


async def test_a_broker_that_is_not_there_yet(site: Site) -> None:
    received = Received()
    connection = await mangrove.connect(site.url, offline=Offline(settle_s=5.0))
    try:
        for number in range(100):
            assert await connection.publish("early", b"%d" % number) is Outcome.KEPT
        with pytest.raises(NotConnectedError, match="100 messages wait"):
            await connection.flush(0.1)
        await site.process.start()
        async with mangrove.connect(site.url) as reader:
            await reader.subscribe("early", callback=received.take)
            assert connection.publish_nowait("early", b"100") is Outcome.KEPT
            await received.all_of("early", 101)
            await connection.flush(10)
            assert await connection.publish("early", b"101") is Outcome.SENT
            await received.all_of("early", 102)
    finally:
        await connection.close()


async def test_what_is_urgent_goes_first_and_new_messages_go_behind_the_old(site: Site) -> None:
    """Contracts are not known here: they are given to the keeper as a gateway would."""
    received = Received()
    async with mangrove.connect(site.url, offline=Offline(settle_s=5.0)) as connection:
        keeper = connection._keeper
        assert keeper is not None
        keeper.adopt(
            [
                TopicTerms(match="alert.>", deadline_ms=100),
                TopicTerms(match="news.>", deadline_ms=1, late="drop"),
                TopicTerms(match="sensor.>", deadline_ms=2000),
            ]
        )
        for number in range(300):
            for subject in ("bulk.a", "sensor.a", "alert.a", "news.a"):
                await connection.publish(subject, b"%d" % number)
        await site.process.start()
        async with mangrove.connect(site.url) as reader:
            await reader.subscribe(">", callback=received.take)
            number = 300
            while connection.offline:
                await connection.publish("bulk.a", b"%d" % number)
                number += 1
                await asyncio.sleep(0 if connection.offline.sent else 0.01)
            await connection.flush()
            await received.all_of("bulk.a", number)
            await received.all_of("alert.a", 300)
            await received.all_of("sensor.a", 300)
            subjects = received.subjects[:600]
            assert subjects == ["alert.a"] * 300 + ["sensor.a"] * 300
        assert "news.a" not in received.numbers
        assert connection.offline.dropped["news.a"][Reason.LATE].messages == 300


async def test_too_much_and_too_old_are_counted(site: Site) -> None:
    told: list[OfflineState] = []
    offline = Offline(max_bytes=1 << 16, max_age_s=0.5)
    async with mangrove.connect(site.url, offline=offline, on_offline=told.append) as connection:
        for _ in range(100):
            await connection.publish("big", bytes(2000))
        state = connection.offline
        assert state.size_bytes <= 1 << 16
        dropped = state.dropped["big"][Reason.TOO_MUCH]
        assert dropped.messages + state.messages == 100
        assert dropped.size_bytes == 2000 * dropped.messages
        await empty(connection)
        assert connection.offline.dropped["big"][Reason.TOO_OLD].messages == state.messages
        await eventually_told(told, 3)
        assert [each.messages > 0 for each in told] == [True, True, False]


async def eventually_told(told: list[OfflineState], count: int) -> None:
    async def enough() -> bool:
        return len(told) >= count

    await eventually(enough, "the program is told")


CLIENT = """
import asyncio, sys
import mangrove

async def main() -> None:
    offline = mangrove.Offline(directory=sys.argv[2], sync_s=0)
    async with mangrove.connect(sys.argv[1], offline=offline) as connection:
        for number in range(200):
            await connection.publish("kept", b"%d" % number)
        print("kept", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_what_waits_outlives_a_killed_program(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, site.url, str(folder), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert client.stdout is not None
        assert await client.stdout.readline() == b"kept\n"
        with pytest.raises(InputError, match="in use by another client"):
            await mangrove.connect(site.url, offline=Offline(directory=folder))
    finally:
        client.kill()
        await client.wait()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in folder.iterdir()} == {0o600}
    [segment] = folder.glob("*.spool")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-3])
    ids = [kept.head for kept in look_into(folder).waiting]
    received, heads = Received(), []
    async with mangrove.connect(site.url, offline=Offline(directory=folder, settle_s=5.0)) as connection:
        state = connection.offline
        assert (state.recovered, state.messages) == (199, 199)
        assert state.unreadable_bytes > 0
        await connection.publish("kept", b"199")
        await site.process.start()
        async with mangrove.connect(site.url) as reader:

            async def take(message: Message) -> None:
                heads.append(message.head)
                await received.take(message)

            await reader.subscribe("kept", callback=take)
            await received.all_of("kept", 200)
            assert heads[:199] == ids, "ids and times are those of publishing"

            async def settled() -> bool:
                return not list(folder.glob("*.spool"))

            await eventually(settled, "what has arrived is not on disk any more")


async def test_what_is_left_when_a_client_closes_is_on_disk(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    await site.process.start()
    connection = await mangrove.connect(site.url, offline=Offline(directory=folder))
    await connection.publish("sent", b"0")
    await connection.flush()
    await site.process.kill()
    await away(connection)
    await connection.publish("left", b"0")
    await connection.close()
    assert [kept.subject for kept in look_into(folder).waiting][-1] == "left"


async def test_without_the_option_nothing_is_kept(site: Site) -> None:
    await site.process.start()
    async with mangrove.connect(site.url) as connection:
        assert await connection.publish("a", b"x") is Outcome.SENT
        assert connection.offline == OfflineState()
