"""A domain's names change while messages pass: all parts of its gateway take the new ones at one moment.

Between two buffers of the broker, so that each message has its names from one mapping. Whatever is called as
before is not touched: it stays subscribed to, here and elsewhere, all the time. What is in the hands of the
broker when its name changes is taken by the name that it then has.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mangrove.gateway.audience.desk import AudienceDesk
from mangrove.gateway.head.connection import HeadConnection
from mangrove.gateway.management.terms_in_force import TermsInForce
from mangrove.gateway.management.terms_teller import TermsTeller
from mangrove.gateway.naming.names_in_force import Mappings, NamesInForce
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.gateway.retained import RetainedMirror
from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.audit.entry import AuditKind
from mangrove.model.names.mapping import names_problem
from mangrove.model.topics import TopicRules

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5


class Renaming:
    """Looks whether the site has reloaded other names, and has all parts take them over."""

    def __init__(
        self,
        in_force: NamesInForce,
        names: SiteNames,
        head: HeadConnection,
        desk: AudienceDesk,
        retained: RetainedMirror | None,
        *,
        rules: Callable[[], TopicRules],
        terms: TermsInForce,
        teller: TermsTeller,
        told: Callable[[], None],
        audit: AuditLog,
    ) -> None:
        """`rules` are the contracts in force; `told` is called when all is done."""
        self._in_force = in_force
        self._names = names
        self._head = head
        self._desk = desk
        self._retained = retained
        self._rules = rules
        self._terms = terms
        self._teller = teller
        self._told = told
        self._audit = audit

    async def run(self) -> None:
        """Look for other names until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if self._in_force.changed():
                await self._take_over(await asyncio.to_thread(self._in_force.read))

    async def _take_over(self, mappings: Mappings) -> None:
        if mappings == self._names.names.mappings:
            return
        if problem := names_problem(mappings, self._rules()):
            log.error("the names that were reloaded cannot be used, those before stay: %s", problem)
            self._audit.note(AuditKind.NAMES_REFUSED, why=problem)
            return
        if mappings:
            await self._head.before_names_change()
        self._desk.before_names_change()
        self._names.change(mappings)
        self._head.names_changed(self._terms.directions())
        self._teller.changed()
        if self._retained is not None:
            self._retained.names_changed()
        log.info("other names are in force: %d mappings", len(mappings))
        self._audit.note(AuditKind.NAMES_TAKEN_OVER, mappings=len(mappings))
        self._told()
