"""What a client knows of its domain's directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from mangrove.model.agents.directory import DirectoryRecord

MAX_RECORDS = 20_000


class DirectoryView(Mapping[str, DirectoryRecord]):
    """Records by topic, as pushed by the agent; of each the one of the latest epoch."""

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self._records: dict[str, DirectoryRecord] = {}
        self.ignored: Counter[str] = Counter()
        """Records that were not taken, by reason."""

    def __getitem__(self, topic: str) -> DirectoryRecord:
        return self._records[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def take(self, records: Iterable[DirectoryRecord]) -> list[DirectoryRecord]:
        """Take in what is new; those records. The agent tells all, this keeps what there is room for."""
        taken = []
        for record in records:
            known = self._records.get(record.topic)
            if record.domain != self._domain:
                self.ignored["other domain"] += 1
            elif known is not None and record.epoch <= known.epoch:
                if record != known:
                    self.ignored["older epoch"] += 1
            elif known is None and len(self._records) >= MAX_RECORDS:
                self.ignored["no room"] += 1
            else:
                self._records[record.topic] = record
                taken.append(record)
        return taken
