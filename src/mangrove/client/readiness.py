"""Waits until a subscription is known in every domain that can be reached, by asking the domain's gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import nats
import nats.errors
from nats.aio.client import Client

from mangrove.errors import MangroveError
from mangrove.model.interest_question import InterestAnswer, InterestRequest, Stamp
from mangrove.model.shared_names import gateway_interest_subject
from mangrove.model.subjects import READY_QUESTION, REPLY_PREFIX

POLL_S = 0.02
ANSWER_S = 1.0

Questioner = Callable[[str, float], Awaitable[object]]
"""Sends a request on a subject and waits so long for the answer."""


class Readiness:
    """Asks one gateway; connects to the management broker at the first question."""

    def __init__(self, domain: str, management_url: str) -> None:
        self._domain = domain
        self._url = management_url
        self._client: Client | None = None

    async def wait(self, subject: str, group: str, timeout: float, question: Questioner) -> None:
        """Until every reachable domain sends what it publishes; TimeoutError names those that do not.

        The `question` goes over the connection that has subscribed, behind its subscriptions: what the
        gateway says before it is answered may be about a subscription that has ended meanwhile.
        """
        stamp: Stamp | None = None
        answer: InterestAnswer | None = None
        try:
            async with asyncio.timeout(timeout):
                taken_in = False
                while True:
                    taken_in = taken_in or await self._taken_in(question)
                    if taken_in:
                        answer = await self._ask(InterestRequest(subject=subject, group=group, stamp=stamp))
                        if answer is not None and answer.ready:
                            return
                        stamp = stamp if answer is None else answer.stamp
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise TimeoutError(self._problem(subject, timeout, answer)) from None

    async def _taken_in(self, question: Questioner) -> bool:
        """Whether the gateway has taken in all subscriptions made so far; it may not be there yet."""
        try:
            await question(f"{REPLY_PREFIX}{self._domain}.{READY_QUESTION}", ANSWER_S)
        except (nats.errors.Error, OSError):
            return False
        return True

    def _problem(self, subject: str, timeout: float, answer: InterestAnswer | None) -> str:
        if answer is None:
            return f"the gateway of {self._domain} did not answer within {timeout:g} s"
        if answer.stamp is None:
            return f"the gateway of {self._domain} did not hear of {subject} within {timeout:g} s"
        return f"after {timeout:g} s {', '.join(answer.missing)} did not confirm to send {subject}"

    async def _ask(self, request: InterestRequest) -> InterestAnswer | None:
        try:
            if self._client is None:
                self._client = await nats.connect(self._url, name="mangrove-sdk", error_cb=_quiet)
            subject = gateway_interest_subject(self._domain)
            answer = await self._client.request(subject, msgspec.json.encode(request), timeout=ANSWER_S)
            return msgspec.json.decode(answer.data, type=InterestAnswer)
        except (nats.errors.Error, OSError):
            return None
        except msgspec.DecodeError as error:
            raise MangroveError(f"the gateway of {self._domain} answered nonsense: {error}") from None

    async def close(self) -> None:
        """Let go of the management broker."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


async def _quiet(_: Exception) -> None:
    """A broker that is away is waited for, as long as the caller allows."""
