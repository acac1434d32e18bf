"""An experiment is a pure function of a setting and a seed; its results travel and rest as text.

The text is JSON as Python writes it: numbers come back bit for bit, and infinity and NaN have names. So a
trial gives the same bytes wherever it is played.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from mangrove.errors import InputError

Setting = TypeVar("Setting")
Result = TypeVar("Result")

MAIN = "main"
"""The name of the setting of an experiment that has only one, or that the others are variants of."""


class Task(NamedTuple):
    """One trial: the name of a setting, and a seed."""

    setting: str
    seed: int

    def __str__(self) -> str:
        where = "" if self.setting == MAIN else f"{self.setting}, "
        return f"{where}seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a task: the text of a result, or the story of an error."""

    task: Task
    text: str
    error: str = ""
    seconds: float = 0.0

    @property
    def reason(self) -> str:
        """The last line of the error."""
        return (self.error.strip().splitlines() or [""])[-1]


@dataclass(frozen=True)
class Player(Generic[Setting, Result]):
    """Plays tasks. It is sent to other processes, so the trial is a function at the top of a module."""

    trial: Callable[[Setting, int], Result]
    settings: Mapping[str, Setting]

    def __call__(self, task: Task) -> Played:
        began = time.perf_counter()
        try:
            text = to_text(self.trial(self.settings[task.setting], task.seed))
        except Exception:
            # Whatever goes wrong in one trial is told with its seed, and the others go on.
            return Played(task, "", traceback.format_exc(), time.perf_counter() - began)
        return Played(task, text, "", time.perf_counter() - began)


@dataclass(frozen=True)
class Experiment(Generic[Setting, Result]):
    """Trials under one or several settings, each of which has a name."""

    name: str
    trial: Callable[[Setting, int], Result]
    settings: Mapping[str, Setting]
    result: Any
    """The type of a result: `type[Result]`, or what stands for it, as `dict[str, Outcome]`."""
    together: Callable[[int], int] | None = None
    """Seeds that share something costly, which a process keeps: those of one number are played in a row."""

    @property
    def player(self) -> Player[Setting, Result]:
        """What plays its tasks."""
        return Player(self.trial, self.settings)

    @cached_property
    def identities(self) -> dict[str, str]:
        """A digest of each setting: what differs in anything has another."""
        return {
            name: hashlib.sha256(to_text(setting, sort=True).encode()).hexdigest()[:16]
            for name, setting in self.settings.items()
        }

    def read(self, text: str) -> Result:
        """A result from its text."""
        try:
            found: Result = msgspec.convert(json.loads(text), self.result, str_keys=True)
        except (ValueError, msgspec.ValidationError) as error:
            raise InputError(f"this is no result of `evaluate {self.name}`: {error}") from error
        return found

    def tasks(self, seeds: Iterable[int], settings: Sequence[str] | None = None) -> list[Task]:
        """All seeds under all settings, or some of them."""
        chosen = list(seeds)
        return [Task(name, seed) for name in (settings or self.settings) for seed in chosen]

    def in_order(self, tasks: Iterable[Task]) -> list[list[Task]]:
        """Tasks in the order in which they are best played: what goes together in one list.

        The lists are shuffled, always in the same way, so that long trials do not meet at the end.
        """
        groups: dict[tuple[str, int], list[Task]] = {}
        for number, task in enumerate(tasks):
            key = self.together(task.seed) if self.together is not None else number
            groups.setdefault((task.setting, key), []).append(task)
        order = list(groups.values())
        random.Random(self.name).shuffle(order)
        return order


def to_text(value: object, *, sort: bool = False) -> str:
    """A result or a setting as JSON text."""
    plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)
    return json.dumps(plain, sort_keys=sort, separators=(",", ":"), ensure_ascii=False)


def _plain(value: object) -> object:
    """What msgspec does not know: arrays, and graphs, which hold arrays."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    raise NotImplementedError(f"{type(value).__name__} in a setting or a result")
