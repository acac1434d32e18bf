"""The monitor as a server on this machine: one feed, one set of documents, as many browsers as come."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from importlib.resources import as_file, files

import uvicorn
from fastapi import FastAPI
from nicegui import ui
from starlette.staticfiles import StaticFiles

from mangrove.errors import InputError
from mangrove.monitor.metrics.routes import add_metrics
from mangrove.monitor.web.actions import Actions
from mangrove.monitor.web.channels import Channels
from mangrove.monitor.web.data import add_data
from mangrove.monitor.web.feed_seam import Feed
from mangrove.monitor.web.guard import Guard
from mangrove.monitor.web.noise import keep_down
from mangrove.monitor.web.pages import ASSETS, FAVICON, add_pages
from mangrove.monitor.web.plan_asking import ask_plans
from mangrove.monitor.web.rendering import Renderer

MAX_CONNECTIONS = 1_000
MAX_SOCKET_BYTES = 64 << 10
"""Of one message of a browser: NiceGUI's events are small."""
ENDS_WITHIN_S = 1


class Server(uvicorn.Server):
    """One that ends when its task does: signals are for who started it."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        """Leave them alone."""
        yield


async def serve(
    feed: Feed,
    *,
    host: str,
    port: int,
    actions: Actions | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve pages until cancelled; `ready` is told the address. Port 0 takes any that is free."""
    listening = _listen(host, port)
    keep_down()
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}"
    renderer = Renderer(feed)
    channels = Channels(feed, renderer)
    with as_file(files("mangrove.monitor.web").joinpath("assets")) as assets:
        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        app.mount(ASSETS, StaticFiles(directory=assets), name="assets")
        add_data(app, channels, renderer)
        add_metrics(app, feed)
        add_pages(renderer, actions)
        ui.run_with(
            app,
            title="Mangrove",
            favicon=FAVICON,
            dark=None,
            tailwind=False,
            binding_refresh_interval=None,
            show_welcome_message=False,
        )
        server = Server(
            uvicorn.Config(
                Guard(app),
                log_level=logging.WARNING,
                access_log=False,
                ws_max_size=MAX_SOCKET_BYTES,
                ws_per_message_deflate=False,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_graceful_shutdown=ENDS_WITHIN_S,
                lifespan="on",
            ),
            lambda: ready(address),
        )
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server.serve([listening]))
            work = [
                tasks.create_task(channels.run()),
                tasks.create_task(ask_plans(channels, renderer)),
            ]
            try:
                await asyncio.shield(serving)
            finally:
                server.should_exit = True
                for task in work:
                    task.cancel()
                await asyncio.shield(serving)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(
            f"the monitor cannot listen at {host}:{port}: {error}", hint="choose another with --port"
        ) from None
    return listening
