"""Who looks at what: each page has one document for all its watchers, and each watcher at most one to come.

A browser that is slow misses versions; nobody waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from mangrove.monitor.web.feed_seam import Feed
from mangrove.monitor.web.rendering import Renderer

MAX_WATCHERS = 200
MAX_SUBJECTS = 64
"""Different things on pages that are looked at, such as topics."""
MIN_PAUSE_S = 0.3
REST = 4.0
"""So many times as long as it worked the monitor rests, and takes a fifth of a core at most."""
STILL_S = 10.0
"""If nothing changes for so long, watchers hear that all the same."""

Subject = tuple[str, str]


class TooManyWatchersError(Exception):
    """Nobody else can be served."""


class Channel:
    """One page, or one thing on it."""

    def __init__(self) -> None:
        self.watchers = 0
        self.text = ""
        self.number = 0
        self._turned = asyncio.Event()

    def show(self, text: str) -> None:
        """There is a new document."""
        self.text = text
        self.number += 1
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()

    async def after(self, seen: int) -> int:
        """Wait for a document after the one of number `seen`; returns its number."""
        while self.number <= seen:
            await self._turned.wait()
        return self.number


class Channels:
    """All that is looked at. `run` makes the documents."""

    def __init__(self, feed: Feed, renderer: Renderer) -> None:
        self._feed = feed
        self._renderer = renderer
        self._channels: dict[Subject, Channel] = {}
        self.watchers = 0
        self.refused = 0
        self.rendered = 0

    @contextlib.asynccontextmanager
    async def watching(self, page: str, subject: str) -> AsyncIterator[Channel]:
        """Look at something for as long as the block lasts."""
        key = (page, subject)
        crowded = key not in self._channels and len(self._channels) >= MAX_SUBJECTS
        if self.watchers >= MAX_WATCHERS or crowded:
            self.refused += 1
            raise TooManyWatchersError
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = Channel()
        channel.watchers += 1
        self.watchers += 1
        if not channel.number:
            self._renderer.refresh()
            channel.show(self._made(key))
        try:
            yield channel
        finally:
            channel.watchers -= 1
            self.watchers -= 1
            if not channel.watchers:
                del self._channels[key]

    def looked_at(self, page: str) -> bool:
        """Whether anybody looks at a page."""
        return any(name == page for name, _ in self._channels)

    def show_again(self, page: str) -> None:
        """Something else than the federation's version has changed on a page."""
        for key, channel in list(self._channels.items()):
            if key[0] == page:
                channel.show(self._made(key))

    async def run(self) -> None:
        """Make new documents of what is looked at whenever the federation has changed."""
        seen = self._feed.snapshot.version
        while True:
            seen = await self._feed.changed(seen, STILL_S)
            began_s = time.perf_counter()
            self._renderer.refresh()
            for key, channel in list(self._channels.items()):
                channel.show(self._made(key))
                await asyncio.sleep(0)  # others on the loop, such as the feed, have their turn
            worked_s = time.perf_counter() - began_s
            await asyncio.sleep(max(MIN_PAUSE_S, REST * worked_s))

    def _made(self, key: Subject) -> str:
        self.rendered += 1
        return self._renderer.document(*key).decode()
