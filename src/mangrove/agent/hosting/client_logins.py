"""Clients at the brokers of a host: each that came is written down, and who came by a key of before is told.

nats-server tells nobody of logins in its default account, so its newest connections are looked at now and
then. One that comes and goes between two looks is not seen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from mangrove.agent.hosting.broker_keys import BrokerKeys
from mangrove.broker.kinds import kind_of
from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.audit.entry import AuditKind
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.hosting.supervision import OldLogin

LOOK_S = 2.0
NEWEST = 256
"""Connections that are looked at; of more that came since, it is only told that there were more."""
PAGE = 1_024
MAX_LOOKED_AT = 16 * PAGE
MAX_TOLD = 500


class ClientLogins:
    """Watches the brokers that run here."""

    def __init__(self, brokers: Iterable[BrokerEndpoints], keys: BrokerKeys, audit: AuditLog) -> None:
        self._brokers = list(brokers)
        self._keys = keys
        self._audit = audit
        self._seen: dict[str, tuple[str, int]] = {}
        """The start of each broker that was looked at, and its newest connection."""

    async def run(self) -> None:
        """Look, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            for broker in self._brokers:
                await self._look(broker)

    async def _look(self, broker: BrokerEndpoints) -> None:
        ask = kind_of(broker.kind).logins
        found = await ask(broker, first=0, most=NEWEST)
        if found is not None and found.total > NEWEST:
            found = await ask(broker, first=found.total - NEWEST, most=NEWEST)
        if found is None or not found.connections:
            return
        start, newest = self._seen.get(broker.name, ("", 0))
        newest = newest if start == found.broker else 0
        fresh = [each for each in found.connections if each.number > newest]
        self._seen[broker.name] = found.broker, max(newest, found.connections[-1].number)
        if len(fresh) == NEWEST:
            self._audit.note(AuditKind.LOG_SKIPPED, broker=broker.name, what="connections")
        for (user, host, way), times in Counter((each.user, each.host, each.way) for each in fresh).items():
            client = self._keys.client_of(user)
            if client:
                facts = {"broker": broker.name, "client": client, "host": host, "way": way}
                self._audit.add(AuditKind.CLIENT_CONNECTED, dict(facts), times)

    @property
    def generation(self) -> int:
        """Which keys the brokers have."""
        return self._keys.generation

    async def by_old_keys(self) -> tuple[OldLogin, ...]:
        """Clients whose keys were replaced, and that are connected by the keys of before."""
        old = self._keys.replaced_clients()
        found: Counter[tuple[str, str, str]] = Counter()
        for broker in self._brokers if old else ():
            first, total = 0, 1
            while first < min(total, MAX_LOOKED_AT):
                page = await kind_of(broker.kind).logins(broker, first=first, most=PAGE)
                if page is None or not page.connections:
                    break
                found.update(
                    (broker.name, old[each.user], each.name) for each in page.connections if each.user in old
                )
                first, total = first + len(page.connections), page.total
        told = sorted(found.items())[:MAX_TOLD]
        return tuple(
            OldLogin(broker=broker, client=client, name=name, connections=times)
            for (broker, client, name), times in told
        )
