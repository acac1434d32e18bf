"""Telemetry of a federation that runs on this machine, into a lake, for as long as it runs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mangrove.agent.launcher import Launcher
from mangrove.agent.recorder.recorder import Recorder


@asynccontextmanager
async def recording(launched: Launcher, lake: Path | None) -> AsyncIterator[str]:
    """Record the sites that run here; yields what to tell the user. Without `lake`, nothing is recorded.

    Needs Arrow. A machine that only carries messages may not have it, and runs all the same.
    """
    if lake is None:
        yield "No telemetry is recorded."
        return
    try:
        from mangrove.lake.writer import LakeWriter
    except ModuleNotFoundError as error:
        yield (
            f"No telemetry is recorded: {error.name} is missing "
            "(pip install 'mangrove-messaging\\[pipelines]')."
        )
        return
    domains = [launched.endpoints[name] for name in launched.sites]
    recorder = Recorder(launched.federation, domains, LakeWriter(lake), cores=os.cpu_count() or 1)
    await recorder.start()
    try:
        yield f"Telemetry: {lake}."
    finally:
        await recorder.stop()
