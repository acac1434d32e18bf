"""The recorder process: telemetry of the domains that run on this machine, into a lake.

Run as `python -m mangrove.agent.recorder.daemon SETTINGS.json`, beside the process that supervises brokers
and gateways: it can be killed, starved or restarted, and nobody but the lake notices.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path

import uvloop

from mangrove.agent.recorder.recorder import Recorder
from mangrove.agent.recorder.settings import RecorderSettings, read_settings
from mangrove.errors import MangroveError
from mangrove.lake.writer import LakeWriter
from mangrove.model.shared_names import RECORDER_READY

log = logging.getLogger(__name__)


async def _record(settings: RecorderSettings) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    writer = LakeWriter(Path(settings.lake))
    recorder = Recorder(settings.federation, settings.domains, writer, cores=os.cpu_count() or 1)
    await recorder.start()
    log.info(RECORDER_READY)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await recorder.run()
    finally:
        await recorder.stop()
    log.info("recorder stopped")


def main() -> None:
    """Record until told to stop."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        settings = read_settings(Path(sys.argv[1]))
    except MangroveError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        sys.exit(error.exit_code)
    uvloop.run(_record(settings))


if __name__ == "__main__":
    main()
