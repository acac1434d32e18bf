"""What browsers get, and what those who send garbage get: documents made once, refusals, bounds."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from fastapi import FastAPI
from msgspec.structs import replace
from starlette.websockets import WebSocketDisconnect

from mangrove.model.endpoints import Runtime, fixed_endpoints
from mangrove.monitor.feed.snapshot import Presence, Snapshot, TopicRate
from mangrove.monitor.told_event import ToldEvent
from mangrove.monitor.web import channels as channels_module
from mangrove.monitor.web.channels import Channels, TooManyWatchersError
from mangrove.monitor.web.data import MAX_GARBAGE, add_data
from mangrove.monitor.web.guard import Guard, own_name, same_origin
from mangrove.monitor.web.plan_asking import ask_plans
from mangrove.monitor.web.rendering import PAGES, Renderer
from mangrove.overlay.events.happenings import LinkFailed
from mangrove.simulation.statuses import invented_federation, invented_status

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have the next major version of httpx
    from starlette.testclient import TestClient

FEDERATION = invented_federation(4, 5, 6)
A, B = FEDERATION.links[0].pair
HERE = {"host": "127.0.0.1:8080"}
FAILED = ToldEvent(
    id=f"{A}-1",
    at=50.0,
    cause=None,
    happening=LinkFailed(peer=B, reason="silence"),
    domain=A,
    by_agent=False,
)


class Invented:
    """A feed of statuses that were made up."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self._turned = asyncio.Event()

    def turn(self) -> None:
        version = self.snapshot.version + 1
        topic = FEDERATION.topics.contracts[0].match
        self.snapshot = Snapshot(
            version=version,
            at=100.0 + version,
            runtime=Runtime(
                federation=FEDERATION,
                domains={name: fixed_endpoints(domain) for name, domain in FEDERATION.domains.items()},
                pid=1,
            ),
            status=invented_status(FEDERATION, tick=version),
            presence={name: Presence(connected=True) for name in FEDERATION.domains},
            rates={A: {topic: TopicRate(sent=5.0, delivered=1.0)}},
        )
        self._turned.set()

    async def changed(self, seen: int, timeout_s: float | None = None) -> int:
        while self.snapshot.version <= seen:
            self._turned.clear()
            await self._turned.wait()
        return self.snapshot.version

    def events(
        self, since: float | None = None, until: float | None = None, last: int = 1_000
    ) -> Sequence[ToldEvent]:
        return (FAILED,)

    def story(self, event_id: str) -> Sequence[ToldEvent]:
        return (FAILED,)


@pytest.fixture
def feed() -> Invented:
    return Invented()


@pytest.fixture
def browser(feed: Invented) -> TestClient:
    app = FastAPI()
    renderer = Renderer(feed)
    add_data(app, Channels(feed, renderer), renderer)
    return TestClient(Guard(app), base_url="http://127.0.0.1:8080")


def test_before_the_federation_runs_pages_say_so(feed: Invented) -> None:
    feed.snapshot = Snapshot(version=1, problem="no federation runs on this machine")
    renderer = Renderer(feed)
    renderer.refresh()
    for page in PAGES:
        told = msgspec.json.decode(renderer.document(page, ""))
        assert (told["problem"], told["view"]) == ("no federation runs on this machine", None)


def test_every_page_has_a_document_with_its_headline(feed: Invented) -> None:
    feed.turn()
    renderer = Renderer(feed)
    renderer.refresh()
    for page in PAGES:
        told = msgspec.json.decode(renderer.document(page, ""))
        assert told["head"]["federation"] == "invented"
        assert told["head"]["links"] == [5, 5]
    row = next(
        row
        for row in msgspec.json.decode(renderer.topics(""))["rows"]
        if row["topic"] == FEDERATION.topics.contracts[0].match
    )
    assert (row["sent_s"], row["delivered_s"]) == (5.0, 1.0)


def test_a_coloured_link_leads_to_what_explains_it(feed: Invented) -> None:
    feed.turn()
    renderer = Renderer(feed)
    renderer.refresh()
    assert [line.id for line in renderer.story(f"link:{A}--{B}").lines if line.chosen] == [FAILED.id]
    assert renderer.story("link:x--y").problem


async def test_a_document_is_made_once_however_many_look(feed: Invented) -> None:
    feed.turn()
    renderer = Renderer(feed)
    found = Channels(feed, renderer)
    running = asyncio.create_task(found.run())
    try:
        async with found.watching("map", "") as first, found.watching("map", "") as second:
            assert first is second
            assert found.rendered == 1
            await asyncio.sleep(0.02)
            feed.turn()
            assert await asyncio.wait_for(first.after(1), 5) == 2
            assert found.rendered == 2
            assert msgspec.json.decode(first.text)["version"] == feed.snapshot.version
        assert not found.looked_at("map")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_watchers_are_bounded(feed: Invented, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels_module, "MAX_WATCHERS", 1)
    feed.turn()
    found = Channels(feed, Renderer(feed))
    async with found.watching("map", ""):
        with pytest.raises(TooManyWatchersError):
            async with found.watching("map", ""):
                pass
    assert (found.watchers, found.refused) == (0, 1)


def test_a_watcher_gets_the_present_document(feed: Invented, browser: TestClient) -> None:
    feed.turn()
    with browser.websocket_connect("/live?page=brokers", headers=HERE) as socket:
        assert len(socket.receive_json()["view"]["rows"]) == 16


def test_who_sends_garbage_is_let_go(feed: Invented, browser: TestClient) -> None:
    feed.turn()
    with browser.websocket_connect("/live", headers=HERE) as socket:
        socket.receive_json()
        for _ in range(MAX_GARBAGE):
            socket.send_text("\x00garbage{")
        with pytest.raises(WebSocketDisconnect):
            socket.receive_text()


@pytest.mark.parametrize("path", ["/live?page=secrets", "/live?page=topic&subject=" + "x" * 300])
def test_what_is_no_page_is_refused(feed: Invented, browser: TestClient, path: str) -> None:
    feed.turn()
    with browser.websocket_connect(path, headers=HERE) as socket, pytest.raises(WebSocketDisconnect):
        socket.receive_text()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/data/topics?search=%00<script>", 200),
        ("/data/topics?search=" + "x" * 9_000, 403),
        ("/data/past?at=nan", 200),
        ("/data/past?at=soon", 422),
        ("/data/danger?latitude=1e999&longitude=0&radius_km=-1", 200),
        ("/data/danger", 422),
        ("/data/directory?domain=..%2F..&topic=%00", 200),
        ("/data/nothing", 404),
    ],
)
def test_odd_questions_have_an_answer(feed: Invented, browser: TestClient, path: str, status: int) -> None:
    feed.turn()
    assert browser.get(path).status_code == status


def test_pages_of_others_may_not_ask(feed: Invented, browser: TestClient) -> None:
    feed.turn()
    assert browser.get("/data/topics", headers={"origin": "http://evil.example"}).status_code == 403
    assert browser.get("/data/topics", headers={"host": "evil.example"}).status_code == 403
    with (
        pytest.raises(WebSocketDisconnect),
        browser.websocket_connect("/live", headers=HERE | {"origin": "http://evil.example"}),
    ):
        pass


def test_browsers_are_told_to_load_nothing_from_elsewhere(feed: Invented, browser: TestClient) -> None:
    assert "default-src 'self'" in browser.get("/data/world").headers["content-security-policy"]


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1:8080", True),
        ("[::1]:80", True),
        ("localhost", True),
        ("evil.example", False),
        ("", False),
        ("[", False),
    ],
)
def test_own_names(host: str, own: bool) -> None:
    assert own_name(host) is own


def test_no_origin_is_no_browser() -> None:
    assert same_origin("", "127.0.0.1:1")
    assert not same_origin("null", "127.0.0.1:1")
    assert not same_origin("http://[", "127.0.0.1:1")


async def test_a_site_whose_key_cannot_be_used_is_one_that_does_not_tell_its_plans(tmp_path: Path) -> None:
    """The map says so of it; whoever opens the page of plans must not end the monitor by that."""
    feed = Invented()
    feed.turn()
    runtime = feed.snapshot.runtime
    assert runtime is not None
    keyless = {name: replace(each, keys=str(tmp_path / name)) for name, each in runtime.domains.items()}
    feed.snapshot = replace(feed.snapshot, runtime=replace(runtime, domains=keyless, agents=True))
    renderer = Renderer(feed)
    channels = Channels(feed, renderer)
    async with channels.watching("plans", "") as channel:
        asking = asyncio.create_task(ask_plans(channels, renderer))
        async with asyncio.timeout(20.0):
            shown = asyncio.create_task(channel.after(channel.number))
            await asyncio.wait([asking, shown], return_when=asyncio.FIRST_COMPLETED)
        assert not asking.done()
        asking.cancel()
    assert renderer.plans == dict.fromkeys(FEDERATION.domains)
