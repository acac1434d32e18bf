"""Tells the clients of the domain what they keep of contracts, when others are in force.

Whoever connects asks; who is connected is told. A client that misses it asks when it is connected again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from nats.aio.client import Client

from mangrove.model.questions.terms_question import TermsTold, terms_told_subject


class TermsTeller:
    """Speaks on the management broker of one domain."""

    def __init__(self, domain: str, told: Callable[[], TermsTold]) -> None:
        self._domain = domain
        self._told = told
        self._news = asyncio.Event()

    def changed(self) -> None:
        """Another version is in force."""
        self._news.set()

    def answer(self) -> bytes:
        """What holds at present."""
        return msgspec.json.encode(self._told())

    async def deliver(self, connection: Client) -> None:
        """Tell what holds, at once and whenever it changes, until cancelled."""
        while True:
            self._news.clear()
            await connection.publish(terms_told_subject(self._domain), self.answer())
            await self._news.wait()
