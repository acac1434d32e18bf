"""An AMQP client of another maker, amqplib from npm, that goes on whatever happens to its broker."""

from __future__ import annotations

import asyncio
import json
import subprocess
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.kit.waiting import eventually

from mangrove.host.keys.directory import ClientKeys
from mangrove.model.endpoints import BrokerEndpoints

JS_FOLDER = Path(__file__).parent.parent / "integration" / "amqp_js"
END_S = 60.0


def install() -> None:
    """Have the library there as its lock file names it."""
    lock, installed = JS_FOLDER / "package-lock.json", JS_FOLDER / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        command = ["npm", "ci", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=JS_FOLDER, check=True, capture_output=True)


class SteadyScript:
    """Publishes with confirms under one key, and consumes from a durable queue under another."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.confirmed = 0
        self.bound = False
        self.end: dict[str, Any] = {}

    async def read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            self.bound = self.bound or "bound" in said
            if "heard" in said:
                self.end = said
            elif "confirmed" in said:
                self.confirmed = said["confirmed"]

    def tell(self, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")

    async def finish(self, expected: int) -> dict[str, Any]:
        """What it had confirmed and heard when it had heard so many, or waited long enough for them."""
        self.tell(until=expected)
        await asyncio.wait_for(self._process.wait(), END_S)

        async def told() -> bool:
            return bool(self.end)

        await eventually(told, "the script should say what it heard")
        return self.end


@asynccontextmanager
async def steady_script(
    broker: BrokerEndpoints, client: ClientKeys | None, *, publish: str, queue: str, bind: str
) -> AsyncIterator[SteadyScript]:
    """The script, whose queue is bound."""
    await asyncio.to_thread(install)
    how = {"publish": publish, "queue": queue, "bind": bind}
    if client is None:
        how["url"] = f"amqp://guest:guest@{broker.host}:{broker.client_port}/"
    else:
        password = quote(client.password.read_text().strip(), safe="")
        how["url"] = f"amqps://{client.name}:{password}@{broker.host}:{broker.client_port}/"
        how["ca"] = str(client.trusted)
    process = await asyncio.create_subprocess_exec(
        "node", str(JS_FOLDER / "steady.js"), json.dumps(how), stdin=PIPE, stdout=PIPE, limit=1 << 26
    )
    script = SteadyScript(process)
    reading = asyncio.create_task(script.read())
    try:

        async def bound() -> bool:
            return script.bound

        await eventually(bound, "the script should bind its queue")
        yield script
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading
