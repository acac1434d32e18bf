"""Answers questions on the domain's management broker for as long as the gateway lives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping

import nats
import nats.errors
from nats.aio.msg import Msg

log = logging.getLogger(__name__)

RETRY_S = 1.0

Answer = Callable[[bytes], bytes]


async def answer_questions(url: str, name: str, answers: Mapping[str, Answer]) -> None:
    """Answer requests on each subject, until cancelled. A broker that is away is tried again."""

    async def quiet(error: Exception) -> None:
        log.debug("management broker: %s", error)

    while True:
        try:
            connection = await nats.connect(
                url, name=name, max_reconnect_attempts=-1, error_cb=quiet, reconnect_time_wait=0.5
            )
        except (OSError, nats.errors.Error) as error:
            log.warning("management broker %s: %s; trying again", url, error)
            await asyncio.sleep(RETRY_S)
            continue
        try:
            for subject, answer in answers.items():
                await connection.subscribe(subject, cb=_responder(answer))
            await asyncio.Event().wait()
        finally:
            with contextlib.suppress(nats.errors.Error, OSError):
                await connection.close()


def _responder(answer: Answer) -> Callable[[Msg], Awaitable[None]]:
    async def respond(message: Msg) -> None:
        await message.respond(answer(message.data))

    return respond
