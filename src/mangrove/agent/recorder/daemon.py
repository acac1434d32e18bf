"""The recorder process: telemetry of the domains that run on this machine, into a lake.

Run as `python -m mangrove.agent.recorder.daemon SETTINGS.json`, beside the process that supervises brokers
and gateways: it can be killed, starved or restarted, and nobody but the lake notices.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from mangrove.agent.recorder.recorder import Recorder
from mangrove.agent.recorder.settings import RecorderSettings, check
from mangrove.host.daemon import run_daemon
from mangrove.host.web.health import Readiness, telling_health
from mangrove.lake.writer import LakeWriter
from mangrove.model.shared_names import RECORDER_PROCESS, RECORDER_READY

log = logging.getLogger(__name__)


async def _record(settings: RecorderSettings) -> None:
    check(settings)
    writer = LakeWriter(Path(settings.lake))
    recorder = Recorder(settings.federation, settings.domains, writer, cores=os.cpu_count() or 1)
    started = False

    def readiness() -> Readiness:
        return Readiness(process=RECORDER_PROCESS, checks={"has begun": started})

    async with telling_health(settings.health, readiness):
        await recorder.start()
        started = True
        log.info(RECORDER_READY)
        try:
            await recorder.run()
        finally:
            await recorder.stop()
            log.info("recorder stopped")


def main() -> None:
    """Record until told to stop."""
    run_daemon(RecorderSettings, _record)


if __name__ == "__main__":
    main()
