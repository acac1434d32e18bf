"""The SDK and the command line in a domain whose head is a RabbitMQ, in a federation without keys."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.kit.amqp_clients import amqp_clients, parameters
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.broker.client_connection import RawMessage
from mangrove.broker.rabbitmq.attachment import NO_ROOM, RabbitAttachment
from mangrove.broker.rabbitmq.client.connection import RabbitClientConnection
from mangrove.client.connecting import Connecting
from mangrove.config import parse_federation
from mangrove.errors import MangroveError
from mangrove.overlay.protocol.bodies import Entry
from mangrove.testbed.local_federation import LocalFederation

FEDERATION = """
federation: open-mixed
domains:
  geneva: {edges: 1}
  tokyo:  {kind: rabbitmq}
links:
  - {between: [geneva, tokyo], delay_ms: 1}
topics:
  - {match: "limited.>", rate_msg_s: 5}
  - {match: "twice.>", mirror: true}
max_message_bytes: 65536
"""
COMMAND = (sys.executable, "-m", "mangrove.cli.main")


class Open(Running):
    """The running federation, and its clients."""

    @property
    def where(self) -> Path:
        return self.launched.directory

    def connect(self, domain: str) -> Connecting:
        return mangrove.connect(run_dir=self.where, domain=domain)


@pytest.fixture(scope="module")
async def mixed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Open]:
    directory = tmp_path_factory.mktemp("state") / "mixed"
    federation = parse_federation(FEDERATION, "mixed").require()
    async with LocalFederation(federation, directory, ephemeral=True) as launched:
        running = Open(launched)
        await running.links_up()
        yield running


async def test_publish_and_subscribe_with_ids_and_without_a_pause(mixed: Open) -> None:
    async with mixed.connect("tokyo") as tokyo, mixed.connect("geneva") as geneva:
        here, there = await tokyo.subscribe("both.*.>"), await geneva.subscribe("both.>")
        await here.ready()
        await there.ready()
        await tokyo.publish("both.a.b", b"from tokyo", headers={"Colour": "red"})
        await geneva.publish("both.c.d", b"from geneva", headers={"Colour": "blue"})
        for subscription in (here, there):
            got = {each.data: each for each in [await subscription.next(timeout=20) for _ in range(2)]}
            assert {each.subject for each in got.values()} == {"both.a.b", "both.c.d"}
            assert got[b"from tokyo"].headers["Colour"] == "red"
            assert got[b"from geneva"].headers["Colour"] == "blue"
            assert all(each.id for each in got.values())
        assert here.subject == "both.*.>"


async def test_what_is_known_of_a_domain_is_told_by_its_broker(mixed: Open) -> None:
    """A connection by URL learns contracts and where to ask; it does not wait long for that."""

    async def limited() -> bool:
        async with mangrove.connect(mixed.head("tokyo")) as tokyo:
            outcomes = {(await tokyo.publish("limited.x", b"%d" % number)).name for number in range(20)}
            if "LIMITED" in outcomes:
                await (await tokyo.subscribe("limited.x")).ready()
            return outcomes == {"SENT", "LIMITED"}

    await eventually(limited, "a connection should learn the limit of its contract")


async def test_many_messages_come_in_order_and_once(mixed: Open) -> None:
    async with mixed.connect("tokyo") as tokyo, mixed.connect("geneva") as geneva:
        here, there = await tokyo.subscribe("many.geneva"), await geneva.subscribe("many.tokyo")
        await here.ready()
        await there.ready()
        for number in range(3_000):
            await tokyo.publish("many.tokyo", b"%d" % number)
            await geneva.publish("many.geneva", b"%d" % number)
        expected = [b"%d" % number for number in range(3_000)]
        assert [(await there.next(timeout=20)).data for _ in expected] == expected
        assert [(await here.next(timeout=20)).data for _ in expected] == expected


async def test_mirrored_topics_come_once(mixed: Open) -> None:
    """There is no second broker at a RabbitMQ's side; the other side has its second copies as ever."""
    async with mixed.connect("tokyo") as tokyo, mixed.connect("geneva") as geneva:
        here, there = await tokyo.subscribe("twice.>"), await geneva.subscribe("twice.>")
        await here.ready()
        await there.ready()
        for number in range(100):
            await tokyo.publish("twice.t", b"t%d" % number)
            await geneva.publish("twice.g", b"g%d" % number)
        for publisher in (tokyo, geneva):
            await publisher.flush()
            await publisher.publish("twice.end", b"end")
        for subscription in (here, there):
            got: Counter[bytes] = Counter()
            while got[b"end"] < 2:
                got[(await subscription.next(timeout=20)).data] += 1
            del got[b"end"]
            assert got == Counter(
                b"%b%d" % (where, number) for where in (b"t", b"g") for number in range(100)
            )


async def test_requests_go_both_ways_and_stay_at_home(mixed: Open) -> None:
    async with mixed.connect("tokyo") as tokyo, mixed.connect("geneva") as geneva:

        async def serve(subscription: mangrove.Subscription, name: bytes) -> None:
            async for message in subscription:
                await message.respond(name + message.data)

        at_tokyo, at_geneva = await tokyo.subscribe("ask.tokyo"), await geneva.subscribe("ask.geneva")
        serving = [
            asyncio.create_task(serve(at_tokyo, b"tokyo: ")),
            asyncio.create_task(serve(at_geneva, b"geneva: ")),
        ]
        await at_tokyo.ready()
        await at_geneva.ready()
        assert (await tokyo.request("ask.geneva", b"1", timeout=20)).data == b"geneva: 1"
        assert (await geneva.request("ask.tokyo", b"2", timeout=20)).data == b"tokyo: 2"
        assert (await tokyo.request("ask.tokyo", b"3", timeout=20)).data == b"tokyo: 3"
        with pytest.raises(TimeoutError):
            await tokyo.request("ask.nobody", b"4", timeout=0.5)
        answers = await tokyo.subscribe("answers.mine")
        await tokyo.publish("ask.geneva", b"5", reply="answers.mine")
        assert (await answers.next(timeout=20)).data == b"geneva: 5"
        with pytest.raises(MangroveError, match="answers come to a queue"):
            await tokyo.publish("ask.geneva", b"6", reply="answers.elsewhere")
        for task in serving:
            task.cancel()


async def test_members_of_a_group_are_the_sdks_and_amqps(mixed: Open) -> None:
    """All of them consume one queue, and with members elsewhere each job is done once."""
    async with (
        mixed.connect("tokyo") as first,
        mixed.connect("tokyo") as second,
        mixed.connect("geneva") as far,
    ):
        served: Counter[bytes] = Counter()
        members = [await each.subscribe("crew.>", queue="crew") for each in (first, second, far)]

        async def work(member: mangrove.Subscription) -> None:
            async for message in member:
                served[message.data] += 1

        working = [asyncio.create_task(work(member)) for member in members]
        for member in members:
            await member.ready()
        for number in range(100):
            await first.publish("crew.x", b"t%d" % number)
            await far.publish("crew.x", b"g%d" % number)

        async def done() -> bool:
            return len(served) >= 200

        await eventually(done, "all jobs should be done")
        assert set(served.values()) == {1}
        for task in working:
            task.cancel()


async def test_a_queue_that_somebody_has_alone_disturbs_nobody_else(mixed: Open) -> None:
    """A broker ends the connection for such a consumer, and would for ever; others lose nothing by that."""
    broker = mixed.launched.endpoints["tokyo"].head
    async with amqp_clients(parameters(broker, None)) as (plain,), mixed.connect("tokyo") as tokyo:
        here = await tokyo.subscribe("alone.>")

        def have_them_alone() -> None:
            for queue in ("hermit", "recluse"):
                plain.channel.queue_declare(queue, auto_delete=True)
                plain.channel.basic_consume(queue, lambda *_: None, exclusive=True)

        await plain.run(have_them_alone)
        refused = await asyncio.gather(
            *(tokyo.subscribe(f"{queue}.>", queue=queue) for queue in ("hermit", "recluse")),
            return_exceptions=True,
        )
        assert [type(each) for each in refused] == [mangrove.NotAllowedError] * 2
        await tokyo.flush()
        wire = tokyo.wire_of("alone.1")
        assert isinstance(wire, RabbitClientConnection)
        connects = wire.counts.connects
        assert connects <= 3
        await asyncio.sleep(1)
        await tokyo.publish("alone.1", b"1")
        assert (await here.next(timeout=20)).data == b"1"
        assert wire.counts.connects == connects


class HalfOpen:
    """Connections to a broker by a way that ends for the client alone, as where a firewall forgets it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ours: list[asyncio.StreamWriter] = []
        self._theirs: list[asyncio.StreamWriter] = []

    async def lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._port)
        self._ours.append(writer)
        self._theirs.append(to_broker)
        ways = [self._pass_on(reader, to_broker), self._pass_on(from_broker, writer)]
        await asyncio.gather(*ways, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)

    def end(self) -> None:
        """The broker hears nothing of it."""
        for each in self._ours:
            each.transport.abort()
        self._ours.clear()

    def close(self) -> None:
        for each in (*self._ours, *self._theirs):
            each.transport.abort()


async def test_who_is_back_before_the_broker_knows_that_he_was_lost_is_served(mixed: Open) -> None:
    """The broker still has the queues of the last connection, which nobody else may use."""
    way = HalfOpen(mixed.launched.endpoints["tokyo"].head.client_port)
    got: asyncio.Queue[RawMessage] = asyncio.Queue()

    def take(messages: list[RawMessage], size_bytes: int) -> None:
        for each in messages:
            got.put_nowait(each)

    async with await asyncio.start_server(way.lead, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = RabbitClientConnection([f"amqp://guest:guest@127.0.0.1:{port}/"], "half open")
        await client.connect(10)
        subscribed = client.subscribe("half.open", take)
        for number in range(3):
            await client.flush(10)
            assert client.denial(subscribed) is None
            client.publish("half.open", b"%d" % number)
            assert (await asyncio.wait_for(got.get(), 20)).data == b"%d" % number
            way.end()

            async def back(connects: int = number + 2) -> bool:
                return client.counts.connects == connects

            await eventually(back, "the client should connect again")
        await client.close()
        way.close()


async def test_what_is_too_large_is_refused_and_all_else_goes_on(mixed: Open) -> None:
    async with mixed.connect("tokyo") as tokyo, mixed.connect("geneva") as geneva:
        there = await geneva.subscribe("size.>")
        await there.ready()
        await tokyo.publish("size.small", b"before")
        await tokyo.publish("size.large", b"x" * 200_000)
        await tokyo.flush()
        await tokyo.publish("size.small", b"after")
        got = {(await there.next(timeout=20)).data for _ in range(2)}
        assert got == {b"before", b"after"}


async def test_the_command_line_publishes_and_subscribes(mixed: Open) -> None:
    listening = await asyncio.create_subprocess_exec(
        *(*COMMAND, "sub", "told.>", "--wait", "--count", "2", "--domain", "tokyo"),
        *("--run-dir", str(mixed.where)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ),
    )
    assert listening.stderr is not None
    while b"ready" not in (line := await listening.stderr.readline()):
        assert line, "it ended before it was ready"
    for domain in ("tokyo", "geneva"):
        said = await asyncio.create_subprocess_exec(
            *(*COMMAND, "pub", "told.once", domain, "--domain", domain, "--run-dir", str(mixed.where)),
            stdout=subprocess.DEVNULL,
        )
        assert await said.wait() == 0
    out, _ = await asyncio.wait_for(listening.communicate(), 30)
    assert sorted(out.splitlines()) == [b"told.once: geneva", b"told.once: tokyo"]
    assert listening.returncode == 0


async def test_publishing_goes_on_when_the_broker_was_killed(mixed: Open) -> None:
    """What `flush` has confirmed is there, and subscribers come back by themselves.

    One of them keeps what no broker takes (`offline`).
    """
    async with (
        mixed.connect("tokyo") as tokyo,
        mixed.connect("geneva") as geneva,
        mangrove.connect(run_dir=mixed.where, domain="tokyo", offline=True) as keeping,
    ):
        kept = await geneva.subscribe("kept.tokyo")
        await kept.ready()
        here, there = await tokyo.subscribe("killed.geneva"), await geneva.subscribe("killed.tokyo")
        await here.ready()
        await there.ready()
        process = mixed.launched.sites["tokyo"].brokers["tokyo-head"]
        restarts = process.restarts
        for number in range(200):
            await tokyo.publish("killed.tokyo", b"%d" % number)
        await tokyo.flush()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        for number in range(200, 400):
            await tokyo.publish("killed.tokyo", b"%d" % number)

        async def away() -> bool:
            return not keeping.wire_of("kept.tokyo").connected

        await eventually(away, "the broker is lost")
        outcomes = {await keeping.publish("kept.tokyo", b"%d" % number) for number in range(100)}
        assert outcomes == {mangrove.Outcome.KEPT}

        async def back() -> bool:
            return process.restarts > restarts

        await eventually(back, "the broker should be started again", timeout_s=60)
        await tokyo.flush(timeout=60)
        heard: set[bytes] = set()
        async with asyncio.timeout(60):
            while len(heard) < 400:
                heard.add((await there.next(timeout=60)).data)
        assert heard == {b"%d" % number for number in range(400)}
        assert [(await kept.next(timeout=60)).data for _ in range(100)] == [b"%d" % n for n in range(100)]
        await here.ready(timeout=60)
        await geneva.publish("killed.geneva", b"there again")
        assert (await here.next(timeout=30)).data == b"there again"


async def test_another_exchange_is_named_in_the_url(mixed: Open) -> None:
    """As a site that runs already has one; nobody there knows of a federation."""
    broker = mixed.launched.endpoints["tokyo"].head
    async with amqp_clients(parameters(broker, None)) as (plain,):
        await plain.run(lambda: plain.channel.exchange_declare("orders", "topic", auto_delete=True))
        url = f"amqp://guest:guest@{broker.host}:{broker.client_port}/?exchange=orders"
        async with mangrove.connect(url) as client:
            subscription = await client.subscribe("order.*")
            queue = await plain.queue()
            await plain.run(lambda: plain.channel.queue_bind(queue, "orders", "order.new"))
            await client.publish("order.new", b"1")
            await client.flush()
            await plain.publish("order.new", b"2", exchange="orders")
            assert [(await subscription.next(timeout=20)).data for _ in range(2)] == [b"1", b"2"]
            assert [each.body for each in await plain.take(queue, 2)] == [b"1", b"2"]


class Noting:
    """Owns an attachment, and notes what it is told."""

    def __init__(self) -> None:
        self.known: dict[bytes, Entry] = {}
        self.taken = 0
        self.lost_for_room: Counter[tuple[str, str]] = Counter()
        self.there = asyncio.Event()

    @property
    def sorter(self) -> Noting:
        return self

    def resolve(self, line: bytes) -> Entry:
        raise NotImplementedError

    def take(self, body: bytes) -> None:
        self.taken += body.count(b"LMSG flood.")

    def attached(self, broker: str = "", *, elsewhere: bool = False) -> None:
        self.there.set()

    def undelivered(self, reason: str, count: int, topic: str = "") -> None:
        self.lost_for_room[topic, reason] += count

    def buffer_done(self) -> None: ...
    def interest(self, subject: str, group: str, wanted: bool) -> None: ...
    def ignored(self, what: str) -> None: ...
    def doubted(self, doubted: bool) -> None: ...
    def lost(self, reason: str) -> None: ...
    def writable(self, writable: bool) -> None: ...


@asynccontextmanager
async def attached(name: str, url: str) -> AsyncIterator[Noting]:
    """A gateway's attachment, for which others want something."""
    owner = Noting()
    attachment = RabbitAttachment(name, url, owner)
    running = asyncio.create_task(attachment.run())
    await asyncio.wait_for(owner.there.wait(), 20)
    attachment.subscribe(["flood.>"])
    done = asyncio.Event()
    attachment.confirm(done.set)
    await asyncio.wait_for(done.wait(), 20)
    yield owner
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_a_queue_with_other_bounds_is_used_as_it_is(mixed: Open) -> None:
    """One that was made before what has no room was counted; what waits in it is not lost."""
    broker = mixed.launched.endpoints["tokyo"].head
    async with amqp_clients(parameters(broker, None)) as (client,):
        bound = {"x-max-length-bytes": 1 << 30}
        await client.run(
            lambda: client.channel.queue_declare("mangrove.gateway-old", durable=True, arguments=bound)
        )
        await client.publish("mangrove.gateway-old", b"waits", exchange="")
        async with attached("gateway-old", broker.leaf_url) as owner:
            await client.publish("flood.b", b"1", b"2")

            async def taken() -> bool:
                return owner.taken == 2

            await eventually(taken, "the queue should be consumed")


async def test_what_has_no_room_while_a_gateway_is_away_is_counted(mixed: Open) -> None:
    broker = mixed.launched.endpoints["tokyo"].head
    url = f"{broker.leaf_url}&waiting_bytes=20000"

    async with attached("gateway-small", url):
        pass
    async with amqp_clients(parameters(broker, None)) as (publisher,):
        await publisher.publish("flood.a", *(b"x" * 1_000 for _ in range(50)))
    async with attached("gateway-small", url) as owner:

        async def all_told() -> bool:
            return owner.taken + owner.lost_for_room.total() >= 50

        await eventually(all_told, "each message should be taken or counted")
        assert owner.taken + owner.lost_for_room.total() == 50
        assert 1 <= owner.taken <= 20
        assert set(owner.lost_for_room) == {("flood.a", NO_ROOM)}


async def test_plain_clients_of_amqp_hear_what_the_sdk_says(mixed: Open) -> None:
    how = parameters(mixed.launched.endpoints["tokyo"].head, None)
    async with mixed.connect("tokyo") as tokyo, amqp_clients(how) as (plain,):
        queue = await plain.queue("plain.#")
        subscription = await tokyo.subscribe("plain.>")
        await subscription.ready()
        await tokyo.publish("plain.a", b"by the SDK", headers={"Colour": "red"})
        (got,) = await plain.take(queue, 1)
        first = await subscription.next(timeout=20)
        assert (got.key, got.body, got.properties.message_id) == ("plain.a", b"by the SDK", first.id)
        assert got.properties.headers["Colour"] == "red"
        await plain.publish("plain.b", b"by pika", message_id="p-1")
        assert (await subscription.next(timeout=20)).data == b"by pika"
