"""`python -m mangrove.cli.monitoring.pictures DIR`: pictures of the live view for the documentation.

Five cities of real brokers with traffic, of which a link is cut before pictures are taken: they show what a
reader of the pages would see, and are made anew by `make docs`.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.cli.monitoring.monitor import READY
from mangrove.cli.output import stderr_console
from mangrove.cli.running import run_async

if TYPE_CHECKING:
    from playwright.async_api import Browser

    from mangrove.testbed.local_federation import LocalFederation

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
]
CUT = ("denver", "seattle")
TOPIC = "alert.%3E"
WIDE, NARROW = (1280, 800), (390, 844)
SCENES = (
    ("monitor-map", f"/?topic={TOPIC}", WIDE, "light"),
    ("monitor-map-dark", "/", WIDE, "dark"),
    ("monitor-map-phone", f"/?topic={TOPIC}", NARROW, "light"),
    ("monitor-topics", "/topics", WIDE, "light"),
    ("monitor-topic", f"/topic?name={TOPIC}", WIDE, "light"),
    ("monitor-brokers", "/brokers", WIDE, "light"),
    ("monitor-story", f"/story?about=link:{'--'.join(CUT)}", WIDE, "light"),
    ("monitor-plans", "/plans", WIDE, "light"),
    ("monitor-topics-phone", "/topics", NARROW, "dark"),
)
"""Name, address, size and theme of each."""
HISTORY_S = 25.0
"""How long messages flow before, and after a link is cut."""
SETTLE_MS = 2_500
PATIENCE_MS = 60_000.0


def main(directory: Path) -> None:
    """Take all pictures."""
    from mangrove.cli.optional import require_library

    for library in ("nicegui", "playwright"):
        require_library(library)
    run_async(_taken(directory))


async def _taken(directory: Path) -> None:
    from mangrove.cli.demonstration.demo import DEMOS
    from mangrove.config import parse_federation
    from mangrove.host.process import ManagedProcess
    from mangrove.host.run_directory import RunDirectory
    from mangrove.testbed.local_federation import LocalFederation

    name = DEMOS["five-cities"]
    federation = parse_federation((resources.files("mangrove.testbed") / name).read_text(), name).require()
    with tempfile.TemporaryDirectory(prefix="mangrove-pictures-") as place:
        state = Path(place)
        monitor = ManagedProcess(
            "monitor",
            [sys.executable, "-m", "mangrove.cli.main", "monitor", "--port", "0", "--run-dir", place],
            log_path=RunDirectory(state).log("monitor"),
            ready_text=READY,
        )
        await monitor.start()  # it waits for the federation
        address = re.findall(rf"{READY} (http://\S+)", monitor.log_path.read_text())[-1]
        try:
            async with LocalFederation(federation, state, ephemeral=True) as launched:
                await _with_traffic(launched, address, directory)
        finally:
            await monitor.stop()


async def _with_traffic(launched: LocalFederation, address: str, directory: Path) -> None:
    from playwright.async_api import async_playwright

    from mangrove.cli.demonstration.demo import streams_of_five_cities
    from mangrove.testbed.traffic import Traffic

    traffic = Traffic(streams_of_five_cities(), launched.run.path)
    await traffic.open()
    flowing = asyncio.create_task(traffic.run(3_600))
    try:
        async with async_playwright() as player:
            browser = await player.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            await asyncio.sleep(HISTORY_S)
            await launched.reshape(*CUT, black_hole=True)
            await asyncio.sleep(HISTORY_S / 2)
            for scene in SCENES:
                await _scene(browser, address, directory, *scene)
            await browser.close()
    finally:
        flowing.cancel()
        await asyncio.gather(flowing, return_exceptions=True)
        await traffic.close()


async def _scene(
    browser: Browser, address: str, directory: Path, name: str, path: str, size: tuple[int, int], theme: str
) -> None:
    page = await browser.new_page(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
    )
    page.set_default_timeout(PATIENCE_MS)
    await page.goto(address + path)
    await page.wait_for_function("document.documentElement.dataset.version > 0")
    await page.wait_for_timeout(SETTLE_MS)
    await page.screenshot(path=directory / f"{name}.png")
    await page.close()
    stderr_console().print(f"  {directory / name}.png", highlight=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
