"""Plays many seeded schedules and reports them: the same for every kind of schedule."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mangrove.cli.measurement.options import conclude, failures, plain
from mangrove.cli.output import print_json
from mangrove.errors import EXIT_NEGATIVE

if TYPE_CHECKING:
    from mangrove.cli.measurement.trials.place import Place
    from mangrove.evaluation.trials.experiment import Experiment


class Totals(Protocol):
    """What came of a batch."""

    @property
    def broken(self) -> Sequence[object]:
        """Schedules that broke a promise."""

    def add(self, result: Any, /) -> None:
        """Count one schedule; the order does not matter."""


T = TypeVar("T", bound=Totals)


def play_batch(
    trials: Experiment[Any, Any],
    totals: T,
    show: Callable[[T, int, float], None],
    seeds: Sequence[int],
    place: Place,
    *,
    as_json: bool,
) -> None:
    """Play the schedules of these seeds; `show` gets their totals, the first seed and the minutes it took."""
    import typer

    started = time.monotonic()
    failed = place.play(trials, trials.tasks(seeds), lambda _, result: totals.add(result))
    minutes = (time.monotonic() - started) / 60
    lines = failures(failed)
    if as_json:
        print_json({"experiment": trials.name, "seed": seeds[0], **plain(totals), "failed": lines})
    else:
        show(totals, seeds[0], minutes)
    conclude(lines)
    if totals.broken:
        raise typer.Exit(EXIT_NEGATIVE)
