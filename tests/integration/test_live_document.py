"""What a federation may change besides contracts while it runs, and who may change contracts by the SDK."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.inspection import gateway_status
from mangrove.agent.signing import Signer
from mangrove.agent.versioning import put_in_force, standing
from mangrove.config import parse_federation
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.keys.making import issue_client
from mangrove.host.versions.writing import written
from mangrove.model.topics import Contract, Queue
from mangrove.model.versions.succession import successor
from mangrove.testbed.local_federation import LocalFederation

FILE = """
federation: living
domains: {a: {edges: 1}, b: {edges: 1}}
links: [{between: [a, b], delay_ms: 1}]
topics:
  - {match: "data.>", deadline_ms: 400}
"""
RENAMED = """
transforms: {renamed: {rename: {low: HIGH}}}
limits: {client: {rate_msg_s: 1000}}
"""
RULES = """
access:
  contracts:
    - {who: {client: planner}, subjects: ["plan.>"]}
  rules:
    - {who: {domain: b}, may_not: subscribe, subjects: ["news.>"]}
"""


@asynccontextmanager
async def living(directory: Path, *, secured: bool) -> AsyncIterator[Running]:
    federation = parse_federation(FILE, "file").require()
    async with LocalFederation(federation, directory, ephemeral=True, secured=secured) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


async def until(condition: Callable[[], bool], what: str) -> None:
    async def holds() -> bool:
        return condition()

    await eventually(holds, what)


async def command(*arguments: str) -> dict[str, object]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mangrove.cli.main",
        *arguments,
        "--json",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return dict(json.loads(out))


async def applied(running: Running, file: Path, text: str, *how: str) -> dict[str, object]:
    await asyncio.to_thread(file.write_text, text)
    where = str(running.launched.run.path)
    return await command("apply", str(file), "--run-dir", where, *(how or ("--force",)))


async def test_transforms_and_limits_are_in_force_at_once_also_for_who_is_connected(tmp_path: Path) -> None:
    file = tmp_path / "next.yaml"
    async with (
        living(tmp_path / "run", secured=False) as running,
        mangrove.connect(running.head("a")) as publisher,
        mangrove.connect(running.edge("b")) as reader,
    ):
        data = await reader.subscribe("data.x")
        await data.ready()
        await publisher.publish("data.x", b'{"low": 1}')
        assert (await data.next(10)).data == b'{"low": 1}'
        wanted = FILE.replace("400}", "400, rate_msg_s: 50, slow: latest-only, transform: renamed}") + RENAMED
        looked = await applied(running, file, wanted, "--check")
        assert looked["changes"] == [
            "contract data.>: rate_msg_s None → 50.0, slow drop-oldest → latest-only, "
            "transform None → {'use': 'renamed', 'at': 'receiving'}",
            "limits: client.rate_msg_s None → 1000.0",
            "new transform renamed",
        ]
        assert (await applied(running, file, wanted))["versions"] == {"a": 2, "b": 2}
        await until(lambda: publisher.contracts_version == 2, "the publisher should be told")
        assert publisher.limits["data.x"].msg_s == 50.0
        assert publisher.limits[">"].msg_s == 1000.0
        await until(lambda: data.slow == "latest-only", "the subscription should be told")
        await publisher.publish("data.x", b'{"low": 2}')
        assert json.loads((await data.next(10)).data) == {"HIGH": 2}
        await command("rollback", "--force", "--run-dir", str(running.launched.run.path))
        await until(lambda: publisher.contracts_version == 3, "the publisher should be told")
        assert dict(publisher.limits) == {}
        await publisher.publish("data.x", b'{"low": 3}')
        assert (await data.next(10)).data == b'{"low": 3}'


async def test_a_site_takes_over_its_own_settings_and_lists_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "next.yaml"
    async with living(tmp_path / "run", secured=False) as running:
        run = running.launched.run
        changed = FILE.replace("400}", "500}") + "plans: {policy: auto}\nqueue_bytes: 70000\nsecurity: none\n"
        await asyncio.to_thread(file.write_text, changed)
        expected = {
            "topics": "by `mangrove apply`",
            "queue_bytes": "needs a restart",
            "plans": "taken at once",
        }
        looked = await command("reload", str(file), "--check", "--run-dir", str(run.path))
        assert looked == {"changes": [{"place": k, "effect": v} for k, v in expected.items()], "taken": []}
        told = await command("reload", str(file), "--run-dir", str(run.path))
        assert told["taken"] == ["plans"]

        async def taken_over() -> bool:
            return "or was reloaded" in await asyncio.to_thread(run.log("a-agent").read_text)

        await eventually(taken_over, "the agent should begin a new life")
        again = await command("reload", str(file), "--run-dir", str(run.path))
        assert again["taken"] == [], "it has taken over what it can"


THREE = """
federation: three
domains: {a: {}, b: {}, c: {}}
links: [{between: [a, b], delay_ms: 1}, {between: [b, c], delay_ms: 1}, {between: [a, c], delay_ms: 2}]
topics: [{match: "data.>"}]
"""
CHANGES = (
    Contract(match="data.>", confidential=True),
    Contract(match="data.>", confidential=True, queue=Queue.LOCAL_EACH),
    Contract(match="data.>", queue=Queue.LOCAL_EACH),
    Contract(match="data.>"),
)


async def test_messages_are_sealed_and_queues_served_otherwise_from_one_frame_to_the_next(
    tmp_path: Path,
) -> None:
    federation = parse_federation(THREE, "file").require()
    async with LocalFederation(
        federation, tmp_path / "run", ephemeral=True, secured=True, agents=False
    ) as launched:
        running, runtime = Running(launched), launched.runtime()
        await running.links_up()
        heard: dict[str, list[int]] = {"b": [], "c": [], "plain": []}

        async with (
            mangrove.connect(domain="a", run_dir=launched.run.path) as publisher,
            mangrove.connect(domain="b", run_dir=launched.run.path) as at_b,
            mangrove.connect(domain="c", run_dir=launched.run.path) as at_c,
        ):

            def hears(name: str) -> Callable[[mangrove.Message], Awaitable[None]]:
                async def hear(message: mangrove.Message) -> None:
                    heard[name].append(int(message.data))

                return hear

            for name, reader, queue in (("b", at_b, "g"), ("c", at_c, "g"), ("plain", at_c, "")):
                subscription = await reader.subscribe("data.x", queue=queue, callback=hears(name))
                await subscription.ready()
            sent = 0
            for contract in (*CHANGES, CHANGES[0]):
                now = await standing(runtime)
                after = successor(now.document, [contract], by="me", at="")
                changing = asyncio.create_task(
                    put_in_force(
                        runtime,
                        "b",
                        written(after, runtime.keys),
                        progress=lambda change, found: None,
                        timeout_s=20.0,
                    )
                )
                while not changing.done():
                    await publisher.publish("data.x", b"%d" % sent)
                    sent += 1
                    await asyncio.sleep(0.002)
                await changing
            await until(lambda: len(heard["plain"]) == sent, "all should have come")
            await until(lambda: {*heard["b"], *heard["c"]} == set(range(sent)), "and been served")
            assert heard["plain"] == list(range(sent))
            assert heard["b"] == sorted(set(heard["b"])), "in order, and once in each domain"
            assert heard["c"] == sorted(set(heard["c"]))
            twice = set(heard["b"]) & set(heard["c"])
            assert 0 < len(twice) < sent, "by both domains while every domain was to serve it"
            sealed = (await running.gateway("a")).sealing
            assert sealed.sealed > 0
            assert not (await running.gateway("c")).sealing.refused


async def test_who_loses_a_right_is_told_and_who_is_granted_one_changes_contracts(tmp_path: Path) -> None:
    file = tmp_path / "next.yaml"
    async with living(tmp_path / "run", secured=True) as running:
        launched = running.launched
        assert launched.keys is not None
        planner = issue_client(launched.keys, "a", "planner").path
        where = launched.run.path

        async def known() -> bool:
            try:
                await (await mangrove.connect(domain="a", run_dir=where, credentials=planner)).close()
            except mangrove.LoginError:
                return False
            return True

        await eventually(known, "the brokers should know the planner")
        async with (
            mangrove.connect(domain="a", run_dir=where, credentials=planner) as publisher,
            mangrove.connect(domain="b", run_dir=where) as reader,
        ):
            news, other = await reader.subscribe("news.x"), await reader.subscribe("other.x")
            await news.ready()
            await other.ready()
            await publisher.publish("news.x", b"1")
            assert (await news.next(10)).data == b"1"
            with pytest.raises(mangrove.ContractNotAllowedError):
                await publisher.contracts.set("plan.>", deadline_ms=100)
            await applied(running, file, FILE + RULES)
            with pytest.raises(mangrove.NotAllowedError):
                await news.next(20)
            await publisher.publish("other.x", b"2")
            assert (await other.next(10)).data == b"2"
            with pytest.raises(mangrove.NotAllowedError):
                await reader.subscribe("news.y")

            with pytest.raises(mangrove.ContractNotAllowedError):
                await publisher.contracts.set("data.>", paths=2)
            with pytest.raises(mangrove.ContractRefusedError, match="nobody signs"):
                await publisher.contracts.set("plan.>", deadline_ms=100)
            runtime = launched.runtime()
            told: list[str] = []
            signer = Signer(runtime, runtime.keys, AuditLog(), told.append)
            signing = asyncio.create_task(signer.run())
            await until(lambda: len(told) == 2, "the signer should be there")
            changed = await publisher.contracts.set("plan.>", deadline_ms=100, note="by the SDK")
            assert (changed.version, changed.versions) == (3, {"a": 3, "b": 3})
            assert await publisher.contracts.show("plan.x") == ({"match": "plan.>", "deadline_ms": 100.0},)
            with pytest.raises(mangrove.ContractInvalidError):
                await publisher.contracts.set("plan.>", deadline_ms=-1)
            assert (await publisher.contracts.remove("plan.>")).version == 4
            signing.cancel()
            now = await standing(runtime)
            assert (now.document.past[0].by, now.document.past[0].note) == ("planner of a", "by the SDK")
            status = await gateway_status(launched.endpoints["a"])
            assert status is not None
            assert status.version == 4
