"""The supervisor of one host, where a machine stands for several: everything on that host is its child.

Run by the launcher as `python -m mangrove.agent.hosting.supervisor SETTINGS.json`. When it is killed, all its
children die with it, as when a machine loses power.
"""

from __future__ import annotations

import logging
from pathlib import Path

from mangrove.agent.hosting.settings import HOST_READY, HostSettings
from mangrove.agent.site import Site
from mangrove.host.daemon import run_daemon
from mangrove.host.run_directory import RunDirectory

log = logging.getLogger(__name__)


async def supervise(settings: HostSettings) -> None:
    """Run the host until cancelled, or until it finds that it must not go on."""
    site = Site(
        settings.federation,
        settings.endpoints,
        settings.domain,
        RunDirectory(Path(settings.directory)),
        host=settings.host,
        calls_through=settings.calls_through,
        record_stimuli=settings.record_stimuli,
        agents=settings.agents,
        system_user=settings.system_user,
        keys=settings.keys,
    )
    try:
        await site.start()
        log.info(HOST_READY)
        await site.until_refused()
    finally:
        await site.stop()


def main() -> None:
    """Run one host until it is told to stop."""
    run_daemon(HostSettings, supervise)


if __name__ == "__main__":
    main()
