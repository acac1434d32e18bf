"""One secured federation under one stream for all attacks of a module."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.battlefield import FIELD, HONEST, NAME, Battlefield
from tests.kit.running import Running
from tests.kit.steady_stream import SteadyStream

from mangrove.config import parse_federation
from mangrove.host.audit.reading import check_logs
from mangrove.host.run_directory import RunDirectory
from mangrove.model.shared_names import WAN_PROCESS
from mangrove.testbed.local_federation import LocalFederation


def leaked_secrets(run: RunDirectory) -> list[str]:
    """Files of a run, besides its keys, that hold a secret.

    An edge broker needs the seed of its own user in its configuration, which only its owner can read.
    """
    secrets: set[bytes] = set()
    for path in run.keys.rglob("*"):
        if path.suffix in (".nk", ".key") or path.name in ("key.pem", "password"):
            secrets |= {
                line for line in path.read_bytes().split(b"\n") if len(line) > 20 and b"--" not in line
            }
    assert len(secrets) > 20
    files = [path for path in run.path.rglob("*") if path.is_file() and run.keys not in path.parents]
    return [
        f"{path.relative_to(run.path)}"
        for path in files
        if any(secret in path.read_bytes() for secret in secrets)
        and not (path.suffix == ".conf" and path.stat().st_mode & 0o777 == 0o600)
    ]


def carriers(launched: LocalFederation) -> list[int]:
    """The processes that messages between honest domains go through."""
    heads = {launched.endpoints[name].head.name for name in HONEST}
    found = [
        each
        for each in launched.processes()
        if each.name in heads or each.name == WAN_PROCESS or each.name.endswith("-gateway")
    ]
    pids = [each.pid for each in found if each.pid is not None]
    assert len(pids) == len(HONEST) + 1 + 4, [each.name for each in found]
    return pids


@pytest.fixture(scope="module")
async def field(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Battlefield]:
    """The federation, at rest and under traffic; the attacker's own gateway is out of his way."""
    directory: Path = tmp_path_factory.mktemp("state") / NAME
    federation = parse_federation(FIELD, NAME).require()
    async with LocalFederation(federation, directory, ephemeral=True, secured=True) as launched:
        await Running(launched).links_up()
        await launched.sites["m"].gateway.stop()
        stream = SteadyStream(launched.directory, HONEST, carriers(launched))
        battlefield = Battlefield(launched, stream)
        try:
            await asyncio.wait_for(stream.begin(), 60)
            yield battlefield
        finally:
            stream.end()
    battlefield.settle()
    reports = check_logs(launched.run)
    assert {f"{domain}-gateway" for domain in "abcd"} <= {report.process for report in reports}
    assert all(report.whole for report in reports), [report.findings for report in reports]
    assert not leaked_secrets(launched.run)
