"""What is refused is counted each time, and told in measure."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mangrove.gateway.trust.refusals import ONE_BY_ONE, Refusal, Refusals
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.audit.reading import read_chain
from mangrove.host.run_directory import RunDirectory
from mangrove.model.audit.entry import AuditKind


def test_a_flood_is_counted_whole_and_told_in_a_few_lines(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    run = RunDirectory(tmp_path)
    audit = AuditLog.at(str(run.audit_of("b-gateway")))
    refusals = Refusals(audit)
    with caplog.at_level(logging.WARNING):
        for number in range(1000):
            refusals.note(Refusal.SLOW, f"192.0.2.{number % 20}:{number}", "no HELLO within 5 s")
        refusals.note(Refusal.NO_TLS, "192.0.2.99:1")
        refusals.flush()
        refusals.flush()
    assert refusals.counts == {Refusal.SLOW: 1000, Refusal.NO_TLS: 1}
    assert refusals.total == 1001
    assert len(caplog.records) == ONE_BY_ONE + 2
    audit.close()
    entries = read_chain(run, "b-gateway")
    assert sum(entry.times for entry in entries) == 1001
    assert len(entries) < 10
    assert {entry.kind for entry in entries} == {AuditKind.CONNECTION_REFUSED}
    assert not any(":" in str(entry.facts["who"]) for entry in entries), "a port is another each time"


def test_after_a_while_each_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    with caplog.at_level(logging.WARNING):
        refusals.note(Refusal.SLOW, "192.0.2.1:1")
        refusals.flush()
        refusals.note(Refusal.SLOW, "192.0.2.1:2")
    assert ["192.0.2.1:1" in caplog.messages[0], "192.0.2.1:2" in caplog.messages[1]] == [True, True]
