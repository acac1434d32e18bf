"""What browsers ask beside the pages: the live documents by WebSocket, and questions of one answer."""

from __future__ import annotations

import asyncio
import math
from importlib.resources import files

import msgspec
from fastapi import FastAPI, Response, WebSocket, WebSocketDisconnect

from mangrove.agent.management import ManagementConnection
from mangrove.model.agents.directory import DirectoryQuestion, ServedTopic
from mangrove.model.subjects import subject_problem
from mangrove.monitor.view.wording import name_key
from mangrove.monitor.web.channels import Channel, Channels, TooManyWatchersError
from mangrove.monitor.web.rendering import PAGES, Renderer

MAX_SUBJECT = 200
MAX_GARBAGE = 100
"""Messages of a browser, which has nothing to say here, before it is let go."""
CROWDED = 1013
"""WebSocket code: try again later."""
DIRECTORY_ROWS = 200
JSON = "application/json"


class DirectoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """Where a topic is served."""

    topic: str
    domain: str
    published_in: tuple[str, ...]
    primary: str
    mirror: str
    subscribers: int
    decision: str


def add_data(app: FastAPI, channels: Channels, renderer: Renderer) -> None:
    """Put all of it on an application."""

    @app.websocket("/live")
    async def live(socket: WebSocket, page: str = "map", subject: str = "") -> None:
        await socket.accept()
        if page not in PAGES or len(subject) > MAX_SUBJECT:
            await socket.close(1008, "there is no such page")
            return
        try:
            async with channels.watching(page, subject) as channel:
                await _served(socket, channel)
        except TooManyWatchersError:
            await socket.close(CROWDED, "too many look at this monitor")

    @app.get("/data/world")
    async def world() -> Response:
        text = files("mangrove").joinpath("data", "world-110m.geojson").read_bytes()
        return Response(outline(text), media_type=JSON, headers={"Cache-Control": "public, max-age=86400"})

    @app.get("/data/topics")
    async def topics(search: str = "") -> Response:
        renderer.refresh()
        return Response(renderer.topics(search[:MAX_SUBJECT]), media_type=JSON)

    @app.get("/data/past")
    async def past(at: float) -> Response:
        renderer.refresh()
        return Response(renderer.past(at if math.isfinite(at) else 0.0), media_type=JSON)

    @app.get("/data/danger")
    async def danger(latitude: float, longitude: float, radius_km: float) -> Response:
        renderer.refresh()
        return Response(renderer.danger(latitude, longitude, radius_km), media_type=JSON)

    @app.get("/data/directory")
    async def directory(domain: str, topic: str = "") -> Response:
        rows = await _directory(renderer, domain, topic[:MAX_SUBJECT])
        return Response(msgspec.json.encode(rows), media_type=JSON)


async def _served(socket: WebSocket, channel: Channel) -> None:
    """Send documents until the browser goes; what it says is not listened to."""
    listening = asyncio.create_task(_heard_out(socket))
    try:
        number = 0
        while not listening.done():
            waiting = asyncio.create_task(channel.after(number))
            await asyncio.wait([waiting, listening], return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                waiting.cancel()
                break
            number = waiting.result()
            await socket.send_text(channel.text)
    except (WebSocketDisconnect, RuntimeError):
        pass  # it went while it was spoken to
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _heard_out(socket: WebSocket) -> None:
    for _ in range(MAX_GARBAGE):
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
    await socket.close(1008, "a watcher has nothing to say")


def outline(text: bytes) -> bytes:
    """Rings of longitudes and latitudes, to a hundredth of a degree, of all countries."""
    rings = []
    for feature in msgspec.json.decode(text)["features"]:
        geometry = feature["geometry"]
        polygons = (
            geometry["coordinates"] if geometry["type"] == "MultiPolygon" else [geometry["coordinates"]]
        )
        rings += [[[round(x, 2), round(y, 2)] for x, y in polygon[0]] for polygon in polygons]
    return msgspec.json.encode(rings)


async def _directory(renderer: Renderer, domain: str, topic: str) -> list[DirectoryRow] | None:
    runtime = renderer.snapshot.runtime
    endpoints = None if runtime is None else runtime.domains.get(domain)
    if endpoints is None or (topic and subject_problem(topic, wildcards=True)):
        return []
    async with ManagementConnection(endpoints) as management:
        answer = await management.directory(DirectoryQuestion(topic=topic, limit=DIRECTORY_ROWS))
    return None if answer is None else [_row(domain, each) for each in answer.topics]


def _row(domain: str, served: ServedTopic) -> DirectoryRow:
    record = served.record
    return DirectoryRow(
        topic=name_key(served.topic),
        domain=domain,
        published_in=tuple(each.source for each in served.published_by),
        primary=", ".join(record.edges) if record is not None else "",
        mirror=record.mirror if record is not None else "",
        subscribers=served.subscribers,
        decision=record.decision if record is not None else "",
    )
