"""Domains and links come and go while messages flow between the others, on real processes.

Of the streams between the domains that stay nothing is lost, comes twice or out of order.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.client import Client
from tests.kit.changing_ring import RING, mangrove, under_load
from tests.kit.running import Running
from tests.kit.waiting import eventually

from mangrove.agent.inspection import gateway_status
from mangrove.agent.joining import make_ready
from mangrove.agent.launcher import Launcher
from mangrove.agent.versioning import put_in_force, standing, written_in_force
from mangrove.cli.versions.superseded import network_in_force
from mangrove.config import parse_federation
from mangrove.errors import InputError
from mangrove.host.keys.logins.user_login import login_of
from mangrove.host.nats_connecting import connect_or_close
from mangrove.host.run_directory import RunDirectory
from mangrove.host.versions.version_store import VersionStore
from mangrove.host.versions.writing import written
from mangrove.model.endpoints import DomainEndpoints, fixed_endpoints, port_span
from mangrove.model.versions.network import network_of
from mangrove.model.versions.succession import successor

OPEN = RING.replace("domains:", "security: none\ndomains:")
"""Where nobody proves who he is, as in the federation that runs."""


SLOW_S = 90.0
"""A site starts several processes, which takes its time on a machine that others use."""


def free_base_port() -> int:
    """A block of ports that nobody uses at present."""
    for base in range(24_000, 31_000, 23):
        taken: list[socket.socket] = []
        try:
            for offset in range(port_span(0)):
                taken.append(socket.socket())
                taken[-1].bind(("127.0.0.1", base + offset))
        except OSError:
            continue
        finally:
            for each in taken:
                each.close()
        return base
    raise AssertionError("there are no free ports")


def with_d(base_port: int, *links: str) -> str:
    """The ring with a fourth domain, linked with some."""
    text = OPEN.replace("links:\n", f"  d: {{base_port: {base_port}}}\nlinks:\n")
    new = "".join(f"  - {{between: [{end}, d], delay_ms: 2}}\n" for end in links)
    return text.replace("topics:\n", f"{new}topics:\n")


def endpoints_of_d(text: str) -> DomainEndpoints:
    return fixed_endpoints(parse_federation(text, "file").require().domains["d"])


async def linked(running: Running, domain: str, *peers: str) -> None:
    """Wait until a gateway has links to these alone, and all are up."""

    async def there() -> bool:
        status = await gateway_status(running.launched.endpoints[domain])
        return status is not None and {link.peer: link.up for link in status.links} == dict.fromkeys(
            peers, True
        )

    await eventually(there, f"{domain} should be linked with {', '.join(peers)}", SLOW_S)


async def in_force(running: Running, *members: str) -> None:
    """Wait until these are the members, by what all of them that run here have in force."""

    async def everywhere() -> bool:
        here = [running.launched.endpoints[name] for name in members if name in running.launched.endpoints]
        asked = [await gateway_status(each) for each in here]
        return all(status is not None and set(status.versions) == set(members) for status in asked)

    await eventually(everywhere, f"the members should be {', '.join(members)}", SLOW_S)


async def done(*arguments: str) -> str:
    code, out, err = await mangrove(*arguments)
    assert code == 0, err
    return out


async def put(running: Running, text: str) -> None:
    """Put the domains and links of a file in force."""
    runtime = running.launched.runtime()
    now = await standing(runtime)
    network = network_of(parse_federation(text, "file").require())
    after = successor(now.document, now.document.topics.contracts, by="", at="", network=network)
    signed = written(after, runtime.keys)
    await put_in_force(runtime, now.domain, signed, progress=lambda change, found: None, timeout_s=SLOW_S)


async def made_ready(running: Running, text: str, elsewhere: Path) -> None:
    """The new site has the document in force, as `mangrove join` lays it ready."""
    document = await written_in_force(running.launched.runtime(), "d")
    make_ready(RunDirectory(elsewhere), parse_federation(text, "file").require(), "d", document)


@asynccontextmanager
async def running_d(text: str, directory: Path) -> AsyncIterator[None]:
    """The new site, as `mangrove up FILE --domain d` runs it."""
    federation = parse_federation(text, "file").require()
    federation = network_in_force(federation, RunDirectory(directory), "d")
    async with Launcher(federation, directory, only="d", agents=False):
        yield


async def exchanged(running: Running, d: DomainEndpoints, number: int) -> None:
    """A message from a comes to a subscriber in d, and one from d to a subscriber in a."""
    a = running.launched.endpoints["a"]
    for source, target in ((a, d), (d, a)):
        sending, receiving = [
            await connect_or_close(each.head.client_url, login=login_of(each.keys, running.user))
            for each in (source, target)
        ]
        got = asyncio.Event()

        async def arrived(_: object, got: asyncio.Event = got) -> None:
            got.set()

        await receiving.subscribe(f"hello.{number}", cb=arrived)
        await receiving.flush()

        async def came(sending: Client = sending, got: asyncio.Event = got) -> bool:
            await sending.publish(f"hello.{number}", b"")
            return got.is_set()

        await eventually(came, f"messages should pass from {source.domain} to {target.domain}", SLOW_S)
        await sending.close()
        await receiving.close()


async def test_a_site_joins_and_leaves_and_another_is_expelled_under_load(tmp_path: Path) -> None:
    directory, file, elsewhere = tmp_path / "changing", tmp_path / "next.yaml", tmp_path / "d"
    where = ("--run-dir", str(directory))
    base = free_base_port()
    text = with_d(base, "c")
    file.write_text(text)
    async with under_load(directory, 300.0) as running:
        out = await done("apply", str(file), "--force", *where)
        assert "domain d joins" in out
        assert "new link between c and d" in out
        await made_ready(running, text, elsewhere)
        async with running_d(text, elsewhere):
            await linked(running, "c", "a", "b", "d")
            await in_force(running, "a", "b", "c", "d")
            await exchanged(running, endpoints_of_d(text), 1)
            await put(running, with_d(base, "a", "c"))
            await linked(running, "a", "b", "c", "d")
            await put(running, with_d(base, "a"))
            await linked(running, "c", "a", "b")
            await done("rollback", "--force", *where)
            await linked(running, "c", "a", "b", "d")
            await done("rollback", "--force", *where)
            await linked(running, "c", "a", "b")
            await exchanged(running, endpoints_of_d(text), 2)
            await done("leave", "--domain", "d", "--force", *where)
            await in_force(running, "a", "b", "c")
            await linked(running, "a", "b", "c")

            async def knows() -> bool:
                kept = VersionStore(elsewhere / "versions" / "d").read().committed
                return kept is not None and "d" not in kept.read().members

            await eventually(knows, "d should know that it has left", SLOW_S)
        with pytest.raises(InputError, match="d has left changing, or was expelled"):
            network_in_force(parse_federation(text, "file").require(), RunDirectory(elsewhere), "d")

        await running.launched.sites["b"].kill()

        async def away() -> bool:
            return (await standing(running.launched.runtime())).away == ("b",)

        await eventually(away, "b should be known to be away", SLOW_S)
        await done("expel", "b", "--force", "--json", *where)
        await in_force(running, "a", "c")
        await linked(running, "a", "c")


async def test_what_cannot_be_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    directory, file = tmp_path / "changing", tmp_path / "next.yaml"
    where = ("--run-dir", str(directory))
    async with under_load(directory, 30.0) as running:
        cut = RING.replace("  - {between: [b, c], delay_ms: 2}\n", "").replace(
            "  - {between: [a, c], delay_ms: 3}\n", ""
        )
        file.write_text(cut)
        code, _, err = await mangrove("apply", str(file), *where)
        assert code == 2, err
        assert "no way would lead to c any more" in err
        code, _, err = await mangrove("expel", "a", *where)
        assert code == 2
        assert "a can be reached" in err
        assert json.loads((await mangrove("history", "--json", *where))[1])["version"] == 1
        await in_force(running, "a", "b", "c")


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_ten_joins_and_leaves_at_two_thousand_messages_a_second(tmp_path: Path) -> None:
    directory = tmp_path / "changing"
    async with under_load(directory, 2000.0) as running:
        for number in range(10):
            text = with_d(free_base_port(), *(("c",), ("a", "c"), ("b",))[number % 3])
            await put(running, text)
            elsewhere = tmp_path / f"d{number}"
            await made_ready(running, text, elsewhere)
            async with running_d(text, elsewhere):
                await exchanged(running, endpoints_of_d(text), number)
                await put(running, OPEN)
                await in_force(running, "a", "b", "c")


@pytest.mark.soak
async def test_a_site_with_two_gateways_joins_loses_one_and_leaves(tmp_path: Path) -> None:
    directory, file, elsewhere = tmp_path / "changing", tmp_path / "next.yaml", tmp_path / "d"
    where = ("--run-dir", str(directory))
    base = free_base_port()
    text = with_d(base, "a", "c").replace(f"base_port: {base}", f"base_port: {base}, gateways: 2")
    file.write_text(text)
    async with under_load(directory, 300.0) as running:
        await done("apply", str(file), "--force", *where)
        await made_ready(running, text, elsewhere)
        federation = network_in_force(parse_federation(text, "file").require(), RunDirectory(elsewhere), "d")
        async with Launcher(federation, elsewhere, only="d", agents=False) as launched:
            await in_force(running, "a", "b", "c", "d")
            await exchanged(running, endpoints_of_d(text), 1)
            active = launched.sites["d"].gateway
            assert active.pid is not None
            os.kill(active.pid, signal.SIGKILL)
            await exchanged(running, endpoints_of_d(text), 2)
            await linked(running, "a", "b", "c", "d")
            await done("leave", "--domain", "d", "--force", *where)
            await in_force(running, "a", "b", "c")
            await linked(running, "a", "b", "c")
