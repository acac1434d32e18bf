"""Transforms between two real domains: formats, expressions, XSLT, functions; and what a bad one disturbs."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import nats
import psutil
import pytest
from nats.aio.msg import Msg
from tests.kit.odd_functions import importable
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.config import parse_federation
from mangrove.gateway.mediation.worker_process import WORKER_MODULE
from mangrove.model.status import GatewayStatus
from mangrove.testbed.local_federation import LocalFederation

TWO = """
federation: mediated
domains: {berlin: {edges: 1}, lyon: {edges: 1, gateways: 2}}
links: [{between: [berlin, lyon], delay_ms: 1}]
max_message_bytes: 65536
transforms:
  compact: {decode: json, encode: msgpack}
  severe: {keep: "severity >= `3`", select: "{id: id, severity: severity}", rename: {severity: level}}
  cap: {xslt: cap.xsl}
  obedient: {function: "odd_functions_of_a_user:obedient", time_ms: 1000, memory_mb: 64}
topics:
  - {match: "reading.>", transform: compact}
  - {match: "quake.>", transform: {use: severe, at: sending}}
  - {match: "warning.>", transform: cap}
  - {match: "bad.>", transform: obedient}
  - {match: "badly.sent.>", transform: {use: obedient, at: sending}}
  - {match: "dead.letter.>", scope: domain}
"""
CAP = """<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output method="text"/>
<xsl:template match="/alert">{"what": "<xsl:value-of select="event"/>"}</xsl:template>
</xsl:stylesheet>"""


@pytest.fixture(scope="module")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    directory = Path(tmp_path_factory.mktemp("mediated"))
    (directory / "cap.xsl").write_text(CAP)
    with importable(directory):
        federation = parse_federation(TWO, "mediated", directory).require()
        async with LocalFederation(federation, directory / "run", ephemeral=True) as launched:
            running = Running(launched)
            await running.links_up()
            yield running


@pytest.fixture(autouse=True)
async def at_rest(two: Running) -> None:
    await two.at_rest()


def workers() -> list[psutil.Process]:
    """Processes of transforms that this test has started, by way of its gateways."""
    return [
        each
        for each in psutil.Process().children(recursive=True)
        if each.is_running() and WORKER_MODULE in " ".join(each.cmdline())
    ]


async def test_what_subscribers_get(two: Running) -> None:
    async with await nats.connect(two.head("berlin")) as berlin, await nats.connect(two.edge("lyon")) as lyon:
        heard = await lyon.subscribe("*.x")
        near = await berlin.subscribe("*.x")
        await two.knows_interest("berlin", "lyon", 1)
        headers = {"Mangrove-Id": "abcdefghijkl.00000000001", "Trace": "a:b"}
        await berlin.publish("reading.x", b'{"level": 1.5}', headers=headers)
        await berlin.publish("plain.x", b'{"level": 1.5}')
        await berlin.publish("warning.x", b"<alert><event>wave</event></alert>")
        for severity in (2, 3, 4):
            await berlin.publish("quake.x", json.dumps({"severity": severity, "id": severity}).encode())
        got: dict[str, list[Msg]] = {}
        for _ in range(5):
            message = await heard.next_msg(timeout=10)
            got.setdefault(message.subject, []).append(message)
        (reading,) = got["reading.x"]
        assert msgspec.msgpack.decode(reading.data) == {"level": 1.5}
        assert reading.headers == headers
        assert [each.data for each in got["plain.x"]] == [b'{"level": 1.5}']
        assert [json.loads(each.data) for each in got["warning.x"]] == [{"what": "wave"}]
        assert [json.loads(each.data) for each in got["quake.x"]] == [
            {"id": 3, "level": 3},
            {"id": 4, "level": 4},
        ]
        for _ in range(6):  # at home everything is as it was published
            assert (await near.next_msg(timeout=5)).data[:1] in b"{<"
        status = await two.gateway("berlin")
        assert status.transforms["severe"].left_out == 1
        assert status.dropped["left out by the transform severe"] == 1


@pytest.mark.parametrize(("subject", "kept_back"), [("quake.chosen", 2), ("reading.chosen", 2)])
async def test_what_is_selected_is_transformed_and_counted_once(
    two: Running, subject: str, kept_back: int
) -> None:
    """Headers are as they were published: they are judged before what is received is transformed."""
    run = two.launched.directory
    async with (
        mangrove.connect(domain="berlin", run_dir=run) as berlin,
        mangrove.connect(domain="lyon", run_dir=run) as lyon,
    ):
        chosen = await lyon.subscribe(subject, where="region = 'north'")
        await lyon.ready(subject)
        before = await two.gateway("berlin")
        for number, region in enumerate(("north", "south", "north", "south", "north")):
            body = json.dumps({"severity": 4, "id": number}).encode()
            await berlin.publish(subject, body, headers={"region": region})
        got = [(await chosen.next(timeout=10)).data for _ in range(3)]
        read = json.loads if subject.startswith("quake") else msgspec.msgpack.decode
        assert [read(each)["id"] for each in got] == [0, 2, 4]

        async def counted() -> bool:
            return (await two.gateway("berlin")).kept_back == before.kept_back + kept_back

        await eventually(counted, "what nobody selects is counted")
        after = await two.gateway("berlin")
        # What is transformed here is counted before it is; what is only sent, if anybody wants it.
        assert after.sent - before.sent == (5 if subject.startswith("quake") else 3)


async def test_requests_and_queue_groups(two: Running) -> None:
    async with await nats.connect(two.head("berlin")) as berlin, await nats.connect(two.edge("lyon")) as lyon:

        async def serve(message: Msg) -> None:
            await message.respond(b"%d" % msgspec.msgpack.decode(message.data)["a"])

        for _ in range(2):
            await lyon.subscribe("reading.service", queue="workers", cb=serve)
        await two.knows_interest("berlin", "lyon", 1)
        for number in range(10):
            answer = await berlin.request("reading.service", b'{"a": %d}' % number, timeout=10)
            assert answer.data == b"%d" % number


async def test_a_contract_gets_and_loses_a_transform_while_messages_flow(two: Running) -> None:
    """From one message to the next: none is lost, none comes twice or too early."""
    where = ("--run-dir", str(two.launched.directory), "--force", "--json")
    async with await nats.connect(two.head("berlin")) as berlin, await nats.connect(two.edge("lyon")) as lyon:
        heard = await lyon.subscribe("changing.x")
        await two.knows_interest("berlin", "lyon", 1)
        sent = 0
        running = True

        async def publish() -> None:
            nonlocal sent
            while running:
                await berlin.publish("changing.x", b'{"n": %d}' % sent)
                sent += 1
                await asyncio.sleep(0.002)

        publishing = asyncio.create_task(publish())
        wanted: tuple[tuple[str, int], ...] = (
            ("transform=compact", 0),
            ("transform={use: compact, at: sending}", 0),
            ("transform=nothing", 2),
            ("deadline_ms=500", 0),
        )
        try:
            for terms, code in wanted:
                ended = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "mangrove.cli.main", "contract", "set", "changing.x", terms),
                    *where,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                )
                _, told = await ended.communicate()
                assert ended.returncode == code, told
        finally:
            running = False
            await publishing
        got = [(await heard.next_msg(timeout=10)).data for _ in range(sent)]
        packed = [data[:1] == b"\x81" for data in got]
        numbers = [
            (msgspec.msgpack if each else msgspec.json).decode(data)["n"]
            for data, each in zip(got, packed, strict=True)
        ]
        assert numbers == list(range(sent))
        first, last = packed.index(True), sent - packed[::-1].index(True)
        assert 0 < first < last < sent
        assert all(packed[first:last]), "it was transformed from one change to the other"


BAD = ("raise", "garbage", "grow", "exit", "hang", "spin")


@pytest.mark.parametrize(("subject", "where"), [("bad.one", "lyon"), ("badly.sent.one", "berlin")])
async def test_a_bad_function_disturbs_nobody_else(two: Running, subject: str, where: str) -> None:
    """While a function hangs, raises, grows and dies, 500 msg/s of two other topics all arrive in order."""
    for _ in range(3):  # on a busy machine another gateway may take over: it counts from the beginning
        before, after = await suffered(two, subject, where)
        if after.epoch == before.epoch:
            break
    assert after.epoch == before.epoch
    earlier, now = before.transforms["obedient"], after.transforms["obedient"]
    new = {why: now.failed[why] - earlier.failed.get(why, 0) for why in now.failed}
    assert sum(new.values()) == len(BAD)
    assert now.transformed - earlier.transformed == 2 * len(BAD)
    assert now.processes - earlier.processes >= 4
    assert now.waiting == 0


async def suffered(two: Running, subject: str, where: str) -> tuple[GatewayStatus, GatewayStatus]:
    """Send all that is bad, beside the streams; the gateway that transforms it, before and after."""
    streamed: dict[str, list[int]] = {"plain.stream": [], "reading.stream": []}
    good: list[bytes] = []
    dead: dict[str, dict[str, str]] = {}
    async with (
        await nats.connect(two.head("berlin")) as berlin,
        await nats.connect(two.edge("lyon")) as lyon,
        await nats.connect(two.edge(where)) as there,
    ):

        async def take(message: Msg) -> None:
            plain = message.subject.startswith("plain")
            streamed[message.subject].append(
                int(message.data) if plain else msgspec.msgpack.decode(message.data)
            )

        async def take_good(message: Msg) -> None:
            good.append(message.data)

        async def take_dead(message: Msg) -> None:
            dead[message.data.decode()] = {"subject": message.subject, **(message.headers or {})}

        await lyon.subscribe("*.stream", cb=take)
        await lyon.subscribe(subject, cb=take_good)
        await there.subscribe("dead.letter.>", queue="undertakers", cb=take_dead)
        await two.knows_interest("berlin", "lyon", 2)
        await there.flush()
        before = await two.gateway(where)
        count = 0

        async def stream() -> None:
            nonlocal count
            while len(dead) < len(BAD) or len(good) < 2 * len(BAD):
                for name in streamed:
                    await berlin.publish(name, b"%d" % count)
                count += 1
                await asyncio.sleep(0.004)

        expected: list[bytes] = []
        for word in BAD:
            for payload in (b"before " + word.encode(), word.encode(), b"after " + word.encode()):
                await berlin.publish(subject, payload, headers={"Number": "7"})
                if payload != word.encode():
                    expected.append(b"did " + payload)
        async with asyncio.timeout(25):
            await stream()

        async def all_there() -> bool:
            return all(len(each) >= count for each in streamed.values())

        await eventually(all_there, "all that was streamed should arrive")
        assert all(each == list(range(count)) for each in streamed.values())
        assert good == expected
        assert set(dead) == set(BAD)
        assert all(each["subject"] == f"dead.letter.{subject}" for each in dead.values())
        assert all(each["Number"] == "7" for each in dead.values())
        assert dead["raise"]["Mangrove-Dead-Reason"] == (
            "the transform obedient failed: ValueError: so it was asked"
        )
        assert dead["hang"]["Mangrove-Dead-Transform"] == "obedient"
        assert "1000 ms are allowed" in dead["hang"]["Mangrove-Dead-Reason"]
        return before, await two.gateway(where)


async def test_processes_end_with_their_gateway(two: Running) -> None:
    """However it ends; the gateway that comes after it starts its own."""
    async with await nats.connect(two.head("berlin")) as berlin, await nats.connect(two.edge("lyon")) as lyon:
        heard = await lyon.subscribe("reading.y")
        await two.knows_interest("berlin", "lyon", 1)
        await berlin.publish("reading.y", b"1")
        assert (await heard.next_msg(timeout=10)).data == b"\x01"
        started = workers()
        gateways = {each.ppid() for each in started}
        assert started
        for pid in gateways:
            psutil.Process(pid).kill()

        async def all_gone() -> bool:
            return not any(each.is_running() and each.status() != "zombie" for each in started)

        await eventually(all_gone, "processes of transforms should die with their gateway")
        await two.links_up()
        await two.knows_interest("berlin", "lyon", 1)
        await berlin.publish("reading.y", b"2")
        assert (await heard.next_msg(timeout=10)).data == b"\x02"


async def test_the_command_line_shows_dead_letters(two: Running, tmp_path: Path) -> None:
    """With the subject and payload that they had, and the reason; those of others are left out."""
    letters = tmp_path / "letters"
    options = ["bad.*", "--server", two.edge("lyon"), "--count", "1", "--timeout", "30", "--json"]
    command = ["-m", "mangrove.cli.main", "dead-letters", *options, "--out", str(letters)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=pipe, stderr=pipe)
    try:
        assert process.stderr is not None
        assert b"waiting for" in await asyncio.wait_for(process.stderr.readline(), 20)
        async with (
            await nats.connect(two.head("berlin")) as berlin,
            await nats.connect(two.edge("lyon")) as lyon,
        ):
            await lyon.subscribe("bad.*")
            await two.knows_interest("berlin", "lyon", 1)
            await berlin.publish("bad.one", b"raise", headers={"Number": "7"})
            output, _ = await asyncio.wait_for(process.communicate(), 30)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    letter = json.loads(output)
    assert (letter["subject"], letter["transform"], letter["text"]) == ("bad.one", "obedient", "raise")
    assert letter["headers"]["Number"] == "7"
    assert letter["reason"].startswith("the transform obedient")
    assert bytes.fromhex(letter["hex"]) == b"raise"
    assert [each.read_bytes() for each in letters.iterdir()] == [b"raise"]
    assert process.returncode == 0
