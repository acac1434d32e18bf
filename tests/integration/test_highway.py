"""The highway demo: a broker killed, one frozen, a host lost; topics with a mirror notice nothing."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from mangrove.cli.demonstration import highway as screens
from mangrove.testbed.highway.regions import Kind
from mangrove.testbed.highway.scenario import FROZEN, KILLED, LOST, Highway, Moment


@pytest.mark.soak
async def test_mirrored_topics_survive_what_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments: list[Moment] = []
    report = await Highway(tmp_path, look=moments.append).run(1.5, rest_s=1.0)
    assert screens.failures(report) == []
    assert {(each.fault, each.kind) for each in report.accounts} == {
        (fault, kind) for fault in (KILLED, FROZEN, LOST) for kind in Kind
    }
    assert all(each.sent > 300 for each in report.accounts)
    assert any(each.lost for each in report.accounts if each.kind is Kind.SENSOR), "faults were real"
    assert any("dead" in sentence for _, _, sentence in report.story)
    assert len({(moment.primary, moment.mirror) for moment in moments if moment.primary}) > 1
    out = StringIO()
    monkeypatch.setattr(screens, "stdout_console", lambda: Console(file=out, width=80))
    screens.render(report)
    assert max(map(len, out.getvalue().splitlines())) <= 80
