"""Samples on their way to whoever collects them: each under a name of the catalogue, and not too many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar
from zlib import crc32

from mangrove.model.metrics.catalogue import CATALOGUE, Metric

MAX_LABEL = 200
"""Longer texts are cut: a topic may be of any length."""
OTHER = "all others"
"""No topic has a space in its name."""
MAX_REASONS = 40
"""Of a count by reason, so many are told apart."""

T = TypeVar("T")


class Sample(NamedTuple):
    """One value, told apart by the texts of its metric's labels."""

    labels: tuple[str, ...]
    value: float


class Families:
    """Gathers samples by metric. A second sample with the same labels replaces the first."""

    def __init__(self) -> None:
        self._samples: dict[str, dict[tuple[str, ...], float]] = {}
        self._omitted: dict[str, int] = {}

    def put(self, name: str, value: float | None, *labels: str) -> None:
        """Add a sample; None: there is nothing to tell."""
        metric = CATALOGUE[f"mangrove_{name}"]
        assert len(labels) == len(metric.labels), name
        if value is not None:
            self._samples.setdefault(metric.name, {})[tuple(map(_short, labels))] = float(value)

    def count_by(self, name: str, counts: dict[str, int], limit: int, *labels: str) -> None:
        """Add counts by a last label: the largest by themselves, the rest as `OTHER`."""
        ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        for label, count in ordered[:limit]:
            self.put(name, count, *labels, label)
        if ordered[limit:]:
            self.put(name, sum(count for _, count in ordered[limit:]), *labels, OTHER)

    def first(self, rows: Iterable[T], limit: int, kind: str) -> list[T]:
        """At most so many of the rows; the rest is counted."""
        found = list(rows)
        self._omitted[kind] = self._omitted.get(kind, 0) + max(0, len(found) - limit)
        return found[:limit]

    def __iter__(self) -> Iterator[tuple[Metric, list[Sample]]]:
        for kind, count in self._omitted.items():
            self.put("metrics_omitted_rows", count, kind)
        for name, metric in CATALOGUE.items():
            if name in self._samples:
                yield metric, [Sample(*each) for each in self._samples[name].items()]


def _short(label: str) -> str:
    """Cut, but still told apart from others that begin alike."""
    if len(label) <= MAX_LABEL:
        return label
    return f"{label[: MAX_LABEL - 9]}…{crc32(label.encode(errors='replace')):08x}"
