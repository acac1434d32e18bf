"""Who makes a process say the same thing again and again does not fill its log."""

from __future__ import annotations

import logging

from mangrove.host.log_limit import BURST, MAX_WORDINGS, LogLimit


def lines(limit: LogLimit, count: int, wording: str = "refused %s") -> list[str]:
    written = []
    for number in range(count):
        record = logging.LogRecord("gateway", logging.WARNING, "", 0, wording, (number,), None)
        if limit.filter(record):
            written.append(record.getMessage())
    return written


def test_a_flood_of_one_wording_is_left_out_and_told() -> None:
    now = [0.0]
    limit = LogLimit(lambda: now[0])
    assert len(lines(limit, 100_000)) == BURST
    assert len(lines(limit, 1, "another %s")) == 1, "others go on"
    now[0] = 10.0
    assert lines(limit, 1) == [f"refused 0 ({100_000 - BURST} lines like this one were left out)"]
    now[0] = 1e6
    assert len(lines(limit, 10)) == 10


def test_what_is_remembered_is_bounded() -> None:
    limit = LogLimit(lambda: 0.0)
    for number in range(3 * MAX_WORDINGS):
        lines(limit, 1, f"wording {number} %s")
    assert len(limit._left) <= MAX_WORDINGS
