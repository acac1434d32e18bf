"""What is refused is counted each time, and told in measure."""

from __future__ import annotations

import logging

import pytest

from mangrove.gateway.trust.refusals import ONE_BY_ONE, REFUSED, Refusal, Refusals


def test_a_flood_is_counted_whole_and_told_in_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    audited: list[dict[str, object]] = []
    refusals = Refusals(lambda kind, **facts: audited.append({"kind": kind, **facts}))
    with caplog.at_level(logging.WARNING):
        for number in range(1000):
            refusals.note(Refusal.SLOW, f"192.0.2.{number % 20}:{number}", "no HELLO within 5 s")
        refusals.note(Refusal.NO_TLS, "192.0.2.99:1")
        refusals.flush()
        refusals.flush()
    assert refusals.counts == {Refusal.SLOW: 1000, Refusal.NO_TLS: 1}
    assert refusals.total == 1001
    assert len(caplog.records) == ONE_BY_ONE + 2
    assert sum(int(str(each["times"])) for each in audited) == 1001
    assert {each["kind"] for each in audited} == {REFUSED}
    assert len(str(audited[-1]["who"])) < 200


def test_after_a_while_each_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    with caplog.at_level(logging.WARNING):
        refusals.note(Refusal.SLOW, "192.0.2.1:1")
        refusals.flush()
        refusals.note(Refusal.SLOW, "192.0.2.1:2")
    assert ["192.0.2.1:1" in caplog.messages[0], "192.0.2.1:2" in caplog.messages[1]] == [True, True]
