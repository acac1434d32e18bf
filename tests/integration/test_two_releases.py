"""The release before and the present one in one federation of real processes.

Four sites in a ring, with keys. Neighbours are always of different releases, so every link has both ends of
a conversation, and what goes from a site to the one across the ring passes through the other release.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.kit.mixed_federation import MixedFederation, mixed_federation
from tests.kit.mqtt_clients import PahoClient
from tests.kit.releases import PRESENT, Release, previous_release
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.inspection import wait_for_interest
from mangrove.client.connection import Connection
from mangrove.model.plans.topology import topology_fingerprint
from mangrove.testbed.accounting import Figures, Span, figures
from mangrove.testbed.probe_traffic import ProbeTopic, ProbeTraffic

pytestmark = pytest.mark.timeout(400)

RING = """
federation: mixed
domains:
  a: {location: [47.61, -122.33], base_port: $a, edges: 2}
  b: {location: [39.74, -104.99], base_port: $b, edges: 2}
  c: {location: [28.54, -81.38], base_port: $c, edges: 1}
  d: {location: [34.05, -118.24], base_port: $d, edges: 1}
links:
  - {between: [a, b]}
  - {between: [b, c]}
  - {between: [c, d]}
  - {between: [a, d]}
transforms:
  compact: {decode: json, encode: msgpack}
topics:
  - {match: "alert.>", deadline_ms: 2000, paths: 2}
  - {match: "timed.>", deadline_ms: 1500}
  - {match: "twice.>", mirror: true}
  - {match: "secret.>", confidential: true}
  - {match: "shaped.>", transform: compact}
  - {match: "changing.>", deadline_ms: 400}
  - {match: "home.>", scope: domain}
access:
  - {who: {client: client}, may_not: [publish, subscribe], subjects: ["closed.>"]}
"""
DOMAINS = "abcd"
STREAM = ("alert.x", "plain.x")


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return previous_release(tmp_path_factory.mktemp("previous"))


@pytest.fixture(scope="module")
async def mixed(
    tmp_path_factory: pytest.TempPathFactory, previous: Release
) -> AsyncIterator[MixedFederation]:
    releases = {"a": previous, "b": PRESENT, "c": previous, "d": PRESENT}
    directory = tmp_path_factory.mktemp("mixed")
    async with mixed_federation(directory, RING, ("a", "b"), releases, previous) as made:
        yield made


@pytest.fixture
async def clients(mixed: MixedFederation) -> AsyncIterator[dict[str, Connection]]:
    """One client of the present release at each site."""
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(mixed.connect(name)) for name in DOMAINS}


@asynccontextmanager
async def stream(mixed: MixedFederation, source: str, to: str) -> AsyncIterator[dict[str, Figures]]:
    """Messages from one site to another; the account of them when the block has ended."""
    found: dict[str, Figures] = {}
    topics = [ProbeTopic(subject, 250.0, mixed.head(to)) for subject in STREAM]
    async with ProbeTraffic(mixed.head(source), topics) as probes:
        await probes.subscribe()
        assert await wait_for_interest(mixed.runtime(source), {to: len(STREAM)})
        began = time.monotonic_ns()
        await probes.publish()
        yield found
        records = await probes.collect()
    span = Span(began, time.monotonic_ns())
    found |= {subject: figures(record, span, 2000.0) for subject, record in records.items()}


def nothing_missed(found: dict[str, Figures]) -> None:
    for subject, each in found.items():
        assert each.sent > 0
        assert (each.lost, each.duplicated, each.out_of_order) == (0, 0, 0), subject


# -- messages -----------------------------------------------------------------------------------------------


async def test_messages_of_every_kind_reach_every_site(clients: dict[str, Connection]) -> None:
    """Plain, with a deadline, over two paths, mirrored, confidential, in order and once."""
    count = 20
    for topic in ("plain", "timed", "alert", "twice", "secret"):
        heard = {name: await clients[name].subscribe(f"{topic}.*") for name in DOMAINS}
        for subscription in heard.values():
            await subscription.ready()
        for number in range(count):
            for name in DOMAINS:
                await clients[name].publish(f"{topic}.{name}", b"%d" % number, headers={"From": name})
        for listener, subscription in heard.items():
            came: dict[str, list[int]] = {name: [] for name in DOMAINS}
            for _ in range(count * len(DOMAINS)):
                message = await subscription.next(timeout=20)
                came[message.headers["From"]].append(int(message.data))
            assert came == {name: list(range(count)) for name in DOMAINS}, (topic, listener)
        for subscription in heard.values():
            await subscription.unsubscribe()
    assert all(not client.denied for client in clients.values())


async def test_requests_groups_selectors_and_transforms(clients: dict[str, Connection]) -> None:
    async with asyncio.timeout(100):
        for service, asker in ("ab", "ba", "ca", "bd"):
            await _asked(clients[service], clients[asker])
        for source, to in ("ac", "bd", "ad", "da"):
            await _grouped(clients, source)
            await _selected(clients[source], clients[to])
            await _shaped(clients[source], clients[to])


async def _asked(service: Connection, asker: Connection) -> None:
    async def answer(message: mangrove.Message) -> None:
        await message.respond(message.data.upper())

    serving = await service.subscribe("service", callback=answer)
    await serving.ready()
    assert (await asker.request("service", b"who", timeout=10)).data == b"WHO"
    await serving.unsubscribe()


async def _grouped(clients: dict[str, Connection], source: str) -> None:
    """A group with members at all sites gets each message once."""
    taken: Counter[bytes] = Counter()

    async def take(message: mangrove.Message) -> None:
        taken[message.data] += 1

    members = [await client.subscribe("job.*", queue="workers", callback=take) for client in clients.values()]
    for member in members:
        await member.ready()
    for number in range(50):
        await clients[source].publish("job.x", b"%d" % number)

    async def all_taken() -> bool:
        return len(taken) == 50

    await eventually(all_taken, "all jobs should be taken")
    for member in members:
        await member.unsubscribe()
    assert set(taken.values()) == {1}


async def _selected(source: Connection, to: Connection) -> None:
    urgent = await to.subscribe("level.x", where="severity >= 3")
    await urgent.ready()
    for severity in (1, 5, 2, 9):
        await source.publish("level.x", b"%d" % severity, headers={"severity": str(severity)})
    assert [(await urgent.next(timeout=10)).data for _ in range(2)] == [b"5", b"9"]
    await urgent.unsubscribe()


async def _shaped(source: Connection, to: Connection) -> None:
    shaped = await to.subscribe("shaped.x")
    await shaped.ready()
    await source.publish("shaped.x", b'{"a": 1}')
    assert (await shaped.next(timeout=20)).data == b"\x81\xa1a\x01"
    await shaped.unsubscribe()


async def test_mqtt_devices_of_sites_of_both_releases(mixed: MixedFederation) -> None:
    devices = {name: PahoClient(f"device-{name}") for name in DOMAINS}
    for name, device in devices.items():
        port = mixed.endpoints(name).edges[0].mqtt_port
        assert port is not None
        await device.connect(port, login=mixed.login(name))
        assert await device.subscribe("command/#", 1) == 1
    assert await wait_for_interest(mixed.runtime("b"), dict.fromkeys(DOMAINS, 2))
    for name, device in devices.items():
        await device.publish(f"command/{name}", b"now", 1)

    async def all_heard() -> bool:
        return all(len(device.arrived) >= len(DOMAINS) for device in devices.values())

    await eventually(all_heard, "every device should hear all of them")
    for device in devices.values():
        assert sorted(each.topic for each in device.arrived) == [f"command/{name}" for name in DOMAINS]
        await device.disconnect()


async def test_a_link_between_releases_is_cut_and_nothing_is_missed(mixed: MixedFederation) -> None:
    for source, to in ("ac", "ca"):
        async with stream(mixed, source, to) as found:
            await asyncio.sleep(1)
            mixed.relay.cut()
            await _link_is(mixed, up=False)
            await asyncio.sleep(1)
            mixed.relay.mend()
            await _link_is(mixed, up=True)
            await asyncio.sleep(1)
        nothing_missed(found)


async def _link_is(mixed: MixedFederation, *, up: bool) -> None:
    async def so() -> bool:
        ends = [await mixed.status(name) for name in "ab"]
        return all(
            end is not None and any(link.up is up for link in end.links if link.peer in "ab") for end in ends
        )

    await eventually(so, f"both ends should find the link {'up' if up else 'down'}")


async def test_a_small_storm_of_interest_is_known_everywhere(
    mixed: MixedFederation, clients: dict[str, Connection]
) -> None:
    many = 300
    for source, to in ("ab", "ba"):
        subscriptions = [await clients[source].subscribe(f"storm.{number}") for number in range(many)]
        assert await wait_for_interest(mixed.runtime(to), {source: many})
        for subscription in subscriptions:
            await subscription.unsubscribe()

        async def calm(source: str = source) -> bool:
            found = [await mixed.status(name) for name in DOMAINS]
            return all(each is not None and each.interest.get(source, 0) < many for each in found)

        await eventually(calm, "what is not wanted any more should be forgotten everywhere")


# -- agents and commands ------------------------------------------------------------------------------------


async def test_each_site_runs_its_own_release(mixed: MixedFederation) -> None:
    for name, release in mixed.releases.items():
        sources = {source for _, source in mixed.processes(name)}
        assert sources == {str(release.source)}
        assert {kind for kind, _ in mixed.processes(name)} >= {"mangrove.gateway", "mangrove.agent"}


async def test_agents_of_both_releases_hear_of_each_other(mixed: MixedFederation) -> None:
    async def heard() -> bool:
        agents = [await mixed.agent(name) for name in DOMAINS]
        return all(
            agent is not None
            and len(agent.peers) == 2
            and all(peer.online and peer.load is not None for peer in agent.peers)
            for agent in agents
        )

    await eventually(heard, "every agent should know how its neighbours do")
    for name in DOMAINS:
        agent = await mixed.agent(name)
        assert agent is not None
        assert not agent.refused
        assert not agent.store_problem


async def test_plans_are_put_in_force_by_commands_of_the_other_release(
    mixed: MixedFederation, previous: Release, clients: dict[str, Connection], tmp_path: Path
) -> None:
    for release, domain in ((previous, "b"), (PRESENT, "a")):
        where = ("--run-dir", str(mixed.run_dir(domain)))
        client = clients[domain]
        subscription = await client.subscribe("planned.x")

        async def known(client: Connection = client) -> bool:
            await client.publish("planned.x", b"")
            return "planned.x" in client.directory

        await eventually(known, f"the agent of {domain} should know the topic")
        federation = mixed.runtime(domain).federation
        plan = {
            "allocation": {f"{domain}-edge2": ["planned.x"]},
            "risk": {},
            "joint_ok": 0.99,
            "federation": federation.name,
            "domain": domain,
            "topology": topology_fingerprint(federation, domain),
            "made_at": time.time(),
            "data_until": time.time(),
        }
        file = tmp_path / f"{domain}.json"
        file.write_text(json.dumps(plan))
        told = await release.mangrove("plan", "apply", file, "--force", "--json", *where)
        assert told.code == 0, told.err
        await _planned(mixed, domain, previous, PRESENT)
        await subscription.unsubscribe()


QUESTIONS = (
    ("status", "--json"),
    ("load", "--json"),
    ("directory", "--json"),
    ("leader", "--json"),
    ("history", "--json"),
    ("contract", "show", "--json"),
    ("story", "--json"),
    ("audit", "verify", "--json"),
)


async def test_commands_of_either_release_ask_the_other(mixed: MixedFederation, previous: Release) -> None:
    for release, domain in ((previous, "b"), (PRESENT, "a")):
        asked = [(*question, "--run-dir", str(mixed.run_dir(domain))) for question in QUESTIONS]
        for question, told in zip(QUESTIONS, await release.commands(asked), strict=True):
            assert told.code == 0, (release.name, question, told.err)
            assert json.loads(told.out) is not None
    # The release before sometimes does not end here: its feed forgets that it was cancelled.
    told = await PRESENT.mangrove("metrics", "--json", "--run-dir", mixed.run_dir("a"))
    assert told.code == 0, told.err
    assert "mangrove_link_rtt_seconds" in json.loads(told.out)


async def test_messages_by_commands_of_the_release_before(mixed: MixedFederation, previous: Release) -> None:
    """Its own client, at sites of the present release."""
    for source, to in ("bd", "ba"):
        hearing = asyncio.create_task(
            previous.mangrove(
                *("sub", "told.x", "--count", "3", "--timeout", "40", "--domain", to),
                *("--run-dir", mixed.run_dir(to)),
            )
        )
        assert await wait_for_interest(mixed.runtime(source), {to: 1}, timeout_s=30.0)
        told = await previous.mangrove(
            *("pub", "told.x", "word", "--count", "3", "--domain", source, "--run-dir", mixed.run_dir(source))
        )
        assert told.code == 0, told.err
        heard = await hearing
        assert (heard.code, heard.out) == (0, "told.x: word\n" * 3), heard.err


# -- what changes while it runs -----------------------------------------------------------------------------


async def test_contracts_change_at_sites_of_both_releases(mixed: MixedFederation, previous: Release) -> None:
    version = 1
    async with stream(mixed, "a", "c") as found:
        for release, domain, words in (
            (previous, "a", ("contract", "set", "further.>", "deadline_ms=700")),
            (PRESENT, "b", ("contract", "remove", "further.>")),
            (previous, "b", ("contract", "set", "changing.>", "deadline_ms=150", "paths=2")),
            (PRESENT, "a", ("rollback",)),
        ):
            version += 1
            told = await release.mangrove(
                *words, "--force", "--json", "--keys", mixed.keys, "--run-dir", mixed.run_dir(domain)
            )
            assert told.code == 0, (release.name, domain, words, told.err)
            assert json.loads(told.out)["versions"] == dict.fromkeys(DOMAINS, version)
            await mixed.version_everywhere(version)
    nothing_missed(found)


async def test_a_site_gets_another_release_while_others_talk(
    mixed: MixedFederation, previous: Release
) -> None:
    """Forwards at one site and backwards at another: state on disk is read by both, and what others say to
    each other over two paths is not missed."""
    for domain, release, source, to in (("a", PRESENT, "b", "d"), ("b", previous, "a", "c")):
        before = await mixed.versions()
        async with stream(mixed, source, to) as found:
            await mixed.change(domain, release)
        nothing_missed({"alert.x": found["alert.x"]})
        plain = found["plain.x"]  # on one path, what the stopped site held may be lost with it
        assert (plain.duplicated, plain.out_of_order) == (0, 0)
        assert await mixed.versions() == before, "what is in force is still in force"
        await _planned(mixed, domain, previous, PRESENT)
        for asking in (previous, PRESENT):
            for told in await asking.commands(
                (
                    ("audit", "verify", "--json", "--run-dir", str(mixed.run_dir(domain))),
                    ("keys", "show", str(mixed.files[domain]), "--keys", str(mixed.keys)),
                )
            ):
                assert told.code == 0, told.err


async def _planned(mixed: MixedFederation, domain: str, *asking: Release) -> None:
    """The plan that is in force is found in the domain's store, whoever asks."""
    for release in asking:

        async def told(release: Release = release) -> bool:
            words = ("plan", "show", "--domain", domain, "--json", "--run-dir", mixed.run_dir(domain))
            return "planned.x" in (await release.mangrove(*words)).out

        await eventually(told, f"{release.name}: the plan of {domain} should be in force", timeout_s=90.0)


# -- what lies on disk --------------------------------------------------------------------------------------

KEEP = """
import asyncio, sys, mangrove
async def main():
    offline = mangrove.Offline(directory=sys.argv[1])
    async with mangrove.connect("nats://127.0.0.1:1", offline=offline) as connection:
        for number in range(5):
            assert await connection.publish("kept.x", b"%d" % number) is mangrove.Outcome.KEPT
asyncio.run(main())
"""
SEND = """
import asyncio, pathlib, sys, mangrove
async def main():
    offline = mangrove.Offline(directory=sys.argv[1])
    async with mangrove.connect(run_dir=pathlib.Path(sys.argv[2]), domain="b", offline=offline) as connection:
        await connection.flush()
asyncio.run(main())
"""
SCHEMAS = """
import json
from mangrove.model.telemetry import SCHEMA_VERSION, TABLES
columns = {name: {c.name: [c.type, c.optional] for c in table.columns} for name, table in TABLES.items()}
print(json.dumps([SCHEMA_VERSION, columns]))
"""


async def test_what_a_client_kept_is_sent_by_the_other_release(
    mixed: MixedFederation, previous: Release, clients: dict[str, Connection], tmp_path: Path
) -> None:
    heard = await clients["a"].subscribe("kept.x")
    await heard.ready()
    for keeping, sending in ((previous, PRESENT), (PRESENT, previous)):
        spool = tmp_path / keeping.name
        kept = await keeping.python(KEEP, spool)
        assert kept.code == 0, kept.err
        shown = await sending.mangrove("spool", "show", spool, "--json")
        assert shown.code == 0, shown.err
        sent = await sending.python(SEND, spool, mixed.run_dir("b"))
        assert sent.code == 0, sent.err
        assert [(await heard.next(timeout=20)).data for _ in range(5)] == [b"%d" % each for each in range(5)]


async def test_telemetry_of_both_releases_is_one_lake(previous: Release) -> None:
    """Files with other columns are refused, so a table that both know has the same ones."""
    told = [json.loads((await release.python(SCHEMAS)).out) for release in (previous, PRESENT)]
    (version_before, before), (version_now, now) = told
    assert version_before == version_now
    for table in before.keys() & now.keys():
        assert before[table] == now[table], table
