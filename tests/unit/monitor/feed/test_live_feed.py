"""A feed that is started before the federation says so, and does not repeat itself."""

from __future__ import annotations

from pathlib import Path

from mangrove.config import parse_federation
from mangrove.errors import MangroveError
from mangrove.model.endpoints import MGMT_CLIENT, Runtime
from mangrove.monitor.feed.live_feed import LiveFeed
from mangrove.monitor.feed.snapshot import Presence
from mangrove.monitor.feed.source import Elsewhere, OnThisMachine


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


def problem(feed: LiveFeed, domain: str) -> str:
    return feed.snapshot.presence.get(domain, Presence()).problem


async def test_a_site_whose_key_is_not_here_says_what_to_do(tmp_path: Path) -> None:
    text = "federation: f\ndomains:\n  near: {location: [1, 2]}\n  far: {}\nlinks: [{between: [near, far]}]\n"
    federation = parse_federation(text, "f").require()
    (tmp_path / "domains" / "near").mkdir(parents=True)
    found = Elsewhere(federation, tmp_path).find()
    assert [each.keys for each in found.domains.values()] == [str(tmp_path / "domains" / "near"), ""]
    assert found.domains["near"].management.client_port == federation.domains["near"].base_port + MGMT_CLIENT
    assert [each.keys for each in Elsewhere(federation).find().domains.values()] == ["", ""]
    async with LiveFeed(Elsewhere(federation, tmp_path)) as feed:
        problems = {"far": "operator's key is not in", "near": "operator's key cannot be used"}
        while any(text not in problem(feed, name) for name, text in problems.items()):
            assert await feed.changed(feed.version, timeout_s=20), "it should say what is missing"
        status = feed.snapshot.status
        assert status is not None
        assert [each.domain for each in status.domains] == ["near", "far"]
