"""Processes that start and end are written down, each once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from mangrove.agent.hosting.process_book import ProcessBook
from mangrove.host.audit.audit_file import AuditFile
from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.audit.entry import AuditKind, read_entry


def test_a_restart_is_an_end_and_a_start(tmp_path: Path) -> None:
    path = tmp_path / "site.jsonl"
    audit = AuditLog(AuditFile(path, "site"))
    broker: Any = SimpleNamespace(name="head", pid=None, restarts=0)
    book = ProcessBook(lambda: [cast("Any", broker)], audit)
    for pid, restarts in ((None, 0), (10, 0), (10, 0), (11, 1), (None, 1)):
        broker.pid, broker.restarts = pid, restarts
        book.look()
    audit.close()
    entries = [read_entry(line) for line in path.read_bytes().splitlines()]
    told = [(entry.kind, entry.facts["restarts"]) for entry in entries if entry is not None]
    assert told == [
        (AuditKind.PROCESS_STARTED, 0),
        (AuditKind.PROCESS_STOPPED, 1),
        (AuditKind.PROCESS_STARTED, 1),
        (AuditKind.PROCESS_STOPPED, 1),
    ]
