"""The SDK's connection to brokers: real servers that are killed, slow, strict or hostile."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import signal
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from ipaddress import IPv4Address
from pathlib import Path

import nats
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec.structs import astuple
from tests.kit.waiting import eventually

import mangrove
from mangrove.broker.client_connection import BrokerAwayError, RawMessage
from mangrove.broker.nats.client import protocol
from mangrove.broker.nats.client.connection import NatsClientConnection
from mangrove.broker.nats.server import READY_TEXT, nats_server, nats_server_binary
from mangrove.client import Message, NotConnectedError
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.model.shared_names import ID_HEADER
from mangrove.testbed.hosts.namespaces import HostNetwork

HOST = "127.0.0.1"


class Server:
    """A nats-server at a port that stays its own."""

    def __init__(self, port: int, directory: Path, more: str) -> None:
        self.port = port
        self.url = f"nats://{HOST}:{port}"
        self.process: ManagedProcess = nats_server(
            f"server-{port}", f'listen: "{HOST}:{port}"\n{more}\n', directory
        )

    async def cut(self) -> None:
        """Kill it as a power cut would, and leave it dead."""
        await self.process.kill()


Serving = Callable[..., Awaitable[Server]]


@pytest.fixture
async def serving(tmp_path: Path) -> AsyncIterator[Serving]:
    """Starts servers; ends them."""
    started: list[Server] = []
    with PortReservation() as ports:

        async def start(more: str = "") -> Server:
            server = Server(ports.take(HOST), tmp_path, more)
            started.append(server)
            await server.process.start()
            return server

        yield start
        for server in started:
            await server.process.stop()


async def arrive(got: list[Message] | list[RawMessage], count: int, what: str) -> None:
    async def enough() -> bool:
        return len(got) >= count

    await eventually(enough, what)


async def test_a_message_goes_to_and_comes_from_plain_clients(serving: Serving) -> None:
    server = await serving()
    plain = await nats.connect(server.url)
    async with mangrove.connect(server.url) as connection:
        reader = await plain.subscribe("to.plain")
        for _ in range(2):  # nats-py writes its PING before the subscription that waits for its flusher
            await plain.flush()
        await connection.publish("to.plain", b"x", headers={"K": "a b"}, reply="back")
        message = await reader.next_msg(5)
        assert (message.data, message.reply) == (b"x", "back")
        assert message.headers is not None
        assert message.headers["K"] == "a b"
        assert ID_HEADER in message.headers
        subscription = await connection.subscribe("from.*")
        await plain.publish("from.plain", b"y", headers={"A": "b"})
        await plain.publish("from.without", b"", reply="r")
        first, second = await subscription.next(5), await subscription.next(5)
        assert (first.subject, first.data, first.id, first.published_at) == ("from.plain", b"y", None, None)
        assert first.headers["A"] == "b"
        assert (second.subject, second.data, second.headers, second.reply) == ("from.without", b"", {}, "r")
    await plain.close()


async def test_a_broker_killed_in_mid_stream_is_left_for_the_next(serving: Serving) -> None:
    """Nothing comes twice or out of order, and what is published after the return arrives."""
    first, second = await serving(), await serving()
    got: list[Message] = []

    async def take(message: Message) -> None:
        got.append(message)

    async with mangrove.connect([first.url, second.url]) as connection:
        await connection.subscribe("stream", callback=take)
        for number in range(1000):
            await connection.publish("stream", b"%d" % number)
        await arrive(got, 100, "the stream flows")
        await first.cut()
        sent = 1000
        while not (got and int(got[-1].data) >= 1000):
            await connection.publish("stream", b"%d" % sent)
            sent += 1
            await asyncio.sleep(0.01)
        numbers = [int(message.data) for message in got]
        assert numbers == sorted(set(numbers))
        assert connection._publisher.url == second.url
        assert connection._publisher.counts.connects == 2


async def test_what_is_published_while_the_broker_is_away_waits_for_it(serving: Serving) -> None:
    server = await serving()
    async with mangrove.connect(server.url) as connection:
        subscription = await connection.subscribe("patient")
        pid = server.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)  # its watcher brings it back

        async def lost() -> bool:
            return not connection._publisher.connected

        await eventually(lost, "the loss is noticed")
        for number in range(10):
            await connection.publish("patient", b"%d" % number)
        assert [int((await subscription.next(10)).data) for _ in range(10)] == list(range(10))


async def test_who_subscribes_while_the_broker_is_away_is_served_on_its_return(serving: Serving) -> None:
    server = await serving()
    async with mangrove.connect(server.url) as connection:
        pid = server.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        subscriptions = [await connection.subscribe(f"patient.{number}") for number in range(3)]
        for number, each in enumerate(subscriptions):
            await connection.publish(f"patient.{number}", b"x")
            assert (await each.next(10)).subject == f"patient.{number}"


async def test_what_waits_for_a_broker_is_bounded(serving: Serving) -> None:
    server = await serving()
    async with mangrove.connect(server.url) as connection:
        await server.cut()

        async def refused() -> bool:
            with contextlib.suppress(NotConnectedError):
                for _ in range(40):
                    await connection.publish("much", b"x" * 100_000)
                return False
            return True

        await eventually(refused, "no more is taken")
        assert connection._publisher.counts.unsent_messages
        with pytest.raises(NotConnectedError):
            await connection.flush(timeout=0.2)


async def test_a_frozen_broker_holds_publishers_up_and_loses_nothing(serving: Serving) -> None:
    server = await serving()
    pid = server.process.pid
    assert pid is not None
    async with mangrove.connect(server.url) as connection:
        subscription = await connection.subscribe("held")
        os.kill(pid, signal.SIGSTOP)
        count = 300

        async def publish() -> None:
            for number in range(count):
                await connection.publish("held", b"%0100000d" % number)

        publishing = asyncio.create_task(publish())
        await asyncio.sleep(0.5)
        assert not publishing.done(), "the sockets' buffers do not take so much"
        assert connection._publisher.full
        os.kill(pid, signal.SIGCONT)
        numbers = [int((await subscription.next(10)).data[-9:]) for _ in range(count)]
        await publishing
        assert numbers == list(range(count))


async def test_a_broker_that_stays_frozen_is_left(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not close its sockets; only silence tells."""
    monkeypatch.setattr(protocol, "PING_S", 1.0)
    first, second = await serving(), await serving()
    pid = first.process.pid
    assert pid is not None
    wire = NatsClientConnection([first.url, second.url], "client")
    await wire.connect(5)
    await asyncio.sleep(4)  # longer than pings may stay unanswered
    assert wire.url == first.url
    assert not wire.counts.lost
    os.kill(pid, signal.SIGSTOP)

    async def left() -> bool:
        return wire.connected and wire.url == second.url

    await eventually(left, "the frozen broker is left")
    assert wire.counts.lost == {"the broker does not answer": 1}
    os.kill(pid, signal.SIGCONT)
    await wire.close()


async def test_who_is_too_slow_loses_what_is_oldest_and_knows(serving: Serving) -> None:
    server = await serving()
    async with mangrove.connect(server.url) as connection:
        slow = await connection.subscribe("slow.*", max_pending=100)
        for number in range(5000):
            await connection.publish(f"slow.{number % 2}", b"%d" % number)
        await connection.flush()
        await (await connection.subscribe("other")).unsubscribe()  # all that came before has been taken in
        got = []
        with contextlib.suppress(TimeoutError):
            while True:
                got.append(int((await slow.next(0.3)).data))
        assert got == sorted(set(got))
        assert 100 <= len(got) < 5000
        assert len(got) + sum(connection.dropped.values()) == 5000 == slow.messages
        assert set(connection.dropped) == {"slow.0", "slow.1"}


async def test_callbacks_are_awaited_in_order_and_may_fail(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serving()
    got: list[int] = []
    active = 0

    async def take(message: Message) -> None:
        nonlocal active
        active += 1
        assert active == 1
        await asyncio.sleep(0.001)
        active -= 1
        got.append(int(message.data))
        if len(got) == 3:
            raise RuntimeError("on purpose")

    async with mangrove.connect(server.url) as connection:
        await connection.subscribe("ordered", callback=take)
        for number in range(50):
            await connection.publish("ordered", b"%d" % number)

        async def all_came() -> bool:
            return len(got) == 50

        await eventually(all_came, "all are called for")
    assert got == list(range(50))
    assert "on purpose" in caplog.text


async def test_a_subscription_ends_from_within_and_for_its_reader(serving: Serving) -> None:
    server = await serving()
    async with mangrove.connect(server.url) as connection:
        called: list[bytes] = []
        ended = asyncio.Event()

        async def once(message: Message) -> None:
            called.append(message.data)
            await own.unsubscribe()
            ended.set()

        own = await connection.subscribe("once", callback=once)
        reader = await connection.subscribe("once")
        for number in range(3):
            await connection.publish("once", b"%d" % number)
        await asyncio.wait_for(ended.wait(), 5)
        read = [await reader.next(5)]
        await connection.flush()
        await reader.unsubscribe()
        read += [message async for message in reader]
        assert called == [b"0"]
        assert [message.data for message in read] == [b"0", b"1", b"2"]
        await own.unsubscribe()
        with pytest.raises(mangrove.errors.MangroveError, match="ended"):
            await reader.next()


async def test_closing_the_connection_ends_its_readers(serving: Serving) -> None:
    server = await serving()
    connection = await mangrove.connect(server.url)
    reader = await connection.subscribe("quiet")

    async def read() -> int:
        return len([message async for message in reader])

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    await connection.close()
    assert await asyncio.wait_for(reading, 5) == 0
    await connection.close()
    await reader.unsubscribe()
    with pytest.raises(NotConnectedError, match="closed"):
        await connection.publish("late")
    with pytest.raises(NotConnectedError, match="closed"):
        await connection.subscribe("late")


async def test_a_queue_group_shares_and_requests_are_answered(serving: Serving) -> None:
    server = await serving()
    async with mangrove.connect(server.url) as one, mangrove.connect(server.url) as two:
        served: Counter[str] = Counter()

        def answering(name: str) -> Callable[[Message], Awaitable[None]]:
            async def answer(message: Message) -> None:
                served[name] += 1
                await message.respond(message.data + name.encode(), {"By": name})

            return answer

        await one.subscribe("work", queue="w", callback=answering("one"))
        await two.subscribe("work", queue="w", callback=answering("two"))
        answers = await asyncio.gather(*(one.request("work", b"%d," % n, timeout=10) for n in range(200)))
        assert [int(answer.data.partition(b",")[0]) for answer in answers] == list(range(200))
        assert served.total() == 200
        assert set(served) == {"one", "two"}
        assert {answer.headers["By"] for answer in answers} == {"one", "two"}
        with pytest.raises(mangrove.errors.MangroveError, match="nobody"):
            await one.request("nobody.there")
        await one.subscribe("silent")
        with pytest.raises(TimeoutError, match="silent"):
            await two.request("silent", timeout=0.1)


async def test_a_hundred_thousand_subscriptions_outlive_their_broker(serving: Serving) -> None:
    server = await serving("max_control_line: 4096")
    wire = NatsClientConnection([server.url], "many")
    await wire.connect(5)
    got: list[RawMessage] = []

    def take(messages: list[RawMessage], _size_bytes: int) -> None:
        got.extend(messages)

    count = 100_000
    for number in range(count):
        wire.subscribe(f"many.{number}", take)
    await wire.flush(30)
    pid = server.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    async def back() -> bool:
        return wire.counts.connects == 2

    await eventually(back, "the connection comes back")
    await wire.flush(30)
    for number in range(0, count, 1000):
        wire.publish(f"many.{number}", b"x")
    await arrive(got, 100, "all samples are heard")
    assert sorted(int(message.subject[5:]) for message in got) == list(range(0, count, 1000))
    await wire.close()


async def test_messages_that_are_too_large_are_refused_before_they_cost_the_connection(
    serving: Serving,
) -> None:
    server = await serving("max_payload: 1000")
    async with mangrove.connect(server.url) as connection:
        reader = await connection.subscribe("size")
        for headers in (None, {"A": "b"}):
            with pytest.raises(mangrove.client.MessageTooLargeError):
                await connection.publish("size", b"x" * 1000, headers=headers)
        await connection.publish("size", b"x" * 800)
        assert len((await reader.next(5)).data) == 800
        assert connection.refused == {"size": 2}
        connection._publisher.publish("size", b"x" * 2000)  # the broker ends the connection for this

        async def back() -> bool:
            return connection._publisher.counts.connects == 2

        await eventually(back, "the connection comes back")
        assert connection._publisher.counts.lost == {"a message was too large for the broker": 1}
        await connection.publish("size", b"y")
        assert (await reader.next(5)).data == b"y"


async def test_users_are_told_apart_and_strangers_are_turned_away(serving: Serving) -> None:
    server = await serving(
        "authorization { users: [{user: u, password: 'p@%', permissions: {publish: 'ok', subscribe: '>'}}] }"
    )
    good = server.url.replace("://", "://u:p%40%25@")
    wire = NatsClientConnection([server.url, good], "user")  # the first turns it away
    await wire.connect(5)
    got: list[RawMessage] = []
    wire.subscribe(">", lambda messages, _size: got.extend(messages))
    wire.publish("forbidden", b"")
    wire.publish("ok", b"")
    await wire.flush(5)
    await arrive(got, 1, "what is allowed arrives")
    assert [message.subject for message in got] == ["ok"]
    assert wire.connected, "a complaint is no end"
    assert wire.counts.errors == {"Permissions Violation": 1}
    await wire.close()
    with pytest.raises(BrokerAwayError, match="Authorization Violation"):
        await NatsClientConnection([server.url], "stranger").connect(5)


async def test_a_token_is_a_user_without_password(serving: Serving) -> None:
    server = await serving("authorization { token: secret }")
    wire = NatsClientConnection([server.url.replace("://", "://secret@")], "token")
    await wire.connect(5)
    assert "secret" not in wire.url
    await wire.close()


async def test_a_broker_that_is_about_to_go_is_left(serving: Serving) -> None:
    first, second = await serving("lame_duck_duration: 30s"), await serving()
    wire = NatsClientConnection([first.url, second.url], "client")
    await wire.connect(5)
    pid = first.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGUSR2)  # lame duck mode

    async def left() -> bool:
        return wire.connected and wire.url == second.url

    await eventually(left, "the client goes elsewhere")
    assert wire.counts.lost == {"the broker asked its clients to leave": 1}
    await wire.close()
    await first.cut()


INFO = b'INFO {"server_id":"s","version":"2.11","headers":true,"max_payload":1000}\r\n'


async def hostile(answer: bytes, then: bytes = b"") -> tuple[asyncio.Server, str]:
    """A server that answers CONNECT with something, and the first subscription with something else."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            writer.write(INFO)
            while line := await reader.readline():
                if line == b"PING\r\n":
                    writer.write(answer)
                elif line.startswith(b"SUB"):
                    writer.write(then)

    server = await asyncio.start_server(serve, HOST, 0)
    return server, f"nats://{HOST}:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff garbage\r\n",
        b"MSG a 1 -5\r\n",
        b"MSG a 1 3\r\nabcdef\r\n",
        b"HMSG a 1 99999999999 999999999999\r\n",
        b"INFO {not json}\r\n",
        b"x" * 40_000,
    ],
)
async def test_a_hostile_server_is_left_for_an_honest_one(serving: Serving, garbage: bytes) -> None:
    honest = await serving()
    server, url = await hostile(b"PONG\r\n", garbage)
    async with server:
        wire = NatsClientConnection([url, honest.url], "victim")
        await wire.connect(5)
        assert wire.url == url
        got: list[RawMessage] = []
        wire.subscribe("a", lambda messages, _size: got.extend(messages))

        async def left() -> bool:
            return wire.connected and wire.url == honest.url

        await eventually(left, "the hostile server is left")
        assert wire.counts.lost == {"malformed bytes from the broker": 1}
        wire.publish("a", b"honest")
        await arrive(got, 1, "the subscription is in force at the other server")
        assert [message.data for message in got] == [b"honest"]
        await wire.close()


@pytest.mark.parametrize("answer", [b"garbage\r\n", b"-ERR 'no'\r\n", b"MSG a\r\n", b""])
async def test_a_server_that_does_not_accept_is_not_waited_for(answer: bytes) -> None:
    server, url = await hostile(answer)
    async with server:
        with pytest.raises(BrokerAwayError, match="cannot connect"):
            await NatsClientConnection([url], "client").connect(0.5)


async def test_messages_that_nobody_wants_any_more_are_forgotten() -> None:
    server, url = await hostile(b"PONG\r\n", b"MSG a 77 1\r\nx\r\n" * 100)
    async with server:
        wire = NatsClientConnection([url], "client")
        await wire.connect(5)
        got: list[RawMessage] = []
        wire.subscribe("a", lambda messages, _size: got.extend(messages))

        async def came() -> bool:
            return wire.counts.received_messages == 100

        await eventually(came, "they come")
        assert not got
        assert wire.connected
        await wire.close()


def certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody else has signed, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(HOST))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "certificate.pem", directory / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return paths


async def test_a_broker_that_wants_it_is_spoken_to_by_tls(serving: Serving, tmp_path: Path) -> None:
    public, private = certificate(tmp_path)
    server = await serving(f'tls {{ cert_file: "{public}", key_file: "{private}" }}')
    with pytest.raises(BrokerAwayError, match="cannot connect"):
        await NatsClientConnection([server.url], "trusts nobody").connect(1)
    trusting = ssl.create_default_context(cafile=str(public))
    wire = NatsClientConnection([server.url], "trusts it", tls=trusting)
    await wire.connect(5)
    got: list[RawMessage] = []
    wire.subscribe("secret", lambda messages, _size: got.extend(messages))
    for number in range(1000):
        wire.publish("secret", b"%d" % number)
    await arrive(got, 1000, "all come through")
    assert [int(message.data) for message in got] == list(range(1000))
    await wire.close()


async def test_publishing_without_waiting_and_what_was_published(serving: Serving) -> None:
    server = await serving()
    async with mangrove.connect(server.url) as connection:
        reader = await connection.subscribe("now.*")
        connection.publish_nowait("now.a", b"12")
        connection.publish_nowait("now.a", b"345", headers={"K": "v"})
        await connection.publish("now.b", b"6", reply="r")
        connection.publish_nowait("_INBOX.x", b"reply")
        assert [(await reader.next(5)).data for _ in range(3)] == [b"12", b"345", b"6"]
        published = {subject: astuple(each) for subject, each in connection.published().items()}
        assert published == {"now.a": (2, 5), "now.b": (1, 1)}
        assert connection.published_elsewhere.messages == 1
        assert reader.messages == 3
        assert reader.size_bytes > 6
        for wrong in ("a..b", "a.*", "a b", ""):
            with pytest.raises(mangrove.errors.InputError):
                connection.publish_nowait(wrong)


async def test_many_publishers_at_once_wait_their_turn(serving: Serving) -> None:
    """The bound of what waits holds though all tasks go on at the same moment."""
    server = await serving()
    pid = server.process.pid
    assert pid is not None
    async with mangrove.connect(server.url) as connection:
        reader = await connection.subscribe("crowd")
        os.kill(pid, signal.SIGSTOP)
        tasks = [asyncio.create_task(connection.publish("crowd", bytes(50_000))) for _ in range(600)]
        await asyncio.sleep(0.3)
        assert not all(task.done() for task in tasks)
        os.kill(pid, signal.SIGCONT)
        await asyncio.gather(*tasks)
        for _ in range(600):
            await reader.next(10)
        assert not connection._publisher.counts.unsent_messages


async def test_who_subscribes_or_flushes_while_the_connection_closes_is_told_so(serving: Serving) -> None:
    server = await serving()
    pid = server.process.pid
    assert pid is not None
    connection = await mangrove.connect(server.url)
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(0.2)  # until it has stopped
    closing = asyncio.create_task(connection.close())
    await asyncio.sleep(0.1)
    assert not closing.done(), "it waits for the broker a little"
    for late in (connection.subscribe("late"), connection.flush()):
        with pytest.raises(NotConnectedError, match="closed"):
            await asyncio.wait_for(late, 5)
    await connection.close()
    await closing
    os.kill(pid, signal.SIGCONT)


async def test_a_broker_whose_host_is_gone_is_left_for_the_next(serving: Serving, tmp_path: Path) -> None:
    """Nothing closes the connection of a listener: its host is cut off, and says nothing more."""
    second = await serving()
    async with HostNetwork(["h1"]) as network:
        url = f"nats://{network.address('h1')}:4222"
        first = ManagedProcess(
            "h1",
            [*network.inside("h1"), nats_server_binary(), "-a", network.address("h1"), "-p", "4222"],
            log_path=tmp_path / "h1.log",
            ready_text=READY_TEXT,
        )
        await first.start()
        connection = NatsClientConnection([url], "listener", None)
        try:
            await connection.connect(5.0)
            connection.go_on_at([second.url])
            await network.cut_off("h1")

            async def there() -> bool:
                return connection.connected and connection.url == second.url

            await eventually(there, "the connection should go on at the second broker")
        finally:
            await connection.close()
            await first.stop()
