"""A domain of real brokers without gateway and agent, and an agent that does what a test wants."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import monotonic

import msgspec
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.kit.waiting import eventually

from mangrove.agent.serving.lease_keys import LeaseKeys, RefusedError
from mangrove.broker.nats.server import nats_server
from mangrove.client import Connection
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory
from mangrove.model.agents.directions import DIRECTIONS_SUBJECT, BrokerDirection, Directions
from mangrove.model.agents.directory import DirectoryChanges, DirectoryRecord
from mangrove.model.agents.names import (
    announcement_subject,
    client_subject,
    directory_changes_subject,
    register_subject,
    report_subject,
)
from mangrove.model.agents.registration import (
    AgentStarted,
    Assignment,
    ClientMessage,
    ClientOrder,
    Migrated,
    Order,
    Registered,
    Registration,
    Wish,
)
from mangrove.model.congestion.terms import TopicTerms

DOMAIN = "here"


class DomainOfBrokers:
    """Head, two edges and a management broker."""

    def __init__(self, processes: dict[str, ManagedProcess], ports: dict[str, int]) -> None:
        self.processes = processes
        self._ports = ports
        self.placement = "lan"
        self.terms: tuple[TopicTerms, ...] = ()

    def url(self, broker: str) -> str:
        return f"nats://127.0.0.1:{self._ports[broker]}"

    @property
    def directions(self) -> Directions:
        def direction(broker: str) -> BrokerDirection:
            return BrokerDirection(name=broker, url=self.url(broker))

        return Directions(
            federation="small",
            domain=DOMAIN,
            head=direction("head"),
            edges=(direction("edge1"), direction("edge2")),
            management_url=self.url("management"),
            placement=self.placement,
            terms=self.terms,
            selectors=True,
        )

    async def kill(self, broker: str) -> None:
        await self.processes[broker].stop(0.01)


@asynccontextmanager
async def domain_of_brokers(
    directory: Path, lines: Callable[[int], Awaitable[dict[str, int]]] | None = None
) -> AsyncIterator[DomainOfBrokers]:
    """`lines`, told where the head listens, says at which ports some edges find it instead."""
    async with AsyncExitStack() as stack:
        reserved = stack.enter_context(PortReservation())
        names = ("head", "leaf", "edge1", "edge2", "management")
        ports = {name: reserved.take("127.0.0.1") for name in names}
        processes: dict[str, ManagedProcess] = {}
        through = {} if lines is None else await lines(ports["leaf"])
        for name in ("head", "edge1", "edge2", "management"):
            config = f'server_name: {name}\nlisten: "127.0.0.1:{ports[name]}"\n'
            config += f'log_file: "{RunDirectory(directory).log(name)}"\n'
            if name == "head":
                config += f'leafnodes {{ listen: "127.0.0.1:{ports["leaf"]}" }}\n'
            elif name != "management":
                remote = f"nats-leaf://127.0.0.1:{through.get(name, ports['leaf'])}"
                config += f'leafnodes {{ reconnect: "50ms", remotes: [ {{ url: "{remote}" }} ] }}\n'
            process = processes[name] = nats_server(name, config, directory)
            await process.start()
            stack.push_async_callback(process.stop)
        domain = DomainOfBrokers(processes, ports)
        await _attached(domain)
        yield domain


async def _attached(domain: DomainOfBrokers) -> None:
    """Wait until messages go from the head to both edges."""
    head = await nats.connect(domain.url("head"))
    try:
        for edge in ("edge1", "edge2"):
            client = await nats.connect(domain.url(edge))
            came = await client.subscribe("attached")
            await client.flush()

            async def arrives(came: object = came) -> bool:
                await head.publish("attached", b"")
                await head.flush()
                return bool(came.pending_msgs)  # type: ignore[attr-defined]

            await eventually(arrives, f"{edge} should hear from the head")
            await client.close()
    finally:
        await head.close()


class OrderingAgent:
    """Checks and answers registrations as an agent does; decides nothing by itself."""

    def __init__(self, domain: DomainOfBrokers, term: int = 1) -> None:
        self.domain = domain
        self.term = term
        self.place: Callable[[Wish], str] = lambda wish: "edge1"
        self.registrations: list[Registration] = []
        self.said: list[ClientMessage] = []
        self.refused: list[str] = []
        self.silent = False
        self.answering = asyncio.Event()
        """Registrations that are taken in are answered once it is set."""
        self.answering.set()
        self._keys = LeaseKeys(DOMAIN)
        self._sessions = itertools.count(1)
        self._clients: list[Client] = []

    async def open(self) -> None:
        self._management = await self._connect("management")
        await self._management.subscribe(register_subject(DOMAIN), cb=self._register)
        await self._management.subscribe(report_subject(DOMAIN), cb=self._hear)
        head = await self._connect("head")
        await head.subscribe(DIRECTIONS_SUBJECT, cb=self._direct)
        await self._management.flush()
        await head.flush()

    async def _connect(self, broker: str) -> Client:
        async def quiet(_: Exception) -> None:
            """Brokers die in these tests."""

        client = await nats.connect(self.domain.url(broker), error_cb=quiet, max_reconnect_attempts=-1)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def _direct(self, message: Msg) -> None:
        await message.respond(msgspec.json.encode(self.domain.directions))

    async def _register(self, message: Msg) -> None:
        if self.silent:
            return
        try:
            registration = self._keys.open_registration(message.data)
            self._keys.admit(registration, monotonic())
        except RefusedError as error:
            self.refused.append(error.reason)
            return
        self.registrations.append(registration)
        places = {wish.key: wish.broker or self.place(wish) for wish in registration.wishes}
        answer = Registered(
            term=self.term,
            exchange_key=self._keys.exchange_key,
            assignments={
                key: Assignment(broker=broker, url=self.domain.url(broker), epoch=1)
                for key, broker in places.items()
                if broker
            },
        )
        await self.answering.wait()
        await message.respond(msgspec.json.encode(answer))

    async def _hear(self, message: Msg) -> None:
        try:
            self.said.append(self._keys.open_message(message.data, monotonic()))
        except RefusedError as error:
            self.refused.append(error.reason)

    @property
    def wishes(self) -> dict[str, Wish]:
        """The latest of each key."""
        return {wish.key: wish for each in self.registrations for wish in each.wishes}

    async def tell(self, order: ClientOrder, client: str = "") -> None:
        to = client or self.registrations[-1].client
        await self._management.publish(client_subject(DOMAIN, to), msgspec.json.encode(order))
        await self._management.flush()

    async def push(self, *records: DirectoryRecord, term: int | None = None) -> None:
        changes = DirectoryChanges(term=self.term if term is None else term, records=records)
        await self._management.publish(directory_changes_subject(DOMAIN), msgspec.json.encode(changes))
        await self._management.flush()

    async def announce(self) -> None:
        started = AgentStarted(term=self.term, spread_s=0.05)
        await self._management.publish(announcement_subject(DOMAIN), msgspec.json.encode(started))
        await self._management.flush()

    async def move(self, key: str, broker: str, *, term: int | None = None, client: str = "") -> Migrated:
        """Order a move and wait for what comes of it."""
        session = f"session{next(self._sessions)}"
        order = Order(
            term=self.term if term is None else term,
            session=session,
            key=key,
            to=Assignment(broker=broker, url=self.domain.url(broker), epoch=2),
        )
        await self.tell(order, client)
        await eventually(lambda: self._told(session), f"the client should tell of {session}", 30)
        return next(m for m in self.said if isinstance(m, Migrated) and m.session == session)

    async def _told(self, session: str) -> bool:
        return any(isinstance(each, Migrated) and each.session == session for each in self.said)


@asynccontextmanager
async def ordering_agent(domain: DomainOfBrokers, term: int = 1) -> AsyncIterator[OrderingAgent]:
    agent = OrderingAgent(domain, term)
    await agent.open()
    try:
        yield agent
    finally:
        await agent.close()


class Load:
    """Publishes numbered messages, and says what subscribers got of them."""

    def __init__(self) -> None:
        self.sent: dict[str, int] = {}
        self.running = True

    async def publish(self, name: str, publish: Callable[[bytes], object], rate_s: float) -> None:
        """Until it is stopped."""
        number = 0
        burst = max(1, round(rate_s * 0.005))
        while self.running:
            for _ in range(burst):
                number += 1
                result = publish(f"{name} {number}".encode())
                if asyncio.iscoroutine(result):
                    await result
            self.sent[name] = number
            await asyncio.sleep(burst / rate_s)

    def problems(self, got: list[bytes]) -> list[str]:
        """What is lost, repeated or out of order among the messages of each publisher."""
        by_name: dict[str, list[int]] = {name: [] for name in self.sent}
        for data in got:
            name, number = data.decode().split()
            by_name[name].append(int(number))
        found = []
        for name, numbers in by_name.items():
            missing = sorted(set(range(1, self.sent[name] + 1)) - set(numbers))
            if missing:
                found.append(f"{name}: {len(missing)} lost, from {missing[0]}")
            if len(set(numbers)) < len(numbers):
                found.append(f"{name}: {len(numbers) - len(set(numbers))} repeated")
            if list(dict.fromkeys(numbers)) != sorted(set(numbers)):
                found.append(f"{name}: out of order")
        return found


async def heard(connection: Connection, subject: str, got: list[bytes]) -> None:
    """Wait until a subscription whose callback adds to a list is in force; the list is empty afterwards."""
    for number in itertools.count():
        last = f"probe {number}".encode()
        await connection.publish(subject, last)
        for _ in range(20):
            await asyncio.sleep(0.005)
            if last in got:
                got.clear()
                return


async def received(got: list[bytes], load: Load) -> None:
    """Wait until as much has come as was sent."""

    async def all_there() -> bool:
        return len(got) >= sum(load.sent.values())

    try:
        await eventually(all_there, "everything should come", 5)
    except AssertionError:
        return  # what is missing is told by the caller
