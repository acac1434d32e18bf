"""Garbage does not fill the log."""

from __future__ import annotations

import logging

import pytest

from mangrove.monitor.web.noise import AT_ONCE, EVERY_S, Noise


def test_a_flood_of_complaints_is_a_few_short_lines(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    log = logging.getLogger("tests.noise")
    log.addFilter(Noise(lambda: now[0]))
    for _ in range(AT_ONCE + 7):
        try:
            raise ValueError("\x1b[31m" + "x" * 10_000)
        except ValueError:
            log.exception("a handler failed")
    assert len(caplog.records) == AT_ONCE
    assert all("\n" not in each.getMessage() and "\x1b" not in each.getMessage() for each in caplog.records)
    assert max(len(each.getMessage()) for each in caplog.records) < 500
    assert caplog.records[0].exc_info is None
    now[0] += EVERY_S
    log.warning("later")
    assert caplog.records[-1].getMessage() == "later (and 7 more were not logged)"
