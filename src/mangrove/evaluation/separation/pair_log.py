"""A line for every pair of the experiment on separated paths, as the log of the thesis's appendix 6.2 has it.

The thesis writes one file for each radius: identity, source, target, how often the paths stayed connected
with the primary alone and with each method, and how near the alternatives run. Here all radii are on one
line, and the paths themselves as well, so that any figure of the summary can be traced to its pairs.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from mangrove.errors import InputError

FORMATS = (".csv", ".jsonl")


@dataclass(frozen=True, slots=True)
class PairRecord:
    """One pair in one seed. `connected` counts, by radius, the regions that leave a path."""

    seed: int
    pair: int
    source: str
    target: str
    regions: int
    primary: tuple[str, ...]
    alternatives: Mapping[str, tuple[str, ...]]
    proximity: Mapping[str, float]
    stretch: Mapping[str, float]
    connected: Mapping[float, Mapping[str, int]]  # radius → "primary" or a method → regions

    def flat(self) -> dict[str, object]:
        """The same in columns, paths as names with ` > ` between them."""
        columns: dict[str, object] = {
            name: getattr(self, name) for name in ("seed", "pair", "source", "target", "regions")
        }
        columns["path_primary"] = " > ".join(self.primary)
        columns |= {f"path_{method}": " > ".join(path) for method, path in self.alternatives.items()}
        columns |= {f"proximity_{method}": f"{near:.6f}" for method, near in self.proximity.items()}
        columns |= {f"stretch_{method}": f"{stretch:.6f}" for method, stretch in self.stretch.items()}
        for radius, counts in self.connected.items():
            columns |= {f"connected_{method}_{radius:g}": count for method, count in counts.items()}
        return columns


class PairLog:
    """Writes records to a file as they come: CSV or a JSON document a line."""

    def __init__(self, stream: IO[str], suffix: str) -> None:
        self._stream = stream
        self._as_csv = suffix == ".csv"
        self._columns: csv.DictWriter[str] | None = None
        self.lines = 0

    def write(self, record: PairRecord) -> None:
        """One line; the first of a CSV file brings the heading with it."""
        self.lines += 1
        if not self._as_csv:
            self._stream.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")
            return
        row = record.flat()
        if self._columns is None:
            self._columns = csv.DictWriter(self._stream, list(row), lineterminator="\n")
            self._columns.writeheader()
        self._columns.writerow(row)


@contextmanager
def pair_log(file: Path) -> Iterator[PairLog]:
    """A log in a new file, its format told by the ending of the name."""
    if file.suffix not in FORMATS:
        raise InputError(f"cannot tell the format of {file}", hint=f"end its name in {' or '.join(FORMATS)}")
    try:
        stream = file.open("w", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {file}: {error.strerror}") from error
    with stream:
        yield PairLog(stream, file.suffix)
