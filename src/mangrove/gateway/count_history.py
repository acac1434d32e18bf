"""What was counted since any recent point: counts are cut into intervals, readers name the last they saw.

An answer to a reader is the sum of the intervals after its cursor. The cursor also carries the totals at its
point, so that whatever the kept intervals cannot tell any more is known at least as a sum.
"""

from __future__ import annotations

from collections import deque

from mangrove.gateway.tally import MAX_TOPICS, Tally
from mangrove.model.topic_counts import CountCursor, TopicCounts, TopicTotals

MAX_INTERVALS = 600
MAX_KEPT_TOPICS = 300_000
"""Counts by topic that are kept in all intervals together."""
ANSWER_BYTES = 600_000
"""Of topics in an answer; management brokers take messages of 1 MiB."""
TOTALS_BYTES = 1_050_000
"""Of topics in the totals: some ten thousand; they are sent packed, and once. Names of letters and signs that
follow no rule keep four fifths of their length, and still fit: else no topic would be told at all."""


class Interval:
    """What was counted between two cuts."""

    __slots__ = ("delivered", "dropped", "malformed_bodies", "sent")

    def __init__(self, max_topics: int = MAX_TOPICS) -> None:
        self.sent = Tally(max_topics)
        self.delivered = Tally(max_topics)
        self.dropped = Tally(max_topics)
        self.malformed_bodies = 0

    def __len__(self) -> int:
        return len(self.sent) + len(self.delivered) + len(self.dropped)

    def __bool__(self) -> bool:
        return bool(self.sent.total or self.delivered.total or self.dropped.total or self.malformed_bodies)

    def merge(self, more: Interval) -> None:
        """Add another interval to this one."""
        self.sent.merge(more.sent)
        self.delivered.merge(more.delivered)
        self.dropped.merge(more.dropped)
        self.malformed_bodies += more.malformed_bodies


class CountHistory:
    """The counts of one gateway process. Everything is added to `current`; the rest is for readers."""

    def __init__(
        self,
        domain: str,
        epoch: int,
        *,
        max_topics: int = MAX_TOPICS,
        max_intervals: int = MAX_INTERVALS,
        max_kept_topics: int = MAX_KEPT_TOPICS,
    ) -> None:
        self._domain = domain
        self._epoch = epoch
        self._max_topics = max_topics
        self._max_intervals = max_intervals
        self._max_kept_topics = max_kept_topics
        self._kept: deque[Interval] = deque()
        self._kept_topics = 0
        self._sequence = 0
        """Intervals cut so far; the last one in `_kept` has this number."""
        self.current = Interval(max_topics)
        self._before = Interval(max_topics)

    @property
    def totals(self) -> Interval:
        """Everything counted so far; of topics, the busiest."""
        self._cut()
        return self._before

    def so_far(self, uptime_s: float, *, budget_bytes: int = TOTALS_BYTES) -> TopicTotals:
        """Everything counted since the process started, within a size; busy topics are named first."""
        all_of = self.totals
        share = budget_bytes // 3
        return TopicTotals(
            domain=self._domain,
            epoch=self._epoch,
            uptime_s=uptime_s,
            sent=all_of.sent.report(all_of.sent.total, share),
            delivered=all_of.delivered.report(all_of.delivered.total, share),
            dropped=all_of.dropped.report(all_of.dropped.total, share),
        )

    def since(
        self, cursor: CountCursor | None, uptime_s: float, *, budget_bytes: int = ANSWER_BYTES
    ) -> TopicCounts:
        """What was counted after `cursor`. A cursor that this process cannot have made is as good as none.

        After a restart, everything that the new process counted is new to the reader.
        """
        self._cut()
        now = self._cursor(uptime_s)
        restarted = cursor is not None and cursor.epoch != self._epoch
        if restarted:
            cursor = CountCursor(epoch=self._epoch)
        nothing = TopicCounts(domain=self._domain, cursor=now, span_s=0.0)
        if cursor is None or not _precedes(cursor, now):
            return nothing
        found = Interval(self._max_topics)
        unseen = self._sequence - cursor.sequence
        for interval in list(self._kept)[-unseen:] if unseen else ():
            found.merge(interval)
        share = budget_bytes // 3
        counts = TopicCounts(
            domain=self._domain,
            cursor=now,
            span_s=uptime_s - cursor.uptime_s,
            restarted=restarted,
            sent=found.sent.report(now.sent - cursor.sent, share),
            delivered=found.delivered.report(now.delivered - cursor.delivered, share),
            dropped=found.dropped.report(now.dropped - cursor.dropped, share),
            malformed_bodies=now.malformed_bodies - cursor.malformed_bodies,
        )
        consistent = min(tally.other for tally in (counts.sent, counts.delivered, counts.dropped)) >= 0
        return counts if consistent else nothing

    def _cut(self) -> None:
        """End the current interval, if anything happened in it."""
        if not self.current:
            return
        self._before.merge(self.current)
        self._kept.append(self.current)
        self._kept_topics += len(self.current)
        self._sequence += 1
        self.current = Interval(self._max_topics)
        while len(self._kept) > self._max_intervals or (
            self._kept_topics > self._max_kept_topics and len(self._kept) > 1
        ):
            self._kept_topics -= len(self._kept.popleft())

    def _cursor(self, uptime_s: float) -> CountCursor:
        return CountCursor(
            epoch=self._epoch,
            sequence=self._sequence,
            uptime_s=uptime_s,
            sent=self._before.sent.total,
            delivered=self._before.delivered.total,
            dropped=self._before.dropped.total,
            malformed_bodies=self._before.malformed_bodies,
        )


def _precedes(earlier: CountCursor, later: CountCursor) -> bool:
    """Whether a cursor may be an earlier point of the same process: it came from outside."""
    return earlier.epoch == later.epoch and all(
        0 <= getattr(earlier, name) <= getattr(later, name)
        for name in ("sequence", "uptime_s", "sent", "delivered", "dropped", "malformed_bodies")
    )
