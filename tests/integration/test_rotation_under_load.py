"""Every key of a running federation is replaced while messages flow between its sites."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.changing_ring import mangrove
from tests.kit.keyed import all_files
from tests.kit.rotation_load import TWO, Stream, streaming, taken_over, two_sites
from tests.kit.running import Running
from tests.kit.waiting import eventually
from typer.testing import CliRunner, Result

from mangrove.agent.management import ManagementConnection
from mangrove.agent.versioning import written_in_force
from mangrove.cli.main import app
from mangrove.host.audit.reading import read_chain
from mangrove.host.keys.approval import approval_problem
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.files.key_files import read_certificates
from mangrove.host.keys.logins.user_login import client_login
from mangrove.host.keys.rotation import Part, change_authority, finish, introduce_authority, rotate
from mangrove.host.nats_connecting import close_in_time, connect_or_close
from mangrove.host.run_directory import RunDirectory
from mangrove.host.runtime_file import read_runtime
from mangrove.model.audit.entry import AuditKind

RATE = 250.0
SETTLED_S = 2.0
"""Links go by their new keys then, and supervisors have asked gateways which attachments are theirs."""


@pytest.fixture(scope="module")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with two_sites(tmp_path_factory.mktemp("state") / "two") as running:
        yield running


async def failures(two: Running) -> list[int]:
    return [link.failures for name in ("here", "there") for link in (await two.gateway(name)).links]


async def sent_away(two: Running) -> list[str]:
    logs = [path for path in two.launched.directory.rglob("*.log") if "gateway" in path.name]
    return [path.name for path in logs if "lost the head broker" in path.read_text()]


def keys_of(two: Running) -> Path:
    assert two.launched.keys is not None
    return two.launched.keys


def amiss(stream: Stream, subject: str) -> list[object]:
    """What was lost, and how much came twice, of either hearer that this happened to."""
    found = [(dict(stream.lost(each, subject)), stream.twice(each, subject)) for each in ("here", "there")]
    return [each for each in found if any(each)]


async def test_nothing_is_lost_while_every_key_of_the_federation_is_replaced(two: Running) -> None:
    """The authority, gateways, sealing keys, brokers, all users of ours, and clients; nothing is restarted.

    Edges attach anew when their key is replaced: what has no mirror may be lost then, and at no other time.
    """
    keys = KeyDirectory(keys_of(two))
    pids = {process.name: process.pid for process in two.launched.processes()}
    before = all_files(keys)
    async with streaming(two, RATE) as stream:
        for phase, step in (
            ("introduce", introduce_authority),
            ("change", change_authority),
            ("rotate", rotate),
            ("finish", finish),
        ):
            stream.phase = phase
            await asyncio.to_thread(step, keys.path)
            await taken_over(two)
            await asyncio.sleep(SETTLED_S)
        renewed = [wire.counts.renewals for each in stream.connections for wire in each._pool]
    assert stream.sent > 1_000
    assert amiss(stream, "twice") == []
    for hearer in ("here", "there"):
        assert not stream.lost(hearer, "once").keys() - {"rotate"}
        assert not stream.twice(hearer, "once")
    assert renewed
    assert all(renewed)
    here, there = await two.gateway("here"), await two.gateway("there")
    assert here.sent == there.delivered
    assert not here.dropped
    assert not there.dropped
    assert await failures(two) == [0, 0]
    assert not await sent_away(two)
    assert {process.name: process.pid for process in two.launched.processes()} == pids
    after = all_files(keys)
    replaced = [path for path in before if path.suffix in (".key", ".nk", ".pem")]
    assert not [path for path in replaced if after[path] == before[path]]


async def test_clients_whose_keys_are_replaced_lose_nothing(two: Running) -> None:
    """Each has logged in anew before brokers close the connections of keys that have ended."""
    async with streaming(two, RATE) as stream:
        await asyncio.to_thread(rotate, keys_of(two), parts=[Part.CLIENTS])
        await taken_over(two)
        await asyncio.to_thread(finish, keys_of(two))
        await taken_over(two)
        lost = [wire.counts.lost for each in stream.connections for wire in each._pool]
    assert amiss(stream, "twice") == []
    assert amiss(stream, "once") == []
    assert not any(lost)
    assert await failures(two) == [0, 0]


async def test_keys_do_not_end_while_somebody_is_connected_by_them(two: Running, tmp_path: Path) -> None:
    """A client that does not look for its new key is named, and cut off only if that is wanted."""
    file = tmp_path / "two.yaml"
    file.write_text(TWO)
    keys = keys_of(two)

    def command(*options: str) -> Result:
        return CliRunner().invoke(app, ["keys", "rotate", str(file), "--keys", str(keys), *options])

    async def brokers_have_them() -> bool:
        async with ManagementConnection(two.launched.endpoints["here"]) as management:
            answers = await management.hosts(1, old_keys=True)
        return any(answer.old_logins for answer in answers)

    login = client_login(KeyDirectory(keys).domain("here").client("client").path)
    present = login()
    plain = await connect_or_close(
        two.head("here"), login=lambda: present, name="pump", allow_reconnect=False
    )
    try:
        done = await asyncio.to_thread(command, "--domain", "here", "--client", "client")
        assert done.exit_code == 0, done.stderr
        early = await asyncio.to_thread(command, "--finish", "--wait", "0")
        # Whether brokers have taken them over by now or not.
        assert early.exit_code != 0, early.stderr
        await eventually(brokers_have_them, "the brokers know the new key")
        refused = await asyncio.to_thread(command, "--finish", "--wait", "0", "--json")
        assert refused.exit_code == 1
        assert json.loads(refused.stdout) == {
            "connected_by_old_keys": [
                {
                    "domain": "here",
                    "broker": "here-head",
                    "client": "client",
                    "name": "pump",
                    "connections": 1,
                }
            ]
        }
        assert plain.is_connected
        forced = await asyncio.to_thread(command, "--finish", "--force", "--wait", "0")
        assert forced.exit_code == 0
        assert "here/client" in forced.stderr

        async def cut_off() -> bool:
            return not plain.is_connected

        await eventually(cut_off, "the old key is believed no longer")
    finally:
        await close_in_time(plain)


async def test_what_is_in_force_is_signed_by_the_authority_that_stays(two: Running, tmp_path: Path) -> None:
    """Else a site that comes back later would not believe it, whoever tells it."""
    file, keys, run = tmp_path / "two.yaml", str(keys_of(two)), str(two.launched.directory)
    file.write_text(TWO)
    runtime = read_runtime(RunDirectory(two.launched.directory))
    contract = ("contract", "set", "plan.>", "deadline_ms=400", "--force", "--run-dir", run, "--keys", keys)
    code, _, told = await mangrove(*contract)
    assert code == 0, told
    before = (await written_in_force(runtime)).read()
    code, _, told = await mangrove("keys", "rotate", str(file), "--authority", "--wait", "4", "--keys", keys)
    assert code == 0, told
    assert f"version {before.version + 1} is in force: nothing changed, signed anew" in told
    after = await written_in_force(runtime)
    assert after.read().topics.contracts == before.topics.contracts
    (stays,) = read_certificates(KeyDirectory(keys_of(two)).trusted, keys_of(two))
    assert not approval_problem(after.text, after.signature, [stays])

    async def everywhere() -> bool:
        versions = [(await two.gateway(name)).version for name in ("here", "there")]
        return versions == [before.version + 1] * 2

    await eventually(everywhere, "both sites have it")


async def test_what_brokers_and_supervisors_did_is_written_down(two: Running) -> None:
    """Clients that came, keys that were taken over, processes that started."""
    kinds = {
        (entry.kind, entry.facts.get("client") or entry.facts.get("name") or entry.facts.get("by"))
        for entry in read_chain(RunDirectory(two.launched.directory), "here-brokers")
    }
    assert (AuditKind.CLIENT_CONNECTED, "client") in kinds
    assert (AuditKind.KEYS_TAKEN_OVER, "brokers") in kinds
    assert {(AuditKind.PROCESS_STARTED, name) for name in ("here-head", "here-gateway")} <= kinds
