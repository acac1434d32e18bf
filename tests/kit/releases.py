"""The release before the present one, taken from this repository's history, and commands of either.

Neighbouring releases run in one federation (docs/how-to/upgrade.md). When a release has been made, set
`PREVIOUS` to its commit: whatever is changed from then on has to live with it. MANGROVE_PREVIOUS names
another one for a single run.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PREVIOUS = "22195489d721d27af63a548b2ef80c047b1de461"
"""The commit that was released last."""
COMMAND_S = 180.0


@dataclass(frozen=True)
class Told:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Release:
    """A release, by the folder of its modules; it runs with the interpreter and packages of the tests."""

    name: str
    source: Path

    def argv(self, *arguments: str | Path) -> list[str]:
        """Runs python with this release's modules."""
        return ["/usr/bin/env", f"PYTHONPATH={self.source}", sys.executable, *map(str, arguments)]

    def command(self, *arguments: str | Path) -> list[str]:
        """Runs `mangrove` of this release."""
        return self.argv("-m", "mangrove.cli.main", *arguments)

    async def mangrove(self, *arguments: str | Path, environment: Mapping[str, str] | None = None) -> Told:
        """Run a command to its end."""
        return await self._run(self.command(*arguments), environment)

    async def commands(self, asked: Sequence[Sequence[str]]) -> list[Told]:
        """Run several commands one after the other, in one process: to load the modules costs most."""
        ran = await self.python(_SEVERAL, json.dumps(asked))
        assert ran.code == 0, ran.err
        return [Told(*each) for each in json.loads(ran.out)]

    async def python(self, program: str, *arguments: str | Path) -> Told:
        """Run some lines to their end."""
        return await self._run(self.argv("-c", program, *arguments), None)

    async def _run(self, argv: list[str], environment: Mapping[str, str] | None) -> Told:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )
        try:
            async with asyncio.timeout(COMMAND_S):
                out, err = await process.communicate()
        except BaseException:
            process.kill()
            await process.wait()
            raise
        assert process.returncode is not None
        return Told(process.returncode, out.decode(), err.decode())


_SEVERAL = """
import contextlib, io, json, sys
from mangrove.cli.main import main
told = []
for words in json.loads(sys.argv[1]):
    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["mangrove", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    told.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(told))
"""

PRESENT = Release("present", ROOT / "src")


def previous_release(folder: Path) -> Release:
    """The modules of the release before, unpacked into a folder; a failure of the test if there are none."""
    commit = os.environ.get("MANGROVE_PREVIOUS") or PREVIOUS
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "src"],
        capture_output=True,
        check=False,
    )
    if packed.returncode:
        pytest.fail(
            f"the release before ({commit[:12]}) is not in the history of {ROOT}: "
            f"{packed.stderr.decode(errors='replace').strip()}. These tests need a clone with its history; "
            "if this one is shallow: git fetch --unshallow",
            pytrace=False,
        )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return Release("previous", folder / "src")
