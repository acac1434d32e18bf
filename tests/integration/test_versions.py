"""Contracts of a running federation change under load, by commands, and nothing else notices.

Of topics that are not affected nothing is lost, comes twice or out of order; all domains end with the same
version; whoever applies a change may be killed at any step.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
from pathlib import Path

import pytest
from tests.kit.changing_ring import RING, mangrove, start, under_load
from tests.kit.running import Running
from tests.kit.waiting import eventually

from mangrove.agent.inspection import gateway_status
from mangrove.agent.management import ManagementConnection
from mangrove.agent.versioning import put_in_force, standing
from mangrove.host.versions.writing import written
from mangrove.model.questions.versions_question import VersionsRequest
from mangrove.model.topics import Contract
from mangrove.model.versions.document import WrittenDocument
from mangrove.model.versions.succession import successor


async def agreed(running: Running, version: int) -> None:
    async def everywhere() -> bool:
        asked = [await gateway_status(each) for each in running.launched.endpoints.values()]
        return {None if status is None else status.version for status in asked} == {version}

    await eventually(everywhere, f"version {version} should be in force everywhere")


async def at_rest(running: Running) -> None:
    """One version is in force everywhere, and stays: what was handed over by who is dead is done by then."""
    seen: list[set[int | None]] = []

    async def same_for_a_while() -> bool:
        asked = [await gateway_status(each) for each in running.launched.endpoints.values()]
        seen.append({None if status is None else status.version for status in asked})
        await asyncio.sleep(0.15)
        return (
            len(seen) >= 4
            and all(each == seen[-1] for each in seen[-4:])
            and None not in seen[-1]
            and len(seen[-1]) == 1
        )

    await eventually(same_for_a_while, "one version should be in force everywhere")


async def test_contracts_change_by_commands_while_messages_flow(tmp_path: Path) -> None:
    directory = tmp_path / "changing"
    where = ("--run-dir", str(directory))
    async with under_load(directory, 600.0) as running:
        code, out, err = await mangrove(
            "contract", "set", "changing.>", "deadline_ms=150", "paths=2", "--force", "--json", *where
        )
        assert code == 0, err
        told = json.loads(out)
        assert (told["version"], told["versions"]) == (2, {"a": 2, "b": 2, "c": 2})
        await agreed(running, 2)

        file = tmp_path / "next.yaml"
        file.write_text(RING.replace("deadline_ms: 400", "deadline_ms: 300, late: deliver"))
        code, out, err = await mangrove("apply", str(file), "--force", "--note", "calmer", *where)
        assert code == 0, err
        assert "contract changing.>: deadline_ms 150.0 → 300.0, paths 2 → 1" in out
        assert "version 3 is in force in a, b, c" in out

        processes = {process.name: process for process in running.launched.processes()}
        pid = processes["b-gateway"].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        code, out, err = await mangrove("rollback", "--force", "--json", *where)
        assert code == 0, err
        await agreed(running, 4)
        code, out, err = await mangrove("contract", "show", "changing.x", "--json", *where)
        assert json.loads(out)["contracts"] == [
            {"class": 3, "match": "changing.>", "deadline_ms": 150.0, "paths": 2}
        ], "the same words have the same number"
        code, out, err = await mangrove("contract", "remove", "changing.>", "--force", *where)
        assert code == 0, err
        await agreed(running, 5)
        code, out, err = await mangrove("history", "--json", *where)
        assert code == 0, err
        history = json.loads(out)["history"]
        assert [each["version"] for each in history] == [5, 4, 3, 2, 1]
        assert [each.get("note", "") for each in history] == [
            "",
            "back to version 2",
            "calmer",
            "",
            "the federation file",
        ]
        code, out, err = await mangrove("story", *where)
        assert "is in force, after 4" in out


async def test_what_cannot_be_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "changing"
    where = ("--run-dir", str(directory))
    async with under_load(directory, 60.0) as running:
        launched = running.launched
        file = tmp_path / "next.yaml"
        file.write_text(RING.replace("deadline_ms: 400", "deadline_ms: 400, mirror: true"))
        code, _, err = await mangrove("apply", str(file), "--force", *where)
        assert code == 2
        assert "`mirror` of changing.>, which needs a restart" in err
        code, _, err = await mangrove("contract", "remove", "nothing", "--force", *where)
        assert code == 2
        assert "there is no contract 'nothing'" in err
        now = await standing(launched.runtime())
        good = successor(now.document, [Contract(match="x")], by="", at="")
        async with ManagementConnection(launched.endpoints["a"]) as management:
            for wrong, said in (
                (WrittenDocument(text=good.text()[:-5]), "no federation document"),
                (WrittenDocument(text=now.document.text()), ""),
                (WrittenDocument(text=good.text().replace(b"changing", b"elsewhere")), ""),
            ):
                answer = await management.versions(VersionsRequest(propose=wrong))
                assert answer is not None
                assert said in answer.problem
            if launched.keys is not None:
                unsigned = WrittenDocument(text=good.text())
                answer = await management.versions(VersionsRequest(propose=unsigned))
                assert answer is not None
                assert "it is not signed" in answer.problem
        await agreed(running, 1)


async def kill_while_applying(directory: Path, file: Path, after_s: float) -> None:
    """Begin to apply a change, and kill that process after some time."""
    process = await start("apply", str(file), "--force", "--run-dir", str(directory))
    try:
        async with asyncio.timeout(after_s):
            await process.communicate()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):  # it has ended in this moment
            process.kill()
        await process.wait()


async def changed_at_random(running: Running, chance: random.Random) -> None:
    """Put random contracts for the topics that may be affected in force, at a random domain."""
    now = await standing(running.launched.runtime())
    steady = [each for each in now.document.topics.contracts if each.match == "steady.>"]
    others = [
        Contract(
            match=match,
            deadline_ms=chance.choice([None, 150.0, 400.0]),
            paths=chance.choice([1, 2]),
            rate_msg_s=chance.choice([None, 1e6]),
        )
        for match in ("changing.>", "changing.x", "changing.*", "other.>")
        if chance.random() < 0.6
    ]
    contracts = [*others, *steady] if chance.random() < 0.5 else [*steady, *others]
    after = successor(now.document, contracts, by="chance", at="")
    domain = chance.choice(sorted(running.launched.endpoints))
    runtime = running.launched.runtime()
    await put_in_force(
        runtime,
        domain,
        written(after, runtime.keys),
        progress=lambda change, found: None,
        timeout_s=20.0,
    )
    await agreed(running, after.version)


async def test_random_changes_under_load_and_appliers_that_are_killed(tmp_path: Path) -> None:
    directory, file = tmp_path / "changing", tmp_path / "next.yaml"
    chance = random.Random(7)
    async with under_load(directory, 600.0) as running:
        for _ in range(5):
            await changed_at_random(running, chance)
        for number, after_s in enumerate((0.9, 1.3)):
            file.write_text(RING.replace("deadline_ms: 400", f"deadline_ms: {500 + number}"))
            await kill_while_applying(directory, file, after_s)
            await at_rest(running)


@pytest.mark.timeout(600)
@pytest.mark.soak
async def test_a_hundred_changes_at_two_thousand_messages_a_second(tmp_path: Path) -> None:
    directory, file = tmp_path / "changing", tmp_path / "next.yaml"
    chance = random.Random(11)
    async with under_load(directory, 2000.0) as running:
        for number in range(100):
            await changed_at_random(running, chance)
            if number % 10 == 9:
                file.write_text(RING.replace("deadline_ms: 400", f"deadline_ms: {500 + number}"))
                await kill_while_applying(directory, file, chance.uniform(0.3, 2.0))
                await at_rest(running)
