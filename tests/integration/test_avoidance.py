"""`mangrove avoid` on real processes under load: contracts leave, and return, and no message notices."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.kit.running import Running

from mangrove.agent.inspection import wait_for_interest
from mangrove.config import parse_federation
from mangrove.testbed.accounting import Span, figures
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.probe_traffic import ProbeTopic, ProbeTraffic
from mangrove.testbed.ring.scenario import head_address

MESH = """
federation: mesh
domains:
  a: {location: [0, 0]}
  n: {location: [10, 10]}
  m: {location: [0, 10]}
  s: {location: [-10, 10]}
  d: {location: [0, 20]}
links:
  - {between: [a, m], delay_ms: 10}
  - {between: [m, d], delay_ms: 10}
  - {between: [a, n], delay_ms: 15}
  - {between: [n, d], delay_ms: 15}
  - {between: [a, s], delay_ms: 18}
  - {between: [s, d], delay_ms: 18}
topics:
  - {match: "timely.>", deadline_ms: 500}
  - {match: "double.>", paths: 2}
  - {match: "listed.>"}
"""
SUBJECTS = ("timely.x", "double.x", "listed.x", "plain.x")
WITHIN_S = 20.0


async def mangrove(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mangrove.cli.main",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def becomes(look: Callable[[], Awaitable[object]], expected: object) -> None:
    """Look again until all is as expected; in the end it is said what is not."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        found = await look()
        if found == expected or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.1)
    assert found == expected


async def test_contracts_leave_a_region_and_return_under_load(tmp_path: Path) -> None:
    federation = parse_federation(MESH, "mesh").require()
    directory = tmp_path / "mesh"
    where = ("--run-dir", str(directory), "--json")
    async with LocalFederation(federation, directory, ephemeral=True) as launched:
        running = Running(launched)
        await running.links_up()
        heads = {name: head_address(launched, name, "client") for name in launched.endpoints}
        topics = [ProbeTopic(subject, 250.0, heads["d"]) for subject in SUBJECTS]
        async with ProbeTraffic(heads["a"], topics) as probes:
            await probes.subscribe()
            assert await wait_for_interest(launched.runtime(), {"d": len(SUBJECTS)})
            began = time.monotonic_ns()
            await probes.publish()

            picture = tmp_path / "disaster.png"
            disaster = ("route", "disaster", "--live", "--centre", "0,10", "--radius", "300", *where)

            async def foreseen() -> object:
                code, out, err = await mangrove(*disaster, "--map", str(picture))
                assert code == 0, err
                asked = json.loads(out)
                fates = {
                    fate["topic"]: (fate["outcome"], fate["lost"], fate["remaining"])
                    for fate in asked["topics"]
                    if (fate["source"], fate["destination"]) == ("a", "d")
                }
                return fates, asked["nodes_inside"], asked["outcomes"]["struck"]

            middle, north = ["a", "m", "d"], ["a", "n", "d"]
            fates = {
                "timely.>": ("moves", [middle], [north]),
                "double.>": ("survives", [middle], [north]),
                "listed.>": ("moves", [middle], [north]),
                "(no contract)": ("moves", [middle], [north]),
            }
            struck = 4  # from m to d
            await becomes(foreseen, (fates, ["m"], struck))
            assert picture.stat().st_size > 5000
            code, out, err = await mangrove(*disaster[:-1])
            assert code == 0, err
            assert "Topics that the disaster would touch" in out

            code, out, err = await mangrove(
                "avoid", "--centre", "0,10", "--radius", "300", "--for", "2h", "--name", "storm", *where
            )
            assert code == 0, err
            told = json.loads(out)
            assert told["settled"], told
            stays = {(path["from"], path["reason"]) for path in told["exposed"]}
            assert stays == {("m", "its source, m, lies inside")}
            assert [region["sites"] for region in told["endangered"]] == [["m"]]

            async def in_use() -> object:
                """Paths by m, and topics that take any."""
                status = await running.gateway("a")
                used = {(route.topic, route.path) for route in status.routes if route.active}
                return [path for _, path in used if "m" in path], {topic for topic, _ in used}

            await becomes(in_use, ([], {"timely.>", "double.>", "listed.>"}))

            code, out, err = await mangrove("status", *where[:2])
            assert "Endangered regions" in out
            assert "storm" in out
            code, out, err = await mangrove("avoid", "--end", "calm", *where)
            assert code == 2
            assert "there is no endangered region 'calm'" in err
            assert "storm" in err
            code, out, err = await mangrove(
                "avoid", "--centre", "0,10", "--radius", "9000", "--name", "all", *where
            )
            assert code == 2
            assert "contains every site" in err

            code, out, err = await mangrove("avoid", "--end", "storm", *where)
            assert code == 0, err
            told = json.loads(out)
            assert told["settled"]
            assert told["endangered"] == []

            async def ways_to_d() -> object:
                status = await running.gateway("a")
                return {way.topic: set(way.paths) for way in status.ways if way.destination == "d"}

            by_m, by_n = ("a", "m", "d"), ("a", "n", "d")
            back = {
                "timely.>": {by_m},
                "double.>": {by_m, by_n},
                "listed.>": {by_m},
                "(no contract)": {by_m},
            }
            await becomes(ways_to_d, back)
            records = await probes.collect()
    for subject, record in records.items():
        found = figures(record, Span(began, time.monotonic_ns()), 500.0)
        assert found.sent > 500
        assert (found.lost, found.duplicated, found.out_of_order) == (0, 0, 0), subject


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--centre", "91,0", "--radius", "5"), "not on the globe"),
        (("--centre", "5", "--radius", "5"), "is not a place"),
        (("--centre", "0,0", "--radius", "-5"), "radius must be above 0"),
        (("--centre", "0,0"), "--radius is missing"),
        (("--centre", "0,0", "--radius", "5", "--for", "soon"), "is not a time"),
        (("--centre", "0,0", "--radius", "5", "--for", "60d"), "at most 30 days"),
        (("--list", "--end", "x"), "say what to do"),
    ],
)
async def test_bad_requests_are_refused_with_a_reason(
    arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    code, _, err = await mangrove("avoid", *arguments, "--run-dir", str(tmp_path / "nothing"))
    assert code == 2
    assert said in err


async def test_a_federation_that_does_not_run_cannot_be_told(tmp_path: Path) -> None:
    code, _, err = await mangrove("avoid", "--list", "--run-dir", str(tmp_path / "nothing"))
    assert code == 1
    assert "run" in err
