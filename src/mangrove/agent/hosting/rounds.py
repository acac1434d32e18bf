"""Brokers are asked one after the other, and those that did not answer again, until all have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
APART_S = 1.0
"""From one to the next: who is sent away by one is back there before the next has its turn."""
AGAIN_S = 2.0


async def in_rounds(
    places: Sequence[T], ask: Callable[[T], Awaitable[int | None]]
) -> AsyncIterator[tuple[T, int]]:
    """What each has answered, in their order; None is no answer, and is asked for again.

    It ends when all have answered, so who stops waiting for that has to cancel it.
    """
    left = list(places)
    while left:
        silent = []
        for position, place in enumerate(left):
            answer = await ask(place)
            if answer is None:
                silent.append(place)
            else:
                yield place, answer
            if position < len(left) - 1:
                await asyncio.sleep(APART_S)
        left = silent
        if left:
            await asyncio.sleep(AGAIN_S)
