"""What the commands of `mangrove evaluate` share: seeds, pictures, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.output import print_json, stderr_console
from mangrove.errors import EXIT_NEGATIVE, InputError

if TYPE_CHECKING:
    from mangrove.evaluation.trials.experiment import Played

MAX_FAILURES_TOLD = 20

SeedsOption = Annotated[int, typer.Option("--seeds", help="Number of runs; each is a seed of its own.")]
SeedOption = Annotated[int, typer.Option("--seed", help="First seed; the others follow it.")]
PlotOption = Annotated[Path | None, typer.Option("--plot", help="Draw the result into this PNG file.")]


def seed_range(first: int, count: int) -> list[int]:
    """The seeds that two options ask for."""
    if count < 1 or first < 0:
        raise InputError(f"--seeds must be at least 1 and --seed at least 0, not {count} and {first}")
    return list(range(first, first + count))


def told(seeds: tuple[int, ...]) -> str:
    """Seeds in words."""
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


def plain(value: object) -> dict[str, object]:
    """A dataclass as JSON types."""
    import msgspec

    document = msgspec.to_builtins(value, str_keys=True)
    assert isinstance(document, dict)
    return document


def report(
    experiment: str,
    document: dict[str, object],
    missed: list[str],
    show: Callable[[], None],
    *,
    as_json: bool,
    failed: Sequence[Played] = (),
) -> None:
    """Give the result, for programs or for people, and end as `conclude` does. Failed trials are missed."""
    missed = missed + failures(failed)
    if as_json:
        print_json({"experiment": experiment, **document, "missed": missed})
    else:
        show()
    conclude(missed)


def failures(failed: Sequence[Played]) -> list[str]:
    """Trials that failed, in words; the whole story of the first goes to stderr."""
    if failed:
        stderr_console().print(failed[0].error.rstrip(), markup=False, soft_wrap=True)
    lines = [f"{one.task} failed: {one.reason}" for one in failed[:MAX_FAILURES_TOLD]]
    if len(failed) > MAX_FAILURES_TOLD:
        lines.append(f"{len(failed) - MAX_FAILURES_TOLD} more trials failed")
    return lines


def conclude(missed: list[str]) -> None:
    """Tell what did not come out as it should, and end with the exit code for that."""
    from rich.markup import escape

    for line in missed:
        stderr_console().print(f"[red]missed:[/red] {escape(line)}", soft_wrap=True)
    if missed:
        raise typer.Exit(EXIT_NEGATIVE)
