"""Failover tables of a federation, made in a thread while messages flow by those that there are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic

from mangrove.model.federation import Federation
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import Instruction
from mangrove.routing.failover.gateway_tables import GatewayTables, prepared_network
from mangrove.routing.paths.shortest import load_search

log = logging.getLogger(__name__)


def tables_of(federation: Federation, domain: str) -> GatewayTables:
    """The tables of a domain's gateway, with whatever they are searched by."""
    tables = GatewayTables(prepared_network(federation), domain)
    load_search(tables.book.graph.size)  # where that is not done yet it takes seconds
    return tables


class TableMaking:
    """Makes tables for versions of the document that are about to be in force."""

    def __init__(self, engine: OverlayEngine, carry_out: Callable[[list[Instruction]], None]) -> None:
        self._engine = engine
        self._carry_out = carry_out
        self._making: set[asyncio.Task[None]] = set()
        """Who makes tables."""

    def begin(self, federation: Federation, version: int) -> None:
        """Make those of a version; the engine is told when they are there."""
        making = asyncio.get_running_loop().create_task(self._make(federation, version))
        self._making.add(making)
        making.add_done_callback(self._making.discard)

    async def _make(self, federation: Federation, version: int) -> None:
        began = monotonic()
        tables = await asyncio.to_thread(tables_of, federation, self._engine.domain)
        took_ms = 1000 * (monotonic() - began)
        log.info("tables for version %d were made in %.0f ms", version, took_ms)
        self._carry_out(self._engine.tables_made(version, tables, monotonic()))

    def close(self) -> None:
        """Wait for none any more."""
        for making in self._making:
            making.cancel()
