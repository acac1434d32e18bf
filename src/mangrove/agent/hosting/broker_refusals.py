"""Writes down whom the brokers of a host turned away: wrong keys, no TLS, forbidden subjects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from mangrove.broker.kinds import kind_of
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.log_tail import LogTail
from mangrove.model.audit.entry import AuditKind
from mangrove.model.broker_kinds import BrokerKind

LOOK_S = 0.5


class BrokerRefusals:
    """Follows the logs of the brokers that run here."""

    def __init__(
        self,
        logs: Mapping[str, tuple[BrokerKind, Path]],
        audit: AuditLog,
        name_of: Callable[[str], str] = lambda user: user,
    ) -> None:
        """The log of each broker, by its name, and where refusals are written down.

        Brokers know users by their keys; `name_of` tells people who that is.
        """
        self._name_of = name_of
        self._tails = {name: (kind, LogTail(path)) for name, (kind, path) in logs.items()}
        self._audit = audit

    async def run(self) -> None:
        """Look now and then, until cancelled; then once more."""
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                self._look()
        finally:
            self._look()

    def _look(self) -> None:
        """Note what the brokers have logged since the last time."""
        for broker, (kind, tail) in self._tails.items():
            skipped_before = tail.skipped_bytes
            for line in tail.lines():
                refusal = kind_of(kind).refusal(line)
                if refusal is not None:
                    self._audit.note(
                        refusal.kind,
                        broker=broker,
                        host=refusal.host,
                        way=refusal.way,
                        user=self._name_of(refusal.user),
                        what=refusal.what,
                    )
            if tail.skipped_bytes > skipped_before:
                self._audit.note(AuditKind.LOG_SKIPPED, broker=broker)
