"""The same pages on the live view's own server: who opens it need not run a second process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Response

from mangrove.host.web.health import health_pages
from mangrove.host.web.page_server import Maker
from mangrove.monitor.metrics.federation_metrics import FederationMetrics, Watched


def add_metrics(app: FastAPI, feed: Watched) -> None:
    """Add `/metrics`, `/healthz` and `/readyz`, of the feed that pages show."""
    collected = FederationMetrics(feed)
    for path, maker in health_pages(collected.readiness, collected.counted).items():
        app.add_api_route(path, _answering(maker), methods=["GET"], include_in_schema=False)


def _answering(maker: Maker) -> Callable[[], Awaitable[Response]]:
    async def answer() -> Response:
        page = await maker()
        return Response(page.body, status_code=page.status, media_type=page.kind)

    return answer
