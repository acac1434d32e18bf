"""What `mangrove demo tsunami` prints, in 80 columns, and when it complains."""

from __future__ import annotations

import shutil
from collections import Counter
from io import StringIO

import msgspec
import pytest
from rich.console import Console
from rich.live import Live

from mangrove.broker.rabbitmq.hosting import server
from mangrove.cli.demonstration import tsunami as screens
from mangrove.errors import InputError
from mangrove.model.events.event_log import Event
from mangrove.overlay.events.happenings import LinkFailed
from mangrove.testbed.tsunami.account import Share, TopicAccount
from mangrove.testbed.tsunami.centres import Kind
from mangrove.testbed.tsunami.report import Moment, PhaseReport, TsunamiReport

PHASE = PhaseReport(
    name="the relay returns",
    expectation="it catches up with the new contracts, and is used again",
    held=False,
    details=("it has the new contracts",),
    start_s=10.0,
    seconds=5.0,
    shares={Kind.ALERT: Share(due=100, delivered=100, in_time=99)},
)
ALERT = TopicAccount(
    topic="alert.national",
    kind=Kind.ALERT,
    due=123_456,
    delivered=123_456,
    withheld={},
    dropped={},
    lost=0,
    in_time=123_000,
    duplicated=0,
    sent=61_728,
    copies_dropped=3,
)
SOCIAL = TopicAccount(
    topic="simulation.eta",
    kind=Kind.SOCIAL,
    due=100_000,
    delivered=90_000,
    withheld={"limited": 6_000},
    dropped={"congestion": 3_000, "rate limited": 1_000},
    lost=0,
    in_time=89_000,
    duplicated=0,
    sent=47_000,
)
EVENTS = tuple(
    Event(id=f"local-{number}", at=1011.0 + number, cause="local-1" if number > 1 else None, happening=each)
    for number, each in enumerate([LinkFailed(peer="relay", reason="no sign of life for 134 ms")] * 3, 1)
)
REPORT = TsunamiReport(
    seed=1,
    rabbitmq=True,
    seconds=80.0,
    phases=(PHASE,),
    topics=(ALERT, SOCIAL),
    story=EVENTS,
    began_at=1000.0,
)


def printed(report: TsunamiReport, monkeypatch: pytest.MonkeyPatch) -> str:
    out = StringIO()
    monkeypatch.setattr(screens, "stdout_console", lambda: Console(file=out, width=80))
    screens.render(report)
    assert max(map(len, out.getvalue().splitlines())) <= 80
    return out.getvalue()


def test_the_account_and_the_story_fit_on_a_narrow_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    out = printed(REPORT, monkeypatch)
    assert "All 223,456 deliveries are accounted for; 123,456 of 123,456 alerts arrived." in out
    assert "Withheld by publishers: limited 6,000." in out
    assert "congestion 3,000, rate limited 1,000" in out
    assert "Second copies of alerts that ended on their way: 3" in out
    assert "✗ it catches up" in out
    assert "(2 more of this kind)" in " ".join(out.split())
    assert REPORT.problems() == []
    assert len(REPORT.document()["story"]) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        (msgspec.structs.replace(SOCIAL, lost=7), "7 deliveries are missing and nobody has counted them"),
        (msgspec.structs.replace(SOCIAL, lost=-7), "7 more were counted as dropped than are missing"),
        (msgspec.structs.replace(SOCIAL, duplicated=2), "2 came twice"),
        (
            msgspec.structs.replace(ALERT, delivered=123_454, dropped={"late": 2}),
            "2 alerts were withheld or dropped",
        ),
    ],
)
def test_what_must_not_be_is_told(topic: TopicAccount, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = msgspec.structs.replace(REPORT, topics=(topic,))
    assert report.problems() == [f"{topic.topic}: {said}"]
    assert "does not add up" in printed(report, monkeypatch)


def test_without_rabbitmq_nothing_starts_and_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    screens.check_rabbitmq(wanted=True)
    monkeypatch.setattr(server, "SCRIPT_PLACES", ())
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(InputError, match="rabbitmq-server was not found") as refused:
        screens.check_rabbitmq(wanted=True)
    assert "apt-get install rabbitmq-server" in refused.value.hint
    assert "--nats-only" in refused.value.hint
    screens.check_rabbitmq(wanted=False)


def test_the_live_view_bears_an_agent_that_does_not_answer() -> None:
    out = StringIO()
    console = Console(file=out, width=80, force_terminal=True)
    with Live(console=console, auto_refresh=False) as live:
        watcher = screens._Watcher(live)
        watcher.look(Moment("surge", 3.0, None, Counter({"alert offered": 30})))
    assert "does not answer" in out.getvalue()
    assert "alert" in out.getvalue()
