"""Asks for more than a contract: each is a lease at the domain's gateway, renewed while it is held."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets

import msgspec

from mangrove.client.gateway_questions import GatewayQuestions
from mangrove.errors import MangroveError
from mangrove.model.questions.session_quality import RENEW_S, AskAnswer, AskRequest, Quality, Role
from mangrove.model.shared_names import gateway_asks_subject

log = logging.getLogger(__name__)

END_S = 0.5


class AskRefusedError(MangroveError):
    """The gateway does not grant what was asked for; the hint tells what it would."""


class Asks:
    """All that one connection asks for; renews the leases by one task of its own."""

    def __init__(self, questions: GatewayQuestions) -> None:
        self._questions = questions
        self._subject = gateway_asks_subject(questions.domain, questions.user)
        self._held: dict[str, AskRequest] = {}
        self._renewing: asyncio.Task[None] | None = None

    async def take(self, role: Role, subject: str, quality: Quality) -> str:
        """Ask, and go on asking; the name of the lease. AskRefusedError if it is not granted."""
        request = AskRequest(session=secrets.token_urlsafe(12), role=role, subject=subject, quality=quality)
        answer = await self._questions.ask(self._subject, request, AskAnswer)
        if answer is None:
            raise AskRefusedError(
                f"the gateway of {self._questions.domain} did not answer", hint="is the federation running?"
            )
        if answer.refused:
            raise AskRefusedError(answer.refused, hint=answer.hint)
        self._held[request.session] = request
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew(), name="renew asks")
        return request.session

    async def end(self, session: str) -> None:
        """Ask no longer. A gateway that is away, or does not understand, forgets by itself."""
        request = self._held.pop(session, None)
        if request is not None:
            ending = msgspec.structs.replace(request, end=True)
            try:
                await self._questions.ask(self._subject, ending, AskAnswer, END_S)
            except MangroveError as error:
                log.info("%s", error.message)

    async def close(self) -> None:
        """End all asks."""
        task, self._renewing = self._renewing, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await asyncio.gather(*(self.end(session) for session in list(self._held)))

    async def _renew(self) -> None:
        """Say all asks again now and then; a gateway that has started anew hears of them so."""
        while True:
            await asyncio.sleep(RENEW_S)
            for session, request in list(self._held.items()):
                if session not in self._held:
                    continue  # ended in the meantime
                try:
                    answer = await self._questions.ask(self._subject, request, AskAnswer)
                except MangroveError as error:
                    log.warning("the ask on %s was not renewed: %s", request.subject, error.message)
                    continue
                if answer is not None and answer.refused and self._held.pop(session, None) is not None:
                    log.warning("the ask on %s is refused now: %s", request.subject, answer.refused)
