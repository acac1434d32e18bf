"""Versions of the federation document at a gateway whose disk fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from mangrove.gateway.versions import AGAIN_S, Versions
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.versions.version_store import VersionStore
from mangrove.model.versions.kept import Ballot, KeptVersions

PROMISED = KeptVersions(promised=Ballot(1, "a"))
ACCEPTED = KeptVersions(promised=Ballot(2, "a"))


async def test_what_cannot_be_written_is_not_told_and_what_is_in_force_is_acted_upon(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "versions").write_text("no folder can be made here")
    versions = Versions(str(tmp_path / "versions" / "a"), AuditLog())
    told: list[str] = []
    with caplog.at_level(logging.ERROR):
        versions.keep(PROMISED, lambda: told.append("promise"))
        await wait_for(lambda: bool(caplog.messages))
        versions.keep(PROMISED, lambda: told.append("in force"), at_once=True)
        versions.keep_told(PROMISED)
    versions.close()
    assert told == ["in force"]
    (said,) = caplog.messages
    assert "versions cannot be written down, which is tried again every second: " in said


@pytest.mark.parametrize("at_once", [False, True], ids=["beside the traffic", "at once"])
async def test_what_a_disk_did_not_take_is_written_and_told_when_it_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, at_once: bool
) -> None:
    (tmp_path / "versions").write_text("no folder can be made here")
    versions = Versions(str(tmp_path / "versions" / "a"), AuditLog())
    told: list[str] = []
    versions.keep(PROMISED, lambda: told.append("to x"))
    versions.keep(PROMISED, lambda: told.append("to y"))
    versions.keep(ACCEPTED, at_once=at_once)
    await wait_for(lambda: bool(caplog.messages))
    assert told == []
    (tmp_path / "versions").unlink()
    await wait_for(lambda: len(told) == 2)
    assert told == ["to x", "to y"]
    assert VersionStore(tmp_path / "versions" / "a").read() == ACCEPTED
    versions.close()


async def test_an_older_state_never_takes_the_place_of_a_newer_one(tmp_path: Path) -> None:
    (tmp_path / "versions").write_text("no folder can be made here")
    versions = Versions(str(tmp_path / "versions" / "a"), AuditLog())
    told: list[str] = []
    versions.keep(PROMISED, lambda: told.append("promise"))
    await asyncio.sleep(0.05)
    (tmp_path / "versions").unlink()
    versions.keep_told(ACCEPTED)
    assert told == ["promise"], "what it says is on disk, with more"
    await asyncio.sleep(1.2 * AGAIN_S)
    assert VersionStore(tmp_path / "versions" / "a").read() == ACCEPTED
    versions.close()


async def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nothing came of it in 5 s")
