"""The tsunami demo in its short form, with a RabbitMQ and keys: every message is accounted for."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from mangrove.cli.demonstration import tsunami as screens
from mangrove.testbed.tsunami.centres import Kind
from mangrove.testbed.tsunami.report import Moment
from mangrove.testbed.tsunami.scenario import Tsunami


@pytest.mark.timeout(300)
async def test_every_message_of_the_day_is_accounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments: list[Moment] = []
    told: list[str] = []
    report = await Tsunami(tmp_path, look=moments.append, tell=told.append).run(10.0)
    assert report.problems() == []
    for each in report.topics:
        assert each.due > 0
        assert each.due == each.delivered + sum(each.withheld.values()) + sum(each.dropped.values())
    alerts = [each for each in report.topics if each.kind is Kind.ALERT]
    assert [each.due - each.delivered for each in alerts] == [0, 0, 0], "no alert was lost or withheld"
    assert [phase.name for phase in report.phases if not phase.held] == []
    kinds = {event.kind for event in report.story}
    assert kinds >= {
        "BrokerOverloaded",
        "MoveDecided",
        "TopicMoved",
        "RegionEndangered",
        "LinkFailed",
        "LinkRecovered",
        "ChangeProposed",
        "VersionInForce",
        "CapacityTold",
        "PublishersLimited",
        "CongestionOver",
    }
    assert {moment.phase for moment in moments} == {phase.name for phase in report.phases}
    assert any("version 2 is in force in local, national, regional" in line for line in told)
    out = StringIO()
    monkeypatch.setattr(screens, "stdout_console", lambda: Console(file=out, width=80))
    screens.render(report)
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert "deliveries are accounted for" in out.getvalue()
    assert json.loads(json.dumps(report.document()))["problems"] == []
