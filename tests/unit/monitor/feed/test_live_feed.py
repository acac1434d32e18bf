"""A feed that is started before the federation says so, and does not repeat itself."""

from __future__ import annotations

from pathlib import Path

from mangrove.errors import MangroveError
from mangrove.model.endpoints import Runtime
from mangrove.monitor.feed.live_feed import LiveFeed
from mangrove.monitor.feed.source import OnThisMachine


class Nothing:
    def find(self) -> Runtime:
        raise MangroveError("no federation runs", hint="start one")


async def test_a_monitor_without_a_federation_says_what_to_do() -> None:
    async with LiveFeed(Nothing()) as feed:
        assert await feed.changed(0, timeout_s=5) == 1
        assert feed.snapshot.problem == "no federation runs; start one"
        assert feed.snapshot.status is None
        assert await feed.changed(1, timeout_s=0.05) == 1, "nothing new about nothing"


async def test_a_directory_where_nothing_runs_is_no_end(tmp_path: Path) -> None:
    async with LiveFeed(OnThisMachine(run_dir=tmp_path)) as feed:
        await feed.changed(0, timeout_s=5)
        assert str(tmp_path) in feed.snapshot.problem
