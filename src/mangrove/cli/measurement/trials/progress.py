"""How far trials are: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from mangrove.cli.output import stderr_console

if TYPE_CHECKING:
    from mangrove.evaluation.trials.experiment import Played

LINE_EVERY_S = 30.0


class TrialProgress:
    """Trials done of all, how many a second, and how long the rest takes; those that were read count."""

    def __init__(self, total: int, already: int = 0) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.total, self.already = total, already
        self.played = self.failed = 0
        self._console = stderr_console()
        self._began = self._told = time.monotonic()
        columns = (TextColumn("trials"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rest]}"))
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task("trials", total=total, completed=already, rest="")

    def __enter__(self) -> TrialProgress:
        if self._console.is_terminal:
            self._bar.start()
        self._began = self._told = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def advance(self, one: Played) -> None:
        """One more is done."""
        self.played += 1
        self.failed += bool(one.error)
        now = time.monotonic()
        if self._console.is_terminal:
            self._bar.update(self._task, advance=1, rest=self.rest(now))
        elif now - self._told >= LINE_EVERY_S:
            self._told = now
            done = self.already + self.played
            self._console.print(f"{done} of {self.total} trials, {self.rest(now)}", highlight=False)

    def rest(self, now: float) -> str:
        """How many a second, how long the rest takes, and how many failed."""
        rate = self.played / max(now - self._began, 1e-9)
        left_s = (self.total - self.already - self.played) / rate
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{rate:.3g} a second, {duration(left_s)} left{failed}"


def duration(seconds: float) -> str:
    """A time in words, in two of its units at most."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
