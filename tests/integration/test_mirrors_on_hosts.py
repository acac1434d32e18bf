"""A site on one, two and three hosts: a broker dies, and mirrored streams go on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from mangrove.testbed.accounting import Span
from mangrove.testbed.mirrors.account import UNDER_WAY_NS, Fault
from mangrove.testbed.mirrors.site import BOTH, MIRRORED, PLAIN, STANDBY, FailingSite
from mangrove.testbed.mirrors.streams import Streams
from mangrove.testbed.mirrors.workers import SDK

RATE_MSG_S = 500.0


@pytest.mark.parametrize(
    ("hosts", "victim"),
    [
        pytest.param(1, "primary", marks=pytest.mark.soak),
        pytest.param(2, "head", marks=pytest.mark.soak),
        (3, "primary"),
    ],
)
async def test_a_broker_dies_and_mirrored_streams_go_on(hosts: int, victim: str, tmp_path: Path) -> None:
    with Streams(SDK, (BOTH, STANDBY, PLAIN), MIRRORED, RATE_MSG_S) as streams:
        async with FailingSite(hosts, tmp_path) as site:
            await streams.begin(site.urls, site.urls)
            start_ns = time.monotonic_ns() - UNDER_WAY_NS
            primary, mirror = await streams.place(BOTH)
            await site.strike(Fault.KILL, {"head": site.head, "primary": primary}[victim])
            await asyncio.sleep(1.5)
            figures, _ = await streams.end(Span(start_ns, time.monotonic_ns()))
            assert primary != mirror
            for topic in MIRRORED:
                row = figures[topic]
                assert (row.lost, row.duplicated) == (0, 0), topic
                assert row.sent > 500
            if hosts > 1:
                assert site.host_of(primary) != site.host_of(mirror)
