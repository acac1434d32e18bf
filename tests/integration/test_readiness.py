"""`ready()`: what is published right after it arrives, without any pause in between."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest
from tests.kit.running import Running

import mangrove

ROUNDS = 20


async def test_nothing_is_lost_after_ready(chain: Running) -> None:
    where = chain.launched.directory
    async with (
        mangrove.connect(domain="orlando", run_dir=where) as far,
        mangrove.connect(domain="seattle", run_dir=where) as near,
    ):
        for number in range(ROUNDS):
            group = "workers" if number % 2 else ""
            subscription = await far.subscribe(f"round.{number}.>", queue=group)
            await subscription.ready()
            await near.publish(f"round.{number}.x", b"at once")
            assert (await subscription.next(timeout=5)).data == b"at once"
        await far.ready("round.0.>")
        with pytest.raises(TimeoutError, match="did not hear of nobody"):
            await far.ready("nobody", timeout=0.3)


async def test_a_connection_by_url_learns_what_it_needs(chain: Running) -> None:
    async with mangrove.connect(chain.head("denver")) as connection:
        subscription = await connection.subscribe("x")
        await subscription.ready()


async def test_the_command_line_waits(chain: Running) -> None:
    where = str(chain.launched.directory)
    command = (sys.executable, "-m", "mangrove.cli.main")
    process = await asyncio.create_subprocess_exec(
        *(*command, "sub", "told", "--wait", "--count", "1", "--domain", "orlando", "--run-dir", where),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ),
    )
    assert process.stderr is not None
    while b"ready" not in (line := await process.stderr.readline()):
        assert line, "it ended before it was ready"
    async with mangrove.connect(domain="seattle", run_dir=chain.launched.directory) as near:
        await near.publish("told", b"once")
    out, _ = await asyncio.wait_for(process.communicate(), 20)
    assert out == b"told: once\n"
    assert process.returncode == 0
