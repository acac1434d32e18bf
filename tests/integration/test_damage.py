"""Edges that can carry less, on real brokers: who is limited, what is withheld, and what operators see."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.kit.waiting import eventually

from mangrove.agent.management import ManagementConnection
from mangrove.client import connect
from mangrove.model.agents.usefulness import LimitStatus
from mangrove.model.congestion.parameters import Mode
from mangrove.testbed.damage.scenario import Damage, Moment
from mangrove.testbed.damage.workload import HOME, draw_plan, federation_of
from mangrove.testbed.local_federation import LocalFederation

EDGE = f"{HOME}-edge1"


async def test_when_an_edge_is_cut_the_useless_are_limited_and_every_message_is_accounted_for(
    tmp_path: Path,
) -> None:
    plan = draw_plan(seed=3, edges=1, topics=4, subscribers=3, bandwidth_mbps=8.0, payload_bytes=1000)
    limits: dict[str, LimitStatus] = {}
    capacities: list[dict[str, tuple[float, float]]] = []

    def look(moment: Moment) -> None:
        if moment.status is not None:
            limits.update({each.publisher: each for each in moment.status.congestion.limits})
            capacities.append(moment.status.congestion.capacities)

    damage = Damage(plan, tmp_path, mode=Mode.CONGESTED, damage=0.3, look=look)
    report = await damage.run(8.0, rest_s=4.0, recovery_s=1.0)
    assert {EDGE: (0.3, 1.0)} in capacities
    assert capacities[-1] == {}
    assert "congested" in report.states
    assert report.most_limits
    assert any("useless" in publisher for publisher in limits)
    assert not [publisher for publisher in limits if "alert" in publisher], "protected"
    assert all(each.topic.startswith("report.") and each.brokers == (EDGE,) for each in limits.values())
    phases = [report.before, report.during, report.after]
    for name in ("alert", "good", "medium", "useless"):
        parts = [phase.classes[name] for phase in phases]
        assert sum(part.lost + part.duplicated for part in parts) == 0, name
        offered, withheld = sum(each.offered for each in parts), sum(each.withheld for each in parts)
        assert offered > 0
        assert sum(part.delivered for part in parts) <= offered - withheld, "the rest came after the end"
    assert report.during.classes["alert"].withheld == 0
    useless, good = report.during.classes["useless"], report.during.classes["good"]
    assert useless.withheld / useless.offered > good.withheld / good.offered
    assert report.before.classes["useless"].withheld == 0


async def mangrove(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mangrove.cli.main",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "COLUMNS": "200"},
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_an_operator_lowers_and_restores_what_a_broker_can_carry(tmp_path: Path) -> None:
    federation = federation_of(draw_plan(seed=1, edges=1), Mode.CONGESTED)
    here = ("--run-dir", str(tmp_path))
    async with (
        LocalFederation(federation, tmp_path, ephemeral=True, emulate_brokers=True) as launched,
        ManagementConnection(launched.endpoints[HOME]) as management,
    ):

        async def lowered(to: dict[str, tuple[float, float]]) -> None:
            async def so() -> bool:
                status = await management.agent_status()
                return status is not None and status.congestion.capacities == to

            await eventually(so, f"the agent should know of {to}")

        code, out, _ = await mangrove("broker", EDGE, "--bandwidth", "0.25", "--json", *here)
        assert code == 0
        told = json.loads(out)
        assert (told["bandwidth"], told["bandwidth_mbps"], told["emulated"]) == (0.25, 16.0, True)
        await lowered({EDGE: (0.25, 1.0)})
        assert "16.0 Mbit/s" in launched.run.log("lines").read_text()

        # Through the emulator everything arrives, whatever its line can carry.
        async with (
            connect(run_dir=tmp_path, domain=HOME) as desk,
            connect(run_dir=tmp_path, domain=HOME) as siren,
        ):
            subscription = await desk.subscribe("alert.x")
            await subscription.ready()
            for number in range(50):
                await siren.publish("alert.x", b"%d" % number)
            got = [(await subscription.next(timeout=10.0)).data for _ in range(50)]
            assert got == [b"%d" % number for number in range(50)]

        assert (await mangrove("broker", EDGE, "--restore", *here))[0] == 0
        await lowered({})
        for arguments, words in (
            (("nowhere-edge1", "--bandwidth", "0.5"), "harbour-head, harbour-edge1"),
            ((EDGE, "--bandwidth", "0"), "above 0 and at most 1"),
            ((EDGE, "--bandwidth", "nan"), "above 0 and at most 1"),
            ((EDGE, "--bandwidth=-1"), "above 0 and at most 1"),
            ((EDGE, "--capacity", "0.5"), "says nothing of the capacity"),
            ((EDGE,), "either say what is left, or --restore"),
        ):
            code, _, err = await mangrove("broker", *arguments, *here)
            assert code == 2, arguments
            assert words in " ".join(err.split())
