"""Waits until a subscription is known in every domain that can be reached, by asking the domain's gateway."""

from __future__ import annotations

import asyncio

from mangrove.client.gateway_questions import GatewayQuestions
from mangrove.model.questions.interest_question import InterestAnswer, InterestRequest, Stamp
from mangrove.model.shared_names import gateway_interest_subject

POLL_S = 0.02


class Readiness:
    """Asks one gateway until it says that everybody knows."""

    def __init__(self, questions: GatewayQuestions) -> None:
        self._questions = questions
        self._domain = questions.domain

    async def wait(self, subject: str, group: str, timeout: float) -> None:
        """Until every reachable domain sends what it publishes; TimeoutError names those that do not."""
        stamp: Stamp | None = None
        answer: InterestAnswer | None = None
        try:
            async with asyncio.timeout(timeout):
                while True:
                    asked = InterestRequest(subject=subject, group=group, stamp=stamp)
                    where = gateway_interest_subject(self._domain)
                    answer = await self._questions.ask(where, asked, InterestAnswer)
                    if answer is not None and answer.ready:
                        return
                    stamp = stamp if answer is None else answer.stamp
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise TimeoutError(self._problem(subject, timeout, answer)) from None

    def _problem(self, subject: str, timeout: float, answer: InterestAnswer | None) -> str:
        if answer is None:
            return f"the gateway of {self._domain} did not answer within {timeout:g} s"
        if answer.stamp is None:
            return f"the gateway of {self._domain} did not hear of {subject} within {timeout:g} s"
        return f"after {timeout:g} s {', '.join(answer.missing)} did not confirm to send {subject}"
