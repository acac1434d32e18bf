"""Sums kept by day in a state, so that a run adds up only days that are new, changed, or asked for anew.

Sums of windows are additive. Those of a day are kept under a name that tells all they depend on: the parts of
the cube (each by the run that made it), the periods of that day, the window. A name that is there is right,
and nothing is ever overwritten; of the names of a day only the last few in use are kept.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from mangrove.lake.writer import appearing_whole
from mangrove.pipelines.rates.sums import Adder, Sums, collect_by_day
from mangrove.pipelines.reading.days import DAY_S
from mangrove.planning.problem.arrays import IntArray

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mangrove.pipelines.rates.peaks import Periods
    from mangrove.pipelines.reading.lake_scan import Part

VERSION = 2
KEPT_OF_A_DAY = 4
# Matrices of so many cells are brought to the driver at once.
COLLECTED_CELLS = 32_000_000


@dataclass(frozen=True, slots=True)
class DaySums:
    """The kept sums of one state. `runs` tells which run made a part of the cube."""

    directory: Path
    runs: Mapping[Part, int]

    def collect(self, cube: DataFrame, adder: Adder, parts: Mapping[int, frozenset[Part]]) -> Sums:
        """All sums of a cube whose days have blocks of these parts."""
        names = {day: f"{day}-{self._name(day, adder.periods, of_day)}.npz" for day, of_day in parts.items()}
        sums = Sums.none(len(adder.topics), len(adder.streams))
        missing = [day for day, name in sorted(names.items()) if not self._add(sums, adder, name)]
        at_once = max(1, COLLECTED_CELLS // max(len(adder.topics), 1) ** 2)
        for start in range(0, len(missing), at_once):
            days = missing[start : start + at_once]
            dates = sorted({part.date for day in days for part in parts[day]})
            on_days = f"floor(start_s / {DAY_S}) IN ({', '.join(map(str, days))})"
            found = collect_by_day(cube.where(cube["date"].isin(*dates)).where(on_days), adder)
            for day in days:
                _added(sums, found[day], np.arange(len(adder.topics)), np.arange(len(adder.streams)))
                self._keep(self.directory / names[day], found[day], adder)
        self._forget(names)
        return sums

    def _name(self, day: int, periods: Periods, parts: frozenset[Part]) -> str:
        begin_s, end_s = day * DAY_S, (day + 1) * DAY_S
        spans = [
            (max(start, begin_s), min(end, end_s))
            for start, end in zip(periods.starts_s, periods.ends_s, strict=True)
            if start < end_s and end > begin_s
        ]
        made_of = [(*part, self.runs.get(part, 0)) for part in sorted(parts)]
        text = json.dumps([VERSION, periods.window_s, spans, made_of])
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def _add(self, sums: Sums, adder: Adder, name: str) -> bool:
        """Add kept sums, if they are there and whole."""
        path = self.directory / name
        try:
            with path.open("rb") as file, np.load(file) as kept:
                arrays = {each: kept[each] for each in kept.files}
            os.utime(path)
        except (OSError, ValueError, EOFError, BadZipFile):
            return False
        numbers = {stream: number for number, stream in enumerate(adder.streams)}
        names = (tuple(name) for name in arrays.pop("names").tolist())
        there = np.array([numbers[name] for name in names], dtype=np.int64)
        _added(sums, Sums(**arrays), np.unique(adder.topic_of_stream[there]), there)
        return True

    def _keep(self, path: Path, sums: Sums, adder: Adder) -> None:
        """Write the sums of the streams that the day has, whole or not at all."""
        there = np.flatnonzero(sums.streams.any(axis=0))
        topics = np.unique(adder.topic_of_stream[there])
        with appearing_whole(path) as hidden, hidden.open("wb") as file:
            np.savez(
                file,
                names=np.array([adder.streams[each] for each in there], dtype=np.str_).reshape(-1, 3),
                gram=sums.gram[np.ix_(topics, topics)],
                total=sums.total[topics],
                most=sums.most[topics],
                streams=sums.streams[:, there],
                power=sums.power[topics],
                windows=np.int64(sums.windows),
            )

    def _forget(self, names: Mapping[int, str]) -> None:
        for day, name in names.items():
            others = [path for path in self.directory.glob(f"{day}-*.npz") if path.name != name]
            others.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
            for path in others[KEPT_OF_A_DAY - 1 :]:
                with suppress(OSError):
                    path.unlink()


def keepable(periods: Periods) -> bool:
    """Whether days are made of whole windows."""
    return DAY_S % periods.window_s == 0


def _added(sums: Sums, more: Sums, topics: IntArray, streams: IntArray) -> None:
    if len(topics) == len(sums.total):
        sums.gram += more.gram
    else:
        sums.gram[np.ix_(topics, topics)] += more.gram
    sums.total[topics] += more.total
    sums.power[topics] += more.power
    sums.most[topics] = np.maximum(sums.most[topics], more.most)
    sums.streams[:, streams] += more.streams
    sums.windows += int(more.windows)
