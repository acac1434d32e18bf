"""Results of trials in a directory, as Parquet: written as they come, so that a run can be taken up again.

A file appears whole or not at all: it is written under a hidden name, flushed to the disk, and renamed. What
is in no file was not played. `experiment.json` says of which experiment, settings and version the results
are; a run with others is refused, since its results would not belong together.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from mangrove import __version__
from mangrove.errors import InputError, MangroveError, system_words
from mangrove.evaluation.trials.experiment import Experiment, Played, Task, to_text
from mangrove.evaluation.trials.source_code import code_digest

FORMAT = 1
MANIFEST = "experiment.json"
LOCK = ".lock"
PREFIX, SUFFIX = "trials-", ".parquet"
MAX_KEPT = 2_000
MAX_KEPT_S = 10.0
"""So many results, or those of so many seconds, are lost at most when the machine stops."""

SCHEMA = pa.schema(
    [
        ("experiment", pa.string()),
        ("setting", pa.string()),
        ("settings_hash", pa.string()),
        ("code", pa.string()),
        ("seed", pa.int64()),
        ("seconds", pa.float64()),
        ("result", pa.string()),
    ]
)


@dataclass
class ResultsDirectory:
    """The results that are there, and those that are added. Made by `results_directory`, which owns it."""

    path: Path
    experiment: Experiment[Any, Any]
    found: dict[Task, str] = field(default_factory=dict)
    """The texts of the results that were there when it was opened."""
    damaged: list[str] = field(default_factory=list)
    """Files that could not be read; their trials are played again."""
    codes: set[str] = field(default_factory=set)
    """Digests of the code that the results that were found come from."""
    _kept: list[Played] = field(default_factory=list)
    _flushed_at: float = field(default_factory=time.monotonic)
    _number: int = 0

    def read(self) -> None:
        """Everything that was finished before."""
        identities = self.experiment.identities
        for file in sorted(self.path.glob(f"{PREFIX}*{SUFFIX}")):
            number = file.name.removeprefix(PREFIX).removesuffix(SUFFIX)
            self._number = max(self._number, int(number) if number.isdigit() else 0)
            try:
                rows = pq.read_table(file, columns=SCHEMA.names).to_pylist()
            except (OSError, pa.ArrowException) as error:
                self.damaged.append(f"{file.name}: {str(error).splitlines()[0][:120]}")
                continue
            for row in rows:
                if identities.get(row["setting"]) == row["settings_hash"]:
                    self.found.setdefault(Task(row["setting"], row["seed"]), row["result"])
                    self.codes.add(row["code"])

    def add(self, played: Iterable[Played]) -> None:
        """Keep results, and write them when there are many, or some have waited."""
        self._kept += played
        if len(self._kept) >= MAX_KEPT or time.monotonic() - self._flushed_at >= MAX_KEPT_S:
            self.flush()

    def flush(self) -> None:
        """Write what is kept; what the disk refuses is kept on, for the next time."""
        self._flushed_at = time.monotonic()
        kept = list(self._kept)
        if not kept:
            return
        columns = {
            "experiment": [self.experiment.name] * len(kept),
            "setting": [one.task.setting for one in kept],
            "settings_hash": [self.experiment.identities[one.task.setting] for one in kept],
            "code": [code_digest()] * len(kept),
            "seed": [one.task.seed for one in kept],
            "seconds": [one.seconds for one in kept],
            "result": [one.text for one in kept],
        }
        self._number += 1
        try:
            with _appearing(self.path / f"{PREFIX}{self._number:06}{SUFFIX}") as hidden:
                pq.write_table(pa.table(columns, schema=SCHEMA), hidden, compression="zstd")
        except OSError as error:
            raise MangroveError(
                f"--results: {len(kept)} results cannot be written to {self.path}: {system_words(error)}",
                hint="see that there is room and that this user may write there, and run the same command"
                " again: what was written before is not played again",
            ) from error
        del self._kept[: len(kept)]


@contextmanager
def results_directory(path: Path, experiment: Experiment[Any, Any]) -> Iterator[ResultsDirectory]:
    """Open or begin a directory; what was added is written at the end, also after an error or Ctrl-C."""
    with ExitStack() as stack:
        try:
            path.mkdir(parents=True, exist_ok=True)
            _lock(stack.enter_context((path / LOCK).open("w")), path)
            _claim(path, experiment)
            directory = ResultsDirectory(path, experiment)
            directory.read()
        except OSError as error:
            raise InputError(
                f"--results: cannot make or use {path}: {system_words(error)}",
                hint="give a directory that this user may write",
            ) from error
        try:
            yield directory
        finally:
            directory.flush()


def _lock(file: IO[str], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(
            f"--results: another run is writing to {path}", hint="wait for it, or give another directory"
        ) from None


def _claim(path: Path, experiment: Experiment[Any, Any]) -> None:
    """Check that a directory is of this experiment, or make it so when it is new."""
    manifest = path / MANIFEST
    ours = {
        "format": FORMAT,
        "version": __version__,
        "experiment": experiment.name,
        "identities": experiment.identities,
    }
    if not manifest.exists():
        others = sorted(each.name for each in path.iterdir() if not each.name.startswith("."))
        if others:
            raise InputError(
                f"--results: {path} holds other files, such as {others[0]}", hint="give a new directory"
            )
        settings = {name: json.loads(to_text(value)) for name, value in experiment.settings.items()}
        with _appearing(manifest) as hidden:
            hidden.write_text(json.dumps({**ours, "settings": settings}, indent=2) + "\n", encoding="utf-8")
        return
    try:
        theirs = json.loads(manifest.read_text(encoding="utf-8"))
        differences = [name for name, value in ours.items() if theirs[name] != value]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"--results: cannot read {manifest}: {error}", hint="give a new directory") from None
    if differences:
        raise InputError(_refusal(path, differences[0], theirs, ours), hint=_remedy(differences[0]))


def _refusal(path: Path, what: str, theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    if what != "identities":
        word = {"format": "results in format", "version": "results of version", "experiment": "results of"}
        return f"--results: {path} holds {word[what]} {theirs[what]}, not {ours[what]}"
    names = [
        name for name in {**theirs[what], **ours[what]} if theirs[what].get(name) != ours[what].get(name)
    ]
    return f"--results: {path} holds results of other settings ({', '.join(names[:3])})"


def _remedy(what: str) -> str:
    if what == "identities":
        return f"give the options it was begun with (see {MANIFEST} there), or another directory"
    return "give another directory"


@contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    """A hidden file to write, which then takes its name; nothing is left when that fails."""
    hidden = path.with_name(f".{path.name}.part")
    try:
        yield hidden
        with hidden.open("rb") as written:
            os.fsync(written.fileno())
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)
