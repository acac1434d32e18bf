"""A backlog of very many subjects."""

from __future__ import annotations

import time

from mangrove.client.offline.backlog import Backlog
from mangrove.client.offline.kept import Kept
from mangrove.client.offline.urgency import NOT_URGENT

SUBJECTS = 100_000
MOST_S = 8.0
"""Of a processor: a twentieth of it is usual. Whoever looks at all subjects for each message needs forty."""


def test_a_hundred_thousand_subjects_are_sent_as_quickly_as_one() -> None:
    backlog = Backlog(1 << 30, 3_600.0, lambda _: NOT_URGENT)
    for number in range(2 * SUBJECTS):
        backlog.add(Kept(number, 0, f"sensor.{number % SUBJECTS}", b""))
    start_s = time.process_time()
    sent: list[int] = []
    while backlog.messages:
        subject = next(backlog.by_urgency())
        sent.append(backlog.take(subject).number)
        backlog.had_its_turn(subject)
        assert time.process_time() - start_s < MOST_S, f"{len(sent):,} were sent by then"
    assert sent == list(range(2 * SUBJECTS)), "in turns"
