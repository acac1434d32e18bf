"""The gateway process: one life of a gateway after the other, as long as it runs.

Run by the site through `mangrove.host.daemon_start`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from time import time_ns

from mangrove.gateway.life.gateway import Gateway
from mangrove.gateway.life.table_making import tables_of
from mangrove.gateway.pair.pair import Pair
from mangrove.gateway.trust.keys_in_force import KeysInForce
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.daemon import run_daemon
from mangrove.host.tracing.tracer import Tracer
from mangrove.model.audit.entry import AuditKind
from mangrove.model.gateway_settings import GatewaySettings

log = logging.getLogger(__name__)


async def _serve(settings: GatewaySettings) -> None:
    # The working set is long-lived; fewer collections mean fewer pauses in the data path.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    audit = AuditLog.at(settings.audit_path)
    audit.note(AuditKind.PROCESS_STARTED)
    following = None
    tracer = Tracer.from_environment("mangrove-gateway", **{"service.instance.id": settings.domain})
    try:
        keys = KeysInForce.read(settings.keys, audit) if settings.keys else None
        following = None if keys is None else asyncio.create_task(keys.follow(), name="keys")
        if settings.pair is None:
            await Gateway(settings, epoch=time_ns(), keys=keys, audit=audit, tracer=tracer).run()
        else:
            pair = Pair(settings.pair, settings.federation, settings.domain, keys=keys, audit=audit)
            await _serve_in_turn(settings, pair, keys, audit, tracer)
    finally:
        if following is not None:
            following.cancel()
        if tracer is not None:
            tracer.close()
        audit.note(AuditKind.PROCESS_STOPPED)
        audit.close()
        log.info("gateway stopped")


async def _serve_in_turn(
    settings: GatewaySettings,
    pair: Pair,
    keys: KeysInForce | None,
    audit: AuditLog,
    tracer: Tracer | None,
) -> None:
    """Stand by or carry; a gateway that was displaced is forgotten, and a new one stands by."""
    tables = tables_of(settings.federation, settings.domain)
    async with asyncio.TaskGroup() as tasks:
        gateway = Gateway(settings, time_ns(), pair, tables, keys=keys, audit=audit, tracer=tracer)
        tasks.create_task(pair.run(), name="the other gateway")
        while True:
            serving = tasks.create_task(gateway.run(), name="gateway")
            try:
                await asyncio.shield(serving)
            except asyncio.CancelledError:
                gateway.hand_over()
                raise
            gateway = Gateway(settings, time_ns(), pair, tables, keys=keys, audit=audit, tracer=tracer)
            pair.let_go()


def main() -> None:
    """Run one gateway until it is told to stop."""
    run_daemon(GatewaySettings, _serve)


if __name__ == "__main__":
    main()
