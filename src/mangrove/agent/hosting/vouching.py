"""Asks the gateways of a domain which attachments to its brokers are theirs, by the key that is believed."""

from __future__ import annotations

import asyncio
import contextlib
import secrets

import msgspec
import nats.errors
from nats.aio.subscription import Subscription

from mangrove.host.keys.login import LoginSource
from mangrove.host.nats_connecting import close_in_time, connect_or_close
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.questions.vouching import (
    MAX_PLACES,
    AttachedPlace,
    AttachmentsAnswer,
    AttachmentsQuestion,
    gateway_attachments_subject,
    vouched_text,
)
from mangrove.model.unreadable import UNREADABLE

ANSWER_S = 0.5
TRIES = 6
"""A gateway may itself be coming back to the management broker with its new key."""
MAX_ANSWERS = 16
_answer = msgspec.json.Decoder(AttachmentsAnswer)


async def vouched_places(
    endpoints: DomainEndpoints, login: LoginSource, gateway_nkey: str
) -> frozenset[AttachedPlace]:
    """All that somebody vouches for who has this key; asked until somebody does, or a few times in vain."""
    urls = [broker.client_url for broker in endpoints.managements]
    found: set[AttachedPlace] = set()
    for _ in range(TRIES):
        try:
            async with asyncio.timeout(2 * ANSWER_S):
                connection = await connect_or_close(
                    urls, login=login, name="supervisor", allow_reconnect=False, error_cb=_quiet
                )
        except (OSError, nats.errors.Error, TimeoutError):
            await asyncio.sleep(ANSWER_S)
            continue
        try:
            nonce = secrets.token_hex(16)
            inbox = connection.new_inbox()
            answers = await connection.subscribe(inbox, pending_msgs_limit=MAX_ANSWERS)
            question = msgspec.json.encode(AttachmentsQuestion(nonce=nonce))
            await connection.publish(gateway_attachments_subject(endpoints.domain), question, reply=inbox)
            with contextlib.suppress(TimeoutError, nats.errors.Error):
                async with asyncio.timeout(ANSWER_S):
                    while True:  # gateways that stand by for another answer too
                        found |= proven(await _decoded(answers), nonce, gateway_nkey)
        except (OSError, nats.errors.Error):
            pass
        finally:
            await close_in_time(connection)
        if found:
            break
    return frozenset(found)


async def _decoded(answers: Subscription) -> AttachmentsAnswer:
    message = await answers.next_msg(ANSWER_S)
    try:
        return _answer.decode(message.data)
    except UNREADABLE:
        return AttachmentsAnswer()


def proven(answer: AttachmentsAnswer, nonce: str, nkey: str) -> set[AttachedPlace]:
    """What an answer vouches for: nothing, unless who has this key has signed it for this question."""
    from mangrove.host.keys.nkey import is_signed

    places = answer.places[:MAX_PLACES]
    return set(places) if is_signed(nkey, vouched_text(nonce, places), answer.signature) else set()


async def _quiet(_: Exception) -> None:
    """Who cannot be asked vouches for nothing."""
