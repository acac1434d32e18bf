"""What became of every message, topic by topic: pure counting over what was said, heard and dropped.

Each message is due once at every subscriber of its topic. It arrived, or was withheld by its publisher, or a
process that dropped it has counted it under its topic, with the reason. What is missing beyond that is lost:
nobody can say what became of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from mangrove.model.status import Drop
from mangrove.testbed.accounting import Figures, Record, Span, figures
from mangrove.testbed.tsunami.centres import DEADLINES_MS, TIGHTER_DEADLINE_MS, Flow, Kind, Reader
from mangrove.testbed.tsunami.workers import Heard, Said


class Stretch(msgspec.Struct, frozen=True):
    """A phase, and whether the tighter contracts were in force in it."""

    span: Span
    tightened: bool


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the messages of one kind that were sent in one phase."""

    due: int
    delivered: int
    in_time: int


class TopicAccount(msgspec.Struct, frozen=True, kw_only=True):
    """All deliveries of a topic; `due` is the sum of all that follows but `in_time` and `duplicated`."""

    topic: str
    kind: Kind
    due: int
    """Once for each message that was to be said and each subscriber."""
    delivered: int
    withheld: dict[str, int]
    """Not sent by the publisher, by reason."""
    dropped: dict[str, int]
    """Counted by gateways and clients that dropped it, by reason."""
    lost: int
    """Nobody can say what became of it. Below 0: more is counted as dropped than is missing."""
    in_time: int
    duplicated: int
    sent: int
    """Messages, not deliveries."""
    copies_dropped: int = 0
    """Of a topic that goes several ways: dropped on one of them, and arrived by another."""

    @property
    def explained(self) -> bool:
        """Whether the account adds up, and nothing came twice."""
        return self.lost == 0 and self.duplicated == 0


class Ledger:
    """What publishers and subscribers noted, brought together."""

    def __init__(
        self, flows: Sequence[Flow], readers: Sequence[Reader], said: Sequence[Said], heard: Sequence[Heard]
    ) -> None:
        self._flows = flows
        self._readers = readers
        self._said = said
        self._heard = heard
        self._records = [
            (flow, _record(number, said[number], heard[place]))
            for number, flow in enumerate(flows)
            for place, reader in enumerate(readers)
            if reader.topic == flow.topic
        ]

    def share(self, kind: Kind, stretch: Stretch) -> Share:
        """What became of what was sent in a phase."""
        rows = [_figures(flow, record, stretch) for flow, record in self._records if flow.kind is kind]
        return Share(
            due=sum(row.sent for row in rows),
            delivered=sum(row.delivered for row in rows),
            in_time=sum(row.delivered - row.late for row in rows),
        )

    def accounts(
        self, stretches: Sequence[Stretch], drops: Mapping[str, Iterable[Drop]]
    ) -> tuple[TopicAccount, ...]:
        """Every topic; `stretches` follow each other, and `drops` are those of the sites' gateways."""
        topics = dict.fromkeys(flow.topic for flow in self._flows)
        return tuple(self._account(topic, stretches, drops) for topic in topics)

    def _account(
        self, topic: str, stretches: Sequence[Stretch], drops: Mapping[str, Iterable[Drop]]
    ) -> TopicAccount:
        numbers = [number for number, flow in enumerate(self._flows) if flow.topic == topic]
        places = [place for place, reader in enumerate(self._readers) if reader.topic == topic]
        rows = [
            _figures(flow, record, stretch)
            for stretch in stretches
            for flow, record in self._records
            if flow.topic == topic
        ]
        withheld: Counter[str] = Counter()
        for number in numbers:
            for reason, count in self._said[number].withheld.items():
                withheld[reason] += count * len(places)
        flow = self._flows[numbers[0]]
        dropped = self._dropped(flow, drops)
        for place in places:
            dropped.update(self._heard[place].left_out)
        sent = sum(row.sent for row in rows)
        missing = sum(row.lost for row in rows)
        lost = missing - dropped.total()
        # Of what goes several ways each copy that ends is counted, and the message arrives all the same.
        copies = max(0, -lost) if flow.kind is Kind.ALERT else 0
        return TopicAccount(
            topic=topic,
            kind=flow.kind,
            due=sent + withheld.total(),
            delivered=sum(row.delivered for row in rows),
            withheld=dict(withheld),
            dropped=dict(dropped) if not copies else ({} if not missing else {"counted": missing}),
            lost=lost + copies,
            in_time=sum(row.delivered - row.late for row in rows),
            duplicated=sum(row.duplicated for row in rows),
            sent=sum(len(self._said[number].sent_ns) for number in numbers),
            copies_dropped=copies,
        )

    def _dropped(self, flow: Flow, drops: Mapping[str, Iterable[Drop]]) -> Counter[str]:
        """Deliveries that gateways prevented: the publisher's all those elsewhere, others those at home."""
        found: Counter[str] = Counter()
        listening = Counter(reader.site for reader in self._readers if reader.topic == flow.topic)
        elsewhere = listening.total() - listening[flow.site]
        for site, counted in drops.items():
            concerned = elsewhere if site == flow.site or not listening[site] else listening[site]
            for drop in counted:
                if drop.topic == flow.topic:
                    found[drop.reason] += drop.count * concerned
        return found


def _record(number: int, said: Said, heard: Heard) -> Record:
    flows, numbers, times = (
        np.array(each, dtype=np.int64) for each in (heard.flows, heard.numbers, heard.times_ns)
    )
    mine = flows == number
    return Record(np.array(said.sent_ns, dtype=np.int64), numbers[mine], times[mine])


def _figures(flow: Flow, record: Record, stretch: Stretch) -> Figures:
    tighter = stretch.tightened and flow.kind is Kind.ALERT
    return figures(record, stretch.span, TIGHTER_DEADLINE_MS if tighter else DEADLINES_MS[flow.kind])
