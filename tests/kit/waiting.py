"""Waiting for what must become true, without fixed pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def eventually(condition: Callable[[], Awaitable[bool]], what: str, timeout_s: float = 20.0) -> None:
    """Ask again and again until the condition holds; fail with `what` if it never does."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while not await condition():
        if loop.time() > deadline:
            raise AssertionError(f"{what}, but that did not happen within {timeout_s:g} s")
        await asyncio.sleep(0.05)
