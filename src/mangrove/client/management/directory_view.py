"""What a client knows of its domain's directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.topics import Mirror

MAX_RECORDS = 20_000
MAX_WITHDRAWN = 1_000
"""Topics withdrawn of late: what was said of them before may come after that."""


class DirectoryView(Mapping[str, DirectoryRecord]):
    """Records by topic, as pushed by the agent; of each the one of the latest epoch, if it is in force."""

    def __init__(self, domain: str, own: Callable[[str], bool]) -> None:
        """`own` tells whether a topic concerns this client: of such records none has to give way."""
        self._domain = domain
        self._own = own
        self._records: dict[str, DirectoryRecord] = {}
        self._withdrawn: dict[str, DirectoryRecord] = {}
        self.ignored: Counter[str] = Counter()
        """Records that were not taken, by reason."""

    def __getitem__(self, topic: str) -> DirectoryRecord:
        return self._records[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def take(self, records: Iterable[DirectoryRecord], *, asked: bool = False) -> list[DirectoryRecord]:
        """Take in what is new; those records, and those that have given way to them, as if withdrawn.

        The agent tells all, this keeps what there is room for; what was `asked` for and what concerns this
        client has room before anything else.
        """
        taken = []
        for record in records:
            topic = record.topic
            known = self._records.get(topic) or self._withdrawn.get(topic)
            if record.domain != self._domain:
                self.ignored["other domain"] += 1
            elif known is not None and record.epoch <= known.epoch:
                if record != known:
                    self.ignored["older epoch"] += 1
            elif not (record.edges or record.publish_at or record.mode):
                self._withdraw(record)
                taken.append(record)
            elif topic in self._records or len(self._records) < MAX_RECORDS:
                self._put(record)
                taken.append(record)
            elif (asked or self._own(topic)) and (oldest := self._give_way()) is not None:
                self._put(record)
                taken += [oldest, record]
            else:
                self.ignored["no room"] += 1
        return taken

    def _put(self, record: DirectoryRecord) -> None:
        self._withdrawn.pop(record.topic, None)
        self._records[record.topic] = record

    def _withdraw(self, record: DirectoryRecord) -> None:
        self._records.pop(record.topic, None)
        self._withdrawn.pop(record.topic, None)
        self._withdrawn[record.topic] = record
        if len(self._withdrawn) > MAX_WITHDRAWN:
            del self._withdrawn[next(iter(self._withdrawn))]

    def _give_way(self) -> DirectoryRecord | None:
        """Drop the oldest record that does not concern this client; None if all do."""
        for topic in list(self._records):
            record = self._records.pop(topic)
            if not self._own(topic):
                return msgspec.structs.replace(record, edges=(), publish_at="", mirror="", mode=Mirror.NONE)
            self._records[topic] = record  # so that it is not looked at again so soon
        return None
