"""`mangrove metrics`: what a federation counts, for Prometheus."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.keys.location import KeysOption
from mangrove.cli.monitoring.watched_source import FileOption, watched_source
from mangrove.cli.optional import require_library
from mangrove.cli.output import JsonOption, print_json, stderr_console
from mangrove.cli.running import run_async

if TYPE_CHECKING:
    from mangrove.model.metrics.families import Families
    from mangrove.monitor.feed.source import Source

PORT = 9464
HEARD_S = 5.0
"""So long all domains have to be heard from when metrics are printed once."""


def metrics(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0: any.")] = PORT,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    topics: Annotated[int, typer.Option(min=0, max=1000, help="Topics told apart in each domain.")] = 50,
    file: FileOption = None,
    keys: KeysOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Serve /metrics, /healthz and /readyz until interrupted; with --json, print the metrics once."""
    require_library("prometheus_client")
    source = watched_source(file, keys, federation, run_dir)
    if as_json:
        source.find()  # nobody waits for what does not run
        print_json(_plain(run_async(_once(source, topics))))
    else:
        run_async(_serve(host, port, topics, source))


async def _serve(host: str, port: int, topics: int, source: Source) -> None:
    from mangrove.host.web.health import health_pages
    from mangrove.host.web.page_server import PageServer
    from mangrove.model.address import Address
    from mangrove.monitor.feed.live_feed import LiveFeed
    from mangrove.monitor.metrics.federation_metrics import FederationMetrics

    async with LiveFeed(source) as feed:
        collected = FederationMetrics(feed, max_topics=topics)
        server = PageServer(Address(host, port), health_pages(collected.readiness, collected.counted))
        await server.start()
        try:
            stderr_console().print(f"metrics at http://{Address(host, server.port)}/metrics")
            await asyncio.Event().wait()
        finally:
            await server.close()


async def _once(source: Source, topics: int) -> Families:
    from mangrove.monitor.feed.live_feed import LiveFeed
    from mangrove.monitor.metrics.federation_metrics import FederationMetrics

    async with LiveFeed(source) as feed:
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
