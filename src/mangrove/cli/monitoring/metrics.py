"""`mangrove metrics`: what a federation counts, for Prometheus."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.optional import require_library
from mangrove.cli.output import JsonOption, print_json, stderr_console
from mangrove.cli.running import run_async

if TYPE_CHECKING:
    from mangrove.model.metrics.families import Families

PORT = 9464
HEARD_S = 5.0
"""So long all domains have to be heard from when metrics are printed once."""


def metrics(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0: any.")] = PORT,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    topics: Annotated[int, typer.Option(min=0, max=1000, help="Topics told apart in each domain.")] = 50,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Serve /metrics, /healthz and /readyz until interrupted; with --json, print the metrics once."""
    require_library("prometheus_client")
    if as_json:
        from mangrove.host.runtime_file import find_running_directory

        find_running_directory(federation, run_dir)  # nobody waits for what does not run
        print_json(_plain(run_async(_once(federation, run_dir, topics))))
    else:
        run_async(_serve(host, port, topics, federation, run_dir))


async def _serve(host: str, port: int, topics: int, name: str | None, run_dir: Path | None) -> None:
    from mangrove.host.web.health import health_pages
    from mangrove.host.web.page_server import PageServer
    from mangrove.model.address import Address
    from mangrove.monitor.feed.live_feed import LiveFeed
    from mangrove.monitor.feed.source import OnThisMachine
    from mangrove.monitor.metrics.federation_metrics import FederationMetrics

    async with LiveFeed(OnThisMachine(name, run_dir)) as feed:
        collected = FederationMetrics(feed, max_topics=topics)
        server = PageServer(Address(host, port), health_pages(collected.readiness, collected.counted))
        await server.start()
        try:
            stderr_console().print(f"metrics at http://{Address(host, server.port)}/metrics")
            await asyncio.Event().wait()
        finally:
            await server.close()


async def _once(name: str | None, run_dir: Path | None, topics: int) -> Families:
    from mangrove.monitor.feed.live_feed import LiveFeed
    from mangrove.monitor.feed.source import OnThisMachine
    from mangrove.monitor.metrics.federation_metrics import FederationMetrics

    async with LiveFeed(OnThisMachine(name, run_dir)) as feed:
        collected = FederationMetrics(feed, max_topics=topics)
        deadline = asyncio.get_running_loop().time() + HEARD_S
        while not collected.readiness().ready:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            await feed.changed(feed.version, timeout_s=left)
        return collected.families()


def _plain(families: Families) -> dict[str, object]:
    return {
        metric.name: {
            "kind": metric.kind,
            "help": metric.meaning,
            "samples": [
                {**dict(zip(metric.labels, sample.labels, strict=True)), "value": sample.value}
                for sample in samples
            ],
        }
        for metric, samples in families
    }
