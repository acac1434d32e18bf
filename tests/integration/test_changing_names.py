"""A site's names change while it runs: all that has to do with names follows, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg
from tests.kit.changing_ring import mangrove
from tests.kit.mqtt_clients import PahoClient
from tests.kit.own_names import passes, reloaded, serves_every_request, with_names
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove as sdk
from mangrove.agent.inspection import gateway_status
from mangrove.config import parse_federation
from mangrove.model.names.mapping import NameMapping
from mangrove.testbed.local_federation import LocalFederation

TWO = """
federation: named
security: none
domains:
  berlin: {edges: 1}
  lyon: {edges: 1}
links: [{between: [berlin, lyon], delay_ms: 1}]
topics: [{match: "plant.slow", rate_msg_s: 20}]
"""
PLANT = (NameMapping(local="werk.>", federation="plant.>"),)


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Running]:
    federation = parse_federation(TWO, "two").require()
    async with LocalFederation(federation, tmp_path / "two", ephemeral=True) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


async def test_clients_are_told_and_what_was_said_by_other_names_is_said_anew(two: Running) -> None:
    directory = two.launched.directory
    named = with_names(TWO, {"berlin": PLANT})
    async with sdk.connect(run_dir=directory, domain="berlin") as berlin:
        lyon = sdk.connect(run_dir=directory, domain="lyon")
        async with lyon as lyon_client:

            async def limited(subject: str) -> bool:
                await berlin.publish(subject, b"")
                return subject in berlin.limits

            await eventually(lambda: limited("plant.slow"), "contracts are told")

            async def silent() -> bool:
                return await berlin.publish("werk.a", b"") is sdk.Outcome.UNWANTED

            await eventually(silent, "nobody wants it", timeout_s=20)
            wide = await lyon_client.subscribe("plant.>")
            back = await berlin.subscribe("werk.b")
            for each in (wide, back):
                await each.ready()
            await eventually(silent, "nobody wants it by that name", timeout_s=20)
            assert (await reloaded(directory, named))["taken"] == ["domains.berlin.names"]

            async def heard() -> bool:
                return await berlin.publish("werk.a", b"wanted") is sdk.Outcome.SENT

            await eventually(heard, "the publisher is told that it is wanted", timeout_s=20)
            assert (await wide.next(5)).subject == "plant.a"
            await eventually(lambda: limited("werk.slow"), "contracts are told by the names of the site")

            async def back_there() -> bool:
                await lyon_client.publish("plant.b", b"on")
                try:
                    return (await back.next(0.2)).data == b"on"
                except TimeoutError:
                    return False

            await eventually(back_there, "what enters has the site's name")


async def test_a_gateway_that_starts_anew_keeps_the_names_that_were_reloaded(two: Running) -> None:
    directory = two.launched.directory
    await reloaded(directory, with_names(TWO, {"berlin": PLANT}))
    gateway = two.launched.sites["berlin"].gateway
    assert gateway.pid is not None
    os.kill(gateway.pid, signal.SIGKILL)
    await passes(two, ("berlin", "lyon"), {"berlin": PLANT}, "werk.x")
    code, out, _ = await mangrove("names", "explain", "plant.x", "--run-dir", str(directory), "--json")
    assert code == 0
    assert [each["names"] for each in json.loads(out)["domains"]] == [["werk.x"], ["plant.x"]]


async def test_the_gateway_that_stands_by_goes_by_the_new_names_too(tmp_path: Path) -> None:
    text = TWO.replace("berlin: {edges: 1}", "berlin: {gateways: 2}").replace("lyon: {edges: 1}", "lyon: {}")
    federation = parse_federation(text, "two").require()
    async with LocalFederation(federation, tmp_path / "two", ephemeral=True) as launched:
        running = Running(launched)
        await running.links_up()
        await reloaded(launched.directory, with_names(text, {"berlin": PLANT}))
        logs = [launched.run.log(each.name) for each in launched.sites["berlin"].gateways]

        async def both() -> bool:
            texts = [await asyncio.to_thread(log.read_text) for log in logs]
            return all("other names are in force" in each for each in texts)

        await eventually(both, "both gateways go by the new names")
        active = launched.sites["berlin"].gateway
        assert active.pid is not None
        os.kill(active.pid, signal.SIGKILL)
        await passes(running, ("berlin", "lyon"), {"berlin": PLANT}, "werk.x")


async def test_queue_groups_know_their_members_by_names_that_come_later(two: Running) -> None:
    berlin, lyon = await nats.connect(two.head("berlin")), await nats.connect(two.head("lyon"))
    served: list[str] = []

    async def serve(message: Msg) -> None:
        served.append(message.subject)
        await message.respond(message.data)

    try:
        await berlin.subscribe("werk.service", queue="workers", cb=serve)
        await berlin.flush()
        await reloaded(two.launched.directory, with_names(TWO, {"berlin": PLANT}))
        await serves_every_request(lyon, "plant.service", b"who", served)
        assert set(served) == {"werk.service"}
    finally:
        await berlin.close()
        await lyon.close()


async def test_retained_messages_move_to_their_new_names(two: Running) -> None:
    ports = {domain: each.head.mqtt_port or 0 for domain, each in two.launched.endpoints.items()}
    berlin, lyon = PahoClient("berlin-device"), PahoClient("lyon-device")
    try:
        await lyon.connect(ports["lyon"])
        await lyon.publish("plant/stand", b"42", qos=1, retain=True)
        await berlin.connect(ports["berlin"])
        await berlin.publish("werk/licht", b"on", qos=1, retain=True)

        async def last_word(client: PahoClient, topic: str) -> bytes | None:
            client.arrived.clear()
            await client.subscribe(topic, qos=0)
            await asyncio.sleep(0.2)
            return next((each.payload for each in client.arrived if each.topic == topic), None)

        async def is_kept(client: PahoClient, topic: str, payload: bytes | None) -> None:
            async def kept() -> bool:
                return await last_word(client, topic) == payload

            await eventually(kept, f"{topic} is {payload!r}", timeout_s=30)

        await is_kept(berlin, "plant/stand", b"42")
        await is_kept(lyon, "werk/licht", b"on")
        await reloaded(two.launched.directory, with_names(TWO, {"berlin": PLANT}))
        await is_kept(berlin, "werk/stand", b"42")
        await is_kept(lyon, "plant/licht", b"on")
        await is_kept(berlin, "plant/stand", None)
        await is_kept(lyon, "werk/licht", None)
    finally:
        await berlin.disconnect()
        await lyon.disconnect()


async def test_names_that_cannot_be_change_nothing(two: Running, tmp_path: Path) -> None:
    collide = (*PLANT, NameMapping(local="halle.>", federation="plant.hall.>"))
    file = tmp_path / "wrong.yaml"
    file.write_text(with_names(TWO, {"berlin": collide}))
    code, _, err = await mangrove("reload", str(file), "--run-dir", str(two.launched.directory))
    assert code == 2
    assert "names[1].federation" in err
    status = await gateway_status(two.launched.endpoints["berlin"])
    assert status is not None
    assert status.names == ""


GUARDED = """
federation: guarded
domains:
  berlin: {kind: KIND}
  lyon: {}
links: [{between: [berlin, lyon], delay_ms: 1}]
access:
  - {who: {domain: berlin}, may_not: [publish], subjects: ["plant.secret.>"]}
"""


@pytest.mark.parametrize("kind", ["nats", "rabbitmq"])
async def test_brokers_keep_the_access_rules_by_the_names_of_now(tmp_path: Path, kind: str) -> None:
    text = GUARDED.replace("KIND", kind)
    federation = parse_federation(text, "guarded").require()
    async with LocalFederation(federation, tmp_path / "run", ephemeral=True, secured=True) as launched:
        await Running(launched).links_up()
        directory = launched.directory
        async with (
            sdk.connect(run_dir=directory, domain="berlin") as berlin,
            sdk.connect(run_dir=directory, domain="lyon") as lyon,
        ):
            wide = await lyon.subscribe("*.>")
            await wide.ready()

            async def heard(subject: str, end: str = "end") -> list[str]:
                """What arrives of a subject, and of one behind it that always does."""
                found: list[str] = []
                with contextlib.suppress(sdk.NotAllowedError):  # its broker may have said so before
                    await berlin.publish(subject, b"")
                await berlin.publish(f"{end}.x", b"")
                while not found or found[-1] != f"{end}.x":
                    message = await wide.next(10)
                    if not message.subject.startswith("_"):
                        found.append(message.subject)
                return found[:-1]

            assert await heard("werk.secret.x") == ["werk.secret.x"]
            await reloaded(directory, with_names(text, {"berlin": PLANT}))
            assert await heard("werk.open") == ["plant.open"]

            async def refused() -> bool:
                return await heard("werk.secret.x") == []

            await eventually(refused, "the brokers know the rule by the new name")
            audit = launched.run.audit_of("berlin-brokers")

            async def noted() -> bool:
                return "access rules taken over" in await asyncio.to_thread(audit.read_text)

            await eventually(noted, "the brokers of berlin take the rules over")
            await reloaded(directory, text)

            async def allowed() -> bool:
                return await heard("werk.secret.x") == ["werk.secret.x"]

            await eventually(allowed, "it means something else again")
            assert await heard("plant.secret.x") == []
