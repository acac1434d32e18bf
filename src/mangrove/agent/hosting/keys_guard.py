"""Has the brokers of this host take over keys and access rules that have changed, without a restart.

A client that is given keys can connect a moment later, and one whose keys are taken back is sent away
(docs/decisions/0131-brokers-read-their-users-again.md). Rules change with the federation document: a client
that loses a right keeps its connection, and is told by the broker what it may no longer do.
"""

from __future__ import annotations

import asyncio
import logging

from mangrove.agent.hosting.broker_keys import BrokerKeys
from mangrove.agent.hosting.host_brokers import HostBrokers
from mangrove.agent.serving.contracts.in_force import ContractsInForce
from mangrove.errors import InputError
from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.audit.entry import AuditKind, Fact
from mangrove.model.federation import Federation

log = logging.getLogger(__name__)

LOOK_S = 0.3


class KeysGuard:
    """Watches the key directory of one domain, and what is in force there."""

    def __init__(
        self,
        brokers: HostBrokers,
        keys: BrokerKeys,
        audit: AuditLog | None = None,
        *,
        file: Federation | None = None,
        in_force: ContractsInForce | None = None,
    ) -> None:
        """With `in_force`, brokers keep to the access rules of the document, which else are the file's."""
        self._audit = audit or AuditLog()
        self._file = file
        self._in_force = in_force
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
            await self._follow_rules()
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

    async def _follow_rules(self) -> None:
        """Have the brokers keep to the access rules in force, if they are others."""
        if self._in_force is None or self._file is None:
            return
        federation = self._in_force.news(self._file)
        if federation is None or not self._keys.keep_to(federation):
            return
        version = self._in_force.version
        log.info("the brokers take over the access rules of version %d", version)
        told: dict[str, Fact] = {"version": version, "by": "brokers"}
        if problems := await self._brokers.take_over_keys():
            told["not by"] = ", ".join(problems)
        self._audit.add(AuditKind.RULES_TAKEN_OVER, told)

    async def _expel(self) -> None:
        async for broker, sent_away in self._brokers.expel():
            self._audit.note(AuditKind.KEYS_TAKEN_OVER, broker=broker, sent_away=sent_away)
