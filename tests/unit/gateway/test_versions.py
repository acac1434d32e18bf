"""Versions of the federation document at a gateway whose disk fails."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from mangrove.gateway.versions import Versions
from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.versions.kept import Ballot, KeptVersions

PROMISED = KeptVersions(promised=Ballot(1, "a"))


async def test_what_cannot_be_written_is_not_told_and_what_is_in_force_is_acted_upon(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "versions").write_text("no folder can be made here")
    versions = Versions(str(tmp_path / "versions" / "a"), AuditLog())
    told: list[str] = []
    with caplog.at_level(logging.ERROR):
        versions.keep(PROMISED, lambda: told.append("promise"))
        for _ in range(100):
            await asyncio.sleep(0.01)
            if caplog.messages:
                break
        versions.keep(PROMISED, lambda: told.append("in force"), at_once=True)
        versions.keep_told(PROMISED)
    versions.close()
    assert told == ["in force"]
    assert len(caplog.messages) == 3
    assert all("versions cannot be written down: " in each for each in caplog.messages)
