"""Plain NATS and MQTT clients connect to secured brokers by the words of the documentation."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import nats.errors
import pytest
from tests.kit.secured_domain import SecuredDomain, secured_domain
from tests.kit.waiting import eventually
from typer.testing import CliRunner

from mangrove.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "connect-plain-clients.md"
LIBRARY = Path(__file__).parent / "nats_js"
SITE = "federation: pacific\ndomains:\n  seattle: {edges: 1}\n"
ISSUE = "mangrove keys issue pacific.yaml door7 --domain seattle"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
async def seattle(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SecuredDomain]:
    """With the client of the page, made by its command while the brokers run."""
    directory = tmp_path_factory.mktemp("pacific")
    file = directory / "pacific.yaml"
    file.write_text(SITE)
    async with secured_domain(directory, SITE, "seattle") as running:
        guard = asyncio.create_task(running.guard.run())
        (command,) = blocks("console")
        assert command == f"$ {ISSUE}\n"
        arguments = command.removeprefix("$ mangrove ").replace("pacific.yaml", str(file)).split()
        issued = CliRunner().invoke(app, [*arguments, "--keys", str(running.keys.path)])
        assert issued.exit_code == 0, issued.output
        await eventually(partial(comes_in, running), "the brokers should know the client")
        yield running
        guard.cancel()
        await asyncio.gather(guard, return_exceptions=True)


async def comes_in(domain: SecuredDomain) -> bool:
    try:
        connected = await domain.connect(domain.endpoints.head, domain.by_password("door7"))
    except (nats.errors.Error, OSError):
        return False
    await connected.client.close()
    return True


async def run(domain: SecuredDomain, folder: Path, program: list[str], text: str) -> str:
    """Run what the page says, with the ports of this domain, where the client's folder is."""
    shutil.copytree(domain.keys.domain("seattle").client("door7").path, folder / "door7")
    head = domain.endpoints.head
    text = text.replace("7000", str(head.client_port)).replace("7001", str(head.mqtt_port))
    script = folder / ("script.mjs" if program[0] == "node" else "script.py")
    script.write_text(text)
    done = await asyncio.to_thread(
        subprocess.run,
        [*program, script.name],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def test_nats_from_python(seattle: SecuredDomain, tmp_path: Path) -> None:
    text, _ = blocks("python")
    assert await run(seattle, tmp_path, [sys.executable], text) == "alert.tsunami wave at 12:04"


async def test_mqtt(seattle: SecuredDomain, tmp_path: Path) -> None:
    _, text = blocks("python")
    assert await run(seattle, tmp_path, [sys.executable], text) == "alert/tsunami wave at 12:04"


async def test_nats_from_javascript(seattle: SecuredDomain, tmp_path: Path) -> None:
    (text,) = blocks("javascript")
    if not (LIBRARY / "node_modules" / ".package-lock.json").exists():
        install = ["npm", "ci", "--no-audit", "--no-fund"]
        await asyncio.to_thread(subprocess.run, install, cwd=LIBRARY, check=True, capture_output=True)
    (tmp_path / "node_modules").symlink_to(LIBRARY / "node_modules")
    assert await run(seattle, tmp_path, ["node"], text) == "alert.tsunami wave at 12:04"


async def test_a_wrong_password_is_refused(seattle: SecuredDomain, tmp_path: Path) -> None:
    _, text = blocks("python")
    wrong = text.replace('Path("door7/password").read_text().strip()', '"guessed"')
    assert wrong != text
    wrong = wrong.replace('client.subscribe("alert/#", qos=1)', "print(reason); client.disconnect()")
    assert await run(seattle, tmp_path, [sys.executable], wrong) == "Not authorized"
