"""How a running emulator is asked to change something: one request and one answer a line, in JSON."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from mangrove.errors import InputError
from mangrove.model.address import Address

log = logging.getLogger(__name__)


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the emulator says to a request."""

    ok: bool = False
    error: str = ""


async def answer_requests(
    answer: Callable[[bytes], Answer], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer what comes over one connection, until it ends."""
    try:
        while line := await reader.readline():
            writer.write(msgspec.json.encode(answer(line)) + b"\n")
            await writer.drain()
    except (ConnectionError, ValueError) as error:
        log.info("control connection: %s", error)
    finally:
        writer.close()


async def send_request(control: Address, request: msgspec.Struct) -> None:
    """Ask a running emulator; InputError with its words if it does not do it."""
    reader, writer = await asyncio.open_connection(*control)
    try:
        writer.write(msgspec.json.encode(request) + b"\n")
        answer = msgspec.json.decode(await reader.readline(), type=Answer)
    finally:
        writer.close()
    if not answer.ok:
        raise InputError(answer.error)
