"""Subscriptions and publishers that are told to move, at real brokers: the application never notices."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import nats
import pytest
from tests.kit.domain_of_brokers import (
    DOMAIN,
    DomainOfBrokers,
    Load,
    OrderingAgent,
    domain_of_brokers,
    heard,
    ordering_agent,
    received,
)
from tests.kit.waiting import eventually

import mangrove
from mangrove.client import Connection, Message, Subscription
from mangrove.errors import MangroveError
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.agents.registration import Assignment, Leave, Migrated, Order, RegisterAgain, Report


@pytest.fixture(autouse=True)
def patient_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an agent answers, it is waited for though the machine may be busy."""
    monkeypatch.setattr("mangrove.client.management.managed.LINK_S", 10.0)
    monkeypatch.setattr("mangrove.client.management.managed.CONNECT_S", 10.0)
    monkeypatch.setattr("mangrove.client.management.membership.PLACE_S", 10.0)


@pytest.fixture(scope="module")
async def domain(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DomainOfBrokers]:
    async with domain_of_brokers(tmp_path_factory.mktemp("small")) as running:
        yield running


@pytest.fixture
async def agent(domain: DomainOfBrokers) -> AsyncIterator[OrderingAgent]:
    async with ordering_agent(domain) as running:
        yield running


def broker_of(connection: Connection, subscription: Subscription) -> str:
    leg = connection._legs.of(subscription)
    assert leg is not None
    return leg.wire.url


async def in_force(connection: Connection, subscription: Subscription) -> None:
    """Wait until what is published at the head is sent here; nothing of that is left to be read."""
    for number in itertools.count():
        await connection.publish(subscription.subject, f"probe {number}".encode())
        with contextlib.suppress(TimeoutError):
            while (await subscription.next(0.1)).data != f"probe {number}".encode():
                pass
            return


@pytest.mark.parametrize(("where", "moves"), [(None, 20), ("Mangrove-Id IS NULL OR Mangrove-Id > ''", 8)])
async def test_a_subscription_moves_back_and_forth_under_load(
    domain: DomainOfBrokers, agent: OrderingAgent, where: str | None, moves: int
) -> None:
    got: list[bytes] = []

    async def take(message: Message) -> None:
        got.append(message.data)

    async with (
        mangrove.connect(domain.url("head")) as subscriber,
        mangrove.connect(domain.url("head")) as publisher,
    ):
        subscription = await subscriber.subscribe("load.*", callback=take, where=where)
        assert broker_of(subscriber, subscription) == domain.url("edge1")
        client = agent.registrations[-1].client
        await heard(publisher, "load.s", got)
        plain = {name: await nats.connect(domain.url(name)) for name in ("head", "edge1", "edge2")}
        load = Load()
        tasks = [asyncio.create_task(load.publish("sdk", partial(publisher.publish, "load.s"), 1000))]
        for name, each in plain.items():
            tasks.append(asyncio.create_task(load.publish(name, partial(each.publish, "load.p"), 400)))
        outcomes: list[Migrated] = []
        # By chance nothing may be on its way at any of a few moves: then some more are made.
        while len(outcomes) < moves or (not any(each.repeated for each in outcomes) and len(outcomes) < 100):
            to = "edge2" if len(outcomes) % 2 == 0 else "edge1"
            outcomes.append(await agent.move("s1", to, client=client))
            assert broker_of(subscriber, subscription) == domain.url(to)
        leg = subscriber._legs.of(subscription)
        assert leg is not None
        assert bool(leg.handle.queue) == (where is not None), "the broker is told of it wherever it is"
        load.running = False
        await asyncio.gather(*tasks)
        await publisher.flush()
        for each in plain.values():
            await each.flush()
        await received(got, load)
        for each in plain.values():
            await each.close()
    assert {each.problem for each in outcomes} == {""}
    assert load.problems(got) == []
    assert sum(each.repeated for each in outcomes) > 0, "copies came both ways, and were left out"
    assert min(load.sent.values()) > 5 * moves


async def test_readers_do_not_notice(domain: DomainOfBrokers, agent: OrderingAgent) -> None:
    """By iteration and by next(), to everything at once, with equal messages that carry no id."""
    async with mangrove.connect(domain.url("head")) as connection:
        everything = await connection.subscribe(">")
        ticks = await connection.subscribe("tick")
        client = agent.registrations[-1].client
        await in_force(connection, ticks)
        plain = await nats.connect(domain.url("head"))
        published = 0
        stop = asyncio.Event()

        async def tick() -> None:
            nonlocal published
            while not stop.is_set():
                await plain.publish("tick", b"the same")
                published += 1
                await asyncio.sleep(0.001)

        task = asyncio.create_task(tick())
        for to in ("edge2", "edge1", "edge2"):
            for key in ("s1", "s2"):
                assert (await agent.move(key, to, client=client)).problem == ""
        stop.set()
        await task
        await plain.flush()

        async def all_came() -> bool:
            return ticks.pending >= published

        with contextlib.suppress(AssertionError):  # what is missing is told below
            await eventually(all_came, "every message should come", 10)
        await asyncio.sleep(0.2)
        await plain.close()
        assert ticks.pending == published
        for _ in range(published):
            assert (await ticks.next()).data == b"the same"
        seen: list[Message] = []
        same = 0
        while same < published:
            seen.append(await everything.next(10))
            same += seen[-1].data == b"the same"
        seen += [await everything.next() for _ in range(everything.pending)]
        assert [each.data for each in seen].count(b"the same") == published
        assert not [each for each in seen if each.subject.startswith("_MGM")], (
            "markers are not for applications"
        )


async def test_orders_that_are_not_the_leaders_are_ignored(
    domain: DomainOfBrokers, agent: OrderingAgent
) -> None:
    agent.term = 7
    async with mangrove.connect(domain.url("head")) as connection:
        subscription = await connection.subscribe("a")
        client = agent.registrations[-1].client
        to = Assignment(broker="edge2", url=domain.url("edge2"), epoch=9)
        for term in (6, 8):
            await agent.tell(Order(term=term, session="forged", key="s1", to=to), client)
        foreign = Assignment(broker="elsewhere", url=domain.url("edge2"), epoch=9)
        await agent.tell(Order(term=7, session="odd", key="s1", to=foreign), client)
        await agent.tell(Order(term=7, session="odd too", key="nothing", to=to), client)
        assert connection._managed is not None
        ignored = connection._managed.membership.ignored

        async def all_counted() -> bool:
            return sum(ignored.values()) == 4

        await eventually(all_counted, "all four should be counted")
        assert broker_of(connection, subscription) == domain.url("edge1")

        async def explained() -> bool:
            told = {each.session: each.problem for each in agent.said if isinstance(each, Migrated)}
            return set(told) == {"odd", "odd too"} and all(told.values())

        await eventually(explained, "what makes no sense should be answered")
        assert (await agent.move("s1", "edge2", client=client)).problem == ""
        late = Assignment(broker="edge1", url=domain.url("edge1"), epoch=1)
        await agent.tell(Order(term=7, session="late", key="s1", to=late), client)

        async def counted() -> bool:
            return ignored["older orders"] == 1

        await eventually(counted, "an order of an earlier decision should be ignored")
        assert broker_of(connection, subscription) == domain.url("edge2")


async def test_queue_groups_stay(domain: DomainOfBrokers, agent: OrderingAgent) -> None:
    async with mangrove.connect(domain.url("head")) as connection:
        await connection.subscribe("work", queue="workers")
        assert not agent.wishes["s1"].movable
        assert "queue" in (await agent.move("s1", "edge2")).problem


async def test_two_orders_in_a_row_and_an_end_in_between(
    domain: DomainOfBrokers, agent: OrderingAgent
) -> None:
    async with mangrove.connect(domain.url("head")) as connection:
        subscription = await connection.subscribe("b")
        client = agent.registrations[-1].client
        first, second = await asyncio.gather(
            agent.move("s1", "edge2", client=client), agent.move("s1", "edge1", client=client)
        )
        assert first.problem in ("", "a later order came")
        assert second.problem == ""
        assert broker_of(connection, subscription) == domain.url("edge1")
        to = Assignment(broker="edge2", url=domain.url("edge2"), epoch=2)
        await agent.tell(Order(term=1, session="cut short", key="s1", to=to), client)
        await subscription.unsubscribe()
        again = await connection.subscribe("b")
        await in_force(connection, again)
        await connection.publish("b", b"x")
        assert (await again.next()).data == b"x"


async def test_without_an_agent_all_goes_on_and_it_is_found_later(
    domain: DomainOfBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mangrove.client.management.membership.PLACE_S", 0.5)
    async with mangrove.connect(domain.url("head"), edges=[domain.url("edge1")]) as unmanaged:
        subscription = await unmanaged.subscribe("c")
        await in_force(unmanaged, subscription)
        await unmanaged.publish("c", b"1")
        assert (await subscription.next()).data == b"1"
        assert not unmanaged.directory
        with pytest.raises(MangroveError, match="management broker"):
            await subscription.ready()
        with pytest.raises(MangroveError, match="management broker"):
            await unmanaged.subscribe("c", paths=2)
    async with ordering_agent(domain) as silent:
        silent.silent = True
        async with mangrove.connect(domain.url("head")) as connection:
            subscription = await connection.subscribe("c")
            await in_force(connection, subscription)
            await connection.publish("c", b"2")
            assert (await subscription.next()).data == b"2"
            silent.silent = False
            silent.term = 3
            await silent.announce()

            async def registered() -> bool:
                return bool(silent.registrations) and silent.wishes["s1"].broker in ("edge1", "edge2")

            await eventually(registered, "the client should register when an agent is there")
            assert silent.wishes["s1"].subject == "c"


async def test_a_killed_edge_is_left_and_the_agent_hears_of_it(tmp_path: Path) -> None:
    async with (
        domain_of_brokers(tmp_path) as domain,
        ordering_agent(domain) as agent,
        mangrove.connect(domain.url("head")) as connection,
    ):
        subscription = await connection.subscribe("d")
        client = agent.registrations[-1].client
        await domain.kill("edge1")

        async def served_again() -> bool:
            await connection.publish("d", b"x")
            try:
                await subscription.next(0.05)
            except TimeoutError:
                return False
            return True

        await eventually(served_again, "another broker should serve it")

        async def told() -> bool:
            return agent.wishes["s1"].broker in ("edge2", "head")

        await eventually(told, "the agent should hear where")
        problem = (await agent.move("s1", "edge1", client=client)).problem
        assert problem, "nobody moves to a broker that is away"
        await connection.publish("d", b"still")
        while (await subscription.next()).data != b"still":
            pass


@pytest.mark.parametrize("victim", ["edge1", "edge2"])
async def test_a_broker_dies_during_moves(tmp_path: Path, victim: str) -> None:
    """Nothing is repeated or out of order, and the subscription goes on; what a dead broker had is lost."""
    got: list[bytes] = []

    async def take(message: Message) -> None:
        got.append(message.data)

    async with (
        domain_of_brokers(tmp_path) as domain,
        ordering_agent(domain) as agent,
        mangrove.connect(domain.url("head")) as connection,
    ):
        subscription = await connection.subscribe("e", callback=take)
        client = agent.registrations[-1].client
        load = Load()
        task = asyncio.create_task(load.publish("sdk", partial(connection.publish, "e"), 2000))
        await asyncio.sleep(0.2)
        moving = asyncio.create_task(agent.move("s1", "edge2", client=client))
        await asyncio.sleep(0.004)
        await domain.kill(victim)
        await moving
        await asyncio.sleep(0.3)
        mark = load.sent["sdk"]
        await asyncio.sleep(0.3)
        load.running = False
        await task
        await connection.flush()

        async def last_came() -> bool:
            return f"sdk {load.sent['sdk']}".encode() in got

        await eventually(last_came, "it should go on at another broker")
        assert subscription.duplicates == 0 or victim == "edge1"
    numbers = [int(data.split()[1]) for data in got]
    assert numbers == sorted(set(numbers))
    assert set(range(mark, load.sent["sdk"] + 1)) <= set(numbers)


async def test_reports_leases_and_the_end(domain: DomainOfBrokers, agent: OrderingAgent) -> None:
    async with mangrove.connect(domain.url("head")) as connection:
        subscription = await connection.subscribe("f", deadline_ms=None, weight=2.5)
        await in_force(connection, subscription)
        before_messages = subscription.messages
        before_bytes = connection.published()["f"].size_bytes
        for _ in range(10):
            await connection.publish("f", b"12345")
        for _ in range(10):
            await subscription.next()

        async def reported() -> bool:
            reports = [each for each in agent.said if isinstance(each, Report)]
            received = sum(each.received["s1"].messages for each in reports if "s1" in each.received)
            published = sum(each.published["f"].size_bytes for each in reports if "f" in each.published)
            return (received, published) == (before_messages + 10, before_bytes + 50)

        await eventually(reported, "traffic should be reported")
        assert agent.wishes["s1"].weight == 2.5
        assert {wish.subject for wish in agent.wishes.values() if wish.role == "publisher"} == {"f"}
        before = len(agent.registrations)
        agent.answering.clear()
        await agent.tell(RegisterAgain(term=1))

        async def again() -> bool:
            return len(agent.registrations) > before and agent.registrations[-1].complete

        await eventually(again, "it should register again")
        await subscription.unsubscribe()  # what is said anew has it still, and is not answered yet
        agent.answering.set()

        async def ended() -> bool:
            return "s1" in agent.registrations[-1].ended

        await eventually(ended, "the end of a subscription should be said")

    async def left() -> bool:
        return any(isinstance(each, Leave) for each in agent.said)

    await eventually(left, "the client should leave")
    assert agent.refused == []


async def test_the_directory_is_watched(domain: DomainOfBrokers, agent: OrderingAgent) -> None:
    agent.term = 4
    async with mangrove.connect(domain.url("head")) as connection:
        await connection.subscribe("g")

        def record(epoch: int, edge: str, of: str = DOMAIN) -> DirectoryRecord:
            return DirectoryRecord(topic="g", domain=of, epoch=epoch, edges=(edge,))

        await agent.push(record(5, "edge1"))
        await agent.push(record(4, "edge2"))
        await agent.push(record(9, "edge2", "elsewhere"))
        await agent.push(record(8, "edge2"), term=3)
        await agent.push(DirectoryRecord(topic="last", domain=DOMAIN, epoch=1, edges=("edge1",)))

        async def all_heard() -> bool:
            return "last" in connection.directory

        await eventually(all_heard, "pushes should come")
        assert connection.directory["g"].edges == ("edge1",)
        with pytest.raises(TypeError):
            connection.directory["g"] = record(1, "x")  # type: ignore[index]


async def test_publishers_go_where_the_directory_says_and_back(
    domain: DomainOfBrokers, agent: OrderingAgent
) -> None:
    got: list[bytes] = []
    far: list[bytes] = []

    async def near(message: Message) -> None:
        got.append(message.data)

    async def elsewhere(message: Message) -> None:
        far.append(message.data)

    async with (
        mangrove.connect(domain.url("head")) as connection,
        mangrove.connect(domain.url("head")) as publisher,
    ):
        await connection.subscribe("h", callback=near)
        agent.place = lambda wish: "edge2"
        await connection.subscribe("h", callback=elsewhere)
        await heard(publisher, "h", got)
        far.clear()
        await heard(publisher, "h", far)
        await publisher.publish("h", b"probe end")

        async def no_more_probes() -> bool:
            return b"probe end" in got and b"probe end" in far

        await eventually(no_more_probes, "the last probe should come to both")
        got.clear()
        far.clear()
        before = publisher.published()["h"].messages
        load = Load()
        task = asyncio.create_task(load.publish("sdk", partial(publisher.publish, "h"), 2000))
        assert publisher._managed is not None
        moved = publisher._managed.moved
        for number, broker in enumerate(["edge1", "", "edge2", "edge1", ""], 1):
            await asyncio.sleep(0.05)
            epoch = number + 1
            await agent.push(DirectoryRecord(topic="h", domain=DOMAIN, epoch=epoch, publish_at=broker))

            async def followed(number: int = number) -> bool:
                return moved["publisher moved"] == number

            await eventually(followed, f"it should be published at {broker or 'the head'}")
            present = publisher._elsewhere.get("h", publisher._publisher)
            assert present.url == domain.url(broker or "head")  # type: ignore[attr-defined]
        await asyncio.sleep(0.05)
        load.running = False
        await task
        await publisher.flush()
        await received(got, load)
        await received(far, load)
        assert publisher.published()["h"].messages == before + load.sent["sdk"]
    assert load.problems(got) == []
    assert load.problems(far) == []


async def test_many_subjects_change_their_broker_at_once(
    domain: DomainOfBrokers, agent: OrderingAgent
) -> None:
    """A connection that one of them leads to is not let go of because another has just moved."""
    subjects = [f"many.{number}" for number in range(20)]
    got: dict[str, list[bytes]] = {subject: [] for subject in subjects}

    async def take(message: Message) -> None:
        got[message.subject].append(message.data)

    async with (
        mangrove.connect(domain.url("head")) as connection,
        mangrove.connect(domain.url("head")) as publisher,
    ):
        agent.place = lambda wish: "edge1"
        await connection.subscribe("many.*", callback=take)
        await heard(publisher, subjects[0], got[subjects[0]])
        got[subjects[0]].clear()
        sent = dict.fromkeys(subjects, 0)
        turns = [("edge1", "edge2"), ("edge2", "edge1"), ("", "edge2"), ("edge1", "")]
        for epoch, places in enumerate(turns, 1):
            records = [
                DirectoryRecord(topic=subject, domain=DOMAIN, epoch=epoch, publish_at=places[number % 2])
                for number, subject in enumerate(subjects)
            ]
            await agent.push(*records)
            for turn in range(2000):
                for subject in subjects:
                    await publisher.publish(subject, b"%d" % sent[subject])
                    sent[subject] += 1
                await asyncio.sleep(0.005)
                if turn >= 50 and publisher.moves["publisher moved"] >= epoch * len(subjects):
                    break
            await publisher.flush()

        async def all_came() -> bool:
            return all(len(got[subject]) == sent[subject] for subject in subjects)

        await eventually(all_came, "every message should come once")
        assert all(got[subject] == [b"%d" % n for n in range(sent[subject])] for subject in subjects)
        assert publisher.moves["publisher moved"] >= 3 * len(subjects)


async def test_a_client_that_reached_an_edge_finds_the_head(
    domain: DomainOfBrokers, agent: OrderingAgent
) -> None:
    async with mangrove.connect(domain.url("edge2"), name="door 7") as connection:
        assert connection._publisher.url == domain.url("head")
        subscription = await connection.subscribe("i")
        await in_force(connection, subscription)
        assert broker_of(connection, subscription) == domain.url("edge1")
        assert agent.registrations[-1].name == "mangrove-sdk door 7"
        await connection.publish("i", b"x")
        assert (await subscription.next()).data == b"x"


async def test_an_identity_is_kept_in_a_file(
    domain: DomainOfBrokers, agent: OrderingAgent, tmp_path: Path
) -> None:
    path = tmp_path / "key"
    clients = []
    for _ in range(2):
        async with mangrove.connect(domain.url("head"), identity=path) as connection:
            await connection.subscribe("j")
            clients.append(agent.registrations[-1].client)
    assert clients[0] == clients[1]
    assert path.stat().st_mode & 0o777 == 0o600
    assert agent.refused == []


async def test_publishers_follow_orders(domain: DomainOfBrokers, agent: OrderingAgent) -> None:
    async with mangrove.connect(domain.url("head")) as connection:
        subscription = await connection.subscribe("k")
        await in_force(connection, subscription)
        await connection.publish("k", b"1")

        async def registered() -> bool:
            return "p2" in agent.wishes

        await eventually(registered, "the publisher should be registered")
        client = agent.registrations[-1].client
        assert (await agent.move("p2", "edge2", client=client)).problem == ""
        await connection.publish("k", b"2", headers={"with": "headers"})
        await agent.push(DirectoryRecord(topic="k", domain=DOMAIN, epoch=2, edges=("edge1",)))

        async def pushed() -> bool:
            return "k" in connection.directory

        await eventually(pushed, "the directory should be pushed")
        await connection.publish("k", b"3")
        assert connection._elsewhere, "what the directory does not change stays as ordered"
        assert (await agent.move("p2", "head", client=client)).problem == ""
        assert not connection._elsewhere
        await connection.publish("k", b"4")
        assert [(await subscription.next()).data for _ in range(4)] == [b"1", b"2", b"3", b"4"]


async def test_round_trips_are_told_where_clients_are_far(
    domain: DomainOfBrokers, agent: OrderingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domain, "placement", "wan")
    async with mangrove.connect(domain.url("head")) as connection:
        await connection.subscribe("l")
        assert set(agent.registrations[-1].rtt_ms) == {"edge1", "edge2"}
        assert all(0 < trip < 1000 for trip in agent.registrations[-1].rtt_ms.values())


async def test_brokers_without_anything_of_ours_are_let_go(
    domain: DomainOfBrokers, agent: OrderingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mangrove.client.broker_pool.ASKED_S", 0.2)
    monkeypatch.setattr("mangrove.client.management.managed.TIDY_S", 0.3)
    async with mangrove.connect(domain.url("head"), edges=[domain.url("edge1")]) as connection:
        await connection.subscribe("m")
        client = agent.registrations[-1].client
        await agent.move("s1", "edge2", client=client)
        assert {wire.url for wire in connection._pool} == {
            domain.url(each) for each in ("head", "edge1", "edge2")
        }
        await agent.move("s1", "edge1", client=client)

        async def let_go() -> bool:
            return {wire.url for wire in connection._pool} == {domain.url(each) for each in ("head", "edge1")}

        await eventually(let_go, "edge2 should be let go of")


@pytest.mark.parametrize("victim", ["head", "edge1", "edge2"])
async def test_a_broker_that_stands_still_for_a_while_costs_nothing(
    domain: DomainOfBrokers, agent: OrderingAgent, victim: str
) -> None:
    """Frozen in the middle of a move: it comes to one of its ends, and every message arrives once."""
    got: list[bytes] = []

    async def take(message: Message) -> None:
        got.append(message.data)

    async with mangrove.connect(domain.url("head")) as connection:
        await connection.subscribe("still.*", callback=take)
        await heard(connection, "still.a", got)
        client = agent.registrations[-1].client
        plain = await nats.connect(domain.url("edge2"))
        load = Load()
        tasks = [
            asyncio.create_task(load.publish("sdk", partial(connection.publish, "still.a"), 1000)),
            asyncio.create_task(load.publish("plain", partial(plain.publish, "still.b"), 300)),
        ]
        await asyncio.sleep(0.1)
        pid = domain.processes[victim].pid
        assert pid is not None
        moving = asyncio.create_task(agent.move("s1", "edge2", client=client))
        await asyncio.sleep(0.005)
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(0.5)
        os.kill(pid, signal.SIGCONT)
        assert (await moving).problem == ""
        load.running = False
        await asyncio.gather(*tasks)
        await connection.flush()
        await plain.flush()
        await received(got, load)
        await plain.close()
    assert load.problems(got) == []


async def test_closing_in_the_middle_of_a_move(domain: DomainOfBrokers, agent: OrderingAgent) -> None:
    for pause_s in (0.0, 0.002, 0.008):
        async with mangrove.connect(domain.url("head")) as connection:
            await connection.subscribe("n")
            to = Assignment(broker="edge2", url=domain.url("edge2"), epoch=2)
            await agent.tell(Order(term=1, session="cut short", key="s1", to=to))
            await asyncio.sleep(pause_s)
    tasks = [task.get_name() for task in asyncio.all_tasks()]
    assert not [name for name in tasks if name in ("move", "register", "report", "management link")]


async def test_a_management_broker_that_is_away_hinders_nobody(tmp_path: Path) -> None:
    async with (
        domain_of_brokers(tmp_path) as domain,
        ordering_agent(domain) as agent,
        mangrove.connect(domain.url("head")) as connection,
    ):
        first = await connection.subscribe("o.1")
        await in_force(connection, first)
        await domain.processes["management"].stop()
        second = await connection.subscribe("o.2")
        await in_force(connection, second)
        await connection.publish("o.1", b"1")
        await connection.publish("o.2", b"2")
        assert (await first.next()).data == b"1"
        assert (await second.next()).data == b"2"
        await domain.processes["management"].start()

        async def registered() -> bool:
            last = agent.registrations[-1]
            return last.complete and {wish.subject for wish in last.wishes} >= {"o.1", "o.2"}

        await eventually(registered, "the client should register again")
        assert all(wish.broker for wish in agent.registrations[-1].wishes)
