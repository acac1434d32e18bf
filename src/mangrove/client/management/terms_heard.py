"""Hears of contracts that change while a client is connected, and asks what holds whenever it connects."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable

import msgspec

from mangrove.client.gateway_questions import GatewayQuestions
from mangrove.client.management.link import ManagementLink
from mangrove.errors import MangroveError
from mangrove.model.questions.terms_question import (
    TermsRequest,
    TermsTold,
    gateway_terms_subject,
    terms_told_subject,
)
from mangrove.model.unreadable import UNREADABLE

log = logging.getLogger(__name__)

ODD_TERMS = "contracts that cannot be read"
ASK_S = 2.0

_told = msgspec.json.Decoder(TermsTold)


class TermsHeard:
    """What one connection knows of contracts. An older version never takes the place of a later one."""

    def __init__(self, link: ManagementLink, adopt: Callable[[TermsTold], None]) -> None:
        """`adopt` is called with every version that is newer than the last, and when names have changed."""
        self._link = link
        self._questions = GatewayQuestions(link)
        self._adopt = adopt
        self._asking: asyncio.Task[None] | None = None
        self.version = 0
        """Of the federation document; 0: not known yet."""
        self.names = ""
        """By which names of the domain's own contracts were told last."""
        self.ignored: Counter[str] = Counter()
        link.listen(terms_told_subject(link.domain), self._heard)
        link.greet(self._connected)

    async def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._asking

    def _connected(self) -> None:
        """What was told while the broker was away was missed."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._ask(), name="ask for contracts")

    async def _ask(self) -> None:
        where = gateway_terms_subject(self._link.domain, self._link.user)
        try:
            told = await self._questions.ask(where, TermsRequest(), TermsTold, ASK_S)
        except MangroveError as error:
            log.warning("%s", error.message)
            self.ignored[ODD_TERMS] += 1
            return
        if told is not None:
            self._take(told)

    def _heard(self, data: bytes) -> None:
        try:
            told = _told.decode(data)
        except UNREADABLE:
            self.ignored[ODD_TERMS] += 1
            return
        self._take(told)

    def _take(self, told: TermsTold) -> None:
        renamed = told.version == self.version and told.names != self.names
        if told.version > self.version or renamed:
            self.version, self.names = told.version, told.names
            self._adopt(told)
