"""Questions to the gateway of a domain, asked on its management broker."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from mangrove.broker.client_connection import BrokerAwayError, NoResponderError
from mangrove.client.management.link import ManagementLink
from mangrove.errors import MangroveError
from mangrove.model.unreadable import UNREADABLE

ANSWER_S = 1.0
Answer = TypeVar("Answer", bound=msgspec.Struct)


class GatewayQuestions:
    """Asks one gateway."""

    def __init__(self, link: ManagementLink) -> None:
        self.domain = link.domain
        self.user = link.user
        self._link = link

    async def ask(
        self, subject: str, question: msgspec.Struct, answer: type[Answer], timeout_s: float = ANSWER_S
    ) -> Answer | None:
        """The gateway's answer; None if it does not answer in time."""
        try:
            return await self._link.ask(subject, question, answer, timeout_s)
        except (BrokerAwayError, NoResponderError, TimeoutError):
            return None
        except UNREADABLE as error:
            raise MangroveError(f"the gateway of {self.domain} answered nonsense: {error}") from None
