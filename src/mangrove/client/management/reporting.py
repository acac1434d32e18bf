"""What a client tells its agent under its seal: what it carries, that it is there, what became of orders."""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from mangrove.client.management.identity import Identity
from mangrove.client.management.link import ManagementLink
from mangrove.model.agents.identity import seal_of
from mangrove.model.agents.names import report_subject
from mangrove.model.agents.registration import RENEW_S, REPORT_S, ClientMessage, Report, Sealed, Traffic
from mangrove.model.agents.usefulness import Lag, Vote


class Carrier(Protocol):
    """Who carries messages."""

    def traffic(self) -> tuple[dict[str, Traffic], dict[str, Traffic]]:
        """What was received by key and published by subject since the last call; bounded."""

    def votes(self) -> dict[str, dict[str, Vote]]:
        """How useful publishers were since the last call, by key and origin; bounded."""

    def lags(self) -> dict[str, Lag]:
        """Subscriptions that do not keep up, by key; bounded."""

    def withheld(self) -> dict[str, Traffic]:
        """What limits kept from being published, by subject, since the last call; bounded."""

    def limits_epoch(self) -> int:
        """Of the agent's limits that are in force; 0 if none are."""


class Reporting:
    """Says nothing before the client has registered."""

    def __init__(self, link: ManagementLink, identity: Identity, carrier: Carrier) -> None:
        self._link = link
        self._identity = identity
        self._carrier = carrier
        self.key: bytes | None = None
        """Of the seal; None before the first registration."""

    def say(self, message: ClientMessage) -> bool:
        """Tell the agent something; whether it is on its way."""
        if self.key is None:
            return False
        body = msgspec.json.encode(message)
        sealed = Sealed(client=self._identity.client, body=body, seal=seal_of(self.key, body))
        return self._link.say(report_subject(self._link.domain, self._link.user), sealed)

    async def run(self) -> None:
        """Report once a second while there is traffic, and now and then without, until cancelled."""
        loop = asyncio.get_running_loop()
        before = said_at = loop.time()
        said_epoch = 0
        while True:
            await asyncio.sleep(REPORT_S)
            now = loop.time()
            received, published = self._carrier.traffic()
            withheld, epoch = self._carrier.withheld(), self._carrier.limits_epoch()
            votes, lags = self._carrier.votes(), self._carrier.lags()
            news = received or published or withheld or votes or lags or epoch != said_epoch
            if self.key is not None and (news or now - said_at >= RENEW_S):
                report = Report(
                    client=self._identity.client,
                    sequence=self._identity.next_sequence(),
                    span_s=now - before,
                    received=received,
                    published=published,
                    votes=votes,
                    lags=lags,
                    withheld=withheld,
                    limits_epoch=epoch,
                )
                if self.say(report):
                    said_at, said_epoch = now, epoch
            before = now
