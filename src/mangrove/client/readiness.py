"""Waits until a subscription is known in every domain that can be reached, by asking the domain's gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mangrove.broker.client_connection import BrokerAwayError, NoResponderError
from mangrove.client.gateway_questions import ANSWER_S, GatewayQuestions
from mangrove.model.questions.interest_question import InterestAnswer, InterestRequest, Stamp
from mangrove.model.shared_names import gateway_interest_subject
from mangrove.model.subjects import READY_QUESTION, REPLY_PREFIX

POLL_S = 0.02

Questioner = Callable[[str, float], Awaitable[object]]
"""Sends a request on a subject and waits so long for the answer."""


class Readiness:
    """Asks one gateway until it says that everybody knows."""

    def __init__(self, questions: GatewayQuestions) -> None:
        self._questions = questions
        self._domain = questions.domain

    async def wait(
        self,
        subject: str,
        group: str,
        timeout: float,
        question: Questioner,
        moved: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Until every reachable domain sends what it publishes; TimeoutError names those that do not.

        False as soon as the subscription has `moved` to where somebody else is to be asked.
        The `question` goes over the connection that has subscribed, behind its subscriptions: what the
        gateway says before it is answered may be about a subscription that has ended meanwhile.
        """
        stamp: Stamp | None = None
        answer: InterestAnswer | None = None
        try:
            async with asyncio.timeout(timeout):
                taken_in = False
                where = gateway_interest_subject(self._domain, self._questions.user)
                while not moved():
                    taken_in = taken_in or await self._taken_in(question)
                    if taken_in:
                        asked = InterestRequest(subject=subject, group=group, stamp=stamp)
                        answer = await self._questions.ask(where, asked, InterestAnswer)
                        if answer is not None and answer.ready:
                            return True
                        stamp = stamp if answer is None else answer.stamp
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise TimeoutError(self._problem(subject, timeout, answer)) from None
        return False

    async def _taken_in(self, question: Questioner) -> bool:
        """Whether the gateway has taken in all subscriptions made so far; it may not be there yet."""
        try:
            await question(f"{REPLY_PREFIX}{self._domain}.{READY_QUESTION}", ANSWER_S)
        except (BrokerAwayError, NoResponderError, TimeoutError):
            return False
        return True

    def _problem(self, subject: str, timeout: float, answer: InterestAnswer | None) -> str:
        if answer is None:
            return f"the gateway of {self._domain} did not answer within {timeout:g} s"
        if answer.stamp is None:
            return f"the gateway of {self._domain} did not hear of {subject} within {timeout:g} s"
        return f"after {timeout:g} s {', '.join(answer.missing)} did not confirm to send {subject}"
