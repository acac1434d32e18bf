"""Questions to the gateway of the own domain, asked on its management broker."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import nats
import nats.errors
from nats.aio.client import Client

from mangrove.errors import MangroveError

ANSWER_S = 1.0
Answer = TypeVar("Answer", bound=msgspec.Struct)


class GatewayQuestions:
    """Asks one gateway; connects to the management broker at the first question."""

    def __init__(self, domain: str, management_url: str) -> None:
        self.domain = domain
        self._url = management_url
        self._client: Client | None = None

    async def ask(
        self, subject: str, question: msgspec.Struct, answer: type[Answer], timeout_s: float = ANSWER_S
    ) -> Answer | None:
        """The gateway's answer; None if it does not answer in time."""
        try:
            if self._client is None:
                self._client = await nats.connect(self._url, name="mangrove-sdk", error_cb=_quiet)
            reply = await self._client.request(subject, msgspec.json.encode(question), timeout=timeout_s)
            return msgspec.json.decode(reply.data, type=answer)
        except (nats.errors.Error, OSError):
            return None
        except msgspec.DecodeError as error:
            raise MangroveError(f"the gateway of {self.domain} answered nonsense: {error}") from None

    async def close(self) -> None:
        """Let go of the management broker."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


async def _quiet(_: Exception) -> None:
    """A broker that is away is waited for, as long as the caller allows."""
