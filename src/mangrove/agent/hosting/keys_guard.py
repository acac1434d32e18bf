"""Has the brokers of this host take over keys that have changed, without a restart.

A client that is given keys can connect a moment later, and one whose keys are taken back is sent away
(docs/decisions/0131-brokers-read-their-users-again.md).
"""

from __future__ import annotations

import asyncio
import logging

from mangrove.agent.hosting.broker_keys import BrokerKeys
from mangrove.agent.hosting.host_brokers import HostBrokers
from mangrove.errors import InputError
from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.audit.entry import AuditKind, Fact

log = logging.getLogger(__name__)

LOOK_S = 0.3


class KeysGuard:
    """Watches the key directory of one domain."""

    def __init__(self, brokers: HostBrokers, keys: BrokerKeys, audit: AuditLog | None = None) -> None:
        self._audit = audit or AuditLog()
        self._brokers = brokers
        self._keys = keys
        self._expelling: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Look, until cancelled. Keys that are not whole are left alone, and said so once."""
        try:
            await self._look()
        finally:
            if self._expelling is not None:
                self._expelling.cancel()
                await asyncio.gather(self._expelling, return_exceptions=True)

    async def _look(self) -> None:
        said = ""
        while True:
            await asyncio.sleep(LOOK_S)
            if not self._keys.changed():
                continue
            try:
                self._keys.renew()
            except InputError as error:
                if error.message != said:
                    log.error("the brokers go on with the keys that they have: %s", error.message)
                    self._audit.note(AuditKind.KEYS_REFUSED, by="brokers", why=error.message)
                said = error.message
                continue
            said = ""
            log.info("the brokers take over the keys of generation %d", self._keys.generation)
            if self._expelling is not None:
                self._expelling.cancel()
            problems = await self._brokers.take_over_keys()
            told: dict[str, Fact] = {"generation": self._keys.generation, "by": "brokers"}
            if problems:
                told["not by"] = ", ".join(problems)
            self._audit.add(AuditKind.KEYS_TAKEN_OVER, told)
            self._expelling = asyncio.create_task(self._expel(), name="expel")

    async def _expel(self) -> None:
        async for broker, sent_away in self._brokers.expel():
            self._audit.note(AuditKind.KEYS_TAKEN_OVER, broker=broker, sent_away=sent_away)
