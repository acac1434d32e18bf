"""Child processes are ended in bounded time, whatever state they are in."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import psutil
import pytest
from tests.kit.freezing import freeze

from mangrove.host.process import ManagedProcess, stop_in_order

FROZEN_PER_STAGE = 6


def sleeper(name: str, directory: Path) -> ManagedProcess:
    return ManagedProcess(
        name, ["sh", "-c", "echo up; exec sleep 120"], log_path=directory / f"{name}.log", ready_text="up"
    )


def killed(caplog: pytest.LogCaptureFixture) -> set[object]:
    """Which processes had to be killed, by what was said about it."""
    said = [record for record in caplog.records if "killing it" in record.msg]
    return {record.args[0] for record in said if isinstance(record.args, tuple)}


async def test_frozen_processes_are_killed_side_by_side_and_the_others_end_by_themselves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stages = [
        [sleeper(f"{stage}-{number}", tmp_path) for number in range(FROZEN_PER_STAGE + 1)]
        for stage in ("first", "second")
    ]
    everything = [process for stage in stages for process in stage]
    await asyncio.gather(*(process.start() for process in everything))
    pids = [process.pid for process in everything if process.pid is not None]
    assert len(pids) == len(everything)
    frozen = [process for stage in stages for process in stage[1:]]
    for process in frozen:
        assert process.pid is not None
        freeze(process.pid)

    began = time.monotonic()
    await stop_in_order(*stages, within_s=2.0)
    took_s = time.monotonic() - began

    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert killed(caplog) == {process.name for process in frozen}
    # One after the other, each with its second, would take as many seconds as there are frozen processes.
    assert took_s < len(frozen) / 2


async def test_a_frozen_stage_leaves_time_to_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that is slow to end, but ends, is not killed because an earlier one hangs."""
    hanging = sleeper("hanging", tmp_path)
    slow = ManagedProcess(
        "slow",
        ["bash", "-c", "trap 'sleep 0.3; echo ended; exit 0' TERM; echo up; while :; do sleep 0.05; done"],
        log_path=tmp_path / "slow.log",
        ready_text="up",
    )
    await asyncio.gather(hanging.start(), slow.start())
    assert hanging.pid is not None
    freeze(hanging.pid)
    await stop_in_order([hanging], [slow], within_s=6.0)
    assert not [process for process in (hanging, slow) if process.pid is not None]
    assert "ended" in (tmp_path / "slow.log").read_text()
    assert killed(caplog) == {"hanging"}


async def test_stopping_what_never_started_is_no_error(tmp_path: Path) -> None:
    await stop_in_order([sleeper("never", tmp_path)], [])
    await stop_in_order()
