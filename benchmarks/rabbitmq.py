"""Throughput between a NATS and a RabbitMQ domain, beside RabbitMQ's own federation between two RabbitMQs.

Two RabbitMQs and a nats-server run once. The federation plugin of the second RabbitMQ takes what is published
at the first; the second is also the head of a domain, as a broker that runs already, beside a domain of NATS.
Persistent messages of 256 bytes go from RabbitMQ to RabbitMQ, from NATS to RabbitMQ and back, in turns and
several rounds; every message is waited for. At a RabbitMQ they are published with confirms, and end in a
durable queue whose consumer acknowledges them.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter

import msgspec
import nats
from nats.aio.msg import Msg
from pamqp import commands
from rich.console import Console

from mangrove.agent.inspection import wait_for_interest
from mangrove.broker.rabbitmq.address import RabbitAddress
from mangrove.broker.rabbitmq.exchange.management import fetch
from mangrove.broker.rabbitmq.hosting.configuration import broker_files
from mangrove.broker.rabbitmq.hosting.server import rabbitmq_server
from mangrove.broker.rabbitmq.messages.properties import PropertyWriter
from mangrove.broker.rabbitmq.messages.publisher import Publisher
from mangrove.broker.rabbitmq.wire import frames
from mangrove.broker.rabbitmq.wire.connection import CHANNEL, HEARTBEAT_S, AmqpConnection
from mangrove.broker.rabbitmq.wire.frames import Delivery
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.config import parse_federation
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess, stop_in_order
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.testbed.local_federation import LocalFederation

RATIO_BAR = 1.0
SIZE_BYTES = 256
ROUNDS = 3
MESSAGES, QUICK_MESSAGES = 40_000, 10_000
BURST = 200
TIMEOUT_S = 120.0
HOST = "127.0.0.1"
PLUGINS = ("rabbitmq_event_exchange", "rabbitmq_management", "rabbitmq_prometheus", "rabbitmq_federation")
NATIVE, INWARD, OUTWARD = "RabbitMQ to RabbitMQ, its plugin", "NATS to RabbitMQ", "RabbitMQ to NATS"
FEDERATED = "bench"
"""The exchange that the plugin federates."""


def run(seed: int, quick: bool) -> dict[str, object]:
    """Measure all three ways in turns. The load is fixed, so the seed changes nothing."""
    del seed
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory, PortReservation() as ports:
        return run_async(_run(Path(directory), ports, quick), asyncio.new_event_loop)


def missed(result: dict[str, object]) -> list[str]:
    """Both directions must carry as much as the plugin does."""
    rates = msgspec.convert(result["msg_s"], dict[str, float])
    return [
        f"{way}: {rates[way] / rates[NATIVE]:.2f} times the plugin's throughput is below {RATIO_BAR}"
        for way in (INWARD, OUTWARD)
        if rates[way] < RATIO_BAR * rates[NATIVE]
    ]


def render(result: dict[str, object], console: Console) -> None:
    """One table."""
    rates = msgspec.convert(result["msg_s"], dict[str, float])
    table = Table(
        f"Persistent messages of {SIZE_BYTES} bytes (median of the rounds)",
        name_column("way"),
        *map(number_column, ("throughput", "ratio")),
    )
    for way, rate in rates.items():
        table.add(way, f"{rate:,.0f} msg/s", f"{rate / rates[NATIVE]:.2f}")
    table.show(console)


async def _run(directory: Path, ports: PortReservation, quick: bool) -> dict[str, object]:
    brokers = [_broker(name, ports) for name in ("first", "second")]
    processes = [_process(broker, directory) for broker in brokers]
    try:
        await asyncio.gather(*(process.start() for process in processes))
        await _federate(*brokers)
        federation = parse_federation(_file(brokers[1]), "bench").require()
        async with LocalFederation(federation, directory / "run", ephemeral=True, agents=False) as launched:
            url = launched.endpoints["geneva"].head.client_url
            count = QUICK_MESSAGES if quick else MESSAGES
            return await _measure(brokers, launched, url, count, 1 if quick else ROUNDS)
    finally:
        await stop_in_order(processes)


def _broker(name: str, ports: PortReservation) -> BrokerEndpoints:
    client, monitor, management, mqtt, stomp = (ports.take(HOST) for _ in range(5))
    return BrokerEndpoints(
        name=name,
        host=HOST,
        kind=BrokerKind.RABBITMQ,
        client_port=client,
        monitor_port=monitor,
        management_port=management,
        mqtt_port=mqtt,
        stomp_port=stomp,
    )


def _process(broker: BrokerEndpoints, directory: Path) -> ManagedProcess:
    files = broker_files(broker, directory / broker.name, max_message_bytes=1 << 20)
    # The plugins for MQTT and STOMP are not loaded, and would not know their settings.
    lines = files["rabbitmq.conf"].splitlines(keepends=True)
    files["rabbitmq.conf"] = b"".join(line for line in lines if not line.startswith((b"mqtt.", b"stomp.")))
    return rabbitmq_server(broker.name, broker.client_port, directory, files, PLUGINS)


def _file(broker: BrokerEndpoints) -> str:
    return f"""
federation: bench
domains:
  geneva: {{}}
  tokyo:
    kind: rabbitmq
    external:
      head: amqp://guest:guest@{HOST}:{broker.client_port}
      monitor: http://{HOST}:{broker.management_port}
links:
  - {{between: [geneva, tokyo]}}
"""


def _address(broker: BrokerEndpoints) -> RabbitAddress:
    management = f"http://{HOST}:{broker.management_port}"
    return RabbitAddress(host=HOST, port=broker.client_port, management=management)


async def _federate(first: BrokerEndpoints, second: BrokerEndpoints) -> None:
    """Have the second RabbitMQ take what is published at an exchange of the first."""
    for broker in (first, second):
        exchange = b'{"type":"topic","durable":true}'
        await fetch(_address(broker), f"/api/exchanges/%2F/{FEDERATED}", method="PUT", content=exchange)
    upstream = {"value": {"uri": f"amqp://{HOST}:{first.client_port}", "ack-mode": "on-confirm"}}
    await fetch(
        _address(second),
        "/api/parameters/federation-upstream/%2F/first",
        method="PUT",
        content=msgspec.json.encode(upstream),
    )
    policy = {
        "pattern": f"^{FEDERATED}$",
        "definition": {"federation-upstream-set": "all"},
        "apply-to": "exchanges",
    }
    content = msgspec.json.encode(policy)
    await fetch(_address(second), "/api/policies/%2F/bench", method="PUT", content=content)


class Consumer:
    """Takes messages from a durable queue, and acknowledges them a buffer at a time."""

    def __init__(self, broker: BrokerEndpoints) -> None:
        self.connection = AmqpConnection(_address(broker), "bench consumer")
        self.connection.on_deliveries = self._take
        self.taken = 0

    async def open(self, exchange: str, key: str) -> None:
        connection = self.connection
        await connection.open()
        await connection.call(commands.Queue.Declare(queue=key, durable=True))
        await connection.call(commands.Queue.Bind(queue=key, exchange=exchange, routing_key=key))
        await connection.call(commands.Basic.Qos(0, 2000))
        await connection.call(commands.Basic.Consume(queue=key))

    def _take(self, deliveries: list[Delivery]) -> None:
        self.taken += len(deliveries)
        self.connection.write(frames.ack(CHANNEL, deliveries[-1].tag))

    async def close(self) -> None:
        await self.connection.close()


class Producer:
    """Publishes persistent messages, of which a bounded number is not confirmed yet."""

    def __init__(self, broker: BrokerEndpoints) -> None:
        self.connection = AmqpConnection(_address(broker), "bench producer")
        self._room = asyncio.Event()
        self._publisher = Publisher(self._writable, lambda _reason, _count: None)

    def _writable(self, writable: bool) -> None:
        (self._room.set if writable else self._room.clear)()

    async def open(self) -> None:
        await self.connection.open()
        await self.connection.call(commands.Confirm.Select())
        self._publisher.attached(self.connection)
        self._room.set()

    async def publish(self, exchange: str, key: str, count: int) -> None:
        properties = PropertyWriter("bench").properties()
        body = frames.body_frames(CHANNEL, bytes(SIZE_BYTES), self.connection.frame_max)
        head = frames.content_head(CHANNEL, SIZE_BYTES, properties)
        message = frames.publish_head(CHANNEL, exchange, key) + head + body
        for _ in range(count // BURST):
            await self._room.wait()
            self._publisher.publish([message] * BURST)
            await asyncio.sleep(0)

    async def close(self) -> None:
        await self.connection.close()


async def _measure(
    brokers: list[BrokerEndpoints], launched: LocalFederation, url: str, count: int, rounds: int
) -> dict[str, object]:
    first, second = brokers
    natively, inside = Consumer(second), Consumer(second)
    far, near = Producer(first), Producer(second)
    client = await nats.connect(url)
    heard = 0

    async def hear(_: Msg) -> None:
        nonlocal heard
        heard += 1

    await client.subscribe("out.bench", cb=hear, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await natively.open(FEDERATED, "native.bench")
    await inside.open("amq.topic", "in.bench")
    await far.open()
    await near.open()
    await wait_for_interest(launched.runtime(), {"geneva": 1, "tokyo": 1})
    payload = bytes(SIZE_BYTES)

    async def from_nats() -> None:
        for _ in range(count // BURST):
            for _ in range(BURST):
                await client.publish("in.bench", payload)
            await client.flush()

    ways: dict[str, tuple[Callable[[int], Awaitable[None]], Callable[[], int]]] = {
        NATIVE: (lambda n: far.publish(FEDERATED, "native.bench", n), lambda: natively.taken),
        INWARD: (lambda _: from_nats(), lambda: inside.taken),
        OUTWARD: (lambda n: near.publish("amq.topic", "out.bench", n), lambda: heard),
    }
    ours = (natively, inside, far, near)
    beating = asyncio.create_task(_beat([each.connection for each in ours]))
    try:
        await _warm(far, natively)
        rates: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, (publish, arrived) in ways.items():
                rates[way].append(await _rate(way, publish, arrived, count))
    finally:
        beating.cancel()
        await client.close()
        for each in ours:
            await each.close()
    medians = {way: statistics.median(found) for way, found in rates.items()}
    return {"messages": count, "rounds": rounds, "msg_s": medians, "all_msg_s": rates}


async def _warm(far: Producer, natively: Consumer) -> None:
    """Wait until the plugin forwards."""
    deadline = perf_counter() + TIMEOUT_S
    while not natively.taken and perf_counter() < deadline:
        await far.publish(FEDERATED, "native.bench", BURST)
        await asyncio.sleep(0.2)
    before = -1
    while before != natively.taken:
        before = natively.taken
        await asyncio.sleep(1.0)


async def _beat(connections: list[AmqpConnection]) -> None:
    """Give signs of life: a broker closes the connection of who says nothing while others are measured."""
    while True:
        for connection in connections:
            connection.beat()
        await asyncio.sleep(HEARTBEAT_S / 2)


async def _rate(
    way: str, publish: Callable[[int], Awaitable[None]], arrived: Callable[[], int], count: int
) -> float:
    """Messages a second from the first publication to the last arrival."""
    before, began = arrived(), perf_counter()
    sending = asyncio.ensure_future(publish(count))
    while arrived() - before < count:
        if perf_counter() - began > TIMEOUT_S:
            sending.cancel()
            raise TimeoutError(f"{way}: {count - (arrived() - before)} of {count} messages did not arrive")
        await asyncio.sleep(0.005)
    await sending
    return count / (perf_counter() - began)
