"""The live view in a real browser, beside a running federation: what pages show is so."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import nats
import pytest
import websockets
from playwright.async_api import BrowserContext, Page, async_playwright
from tests.kit.running import Running
from tests.kit.waiting import eventually

from mangrove.agent.inspection import inspect
from mangrove.agent.management import ManagementConnection
from mangrove.config import parse_federation
from mangrove.model.agents.status import AgentStatus
from mangrove.model.federation import Federation
from mangrove.model.plans.topology import topology_fingerprint
from mangrove.model.site_pair import link_name
from mangrove.model.status import FederationStatus, GatewayStatus
from mangrove.monitor.web.plan_asking import plans_of
from mangrove.testbed.local_federation import LocalFederation

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
]
PATIENCE_MS = 30_000
MARKUP = "<img/src=x/onerror=document.title=1>.>"
TRIANGLE = f"""
federation: triangle
domains:
  seattle: {{location: [47.61, -122.33], edges: 1}}
  denver:  {{location: [39.74, -104.99], edges: 1}}
  orlando:
    location: [28.54, -81.38]
    edges: 1
    hosts:
      h1: {{address: 127.0.0.1, brokers: [head]}}
      h2: {{address: 127.0.0.1, brokers: [edge1]}}
links:
  - {{between: [seattle, denver], delay_ms: 2}}
  - {{between: [denver, orlando], delay_ms: 2}}
  - {{between: [orlando, seattle], delay_ms: 4}}
topics:
  - {{match: "alert.>", deadline_ms: 5000, paths: 2}}
  - {{match: "{MARKUP}", deadline_ms: 100}}
plans: {{policy: propose}}
"""
LONG_NAMES = f"""
federation: long
domains:
  alone: {{edges: 0}}
topics:
  - {{match: "{"m" * 1_000}", deadline_ms: 100}}
"""
TABS = 100
GARBAGE_BY_HTTP = (
    b"\x00" * 5_000,
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
    b"POST /data/topics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\nabc",
    b"GET /assets/..%2f..%2fserver.py HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
)
GARBAGE_BY_SOCKET = (
    b"\x00\xff",
    "garbage",
    '42["event",{}]',
    '42["event",{"client_id":"x","id":5,"listener_id":"y","args":[]}]',
    '451-["x",{"_placeholder":true,"num":0}]',
    "x" * 100_000,
)
KILLED = "denver--seattle"
LAST_FAILURE = (
    "Math.max(...[...document.querySelectorAll('.tick.bad')].map(tick => parseFloat(tick.style.left)))"
)
"""Where on the slider it is, in percent."""
SLIDE = "(slider, percent) => { slider.value = 10 * percent; slider.dispatchEvent(new Event('input')); }"
MIDDLE = """path => {
  const middle = path.getPointAtLength(path.getTotalLength() / 2);
  const frame = path.ownerSVGElement.getBoundingClientRect();
  return [frame.left + middle.x, frame.top + middle.y];
}"""


class Watched:
    """A federation with traffic, a monitor beside it, and a browser."""

    def __init__(self, running: Running, directory: Path, address: str, browser: BrowserContext) -> None:
        self.running = running
        self.directory = directory
        self.address = address
        self.browser = browser
        self.asked: list[str] = []
        """Every address that any page asked for."""

    async def status(self) -> FederationStatus:
        return await inspect(self.running.launched.runtime())

    async def open(self, path: str, address: str = "") -> Page:
        page = await self.browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("websocket", lambda socket: self.asked.append(socket.url))
        await page.goto((address or self.address) + path)
        await page.wait_for_function("document.documentElement.dataset.version > 0")
        return page


@contextlib.asynccontextmanager
async def monitor(directory: Path, *options: str) -> AsyncIterator[str]:
    """A monitor process; its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mangrove.cli.main", "monitor", "--port", "0", "--json",
        "--run-dir", str(directory), *options,
        stdout=asyncio.subprocess.PIPE, env=os.environ,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        said = b""
        while not said.rstrip().endswith(b"}"):
            said += await asyncio.wait_for(process.stdout.readline(), PATIENCE_MS / 1000)
        yield json.loads(said)["address"]
    finally:
        process.terminate()
        assert await process.wait() == 130, "it ends when it is told to"


@contextlib.asynccontextmanager
async def traffic(running: Running) -> AsyncIterator[None]:
    """Alerts from Seattle to Orlando."""
    subscriber = await nats.connect(running.edge("orlando"))
    publisher = await nats.connect(running.head("seattle"))
    await subscriber.subscribe("alert.>")
    await subscriber.flush()
    await running.knows_interest("seattle", "orlando", 1)

    async def publish() -> None:
        while True:
            await publisher.publish("alert.flood", b"x" * 500)
            await asyncio.sleep(0.05)

    publishing = asyncio.create_task(publish())
    try:
        yield
    finally:
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
        await publisher.close()
        await subscriber.close()


@pytest.fixture(scope="module")
async def watched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    directory = tmp_path_factory.mktemp("state") / "triangle"
    federation = parse_federation(TRIANGLE, "triangle").require()
    async with contextlib.AsyncExitStack() as stack:
        launched = await stack.enter_async_context(LocalFederation(federation, directory, ephemeral=True))
        running = Running(launched)
        await running.links_up()
        await stack.enter_async_context(traffic(running))
        address = await stack.enter_async_context(monitor(directory))
        player = await stack.enter_async_context(async_playwright())
        browser = await player.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        stack.push_async_callback(browser.close)
        yield Watched(running, directory, address, await browser.new_context())


def gateway(status: FederationStatus, domain: str) -> GatewayStatus:
    found = next(each.gateway for each in status.domains if each.domain == domain)
    assert found is not None
    return found


async def grade_becomes(page: Page, grade: str) -> None:
    await page.wait_for_selector(f'[data-link="{KILLED}"][data-grade="{grade}"]', state="attached")


async def cell(page: Page, row: str, column: str) -> str:
    found = page.locator(f'tr[data-key="{row}"] td[data-label="{column}"]')
    await found.wait_for()
    return re.sub(r"\s+", " ", await found.inner_text()).strip()


async def test_the_map_shows_all_sites_and_links_as_they_are(watched: Watched) -> None:
    page = await watched.open("/")
    status = await watched.status()
    for domain in status.domains:
        await page.wait_for_selector(f'[data-site="{domain.domain}"][data-grade="good"]', state="attached")
    links = {
        link_name(domain.domain, link.peer)
        for domain in status.domains
        for link in gateway(status, domain.domain).links
    }
    await page.wait_for_selector(".link.good")
    shown = await page.locator("[data-link]").evaluate_all("all => all.map(each => each.dataset.link)")
    assert set(shown) == links
    assert "triangle" in await page.locator("#headline").inner_text()
    await page.locator('[data-topic="alert.>"]').click()
    paths = {path for way in gateway(status, "seattle").ways if way.topic == "alert.>" for path in way.paths}
    for path in paths:
        for hop in pairwise(path):
            await page.wait_for_selector(f'[data-hop="{"--".join(hop)}"]', state="attached")
    await page.close()


async def test_a_topic_has_its_contract_beside_what_is_so(watched: Watched) -> None:
    page = await watched.open("/topics")
    assert await cell(page, "alert.>", "deadline") == "5,000"

    async def same_paths() -> bool:
        ways = [way for way in gateway(await watched.status(), "seattle").ways if way.topic == "alert.>"]
        fewest = min((len(way.paths) for way in ways), default=0)
        return fewest > 0 and await cell(page, "alert.>", "paths") == f"{fewest} / 2"

    await eventually(same_paths, "the page should show the ways that the gateway has")

    async def counted() -> tuple[int, int]:
        status = await watched.status()
        sent, delivered = (
            gateway(status, "seattle").busiest_sent,
            gateway(status, "orlando").busiest_delivered,
        )
        return sent["alert.flood"], delivered["alert.flood"]

    before = await counted()

    async def caught_up() -> bool:
        shown = [int((await cell(page, "alert.>", name)).replace(",", "")) for name in ("sent", "delivered")]
        now = await counted()
        assert all(each <= most for each, most in zip(shown, now, strict=True)), "no message is invented"
        return all(each >= least for each, least in zip(shown, before, strict=True))

    await eventually(caught_up, "the page should count the messages that the gateways do")
    assert MARKUP in await page.locator("tbody").inner_text(), "a name is text, whatever it holds"
    assert await page.locator("tbody img").count() == 0
    assert "Mangrove" in await page.title()
    await page.locator('tr[data-key="alert.>"] a.strong').click()
    # A line of equal delays is flat: it has no height, and what has none counts as hidden.
    await page.wait_for_selector(".chart .observed", state="attached")
    observed = [each.observed_ms for each in gateway(await watched.status(), "orlando").arrivals]
    text = await page.locator('[data-figure="observed now"] b').inner_text()
    assert 0 < float(text.removesuffix(" ms").replace(",", "")) <= 50 * max(observed)
    assert "seattle → orlando" in await page.locator("#page").inner_text()
    await page.close()


async def test_brokers_are_those_that_run(watched: Watched) -> None:
    page = await watched.open("/brokers")
    status = await watched.status()
    for domain in status.domains:
        for broker in domain.brokers:
            assert await cell(page, broker.name, "role") == broker.role

    async def states_and_leaders() -> bool:
        for domain in (await watched.status()).domains:
            for broker in domain.brokers:
                if (await cell(page, broker.name, "state")).split()[-1:] not in (["low"], ["up"]):
                    return False
            if domain.agent is None or domain.agent.leader not in await cell(page, domain.domain, "leader"):
                return False
        return True

    await eventually(states_and_leaders, "all brokers should be shown to be well, and who leads where")
    await page.close()


async def test_plans_are_told_for_each_domain(watched: Watched) -> None:
    page = await watched.open("/plans")
    for domain in ("seattle", "denver", "orlando"):
        panel = page.locator(f'[data-domain="{domain}"]')
        await panel.wait_for()
        assert "no plan is in force" in await panel.inner_text()
    await page.close()


async def test_a_disaster_is_judged_by_dragging_a_circle(watched: Watched) -> None:
    page = await watched.open("/")
    await page.locator("#what-if").click()
    await page.wait_for_selector('[data-site="denver"] .dot')
    dot = await page.locator('[data-site="denver"] .dot').bounding_box()
    assert dot is not None
    await page.mouse.move(dot["x"] + 4, dot["y"] + 4)
    await page.mouse.down()
    await page.mouse.move(dot["x"] + 40, dot["y"] + 4, steps=3)
    await page.mouse.up()
    card = page.locator(".card.danger")
    await card.wait_for()
    assert "Inside: denver" in await card.inner_text()
    await page.close()


async def test_a_killed_link_is_seen_explained_and_undone_by_the_slider(watched: Watched) -> None:
    page = await watched.open("/")
    await grade_becomes(page, "good")
    await watched.running.launched.reshape("seattle", "denver", black_hole=True)
    await grade_becomes(page, "bad")
    await page.wait_for_function(f"{LAST_FAILURE} > 0")
    moment = await page.evaluate(LAST_FAILURE)
    await page.locator("#slider").evaluate(SLIDE, moment - 5)
    await page.wait_for_selector(".map-frame.past")
    await grade_becomes(page, "good")
    await page.locator("#moment").click()
    await grade_becomes(page, "bad")
    x, y = await page.locator(f'[data-link="{KILLED}"] .hit').evaluate(MIDDLE)
    await page.mouse.click(x, y)
    await page.wait_for_url("**/story?about=link**")
    await page.locator(".event.chosen", has_text="failed").first.wait_for()
    await watched.running.launched.reshape("seattle", "denver", black_hole=False)
    await watched.running.links_up()
    await page.close()


async def test_who_may_only_look_sees_no_action(watched: Watched) -> None:
    page = await watched.open("/")
    assert await page.locator('a[href="/act"]').count() == 0
    answer = await page.request.get(watched.address + "/act")
    assert answer.status == 404
    await page.close()


async def choose(page: Page, name: str, option: str) -> None:
    """Open a list, and take what it has of that name."""
    await page.bring_to_front()  # a browser does not open lists of pages that nobody sees
    await page.locator(f"#choose-{name}").click()
    await page.locator(".q-menu .q-item", has_text=option).click()


async def act(page: Page, name: str) -> str:
    """Ask for an action, and confirm it; what was asked before."""
    await page.locator(f"#act-{name}").click()
    question = page.locator(".question").last
    await question.wait_for()
    text = await question.inner_text()
    await page.locator("#act-yes").last.click()
    await question.wait_for(state="detached")
    return text


async def agent(watched: Watched, domain: str) -> AgentStatus:
    found = next(each.agent for each in (await watched.status()).domains if each.domain == domain)
    assert found is not None
    return found


async def test_an_operator_acts_after_confirming_and_it_is_written_down(watched: Watched) -> None:
    runtime = watched.running.launched.runtime()
    async with (
        monitor(watched.directory, "--allow-actions") as address,
        ManagementConnection(runtime.domains["seattle"]) as management,
    ):
        page = await watched.open("/act", address)
        assert await act(page, "pause") == "Pause automatic decisions in seattle?"

        async def paused() -> bool:
            return (await agent(watched, "seattle")).paused is not None

        await eventually(paused, "the agents of a domain should be paused")
        await page.locator("#act-resume").click()
        await page.get_by_role("button", name="Cancel").click()
        await act(page, "resume")

        async def resumed() -> bool:
            return not await paused()

        await eventually(resumed, "the agents should decide again")

        await management.offer("better.json", plan_for(runtime.federation, "seattle"))

        async def proposed() -> bool:
            told = await plans_of(management)
            return told is not None and [each.name for each in told.proposed] == ["better.json"]

        await eventually(proposed, "the plan should be proposed")
        plans = await watched.open("/plans", address)
        await plans.locator('[data-domain="seattle"]', has_text="better.json").wait_for()
        await choose(page, "plan", "better.json")
        assert "Put better.json in force in seattle?" in await act(page, "apply")

        async def in_force() -> bool:
            return (await agent(watched, "seattle")).policy > 0

        await eventually(in_force, "the plan should be in force")
        await plans.locator('[data-domain="seattle"]', has_text="in force").wait_for()
        await plans.close()

        before = await agent(watched, "orlando")
        other = next(each.host for each in before.members if each.agent != before.leader)
        await choose(page, "lead-to", other)
        assert other in await act(page, "hand-over")

        async def handed_over() -> bool:
            return (await agent(watched, "orlando")).leader not in ("", before.leader)

        await eventually(handed_over, "the other agent should lead", timeout_s=20)
        brokers = await watched.open("/brokers", address)
        leader = (await agent(watched, "orlando")).leader
        await brokers.locator('tr[data-key="orlando"]', has_text=leader).wait_for()
        await brokers.close()
        await page.close()
    run = watched.running.launched.run
    lines = run.audit_of("operator").read_text().splitlines()
    told = [msgspec.json.decode(line)["facts"] for line in lines]
    operations = [each["operation"] for each in told if each.get("where") == "monitor"]
    assert operations == ["pause", "resume", "apply plan", "hand over"]


def plan_for(federation: Federation, domain: str) -> bytes:
    """A plan that an allocation might have found."""
    edge = f"{domain}-edge1"
    return msgspec.json.encode(
        {
            "allocation": {edge: ["alert.flood"]},
            "risk": {edge: 0.01},
            "joint_ok": 0.99,
            "federation": federation.name,
            "domain": domain,
            "topology": topology_fingerprint(federation, domain),
            "made_at": time.time(),
            "data_until": time.time(),
        }
    )


async def test_a_hundred_tabs_are_served_and_garbage_harms_nobody(watched: Watched) -> None:
    port = urlsplit(watched.address).port
    assert port is not None
    live = f"ws://127.0.0.1:{port}/live?page=map"
    page = await watched.open("/")
    async with contextlib.AsyncExitStack() as stack:
        tabs = [
            await stack.enter_async_context(websockets.connect(live, max_size=None, compression=None))
            for _ in range(TABS)
        ]
        first = await asyncio.gather(*(tab.recv() for tab in tabs))
        for garbage in GARBAGE_BY_HTTP:
            assert b" 200 " not in (await said(port, garbage)).partition(b"\r\n")[0]
        for message in GARBAGE_BY_SOCKET:
            for address in (live, f"ws://127.0.0.1:{port}/_nicegui_ws/socket.io/?EIO=4&transport=websocket"):
                await send_garbage(address, message)
        after = await asyncio.gather(*(newer(tab, first[0]) for tab in tabs))
        assert len(after) == TABS
        version = await page.evaluate("Number(document.documentElement.dataset.version)")
        await page.wait_for_function(f"document.documentElement.dataset.version > {version}")
    answer = await page.request.get(watched.address + "/healthz")
    assert answer.ok
    await page.close()


async def newer(tab: websockets.ClientConnection, seen: str | bytes) -> int:
    """The first version after one that was seen."""
    before = msgspec.json.decode(seen)["version"]
    while True:
        version: int = msgspec.json.decode(await tab.recv())["version"]
        if version > before:
            return version


async def said(port: int, request: bytes) -> bytes:
    """What a monitor answers to some bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(OSError):
        writer.write(request)
        await writer.drain()
    try:
        return await asyncio.wait_for(reader.read(500), 10)
    except OSError:
        return b""
    finally:
        writer.close()


async def send_garbage(address: str, message: str | bytes) -> None:
    with contextlib.suppress(websockets.WebSocketException, OSError):
        async with websockets.connect(address, max_size=None) as socket:
            await socket.recv()
            for _ in range(5):
                await socket.send(message)


async def test_a_monitor_is_there_before_its_federation_and_after(watched: Watched, tmp_path: Path) -> None:
    federation = parse_federation(LONG_NAMES, "long").require()
    async with monitor(tmp_path / "long") as address:
        page = await watched.browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        await page.goto(address)
        await page.locator("#banner", has_text="no federation runs").wait_for()
        async with LocalFederation(federation, tmp_path / "long", ephemeral=True):
            await page.locator('[data-site="alone"][data-grade="good"]').wait_for(state="attached")
            await page.locator("#banner").wait_for(state="detached")
            assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        await page.locator("#banner", has_text="no federation runs").wait_for()
        await page.close()


async def test_a_topic_name_of_a_megabyte_is_a_line_of_text(watched: Watched) -> None:
    page = await watched.open("/topic?name=" + "x" * 3_000)
    await page.locator("#page", has_text="There is no topic of that name").wait_for()
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    answer = await page.request.get(
        f"{watched.address}/topic?name={'y' * (1 << 20)}", fail_on_status_code=False
    )
    assert answer.status in (400, 403, 414)
    await page.close()


async def test_pages_fit_a_phone(watched: Watched) -> None:
    page = await watched.open("/")
    await page.set_viewport_size({"width": 390, "height": 844})
    for path in ("/", "/topics", "/brokers", "/story"):
        await page.goto(watched.address + path)
        await page.wait_for_function("document.documentElement.dataset.version > 0")
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
    await page.close()


async def test_no_request_leaves_the_machine(watched: Watched) -> None:
    assert len(watched.asked) > 50
    hosts = {urlsplit(each).hostname for each in watched.asked if not each.startswith(("data:", "blob:"))}
    assert hosts == {"127.0.0.1"}
