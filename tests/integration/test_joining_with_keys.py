"""A site joins a secured federation, exchanges messages and leaves, by the commands of the how-to page."""

from __future__ import annotations

import sys
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.kit.changing_ring import mangrove as run
from tests.kit.ports import PortBlocks
from tests.kit.waiting import eventually

import mangrove
from mangrove.host.process import ManagedProcess

THREE = """
federation: pacific
domains:
  seattle: {{base_port: {0}}}
  denver: {{base_port: {1}}}
  orlando: {{base_port: {2}}}
links:
  - {{between: [seattle, denver]}}
  - {{between: [denver, orlando]}}
topics:
  - {{match: "alert.>", deadline_ms: 2000}}
"""
FOUR = THREE.replace("links:\n", "  lima: {{base_port: {3}}}\nlinks:\n  - {{between: [orlando, lima]}}\n")
SLOW_S = 90.0


async def done(*arguments: str | Path) -> str:
    code, out, err = await run(*map(str, arguments))
    assert code == 0, f"{arguments}: {out}{err}"
    return out


@asynccontextmanager
async def up(log_path: Path, *arguments: str | Path) -> AsyncIterator[None]:
    """`mangrove up`, from when it runs until it has stopped."""
    argv = [sys.executable, "-m", "mangrove.cli.main", "up", *map(str, arguments), "--no-record"]
    process = ManagedProcess("up", argv, log_path=log_path, ready_text="Running.", ready_within_s=SLOW_S)
    await process.start()
    try:
        yield
    finally:
        await process.stop(30.0)


async def test_a_site_joins_with_keys_and_leaves(tmp_path: Path) -> None:
    here: list[str | Path] = ["--run-dir", tmp_path / "run"]
    there: list[str | Path] = ["--run-dir", tmp_path / "lima"]
    three, four, document = tmp_path / "three.yaml", tmp_path / "four.yaml", tmp_path / "pacific.document"
    keys, its_keys, archive = tmp_path / "run" / "keys", tmp_path / "lima-keys", tmp_path / "lima.tar"
    with PortBlocks() as ports:
        blocks = [ports.take() for _ in range(4)]
        three.write_text(THREE.format(*blocks))
        four.write_text(FOUR.format(*blocks))
        async with up(tmp_path / "up.log", three, *here):
            await done("keys", "init", four, "--keys", keys)
            await done("keys", "export", four, "--domain", "lima", "--to", archive, "--keys", keys)
            assert "domain lima joins" in await done("apply", four, "--force", *here)
            await done("history", "--write", document, *here)
            its_keys.mkdir(mode=0o700)
            with tarfile.open(archive) as packed:
                packed.extractall(its_keys, filter="tar")
            joining: list[str | Path] = ["--domain", "lima", *there, "--keys", its_keys]
            told = await done("join", four, "--document", document, *joining)
            assert f"--keys {its_keys}" in told.replace("\n", "")
            async with up(tmp_path / "up-lima.log", four, *joining):
                await both_ways(tmp_path)
                assert "lima has left" in await done("leave", "--domain", "lima", "--force", *here)
            code, _, err = await run("up", *map(str, (four, *joining)))
            assert code == 2
            assert "lima has left pacific" in err


async def both_ways(tmp_path: Path) -> None:
    """A message from the new site to the farthest of the others, and one back."""
    for source, target in (("seattle", "lima"), ("lima", "seattle")):
        places = {"lima": tmp_path / "lima", "seattle": tmp_path / "run"}
        async with (
            mangrove.connect(domain=source, run_dir=places[source]) as sending,
            mangrove.connect(domain=target, run_dir=places[target]) as receiving,
        ):
            got: list[bytes] = []

            async def take(message: mangrove.Message, got: list[bytes] = got) -> None:
                got.append(message.data)

            await receiving.subscribe(f"alert.{source}", callback=take)

            async def came(sending: mangrove.Connection = sending, got: list[bytes] = got) -> bool:
                await sending.publish(f"alert.{source}", b"wave")  # noqa: B023
                return bool(got)

            await eventually(came, f"messages should pass from {source} to {target}", SLOW_S)
