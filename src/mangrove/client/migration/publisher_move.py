"""Moves what is published on one subject from one broker to another, in the order of publishing."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

from mangrove.broker.client_connection import BrokerAwayError, ClientConnection, RawMessage
from mangrove.client.migration.paused_wire import PausedWire, PublishingWire
from mangrove.model.subjects import MOVE_PREFIX

ENTER_S = 2.0
PAUSE_S = 1.0
BETWEEN_S = 0.002
FLUSH_S = 5.0

Route = Callable[[str, PublishingWire], None]
"""From now on what is published on a subject goes to this connection."""


async def move_within_domain(subject: str, old: ClientConnection, new: ClientConnection, route: Route) -> str:
    """Publish at NEW instead of OLD; why not, or an empty string.

    Messages wait while a marker goes behind the last one from OLD to NEW: whoever gets messages through NEW
    has then got, or has in front of him, what was published at OLD.
    """
    marker_subject = f"{MOVE_PREFIX}{secrets.token_hex(8)}"
    arrived = asyncio.Event()
    highest = 0

    def sink(messages: list[RawMessage], size_bytes: int) -> None:
        nonlocal highest
        for message in messages:
            if message.data.isdigit():
                highest = max(highest, int(message.data[:9]))
        arrived.set()

    listening = new.subscribe(marker_subject, sink)
    number = 0
    try:
        # Markers come through first of all: the pause does not wait for interest to travel.
        async with asyncio.timeout(ENTER_S):
            while not highest:
                number += 1
                await _mark(old, marker_subject, number, arrived)
    except (TimeoutError, BrokerAwayError) as error:
        new.unsubscribe(listening)
        return str(error) or "markers do not come through"
    paused = PausedWire(subject, new.max_payload, old)
    route(subject, paused)
    problem, to = "", new
    try:
        last = number = number + 1
        async with asyncio.timeout(PAUSE_S):
            while highest < last:
                await _mark(old, marker_subject, number, arrived)
                number += 1
    except (TimeoutError, BrokerAwayError) as error:
        problem, to = str(error) or "markers do not come through", old
    except BaseException:
        to = old
        raise
    finally:
        new.unsubscribe(listening)
        _resume(subject, paused, to, route)
    return problem


async def move_between_domains(
    subject: str, old: ClientConnection, new: ClientConnection, pause_s: float, route: Route
) -> str:
    """Publish at the head of another domain; what was sent before is given `pause_s` to arrive everywhere."""
    paused = PausedWire(subject, new.max_payload, old)
    route(subject, paused)
    problem, to = "", new
    try:
        await old.flush(FLUSH_S)
        await asyncio.sleep(pause_s)
        if not new.connected:
            problem, to = "the connection to the new broker broke", old
    except (TimeoutError, BrokerAwayError) as error:
        problem, to = str(error), old
    except BaseException:
        to = old
        raise
    finally:
        _resume(subject, paused, to, route)
    return problem


async def _mark(wire: ClientConnection, subject: str, number: int, arrived: asyncio.Event) -> None:
    arrived.clear()
    wire.publish(subject, str(number).encode())
    try:
        async with asyncio.timeout(BETWEEN_S):
            await arrived.wait()
    except TimeoutError:
        return


def _resume(subject: str, paused: PausedWire, wire: ClientConnection, route: Route) -> None:
    """What was kept goes first: nothing is published between these two lines."""
    paused.release(wire)
    route(subject, wire)
