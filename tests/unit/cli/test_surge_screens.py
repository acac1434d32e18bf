"""What `mangrove demo surge` says at its end, and what it counts as a failure."""

from __future__ import annotations

import msgspec
import pytest

from mangrove.cli.demonstration.surge import failures, render
from mangrove.testbed.surge.account import SurgeAccount
from mangrove.testbed.surge.scenario import Burst, SurgeReport

ACCOUNT = SurgeAccount(
    sent=1000,
    expected=2000,
    delivered=2000,
    lost=0,
    duplicated=0,
    reordered=0,
    moved=4,
    late_moved=0,
    longest_moved_ms=20.0,
    longest_stayed_ms=19.0,
    dropped=0,
)
BURST = Burst(
    edge="harbour-edge3",
    topics=14,
    detected_s=1.2,
    relieved_s=5.0,
    peak_utilisation=1.19,
    moves=tuple(f"surge.{number:03d} → harbour-edge4" for number in range(6)),
)
REPORT = SurgeReport(
    seed=1,
    method="drd",
    rate_msg_s=5000.0,
    capacity_msg_s=1600.0,
    bursts=(BURST,),
    account=ACCOUNT,
    agent_killed_in=(),
)


def test_the_account_fits_a_narrow_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    render(REPORT)
    shown = capsys.readouterr().out
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "1.2 s" in shown
    assert "surge.005 → harbour-edge4" in " ".join(shown.split())
    assert "2,000 of 2,000 deliveries" in shown


def test_nothing_wrong_is_no_failure() -> None:
    assert failures(REPORT) == []


@pytest.mark.parametrize(
    ("account", "burst", "said"),
    [
        ({"lost": 3}, {}, "3 messages lost"),
        ({"duplicated": 1}, {}, "1 messages duplicated"),
        ({"reordered": 2}, {}, "2 messages out of order"),
        ({"late_moved": 1}, {}, "beyond their requirement"),
        ({}, {"detected_s": None}, "not seen within 3 s"),
        ({}, {"relieved_s": 11.0}, "not relieved within 10 s"),
    ],
)
def test_what_went_wrong_is_said(account: dict[str, int], burst: dict[str, float | None], said: str) -> None:
    changed = msgspec.structs.replace(
        REPORT,
        account=msgspec.structs.replace(ACCOUNT, **account),
        bursts=(msgspec.structs.replace(BURST, **burst),),
    )
    (problem,) = failures(changed)
    assert said in problem
