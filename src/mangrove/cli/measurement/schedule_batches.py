"""Plays many seeded schedules with a progress bar and reports them: the same for every kind of schedule."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Protocol, TypeVar

import typer

from mangrove.cli.measurement.options import plain
from mangrove.cli.output import print_json, stderr_console
from mangrove.errors import EXIT_NEGATIVE

WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Processes to spread the schedules over; by default one a core.")
]


class Totals(Protocol):
    """What came of a batch."""

    @property
    def broken(self) -> Sequence[object]:
        """Schedules that broke a promise."""


T = TypeVar("T", bound=Totals)


def play_batch(
    experiment: str,
    run: Callable[[range, Callable[[Any], None], int], T],
    show: Callable[[T, int, float], None],
    seeds: range,
    workers: int | None,
    as_json: bool,
) -> None:
    """Play the schedules of these seeds; `show` gets their totals, the first seed and the minutes it took."""
    from rich.progress import Progress

    started = time.monotonic()
    with Progress(console=stderr_console(), transient=True) as progress:
        task = progress.add_task("schedules", total=len(seeds))
        totals = run(seeds, lambda _: progress.advance(task), workers or os.cpu_count() or 1)
    minutes = (time.monotonic() - started) / 60
    if as_json:
        print_json({"experiment": experiment, "seed": seeds.start, **plain(totals)})
    else:
        show(totals, seeds.start, minutes)
    if totals.broken:
        raise typer.Exit(EXIT_NEGATIVE)
